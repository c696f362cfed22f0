//! The atomics of the build: the machine's, or those of a model checker (`loom`: every order that the memory model allows, of a little; `shuttle`: drawn schedules, of more); and what a model may take away.

#[cfg(not(model))]
pub use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(shuttle)]
pub use shuttle::sync::atomic::{AtomicU64, Ordering, fence};

/// What a ring's correctness rests on. The models run once with all of them and once without each, which they must catch.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[cfg_attr(not(model), allow(dead_code))]
pub enum Safeguard {
    /// The indicators are stored with release ordering.
    ReleaseIndicators,
    /// The indicators are loaded with acquire ordering.
    AcquireIndicators,
    /// A record is cleared before its place is given back.
    ClearFirst,
    /// The credit is stored with release ordering.
    ReleaseCredit,
    /// The fence between a message and the look at whether its receiver sleeps.
    SenderFence,
    /// The fence between the flag of who goes to sleep and the last look at the ring.
    SleeperFence,
}

/// Whether a safeguard is in place: always, outside of models.
#[cfg(not(model))]
#[inline(always)]
pub(crate) const fn kept(_: Safeguard) -> bool {
    true
}

#[cfg(model)]
static MISSING: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(u64::MAX);

#[cfg(model)]
pub(crate) fn kept(safeguard: Safeguard) -> bool {
    MISSING.load(std::sync::atomic::Ordering::Relaxed) != safeguard as u64
}

/// Takes one safeguard away from this process, or none.
#[cfg(model)]
fn take_away(safeguard: Option<Safeguard>) {
    MISSING.store(safeguard.map_or(u64::MAX, |s| s as u64), std::sync::atomic::Ordering::Relaxed);
}

/// Runs a check with everything in place, and then without each of some safeguards, which it must notice.
#[cfg(model)]
pub fn each_is_needed(safeguards: &[Safeguard], check: impl Fn() + Copy) {
    take_away(None);
    check();
    for &safeguard in safeguards {
        take_away(Some(safeguard));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).is_err();
        take_away(None);
        assert!(caught, "the model does not notice that {safeguard:?} is missing");
    }
}
