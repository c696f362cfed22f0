//! Sorted sets by range. A range of ranks, scores or members is a range of ranks first: the bounds are looked up in the
//! order, then the members between them are read.
use super::parse::{ONE_KEY, TWO_KEYS, commands, inclusive_range, is, parse_float, parse_int};
use super::set::replace;
use crate::{Call, Command, Error, LexBound, Result, ScoreBound, Shard, Value};
use kintsugidb_wire::Proto;
use std::ops::Range;

pub(crate) static TABLE: &[Command] = commands! { SortedSet:
    "zrange" -4 (READONLY) ONE_KEY Single Read "1.2.0" "O(log N + M) with M members returned"
        "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]" "Returns members of a sorted set in a range of ranks, scores or members."
        => |c| answer(c, 1, None, false);
    "zrevrange" -4 (READONLY) ONE_KEY Single Read "1.2.0" "O(log N + M) with M members returned"
        "key start stop [WITHSCORES]" "Returns members in a range of ranks, the highest score first." => |c| answer(c, 1, Some(By::Rank), true);
    "zrangebyscore" -4 (READONLY) ONE_KEY Single Read "1.0.5" "O(log N + M) with M members returned"
        "key min max [WITHSCORES] [LIMIT offset count]" "Returns members in a range of scores." => |c| answer(c, 1, Some(By::Score), false);
    "zrevrangebyscore" -4 (READONLY) ONE_KEY Single Read "2.2.0" "O(log N + M) with M members returned"
        "key max min [WITHSCORES] [LIMIT offset count]" "Returns members in a range of scores, the highest first." => |c| answer(c, 1, Some(By::Score), true);
    "zrangebylex" -4 (READONLY) ONE_KEY Single Read "2.8.9" "O(log N + M) with M members returned"
        "key min max [LIMIT offset count]" "Returns members between two members." => |c| answer(c, 1, Some(By::Lex), false);
    "zrevrangebylex" -4 (READONLY) ONE_KEY Single Read "2.8.9" "O(log N + M) with M members returned"
        "key max min [LIMIT offset count]" "Returns members between two members, the last first." => |c| answer(c, 1, Some(By::Lex), true);
    "zrangestore" -5 (WRITE|DENYOOM) TWO_KEYS Store Rmw "6.2.0" "O(log N + M) with M members stored"
        "destination source min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]" "Stores a range of members of a sorted set." => zrangestore;
    "zcount" 4 (READONLY|FAST) ONE_KEY Single Read "2.0.0" "O(log N)"
        "key min max" "Returns how many members of a sorted set have scores in a range." => |c| count(c, By::Score);
    "zlexcount" 4 (READONLY|FAST) ONE_KEY Single Read "2.8.9" "O(log N)"
        "key min max" "Returns how many members of a sorted set are between two members." => |c| count(c, By::Lex);
    "zremrangebyrank" 4 (WRITE) ONE_KEY Single Rmw "2.0.0" "O(log N + M) with M members removed"
        "key start stop" "Removes members of a sorted set in a range of ranks." => |c| remove(c, By::Rank);
    "zremrangebyscore" 4 (WRITE) ONE_KEY Single Rmw "1.2.0" "O(log N + M) with M members removed"
        "key min max" "Removes members of a sorted set in a range of scores." => |c| remove(c, By::Score);
    "zremrangebylex" 4 (WRITE) ONE_KEY Single Rmw "2.8.9" "O(log N + M) with M members removed"
        "key min max" "Removes members of a sorted set between two members." => |c| remove(c, By::Lex);
};

/// What the bounds of a range are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// Two bounds, the lower first, before they are looked up.
enum Bounds<'a> {
    Rank(i64, i64),
    Score(ScoreBound, ScoreBound),
    Lex(LexBound<'a>, LexBound<'a>),
}

