//! Large pages: 2 MiB of a region behind one address translation.
//!
//! A read from outside goes to three or four places of a region at random, and with pages of 4 KiB the processor walks its page tables
//! for most of them. Systems seldom grant large pages to shared memory when it is first touched, and there they would cost every small
//! region 2 MiB. So pages are put together afterwards (`MADV_COLLAPSE`, Linux 6.1), once a quarter of what they would be is in use: every
//! process that maps the file has them then, and nobody's data moves to another address.
//!
//! ```text
//!   region | 2 MiB, in use | 2 MiB, a quarter in use | 2 MiB, less | untouched ...
//!          |  large        |  large                  |  4 KiB pages, whatever the system gives
//! ```
//! It takes the kernel from half a millisecond to some milliseconds, during which accesses to these pages wait; so it is offered to the
//! owner's caller as a job, for a thread that has the time.

use crate::Arena;
use crate::layout::PAGE;
use crate::region::Region;
use std::sync::Arc;

/// Bytes in a large page. Regions are mapped at multiples of it.
pub(crate) const LARGE_PAGE: u64 = 2 << 20;
/// Pages from the start of a large page that have to be in use: with fewer, too much memory would be spent.
const ENOUGH: u64 = LARGE_PAGE / PAGE / 4;

/// A part of a region that is worth a large page.
#[must_use = "nothing happens until it is made"]
pub struct LargePage {
    region: Arc<Region>,
    at: u64,
}

impl LargePage {
    /// Has the system make it one. Any thread may do this while the region is read and written. Whether it did: it does not where it
    /// cannot (Linux before 6.1, no free memory of that size, pages that an adapter holds), and everything works as before.
    pub fn make(&self) -> bool {
        self.region.collapse(self.at, LARGE_PAGE)
    }
}

impl Arena {
    /// The next part of the region that has become worth a large page; each is offered once.
    pub fn next_large_page(&mut self) -> Option<LargePage> {
        let at = self.large_pages * LARGE_PAGE;
        let in_use = self.heap.slab.pages.top();
        if in_use < at / PAGE + ENOUGH || at + LARGE_PAGE > self.region.len() {
            return None;
        }
        self.large_pages += 1;
        Some(LargePage { region: self.region.clone(), at })
    }
}
