//! The seeded simulator: a whole cluster in one thread and virtual time, and a checker that looks at everything it did.
//!
//! ```text
//!   clients ── Coordinator, Transaction, Session ──► network: delay, reordering, loss, repetition ──► Participants, Shards
//!      │                                                                                                   │
//!      └── what was asked and answered, when ──────────────► checker ◄────── what was committed, at which version
//! ```
//! Coordinators, participants and shards are the real ones; their clocks are skewed; clients die in the middle of their
//! transactions. The checker sorts everything that was committed by version and runs it again on one fresh shard (the
//! *oracle*), which gives every item's history. Then: the shards hold what the oracle holds (nothing lost, order the same
//! everywhere); commands that look before they write answered what the oracle answers (no lost update); no read saw a
//! transaction in half (Read Atomic); each item is linearizable; no client finds itself before what it has seen; EXEC noticed
//! every change of a watched key; every transaction ended, in one way; and all tables are empty again in the end.
//!
//! Not modelled: loss or repetition of single-shard commands (their transport is at-most-once), expiry, change of a key's
//! type, one-sided readers, an owner's crash.
mod check;
mod client;
mod history;
mod local;
mod oracle;
mod trace;
mod work;
mod world;

pub use client::Record;
pub use history::History;
pub use work::{Doing, Keys, Line};

use crate::{Config, Fault, Faults, Isolation, TxnId, message::Node};
use kintsugidb_engine::Version;

/// What a participant tells the checker.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Logged {
    Committed(TxnId, u64),
    Aborted(TxnId),
    Executed(Node, Version),
}

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Everything that happens follows from it.
    pub seed: u64,
    /// The algorithm.
    pub isolation: Isolation,
    /// A rule to break.
    pub fault: Option<Fault>,
    /// Steps of virtual time with new work and failures, before everything is brought to its end.
    pub steps: u32,
    /// Print one line per event.
    pub trace: bool,
}

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Operations that clients began.
    pub ops: u64,
    /// Transactions over several shards that were committed.
    pub committed: u64,
    /// Attempts that were refused or aborted.
    pub aborted: u64,
    /// Messages of second and later rounds.
    pub rereads: u64,
    /// Operations done without a message.
    pub local: u64,
    /// Clients that died.
    pub deaths: u64,
}

/// What was wrong, and with which seed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// One line.
    pub what: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "seed {}: {}", self.seed, self.what)
    }
}

impl std::error::Error for Failure {}

/// One step of virtual time, in microseconds.
const STEP_US: u64 = 100;

/// Runs one seed.
pub fn run(options: Options) -> Result<Stats, Failure> {
    let mut world = world::World::new(options);
    world.run().and_then(|()| world.history.check()).map_err(|what| Failure { seed: options.seed, what })?;
    Ok(world.history.stats)
}

/// xorshift64*, seeded through splitmix64 so that neighbouring seeds differ.
#[derive(Debug)]
pub struct Rng(u64);

impl Rng {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self((z ^ (z >> 31)) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 33) as usize) % n
    }

    /// True `permille` times of a thousand.
    pub fn chance(&mut self, permille: usize) -> bool {
        self.below(1000) < permille
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

fn config(options: &Options, rng: &mut Rng) -> Config {
    let (window, horizon) = rng.pick(&[(120, 900), (60, 500), (400, 2000)]);
    Config {
        isolation: options.isolation,
        window_us: window * STEP_US,
        horizon_us: horizon * STEP_US,
        prepared_timeout_us: 60 * STEP_US,
        stable_timeout_us: 150 * STEP_US,
        reserved_timeout_us: 250 * STEP_US,
        resend_us: 40 * STEP_US,
        backoff_us: 5 * STEP_US,
        faults: options.fault.map_or_else(Faults::default, Faults::one),
        ..Config::default()
    }
}

#[cfg(test)]
mod tests;
