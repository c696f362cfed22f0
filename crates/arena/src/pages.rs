//! Runs of pages: what slabs, large arrays and large cells are cut from.
//!
//! Best fit over the free runs, neighbours joined, a high-water mark behind them. Free pages are always zero, so that a new array needs
//! no clearing: a run is given back to the system when it is freed, or, where the region's seal forbids that (decision 12), zeroed. All of
//! this is the owner's private memory; a reader needs none of it.

use crate::layout::PAGE;
use crate::region::Region;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) struct Pages {
    total: u64,
    top: u64,
    free: BTreeMap<u64, u64>,
    by_length: BTreeSet<(u64, u64)>,
    used: u64,
}

impl Pages {
    pub fn new(region: &Region) -> Pages {
        Pages {
            total: region.len() / PAGE,
            top: 1,
            free: BTreeMap::new(),
            by_length: BTreeSet::new(),
            used: 1,
        }
    }

    /// Pages in use, the superblock's among them.
    pub fn used(&self) -> u64 {
        self.used
    }

    pub fn top(&self) -> u64 {
        self.top
    }

    /// The free runs below the high-water mark, for the invariant check.
    pub fn free_runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.free.iter().map(|(&start, &count)| (start, count))
    }

    /// The first page of a run of zeroed pages.
    pub fn take(&mut self, count: u64) -> Option<u64> {
        let start = if let Some(&(length, start)) = self.by_length.range((count, 0)..).next() {
            self.by_length.remove(&(length, start));
            self.free.remove(&start);
            if length > count {
                self.insert(start + count, length - count);
            }
            start
        } else {
            let start = self.top;
            self.top = start.checked_add(count).filter(|&top| top <= self.total)?;
            start
        };
        self.used += count;
        Some(start)
    }

    /// Takes a run back, and clears it.
    pub fn give(&mut self, region: &Region, start: u64, count: u64) {
        region.clear(start * PAGE, count * PAGE);
        self.used -= count;
        let (mut start, mut count) = (start, count);
        if let Some((&before, &length)) = self.free.range(..start).next_back()
            && before + length == start
        {
            self.remove(before, length);
            start = before;
            count += length;
        }
        if let Some(&length) = self.free.get(&(start + count)) {
            self.remove(start + count, length);
            count += length;
        }
        if start + count == self.top {
            self.top = start;
        } else {
            self.insert(start, count);
        }
    }

    fn insert(&mut self, start: u64, count: u64) {
        self.free.insert(start, count);
        self.by_length.insert((count, start));
    }

    fn remove(&mut self, start: u64, count: u64) {
        self.free.remove(&start);
        self.by_length.remove(&(count, start));
    }
}
