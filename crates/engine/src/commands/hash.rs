//! Hashes.
use super::long_double::LongDouble;
use super::parse::{ONE_KEY, commands, parse_int, parse_int_or};
use super::{random, scan};
use crate::{Call, Command, Error, Result};

pub(crate) static TABLE: &[Command] = commands! { Hash:
    "hset" -4 (WRITE|DENYOOM|FAST) ONE_KEY Single Blind "2.0.0" "O(N) with N fields"
        "key field value [field value ...]" "Sets fields of a hash to values; says how many are new." => hset;
    "hmset" -4 (WRITE|DENYOOM|FAST) ONE_KEY Single Blind "2.0.0" "O(N) with N fields"
        "key field value [field value ...]" "Sets fields of a hash to values." => hmset;
    "hsetnx" 4 (WRITE|DENYOOM|FAST) ONE_KEY Single Rmw "2.0.0" "O(1)"
        "key field value" "Sets a field of a hash unless it is there already." => hsetnx;
    "hget" 3 (READONLY|FAST) ONE_KEY Single Read "2.0.0" "O(1)"
        "key field" "Returns the value of a field of a hash." => hget;
    "hmget" -3 (READONLY|FAST) ONE_KEY Single Read "2.0.0" "O(N) with N fields"
        "key field [field ...]" "Returns the values of fields of a hash." => hmget;
    "hdel" -3 (WRITE|FAST) ONE_KEY Single Blind "2.0.0" "O(N) with N fields"
        "key field [field ...]" "Removes fields of a hash; says how many there were." => hdel;
    "hlen" 2 (READONLY|FAST) ONE_KEY Single Read "2.0.0" "O(1)"
        "key" "Returns the number of fields of a hash." => hlen;
    "hstrlen" 3 (READONLY|FAST) ONE_KEY Single Read "3.2.0" "O(1)"
        "key field" "Returns the length of the value of a field of a hash." => hstrlen;
    "hexists" 3 (READONLY|FAST) ONE_KEY Single Read "2.0.0" "O(1)"
        "key field" "Says whether a hash has a field." => hexists;
    "hkeys" 2 (READONLY) ONE_KEY Single Read "2.0.0" "O(N) with N fields"
        "key" "Returns all fields of a hash, without their values." => hkeys;
    "hvals" 2 (READONLY) ONE_KEY Single Read "2.0.0" "O(N) with N fields"
        "key" "Returns all values of a hash, without their fields." => hvals;
    "hgetall" 2 (READONLY) ONE_KEY Single Read "2.0.0" "O(N) with N fields"
        "key" "Returns all fields of a hash and their values." => hgetall;
    "hincrby" 4 (WRITE|DENYOOM|FAST) ONE_KEY Single Rmw "2.0.0" "O(1)"
        "key field increment" "Adds an integer to the value of a field of a hash; an absent one counts as 0." => hincrby;
    "hincrbyfloat" 4 (WRITE|DENYOOM|FAST) ONE_KEY Single Rmw "2.6.0" "O(1)"
        "key field increment" "Adds a float to the value of a field of a hash; an absent one counts as 0." => hincrbyfloat;
    "hrandfield" -2 (READONLY) ONE_KEY Single Read "6.2.0" "O(N) with N fields returned"
        "key [count [WITHVALUES]]" "Returns fields of a hash drawn at random." => random::hrandfield;
    "hscan" -3 (READONLY) ONE_KEY Single Read "2.8.0" "O(1) for every call, O(N) for a whole iteration"
        "key cursor [MATCH pattern] [COUNT count]" "Iterates over the fields of a hash and their values." => hscan;
};

/// The fields and values of `HSET key field value …`.
fn pairs<'a>(c: &Call<'a>, name: &'static str) -> Result<Vec<(&'a [u8], &'a [u8])>> {
    let (pairs, []) = c.args[2..].as_chunks::<2>() else { return Err(Error::Arity(name.into())) };
    Ok(pairs.iter().map(|[field, value]| (*field, *value)).collect())
}

fn hset(c: &mut Call<'_>) -> Result<()> {
    let pairs = pairs(c, "hset")?;
    let added = c.shard.hash_set(c.args[1], &pairs)?;
    c.out.int(added as i64);
    Ok(())
}

