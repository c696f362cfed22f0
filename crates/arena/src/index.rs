//! The owner's walk through a table's buckets.
//!
//! A key's home is one bucket of two cache lines: a control word and fifteen entries. An entry stands preferably in the line that
//! bit 16 of the hash picks, else in the other, else in an overflow bucket linked from the control word. While the table grows a
//! key lives in its home in the old array until that bucket has been emptied, then in its home in the new one: always exactly one.

use crate::cell::key_is;
use crate::layout::{Array, BUCKET_WORDS, control_link, entry_offset, table};
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

/// The words of the line that a hash prefers, as bits: 1 to 7, or 8 to 15.
#[inline]
pub(crate) fn preferred(hash: u64) -> u32 {
    let line = (1 << LINE_WORDS) - 1;
    if hash & 1 << 16 == 0 { line & !1 } else { line << LINE_WORDS }
}

/// Bit i is set if the tag in word i is this hash's. Only a hint where to look: an empty entry has a tag, too.
#[inline(always)]
pub(crate) fn candidates(words: &[AtomicU64], hash: u64) -> u32 {
    tags::bucket(words, hash as u16) & 0xfffe
}

/// Words in a line.
pub(crate) const LINE_WORDS: usize = BUCKET_WORDS / 2;

/// Where in the bucket the line that a hash prefers begins, in bytes.
#[inline(always)]
pub(crate) fn preferred_line(hash: u64) -> u64 {
    (hash >> 16 & 1) * 8 * LINE_WORDS as u64
}

/// The candidates in the preferred line, as bits of the line; a control word is none.
#[inline(always)]
pub(crate) fn line_candidates(line: &[AtomicU64], hash: u64) -> u32 {
    tags::line(line, hash as u16) & !u32::from(hash & 1 << 16 == 0)
}

/// The candidates in the preferred line, as bits of the bucket.
#[inline(always)]
pub(crate) fn preferred_candidates(words: &[AtomicU64], hash: u64) -> u32 {
    let line = (preferred_line(hash) / 8) as usize;
    match words.get(line..line + LINE_WORDS) {
        Some(words) => line_candidates(words, hash) << line,
        None => 0,
    }
}

#[cfg(all(target_arch = "x86_64", not(miri), not(model)))]
mod tags {
    //! The tags of a line in a dozen instructions. The loads are assembly because Rust has no relaxed vector load; to the
    //! language they are the eight relaxed loads that they replace, and their result is a hint.
    use super::{AtomicU64, BUCKET_WORDS};
    use std::arch::{asm, x86_64::*};

    /// The tags of eight words, as eight 16-bit lanes, compared: 0 or -1.
    #[inline(always)]
    fn compare(words: &[AtomicU64], tag: u16) -> __m128i {
        assert!(words.len() >= 8);
        let (a, b, c, d): (__m128, __m128, __m128, __m128);
        // SAFETY: reads the 64 bytes of `words`; SSE2 belongs to the architecture. Unaligned loads, so alignment is no matter.
        unsafe {
            asm!(
                "movups {a}, [{p}]",
                "movups {b}, [{p} + 16]",
                "movups {c}, [{p} + 32]",
                "movups {d}, [{p} + 48]",
                p = in(reg) words.as_ptr(),
                a = out(xmm_reg) a,
                b = out(xmm_reg) b,
                c = out(xmm_reg) c,
                d = out(xmm_reg) d,
                options(nostack, preserves_flags, readonly),
            );
            // The upper halves of the words, their upper halves, and these as 16-bit lanes.
            let low = _mm_srai_epi32::<16>(_mm_castps_si128(_mm_shuffle_ps::<0b11_01_11_01>(a, b)));
            let high = _mm_srai_epi32::<16>(_mm_castps_si128(_mm_shuffle_ps::<0b11_01_11_01>(c, d)));
            _mm_cmpeq_epi16(_mm_packs_epi32(low, high), _mm_set1_epi16(tag as i16))
        }
    }

    #[inline(always)]
    pub fn line(words: &[AtomicU64], tag: u16) -> u32 {
        let same = compare(words, tag);
        // SAFETY: SSE2.
        unsafe { _mm_movemask_epi8(_mm_packs_epi16(same, _mm_setzero_si128())) as u32 }
    }

    #[inline(always)]
    pub fn bucket(words: &[AtomicU64], tag: u16) -> u32 {
        assert!(words.len() >= BUCKET_WORDS);
        let (first, second) = (compare(words, tag), compare(&words[8..], tag));
        // SAFETY: SSE2.
        unsafe { _mm_movemask_epi8(_mm_packs_epi16(first, second)) as u32 }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri), not(model))))]
mod tags {
    use super::{AtomicU64, BUCKET_WORDS, Ordering};

    pub fn line(words: &[AtomicU64], tag: u16) -> u32 {
        let mut mask = 0;
        for (i, word) in words.iter().enumerate().take(BUCKET_WORDS) {
            mask |= u32::from(word.load(Ordering::Relaxed) >> 48 == u64::from(tag)) << i;
        }
        mask
    }

    pub fn bucket(words: &[AtomicU64], tag: u16) -> u32 {
        line(words, tag)
    }
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
    let words = bucket(region, home);
    let mut mask = preferred_candidates(words, hash);
    while mask != 0 {
        let i = mask.trailing_zeros() as usize;
        mask &= mask - 1;
        let entry = words[i & (BUCKET_WORDS - 1)].load(Ordering::Relaxed);
        if entry != 0 && key_is(region, entry_offset(entry), key) {
            return Some(Slot { at: home + 8 * i as u64, entry });
        }
    }
    find_anywhere(region, home, hash, key)
}

fn find_anywhere(region: &Region, home: u64, hash: u64, key: &[u8]) -> Option<Slot> {
    let mut offset = home;
    loop {
        let words = bucket(region, offset);
        let mut mask = candidates(words, hash);
        while mask != 0 {
            let i = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let entry = words[i & (BUCKET_WORDS - 1)].load(Ordering::Relaxed);
            if entry != 0 && key_is(region, entry_offset(entry), key) {
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
