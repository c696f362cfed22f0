//! The owner's walk through a table's buckets.
//!
//! A key's home is one bucket of two cache lines: a control word and fifteen entries. An entry stands preferably in the line that
//! bit 16 of the hash picks, else in the other, else in an overflow bucket linked from the control word. While the table grows a
//! key lives in its home in the old array until that bucket has been emptied, then in its home in the new one: always exactly one.

use crate::cell::key_is;
use crate::layout::{Array, BUCKET_WORDS, control_link, entry_matches, entry_offset, table};
use crate::region::Region;
use crate::sync::{AtomicU64, Ordering};

/// A table's descriptor, as the owner sees it.
#[derive(Copy, Clone)]
pub(crate) struct Descriptor {
    pub offset: u64,
    pub current: Array,
    pub old: Array,
}

impl Descriptor {
    #[inline]
    pub fn load(region: &Region, offset: u64) -> Descriptor {
        let words = region.words(offset, table::WORDS);
        Descriptor {
            offset,
            current: Array(words[table::CURRENT].load(Ordering::Relaxed)),
            old: Array(words[table::OLD].load(Ordering::Relaxed)),
        }
    }
    #[inline]
    pub fn word(&self, region: &Region, which: usize) -> u64 {
        region.load(self.offset + 8 * which as u64, Ordering::Relaxed)
    }
    #[inline]
    pub fn set(&self, region: &Region, which: usize, value: u64, order: Ordering) {
        region.store(self.offset + 8 * which as u64, value, order);
    }
    #[inline]
    pub fn growing(&self) -> bool {
        self.old.0 != 0
    }
    #[inline]
    pub fn frontier(&self, region: &Region) -> u64 {
        self.word(region, table::FRONTIER)
    }
    /// Byte offset of the home bucket of a hash.
    #[inline]
    pub fn home(&self, region: &Region, hash: u64) -> u64 {
        if self.growing() {
            let bucket = self.old.home(hash);
            if bucket >= self.frontier(region) {
                return self.old.bucket_offset(bucket);
            }
        }
        self.current.bucket_offset(self.current.home(hash))
    }
}

/// The words of a bucket.
#[inline]
pub(crate) fn bucket(region: &Region, offset: u64) -> &[AtomicU64] {
    region.words(offset, BUCKET_WORDS)
}

/// The words of the line that a hash prefers: 1 to 7, or 8 to 15.
#[inline]
pub(crate) fn preferred(hash: u64) -> u32 {
    if hash & 1 << 16 == 0 { 0x00fe } else { 0xff00 }
}

/// Bit i is set if the entry in word i could be for this hash.
#[inline]
pub(crate) fn candidates(words: &[AtomicU64], hash: u64) -> u32 {
    let mut mask = 0;
    for (i, word) in words.iter().enumerate().take(BUCKET_WORDS).skip(1) {
        mask |= u32::from(entry_matches(word.load(Ordering::Relaxed), hash)) << i;
    }
    mask
}

/// Bit i is set if word i holds no entry.
#[inline]
pub(crate) fn vacancies(words: &[AtomicU64]) -> u32 {
    let mut mask = 0;
    for (i, word) in words.iter().enumerate().take(BUCKET_WORDS).skip(1) {
        mask |= u32::from(word.load(Ordering::Relaxed) == 0) << i;
    }
    mask
}

/// Where an entry is.
#[derive(Copy, Clone)]
pub(crate) struct Slot {
    /// Byte offset of the entry.
    pub at: u64,
    pub entry: u64,
}

/// The entry of a key in the chain that starts at `home`.
#[inline]
pub(crate) fn find(region: &Region, home: u64, hash: u64, key: &[u8]) -> Option<Slot> {
    let mut offset = home;
    loop {
        let words = bucket(region, offset);
        let mut mask = candidates(words, hash);
        while mask != 0 {
            let i = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let entry = words[i].load(Ordering::Relaxed);
            if key_is(region, entry_offset(entry), key) {
                return Some(Slot { at: offset + 8 * i as u64, entry });
            }
        }
        offset = control_link(words[0].load(Ordering::Relaxed));
        if offset == 0 {
            return None;
        }
    }
}

/// A vacant word in the chain (its byte offset), or the chain's last bucket.
#[inline]
pub(crate) fn vacancy(region: &Region, home: u64, hash: u64) -> Result<u64, u64> {
    let mut offset = home;
    loop {
        let words = bucket(region, offset);
        let mask = vacancies(words);
        if mask != 0 {
            let best = if mask & preferred(hash) != 0 { mask & preferred(hash) } else { mask };
            return Ok(offset + 8 * u64::from(best.trailing_zeros()));
        }
        let next = control_link(words[0].load(Ordering::Relaxed));
        if next == 0 {
            return Err(offset);
        }
        offset = next;
    }
}

/// Calls `f` with each entry of a chain, and where it is.
pub(crate) fn for_each_in_chain(region: &Region, home: u64, f: &mut dyn FnMut(Slot)) {
    let mut offset = home;
    while offset != 0 {
        let words = bucket(region, offset);
        for (i, word) in words.iter().enumerate().skip(1) {
            let entry = word.load(Ordering::Relaxed);
            if entry != 0 {
                f(Slot { at: offset + 8 * i as u64, entry });
            }
        }
        offset = control_link(words[0].load(Ordering::Relaxed));
    }
}