impl<'a> Bounds<'a> {
    fn parse(by: By, min: &'a [u8], max: &'a [u8]) -> Result<Self> {
        Ok(match by {
            By::Rank => Self::Rank(parse_int(min)?, parse_int(max)?),
            By::Score => {
                let score = |arg: &[u8]| -> Result<(bool, f64)> {
                    let (open, number) = arg.strip_prefix(b"(").map_or((false, arg), |rest| (true, rest));
                    Ok((open, bound(number)?))
                };
                let ((open_min, min), (open_max, max)) = (score(min)?, score(max)?);
                Self::Score(
                    if open_min { ScoreBound::After(min) } else { ScoreBound::Before(min) },
                    if open_max { ScoreBound::Before(max) } else { ScoreBound::After(max) },
                )
            }
            By::Lex => {
                let member = |arg: &'a [u8], is_max: bool| match arg {
                    b"-" => Ok(LexBound::First),
                    b"+" => Ok(LexBound::Last),
                    [b'[', m @ ..] => Ok(if is_max { LexBound::After(m) } else { LexBound::Before(m) }),
                    [b'(', m @ ..] => Ok(if is_max { LexBound::Before(m) } else { LexBound::After(m) }),
                    _ => Err(Error::other("ERR min or max not valid string range item")),
                };
                Self::Lex(member(min, false)?, member(max, true)?)
            }
        })
    }

    /// The ranks between the bounds; those of `reverse` count from the highest score for ranks only.
    fn ranks(&self, shard: &Shard, key: &[u8], reverse: bool) -> Result<Range<usize>> {
        let len = shard.zset_len(key)?;
        let range = match *self {
            Self::Rank(from, to) => {
                let r = inclusive_range(from, to, len);
                return Ok(if reverse { len - r.end..len - r.start } else { r });
            }
            Self::Score(min, max) => {
                shard.zset_rank_of_score(key, min)?..shard.zset_rank_of_score(key, max)?
            }
            Self::Lex(min, max) => shard.zset_rank_of_lex(key, min)?..shard.zset_rank_of_lex(key, max)?,
        };
        Ok(if range.start < range.end { range } else { 0..0 })
    }
}

/// A bound of scores, as loosely as Redis reads it (with `strtod`): spaces before it, nothing at all (which is 0), and numbers
/// that are too large or too small are no errors.
fn bound(arg: &[u8]) -> Result<f64> {
    let arg = arg.trim_ascii_start();
    if let Ok(x) = parse_float(arg) {
        return Ok(x);
    }
    let loose = std::str::from_utf8(arg).ok().and_then(|s| s.parse::<f64>().ok()).filter(|x| !x.is_nan());
    match loose {
        Some(x) => Ok(x),
        None if arg.is_empty() => Ok(0.0),
        None => Err(Error::other("ERR min or max is not a float")),
    }
}

/// A whole ZRANGE and kin, parsed.
struct Query<'a> {
    key: &'a [u8],
    bounds: Bounds<'a>,
    reverse: bool,
    scores: bool,
    offset: i64,
    limit: i64,
}

