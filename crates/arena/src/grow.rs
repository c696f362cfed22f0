//! Growth, shrinking and dropping, a few buckets at a time.
//!
//! A table that is resized has two arrays. Buckets of the old one are emptied in order into the new one; because the order of
//! buckets is the order of hashes in any size, "emptied" is one number, the frontier. Emptying one bucket: every entry is stored in
//! the new array (release), the frontier moves, the old entries become 0, and the old bucket's change counter moves, so that a
//! reader who was in it does not take its emptiness for an answer. No cell is touched but to hash its key again.

use crate::cell::shape_at;
use crate::heap::Use;
use crate::index::{self, Descriptor};
use crate::layout::{
    Array, BUCKET, LOOK_IN_INDEX, MAX_CODE, SLOTS, Table, cell, control_bump, control_link,
    control_with_link, entry_offset, grow_at, superblock, table,
};
use crate::owner::Arena;
use crate::region::Region;
use crate::sync::{Ordering, Safeguard, kept};

/// A table whose cells are being freed.
pub(crate) struct DropJob {
    /// Its descriptor, to be freed last; 0 if it goes on with other arrays (the root after a flush).
    descriptor: u64,
    arrays: [Array; 2],
    which: usize,
    bucket: u64,
}

impl DropJob {
    pub fn descriptor(&self) -> u64 {
        self.descriptor
    }
    /// The arrays not yet freed, each with its first bucket that is not.
    pub fn remaining(&self) -> impl Iterator<Item = (Array, u64)> + '_ {
        let first = |i| if i == self.which { self.bucket } else { 0 };
        (self.which..2).map(move |i| (self.arrays[i], first(i))).filter(|(array, _)| array.0 != 0)
    }
}

/// The hash of a cell's key.
#[inline]
pub(crate) fn hash_of(region: &Region, offset: u64) -> u64 {
    let shape = shape_at(region, offset);
    let at = offset + 8 * shape.key_at() as u64;
    if cfg!(model) {
        let mut key = Vec::new();
        crate::region::append(region.words(at, shape.key_len.div_ceil(8)), shape.key_len, &mut key);
        return crate::hash(&key);
    }
    crate::hash(region.bytes(at, shape.key_len))
}

impl Arena {
    #[inline]
    pub(crate) fn after_insert(&mut self, t: Table, d: Descriptor, count: u64) {
        if d.growing() {
            self.advance(t, 2);
        } else if count > grow_at(d.current.code()) && d.current.code() < MAX_CODE {
            self.resize(t, d, d.current.code() + 1);
        }
    }

    #[inline]
    pub(crate) fn after_remove(&mut self, t: Table, d: Descriptor, count: u64) {
        if d.growing() {
            self.advance(t, 2);
            return;
        }
        let code = d.current.code();
        let least = if t == Table::ROOT { self.initial_code } else { 0 };
        if code > least + 3 && count < grow_at(code) / 8 {
            self.resize(t, d, code - 3);
        }
    }

    /// Begins to replace the array. Does nothing where there is no memory for it: the chains grow instead.
    #[cold]
    fn resize(&mut self, t: Table, d: Descriptor, code: u64) {
        let bytes = Array::new(0, code, 0).bytes();
        let Some(offset) = self.heap.take_array(&self.region, bytes) else { return };
        let new = Array::new(offset, code, d.current.changes() + 1);
        d.set(&self.region, table::FRONTIER, 0, Ordering::Release);
        d.set(&self.region, table::OLD, d.current.0, Ordering::Release);
        d.set(&self.region, table::CURRENT, new.0, Ordering::Release);
        self.growing.push_back(t);
    }

