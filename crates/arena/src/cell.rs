//! Writing a cell, and looking at one from the owner's side.
//!
//! ```text
//! +0  w0        sequence 24 | kind 8 | flags 8 | key length 8 | value length 16
//! +8  ts        commit timestamp
//! +16 link      0 = current; 1 = look in the index; else the cell that replaced this one, with its generation
//! +24           extensions in the order of their flags: WORDS 32, LONG 8, EXPIRE 8, SEQ 8, TXN 8
//!     key       padded to 8 with zeros
//!     value     padded, so that the last word's upper half is the CRC-32C
//! ```
//!
//! The checksum covers `w0`, `ts`, the extensions but WORDS, the key and the value: everything that does not change after
//! publication. Lengths share a word with the sequence, so they cannot be torn from it.

use crate::layout::{Kind, PLAIN_MASK, Ref, SEQ_MASK, Shape, cell, current_link, flag, plain};
use crate::region::{Region, le_word, words_equal};
use crate::sync::{AtomicU64, Ordering, Safeguard, fence, kept};

/// A cell to be published.
#[derive(Copy, Clone, Debug)]
pub struct NewCell<'a> {
    /// What it holds.
    pub kind: Kind,
    /// Its key; in a sub-table, the subkey.
    pub key: &'a [u8],
    /// Its value, in parts that are joined.
    pub value: &'a [&'a [u8]],
    /// Commit timestamp.
    pub ts: u64,
    /// Second half of the version order; 0 costs nothing.
    pub seq: u32,
    /// Expiry in milliseconds of the Unix epoch; 0 = none, and costs nothing.
    pub expire_at_ms: u64,
    /// The record of the multi-key transaction that wrote this version.
    pub txn: Option<Ref>,
    /// Four words that may change after publication; they are not in the checksum.
    pub words: Option<[u64; 4]>,
}

impl Default for NewCell<'_> {
    fn default() -> Self {
        NewCell {
            kind: Kind::String,
            key: &[],
            value: &[],
            ts: 0,
            seq: 0,
            expire_at_ms: 0,
            txn: None,
            words: None,
        }
    }
}

impl NewCell<'_> {
    /// The shape without a sequence, or `None` if the layout cannot hold it.
    #[inline]
    pub(crate) fn shape(&self) -> Option<Shape> {
        let key_len = self.key.len();
        let value_len: usize = self.value.iter().map(|part| part.len()).sum();
        let long = key_len > 0xff || value_len > 0xffff;
        if long && (key_len > u32::MAX as usize || value_len > u32::MAX as usize) {
            return None;
        }
        let mut flags = 0;
        flags |= if self.words.is_some() { flag::WORDS } else { 0 };
        flags |= if long { flag::LONG } else { 0 };
        flags |= if self.expire_at_ms != 0 { flag::EXPIRE } else { 0 };
        flags |= if self.seq != 0 { flag::SEQ } else { 0 };
        flags |= if self.txn.is_some() { flag::TXN } else { 0 };
        let mut w0 = (self.kind as u64) << 24 | flags << 32;
        if !long {
            w0 |= (key_len as u64) << 40 | (value_len as u64) << 48;
        }
        Some(Shape { w0, key_len, value_len })
    }

    /// Writes the cell into a free place. Readers who come by see an odd sequence, or a changed one.
    #[inline]
    pub(crate) fn write(&self, region: &Region, offset: u64, odd_seq: u64, shape: Shape) -> Ref {
        let words = region.words(offset, shape.words());
        let seq = odd_seq.wrapping_add(1) & SEQ_MASK;
        let w0 = shape.w0 | seq;
        if kept(Safeguard::OddFirst) {
            words[cell::W0].store(shape.w0 | odd_seq, Ordering::Relaxed);
        }
        if kept(Safeguard::WriterFence) {
            fence(Ordering::Release);
        }
        words[cell::TS].store(self.ts, Ordering::Relaxed);
        words[cell::LINK].store(current_link(seq), Ordering::Relaxed);
        let mut sum = Checksum::new(w0, self.ts);
        let mut at = cell::FIXED;
        if shape.flags() != 0 {
            if let Some(mutable) = self.words {
                for word in mutable {
                    words[at].store(word, Ordering::Relaxed);
                    at += 1;
                }
            }
            let long = shape.key_len as u64 | (shape.value_len as u64) << 32;
            let extensions = [
                (flag::LONG, long),
                (flag::EXPIRE, self.expire_at_ms),
                (flag::SEQ, u64::from(self.seq)),
                (flag::TXN, self.txn.map_or(0, Ref::to_raw)),
            ];
            for (which, word) in extensions {
                if shape.flags() & which != 0 {
                    words[at].store(word, Ordering::Relaxed);
                    sum.word(word);
                    at += 1;
                }
            }
        }
        debug_assert_eq!(at, shape.key_at());
        let value_at = shape.value_at();
        let mut filler = Filler::new(&words[at..value_at]);
        filler.push(self.key);
        filler.finish();
        sum.bytes(self.key);
        let mut filler = Filler::new(&words[value_at..]);
        for part in self.value {
            filler.push(part);
            sum.bytes(part);
        }
        filler.finish_with(sum.value());
        words[cell::W0].store(w0, Ordering::Release);
        Ref::new(offset, seq)
    }
}

/// CRC-32C over a cell's immutable parts, in the order of the layout.
pub(crate) struct Checksum(u32);

