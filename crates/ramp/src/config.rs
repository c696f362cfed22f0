//! What can be chosen, and every limit, in one place.
use kintsugidb_engine::Siblings;

/// How multi-key reads and writes over several shards are kept together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Isolation {
    /// RAMP-Fast: versions name their siblings; a read needs a second round only when it raced.
    #[default]
    Fast,
    /// RAMP-Small: versions name only their transaction; a read that meets a recent one always takes a second round.
    Small,
    /// RAMP-Hybrid: a Bloom filter of the siblings.
    Hybrid,
    /// Strict two-phase locking, readers included; wait-die. A baseline.
    Locking,
    /// No isolation over shards at all: a baseline that must show fractures.
    None,
}

impl Isolation {
    /// All of them, and their names on the command line.
    pub const ALL: [(&'static str, Self); 5] = [
        ("fast", Self::Fast),
        ("small", Self::Small),
        ("hybrid", Self::Hybrid),
        ("locking", Self::Locking),
        ("none", Self::None),
    ];

    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(n, _)| *n == name).map(|(_, i)| *i)
    }

    /// What the records of transactions say of siblings, for readers of regions.
    pub fn recorded_siblings(self) -> Siblings {
        match self {
            Self::Fast | Self::Locking => Siblings::Keys,
            Self::Hybrid => Siblings::Bloom,
            Self::Small => Siblings::Unsaid,
            Self::None => Siblings::Ignored,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, i)| *i == self).map_or("", |(n, _)| n)
    }
}

/// What readers of a region are told of transactions that are prepared there and not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PreparedVersions {
    /// Nothing: a reader that has seen half of one waits a moment and then asks the owner, who commits it. So every key by itself is
    /// linearizable, whoever reads it, alone or with others.
    #[default]
    Hidden,
    /// Their versions, as far as they are settled before the commit: whoever has seen half of one reads the other half (PROTOCOL rule 22),
    /// and may be ahead of who reads that key alone until its owner has committed it.
    Shown,
    /// That they are under way: whoever reads one of their keys asks the owner. The invalidation bit of "RAMP over RDMA" (algorithm 1), for
    /// comparison.
    Invalidated,
}

impl PreparedVersions {
    /// All of them, and their names in the settings.
    pub const ALL: [(&'static str, Self); 3] =
        [("hidden", Self::Hidden), ("shown", Self::Shown), ("invalidated", Self::Invalidated)];

    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(n, _)| *n == name).map(|(_, p)| *p)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, p)| *p == self).map_or("", |(n, _)| n)
    }
}

/// Times in microseconds; limits in entries.
#[derive(Clone, Debug)]
pub struct Config {
    /// The algorithm.
    pub isolation: Isolation,
    /// The window W (rule 16): how long the metadata of a stable transaction is kept for slow readers. A read that takes longer
    /// than half of it begins again.
    pub window_us: u64,
    /// How long outcomes are kept, and the oldest transaction that may still be prepared (rule 26).
    pub horizon_us: u64,
    /// How long an owner holds a prepared transaction before it asks the others (rule 25), and between two questions.
    pub prepared_timeout_us: u64,
    /// The same for a committed one that it has not been told is stable.
    pub stable_timeout_us: u64,
    /// How long an owner holds keys for a transaction that has reserved them and not prepared yet.
    pub reserved_timeout_us: u64,
    /// How long a coordinator waits for an answer before it sends the message again.
    pub resend_us: u64,
    /// How long a coordinator that was refused waits before its next attempt (multiplied by the attempt, up to 16).
    pub backoff_us: u64,
    /// How often a read begins again, and how often a write is tried again, before the client is told TRYAGAIN.
    pub max_attempts: u32,
    /// Transactions that one shard holds at a time, recent ones included.
    pub max_txns: usize,
    /// Requests that wait for reservations at one shard.
    pub max_queue: usize,
    /// Transactions that one connection has read from and that are not stable yet.
    pub max_proofs: usize,
    /// Whether somebody reads shards of one thread at different moments (other threads, processes). If not, a transaction within
    /// one thread needs no metadata.
    pub readers_elsewhere: bool,
    /// What is told of prepared transactions to those who read regions.
    pub prepared: PreparedVersions,
    /// The seed of the keys' fingerprints, where the shards are another process's; `None`: this process's.
    pub hash_seed: Option<u64>,
    /// Rules to break, for the simulator's canaries.
    pub faults: Faults,
}

