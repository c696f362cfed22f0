//! Bytes to and from 8-byte atomics, little-endian.

use crate::sync::{AtomicU64, Ordering};

/// Copies words, each of them whole, in no promised order.
#[cfg(not(loom))]
#[inline]
pub(crate) fn copy_words(from: &[AtomicU64], into: &[AtomicU64]) {
    for (from, into) in from.iter().zip(into) {
        into.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Copies the first bytes held by words.
#[cfg(not(loom))]
#[inline]
pub(crate) fn copy_out(words: &[AtomicU64], into: &mut [u8]) {
    let mut chunks = into.chunks_exact_mut(8);
    let mut words = words.iter();
    for (into, word) in chunks.by_ref().zip(&mut words) {
        into.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
    }
    let rest = chunks.into_remainder();
    if let (false, Some(word)) = (rest.is_empty(), words.next()) {
        let length = rest.len();
        rest.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes()[..length]);
    }
}

/// Copies bytes into words; the rest of the last word becomes zero.
#[inline]
pub(crate) fn copy_in(words: &[AtomicU64], from: &[u8]) {
    for (word, from) in words.iter().zip(from.chunks(8)) {
        let mut bytes = [0; 8];
        bytes[..from.len()].copy_from_slice(from);
        word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
    }
}

/// Appends the first `count` bytes held by words; the caller has bounded `count`.
#[inline]
pub(crate) fn append(words: &[AtomicU64], count: usize, out: &mut Vec<u8>) {
    out.reserve(words.len() * 8);
    let end = out.len() + count;
    for word in words {
        out.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
    }
    out.truncate(end);
}
