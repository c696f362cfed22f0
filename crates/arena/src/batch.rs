//! Reads in batches: the misses of many keys overlap.
//!
//! Three passes: fetch the buckets; find the candidate entries and fetch their cells; read. The first two only warm the cache and
//! believe nothing; the third is the ordinary read. A batch may span regions.

use crate::Busy;
use crate::index::{candidates, preferred};
use crate::layout::{BUCKET_WORDS, Table, entry_offset};
use crate::reader::{Answer, Reader};
use crate::sync::Ordering;

/// One read of a batch.
#[derive(Copy, Clone)]
pub struct Get<'a> {
    /// The region.
    pub reader: &'a Reader,
    /// The table in it.
    pub table: Table,
    /// The key's hash.
    pub hash: u64,
    /// The key.
    pub key: &'a [u8],
}

/// Keys in flight at once; more would push each other out of the line-fill buffers.
const WIDTH: usize = 16;

/// Reads all of them: values appended to `out`, answers to `answers`, in order.
pub fn read_many(gets: &[Get<'_>], out: &mut Vec<u8>, answers: &mut Vec<Result<Answer, Busy>>) {
    answers.reserve(gets.len());
    for group in gets.chunks(WIDTH) {
        let mut homes = [0; WIDTH];
        for (get, home) in group.iter().zip(&mut homes) {
            *home = get.reader.home(get.table, get.hash).unwrap_or(0);
            get.reader.region.prefetch(*home);
            get.reader.region.prefetch(*home + 64);
        }
        for (get, &home) in group.iter().zip(&homes) {
            let Some(words) = get.reader.region.try_words(home, BUCKET_WORDS) else { continue };
            let mask = candidates(words, get.hash);
            let mask = if mask & preferred(get.hash) != 0 { mask & preferred(get.hash) } else { mask };
            if mask != 0 {
                let entry = words[mask.trailing_zeros() as usize].load(Ordering::Relaxed);
                for line in 0..(entry & 15).clamp(1, 4) {
                    get.reader.region.prefetch(entry_offset(entry) + 64 * line);
                }
            }
        }
        for get in group {
            answers.push(get.reader.read_witnessed(get.table, get.hash, get.key, out));
        }
    }
}

impl Reader {
    /// Where a hash is at home, to be fetched; nothing more.
    #[inline]
    fn home(&self, t: Table, hash: u64) -> Option<u64> {
        use crate::layout::{Array, superblock, table};
        let at = if t == Table::ROOT { superblock::ROOT_AT } else { t.offset() };
        let words = self.region.try_words(at, table::WORDS)?;
        let old = Array(words[table::OLD].load(Ordering::Relaxed));
        if old.0 != 0 && old.home(hash) >= words[table::FRONTIER].load(Ordering::Relaxed) {
            return Some(old.bucket_offset(old.home(hash)));
        }
        let current = Array(words[table::CURRENT].load(Ordering::Relaxed));
        Some(current.bucket_offset(current.home(hash)))
    }

    /// [`read_many`] of keys of the root table.
    pub fn read_many(
        &self,
        keys: &[(u64, &[u8])],
        out: &mut Vec<u8>,
        answers: &mut Vec<Result<Answer, Busy>>,
    ) {
        let gets: Vec<Get<'_>> =
            keys.iter().map(|&(hash, key)| Get { reader: self, table: Table::ROOT, hash, key }).collect();
        read_many(&gets, out, answers);
    }
}
