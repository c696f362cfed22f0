//! The atomics of the build: the machine's, or those of a model checker (`loom`: every order that the memory model allows, of a little; `shuttle`: drawn schedules, of more); and the safeguards that a model may take away.

#[cfg(not(model))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering, fence};

/// What keeps readers from wrong answers. The models run once with all of them and once without each, which they must catch.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[cfg_attr(not(model), allow(dead_code))]
pub enum Safeguard {
    /// The reader looks at the index entry again after it has read the cell.
    ConfirmEntry,
    /// The reader looks at `w0` again after it has read the cell.
    SecondLook,
    /// The reader's fence before these second looks.
    ReaderFence,
    /// The owner makes `w0` odd before it writes anything else of the cell.
    OddFirst,
    /// The owner's fence after the odd store.
    WriterFence,
    /// The owner stores the link in the replaced cell before the index entry.
    LinkFirst,
    /// The owner stores "look in the index" in a removed cell.
    LinkRemoved,
    /// The reader believes a miss only if the bucket's change counter is unchanged.
    ChangeCounter,
    /// The owner counts an insertion at the bucket.
    CountInsertion,
    /// Growth stores an entry in the new array before it takes it from the old.
    InsertBeforeClear,
    /// A big collection's change word is odd while it changes.
    OddChange,
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
