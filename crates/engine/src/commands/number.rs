//! Strings as numbers: the INCR family.
use super::long_double::LongDouble;
use super::parse::{ONE_KEY, commands, parse_int};
use crate::{Call, Command, Error, Expire, Result};

pub(crate) static TABLE: &[Command] = commands! { String:
    "incr" 2 (WRITE|DENYOOM|FAST) ONE_KEY Single Rmw "1.0.0" "O(1)"
        "key" "Adds one to the integer at a key; 0 if there is no such key." => |c| add(c, 1);
    "decr" 2 (WRITE|DENYOOM|FAST) ONE_KEY Single Rmw "1.0.0" "O(1)"
        "key" "Subtracts one from the integer at a key; 0 if there is no such key." => |c| add(c, -1);
    "incrby" 3 (WRITE|DENYOOM|FAST) ONE_KEY Single Rmw "1.0.0" "O(1)"
        "key increment" "Adds to the integer at a key; 0 if there is no such key."
        => |c| { let n = parse_int(c.args[2])?; add(c, n) };
    "decrby" 3 (WRITE|DENYOOM|FAST) ONE_KEY Single Rmw "1.0.0" "O(1)"
        "key decrement" "Subtracts from the integer at a key; 0 if there is no such key." => decrby;
    "incrbyfloat" 3 (WRITE|DENYOOM|FAST) ONE_KEY Single Rmw "2.6.0" "O(1)"
        "key increment" "Adds to the floating point number at a key; 0 if there is no such key." => incrbyfloat;
};

fn add(c: &mut Call<'_>, n: i64) -> Result<()> {
    let key = c.args[1];
    let old = c.shard.string(key)?.map_or(Ok(0), parse_int)?;
    let new = old.checked_add(n).ok_or(Error::other("ERR increment or decrement would overflow"))?;
    c.shard.set_string(key, &[new.to_string().as_bytes()], Expire::Keep)?;
    c.out.int(new);
    Ok(())
}

fn decrby(c: &mut Call<'_>) -> Result<()> {
    let n = parse_int(c.args[2])?.checked_neg().ok_or(Error::other("ERR decrement would overflow"))?;
    add(c, n)
}

fn incrbyfloat(c: &mut Call<'_>) -> Result<()> {
    let key = c.args[1];
    let old = LongDouble::parse(c.shard.string(key)?.unwrap_or(b"0")).ok_or(Error::NotFloat)?;
    let n = LongDouble::parse(c.args[2]).ok_or(Error::NotFloat)?;
    let new = old.add(n).ok_or(Error::other("ERR increment would produce NaN or Infinity"))?.to_string();
    c.shard.set_string(key, &[new.as_bytes()], Expire::Keep)?;
    c.out.bulk(new.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::Probe;

    #[test]
    fn integers_are_counted_and_keep_their_expiry() {
        Probe::new().expect(
            "incr n => :1
             set n 17179869184 ex 100 => +OK
             incrby n 17179869184 => :34359738368
             ttl n => :100
             decrby n 34359738369 => :-1
             decr n => :-2
             set n 9223372036854775807 => +OK
             incr n => -ERR increment or decrement would overflow
             decrby n -9223372036854775808 => -ERR decrement would overflow
             get n => $19 9223372036854775807
             set n _11 => +OK
             incr n => -ERR value is not an integer or out of range
             incrby n x => -ERR value is not an integer or out of range
             rpush l 1 => :1
             incr l => -WRONGTYPE Operation against a key holding the wrong kind of value",
        );
    }

    #[test]
    fn floats_are_counted_as_long_doubles() {
        Probe::new().expect(
            "incrbyfloat f 1 => $1 1
             incrbyfloat f 0.25 => $4 1.25
             set f 3.0e3 => +OK
             incrbyfloat f 2.0e2 => $4 3200
             incrbyfloat f 1.1 => $22 3201.10000000000000009
             incrbyfloat f inf => -ERR increment would produce NaN or Infinity
             incrbyfloat f nan => -ERR value is not a valid float
             set f _1 => +OK
             incrbyfloat f 1 => -ERR value is not a valid float",
        );
    }
}
