//! Union, intersection and difference of sorted sets (and sets, whose members score 1).
use super::parse::{commands, is, parse_float_or, parse_int, positive};
use super::set::replace;
use crate::{Call, Command, Error, KeySpec, Result, Shard, Type, Value};
use hashbrown::HashMap;
use kintsugidb_wire::Proto;
use std::cmp::Ordering;

const COUNTED: KeySpec = KeySpec::Count { at: 1, dest: false };
const COUNTED_STORE: KeySpec = KeySpec::Count { at: 2, dest: true };

pub(crate) static TABLE: &[Command] = commands! { SortedSet:
    "zunion" -3 (READONLY|MOVABLE_KEYS) COUNTED Gather Read "6.2.0" "O(N + M*log M) with N members in all and M in the result"
        "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]" "Returns the union of sorted sets." => |c| answer(c, Algebra::Union);
    "zinter" -3 (READONLY|MOVABLE_KEYS) COUNTED Gather Read "6.2.0" "O(N*K + M*log M) with K sets, N members in the smallest and M in the result"
        "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]" "Returns the intersection of sorted sets." => |c| answer(c, Algebra::Inter);
    "zdiff" -3 (READONLY|MOVABLE_KEYS) COUNTED Gather Read "6.2.0" "O(N + M*log M) with N members in all and M in the result"
        "numkeys key [key ...] [WITHSCORES]" "Returns the members of the first sorted set that no other one has." => |c| answer(c, Algebra::Diff);
    "zunionstore" -4 (WRITE|DENYOOM|MOVABLE_KEYS) COUNTED_STORE Store Rmw "2.0.0" "O(N + M*log M) with N members in all and M in the result"
        "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]" "Stores the union of sorted sets." => |c| store(c, Algebra::Union);
    "zinterstore" -4 (WRITE|DENYOOM|MOVABLE_KEYS) COUNTED_STORE Store Rmw "2.0.0" "O(N*K + M*log M) with K sets, N members in the smallest and M in the result"
        "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]" "Stores the intersection of sorted sets." => |c| store(c, Algebra::Inter);
    "zdiffstore" -4 (WRITE|DENYOOM|MOVABLE_KEYS) COUNTED_STORE Store Rmw "6.2.0" "O(N + M*log M) with N members in all and M in the result"
        "destination numkeys key [key ...]" "Stores the members of the first sorted set that no other one has." => |c| store(c, Algebra::Diff);
    "zintercard" -3 (READONLY|MOVABLE_KEYS) COUNTED Gather Read "7.0.0" "O(N*K) with K sets and N members in the smallest"
        "numkeys key [key ...] [LIMIT limit]" "Returns how many members all of several sorted sets have." => zintercard;
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Algebra {
    Union,
    Inter,
    Diff,
}

/// How the scores of one member in several sets become one.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            // Infinities of both signs add up to nothing.
            Self::Sum => number(a + b),
            Self::Min => {
                if b < a {
                    b
                } else {
                    a
                }
            }
            Self::Max => {
                if b > a {
                    b
                } else {
                    a
                }
            }
        }
    }
}

/// 0 times infinity counts as nothing.
fn number(x: f64) -> f64 {
    if x.is_nan() { 0.0 } else { x }
}

/// An input, with its weight.
#[derive(Clone, Copy)]
struct Input<'a> {
    key: &'a [u8],
    is_set: bool,
    len: usize,
    weight: f64,
}

impl Input<'_> {
    /// The weighted score of a member; it may be no number.
    fn score(&self, shard: &Shard, member: &[u8]) -> Option<f64> {
        if self.is_set {
            return shard.set_contains(self.key, member).ok()?.then_some(self.weight);
        }
        shard.zset_score(self.key, member).ok()?.map(|s| self.weight * s)
    }

    fn for_each(&self, shard: &Shard, f: &mut dyn FnMut(&[u8], f64)) -> Result<()> {
        if self.is_set {
            return shard.set_for_each(self.key, &mut |m| f(m, self.weight));
        }
        shard.zset_range(self.key, 0, usize::MAX, false, &mut |m, s| f(m, number(self.weight * s)))
    }
}

