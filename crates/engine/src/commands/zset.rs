//! Sorted sets: adding, removing, looking up, popping.
use super::parse::{ONE_KEY, commands, is, parse_float, pop_count, positive};
use super::{random, scan};
use crate::{Call, Command, Error, KeySpec, Result, Shard, ZAdded};
use kintsugidb_wire::{Proto, Reply};
use std::collections::HashMap;

const COUNTED: KeySpec = KeySpec::Count { at: 1, dest: false };

pub(crate) static TABLE: &[Command] = commands! { SortedSet:
    "zadd" -4 (WRITE|DENYOOM|FAST) ONE_KEY Single Blind "1.2.0" "O(log N) a member"
        "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]" "Adds members to a sorted set, or changes their scores."
        => |c| zadd(c, false);
    "zincrby" 4 (WRITE|DENYOOM|FAST) ONE_KEY Single Rmw "1.2.0" "O(log N)"
        "key increment member" "Adds to the score of a member of a sorted set; an absent one counts as 0."
        => |c| zadd(c, true);
    "zrem" -3 (WRITE|FAST) ONE_KEY Single Blind "1.2.0" "O(M*log N) with M members"
        "key member [member ...]" "Removes members from a sorted set; says how many there were." => zrem;
    "zscore" 3 (READONLY|FAST) ONE_KEY Single Read "1.2.0" "O(1)"
        "key member" "Returns the score of a member of a sorted set." => zscore;
    "zmscore" -3 (READONLY|FAST) ONE_KEY Single Read "6.2.0" "O(N) with N members"
        "key member [member ...]" "Returns the scores of members of a sorted set." => zmscore;
    "zcard" 2 (READONLY|FAST) ONE_KEY Single Read "1.2.0" "O(1)"
        "key" "Returns the number of members of a sorted set." => zcard;
    "zrank" 3 (READONLY|FAST) ONE_KEY Single Read "2.0.0" "O(log N)"
        "key member" "Returns the rank of a member, the lowest score first." => |c| rank(c, false);
    "zrevrank" 3 (READONLY|FAST) ONE_KEY Single Read "2.0.0" "O(log N)"
        "key member" "Returns the rank of a member, the highest score first." => |c| rank(c, true);
    "zpopmin" -2 (WRITE|FAST) ONE_KEY Single Rmw "5.0.0" "O(M*log N) with M members returned"
        "key [count]" "Takes the members with the lowest scores from a sorted set." => |c| zpop(c, false);
    "zpopmax" -2 (WRITE|FAST) ONE_KEY Single Rmw "5.0.0" "O(M*log N) with M members returned"
        "key [count]" "Takes the members with the highest scores from a sorted set." => |c| zpop(c, true);
    "zmpop" -4 (WRITE|MOVABLE_KEYS) COUNTED Move Rmw "7.0.0" "O(K) + O(M*log N) with K keys and M members returned"
        "numkeys key [key ...] <MIN | MAX> [COUNT count]" "Takes members from the first of several sorted sets that is not empty." => zmpop;
    "zrandmember" -2 (READONLY) ONE_KEY Single Read "6.2.0" "O(N) with N members returned"
        "key [count [WITHSCORES]]" "Returns members of a sorted set drawn at random." => random::zrandmember;
    "zscan" -3 (READONLY) ONE_KEY Single Read "2.8.0" "O(1) for every call, O(N) for a whole iteration"
        "key cursor [MATCH pattern] [COUNT count]" "Iterates over the members of a sorted set and their scores." => zscan;
};

/// Options of ZADD.
#[derive(Clone, Copy, Default)]
struct Options {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
    ch: bool,
    incr: bool,
}