fn hmset(c: &mut Call<'_>) -> Result<()> {
    let pairs = pairs(c, "hmset")?;
    c.shard.hash_set(c.args[1], &pairs)?;
    c.out.ok();
    Ok(())
}

fn hsetnx(c: &mut Call<'_>) -> Result<()> {
    let absent = c.shard.hash_get(c.args[1], c.args[2])?.is_none();
    if absent {
        c.shard.hash_set(c.args[1], &[(c.args[2], c.args[3])])?;
    }
    c.out.int(absent.into());
    Ok(())
}

fn hget(c: &mut Call<'_>) -> Result<()> {
    match c.shard.hash_get(c.args[1], c.args[2])? {
        Some(value) => c.out.bulk(value),
        None => c.out.null(),
    }
    Ok(())
}

fn hmget(c: &mut Call<'_>) -> Result<()> {
    c.shard.hash_len(c.args[1])?;
    c.out.array(c.args.len() - 2);
    for field in &c.args[2..] {
        match c.shard.hash_get(c.args[1], field)? {
            Some(value) => c.out.bulk(value),
            None => c.out.null(),
        }
    }
    Ok(())
}

fn hdel(c: &mut Call<'_>) -> Result<()> {
    let removed = c.shard.hash_remove(c.args[1], &c.args[2..])?;
    c.out.int(removed as i64);
    Ok(())
}

fn hlen(c: &mut Call<'_>) -> Result<()> {
    c.out.int(c.shard.hash_len(c.args[1])? as i64);
    Ok(())
}

fn hstrlen(c: &mut Call<'_>) -> Result<()> {
    c.out.int(c.shard.hash_get(c.args[1], c.args[2])?.map_or(0, <[u8]>::len) as i64);
    Ok(())
}

fn hexists(c: &mut Call<'_>) -> Result<()> {
    c.out.int(c.shard.hash_get(c.args[1], c.args[2])?.is_some().into());
    Ok(())
}

fn hkeys(c: &mut Call<'_>) -> Result<()> {
    c.out.array(c.shard.hash_len(c.args[1])?);
    c.shard.hash_for_each(c.args[1], &mut |field, _| c.out.bulk(field))
}

fn hvals(c: &mut Call<'_>) -> Result<()> {
    c.out.array(c.shard.hash_len(c.args[1])?);
    c.shard.hash_for_each(c.args[1], &mut |_, value| c.out.bulk(value))
}

fn hgetall(c: &mut Call<'_>) -> Result<()> {
    c.out.map(c.shard.hash_len(c.args[1])?);
    c.shard.hash_for_each(c.args[1], &mut |field, value| {
        c.out.bulk(field);
        c.out.bulk(value);
    })
}

fn hincrby(c: &mut Call<'_>) -> Result<()> {
    let by = parse_int(c.args[3])?;
    let old = match c.shard.hash_get(c.args[1], c.args[2])? {
        Some(value) => parse_int_or(value, "ERR hash value is not an integer")?,
        None => 0,
    };
    let sum = old.checked_add(by).ok_or(Error::other("ERR increment or decrement would overflow"))?;
    c.shard.hash_set(c.args[1], &[(c.args[2], sum.to_string().as_bytes())])?;
    c.out.int(sum);
    Ok(())
}

fn hincrbyfloat(c: &mut Call<'_>) -> Result<()> {
    let by = LongDouble::parse(c.args[3]).ok_or(Error::NotFloat)?;
    if by.is_infinite() {
        return Err(Error::other("ERR value is NaN or Infinity"));
    }
    let old = match c.shard.hash_get(c.args[1], c.args[2])? {
        Some(value) => LongDouble::parse(value).ok_or(Error::other("ERR hash value is not a float"))?,
        None => LongDouble::ZERO,
    };
    let sum = old.add(by).ok_or(Error::other("ERR increment would produce NaN or Infinity"))?.to_string();
    c.shard.hash_set(c.args[1], &[(c.args[2], sum.as_bytes())])?;
    c.out.bulk(sum.as_bytes());
    Ok(())
}

