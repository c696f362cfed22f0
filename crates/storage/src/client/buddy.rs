//! Places in a connection's data area: a buddy allocator over pages.
//!
//! A place is a power of two of pages, aligned to its size; two free halves of the same whole become the whole again. The area is at
//! most a few thousand pages, so ordered sets of free places are small.

use std::collections::BTreeSet;

/// Bytes of the smallest place.
pub const PAGE: u64 = 4096;

/// The free places, by order: `free[k]` holds places of 2^k pages.
#[derive(Debug)]
pub struct Buddy {
    free: Vec<BTreeSet<u64>>,
}

fn order_of(bytes: u64) -> usize {
    bytes.max(1).div_ceil(PAGE).next_power_of_two().trailing_zeros() as usize
}

impl Buddy {
    /// Over an area whose size is a power of two of pages.
    pub fn new(bytes: u64) -> Buddy {
        let orders = (bytes / PAGE).max(1).ilog2() as usize;
        let mut free = vec![BTreeSet::new(); orders + 1];
        free[orders].insert(0);
        Buddy { free }
    }

    /// The offset of a place of at least so many bytes.
    pub fn take(&mut self, bytes: u64) -> Option<u64> {
        let order = order_of(bytes);
        let mut from = (order..self.free.len()).find(|o| !self.free[*o].is_empty())?;
        let at = self.free[from].pop_first()?;
        while from > order {
            from -= 1;
            self.free[from].insert(at + (PAGE << from));
        }
        Some(at)
    }

    /// Gives back a place that was taken for so many bytes.
    pub fn give(&mut self, mut at: u64, bytes: u64) {
        let mut order = order_of(bytes);
        while order + 1 < self.free.len() && self.free[order].remove(&(at ^ (PAGE << order))) {
            at &= !(PAGE << order);
            order += 1;
        }
        let fresh = self.free[order].insert(at);
        debug_assert!(fresh, "a place was given back twice");
    }

    /// The free places: offset and bytes.
    #[cfg(test)]
    pub fn free(&self) -> impl Iterator<Item = (u64, u64)> {
        self.free
            .iter()
            .enumerate()
            .flat_map(|(order, places)| places.iter().map(move |at| (*at, PAGE << order)))
    }

    /// Whether nothing is taken.
    #[cfg(test)]
    pub fn whole(&self) -> bool {
        self.free.last().is_some_and(|top| top.contains(&0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn places_never_overlap_and_all_come_back(steps in proptest::collection::vec((any::<bool>(), 1u64..200_000), 1..200)) {
            let total = 1 << 20;
            let mut buddy = Buddy::new(total);
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (take, number) in steps {
                if take || taken.is_empty() {
                    if let Some(at) = buddy.take(number) {
                        prop_assert!(at + number <= total && at % PAGE == 0);
                        prop_assert!(taken.iter().all(|(a, n)| at + number <= *a || a + n <= at));
                        taken.push((at, number));
                    }
                } else {
                    let (at, bytes) = taken.swap_remove(number as usize % taken.len());
                    buddy.give(at, bytes);
                }
            }
            for (at, bytes) in taken {
                buddy.give(at, bytes);
            }
            prop_assert!(buddy.whole());
        }
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let mut buddy = Buddy::new(1 << 16);
        assert_eq!(buddy.take((1 << 16) + 1), None);
        assert_eq!(buddy.take(1 << 16), Some(0));
        assert_eq!(buddy.take(1), None);
    }
}
