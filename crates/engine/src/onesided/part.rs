//! What a command reads of a key, and what it says of it: the same whether a region is mapped or fetched.
use super::Point;
use crate::{Error, Result, Type, shard};
use kintsugidb_arena::Kind;
use kintsugidb_wire::Reply;

/// What a command reads of each of its keys.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// The root cell.
    Root,
    /// The number of entries of a collection of this type.
    Len(Type),
    /// The items of these names of a collection of this type.
    Items(Type, &'a [&'a [u8]]),
}

/// A key's root cell. Its time has not come, and it is no tombstone.
pub(super) struct Root<'a> {
    pub kind: Kind,
    pub expire_at_ms: u64,
    pub value: &'a [u8],
}

/// The value and the score of an item; each is empty where the type has none.
pub(super) type Item<'a> = (&'a [u8], f64);

/// The score of a member of a big sorted set.
pub(super) fn score_of(value: &[u8]) -> f64 {
    value.first_chunk().map_or(0.0, |b| f64::from_le_bytes(*b))
}

/// Milliseconds, or seconds as Redis rounds them.
fn in_unit(ms: u64, seconds: bool) -> i64 {
    let n = if seconds { ms.saturating_add(500) / 1000 } else { ms };
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl Point {
    /// What a call reads of each of its keys. `None`: arguments are missing.
    pub fn part<'a>(self, args: &'a [&'a [u8]]) -> Option<Part<'a>> {
        let names = args.get(2..)?;
        let of = match self {
            Self::Hget | Self::Hstrlen | Self::Hmget => Type::Hash,
            Self::IsMember(of) => of,
            Self::Smismember => Type::Set,
            Self::Zscore | Self::Zmscore => Type::Zset,
            Self::Len(of) => return Some(Part::Len(of)),
            Self::Get
            | Self::Strlen
            | Self::Mget
            | Self::Exists
            | Self::Type
            | Self::Ttl { .. }
            | Self::ExpireTime { .. } => return Some(Part::Root),
        };
        let names = if self.is_list() { names } else { names.get(..1)? };
        Some(Part::Items(of, names))
    }

    /// The keys of a call.
    pub fn keys<'a, 'k>(self, args: &'a [&'k [u8]]) -> &'a [&'k [u8]] {
        let all = args.get(1..).unwrap_or_default();
        if matches!(self, Self::Mget | Self::Exists) { all } else { all.get(..1).unwrap_or_default() }
    }

    /// Whether the reply is a list of what is said of each key, or of each item.
    pub(super) fn is_list(self) -> bool {
        matches!(self, Self::Mget | Self::Hmget | Self::Smismember | Self::Zmscore)
    }

    /// What is said of a key's root cell.
    pub(super) fn show_root(self, root: Option<Root<'_>>, now_ms: u64, out: &mut Reply) -> Result<()> {
        let of = root.as_ref().and_then(|r| shard::type_of(r.kind));
        let string = root.as_ref().filter(|_| of == Some(Type::String)).map(|r| r.value);
        let expiry = |show: &dyn Fn(u64) -> i64| match root.as_ref().map(|r| r.expire_at_ms) {
            None => -2,
            Some(0) => -1,
            Some(at) => show(at),
        };
        match self {
            Self::Get | Self::Strlen if root.is_some() && string.is_none() => return Err(Error::WrongType),
            Self::Get | Self::Mget => match string {
                Some(bytes) => out.bulk(bytes),
                None => out.null(),
            },
            Self::Strlen => out.int(string.map_or(0, <[u8]>::len) as i64),
            Self::Type => out.simple(of.map_or("none", Type::name)),
            Self::Ttl { seconds } => out.int(expiry(&|at| in_unit(at.saturating_sub(now_ms), seconds))),
            Self::ExpireTime { seconds } => out.int(expiry(&|at| in_unit(at, seconds))),
            _ => out.int(root.is_some().into()),
        }
        Ok(())
    }

    /// What is said of one item.
    pub(super) fn show_item(self, item: Option<Item<'_>>, out: &mut Reply) {
        match (self, item) {
            (Self::Hstrlen, item) => out.int(item.map_or(0, |(value, _)| value.len()) as i64),
            (Self::IsMember(_) | Self::Smismember, item) => out.int(item.is_some().into()),
            (_, None) => out.null(),
            (Self::Zscore | Self::Zmscore, Some((_, score))) => out.double(score),
            (_, Some((value, _))) => out.bulk(value),
        }
    }
}
