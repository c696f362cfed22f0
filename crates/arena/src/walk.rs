//! Scanning, visiting all, and picking at random.
//!
//! The order of buckets is the order of the hashes' top 32 bits whatever the size of the array, so a cursor is simply a position in
//! that order: everything before it has been visited. It stays right while the table grows, shrinks or is half way between, which
//! gives the guarantee of Redis's SCAN (what is there from beginning to end is returned at least once) and more: nothing is
//! returned twice, unless it was removed and made anew.

use crate::cell::CellView;
use crate::grow::hash_of;
use crate::index::{self, Descriptor};
use crate::layout::{Array, SLOTS, Table, control_link, entry_offset};
use crate::owner::Arena;
use crate::sync::Ordering;

impl Arena {
    /// Visits one bucket from `cursor` on and answers the cursor of the next; begins at 0, and 0 is also the end.
    /// A cursor is below 2^32. Any number is accepted.
    pub fn scan(&self, t: Table, cursor: u64, f: &mut dyn FnMut(CellView<'_>)) -> u64 {
        let Some(d) = self.descriptor(t) else { return 0 };
        if cursor >= 1 << 32 {
            return 0;
        }
        let frontier = if d.growing() { d.frontier(&self.region) } else { 0 };
        let unmoved = if d.growing() { d.old.start_of(frontier) } else { 1 << 32 };
        let (array, end) = if cursor >= unmoved {
            (d.old, d.old.start_of(d.old.home(cursor << 32) + 1))
        } else {
            (d.current, d.current.start_of(d.current.home(cursor << 32) + 1).min(unmoved))
        };
        let home = array.bucket_offset(array.home(cursor << 32));
        index::for_each_in_chain(&self.region, home, &mut |slot| {
            let offset = entry_offset(slot.entry);
            let position = hash_of(&self.region, offset) >> 32;
            if (cursor..end).contains(&position) {
                f(CellView::new(&self.region, offset));
            }
        });
        if end >= 1 << 32 { 0 } else { end }
    }

    /// Visits every cell of a table.
    pub fn for_each(&self, t: Table, f: &mut dyn FnMut(CellView<'_>)) {
        let Some(d) = self.descriptor(t) else { return };
        self.for_each_bucket(&d, &mut |home| {
            index::for_each_in_chain(&self.region, home, &mut |slot| {
                f(CellView::new(&self.region, entry_offset(slot.entry)));
            });
        });
    }

    pub(crate) fn for_each_bucket(&self, d: &Descriptor, f: &mut dyn FnMut(u64)) {
        if d.growing() {
            for bucket in d.frontier(&self.region)..d.old.buckets() {
                f(d.old.bucket_offset(bucket));
            }
        }
        for bucket in 0..d.current.buckets() {
            f(d.current.bucket_offset(bucket));
        }
    }

    /// A cell picked by the random number `r`. Every slot of the index is as likely as any other; an empty one is thrown again.
    pub fn random(&self, t: Table, r: u64) -> Option<CellView<'_>> {
        let d = self.descriptor(t)?;
        if self.len(t) == 0 {
            return None;
        }
        let mut state = r;
        let mut next = || {
            // splitmix64
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        for _ in 0..256 {
            let draw = next();
            let mut home = d.home(&self.region, draw);
            let mut slot = (draw as u32 % (SLOTS as u32 + 1)) as usize;
            // One draw in sixteen goes on into the overflow buckets, if there are any.
            while slot == 0 && home != 0 {
                home = control_link(self.region.load(home, Ordering::Relaxed));
                slot = (next() as u32 % (SLOTS as u32 + 1)) as usize;
            }
            if home == 0 {
                continue;
            }
            let entry = index::bucket(&self.region, home)[slot].load(Ordering::Relaxed);
            if entry != 0 {
                return Some(CellView::new(&self.region, entry_offset(entry)));
            }
        }
        self.first_from(&d, next())
    }

    /// The first cell at or after a position, round the end: for tables so empty that luck does not help.
    fn first_from(&self, d: &Descriptor, hash: u64) -> Option<CellView<'_>> {
        let first_in = |array: Array, bucket: u64| {
            let mut found = None;
            index::for_each_in_chain(&self.region, array.bucket_offset(bucket), &mut |slot| {
                found.get_or_insert(entry_offset(slot.entry));
            });
            found
        };
        [d.old, d.current].into_iter().filter(|array| array.0 != 0).find_map(|array| {
            let (start, count) = (array.home(hash), array.buckets());
            let found = (start..count).chain(0..start).find_map(|bucket| first_in(array, bucket))?;
            Some(CellView::new(&self.region, found))
        })
    }
}
