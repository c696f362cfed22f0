//! Expiry: the EXPIRE family, the TTL family, PERSIST.
use super::expiry::Unit;
use super::parse::{ONE_KEY, commands, is};
use crate::{Call, Command, Error, Result};

const EXPIRE: Unit = Unit { seconds: true, absolute: false };
const PEXPIRE: Unit = Unit { seconds: false, absolute: false };
const EXPIREAT: Unit = Unit { seconds: true, absolute: true };
const PEXPIREAT: Unit = Unit { seconds: false, absolute: true };

pub(crate) static TABLE: &[Command] = commands! { Generic:
    "expire" -3 (WRITE|FAST) ONE_KEY Single Rmw "1.0.0" "O(1)"
        "key seconds [NX | XX | GT | LT]" "Sets how many seconds from now a key expires." => |c| expire(c, EXPIRE, "expire");
    "pexpire" -3 (WRITE|FAST) ONE_KEY Single Rmw "2.6.0" "O(1)"
        "key milliseconds [NX | XX | GT | LT]" "Sets how many milliseconds from now a key expires."
        => |c| expire(c, PEXPIRE, "pexpire");
    "expireat" -3 (WRITE|FAST) ONE_KEY Single Rmw "1.2.0" "O(1)"
        "key unix-time-seconds [NX | XX | GT | LT]" "Sets when a key expires, in seconds since the Unix epoch."
        => |c| expire(c, EXPIREAT, "expireat");
    "pexpireat" -3 (WRITE|FAST) ONE_KEY Single Rmw "2.6.0" "O(1)"
        "key unix-time-milliseconds [NX | XX | GT | LT]" "Sets when a key expires, in milliseconds since the Unix epoch."
        => |c| expire(c, PEXPIREAT, "pexpireat");
    "ttl" 2 (READONLY|FAST) ONE_KEY Single Read "1.0.0" "O(1)"
        "key" "Returns in how many seconds a key expires; -1: never, -2: no such key." => |c| time_left(c, EXPIRE);
    "pttl" 2 (READONLY|FAST) ONE_KEY Single Read "2.6.0" "O(1)"
        "key" "Returns in how many milliseconds a key expires; -1: never, -2: no such key." => |c| time_left(c, PEXPIRE);
    "expiretime" 2 (READONLY|FAST) ONE_KEY Single Read "7.0.0" "O(1)"
        "key" "Returns when a key expires, in seconds since the Unix epoch; -1: never, -2: no such key."
        => |c| time_left(c, EXPIREAT);
    "pexpiretime" 2 (READONLY|FAST) ONE_KEY Single Read "7.0.0" "O(1)"
        "key" "Returns when a key expires, in milliseconds since the Unix epoch; -1: never, -2: no such key."
        => |c| time_left(c, PEXPIREAT);
    "persist" 2 (WRITE|FAST) ONE_KEY Single Rmw "2.2.0" "O(1)"
        "key" "Removes the expiry of a key." => persist;
};

/// When EXPIRE may change the expiry.
#[derive(Default)]
struct Conditions {
    none: bool,
    some: bool,
    later: bool,
    earlier: bool,
}