impl<'a> Query<'a> {
    /// Parses the arguments from the key at `at` on. `by`: the command says what the bounds are; otherwise options do.
    fn parse(args: &[&'a [u8]], at: usize, by: Option<By>, reverse: bool, store: bool) -> Result<Self> {
        let (mut kind, mut reverse) = (by, reverse);
        let (mut scores, mut offset, mut limit) = (false, 0, -1);
        let mut options = &args[at + 3..];
        while let [name, rest @ ..] = options {
            options = rest;
            match rest {
                _ if !store && is(name, "withscores") => scores = true,
                [first, second, rest @ ..] if is(name, "limit") => {
                    (offset, limit) = (parse_int(first)?, parse_int(second)?);
                    options = rest;
                }
                _ if by.is_none() && is(name, "rev") => reverse = true,
                _ if by.is_none() && is(name, "bylex") => kind = Some(By::Lex),
                _ if by.is_none() && is(name, "byscore") => kind = Some(By::Score),
                _ => return Err(Error::Syntax),
            }
        }
        let kind = kind.unwrap_or(By::Rank);
        if limit != -1 && kind == By::Rank {
            return Err(Error::other(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if scores && kind == By::Lex {
            return Err(Error::other("ERR syntax error, WITHSCORES not supported in combination with BYLEX"));
        }
        let (first, second) = (args[at + 1], args[at + 2]);
        let (min, max) = if reverse && kind != By::Rank { (second, first) } else { (first, second) };
        let bounds = Bounds::parse(kind, min, max)?;
        Ok(Self { key: args[at], bounds, reverse, scores, offset, limit })
    }

    /// Where to begin reading, and how many members.
    fn window(&self, shard: &Shard) -> Result<(usize, usize)> {
        let ranks = self.bounds.ranks(shard, self.key, self.reverse)?;
        let n = ranks.len();
        let skip = usize::try_from(self.offset).unwrap_or(n).min(n);
        let count = usize::try_from(self.limit).unwrap_or(n).min(n - skip);
        let start = if self.reverse { ranks.end.saturating_sub(1 + skip) } else { ranks.start + skip };
        Ok((start, count))
    }
}

fn answer(c: &mut Call<'_>, at: usize, by: Option<By>, reverse: bool) -> Result<()> {
    let q = Query::parse(c.args, at, by, reverse, false)?;
    let (start, count) = q.window(c.shard)?;
    let nested = q.scores && c.out.proto() == Proto::Resp3;
    c.out.array(if q.scores && !nested { 2 * count } else { count });
    c.shard.zset_range(q.key, start, count, q.reverse, &mut |m, s| {
        if nested {
            c.out.array(2);
        }
        c.out.bulk(m);
        if q.scores {
            c.out.double(s);
        }
    })
}

fn zrangestore(c: &mut Call<'_>) -> Result<()> {
    let q = Query::parse(c.args, 2, None, false, true)?;
    let (start, count) = q.window(c.shard)?;
    let mut found = std::collections::BTreeMap::new();
    c.shard.zset_range(q.key, start, count, q.reverse, &mut |m, s| {
        found.insert(m.to_vec(), s);
    })?;
    let n = found.len();
    replace(c.shard, c.args[1], Value::Zset(found))?;
    c.out.int(n as i64);
    Ok(())
}

fn count(c: &mut Call<'_>, by: By) -> Result<()> {
    let n = Bounds::parse(by, c.args[2], c.args[3])?.ranks(c.shard, c.args[1], false)?.len();
    c.out.int(n as i64);
    Ok(())
}

fn remove(c: &mut Call<'_>, by: By) -> Result<()> {
    let ranks = Bounds::parse(by, c.args[2], c.args[3])?.ranks(c.shard, c.args[1], false)?;
    let mut members: Vec<Vec<u8>> = Vec::with_capacity(ranks.len());
    c.shard.zset_range(c.args[1], ranks.start, ranks.len(), false, &mut |m, _| members.push(m.to_vec()))?;
    let members: Vec<&[u8]> = members.iter().map(Vec::as_slice).collect();
    let removed = if members.is_empty() { 0 } else { c.shard.zset_remove(c.args[1], &members)? };
    c.out.int(removed as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::Probe;

    #[test]
    fn ranges_are_by_rank_score_or_member() {
        Probe::new().expect(
            "zadd z 1 a 2 b 3 c 4 d => :4
             zrange z 0 -1 => *4 $1 a $1 b $1 c $1 d
             zrange z 1 2 withscores => *4 $1 b $1 2 $1 c $1 3
             zrange z 0 1 rev => *2 $1 d $1 c
             zrevrange z -2 -1 => *2 $1 b $1 a
             zrange z 5 9 => *0
             zrangebyscore z (1 3 => *2 $1 b $1 c
             zrangebyscore z -inf +inf limit 1 2 => *2 $1 b $1 c
             zrangebyscore z -inf +inf limit -1 2 => *0
             zrangebyscore z -inf +inf limit 2 -1 => *2 $1 c $1 d
             zrevrangebyscore z 3 (1 => *2 $1 c $1 b
             zrange z 3 1 byscore rev limit 1 1 => *1 $1 b
             zrangebyscore z x 3 => -ERR min or max is not a float
             zcount z (1 (4 => :2
             zcount z \"\" 1e400 => :4
             zcount z ( _2 => :2
             zcount z 1_ 2 => -ERR min or max is not a float
             zcount z nan 2 => -ERR min or max is not a float
             zcount z 4 1 => :0
             zrange z 0 1 limit 0 1 => -ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
             zrange z - + bylex withscores => -ERR syntax error, WITHSCORES not supported in combination with BYLEX
             zrange z 0 1 foo => -ERR syntax error
             zrange none 0 -1 => *0
             zadd l 0 a 0 b 0 c => :3
             zrangebylex l [a (c => *2 $1 a $1 b
             zrangebylex l - + => *3 $1 a $1 b $1 c
             zrangebylex l + - => *0
             zrevrangebylex l + (a => *2 $1 c $1 b
             zrangebylex l a c => -ERR min or max not valid string range item
             zlexcount l - [b => :2
             zrangestore out z 0 1 => :2
             zrange out 0 -1 => *2 $1 a $1 b
             zrangestore out z 8 9 => :0
             exists out => :0
             zremrangebyrank z 0 0 => :1
             zremrangebyscore z 2 (3 => :1
             zremrangebylex l [b [b => :1
             zrange l 0 -1 => *2 $1 a $1 c
             zremrangebyrank z 0 -1 => :2
             exists z => :0",
        );
    }
}
