//! Counters: each thread writes its own, everybody reads all.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Counters of one thread, on cache lines of their own.
        #[derive(Default)]
        #[repr(align(128))]
        pub(crate) struct Stats {
            $($(#[doc = $doc])* pub $name: Counter,)*
        }

        impl Stats {
            /// Sets all to zero.
            pub fn reset(&self) {
                $(self.$name.0.store(0, Relaxed);)*
            }
        }
    };
}

/// A counter that one thread writes.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds; cheaper than an atomic addition, since nobody else does.
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }
}

counters! {
    /// Commands begun.
    commands,
    /// Connections accepted.
    connections,
    /// Connections turned away.
    rejected,
    bytes_in,
    bytes_out,
    /// Requests that were no requests.
    protocol_errors,
    /// Error replies written on this thread.
    errors,
    /// Commands that failed in a way that must not happen.
    panics,
    /// Commands run here for another thread's connection.
    served,
    /// Commands sent to another thread.
    sent,
    /// Point reads served without a message to the owner.
    one_sided,
    /// One-sided reads that had to be tried again.
    one_sided_retries,
    /// One-sided reads given up in favour of a message.
    one_sided_fallbacks,
    /// One-sided reads that met half of a transaction.
    fractures,
    one_sided_prepared,
    /// Transactions and commands over several shards.
    transactions,
    /// Those of them all of whose shards this thread owns.
    local_transactions,
    /// Messages of transactions that native clients coordinate.
    native_messages,
    /// Transactions whose native client went away before it had prepared them.
    native_orphans,
    /// Transactions refused because a watched key changed.
    watch_failures,
    /// As of the last tick: transactions not ended at the participants, ended ones whose metadata are kept, …
    open,
    recent,
    /// … requests that wait for reservations, keys whose versions are kept.
    waiting,
    hot,
}
