//! Strings as bytes: APPEND, GETRANGE, SETRANGE.
use super::parse::{MAX_STRING, ONE_KEY, commands, parse_int};
use crate::{Call, Command, Error, Expire, Result};

pub(crate) static TABLE: &[Command] = commands! { String:
    "append" 3 (WRITE|DENYOOM|FAST) ONE_KEY Single Rmw "2.0.0" "O(N) where N is the length of the result"
        "key value" "Appends to the string at a key; to the empty one if there is no such key." => append;
    "getrange" 4 (READONLY) ONE_KEY Single Read "2.4.0" "O(N) where N is the length of the reply"
        "key start end" "Returns the bytes of a string from one index to another." => getrange;
    "substr" 4 (READONLY) ONE_KEY Single Read "1.0.0" "O(N) where N is the length of the reply"
        "key start end" "Returns the bytes of a string from one index to another: the old name of GETRANGE." => getrange;
    "setrange" 4 (WRITE|DENYOOM) ONE_KEY Single Rmw "2.2.0" "O(N) where N is the length of the result"
        "key offset value" "Overwrites bytes of a string from an offset on, with zero bytes before where it was shorter."
        => setrange;
};

fn check_len(len: usize) -> Result<()> {
    if len > MAX_STRING {
        return Err(Error::other("ERR string exceeds maximum allowed size (proto-max-bulk-len)"));
    }
    Ok(())
}

fn append(c: &mut Call<'_>) -> Result<()> {
    let (key, tail) = (c.args[1], c.args[2]);
    let old = c.shard.string(key)?;
    let len = old.map_or(0, <[u8]>::len) + tail.len();
    if old.is_some() {
        check_len(len)?;
    }
    let old = old.unwrap_or_default().to_vec();
    c.shard.set_string(key, &[&old, tail], Expire::Keep)?;
    c.out.int(len as i64);
    Ok(())
}

fn getrange(c: &mut Call<'_>) -> Result<()> {
    let (from, to) = (parse_int(c.args[2])?, parse_int(c.args[3])?);
    let s = c.shard.string(c.args[1])?.unwrap_or_default();
    let n = s.len() as i64;
    if from < 0 && to < 0 && from > to {
        c.out.bulk(b"");
        return Ok(());
    }
    // Unlike LRANGE's, an end before the beginning means the first byte.
    let clamp = |i: i64| if i < 0 { i.saturating_add(n).max(0) } else { i };
    let (from, to) = (clamp(from), clamp(to).min(n - 1));
    c.out.bulk(if from > to { b"" } else { &s[from as usize..=to as usize] });
    Ok(())
}

fn setrange(c: &mut Call<'_>) -> Result<()> {
    let (key, patch) = (c.args[1], c.args[3]);
    let offset = parse_int(c.args[2])?;
    let offset = usize::try_from(offset).map_err(|_| Error::other("ERR offset is out of range"))?;
    let old = c.shard.string(key)?;
    if patch.is_empty() {
        c.out.int(old.map_or(0, <[u8]>::len) as i64);
        return Ok(());
    }
    check_len(offset.saturating_add(patch.len()))?;
    let mut new = old.unwrap_or_default().to_vec();
    let end = offset + patch.len();
    if new.len() < end {
        new.resize(end, 0);
    }
    new[offset..end].copy_from_slice(patch);
    c.shard.set_string(key, &[&new], Expire::Keep)?;
    c.out.int(new.len() as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::Probe;

    #[test]
    fn bytes_are_appended_cut_out_and_overwritten() {
        let mut p = Probe::new();
        p.expect(
            "append k Hello => :5
             append k _World => :11
             getrange k 0 4 => $5 Hello
             getrange k -5 -1 => $5 World
             substr k 6 100 => $5 World
             getrange k 0 -100 => $1 H
             getrange k -1 -5 => $0 
             getrange k 20 30 => $0 
             getrange none 0 -1 => $0 
             setrange k 6 Redis => :11
             get k => $11 Hello Redis
             setrange none 5 \"\" => :0
             exists none => :0
             setrange k -1 x => -ERR offset is out of range
             setrange k 536870912 x => -ERR string exceeds maximum allowed size (proto-max-bulk-len)
             setrange k 9223372036854775807 x => -ERR string exceeds maximum allowed size (proto-max-bulk-len)
             setrange k x x => -ERR value is not an integer or out of range
             rpush l x => :1
             append l x => -WRONGTYPE Operation against a key holding the wrong kind of value
             setrange l 0 \"\" => -WRONGTYPE Operation against a key holding the wrong kind of value",
        );
        assert_eq!(p.run("setrange z 2 x"), ":3");
        assert_eq!(p.run("get z"), "$3 \0\0x");
    }
}
