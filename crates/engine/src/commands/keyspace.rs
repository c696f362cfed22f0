//! The key space as a whole: KEYS, SCAN, RANDOMKEY, DBSIZE, FLUSHALL. Each handler sees one shard; the front end asks all
//! (or one: SCAN by its cursor, RANDOMKEY by lot) and puts the replies together.
use super::parse::{NO_KEYS, commands, is, parse_int};
use crate::{Call, Command, Error, Result, glob_match};
use kintsugidb_wire::Reply;

pub(crate) static TABLE: &[Command] = commands! { Generic:
    "keys" 2 (READONLY) NO_KEYS All Read "1.0.0" "O(N) where N is the number of keys"
        "pattern" "Returns all keys whose names fit a pattern." => keys;
    "scan" -2 (READONLY) NO_KEYS All Read "2.8.0" "O(1) a call, O(N) for a whole scan"
        "cursor [MATCH pattern] [COUNT count] [TYPE type]" "Returns some keys, and the cursor to go on from." => scan;
    "randomkey" 1 (READONLY) NO_KEYS All Read "1.0.0" "O(1)"
        "" "Returns a key drawn at random." => randomkey;
    "dbsize" 1 (READONLY|FAST) NO_KEYS All Read "1.0.0" "O(1)"
        "" "Returns the number of keys." => dbsize;
    "flushall" -1 (WRITE) NO_KEYS All Rmw "1.0.0" "O(N) where N is the number of keys"
        "[ASYNC | SYNC]" "Deletes all keys." => flush;
    "flushdb" -1 (WRITE) NO_KEYS All Rmw "1.0.0" "O(N) where N is the number of keys"
        "[ASYNC | SYNC]" "Deletes all keys." => flush;
};

fn keys(c: &mut Call<'_>) -> Result<()> {
    let pattern = c.args[1];
    let all = pattern == b"*";
    let mut found = Reply::new(c.out.proto());
    let mut n = 0;
    c.shard.for_each_key(&mut |key, _| {
        if all || glob_match(pattern, key) {
            found.bulk(key);
            n += 1;
        }
    });
    c.out.array(n);
    c.out.raw(found.bytes());
    Ok(())
}

fn scan(c: &mut Call<'_>) -> Result<()> {
    let cursor = cursor(c.args[1])?;
    let o = ScanOptions::parse(&c.args[2..], true)?;
    let mut found = Reply::new(c.out.proto());
    let (mut n, mut seen, mut next) = (0, 0, cursor);
    // A bounded number of steps even if most of the table is empty.
    for _ in 0..o.count.saturating_mul(10) {
        next = c.shard.scan(next, &mut |key, of_type| {
            seen += 1;
            if o.fits(key) && o.of_type.is_none_or(|t| is(t, of_type.name())) {
                found.bulk(key);
                n += 1;
            }
        });
        if next == 0 || seen >= o.count {
            break;
        }
    }
    c.out.array(2);
    c.out.bulk(next.to_string().as_bytes());
    c.out.array(n);
    c.out.raw(found.bytes());
    Ok(())
}

/// A cursor of the SCAN family.
pub(crate) fn cursor(arg: &[u8]) -> Result<u64> {
    std::str::from_utf8(arg)
        .ok()
        .filter(|s| !s.starts_with('+'))
        .and_then(|s| s.parse().ok())
        .ok_or(Error::other("ERR invalid cursor"))
}

/// The options of the SCAN family.
pub(crate) struct ScanOptions<'a> {
    pattern: Option<&'a [u8]>,
    /// How many elements to look at, about.
    pub(crate) count: usize,
    of_type: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    /// Reads what follows the cursor; `TYPE` only where it is allowed.
    pub(crate) fn parse(mut args: &[&'a [u8]], typed: bool) -> Result<Self> {
        let mut o = Self { pattern: None, count: 10, of_type: None };
        while let [option, value, rest @ ..] = args {
            match () {
                () if is(option, "count") => {
                    let n = parse_int(value)?;
                    o.count = usize::try_from(n).ok().filter(|n| *n > 0).ok_or(Error::Syntax)?;
                }
                () if is(option, "match") => o.pattern = (*value != b"*").then_some(*value),
                () if is(option, "type") && typed => o.of_type = Some(value),
                () => return Err(Error::Syntax),
            }
            args = rest;
        }
        if args.is_empty() { Ok(o) } else { Err(Error::Syntax) }
    }

    /// Whether the pattern lets this element through.
    pub(crate) fn fits(&self, element: &[u8]) -> bool {
        self.pattern.is_none_or(|p| glob_match(p, element))
    }
}

fn randomkey(c: &mut Call<'_>) -> Result<()> {
    match c.shard.random_key() {
        Some(key) => c.out.bulk(&key),
        None => c.out.null(),
    }
    Ok(())
}

fn dbsize(c: &mut Call<'_>) -> Result<()> {
    c.out.int(c.shard.len() as i64);
    Ok(())
}

fn flush(c: &mut Call<'_>) -> Result<()> {
    match c.args[1..] {
        [] => {}
        [how] if is(how, "async") || is(how, "sync") => {}
        _ => return Err(Error::Syntax),
    }
    if !c.shard.is_empty() {
        c.shard.flush();
    }
    c.out.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::Probe;

    #[test]
    fn keys_are_found_by_pattern_and_type() {
        let mut p = Probe::new();
        p.expect(
            "randomkey => $-1
             dbsize => :0
             mset key:1 a key:2 b other c => +OK
             rpush list x => :1
             dbsize => :4
             keys key:* =~> *2 $5 key:1 $5 key:2
             keys * =~> *4 $5 key:1 $5 key:2 $4 list $5 other
             keys nothing* => *0
             scan 0 match key:[2-9] count 100 => *2 $1 0 *1 $5 key:2
             scan 0 type LIST count 100 => *2 $1 0 *1 $4 list
             scan 0 type nonsense count 100 => *2 $1 0 *0
             scan x => -ERR invalid cursor
             scan -1 => -ERR invalid cursor
             scan 0 count 0 => -ERR syntax error
             scan 0 count x => -ERR value is not an integer or out of range
             scan 0 match => -ERR syntax error
             flushall what => -ERR syntax error
             flushall async => +OK
             dbsize => :0",
        );
        let dirty = p.shard.dirty();
        assert_eq!(p.run("flushdb"), "+OK");
        assert_eq!(p.shard.dirty(), dirty);
    }
}
