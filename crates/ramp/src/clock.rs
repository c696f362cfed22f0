//! Hybrid logical clocks: the time of day, made unique and never behind what has been seen (PROTOCOL rules 1 to 3).
//!
//! ```text
//!   63                                          10 9            0
//!   | eighths of a microsecond since 2025-01-01   | issuing node |
//! ```
//! Two nodes never issue the same timestamp, because the node is part of it; one node never does, because its clock only
//! goes forward. A clock that is asked more often than its tick passes runs ahead of the time of day; nothing depends on
//! how far, except the horizon of rule 26, which is judged by clocks of this kind on both sides.

/// Bits of a timestamp that name the node that issued it.
pub const NODE_BITS: u32 = 10;
/// The most shards there can be. Coordinators take the other half of the node numbers.
pub const MAX_SHARDS: u16 = 1 << (NODE_BITS - 1);
/// The most coordinators there can be.
pub const MAX_COORDINATORS: u16 = 1 << (NODE_BITS - 1);
/// The instant from which timestamps count, in microseconds since the Unix epoch: 2025-01-01.
pub const EPOCH_US: u64 = 1_735_689_600_000_000;

const TICKS_PER_US_LOG2: u32 = 3;

/// The number of a shard.
pub type ShardId = u16;

/// The name of a transaction: a timestamp that its coordinator issued. Never used twice, not for a second attempt either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxnId(pub u64);

impl TxnId {
    /// The name for "no transaction": a write of a single key.
    pub const NONE: Self = Self(0);

    /// How long ago it was drawn by the clock value `now`, in microseconds; 0 if it lies ahead.
    pub fn age_us(self, now: u64) -> u64 {
        now.saturating_sub(self.0) >> (NODE_BITS + TICKS_PER_US_LOG2)
    }
}

/// The clock of one shard or one coordinator.
#[derive(Clone, Debug)]
pub struct Hlc {
    last: u64,
    node: u64,
}

impl Hlc {
    /// The clock of a shard (below [`MAX_SHARDS`]).
    pub fn shard(id: ShardId) -> Self {
        assert!(id < MAX_SHARDS, "there are at most {MAX_SHARDS} shards");
        Self { last: 0, node: u64::from(id) }
    }

    /// The clock of a coordinator (below [`MAX_COORDINATORS`]).
    pub fn coordinator(id: u16) -> Self {
        assert!(id < MAX_COORDINATORS, "there are at most {MAX_COORDINATORS} coordinators");
        Self { last: 0, node: u64::from(MAX_SHARDS + id) }
    }

    /// The highest timestamp issued or seen.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Takes note of a timestamp that somebody else issued.
    pub fn see(&mut self, ts: u64) {
        self.last = self.last.max(ts);
    }

    /// A timestamp newer than every one issued or seen. `now_us`: microseconds since the Unix epoch.
    pub fn next(&mut self, now_us: u64) -> u64 {
        let ticks = now_us.saturating_sub(EPOCH_US) << TICKS_PER_US_LOG2;
        let tick = ticks.max((self.last >> NODE_BITS) + 1);
        self.last = tick << NODE_BITS | self.node;
        self.last
    }

    /// What the clock would show now, without issuing a timestamp.
    pub fn peek(&self, now_us: u64) -> u64 {
        let ticks = now_us.saturating_sub(EPOCH_US) << TICKS_PER_US_LOG2;
        self.last.max(ticks << NODE_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_never_issued_twice_nor_behind_what_was_seen() {
        let (mut a, mut b) = (Hlc::shard(0), Hlc::coordinator(0));
        let mut seen = Vec::new();
        for now in [EPOCH_US, EPOCH_US, EPOCH_US + 5, EPOCH_US + 1] {
            let x = a.next(now);
            b.see(x);
            let y = b.next(0);
            assert!(y > x);
            seen.extend([x, y]);
        }
        let n = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), n);
    }

    #[test]
    fn age_is_in_microseconds() {
        let mut c = Hlc::shard(3);
        let t = TxnId(c.next(EPOCH_US + 1000));
        assert_eq!(t.age_us(c.peek(EPOCH_US + 1500)), 499, "the node bits round down");
        assert_eq!(t.age_us(0), 0);
    }
}
