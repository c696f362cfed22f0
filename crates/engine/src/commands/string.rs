//! Strings as wholes: setting, getting, several at once.
use super::expiry::Unit;
use super::parse::{ALL_KEYS, ONE_KEY, commands, is};
use crate::{Call, Command, Error, Expire, KeySpec, Result};

const PAIRS: KeySpec = KeySpec::Range { first: 1, last: -1, step: 2 };

pub(crate) static TABLE: &[Command] = commands! { String:
    "get" 2 (READONLY|FAST) ONE_KEY Single Read "1.0.0" "O(1)"
        "key" "Returns the string value of a key." => get;
    "set" -3 (WRITE|DENYOOM) ONE_KEY Single Blind "1.0.0" "O(1)"
        "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]"
        "Sets the string value of a key, whatever its type was." => set;
    "setnx" 3 (WRITE|DENYOOM|FAST) ONE_KEY Single Rmw "1.0.0" "O(1)"
        "key value" "Sets the string value of a key only if there is no such key." => setnx;
    "setex" 4 (WRITE|DENYOOM) ONE_KEY Single Blind "2.0.0" "O(1)"
        "key seconds value" "Sets the string value and the expiry of a key." => |c| set_with_expiry(c, true, "setex");
    "psetex" 4 (WRITE|DENYOOM) ONE_KEY Single Blind "2.6.0" "O(1)"
        "key milliseconds value" "Sets the string value of a key and its expiry in milliseconds."
        => |c| set_with_expiry(c, false, "psetex");
    "getset" 3 (WRITE|DENYOOM|FAST) ONE_KEY Single Rmw "1.0.0" "O(1)"
        "key value" "Sets the string value of a key and returns the one before." => getset;
    "getdel" 2 (WRITE|FAST) ONE_KEY Single Rmw "6.2.0" "O(1)"
        "key" "Returns the string value of a key and deletes the key." => getdel;
    "getex" -2 (WRITE|FAST) ONE_KEY Single Rmw "6.2.0" "O(1)"
        "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]"
        "Returns the string value of a key and sets or removes its expiry." => getex;
    "strlen" 2 (READONLY|FAST) ONE_KEY Single Read "2.2.0" "O(1)"
        "key" "Returns the length of a string." => strlen;
    "mget" -2 (READONLY|FAST) ALL_KEYS Split Read "1.0.0" "O(N) where N is the number of keys"
        "key [key ...]" "Returns the string values of keys, read atomically." => mget;
    "mset" -3 (WRITE|DENYOOM) PAIRS Split Blind "1.0.1" "O(N) where N is the number of keys"
        "key value [key value ...]" "Sets the string values of keys, visible all at once." => mset;
    "msetnx" -3 (WRITE|DENYOOM) PAIRS Move Rmw "1.0.1" "O(N) where N is the number of keys"
        "key value [key value ...]" "Sets the string values of keys only if none of them exists." => msetnx;
};

fn get(c: &mut Call<'_>) -> Result<()> {
    match c.shard.string(c.args[1])? {
        Some(v) => c.out.bulk(v),
        None => c.out.null(),
    }
    Ok(())
}

/// What the options of SET ask for.
#[derive(Default)]
struct SetOptions<'a> {
    only_new: bool,
    only_existing: bool,
    get: bool,
    keep_ttl: bool,
    expire: Option<(Unit, &'a [u8])>,
}

