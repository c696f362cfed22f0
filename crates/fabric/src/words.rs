//! Bytes to and from 8-byte atomics, little-endian.

use crate::sync::{AtomicU64, Ordering};

/// Copies words, each of them whole, in no promised order.
#[cfg(not(model))]
#[inline]
pub(crate) fn copy_words(from: &[AtomicU64], into: &[AtomicU64]) {
    for (from, into) in from.iter().zip(into) {
        into.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Copies the first bytes held by words.
#[inline]
pub(crate) fn copy_out(words: &[AtomicU64], into: &mut [u8]) {
    let (whole, rest) = into.as_chunks_mut::<8>();
    for (into, word) in whole.iter_mut().zip(words) {
        *into = word.load(Ordering::Relaxed).to_le_bytes();
    }
    if let (false, Some(word)) = (rest.is_empty(), words.get(whole.len())) {
        let length = rest.len();
        rest.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes()[..length]);
    }
}

/// Copies bytes into words; the rest of the last word becomes zero.
#[inline]
pub(crate) fn copy_in(words: &[AtomicU64], from: &[u8]) {
    let (whole, rest) = from.as_chunks::<8>();
    for (word, from) in words.iter().zip(whole) {
        word.store(u64::from_le_bytes(*from), Ordering::Relaxed);
    }
    if let (false, Some(word)) = (rest.is_empty(), words.get(whole.len())) {
        let mut bytes = [0; 8];
        bytes[..rest.len()].copy_from_slice(rest);
        word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
    }
}

/// Appends the first `count` bytes held by words; the caller has bounded `count`.
#[inline]
pub(crate) fn append(words: &[AtomicU64], count: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + count, 0);
    copy_out(words, &mut out[start..]);
}
