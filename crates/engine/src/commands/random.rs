//! Elements drawn at random: HRANDFIELD, SRANDMEMBER, ZRANDMEMBER, and the choice of SPOP.
//!
//! A positive count asks for that many *different* elements. When they are a good part of the collection, one pass over it
//! takes each with just the probability that leaves every subset equally likely (selection sampling: Knuth, TAOCP vol. 2,
//! 3.4.2, algorithm S); when they are few, they are drawn one by one, and drawn again when they were drawn before.
//! A negative count asks for independent draws, so it may be larger than the collection.
use super::parse::{is, parse_int};
use crate::{Call, Error, Result, Shard};
use hashbrown::HashSet;
use kintsugidb_wire::{Proto, Reply};

/// How long a reply of independent draws may become. The collection itself does not bound it, the client does.
const MAX_REPLY: usize = 512 << 20;

/// Which family of typed operations a key is read with.
#[derive(Clone, Copy)]
enum Kind {
    Hash,
    Set,
    Zset,
}

/// What belongs to an element: a field's value, a member's score.
#[derive(Clone, Copy)]
enum With<'a> {
    Nothing,
    Value(&'a [u8]),
    Score(f64),
}

impl With<'_> {
    fn write(self, out: &mut Reply) {
        match self {
            With::Nothing => {}
            With::Value(v) => out.bulk(v),
            With::Score(s) => out.double(s),
        }
    }
}

/// A collection, whatever its type.
#[derive(Clone, Copy)]
struct Source<'a> {
    shard: &'a Shard,
    key: &'a [u8],
    kind: Kind,
}

impl Source<'_> {
    fn len(&self) -> Result<usize> {
        match self.kind {
            Kind::Hash => self.shard.hash_len(self.key),
            Kind::Set => self.shard.set_len(self.key),
            Kind::Zset => self.shard.zset_len(self.key),
        }
    }

    fn for_each(&self, f: &mut dyn FnMut(&[u8], With<'_>)) -> Result<()> {
        match self.kind {
            Kind::Hash => self.shard.hash_for_each(self.key, &mut |e, v| f(e, With::Value(v))),
            Kind::Set => self.shard.set_for_each(self.key, &mut |e| f(e, With::Nothing)),
            Kind::Zset => {
                self.shard.zset_range(self.key, 0, usize::MAX, false, &mut |e, s| f(e, With::Score(s)))
            }
        }
    }

    fn draw(&self, r: u64) -> Result<Option<(&[u8], With<'_>)>> {
        Ok(match self.kind {
            Kind::Hash => self.shard.hash_random(self.key, r)?.map(|(e, v)| (e, With::Value(v))),
            Kind::Set => self.shard.set_random(self.key, r)?.map(|e| (e, With::Nothing)),
            Kind::Zset => self.shard.zset_random(self.key, r)?.map(|(e, s)| (e, With::Score(s))),
        })
    }

    /// Calls `f` with `count` different elements of the `len` there are (`count <= len`).
    fn sample(
        &self,
        len: usize,
        count: usize,
        random: &mut Random,
        f: &mut dyn FnMut(&[u8], With<'_>),
    ) -> Result<()> {
        if count.saturating_mul(3) >= len {
            let (mut left, mut wanted) = (len as u64, count as u64);
            return self.for_each(&mut |e, with| {
                if left > 0 && random.below(left) < wanted {
                    wanted -= 1;
                    f(e, with);
                }
                left = left.saturating_sub(1);
            });
        }
        let mut drawn: HashSet<Vec<u8>> = HashSet::with_capacity(count);
        while drawn.len() < count {
            let Some((e, with)) = self.draw(random.next())? else { break };
            if !drawn.contains(e) {
                drawn.insert(e.to_vec());
                f(e, with);
            }
        }
        Ok(())
    }
}

/// The random numbers of one call (splitmix64), so that they can be drawn while the shard is read.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

pub(crate) fn hrandfield(c: &mut Call<'_>) -> Result<()> {
    pairs(c, Kind::Hash, "withvalues")
}

pub(crate) fn zrandmember(c: &mut Call<'_>) -> Result<()> {
    pairs(c, Kind::Zset, "withscores")
}

pub(crate) fn srandmember(c: &mut Call<'_>) -> Result<()> {
    match c.args.len() {
        2 => one(c, Kind::Set),
        3 => many(c, Kind::Set, count(c.args[2])?, false),
        _ => Err(Error::Syntax),
    }
}

/// `count` different members of a set (all of them if it has no more), for SPOP.
pub(crate) fn members(shard: &mut Shard, key: &[u8], count: usize) -> Result<Vec<Vec<u8>>> {
    let mut random = Random(shard.random());
    let source = Source { shard, key, kind: Kind::Set };
    let len = source.len()?;
    let count = count.min(len);
    let mut all = Vec::with_capacity(count);
    source.sample(len, count, &mut random, &mut |e, _| all.push(e.to_vec()))?;
    Ok(all)
}

/// HRANDFIELD and ZRANDMEMBER: `key [count [with]]`.
fn pairs(c: &mut Call<'_>, kind: Kind, option: &str) -> Result<()> {
    if c.args.len() == 2 {
        return one(c, kind);
    }
    let count = count(c.args[2])?;
    match c.args[3..] {
        [] => many(c, kind, count, false),
        [with] if is(with, option) => {
            if !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
                return Err(Error::other("ERR value is out of range"));
            }
            many(c, kind, count, true)
        }
        _ => Err(Error::Syntax),
    }
}