impl<'a> SetOptions<'a> {
    fn parse(mut args: &[&'a [u8]]) -> Result<Self> {
        let mut o = Self::default();
        while let [option, rest @ ..] = args {
            args = rest;
            let other_expiry = |unit: Unit| o.expire.is_some_and(|(u, _)| u != unit) || o.keep_ttl;
            match (Unit::of_option(option), rest) {
                (Some(unit), [time, rest @ ..]) if !other_expiry(unit) => {
                    o.expire = Some((unit, time));
                    args = rest;
                }
                _ if is(option, "nx") && !o.only_existing => o.only_new = true,
                _ if is(option, "xx") && !o.only_new => o.only_existing = true,
                _ if is(option, "get") => o.get = true,
                _ if is(option, "keepttl") && o.expire.is_none() => o.keep_ttl = true,
                _ => return Err(Error::Syntax),
            }
        }
        Ok(o)
    }
}

fn set(c: &mut Call<'_>) -> Result<()> {
    let (key, value) = (c.args[1], c.args[2]);
    if c.args.len() == 3 {
        c.shard.set_string(key, &[value], Expire::Clear)?;
        c.out.ok();
        return Ok(());
    }
    let o = SetOptions::parse(&c.args[3..])?;
    let expire = match o.expire {
        Some((unit, time)) => Expire::At(unit.future_time(time, c.shard.now_ms, "set")?),
        None if o.keep_ttl => Expire::Keep,
        None => Expire::Clear,
    };
    if o.get {
        get(c)?;
    }
    if o.only_new || o.only_existing {
        let exists = c.shard.type_of(key).is_some();
        if exists == o.only_new {
            if !o.get {
                c.out.null();
            }
            return Ok(());
        }
    }
    match expire {
        // Set and expired at once.
        Expire::At(at) if at <= c.shard.now_ms => {
            c.shard.delete(key);
        }
        _ => c.shard.set_string(key, &[value], expire)?,
    }
    if !o.get {
        c.out.ok();
    }
    Ok(())
}

fn setnx(c: &mut Call<'_>) -> Result<()> {
    let new = c.shard.type_of(c.args[1]).is_none();
    if new {
        c.shard.set_string(c.args[1], &[c.args[2]], Expire::Clear)?;
    }
    c.out.int(new.into());
    Ok(())
}

fn set_with_expiry(c: &mut Call<'_>, seconds: bool, name: &str) -> Result<()> {
    let at = Unit { seconds, absolute: false }.future_time(c.args[2], c.shard.now_ms, name)?;
    c.shard.set_string(c.args[1], &[c.args[3]], Expire::At(at))?;
    c.out.ok();
    Ok(())
}

fn getset(c: &mut Call<'_>) -> Result<()> {
    get(c)?;
    c.shard.set_string(c.args[1], &[c.args[2]], Expire::Clear)
}

fn getdel(c: &mut Call<'_>) -> Result<()> {
    get(c)?;
    c.shard.delete(c.args[1]);
    Ok(())
}

fn getex(c: &mut Call<'_>) -> Result<()> {
    let (mut persist, mut expire) = (false, None);
    let mut args = &c.args[2..];
    while let [option, rest @ ..] = args {
        args = rest;
        match (Unit::of_option(option), rest) {
            (Some(unit), [time, rest @ ..]) if !persist && expire.is_none_or(|(u, _)| u == unit) => {
                expire = Some((unit, *time));
                args = rest;
            }
            _ if is(option, "persist") && expire.is_none() => persist = true,
            _ => return Err(Error::Syntax),
        }
    }
    let key = c.args[1];
    get(c)?;
    if c.shard.type_of(key).is_none() {
        return Ok(());
    }
    if let Some((unit, time)) = expire {
        let at = unit.future_time(time, c.shard.now_ms, "getex")?;
        c.shard.set_expire_at(key, Some(at))?;
    } else if persist && c.shard.expire_at(key).is_some() {
        c.shard.set_expire_at(key, None)?;
    }
    Ok(())
}

fn strlen(c: &mut Call<'_>) -> Result<()> {
    let n = c.shard.string(c.args[1])?.map_or(0, <[u8]>::len);
    c.out.int(n as i64);
    Ok(())
}

fn mget(c: &mut Call<'_>) -> Result<()> {
    c.out.array(c.args.len() - 1);
    for key in &c.args[1..] {
        // A key of another type is no error here.
        match c.shard.string(key) {
            Ok(Some(v)) => c.out.bulk(v),
            Ok(None) | Err(Error::WrongType) => c.out.null(),
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// A key without a value is found here, not before: inside of MULTI it is queued.
fn check_pairs(c: &Call<'_>, name: &'static str) -> Result<()> {
    if c.args.len().is_multiple_of(2) { Err(Error::Arity(name.into())) } else { Ok(()) }
}

fn set_pairs(c: &mut Call<'_>) -> Result<()> {
    for pair in c.args[1..].chunks_exact(2) {
        c.shard.set_string(pair[0], &[pair[1]], Expire::Clear)?;
    }
    Ok(())
}

fn mset(c: &mut Call<'_>) -> Result<()> {
    check_pairs(c, "mset")?;
    set_pairs(c)?;
    c.out.ok();
    Ok(())
}

fn msetnx(c: &mut Call<'_>) -> Result<()> {
    check_pairs(c, "msetnx")?;
    let new = c.args[1..].iter().step_by(2).all(|key| c.shard.type_of(key).is_none());
    if new {
        set_pairs(c)?;
    }
    c.out.int(new.into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::Probe;
    use kintsugidb_wire::Proto;

    #[test]
    fn set_does_what_its_options_say() {
        Probe::new().expect(
            "set k v => +OK
             set k w nx => $-1
             set k w nx get => $1 v
             set n w xx => $-1
             set k w xx get => $1 v
             set k x ex 10 => +OK
             pttl k => :10000
             set k y keepttl => +OK
             ttl k => :10
             set k y => +OK
             ttl k => :-1
             set k y pxat 1000500 => +OK
             pttl k => :500
             set k y exat 1 => +OK
             get k => $-1
             set new v get => $-1",
        );
    }

    #[test]
    fn options_that_contradict_each_other_change_nothing() {
        let mut p = Probe::new();
        p.run("set k v");
        let dirty = p.shard.dirty();
        p.expect(
            "set k w nx xx => -ERR syntax error
             set k w ex 10 px 10 => -ERR syntax error
             set k w ex 10 keepttl => -ERR syntax error
             set k w ex => -ERR syntax error
             set k w persist => -ERR syntax error
             set k w ex 0 => -ERR invalid expire time in 'set' command
             set k w ex -1 => -ERR invalid expire time in 'set' command
             set k w ex x => -ERR value is not an integer or out of range
             set k w ex 9223372036854775807 => -ERR invalid expire time in 'set' command
             set k w px 9223372036854775807 => -ERR invalid expire time in 'set' command
             setex k 0 w => -ERR invalid expire time in 'setex' command
             psetex k 0 w => -ERR invalid expire time in 'psetex' command
             getex k ex 0 => -ERR invalid expire time in 'getex' command
             getex k ex 1 persist => -ERR syntax error
             get k => $1 v
             setnx k w => :0
             msetnx new 1 k 2 => :0",
        );
        assert_eq!(p.shard.dirty(), dirty);
    }

    #[test]
    fn getex_changes_the_expiry_and_nothing_else() {
        Probe::new().expect(
            "set k v => +OK
             getex k px 500 => $1 v
             pttl k => :500
             getex k => $1 v
             pttl k => :500
             getex k persist => $1 v
             pttl k => :-1
             getex none ex x => $-1
             getex k pxat 5 => $1 v
             exists k => :0",
        );
    }

    #[test]
    fn several_keys_at_once_take_the_last_value_and_skip_other_types() {
        let mut p = Probe::new();
        p.expect(
            "mset a 1 b 2 a 3 => +OK
             rpush l x => :1
             mget a b l none => *4 $1 3 $1 2 $-1 $-1
             get l => -WRONGTYPE Operation against a key holding the wrong kind of value
             getset l x => -WRONGTYPE Operation against a key holding the wrong kind of value
             set l x get => -WRONGTYPE Operation against a key holding the wrong kind of value
             getset a 4 => $1 3
             getdel a => $1 4
             getdel a => $-1
             msetnx c 1 d 2 => :1
             strlen d => :1
             strlen none => :0",
        );
        p.proto = Proto::Resp3;
        assert_eq!(p.run("mget b none"), "*2 $1 2 _");
    }
}