/// ZADD, and ZINCRBY, which is ZADD with INCR.
fn zadd(c: &mut Call<'_>, incr: bool) -> Result<()> {
    let mut o = Options { incr, ..Options::default() };
    let mut at = 2;
    while let Some(arg) = c.args.get(at) {
        match () {
            () if is(arg, "nx") => o.nx = true,
            () if is(arg, "xx") => o.xx = true,
            () if is(arg, "gt") => o.gt = true,
            () if is(arg, "lt") => o.lt = true,
            () if is(arg, "ch") => o.ch = true,
            () if is(arg, "incr") => o.incr = true,
            () => break,
        }
        at += 1;
    }
    let (pairs, []) = c.args[at..].as_chunks::<2>() else { return Err(Error::Syntax) };
    if pairs.is_empty() {
        return Err(Error::Syntax);
    }
    if o.nx && o.xx {
        return Err(Error::other("ERR XX and NX options at the same time are not compatible"));
    }
    if ((o.gt || o.lt) && o.nx) || (o.gt && o.lt) {
        return Err(Error::other("ERR GT, LT, and/or NX options at the same time are not compatible"));
    }
    if o.incr && pairs.len() > 1 {
        return Err(Error::other("ERR INCR option supports a single increment-element pair"));
    }
    let mut members = Vec::with_capacity(pairs.len());
    for [score, member] in pairs {
        members.push((parse_float(score)?, *member));
    }
    let key = c.args[1];
    c.shard.zset_len(key)?;
    if o.incr {
        return increment(c, key, members[0], o);
    }
    let (mut added, mut updated) = (0, 0);
    let mut count = |did| match did {
        ZAdded::Added => added += 1,
        ZAdded::Updated => updated += 1,
        ZAdded::Same => {}
    };
    if !(o.nx || o.xx || o.gt || o.lt) {
        c.shard.zset_add_all(key, &members, &mut count)?;
    } else {
        // judged one after the other, written at once: who reads meanwhile sees all or nothing
        let mut written = HashMap::new();
        let mut allowed = Vec::with_capacity(members.len());
        for (score, member) in members {
            let old = match written.get(member) {
                Some(&score) => Some(score),
                None => c.shard.zset_score(key, member)?,
            };
            if o.allow(old, score) {
                written.insert(member, score);
                allowed.push((score, member));
            }
        }
        c.shard.zset_add_all(key, &allowed, &mut count)?;
    }
    c.out.int(if o.ch { added + updated } else { added });
    Ok(())
}

impl Options {
    /// Whether a member that has the score `old` may get `score`.
    fn allow(self, old: Option<f64>, score: f64) -> bool {
        match old {
            None => !self.xx,
            Some(old) => !(self.nx || (self.gt && score <= old) || (self.lt && score >= old)),
        }
    }
}

/// ZINCRBY, and ZADD with INCR.
fn increment(c: &mut Call<'_>, key: &[u8], (by, member): (f64, &[u8]), o: Options) -> Result<()> {
    let old = c.shard.zset_score(key, member)?;
    let score = old.map_or(by, |old| old + by);
    if (old.is_none() && o.xx) || (old.is_some() && o.nx) {
        c.out.null();
        return Ok(());
    }
    if score.is_nan() {
        return Err(Error::other("ERR resulting score is not a number (NaN)"));
    }
    if !o.allow(old, score) {
        c.out.null();
        return Ok(());
    }
    c.shard.zset_add(key, score, member)?;
    c.out.double(score);
    Ok(())
}

fn zrem(c: &mut Call<'_>) -> Result<()> {
    let removed = c.shard.zset_remove(c.args[1], &c.args[2..])?;
    c.out.int(removed as i64);
    Ok(())
}

fn write_score(out: &mut Reply, score: Option<f64>) {
    match score {
        Some(score) => out.double(score),
        None => out.null(),
    }
}

fn zscore(c: &mut Call<'_>) -> Result<()> {
    write_score(c.out, c.shard.zset_score(c.args[1], c.args[2])?);
    Ok(())
}

fn zmscore(c: &mut Call<'_>) -> Result<()> {
    c.shard.zset_len(c.args[1])?;
    c.out.array(c.args.len() - 2);
    for m in &c.args[2..] {
        write_score(c.out, c.shard.zset_score(c.args[1], m)?);
    }
    Ok(())
}

fn zcard(c: &mut Call<'_>) -> Result<()> {
    c.out.int(c.shard.zset_len(c.args[1])? as i64);
    Ok(())
}

fn rank(c: &mut Call<'_>, reverse: bool) -> Result<()> {
    match c.shard.zset_rank(c.args[1], c.args[2])? {
        Some(r) if reverse => c.out.int((c.shard.zset_len(c.args[1])? - 1 - r) as i64),
        Some(r) => c.out.int(r as i64),
        None => c.out.null(),
    }
    Ok(())
}

/// Takes up to `count` members from an end.
fn take(shard: &mut Shard, key: &[u8], max: bool, count: usize) -> Result<Vec<(Vec<u8>, f64)>> {
    let len = shard.zset_len(key)?;
    let mut taken = Vec::with_capacity(count.min(len));
    if len > 0 {
        let start = if max { len - 1 } else { 0 };
        shard.zset_range(key, start, count.min(len), max, &mut |m, s| taken.push((m.to_vec(), s)))?;
    }
    if !taken.is_empty() {
        let members: Vec<&[u8]> = taken.iter().map(|(m, _)| &m[..]).collect();
        shard.zset_remove(key, &members)?;
    }
    Ok(taken)
}

