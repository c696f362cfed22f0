//! Lists by position and by element: ranges, indexes, LREM, LTRIM, LINSERT, LPOS.
use super::parse::{ONE_KEY, commands, inclusive_range, is, parse_int, positive};
use crate::{Call, Command, Error, Result, Shard};

pub(crate) static TABLE: &[Command] = commands! { List:
    "llen" 2 (READONLY|FAST) ONE_KEY Single Read "1.0.0" "O(1)"
        "key" "Returns the length of a list." => llen;
    "lrange" 4 (READONLY) ONE_KEY Single Read "1.0.0" "O(S+N) where S is the distance from the nearer end and N the number of elements"
        "key start stop" "Returns the elements of a list from one index to another." => lrange;
    "lindex" 3 (READONLY) ONE_KEY Single Read "1.0.0" "O(N) where N is the distance from the nearer end"
        "key index" "Returns the element of a list at an index." => lindex;
    "lset" 4 (WRITE|DENYOOM) ONE_KEY Single Rmw "1.0.0" "O(N) where N is the distance from the nearer end"
        "key index element" "Replaces the element of a list at an index." => lset;
    "lrem" 4 (WRITE) ONE_KEY Single Rmw "1.0.0" "O(N) where N is the length of the list"
        "key count element" "Removes equal elements from a list: from the head, from the tail if count is negative, all if it is 0."
        => lrem;
    "ltrim" 4 (WRITE) ONE_KEY Single Rmw "1.0.0" "O(N) where N is the number of elements removed"
        "key start stop" "Removes the elements of a list outside of a range of indexes." => ltrim;
    "linsert" 5 (WRITE|DENYOOM) ONE_KEY Single Rmw "2.2.0" "O(N) where N is the length of the list"
        "key <BEFORE | AFTER> pivot element" "Inserts an element before or after another." => linsert;
    "lpos" -3 (READONLY) ONE_KEY Single Read "6.0.6" "O(N) where N is the length of the list"
        "key element [RANK rank] [COUNT num-matches] [MAXLEN len]" "Returns the indexes of elements that are equal to one given."
        => lpos;
};

fn llen(c: &mut Call<'_>) -> Result<()> {
    let n = c.shard.list_len(c.args[1])?;
    c.out.int(n as i64);
    Ok(())
}

fn lrange(c: &mut Call<'_>) -> Result<()> {
    let (from, to) = (parse_int(c.args[2])?, parse_int(c.args[3])?);
    let r = inclusive_range(from, to, c.shard.list_len(c.args[1])?);
    c.out.array(r.len());
    c.shard.list_range(c.args[1], r.start, r.len(), &mut |e| c.out.bulk(e))
}

/// The place from the left that an index, negative from the right, means in `len` elements; `len` if there is none.
fn place(index: i64, len: usize) -> usize {
    let i = if index < 0 { index.saturating_add(len as i64) } else { index };
    usize::try_from(i).unwrap_or(len).min(len)
}

fn lindex(c: &mut Call<'_>) -> Result<()> {
    let len = c.shard.list_len(c.args[1])?;
    let found =
        if len == 0 { None } else { c.shard.list_get(c.args[1], place(parse_int(c.args[2])?, len))? };
    match found {
        Some(e) => c.out.bulk(e),
        None => c.out.null(),
    }
    Ok(())
}

fn lset(c: &mut Call<'_>) -> Result<()> {
    let len = c.shard.list_len(c.args[1])?;
    if len == 0 {
        return Err(Error::NoSuchKey);
    }
    if !c.shard.list_set(c.args[1], place(parse_int(c.args[2])?, len), c.args[3])? {
        return Err(Error::other("ERR index out of range"));
    }
    c.out.ok();
    Ok(())
}

fn lrem(c: &mut Call<'_>) -> Result<()> {
    let n = c.shard.list_remove_equal(c.args[1], parse_int(c.args[2])?, c.args[3])?;
    c.out.int(n as i64);
    Ok(())
}

fn ltrim(c: &mut Call<'_>) -> Result<()> {
    let key = c.args[1];
    let (from, to) = (parse_int(c.args[2])?, parse_int(c.args[3])?);
    let len = c.shard.list_len(key)?;
    let keep = inclusive_range(from, to, len);
    if keep.end < len {
        c.shard.list_remove_range(key, keep.end, len - keep.end)?;
    }
    if keep.start > 0 {
        c.shard.list_remove_range(key, 0, keep.start)?;
    }
    c.out.ok();
    Ok(())
}

/// Looks at elements one after the other, from the right if `reverse`, until `f` says stop (false). A step at a time, so
/// that a match near the end where it begins is cheap.
fn search(shard: &Shard, key: &[u8], reverse: bool, f: &mut dyn FnMut(usize, &[u8]) -> bool) -> Result<()> {
    const STEP: usize = 128;
    let len = shard.list_len(key)?;
    let mut done = 0;
    let mut go_on = true;
    while go_on && done < len {
        let n = STEP.min(len - done);
        if reverse {
            let start = len - done - n;
            let mut step = Vec::with_capacity(n);
            shard.list_range(key, start, n, &mut |e| step.push(e.to_vec()))?;
            go_on = step.iter().enumerate().rev().all(|(i, e)| f(start + i, e));
        } else {
            let mut at = done;
            shard.list_range(key, done, n, &mut |e| {
                go_on = go_on && f(at, e);
                at += 1;
            })?;
        }
        done += n;
    }
    Ok(())
}

