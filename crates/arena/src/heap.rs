//! The owner's memory: places taken from slabs and pages, and the limbo where replaced ones wait for slow readers.
//!
//! A place is *live* (a cell), *index* (arrays, overflow buckets, descriptors), in *limbo*, or free; the three counters hold
//! every byte of the first three exactly once. Limbo is first in, first out: a reader who went from a cell to its successor and
//! finds the first one still not recycled knows the same of the second (`reader.rs` leans on that).
//!
//! Recycling = `w0` becomes odd before anything else of the place is written. The grace time only makes it rare that a reader
//! has to begin again; it shrinks to an eighth above seven eighths of the limit, and to nothing when memory is out.

use crate::layout::{CELL_CLASSES, MAX_SLAB, PAGE, class_of};
use crate::region::Region;
use crate::slab::Slab;
use crate::sync::{Ordering, Safeguard, fence, kept};
use std::collections::VecDeque;

/// Set in a place's size code when it is whole pages; the rest is their number.
const RUN: u32 = 1 << 31;

#[derive(Copy, Clone)]
pub(crate) struct Waiting {
    pub offset: u64,
    code: u32,
    since_ms: u32,
}

impl Waiting {
    pub fn bytes(&self, heap: &Heap) -> u64 {
        heap.bytes_of(self.code)
    }
}

/// What a place is used for.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum Use {
    Cell,
    Index,
}

pub(crate) struct Heap {
    pub slab: Slab,
    pub limbo: VecDeque<Waiting>,
    pub live: u64,
    pub index: u64,
    pub waiting: u64,
    pub limit: u64,
    pub grace_ms: u64,
    pub now_ms: u64,
}

impl Heap {
    pub fn new(region: &Region, limit: u64, grace_ms: u64) -> Heap {
        Heap {
            slab: Slab::new(region),
            limbo: VecDeque::new(),
            live: 0,
            index: 0,
            waiting: 0,
            limit,
            grace_ms,
            now_ms: 0,
        }
    }

    #[inline]
    pub fn total(&self) -> u64 {
        self.live + self.index + self.waiting
    }

    #[inline]
    fn code(bytes: u64, what: Use) -> u32 {
        if bytes > MAX_SLAB {
            RUN | bytes.div_ceil(PAGE) as u32
        } else if what == Use::Cell {
            class_of(bytes) as u32
        } else {
            // Array sizes are exactly the classes of the array slabs.
            let buckets = bytes / crate::layout::BUCKET;
            let step = 63 - u64::from(buckets.leading_zeros());
            let code = if step == 0 { 0 } else { 2 * step - 1 + (buckets >> (step - 1) & 1) };
            (CELL_CLASSES as u64 + code) as u32
        }
    }

    #[inline]
    fn bytes_of(&self, code: u32) -> u64 {
        if code & RUN != 0 { u64::from(code & !RUN) * PAGE } else { self.slab.classes[code as usize].bytes }
    }

    /// What a place for so many bytes takes.
    pub fn rounded(&self, bytes: u64, what: Use) -> u64 {
        self.bytes_of(Heap::code(bytes, what))
    }

    /// A place of at least `bytes`, and the odd sequence to begin writing with. Recycles limbo if it must.
    #[inline]
    pub fn take(&mut self, region: &Region, bytes: u64, what: Use) -> Option<(u64, u64)> {
        if bytes.div_ceil(PAGE) >= u64::from(RUN) {
            return None;
        }
        let code = Heap::code(bytes, what);
        let size = self.bytes_of(code);
        if self.total() + size > self.limit {
            self.recycle_until(region, |heap| heap.total() + size <= heap.limit);
            if self.total() + size > self.limit {
                return None;
            }
        }
        let place = match self.try_take(region, code) {
            Some(place) => place,
            None => self.take_by_force(region, code)?,
        };
        match what {
            Use::Cell => self.live += size,
            Use::Index => self.index += size,
        }
        Some(place)
    }

    #[inline]
    fn try_take(&mut self, region: &Region, code: u32) -> Option<(u64, u64)> {
        if code & RUN == 0 {
            return self.slab.take(region, code as usize);
        }
        let page = self.slab.pages.take(u64::from(code & !RUN))?;
        Some((page * PAGE, self.slab.fresh_seq() | 1))
    }

    #[cold]
    fn take_by_force(&mut self, region: &Region, code: u32) -> Option<(u64, u64)> {
        while !self.limbo.is_empty() {
            self.recycle(region, 64, true);
            if let Some(place) = self.try_take(region, code) {
                return Some(place);
            }
        }
        None
    }

    /// An array of this many bytes, all zero.
    pub fn take_array(&mut self, region: &Region, bytes: u64) -> Option<u64> {
        let (offset, _) = self.take(region, bytes, Use::Index)?;
        if bytes <= MAX_SLAB {
            for word in region.words(offset, (bytes / 8) as usize) {
                word.store(0, Ordering::Relaxed);
            }
        }
        Some(offset)
    }

    /// Sends a place to limbo.
    #[inline]
    pub fn retire(&mut self, offset: u64, bytes: u64, what: Use) {
        let code = Heap::code(bytes, what);
        let size = self.bytes_of(code);
        match what {
            Use::Cell => self.live -= size,
            Use::Index => self.index -= size,
        }
        self.waiting += size;
        self.limbo.push_back(Waiting { offset, code, since_ms: self.now_ms as u32 });
    }

    /// Frees up to `most` places that have waited long enough (or, by force, any).
    #[inline]
    pub fn recycle(&mut self, region: &Region, most: usize, force: bool) -> usize {
        for done in 0..most {
            let Some(&first) = self.limbo.front() else { return done };
            if !force && u64::from((self.now_ms as u32).wrapping_sub(first.since_ms)) < self.grace() {
                return done;
            }
            self.limbo.pop_front();
            // Nothing has touched it for the grace time: the next one comes from memory while this one is freed.
            if let Some(next) = self.limbo.front() {
                region.prefetch(next.offset);
            }
            self.free(region, first);
        }
        most
    }

    fn grace(&self) -> u64 {
        if self.total() > self.limit / 8 * 7 { self.grace_ms / 8 } else { self.grace_ms }
    }

    #[cold]
    fn recycle_until(&mut self, region: &Region, enough: impl Fn(&Heap) -> bool) {
        while !enough(self) && self.recycle(region, 64, true) > 0 {}
    }

    fn free(&mut self, region: &Region, place: Waiting) {
        self.waiting -= self.bytes_of(place.code);
        let w0 = region.load(place.offset, Ordering::Relaxed);
        // A cell's sequence is even, so this makes it the next odd one. An array's control word is nobody's any more.
        if kept(Safeguard::OddFirst) {
            region.store(place.offset, w0 | 1, Ordering::Relaxed);
        }
        if kept(Safeguard::WriterFence) {
            fence(Ordering::Release);
        }
        if place.code & RUN != 0 {
            self.slab.pages.give(region, place.offset / PAGE, u64::from(place.code & !RUN));
        } else {
            self.slab.give(region, place.code as usize, place.offset);
        }
    }
}