fn zpop(c: &mut Call<'_>, max: bool) -> Result<()> {
    let count = match c.args[2..] {
        [] => None,
        [n] => Some(positive(n, 0, "ERR value is out of range, must be positive")?),
        _ => return Err(Error::Syntax),
    };
    let taken = take(c.shard, c.args[1], max, count.unwrap_or(1))?;
    let nested = count.is_some() && c.out.proto() == Proto::Resp3;
    c.out.array(if nested { taken.len() } else { 2 * taken.len() });
    for (m, s) in &taken {
        if nested {
            c.out.array(2);
        }
        c.out.bulk(m);
        c.out.double(*s);
    }
    Ok(())
}

fn zmpop(c: &mut Call<'_>) -> Result<()> {
    let n = positive(c.args[1], 1, "ERR numkeys should be greater than 0")?;
    let (Some(keys), Some([side, options @ ..])) = (c.args[2..].get(..n), c.args[2..].get(n..)) else {
        return Err(Error::Syntax);
    };
    let max = match () {
        () if is(side, "min") => false,
        () if is(side, "max") => true,
        () => return Err(Error::Syntax),
    };
    let count = pop_count(options)?;
    for key in keys {
        if c.shard.zset_len(key)? > 0 {
            let taken = take(c.shard, key, max, count)?;
            c.out.array(2);
            c.out.bulk(key);
            c.out.array(taken.len());
            for (m, s) in &taken {
                c.out.array(2);
                c.out.bulk(m);
                c.out.double(*s);
            }
            return Ok(());
        }
    }
    c.out.null_array();
    Ok(())
}

fn zscan(c: &mut Call<'_>) -> Result<()> {
    let key = c.args[1];
    scan::collection(
        c.shard,
        c.args,
        c.out,
        |shard| Ok(shard.zset_len(key)? > 0),
        |shard, cursor, found| {
            shard.zset_scan(key, cursor, &mut |m, s| {
                found.element(m, 2, |reply| {
                    reply.bulk(m);
                    reply.bulk(kintsugidb_wire::format_double(s).as_bytes());
                });
            })
        },
    )
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::Probe;

    #[test]
    fn options_decide_what_zadd_may_change() {
        Probe::new().expect(
            "zadd z 1 a 2 b => :2
             zadd z 5 a 3 c => :1
             zadd z ch 6 a 3 c => :1
             zadd z nx 9 a 4 d => :1
             zadd z xx 7 a 9 e => :0
             zscore z a => $1 7
             zadd z gt 6 a => :0
             zadd z lt 6 a => :0
             zscore z a => $1 6
             zadd z xx nx 1 a => -ERR XX and NX options at the same time are not compatible
             zadd z gt lt 1 a => -ERR GT, LT, and/or NX options at the same time are not compatible
             zadd z incr 1 a 2 b => -ERR INCR option supports a single increment-element pair
             zadd z incr 1 a => $1 7
             zadd z nx incr 1 a => $-1
             zadd z xx incr 1 none => $-1
             zadd z 1 a 2 => -ERR syntax error
             zadd z x a => -ERR value is not a valid float
             zadd z nan a => -ERR value is not a valid float
             zadd z inf i => :1
             zincrby z -inf i => -ERR resulting score is not a number (NaN)
             zincrby z ch b => -ERR syntax error
             zincrby z -0 new => $2 -0
             zrem z new => :1
             zincrby z 1.5 b => $3 3.5
             zmscore z b none => *2 $3 3.5 $-1
             zrank z c => :0
             zrevrank z c => :4
             zrank z none => $-1
             zcard z => :5
             zrem z i none => :1
             zcard z => :4",
        );
    }

    #[test]
    fn pops_take_from_the_right_end() {
        Probe::new().expect(
            "zadd z 1 a 2 b 3 c 4 d => :4
             zpopmin z => *2 $1 a $1 1
             zpopmax z 2 => *4 $1 d $1 4 $1 c $1 3
             zpopmin z 0 => *0
             zpopmin z -1 => -ERR value is out of range, must be positive
             zmpop 2 none z max => *2 $1 z *1 *2 $1 b $1 2
             zmpop 2 none z max => *-1
             exists z => :0
             zpopmin none => *0
             zmpop 0 z min => -ERR numkeys should be greater than 0
             zmpop 1 z middle => -ERR syntax error
             zmpop 1 z min count x more => -ERR count should be greater than 0
             zmpop 1 z min count 1 more => -ERR syntax error
             zmpop 1 z min count 0 => -ERR count should be greater than 0
             set s x => +OK
             zpopmin s => -WRONGTYPE Operation against a key holding the wrong kind of value",
        );
    }
}
