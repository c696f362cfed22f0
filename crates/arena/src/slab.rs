//! Slabs: spans of a few pages, each cut into places of one size.
//!
//! A span's places are handed out in order the first time (nothing touches them before), then from a free list threaded through
//! word 2 of the free places. A free place has an odd `w0`; what follows `w0` a stale reader may see, and throws away. A span whose
//! places are all free goes back to the pages, except one for each class.
//!
//! Cells and bucket arrays never share a span, so the first word of a live place is never mistaken for the other's.

use crate::layout::{ARRAY_CLASSES, CELL_CLASSES, GRANULE, PAGE, SEQ_MASK, cell, class_bytes};
use crate::pages::Pages;
use crate::region::Region;
use crate::sync::Ordering;

const CLASSES: usize = CELL_CLASSES + ARRAY_CLASSES;
const NONE: u32 = u32::MAX;

pub(crate) struct Class {
    pub bytes: u64,
    pages: u64,
    places: u32,
    /// Spans with a free place.
    open: Vec<u32>,
    /// Places taken.
    pub taken: u64,
}

#[derive(Clone)]
pub(crate) struct Span {
    pub class: u8,
    pub in_use: bool,
    pub page: u64,
    /// Places never handed out yet start here.
    pub fresh: u32,
    pub taken: u32,
    /// Byte offset of the first free place; 0 = none.
    pub free: u64,
    /// Index in the class's `open`; `NONE` = not there.
    open_at: u32,
    /// The first sequence of the span's places: differs each time the pages are cut.
    first_seq: u64,
}

pub(crate) struct Slab {
    pub classes: Vec<Class>,
    pub spans: Vec<Span>,
    unused_spans: Vec<u32>,
    /// The span of each page.
    span_of: Vec<u32>,
    pub pages: Pages,
    cuts: u64,
}

fn pages_for(bytes: u64) -> u64 {
    let waste = |pages: u64| (pages * PAGE) % bytes * 16 / (pages * PAGE);
    if cfg!(loom) {
        return (2 * bytes).div_ceil(PAGE);
    }
    [4, 8, 16, 32].into_iter().find(|&pages| pages * PAGE >= 4 * bytes && waste(pages) == 0).unwrap_or(32)
}

impl Slab {
    pub fn new(region: &Region) -> Slab {
        let classes = (0..CLASSES)
            .map(|class| {
                let bytes = class_bytes(class);
                let pages = pages_for(bytes);
                Class { bytes, pages, places: (pages * PAGE / bytes) as u32, open: Vec::new(), taken: 0 }
            })
            .collect();
        Slab {
            classes,
            spans: Vec::new(),
            unused_spans: Vec::new(),
            span_of: Vec::new(),
            pages: Pages::new(region),
            cuts: 0,
        }
    }

    /// An even sequence for the first use of memory that was used otherwise before: far from what it had, most likely.
    pub fn fresh_seq(&mut self) -> u64 {
        self.cuts += 1;
        self.cuts.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40 & SEQ_MASK & !1
    }

    pub fn places(&self, class: usize) -> u32 {
        self.classes[class].places
    }

    /// A place of this class: its offset, and the odd sequence to begin writing with. For arrays the place is *not* cleared.
    #[inline]
    pub fn take(&mut self, region: &Region, class: usize) -> Option<(u64, u64)> {
        let id = match self.classes[class].open.last() {
            Some(&id) => id,
            None => self.cut(class)?,
        };
        let bytes = self.classes[class].bytes;
        let span = &mut self.spans[id as usize];
        let (offset, seq) = if span.free != 0 {
            let offset = span.free;
            let words = region.words(offset, 3);
            span.free = words[cell::LINK].load(Ordering::Relaxed) * GRANULE;
            region.prefetch(span.free);
            (offset, words[cell::W0].load(Ordering::Relaxed) & SEQ_MASK | 1)
        } else {
            let offset = span.page * PAGE + u64::from(span.fresh) * bytes;
            span.fresh += 1;
            (offset, span.first_seq | 1)
        };
        span.taken += 1;
        if span.taken == self.classes[class].places {
            self.close(class, id);
        }
        self.classes[class].taken += 1;
        Some((offset, seq))
    }

    /// Takes a place back. Its `w0` is odd by now.
    #[inline]
    pub fn give(&mut self, region: &Region, class: usize, offset: u64) {
        let id = self.span_of[(offset / PAGE) as usize];
        let span = &mut self.spans[id as usize];
        debug_assert!(span.in_use && usize::from(span.class) == class);
        region.store(offset + 8 * cell::LINK as u64, span.free / GRANULE, Ordering::Relaxed);
        span.free = offset;
        span.taken -= 1;
        self.classes[class].taken -= 1;
        let (empty, closed) = (span.taken == 0, span.open_at == NONE);
        if closed {
            span.open_at = self.classes[class].open.len() as u32;
            self.classes[class].open.push(id);
        }
        if empty && self.classes[class].open.len() > 1 {
            self.release(region, class, id);
        }
    }

    fn cut(&mut self, class: usize) -> Option<u32> {
        let count = self.classes[class].pages;
        let page = self.pages.take(count)?;
        let span = Span {
            class: class as u8,
            in_use: true,
            page,
            fresh: 0,
            taken: 0,
            free: 0,
            open_at: self.classes[class].open.len() as u32,
            first_seq: self.fresh_seq(),
        };
        let id = match self.unused_spans.pop() {
            Some(id) => {
                self.spans[id as usize] = span;
                id
            }
            None => {
                self.spans.push(span);
                self.spans.len() as u32 - 1
            }
        };
        let end = (page + count) as usize;
        if self.span_of.len() < end {
            self.span_of.resize(end, NONE);
        }
        self.span_of[page as usize..end].fill(id);
        self.classes[class].open.push(id);
        Some(id)
    }

    fn close(&mut self, class: usize, id: u32) {
        let open = &mut self.classes[class].open;
        let at = self.spans[id as usize].open_at as usize;
        open.swap_remove(at);
        if let Some(&moved) = open.get(at) {
            self.spans[moved as usize].open_at = at as u32;
        }
        self.spans[id as usize].open_at = NONE;
    }

    fn release(&mut self, region: &Region, class: usize, id: u32) {
        self.close(class, id);
        let page = self.spans[id as usize].page;
        let count = self.classes[class].pages;
        self.spans[id as usize].in_use = false;
        self.span_of[page as usize..(page + count) as usize].fill(NONE);
        self.unused_spans.push(id);
        self.pages.give(region, page, count);
    }

    /// Pages of a span, for the invariant check.
    pub fn span_pages(&self, span: &Span) -> u64 {
        self.classes[usize::from(span.class)].pages
    }
}
