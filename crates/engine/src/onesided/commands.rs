//! The commands that can be answered one-sidedly.
use super::{Fallback, PointReader};
use crate::{Type, shard};
use kintsugidb_arena::Answer;
use kintsugidb_wire::Reply;

/// A command that can be answered one-sidedly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// GET key
    Get,
    /// STRLEN key
    Strlen,
    /// MGET key …
    Mget,
    /// EXISTS key …
    Exists,
    /// TYPE key
    Type,
    /// TTL key, PTTL key
    Ttl {
        /// In seconds.
        seconds: bool,
    },
    /// EXPIRETIME key, PEXPIRETIME key
    ExpireTime {
        /// In seconds.
        seconds: bool,
    },
    /// LLEN, HLEN, SCARD, ZCARD key
    Len(Type),
    /// HGET key field
    Hget,
    /// HSTRLEN key field
    Hstrlen,
    /// HMGET key field …
    Hmget,
    /// HEXISTS key field, SISMEMBER key member
    IsMember(Type),
    /// SMISMEMBER key member …
    Smismember,
    /// ZSCORE key member
    Zscore,
    /// ZMSCORE key member …
    Zmscore,
}

impl Point {
    /// The one of this (lower-case) name.
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "get" => Self::Get,
            "strlen" => Self::Strlen,
            "mget" => Self::Mget,
            "exists" => Self::Exists,
            "type" => Self::Type,
            "ttl" => Self::Ttl { seconds: true },
            "pttl" => Self::Ttl { seconds: false },
            "expiretime" => Self::ExpireTime { seconds: true },
            "pexpiretime" => Self::ExpireTime { seconds: false },
            "llen" => Self::Len(Type::List),
            "hlen" => Self::Len(Type::Hash),
            "scard" => Self::Len(Type::Set),
            "zcard" => Self::Len(Type::Zset),
            "hget" => Self::Hget,
            "hstrlen" => Self::Hstrlen,
            "hmget" => Self::Hmget,
            "hexists" => Self::IsMember(Type::Hash),
            "sismember" => Self::IsMember(Type::Set),
            "smismember" => Self::Smismember,
            "zscore" => Self::Zscore,
            "zmscore" => Self::Zmscore,
            _ => return None,
        })
    }
}