struct Query<'a> {
    inputs: Vec<Input<'a>>,
    aggregate: Aggregate,
    scores: bool,
    limit: usize,
}

/// Which options a command takes besides its keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Weights,
    WeightsAndScores,
    Scores,
    Limit,
    Nothing,
}

/// Parses from the count of keys at `at` on.
fn parse<'a>(shard: &Shard, args: &[&'a [u8]], at: usize, takes: Takes) -> Result<Query<'a>> {
    let n = parse_int(args[at])?;
    if n < 1 {
        let name = String::from_utf8_lossy(args[0]).to_ascii_lowercase();
        return Err(Error::other(format!("ERR at least 1 input key is needed for '{name}' command")));
    }
    let rest = &args[at + 1..];
    let n = usize::try_from(n).ok().filter(|n| *n <= rest.len()).ok_or(Error::Syntax)?;
    let (keys, mut options) = rest.split_at(n);
    let mut inputs = Vec::with_capacity(n);
    for key in keys {
        let (is_set, len) = match shard.type_of(key) {
            None => (false, 0),
            Some(Type::Set) => (true, shard.set_len(key)?),
            Some(_) => (false, shard.zset_len(key)?),
        };
        inputs.push(Input { key, is_set, len, weight: 1.0 });
    }
    let mut q = Query { inputs, aggregate: Aggregate::Sum, scores: false, limit: usize::MAX };
    let weights = matches!(takes, Takes::Weights | Takes::WeightsAndScores);
    while let [name, rest @ ..] = options {
        options = rest;
        if weights && is(name, "weights") && rest.len() >= n {
            for (input, w) in q.inputs.iter_mut().zip(rest) {
                input.weight = parse_float_or(w, "ERR weight value is not a float")?;
            }
            options = &rest[n..];
            continue;
        }
        match rest {
            [how, rest @ ..] if weights && is(name, "aggregate") => {
                q.aggregate = match () {
                    () if is(how, "sum") => Aggregate::Sum,
                    () if is(how, "min") => Aggregate::Min,
                    () if is(how, "max") => Aggregate::Max,
                    () => return Err(Error::Syntax),
                };
                options = rest;
            }
            _ if matches!(takes, Takes::Scores | Takes::WeightsAndScores) && is(name, "withscores") => {
                q.scores = true;
            }
            [limit, rest @ ..] if takes == Takes::Limit && is(name, "limit") => {
                q.limit = match positive(limit, 0, "ERR LIMIT can't be negative")? {
                    0 => usize::MAX,
                    limit => limit,
                };
                options = rest;
            }
            _ => return Err(Error::Syntax),
        }
    }
    Ok(q)
}

/// The members of the result with their scores, in no order.
fn combine(shard: &Shard, q: &mut Query<'_>, how: Algebra) -> Result<Vec<(Vec<u8>, f64)>> {
    let mut found = Vec::new();
    match how {
        Algebra::Union => {
            // Sums of floats depend on the order: the smallest first, as in Redis.
            q.inputs.sort_by_key(|i| i.len);
            let mut all: HashMap<Vec<u8>, f64> = HashMap::new();
            for input in &q.inputs {
                input.for_each(shard, &mut |m, s| match all.get_mut(m) {
                    Some(sum) => *sum = q.aggregate.of(*sum, s),
                    None => {
                        all.insert(m.to_vec(), s);
                    }
                })?;
            }
            found.extend(all);
        }
        Algebra::Inter => {
            q.inputs.sort_by_key(|i| i.len);
            let [first, others @ ..] = &q.inputs[..] else { return Ok(found) };
            first.for_each(shard, &mut |m, s| {
                if found.len() < q.limit {
                    let sum =
                        others.iter().try_fold(s, |sum, o| Some(q.aggregate.of(sum, o.score(shard, m)?)));
                    found.extend(sum.map(|sum| (m.to_vec(), sum)));
                }
            })?;
        }
        Algebra::Diff => {
            let [first, others @ ..] = &q.inputs[..] else { return Ok(found) };
            first.for_each(shard, &mut |m, s| {
                if others.iter().all(|o| o.score(shard, m).is_none()) {
                    found.push((m.to_vec(), s));
                }
            })?;
        }
    }
    Ok(found)
}

