//! Whole values outside of the region: what RENAME and COPY carry between shards, what a snapshot reads,
//! and the plain reference that the property tests compare with.
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The type of a key, as TYPE names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// A string.
    String,
    /// A list.
    List,
    /// A hash.
    Hash,
    /// A set.
    Set,
    /// A sorted set.
    Zset,
}

impl Type {
    /// The name that TYPE and SCAN use.
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::List => "list",
            Self::Hash => "hash",
            Self::Set => "set",
            Self::Zset => "zset",
        }
    }
}

/// A whole value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string's bytes.
    String(Vec<u8>),
    /// A list's elements from left to right.
    List(VecDeque<Vec<u8>>),
    /// A hash's fields.
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// A set's members.
    Set(BTreeSet<Vec<u8>>),
    /// A sorted set's members with their scores (no NaN).
    Zset(BTreeMap<Vec<u8>, f64>),
}

impl Value {
    /// The type.
    pub fn type_of(&self) -> Type {
        match self {
            Self::String(_) => Type::String,
            Self::List(_) => Type::List,
            Self::Hash(_) => Type::Hash,
            Self::Set(_) => Type::Set,
            Self::Zset(_) => Type::Zset,
        }
    }

    /// Elements, or bytes of a string.
    pub fn len(&self) -> usize {
        match self {
            Self::String(s) => s.len(),
            Self::List(l) => l.len(),
            Self::Hash(h) => h.len(),
            Self::Set(s) => s.len(),
            Self::Zset(z) => z.len(),
        }
    }

    /// Whether it is a collection without elements (which no key holds) or the empty string.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A whole value with its expiry.
#[derive(Clone, Debug, PartialEq)]
pub struct Dump {
    /// The value.
    pub value: Value,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expire_at_ms: Option<u64>,
}