    /// Empties up to `buckets` buckets of the old array.
    pub(crate) fn advance(&mut self, t: Table, buckets: u64) {
        let Some(d) = self.descriptor(t).filter(Descriptor::growing) else { return };
        let all = d.old.buckets();
        let first = d.frontier(&self.region);
        let end = all.min(first + buckets);
        for bucket in first..end {
            if bucket + 2 < all {
                self.region.prefetch(d.old.bucket_offset(bucket + 2));
                self.region.prefetch(d.old.bucket_offset(bucket + 2) + 64);
            }
            if bucket + 1 < all {
                let region = &self.region;
                for word in index::bucket(region, d.old.bucket_offset(bucket + 1)).iter().skip(1) {
                    region.prefetch(entry_offset(word.load(Ordering::Relaxed)));
                }
            }
            if !self.empty_bucket(&d, bucket) {
                return;
            }
        }
        if end == all {
            d.set(&self.region, table::OLD, 0, Ordering::Release);
            self.heap.retire(d.old.offset(), d.old.bytes(), Use::Index);
        }
    }

    fn empty_bucket(&mut self, d: &Descriptor, bucket: u64) -> bool {
        let region = self.region.clone();
        let home = d.old.bucket_offset(bucket);
        let mut moving = std::mem::take(&mut self.scratch);
        moving.clear();
        index::for_each_in_chain(&region, home, &mut |slot| {
            moving.push((slot.entry, hash_of(&region, entry_offset(slot.entry))));
        });
        while self.spare.len() < moving.len().div_ceil(SLOTS) {
            match self.heap.take_array(&region, BUCKET) {
                Some(spare) => self.spare.push(spare),
                None => {
                    self.scratch = moving;
                    return false;
                }
            }
        }
        if !kept(Safeguard::InsertBeforeClear) {
            index::for_each_in_chain(&region, home, &mut |slot| region.store(slot.at, 0, Ordering::Release));
        }
        for &(entry, hash) in &moving {
            let target = d.current.bucket_offset(d.current.home(hash));
            let place = index::vacancy(&region, target, hash);
            let overflow = if place.is_err() { self.spare.pop().unwrap_or_default() } else { 0 };
            debug_assert!(place.is_ok() || overflow != 0);
            self.enter(target, place, overflow, entry);
        }
        self.scratch = moving;
        d.set(&region, table::FRONTIER, bucket + 1, Ordering::Release);
        let mut chain = home;
        while chain != 0 {
            let words = index::bucket(&region, chain);
            for word in &words[1..] {
                word.store(0, Ordering::Release);
            }
            let next = control_link(words[0].load(Ordering::Relaxed));
            if chain != home {
                self.heap.retire(chain, BUCKET, Use::Index);
            }
            chain = next;
        }
        // The chain is cut off and the change counted in one store.
        let control = region.load(home, Ordering::Relaxed);
        region.store(home, control_bump(control_with_link(control, 0)), Ordering::Release);
        true
    }

    pub(crate) fn step_growth(&mut self, buckets: u64) {
        for _ in 0..self.growing.len().min(16) {
            let Some(t) = self.growing.pop_front() else { return };
            self.advance(t, buckets);
            if self.descriptor(t).is_some_and(|d| d.growing()) {
                self.growing.push_back(t);
            }
        }
    }

    /// Drops a table and all its cells. Small ones are freed at once, large ones in [`Arena::tick`].
    pub fn drop_table(&mut self, t: Table) {
        if t == Table::ROOT {
            return;
        }
        let Some(d) = self.descriptor(t) else { return };
        let (previous, next) = (d.word(&self.region, table::PREVIOUS), d.word(&self.region, table::NEXT));
        self.region.store(previous + 8 * table::NEXT as u64, next, Ordering::Relaxed);
        if next != 0 {
            self.region.store(next + 8 * table::PREVIOUS as u64, previous, Ordering::Relaxed);
        }
        // From here on no reader gets in: the descriptor's sequence is odd.
        let w0 = d.word(&self.region, table::W0);
        d.set(&self.region, table::W0, w0 | 1, Ordering::Release);
        self.drops.push_back(DropJob {
            descriptor: d.offset,
            arrays: [d.old, d.current],
            which: 0,
            bucket: 0,
        });
        self.step_drops(256);
    }

