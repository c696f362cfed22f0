//! The commands that can be answered one-sidedly.
use super::part::{Part, Root};
use super::{Fallback, PointReader};
use crate::Type;
use kintsugidb_arena::{Answer, Seen};
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

impl<'a> Root<'a> {
    /// A cell whose value is in the buffer.
    fn of(seen: &Seen, buf: &'a [u8]) -> Self {
        Self { kind: seen.kind, expire_at_ms: seen.expire_at_ms, value: &buf[seen.value.clone()] }
    }
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
        let (Some(&shard), Some(part)) = (shards.first(), point.part(args)) else {
            return Err(Fallback::Changing);
        };
        let key = args[1];
        match (point, part) {
            (Point::Get, _) => self.get(shard, key, out),
            (Point::Mget | Point::Exists, _) => {
                let keys: Vec<(usize, &[u8])> =
                    shards.iter().copied().zip(args[1..].iter().copied()).collect();
                if point == Point::Mget { self.mget(&keys, out) } else { self.exists(&keys, out) }
            }
            (_, Part::Root) => self.attempts(out, |r, out| {
                let seen = r.root(shard, key)?;
                Ok(point.show_root(seen.map(|s| Root::of(&s, &r.buf)), r.now_ms, out))
            }),
            (_, Part::Len(of)) => {
                self.attempts(out, |r, out| Ok(r.len(shard, key, of)?.map(|n| out.int(n as i64))))
            }
            (_, Part::Items(of, names)) => self.attempts(out, |r, out| {
                if point.is_list() {
                    out.array(names.len());
                }
                r.items(shard, key, of, names, &mut |buf, item| {
                    point.show_item(item.map(|i| (&buf[i.value], i.score)), out);
                })
            }),
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

    /// MGET: what is no string is null.
    pub fn mget(&mut self, keys: &[(usize, &[u8])], out: &mut Reply) -> Result<(), Fallback> {
        self.attempts(out, |r, out| {
            r.roots(keys)?;
            out.array(keys.len());
            Ok(r.answers.iter().flatten().try_for_each(|answer| {
                let live = answer.seen().filter(|s| r.is_live(s));
                Point::Mget.show_root(live.map(|s| Root::of(s, &r.buf)), r.now_ms, out)
            }))
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
}