impl Config {
    /// The fingerprint of a key.
    #[inline]
    pub fn fingerprint(&self, key: &[u8]) -> u64 {
        match self.hash_seed {
            Some(seed) => kintsugidb_engine::fingerprint_with(seed, key),
            None => kintsugidb_engine::fingerprint(key),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            isolation: Isolation::Fast,
            window_us: 100_000,
            horizon_us: 2_000_000,
            prepared_timeout_us: 50_000,
            stable_timeout_us: 200_000,
            reserved_timeout_us: 1_000_000,
            resend_us: 20_000,
            backoff_us: 100,
            max_attempts: 1000,
            max_txns: 1 << 20,
            max_queue: 1 << 16,
            max_proofs: 4096,
            readers_elsewhere: true,
            prepared: PreparedVersions::default(),
            hash_seed: None,
            faults: Faults::default(),
        }
    }
}

/// A rule that is broken on purpose, to show that the simulator notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Reads end after round one.
    NoRoundTwo,
    /// The commit timestamp comes from the coordinator's clock (rule 3).
    CoordinatorClock,
    /// A read-modify-write under a pending transaction takes a fresh timestamp (rule 6).
    FreshRmw,
    /// Round two answers with the latest (rule 14).
    LatestInRoundTwo,
    /// Only the newest of need(k) is asked for (rule 14).
    NewestNeedOnly,
    /// Messages carry no clock and no proofs (rule 2).
    NoClock,
    /// The coordinator aborts when it has waited long enough (rule 8).
    AbortOnTimeout,
    /// "Unknown" is answered without a promise (rule 25).
    NoPromise,
    /// Metadata is forgotten at once (rule 16).
    ShortWindow,
    /// Reservations have no age: everybody waits (rule 9).
    NoAge,
    /// A key's history is forgotten while something is pending on it (rule 16).
    ForgetUnderPending,
    /// Outcomes are forgotten, and no horizon is kept (rule 26).
    ForgetOutcomes,
    /// A watched key is not looked at (rule 10).
    NoWatch,
}

impl Fault {
    /// All of them, and their names on the simulator's command line.
    pub const ALL: [(&'static str, Self); 13] = [
        ("no-round-two", Self::NoRoundTwo),
        ("coordinator-clock", Self::CoordinatorClock),
        ("fresh-rmw", Self::FreshRmw),
        ("latest-in-round-two", Self::LatestInRoundTwo),
        ("newest-need-only", Self::NewestNeedOnly),
        ("no-clock", Self::NoClock),
        ("abort-on-timeout", Self::AbortOnTimeout),
        ("no-promise", Self::NoPromise),
        ("short-window", Self::ShortWindow),
        ("no-age", Self::NoAge),
        ("forget-under-pending", Self::ForgetUnderPending),
        ("forget-outcomes", Self::ForgetOutcomes),
        ("no-watch", Self::NoWatch),
    ];
}

/// A set of [`Fault`]s. Without the feature `sim` (and outside of tests) it is empty whatever was put into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults(u32);

impl Faults {
    /// The set of one.
    pub const fn one(fault: Fault) -> Self {
        Self(1 << fault as u32)
    }

    #[inline]
    pub(crate) const fn has(self, fault: Fault) -> bool {
        cfg!(any(test, feature = "sim")) && self.0 & (1 << fault as u32) != 0
    }
}