    /// Removes everything from the root and drops all tables; cells are freed in [`Arena::tick`]. Transaction records stay: their
    /// owner frees them.
    pub fn flush(&mut self) {
        let root = superblock::ROOT_AT;
        loop {
            let next = self.region.load(root + 8 * table::NEXT as u64, Ordering::Relaxed);
            if next == 0 {
                break;
            }
            let w0 = self.region.load(next, Ordering::Relaxed);
            self.drop_table(Table(crate::layout::Ref::new(next, w0).to_raw()));
        }
        let d = Descriptor::load(&self.region, root);
        let bytes = Array::new(0, self.initial_code, 0).bytes();
        let flushes = d.word(&self.region, table::FLUSHES) + 1;
        let fresh = self.heap.take_array(&self.region, bytes);
        if let Some(array) = fresh {
            let new = Array::new(array, self.initial_code, d.current.changes() + 1);
            d.set(&self.region, table::FLUSHES, flushes, Ordering::Release);
            d.set(&self.region, table::CURRENT, new.0, Ordering::Release);
            d.set(&self.region, table::OLD, 0, Ordering::Release);
            d.set(&self.region, table::COUNT, 0, Ordering::Relaxed);
            self.drops.push_back(DropJob { descriptor: 0, arrays: [d.old, d.current], which: 0, bucket: 0 });
            self.step_drops(1024);
        } else {
            self.flush_in_place(d);
        }
    }

    /// Without memory for a fresh array: every entry goes, one by one, and the arrays stay.
    #[cold]
    fn flush_in_place(&mut self, d: Descriptor) {
        let region = self.region.clone();
        let flushes = d.word(&region, table::FLUSHES) + 1;
        d.set(&region, table::FLUSHES, flushes, Ordering::Release);
        for array in [d.old, d.current].into_iter().filter(|a| a.0 != 0) {
            for bucket in 0..array.buckets() {
                index::for_each_in_chain(&region, array.bucket_offset(bucket), &mut |slot| {
                    region.store(slot.at, 0, Ordering::Release);
                    self.retire_cell(entry_offset(slot.entry));
                });
            }
        }
        d.set(&region, table::COUNT, 0, Ordering::Relaxed);
    }

    fn retire_cell(&mut self, offset: u64) {
        let bytes = 8 * shape_at(&self.region, offset).words() as u64;
        self.region.store(offset + 8 * cell::LINK as u64, LOOK_IN_INDEX, Ordering::Release);
        self.heap.retire(offset, bytes, Use::Cell);
    }

    /// Frees about `budget` cells of dropped tables.
    pub(crate) fn step_drops(&mut self, budget: usize) {
        let region = self.region.clone();
        let mut left = budget as i64;
        while left > 0 {
            let Some(job) = self.drops.front_mut() else { return };
            if job.which == 2 {
                let descriptor = job.descriptor;
                self.drops.pop_front();
                if descriptor != 0 {
                    self.heap.retire(descriptor, 8 * table::WORDS as u64, Use::Cell);
                }
                continue;
            }
            let array = job.arrays[job.which];
            if array.0 == 0 || job.bucket == array.buckets() {
                job.which += 1;
                job.bucket = 0;
                if array.0 != 0 {
                    self.heap.retire(array.offset(), array.bytes(), Use::Index);
                }
                continue;
            }
            let mut chain = array.bucket_offset(job.bucket);
            let home = chain;
            job.bucket += 1;
            left -= 2;
            index::for_each_in_chain(&region, home, &mut |slot| {
                self.retire_cell(entry_offset(slot.entry));
                left -= 1;
            });
            while chain != 0 {
                let next = control_link(region.load(chain, Ordering::Relaxed));
                if chain != home {
                    self.heap.retire(chain, BUCKET, Use::Index);
                }
                chain = next;
            }
        }
    }
}
