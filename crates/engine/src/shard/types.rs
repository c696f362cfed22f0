//! The words in which operations of a shard are spoken of.

/// The version of an item: (`ts`, `seq`), ordered so (PROTOCOL rule 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version {
    /// Hybrid logical clock with the issuing shard in the low bits; 0 = never.
    pub ts: u64,
    /// Orders read-modify-writes that commit just above an older version (rule 6).
    pub seq: u32,
}

/// What a write of a string does with the key's expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expire {
    /// Leaves it.
    Keep,
    /// Removes it.
    Clear,
    /// Sets it: milliseconds since the Unix epoch.
    At(u64),
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListEnd {
    /// The head.
    Left,
    /// The tail.
    Right,
}

/// What adding to a sorted set did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZAdded {
    /// The member is new.
    Added,
    /// Its score changed.
    Updated,
    /// Its score was the same.
    Same,
}

/// A position in score order: just before or just after all members with this score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScoreBound {
    /// Before the members with this score.
    Before(f64),
    /// After them.
    After(f64),
}

impl ScoreBound {
    /// Whether a member with this score is before the position.
    pub(crate) fn is_after(self, score: f64) -> bool {
        match self {
            Self::Before(b) => score < b,
            Self::After(b) => score <= b,
        }
    }
}

/// A position in the order of members (for sorted sets whose scores are all equal).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexBound<'a> {
    /// Before everything.
    First,
    /// After everything.
    Last,
    /// Before this member.
    Before(&'a [u8]),
    /// After this member.
    After(&'a [u8]),
}

impl LexBound<'_> {
    /// Whether this member is before the position.
    pub(crate) fn is_after(self, member: &[u8]) -> bool {
        match self {
            Self::First => false,
            Self::Last => true,
            Self::Before(b) => member < b,
            Self::After(b) => member <= b,
        }
    }
}

/// Up to where a collection stays packed in one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Fields of a hash.
    pub hash_entries: usize,
    /// Bytes of a field or a value of a hash.
    pub hash_value: usize,
    /// Members of a set.
    pub set_entries: usize,
    /// Bytes of a member of a set.
    pub set_value: usize,
    /// Members of a sorted set.
    pub zset_entries: usize,
    /// Bytes of a member of a sorted set.
    pub zset_value: usize,
    /// Elements of a list.
    pub list_entries: usize,
    /// Bytes of an element of a list.
    pub list_value: usize,
    /// Bytes of any packed collection as a whole: what one write may have to copy.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            hash_entries: 128,
            hash_value: 64,
            set_entries: 128,
            set_value: 64,
            zset_entries: 128,
            zset_value: 64,
            list_entries: 128,
            list_value: 64,
            bytes: 4096,
        }
    }
}

/// What a shard's memory is used for, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Memory {
    /// All of the below: what the limit is compared with.
    pub used: usize,
    /// The region: index, cells, sub-tables.
    pub region: usize,
    /// Big lists, and the order of big sorted sets, in the owner's heap.
    pub heap: usize,
    /// The times of expiry, in the owner's heap (an estimate: 32 bytes a key that expires).
    pub expiry: usize,
}
