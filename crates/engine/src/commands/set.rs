//! Sets.
use super::parse::{ALL_KEYS, ONE_KEY, TWO_KEYS, commands, is, positive};
use super::{random, scan};
use crate::{Call, Command, Dump, Error, KeySpec, Result, Shard, Type, Value};
use hashbrown::HashSet;

/// The keys of the STORE forms: the destination, then the sources.
const STORE_KEYS: KeySpec = ALL_KEYS;
const COUNTED: KeySpec = KeySpec::Count { at: 1, dest: false };

pub(crate) static TABLE: &[Command] = commands! { Set:
    "sadd" -3 (WRITE|DENYOOM|FAST) ONE_KEY Single Blind "1.0.0" "O(N) with N members"
        "key member [member ...]" "Adds members to a set; says how many are new." => sadd;
    "srem" -3 (WRITE|FAST) ONE_KEY Single Blind "1.0.0" "O(N) with N members"
        "key member [member ...]" "Removes members from a set; says how many there were." => srem;
    "smembers" 2 (READONLY) ONE_KEY Single Read "1.0.0" "O(N) where N is the size of the set"
        "key" "Returns all members of a set." => smembers;
    "sismember" 3 (READONLY|FAST) ONE_KEY Single Read "1.0.0" "O(1)"
        "key member" "Says whether a set has a member." => sismember;
    "smismember" -3 (READONLY|FAST) ONE_KEY Single Read "6.2.0" "O(N) with N members"
        "key member [member ...]" "Says of several members whether a set has them." => smismember;
    "scard" 2 (READONLY|FAST) ONE_KEY Single Read "1.0.0" "O(1)"
        "key" "Returns the number of members of a set." => scard;
    "spop" -2 (WRITE|FAST) ONE_KEY Single Rmw "1.0.0" "O(N) with N members returned"
        "key [count]" "Takes members drawn at random from a set." => spop;
    "srandmember" -2 (READONLY) ONE_KEY Single Read "1.0.0" "O(N) with N members returned"
        "key [count]" "Returns members of a set drawn at random." => random::srandmember;
    "smove" 4 (WRITE|FAST) TWO_KEYS Move Rmw "1.0.0" "O(1)"
        "source destination member" "Moves a member from one set to another." => smove;
    "sinter" -2 (READONLY) ALL_KEYS Gather Read "1.0.0" "O(N*M) where N is the size of the smallest set and M the number of sets"
        "key [key ...]" "Returns the members that all of several sets have." => |c| answer(c, Algebra::Inter);
    "sunion" -2 (READONLY) ALL_KEYS Gather Read "1.0.0" "O(N) where N is the number of members in all sets"
        "key [key ...]" "Returns the members that any of several sets has." => |c| answer(c, Algebra::Union);
    "sdiff" -2 (READONLY) ALL_KEYS Gather Read "1.0.0" "O(N) where N is the number of members in all sets"
        "key [key ...]" "Returns the members of the first set that no other set has." => |c| answer(c, Algebra::Diff);
    "sinterstore" -3 (WRITE|DENYOOM) STORE_KEYS Store Rmw "1.0.0" "O(N*M) where N is the size of the smallest set and M the number of sets"
        "destination key [key ...]" "Stores the members that all of several sets have." => |c| store(c, Algebra::Inter);
    "sunionstore" -3 (WRITE|DENYOOM) STORE_KEYS Store Rmw "1.0.0" "O(N) where N is the number of members in all sets"
        "destination key [key ...]" "Stores the members that any of several sets has." => |c| store(c, Algebra::Union);
    "sdiffstore" -3 (WRITE|DENYOOM) STORE_KEYS Store Rmw "1.0.0" "O(N) where N is the number of members in all sets"
        "destination key [key ...]" "Stores the members of the first set that no other set has." => |c| store(c, Algebra::Diff);
    "sintercard" -3 (READONLY|MOVABLE_KEYS) COUNTED Gather Read "7.0.0" "O(N*M) where N is the size of the smallest set and M the number of sets"
        "numkeys key [key ...] [LIMIT limit]" "Returns how many members all of several sets have." => sintercard;
    "sscan" -3 (READONLY) ONE_KEY Single Read "2.8.0" "O(1) for every call, O(N) for a whole iteration"
        "key cursor [MATCH pattern] [COUNT count]" "Iterates over the members of a set." => sscan;
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Algebra {
    Inter,
    Union,
    Diff,
}

fn sadd(c: &mut Call<'_>) -> Result<()> {
    let added = c.shard.set_add(c.args[1], &c.args[2..])?;
    c.out.int(added as i64);
    Ok(())
}

fn srem(c: &mut Call<'_>) -> Result<()> {
    let removed = c.shard.set_remove(c.args[1], &c.args[2..])?;
    c.out.int(removed as i64);
    Ok(())
}

fn smembers(c: &mut Call<'_>) -> Result<()> {
    c.out.set(c.shard.set_len(c.args[1])?);
    c.shard.set_for_each(c.args[1], &mut |m| c.out.bulk(m))
}

fn sismember(c: &mut Call<'_>) -> Result<()> {
    c.out.int(c.shard.set_contains(c.args[1], c.args[2])?.into());
    Ok(())
}

fn smismember(c: &mut Call<'_>) -> Result<()> {
    c.shard.set_len(c.args[1])?;
    c.out.array(c.args.len() - 2);
    for m in &c.args[2..] {
        c.out.int(c.shard.set_contains(c.args[1], m)?.into());
    }
    Ok(())
}

fn scard(c: &mut Call<'_>) -> Result<()> {
    c.out.int(c.shard.set_len(c.args[1])? as i64);
    Ok(())
}

fn spop(c: &mut Call<'_>) -> Result<()> {
    let key = c.args[1];
    let count = match c.args[2..] {
        [] => None,
        [n] => Some(positive(n, 0, "ERR value is out of range, must be positive")?),
        _ => return Err(Error::Syntax),
    };
    let taken = random::members(c.shard, key, count.unwrap_or(1))?;
    let members: Vec<&[u8]> = taken.iter().map(Vec::as_slice).collect();
    if !members.is_empty() {
        c.shard.set_remove(key, &members)?;
    }
    match (count, members.first()) {
        (None, Some(m)) => c.out.bulk(m),
        (None, None) => c.out.null(),
        (Some(_), _) => {
            c.out.set(members.len());
            members.iter().for_each(|m| c.out.bulk(m));
        }
    }
    Ok(())
}

fn smove(c: &mut Call<'_>) -> Result<()> {
    let (from, to, member) = (c.args[1], c.args[2], c.args[3]);
    let mut moved = c.shard.type_of(from).is_some();
    if moved {
        moved = c.shard.set_contains(from, member)?;
        c.shard.set_len(to)?;
        if moved && from != to {
            // Added before it is removed: a failed addition loses nothing.
            c.shard.set_add(to, &[member])?;
            c.shard.set_remove(from, &[member])?;
        }
    }
    c.out.int(moved.into());
    Ok(())
}

/// The members of the union, intersection or difference of the sets at `keys`; at most `limit` of an intersection.
fn combine(shard: &Shard, keys: &[&[u8]], how: Algebra, limit: usize) -> Result<Vec<Vec<u8>>> {
    let mut sizes = keys.iter().map(|k| Ok((shard.set_len(k)?, *k))).collect::<Result<Vec<_>>>()?;
    let mut found = Vec::new();
    match how {
        Algebra::Union => {
            let mut seen = HashSet::new();
            for key in keys {
                shard.set_for_each(key, &mut |m| {
                    if !seen.contains(m) {
                        seen.insert(m.to_vec());
                    }
                })?;
            }
            found.extend(seen);
        }
        Algebra::Inter | Algebra::Diff => {
            let first = if how == Algebra::Inter {
                sizes.sort_by_key(|s| s.0);
                sizes[0].1
            } else {
                keys[0]
            };
            let inter = how == Algebra::Inter;
            let others: Vec<&[u8]> = match how {
                Algebra::Inter => sizes[1..].iter().map(|s| s.1).collect(),
                _ => keys[1..].to_vec(),
            };
            shard.set_for_each(first, &mut |m| {
                let has = |k: &&[u8]| shard.set_contains(k, m).unwrap_or(false);
                if found.len() < limit && if inter { others.iter().all(has) } else { !others.iter().any(has) }
                {
                    found.push(m.to_vec());
                }
            })?;
        }
    }
    Ok(found)
}

fn answer(c: &mut Call<'_>, how: Algebra) -> Result<()> {
    let found = combine(c.shard, &c.args[1..], how, usize::MAX)?;
    c.out.set(found.len());
    found.iter().for_each(|m| c.out.bulk(m));
    Ok(())
}

fn store(c: &mut Call<'_>, how: Algebra) -> Result<()> {
    let found = combine(c.shard, &c.args[2..], how, usize::MAX)?;
    let n = found.len();
    replace(c.shard, c.args[1], Value::Set(found.into_iter().collect()))?;
    c.out.int(n as i64);
    Ok(())
}

/// What the STORE forms do with their destination: replaced, whatever it was, or deleted if there is nothing to store.
pub(crate) fn replace(shard: &mut Shard, key: &[u8], value: Value) -> Result<()> {
    if value.is_empty() && value.type_of() != Type::String {
        shard.delete(key);
        return Ok(());
    }
    shard.restore(key, Dump { value, expire_at_ms: None })
}

fn sintercard(c: &mut Call<'_>) -> Result<()> {
    let n = positive(c.args[1], 1, "ERR numkeys should be greater than 0")?;
    let (Some(keys), Some(mut options)) = (c.args[2..].get(..n), c.args[2..].get(n..)) else {
        return Err(Error::other("ERR Number of keys can't be greater than number of args"));
    };
    let mut limit = 0;
    while let [name, rest @ ..] = options {
        let ([value, rest @ ..], true) = (rest, is(name, "limit")) else { return Err(Error::Syntax) };
        limit = positive(value, 0, "ERR LIMIT can't be negative")?;
        options = rest;
    }
    let limit = if limit == 0 { usize::MAX } else { limit };
    let found = combine(c.shard, keys, Algebra::Inter, limit)?;
    c.out.int(found.len() as i64);
    Ok(())
}

fn sscan(c: &mut Call<'_>) -> Result<()> {
    let key = c.args[1];
    scan::collection(
        c.shard,
        c.args,
        c.out,
        |shard| Ok(shard.set_len(key)? > 0),
        |shard, cursor, found| {
            shard.set_scan(key, cursor, &mut |m| found.element(m, 1, |reply| reply.bulk(m)))
        },
    )
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::Probe;

    #[test]
    fn members_are_added_found_and_removed() {
        Probe::new().expect(
            "sadd s a b a => :2
             sadd s b c => :1
             scard s => :3
             sismember s a => :1
             sismember s z => :0
             smismember s a z c => *3 :1 :0 :1
             smismember none a => *1 :0
             smembers s =~> *3 $1 a $1 b $1 c
             srem s a z => :1
             srem s b c => :2
             exists s => :0
             smembers s => *0
             set str x => +OK
             sadd str a => -WRONGTYPE Operation against a key holding the wrong kind of value
             smismember str a => -WRONGTYPE Operation against a key holding the wrong kind of value",
        );
    }

    #[test]
    fn algebra_reads_all_sets_before_it_stores() {
        Probe::new().expect(
            "sadd a 1 2 3 4 => :4
             sadd b 3 4 5 => :3
             sadd c 4 => :1
             sinter a b =~> *2 $1 3 $1 4
             sinter a b none => *0
             sunion a b =~> *5 $1 1 $1 2 $1 3 $1 4 $1 5
             sdiff a b =~> *2 $1 1 $1 2
             sdiff none a => *0
             sintercard 2 a b => :2
             sintercard 2 a b limit 1 => :1
             sintercard 2 a b limit 0 => :2
             sintercard 0 a => -ERR numkeys should be greater than 0
             sintercard 3 a b => -ERR Number of keys can't be greater than number of args
             sintercard 1 a limit -1 => -ERR LIMIT can't be negative
             sintercard 1 a foo 1 => -ERR syntax error
             sunionstore a a b => :5
             scard a => :5
             sinterstore d a b c => :1
             smembers d => *1 $1 4
             set d x => +OK
             sdiffstore d c a => :0
             exists d => :0
             set str x => +OK
             sunion a str => -WRONGTYPE Operation against a key holding the wrong kind of value
             sinter none str => -WRONGTYPE Operation against a key holding the wrong kind of value",
        );
    }

    #[test]
    fn a_member_moves_once() {
        Probe::new().expect(
            "sadd a x y => :2
             smove a b x => :1
             smove a b x => :0
             smove a a y => :1
             smembers b => *1 $1 x
             set str v => +OK
             smove none str x => :0
             smove a str y => -WRONGTYPE Operation against a key holding the wrong kind of value
             smembers a => *1 $1 y
             spop a => $1 y
             spop a => $-1
             spop b 0 => *0
             spop b 5 => *1 $1 x
             spop b -1 => -ERR value is out of range, must be positive
             sadd s aa ab => :2
             sscan s 0 match ab => *2 $1 0 *1 $2 ab",
        );
    }
}
