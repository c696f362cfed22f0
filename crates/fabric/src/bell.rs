//! Who sleeps must not miss what comes meanwhile.
//!
//! ```text
//!   who goes to sleep                        who sends
//!     asleep := 1    (announce)                writes the ring
//!     fence                                    fence
//!     looks at its ring once more              asleep?  then 0 and ring the bell   (must_ring)
//! ```
//! The two fences are sequentially consistent, so at least one of the two sees what the other has stored. For mapped memory, where both
//! sides run on processors that share it; over an adapter fences reach nothing, and the back end needs another way.

use crate::sync::{AtomicU64, Ordering, Safeguard, fence, kept};

/// Says that this side goes to sleep. It has to look once more after that, before it does.
#[inline]
pub fn announce(asleep: &AtomicU64) {
    asleep.store(1, Ordering::Relaxed);
    if kept(Safeguard::SleeperFence) {
        fence(Ordering::SeqCst);
    }
}

/// Takes it back.
#[inline]
pub fn withdraw(asleep: &AtomicU64) {
    asleep.store(0, Ordering::Relaxed);
}

/// Whether the other side sleeps and has to be woken, after something was stored for it. Says so once for each announcement.
#[inline]
pub fn must_ring(asleep: &AtomicU64) -> bool {
    if kept(Safeguard::SenderFence) {
        fence(Ordering::SeqCst);
    }
    asleep.load(Ordering::Relaxed) != 0 && asleep.swap(0, Ordering::Relaxed) != 0
}