impl Checksum {
    #[inline]
    pub fn new(w0: u64, ts: u64) -> Checksum {
        let mut head = [0; 16];
        head[..8].copy_from_slice(&w0.to_le_bytes());
        head[8..].copy_from_slice(&ts.to_le_bytes());
        let mut sum = Checksum(0);
        sum.bytes(&head);
        sum
    }
    #[inline]
    pub fn word(&mut self, word: u64) {
        self.bytes(&word.to_le_bytes());
    }
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        if !cfg!(loom) {
            self.0 = crc32c::crc32c_append(self.0, bytes);
        }
    }
    #[inline]
    pub fn value(&self) -> u32 {
        self.0
    }
}

/// Joins byte strings into words.
struct Filler<'a> {
    words: &'a [AtomicU64],
    at: usize,
    pending: u64,
    held: usize,
}

impl<'a> Filler<'a> {
    #[inline]
    fn new(words: &'a [AtomicU64]) -> Self {
        Filler { words, at: 0, pending: 0, held: 0 }
    }
    #[inline]
    fn put(&mut self, word: u64) {
        self.words[self.at].store(word, Ordering::Relaxed);
        self.at += 1;
    }
    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        if self.held == 0 {
            let count = bytes.len() / 8;
            for (word, chunk) in self.words[self.at..self.at + count].iter().zip(chunks.by_ref()) {
                word.store(le_word(chunk), Ordering::Relaxed);
            }
            self.at += count;
            self.pending = le_word(chunks.remainder());
            self.held = chunks.remainder().len();
            return;
        }
        let shift = 8 * self.held;
        for chunk in chunks.by_ref() {
            let word = le_word(chunk);
            self.put(self.pending | word << shift);
            self.pending = word >> (64 - shift);
        }
        let rest = chunks.remainder();
        let word = le_word(rest);
        self.pending |= word << shift;
        self.held += rest.len();
        if self.held >= 8 {
            self.put(self.pending);
            self.held -= 8;
            self.pending = if self.held == 0 { 0 } else { word >> (64 - shift) };
        }
    }
    #[inline]
    fn finish(mut self) {
        if self.held > 0 {
            self.put(self.pending);
        }
    }
    #[inline]
    fn finish_with(mut self, sum: u32) {
        if self.held > 4 {
            self.put(self.pending);
            self.pending = 0;
        }
        self.put(self.pending | u64::from(sum) << 32);
        debug_assert_eq!(self.at, self.words.len());
    }
}

/// The shape of a cell that the owner knows to be whole.
#[inline]
pub(crate) fn shape_at(region: &Region, offset: u64) -> Shape {
    let w0 = region.load(offset, Ordering::Relaxed);
    if Shape::flags_of(w0) & flag::LONG == 0 {
        return Shape::short(w0);
    }
    let at = crate::layout::extension_at(Shape::flags_of(w0), flag::LONG) as u64;
    Shape::long(w0, region.load(offset + 8 * at, Ordering::Relaxed))
}

/// Whether a cell that the owner knows to be whole has this key.
#[inline]
pub(crate) fn key_is(region: &Region, offset: u64, key: &[u8]) -> bool {
    let w0 = region.load(offset, Ordering::Relaxed);
    if w0 & PLAIN_MASK == plain(key.len()) {
        return words_equal(region.words(offset + 8 * cell::FIXED as u64, key.len().div_ceil(8)), key);
    }
    let shape = shape_at(region, offset);
    shape.key_len == key.len()
        && words_equal(region.words(offset + 8 * shape.key_at() as u64, key.len().div_ceil(8)), key)
}

/// A published cell, borrowed in place.
#[derive(Copy, Clone)]
pub struct CellView<'a> {
    region: &'a Region,
    offset: u64,
    shape: Shape,
}

impl<'a> CellView<'a> {
    #[inline]
    pub(crate) fn new(region: &'a Region, offset: u64) -> CellView<'a> {
        CellView { region, offset, shape: shape_at(region, offset) }
    }
    #[inline]
    fn load(&self, word: usize) -> u64 {
        self.region.load(self.offset + 8 * word as u64, Ordering::Relaxed)
    }
    #[inline]
    fn extension(&self, which: u64) -> u64 {
        self.shape.extension(which).map_or(0, |at| self.load(at))
    }
    /// What it holds.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.shape.kind().unwrap_or(Kind::Tombstone)
    }
    /// Its key; in a sub-table, the subkey.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        self.region.bytes(self.offset + 8 * self.shape.key_at() as u64, self.shape.key_len)
    }
    /// Its value.
    #[inline]
    pub fn value(&self) -> &'a [u8] {
        self.region.bytes(self.offset + 8 * self.shape.value_at() as u64, self.shape.value_len)
    }
    /// Commit timestamp.
    #[inline]
    pub fn ts(&self) -> u64 {
        self.load(cell::TS)
    }
    /// Second half of the version order.
    #[inline]
    pub fn seq(&self) -> u32 {
        self.extension(flag::SEQ) as u32
    }
    /// Expiry in milliseconds of the Unix epoch; 0 = none.
    #[inline]
    pub fn expire_at_ms(&self) -> u64 {
        self.extension(flag::EXPIRE)
    }
    /// The record of the multi-key transaction that wrote this version.
    #[inline]
    pub fn txn(&self) -> Option<Ref> {
        self.shape.extension(flag::TXN).map(|at| Ref::from_raw(self.load(at)))
    }
    /// The cell and its generation.
    #[inline]
    pub fn cell(&self) -> Ref {
        Ref::new(self.offset, self.shape.seq())
    }
    /// The mutable words; zeros if it has none.
    #[inline]
    pub fn words(&self) -> [u64; 4] {
        match self.shape.extension(flag::WORDS) {
            Some(at) => std::array::from_fn(|i| self.load(at + i)),
            None => [0; 4],
        }
    }
}

impl std::fmt::Debug for CellView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CellView").field("cell", &self.cell()).field("shape", &self.shape).finish()
    }
}