/// Milliseconds, or seconds as Redis rounds them.
fn in_unit(ms: u64, seconds: bool) -> i64 {
    let n = if seconds { ms.saturating_add(500) / 1000 } else { ms };
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl PointReader {
    /// Answers a call whose number of arguments fits the command; `shards` are those of its keys, in order: all of the arguments
    /// of MGET and EXISTS, the first one of the others.
    pub fn serve(
        &mut self,
        point: Point,
        args: &[&[u8]],
        shards: &[usize],
        out: &mut Reply,
    ) -> Result<(), Fallback> {
        let (Some(&shard), Some(&key)) = (shards.first(), args.get(1)) else { return Err(Fallback) };
        let rest = &args[2..];
        match (point, rest.first()) {
            (Point::Get, _) => self.get(shard, key, out),
            (Point::Strlen, _) => self.strlen(shard, key, out),
            (Point::Mget | Point::Exists, _) => {
                let keys: Vec<(usize, &[u8])> =
                    shards.iter().copied().zip(args[1..].iter().copied()).collect();
                if point == Point::Mget { self.mget(&keys, out) } else { self.exists(&keys, out) }
            }
            (Point::Type, _) => self.type_of(shard, key, out),
            (Point::Ttl { seconds }, _) => self.ttl(shard, key, seconds, out),
            (Point::ExpireTime { seconds }, _) => self.expire_time(shard, key, seconds, out),
            (Point::Len(of), _) => self.card(shard, key, of, out),
            (Point::Hget, Some(field)) => self.hget(shard, key, field, out),
            (Point::Hstrlen, Some(field)) => self.hstrlen(shard, key, field, out),
            (Point::Hmget, _) => self.hmget(shard, key, rest, out),
            (Point::IsMember(of), Some(member)) => self.is_member(shard, key, of, member, out),
            (Point::Smismember, _) => self.smismember(shard, key, rest, out),
            (Point::Zscore, Some(member)) => self.zscore(shard, key, member, out),
            (Point::Zmscore, _) => self.zmscore(shard, key, rest, out),
            (_, None) => Err(Fallback),
        }
    }

    /// GET.
    #[inline]
    pub fn get(&mut self, shard: usize, key: &[u8], out: &mut Reply) -> Result<(), Fallback> {
        self.attempts(out, |r, out| {
            Ok(r.collection(shard, key, Type::String)?.map(|seen| match seen {
                Some(seen) => out.bulk(&r.buf[seen.value]),
                None => out.null(),
            }))
        })
    }

    /// The string of a key in place, for callers that need no reply; valid until the next read.
    #[inline]
    pub fn string(&mut self, shard: usize, key: &[u8]) -> Result<crate::Result<Option<&[u8]>>, Fallback> {
        let mut found = None;
        let mut failed = Ok(());
        // Empty, so nothing is allocated for it.
        let mut nothing = Reply::default();
        self.attempts(&mut nothing, |r, _| {
            failed = r.collection(shard, key, Type::String)?.map(|seen| found = seen.map(|s| s.value));
            Ok(Ok(()))
        })?;
        Ok(failed.map(|()| found.map(|range| &self.buf[range])))
    }

    /// STRLEN.
    pub fn strlen(&mut self, shard: usize, key: &[u8], out: &mut Reply) -> Result<(), Fallback> {
        self.attempts(out, |r, out| {
            let seen = r.collection(shard, key, Type::String)?;
            Ok(seen.map(|seen| out.int(seen.map_or(0, |s| s.value.len()) as i64)))
        })
    }

    /// MGET: what is no string is null.
    pub fn mget(&mut self, keys: &[(usize, &[u8])], out: &mut Reply) -> Result<(), Fallback> {
        self.attempts(out, |r, out| {
            r.roots(keys)?;
            out.array(keys.len());
            for answer in r.answers.iter().flatten() {
                let string = answer.seen().filter(|s| r.is_live(s));
                match string.filter(|s| shard::type_of(s.kind) == Some(Type::String)) {
                    Some(seen) => out.bulk(&r.buf[seen.value.clone()]),
                    None => out.null(),
                }
            }
            Ok(Ok(()))
        })
    }

    /// EXISTS.
    pub fn exists(&mut self, keys: &[(usize, &[u8])], out: &mut Reply) -> Result<(), Fallback> {
        self.attempts(out, |r, out| {
            r.roots(keys)?;
            let live = |a: &&Answer| a.seen().is_some_and(|s| r.is_live(s));
            out.int(r.answers.iter().flatten().filter(live).count() as i64);
            Ok(Ok(()))
        })
    }

    /// TYPE.
    pub fn type_of(&mut self, shard: usize, key: &[u8], out: &mut Reply) -> Result<(), Fallback> {
        self.attempts(out, |r, out| {
            let of = r.root(shard, key)?.and_then(|s| shard::type_of(s.kind));
            out.simple(of.map_or("none", Type::name));
            Ok(Ok(()))
        })
    }

    /// TTL and PTTL.
    pub fn ttl(&mut self, shard: usize, key: &[u8], seconds: bool, out: &mut Reply) -> Result<(), Fallback> {
        self.expiry(shard, key, out, |at, now| in_unit(at - now, seconds))
    }

    /// EXPIRETIME and PEXPIRETIME.
    pub fn expire_time(
        &mut self,
        shard: usize,
        key: &[u8],
        seconds: bool,
        out: &mut Reply,
    ) -> Result<(), Fallback> {
        self.expiry(shard, key, out, |at, _| in_unit(at, seconds))
    }

    fn expiry(
        &mut self,
        shard: usize,
        key: &[u8],
        out: &mut Reply,
        show: impl Fn(u64, u64) -> i64,
    ) -> Result<(), Fallback> {
        self.attempts(out, |r, out| {
            out.int(match r.root(shard, key)? {
                None => -2,
                Some(seen) if seen.expire_at_ms == 0 => -1,
                Some(seen) => show(seen.expire_at_ms, r.now_ms),
            });
            Ok(Ok(()))
        })
    }

    /// LLEN, HLEN, SCARD, ZCARD.
    pub fn card(&mut self, shard: usize, key: &[u8], of: Type, out: &mut Reply) -> Result<(), Fallback> {
        self.attempts(out, |r, out| Ok(r.len(shard, key, of)?.map(|n| out.int(n as i64))))
    }

    /// HGET.
    pub fn hget(&mut self, shard: usize, key: &[u8], field: &[u8], out: &mut Reply) -> Result<(), Fallback> {
        self.attempts(out, |r, out| {
            r.items(shard, key, Type::Hash, &[field], &mut |buf, item| match item {
                Some(i) => out.bulk(&buf[i.value]),
                None => out.null(),
            })
        })
    }

    /// HSTRLEN.
    pub fn hstrlen(
        &mut self,
        shard: usize,
        key: &[u8],
        field: &[u8],
        out: &mut Reply,
    ) -> Result<(), Fallback> {
        self.attempts(out, |r, out| {
            r.items(shard, key, Type::Hash, &[field], &mut |_, item| {
                out.int(item.map_or(0, |i| i.value.len()) as i64)
            })
        })
    }

    /// HMGET.
    pub fn hmget(
        &mut self,
        shard: usize,
        key: &[u8],
        fields: &[&[u8]],
        out: &mut Reply,
    ) -> Result<(), Fallback> {
        self.attempts(out, |r, out| {
            out.array(fields.len());
            r.items(shard, key, Type::Hash, fields, &mut |buf, item| match item {
                Some(i) => out.bulk(&buf[i.value]),
                None => out.null(),
            })
        })
    }

    /// SISMEMBER, and HEXISTS of a hash.
    pub fn is_member(
        &mut self,
        shard: usize,
        key: &[u8],
        of: Type,
        member: &[u8],
        out: &mut Reply,
    ) -> Result<(), Fallback> {
        self.attempts(out, |r, out| {
            r.items(shard, key, of, &[member], &mut |_, item| out.int(item.is_some().into()))
        })
    }

    /// SMISMEMBER.
    pub fn smismember(
        &mut self,
        shard: usize,
        key: &[u8],
        members: &[&[u8]],
        out: &mut Reply,
    ) -> Result<(), Fallback> {
        self.attempts(out, |r, out| {
            out.array(members.len());
            r.items(shard, key, Type::Set, members, &mut |_, item| out.int(item.is_some().into()))
        })
    }

    /// ZSCORE.
    pub fn zscore(
        &mut self,
        shard: usize,
        key: &[u8],
        member: &[u8],
        out: &mut Reply,
    ) -> Result<(), Fallback> {
        self.attempts(out, |r, out| {
            r.items(shard, key, Type::Zset, &[member], &mut |_, item| match item {
                Some(i) => out.double(i.score),
                None => out.null(),
            })
        })
    }

    /// ZMSCORE.
    pub fn zmscore(
        &mut self,
        shard: usize,
        key: &[u8],
        members: &[&[u8]],
        out: &mut Reply,
    ) -> Result<(), Fallback> {
        self.attempts(out, |r, out| {
            out.array(members.len());
            r.items(shard, key, Type::Zset, members, &mut |_, item| match item {
                Some(i) => out.double(i.score),
                None => out.null(),
            })
        })
    }
}