fn linsert(c: &mut Call<'_>) -> Result<()> {
    let (key, pivot, element) = (c.args[1], c.args[3], c.args[4]);
    let after = match () {
        () if is(c.args[2], "before") => 0,
        () if is(c.args[2], "after") => 1,
        () => return Err(Error::Syntax),
    };
    let len = c.shard.list_len(key)?;
    let mut found = None;
    search(c.shard, key, false, &mut |i, e| {
        found = (e == pivot).then_some(i);
        found.is_none()
    })?;
    let reply = match found {
        _ if len == 0 => 0,
        None => -1,
        Some(at) => {
            c.shard.list_insert(key, at + after, element)?;
            len as i64 + 1
        }
    };
    c.out.int(reply);
    Ok(())
}

fn lpos(c: &mut Call<'_>) -> Result<()> {
    let (key, element) = (c.args[1], c.args[2]);
    let (mut rank, mut count, mut max_len) = (1, None, 0);
    let mut args = &c.args[3..];
    while let [option, value, rest @ ..] = args {
        match () {
            () if is(option, "rank") => rank = parse_int(value)?,
            () if is(option, "count") => count = Some(positive(value, 0, "ERR COUNT can't be negative")?),
            () if is(option, "maxlen") => max_len = positive(value, 0, "ERR MAXLEN can't be negative")?,
            () => return Err(Error::Syntax),
        }
        if rank == 0 {
            return Err(Error::other(
                "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
                 or use negative to start from the end of the list",
            ));
        }
        args = rest;
    }
    if !args.is_empty() {
        return Err(Error::Syntax);
    }
    let wanted = match count {
        None => 1,
        Some(0) => usize::MAX,
        Some(n) => n,
    };
    let mut skip = rank.unsigned_abs() - 1;
    let mut left = if max_len == 0 { usize::MAX } else { max_len };
    let mut found = Vec::new();
    search(c.shard, key, rank < 0, &mut |i, e| {
        if e == element {
            if skip == 0 {
                found.push(i as i64);
            } else {
                skip -= 1;
            }
        }
        left -= 1;
        found.len() < wanted && left > 0
    })?;
    match (count, found.first()) {
        (None, Some(&i)) => c.out.int(i),
        (None, None) => c.out.null(),
        (Some(_), _) => {
            c.out.array(found.len());
            found.iter().for_each(|&i| c.out.int(i));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::Probe;

    #[test]
    fn positions_count_from_both_ends() {
        Probe::new().expect(
            "rpush l a b c d => :4
             llen l => :4
             lrange l 1 2 => *2 $1 b $1 c
             lrange l -100 100 => *4 $1 a $1 b $1 c $1 d
             lrange l 3 1 => *0
             lrange none 0 -1 => *0
             lindex l -1 => $1 d
             lindex l 4 => $-1
             lindex l -5 => $-1
             lindex none x => $-1
             lindex l x => -ERR value is not an integer or out of range
             lset l -4 A => +OK
             lset l 4 x => -ERR index out of range
             lset l -5 x => -ERR index out of range
             lset none 0 x => -ERR no such key
             linsert l before A 0 => :5
             linsert l after d e => :6
             linsert l after nope e => :-1
             linsert none after a e => :0
             linsert l beside a e => -ERR syntax error
             lrange l 0 -1 => *6 $1 0 $1 A $1 b $1 c $1 d $1 e
             ltrim l 1 -2 => +OK
             lrange l 0 -1 => *4 $1 A $1 b $1 c $1 d
             ltrim l 5 10 => +OK
             exists l => :0
             ltrim l 0 1 => +OK",
        );
    }

    #[test]
    fn elements_are_found_and_removed_from_both_ends() {
        Probe::new().expect(
            "rpush l a b c 1 2 3 c c => :8
             lpos l c => :2
             lpos l c rank 2 => :6
             lpos l c rank -1 => :7
             lpos l c count 0 => *3 :2 :6 :7
             lpos l c count 2 rank -1 => *2 :7 :6
             lpos l c rank 9 => $-1
             lpos l c rank 4 count 0 => *0
             lpos l c maxlen 2 => $-1
             lpos l c maxlen 1 rank -1 => :7
             lpos none c => $-1
             lpos none c count 1 => *0
             lpos l c rank 0 => -ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list
             lpos l c count -1 => -ERR COUNT can't be negative
             lpos l c maxlen -1 => -ERR MAXLEN can't be negative
             lpos l c rank => -ERR syntax error
             lrem l -2 c => :2
             lrange l 0 -1 => *6 $1 a $1 b $1 c $1 1 $1 2 $1 3
             lrem l 0 x => :0
             lrem l 0 a => :1
             lrem none 0 a => :0
             lrem l x a => -ERR value is not an integer or out of range",
        );
    }
}