fn count(arg: &[u8]) -> Result<i64> {
    match parse_int(arg)? {
        i64::MIN => Err(Error::other(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        )),
        n => Ok(n),
    }
}

fn one(c: &mut Call<'_>, kind: Kind) -> Result<()> {
    let r = c.shard.random();
    match (Source { shard: c.shard, key: c.args[1], kind }).draw(r)? {
        Some((e, _)) => c.out.bulk(e),
        None => c.out.null(),
    }
    Ok(())
}

fn many(c: &mut Call<'_>, kind: Kind, count: i64, with: bool) -> Result<()> {
    let Call { shard, args, out } = c;
    let mut random = Random(shard.random());
    let source = Source { shard, key: args[1], kind };
    let len = source.len()?;
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let replies = match (len, count) {
        (0, _) => 0,
        (_, 0..) => wanted.min(len),
        _ => wanted,
    };
    let nested = with && out.proto() == Proto::Resp3;
    if replies > MAX_REPLY {
        return Err(Error::other("ERR value is out of range"));
    }
    out.array(if with && !nested { 2 * replies } else { replies });
    let write = |out: &mut Reply, e: &[u8], w: With<'_>| {
        if nested {
            out.array(2);
        }
        out.bulk(e);
        if with {
            w.write(out);
        }
    };
    if count >= 0 {
        return source.sample(len, replies, &mut random, &mut |e, w| write(out, e, w));
    }
    let limit = out.len().saturating_add(MAX_REPLY);
    for _ in 0..replies {
        if let Some((e, w)) = source.draw(random.next())? {
            write(out, e, w);
        }
        if out.len() > limit {
            return Err(Error::other("ERR value is out of range"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::testing::Probe;

    fn members_of(reply: &str) -> Vec<String> {
        reply.split(' ').filter(|w| w.starts_with('m')).map(str::to_owned).collect()
    }

    #[test]
    fn positive_counts_are_different_members_and_every_one_comes_up() {
        for (size, count) in [(100, 10), (100, 50), (10, 10), (10, 99)] {
            let mut p = Probe::new();
            for i in 0..size {
                p.run(&format!("sadd s m{i}"));
            }
            let mut seen = std::collections::BTreeMap::<String, u32>::new();
            for _ in 0..400 {
                let got = members_of(&p.run(&format!("srandmember s {count}")));
                let different: HashSet<_> = got.iter().cloned().collect();
                assert_eq!((got.len(), different.len()), (count.min(size), count.min(size)));
                got.into_iter().for_each(|m| *seen.entry(m).or_default() += 1);
            }
            assert_eq!(seen.len(), size);
            let expected = (400 * count.min(size) / size) as u32;
            assert!(seen.values().all(|&n| n > expected / 4 && n <= 2 * expected), "{seen:?}");
        }
    }

    #[test]
    fn negative_counts_draw_again_what_was_drawn() {
        let mut p = Probe::new();
        p.run("sadd s m1 m2");
        assert_eq!(members_of(&p.run("srandmember s -50")).len(), 50);
        p.expect(
            "srandmember s 0 => *0
             srandmember none -5 => *0
             srandmember none => $-1
             srandmember s -9223372036854775807 => -ERR value is out of range
             srandmember s 1 2 => -ERR syntax error
             hset h f v => :1
             hrandfield h -2 withvalues => *4 $1 f $1 v $1 f $1 v
             hrandfield h 9 => *1 $1 f
             hrandfield h 9223372036854775807 withvalues => -ERR value is out of range
             hrandfield h 1 other => -ERR syntax error
             hrandfield h => $1 f",
        );
    }
}