fn hscan(c: &mut Call<'_>) -> Result<()> {
    let key = c.args[1];
    scan::collection(
        c.shard,
        c.args,
        c.out,
        |shard| Ok(shard.hash_len(key)? > 0),
        |shard, cursor, found| {
            shard.hash_scan(key, cursor, &mut |field, value| {
                found.element(field, 2, |reply| {
                    reply.bulk(field);
                    reply.bulk(value);
                });
            })
        },
    )
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::Probe;
    use kintsugidb_wire::Proto;

    #[test]
    fn fields_are_set_read_and_removed() {
        Probe::new().expect(
            "hset h a 1 b 2 => :2
             hset h a 3 c 4 => :1
             hset h a => -ERR wrong number of arguments for 'hset' command
             hmset h a 1 b => -ERR wrong number of arguments for 'hmset' command
             hset h a 1 b => -ERR wrong number of arguments for 'hset' command
             hmset h a 5 => +OK
             hget h a => $1 5
             hget h z => $-1
             hget none z => $-1
             hmget h a z b => *3 $1 5 $-1 $1 2
             hsetnx h a 9 => :0
             hsetnx h d 99 => :1
             hstrlen h d => :2
             hstrlen h z => :0
             hexists h d => :1
             hexists h z => :0
             hdel h d d c nope => :2
             hlen h => :2
             hkeys h => *2 $1 a $1 b
             hvals h => *2 $1 5 $1 2
             hgetall h => *4 $1 a $1 5 $1 b $1 2
             hgetall none => *0
             hdel h a b => :2
             hlen h => :0",
        );
    }

    #[test]
    fn a_hash_is_a_map_in_resp3() {
        let mut p = Probe::new();
        p.proto = Proto::Resp3;
        p.expect(
            "hset h a 1 => :1
             hgetall h => %1 $1 a $1 1
             hget h z => _
             hrandfield h 1 withvalues => *1 *2 $1 a $1 1
             hrandfield h 1 => *1 $1 a",
        );
    }

    #[test]
    fn increments_that_fail_change_nothing() {
        let mut p = Probe::new();
        p.expect(
            "hincrby h n 5 => :5
             hincrby h n -7 => :-2
             hset h s x big 9223372036854775807 q inf => :3
             hincrby h s 1 => -ERR hash value is not an integer
             hincrby h big 1 => -ERR increment or decrement would overflow
             hincrby h n 1.5 => -ERR value is not an integer or out of range
             hincrbyfloat h n 1.6 => $4 -0.4
             hincrbyfloat h new 0.1 => $3 0.1
             hincrbyfloat h new 0.2 => $3 0.3
             hincrbyfloat h s 1 => -ERR hash value is not a float
             hincrbyfloat h q 1 => -ERR increment would produce NaN or Infinity
             hincrbyfloat h n x => -ERR value is not a valid float
             hincrbyfloat h n inf => -ERR value is NaN or Infinity",
        );
        let before = p.shard.dirty();
        p.expect(
            "hincrby h s 1 => -ERR hash value is not an integer
                  hdel h nope => :0
                  hsetnx h n 1 => :0",
        );
        assert_eq!(p.shard.dirty(), before);
        assert!(p.run("set str x").starts_with("+OK"));
        for c in
            ["hset str a 1", "hget str a", "hgetall str", "hincrby str a 1", "hscan str 0", "hrandfield str"]
        {
            assert!(p.run(c).starts_with("-WRONGTYPE"), "{c}");
        }
    }

    #[test]
    fn a_scan_filters_and_checks_its_arguments_as_redis_does() {
        Probe::new().expect(
            "hset h aa 1 ab 2 b 3 => :3
             hscan h 0 match a* count 100 => *2 $1 0 *4 $2 aa $1 1 $2 ab $1 2
             hscan h 0 match z* => *2 $1 0 *0
             hscan h x => -ERR invalid cursor
             hscan h 0 count 0 => -ERR syntax error
             hscan h 0 count x => -ERR value is not an integer or out of range
             hscan h 0 count => -ERR syntax error
             hscan none 0 count 0 => *2 $1 0 *0",
        );
    }
}