impl Conditions {
    fn parse(args: &[&[u8]]) -> Result<Self> {
        let mut c = Self::default();
        for arg in args {
            match () {
                () if is(arg, "nx") => c.none = true,
                () if is(arg, "xx") => c.some = true,
                () if is(arg, "gt") => c.later = true,
                () if is(arg, "lt") => c.earlier = true,
                () => {
                    return Err(Error::other(format!(
                        "ERR Unsupported option {}",
                        String::from_utf8_lossy(arg)
                    )));
                }
            }
        }
        if c.none && (c.some || c.later || c.earlier) {
            return Err(Error::other("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if c.later && c.earlier {
            return Err(Error::other("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(c)
    }

    /// Whether the expiry may go from `old` to `new`. No expiry counts as infinitely late.
    fn allow(&self, old: Option<u64>, new: u64) -> bool {
        let refused = (self.none && old.is_some())
            || (self.some && old.is_none())
            || (self.later && old.is_none_or(|old| new <= old))
            || (self.earlier && old.is_some_and(|old| new >= old));
        !refused
    }
}

fn expire(c: &mut Call<'_>, unit: Unit, name: &str) -> Result<()> {
    let key = c.args[1];
    let conditions = Conditions::parse(&c.args[3..])?;
    let at = unit.time(c.args[2], c.shard.now_ms, name)?;
    // A time before the epoch is as good as the epoch: the key expires at once.
    let at = u64::try_from(at).unwrap_or(0);
    let set = c.shard.type_of(key).is_some()
        && conditions.allow(c.shard.expire_at(key), at)
        && c.shard.set_expire_at(key, Some(at))?;
    c.out.int(set.into());
    Ok(())
}

fn time_left(c: &mut Call<'_>, unit: Unit) -> Result<()> {
    let key = c.args[1];
    let n = match c.shard.expire_at(key) {
        Some(at) => {
            let ms = if unit.absolute { at } else { at.saturating_sub(c.shard.now_ms) };
            // Seconds are rounded to the nearest.
            i64::try_from(if unit.seconds { ms.saturating_add(500) / 1000 } else { ms }).unwrap_or(i64::MAX)
        }
        None if c.shard.type_of(key).is_some() => -1,
        None => -2,
    };
    c.out.int(n);
    Ok(())
}

fn persist(c: &mut Call<'_>) -> Result<()> {
    let key = c.args[1];
    let had = c.shard.expire_at(key).is_some() && c.shard.set_expire_at(key, None)?;
    c.out.int(had.into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Version;
    use crate::commands::testing::Probe;

    #[test]
    fn keys_expire_when_they_are_told_to() {
        let mut p = Probe::new();
        p.expect(
            "set k v => +OK
             ttl k => :-1
             pttl none => :-2
             expiretime none => :-2
             expire none 10 => :0
             expire k 10 => :1
             ttl k => :10
             pttl k => :10000
             expiretime k => :1010
             pexpiretime k => :1010000
             pexpire k 1499 => :1
             ttl k => :1
             pexpireat k 1002000 => :1
             ttl k => :2
             persist k => :1
             persist k => :0
             persist none => :0
             expireat k 1001 => :1",
        );
        p.shard.now_ms += 999;
        assert_eq!(p.run("get k"), "$1 v");
        p.shard.now_ms += 1;
        assert_eq!(p.run("get k"), "$-1");
        p.expect(
            "set k v => +OK
             expire k -1 => :1
             exists k => :0",
        );
    }

    #[test]
    fn conditions_hold_back_what_they_should() {
        let mut p = Probe::new();
        p.expect(
            "set k v => +OK
             expire k 100 xx => :0
             expire k 100 gt => :0
             expire k 100 nx => :1
             expire k 200 nx => :0
             expire k 50 gt => :0
             expire k 200 gt => :1
             expire k 300 lt => :0
             expire k 100 LT XX => :1
             ttl k => :100
             set k v => +OK
             expire k 10 lt => :1
             expire k 10 nx xx => -ERR NX and XX, GT or LT options at the same time are not compatible
             expire k 10 gt lt => -ERR GT and LT options at the same time are not compatible
             expire k 10 what => -ERR Unsupported option what
             expire k x => -ERR value is not an integer or out of range
             expire k 9223372036854775807 => -ERR invalid expire time in 'expire' command
             pexpire k 9223372036854775807 => -ERR invalid expire time in 'pexpire' command
             expire k -9223372036854775808 => -ERR invalid expire time in 'expire' command",
        );
    }

    #[test]
    fn what_a_transaction_writes_after_an_expiry_in_the_past_stays() {
        for past in ["pexpire k -1", "set k v pxat 1", "getex k pxat 1", "del k"] {
            let mut p = Probe::new();
            p.shard.begin_write(Version { ts: 5, seq: 0 });
            p.run("set k 1");
            p.shard.heat(b"k");
            p.shard.begin_txn(Version { ts: 9, seq: 0 }, 9, &[1]);
            p.run(past);
            assert_eq!(p.run("exists k"), ":0", "{past}");
            p.run("set k new");
            p.shard.end_txn();
            assert_eq!(p.run("get k"), "$3 new", "{past}");
        }
    }
}