fn answer(c: &mut Call<'_>, how: Algebra) -> Result<()> {
    let takes = if how == Algebra::Diff { Takes::Scores } else { Takes::WeightsAndScores };
    let mut q = parse(c.shard, c.args, 1, takes)?;
    let mut found = combine(c.shard, &mut q, how)?;
    found.sort_by(|a, b| a.1.partial_cmp(&b.1).unwrap_or(Ordering::Equal).then_with(|| a.0.cmp(&b.0)));
    let nested = q.scores && c.out.proto() == Proto::Resp3;
    c.out.array(if q.scores && !nested { 2 * found.len() } else { found.len() });
    for (m, s) in &found {
        if nested {
            c.out.array(2);
        }
        c.out.bulk(m);
        if q.scores {
            c.out.double(*s);
        }
    }
    Ok(())
}

fn store(c: &mut Call<'_>, how: Algebra) -> Result<()> {
    let takes = if how == Algebra::Diff { Takes::Nothing } else { Takes::Weights };
    let mut q = parse(c.shard, c.args, 2, takes)?;
    let found = combine(c.shard, &mut q, how)?;
    let n = found.len();
    replace(c.shard, c.args[1], Value::Zset(found.into_iter().collect()))?;
    c.out.int(n as i64);
    Ok(())
}

fn zintercard(c: &mut Call<'_>) -> Result<()> {
    let mut q = parse(c.shard, c.args, 1, Takes::Limit)?;
    let n = combine(c.shard, &mut q, Algebra::Inter)?.len();
    c.out.int(n as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::Probe;

    #[test]
    fn weights_and_aggregates_make_the_scores() {
        Probe::new().expect(
            "zadd a 1 x 2 y => :2
             zadd b 10 y 20 z => :2
             sadd s y z => :2
             zunion 2 a b withscores => *6 $1 x $1 1 $1 y $2 12 $1 z $2 20
             zunion 2 a b weights 2 1 aggregate max withscores => *6 $1 x $1 2 $1 y $2 10 $1 z $2 20
             zinter 2 a b withscores => *2 $1 y $2 12
             zinter 3 a b s withscores => *2 $1 y $2 13
             zinter 2 a none => *0
             zdiff 2 a b withscores => *2 $1 x $1 1
             zunionstore out 2 a s => :3
             zscore out y => $1 3
             zunionstore a 2 a a => :2
             zscore a y => $1 4
             zinterstore out 2 a none => :0
             exists out => :0
             zdiffstore out 2 a b => :1
             zintercard 2 a b => :1
             zintercard 2 a b limit -1 => -ERR LIMIT can't be negative
             zunion 0 a => -ERR at least 1 input key is needed for 'zunion' command
             zunionstore o 0 a => -ERR at least 1 input key is needed for 'zunionstore' command
             zunion x a => -ERR value is not an integer or out of range
             zunion 3 a b => -ERR syntax error
             zunion 1 a weights x => -ERR weight value is not a float
             zunion 1 a weights => -ERR syntax error
             zdiff 1 a weights 1 => -ERR syntax error
             zunionstore o 1 a withscores => -ERR syntax error
             set str v => +OK
             zunion 2 a str => -WRONGTYPE Operation against a key holding the wrong kind of value
             zadd i inf m => :1
             zadd j -inf m => :1
             zunion 2 i j withscores => *2 $1 m $1 0
             zunion 1 i weights 0 withscores => *2 $1 m $1 0",
        );
    }
}
