//! Lists: pushing, popping, moving from one to another.
use super::parse::{ONE_KEY, TWO_KEYS, commands, is, pop_count, positive};
use crate::{Call, Command, Error, KeySpec, ListEnd, Result};

const COUNTED: KeySpec = KeySpec::Count { at: 1, dest: false };

pub(crate) static TABLE: &[Command] = commands! { List:
    "lpush" -3 (WRITE|DENYOOM|FAST) ONE_KEY Single Rmw "1.0.0" "O(N) where N is the number of elements"
        "key element [element ...]" "Pushes elements one after the other to the head of a list."
        => |c| push(c, ListEnd::Left, false);
    "rpush" -3 (WRITE|DENYOOM|FAST) ONE_KEY Single Rmw "1.0.0" "O(N) where N is the number of elements"
        "key element [element ...]" "Pushes elements one after the other to the tail of a list."
        => |c| push(c, ListEnd::Right, false);
    "lpushx" -3 (WRITE|DENYOOM|FAST) ONE_KEY Single Rmw "2.2.0" "O(N) where N is the number of elements"
        "key element [element ...]" "Pushes elements to the head of a list that exists." => |c| push(c, ListEnd::Left, true);
    "rpushx" -3 (WRITE|DENYOOM|FAST) ONE_KEY Single Rmw "2.2.0" "O(N) where N is the number of elements"
        "key element [element ...]" "Pushes elements to the tail of a list that exists." => |c| push(c, ListEnd::Right, true);
    "lpop" -2 (WRITE|FAST) ONE_KEY Single Rmw "1.0.0" "O(N) where N is the number of elements returned"
        "key [count]" "Takes elements from the head of a list." => |c| pop(c, ListEnd::Left, "lpop");
    "rpop" -2 (WRITE|FAST) ONE_KEY Single Rmw "1.0.0" "O(N) where N is the number of elements returned"
        "key [count]" "Takes elements from the tail of a list." => |c| pop(c, ListEnd::Right, "rpop");
    "lmpop" -4 (WRITE|MOVABLE_KEYS) COUNTED Move Rmw "7.0.0" "O(N+M) where N is the number of keys and M of elements returned"
        "numkeys key [key ...] <LEFT | RIGHT> [COUNT count]" "Takes elements from the first of several lists that is not empty."
        => lmpop;
    "lmove" 5 (WRITE|DENYOOM) TWO_KEYS Move Rmw "6.2.0" "O(1)"
        "source destination <LEFT | RIGHT> <LEFT | RIGHT>" "Takes an element from an end of a list and pushes it to an end of another."
        => |c| { let ends = (end(c.args[3])?, end(c.args[4])?); move_one(c, ends.0, ends.1) };
    "rpoplpush" 3 (WRITE|DENYOOM) TWO_KEYS Move Rmw "1.2.0" "O(1)"
        "source destination" "Takes the last element of a list and pushes it to the head of another."
        => |c| move_one(c, ListEnd::Right, ListEnd::Left);
};

fn end(arg: &[u8]) -> Result<ListEnd> {
    match () {
        () if is(arg, "left") => Ok(ListEnd::Left),
        () if is(arg, "right") => Ok(ListEnd::Right),
        () => Err(Error::Syntax),
    }
}

fn push(c: &mut Call<'_>, end: ListEnd, only_existing: bool) -> Result<()> {
    let n = if only_existing && c.shard.list_len(c.args[1])? == 0 {
        0
    } else {
        c.shard.list_push(c.args[1], end, &c.args[2..])?
    };
    c.out.int(n as i64);
    Ok(())
}

fn pop(c: &mut Call<'_>, end: ListEnd, name: &'static str) -> Result<()> {
    let key = c.args[1];
    let count = match c.args[2..] {
        [] => None,
        [count] => Some(positive(count, 0, "ERR value is out of range, must be positive")?),
        _ => return Err(Error::Arity(name.into())),
    };
    let len = c.shard.list_len(key)?;
    match count {
        None if len == 0 => c.out.null(),
        None => {
            c.shard.list_pop(key, end, 1, &mut |e| c.out.bulk(e))?;
        }
        Some(_) if len == 0 => c.out.null_array(),
        Some(n) => {
            c.out.array(n.min(len));
            c.shard.list_pop(key, end, n, &mut |e| c.out.bulk(e))?;
        }
    }
    Ok(())
}

fn lmpop(c: &mut Call<'_>) -> Result<()> {
    let n = positive(c.args[1], 1, "ERR numkeys should be greater than 0")?;
    let (Some(keys), Some(options)) = (c.args[2..].get(..n), c.args[2..].get(n..)) else {
        return Err(Error::Syntax);
    };
    let [side, options @ ..] = options else { return Err(Error::Syntax) };
    let end = end(side)?;
    let count = pop_count(options)?;
    for key in keys {
        let len = c.shard.list_len(key)?;
        if len > 0 {
            c.out.array(2);
            c.out.bulk(key);
            c.out.array(count.min(len));
            c.shard.list_pop(key, end, count, &mut |e| c.out.bulk(e))?;
            return Ok(());
        }
    }
    c.out.null_array();
    Ok(())
}

fn move_one(c: &mut Call<'_>, from_end: ListEnd, to_end: ListEnd) -> Result<()> {
    let (from, to) = (c.args[1], c.args[2]);
    let len = c.shard.list_len(from)?;
    if len == 0 {
        c.out.null();
        return Ok(());
    }
    let at = if from_end == ListEnd::Left { 0 } else { len - 1 };
    let Some(element) = c.shard.list_get(from, at)?.map(<[u8]>::to_vec) else {
        c.out.null();
        return Ok(());
    };
    // Pushed before it is popped: a failed push loses nothing, and a list that is rotated never vanishes with its expiry.
    c.shard.list_push(to, to_end, &[&element])?;
    c.shard.list_pop(from, from_end, 1, &mut |_| ())?;
    c.out.bulk(&element);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::Probe;
    use kintsugidb_wire::Proto;

    #[test]
    fn elements_go_in_and_out_at_the_ends() {
        let mut p = Probe::new();
        p.expect(
            "rpush l a b c => :3
             lpush l x y => :5
             lrange l 0 -1 => *5 $1 y $1 x $1 a $1 b $1 c
             lpop l => $1 y
             rpop l 2 => *2 $1 c $1 b
             lpop l 0 => *0
             rpop l 100 => *2 $1 a $1 x
             exists l => :0
             lpop l => $-1
             lpop l 2 => *-1
             lpushx l a => :0
             rpushx l a => :0
             rpush l a => :1
             rpushx l b => :2
             lpop l -1 => -ERR value is out of range, must be positive
             lpop l x => -ERR value is out of range, must be positive
             lpop l 1 2 => -ERR wrong number of arguments for 'lpop' command
             set s v => +OK
             lpushx s a => -WRONGTYPE Operation against a key holding the wrong kind of value
             rpop s => -WRONGTYPE Operation against a key holding the wrong kind of value",
        );
        p.proto = Proto::Resp3;
        p.expect("lpop none 1 => _\n lpop none => _");
    }

    #[test]
    fn moving_rotates_and_keeps_the_expiry() {
        Probe::new().expect(
            "rpush l a b c => :3
             expire l 10 => :1
             rpoplpush l l => $1 c
             lrange l 0 -1 => *3 $1 c $1 a $1 b
             lmove l l left right => $1 c
             lmove l l right right => $1 c
             lrange l 0 -1 => *3 $1 a $1 b $1 c
             ltrim l 0 0 => +OK
             lmove l l left left => $1 a
             ttl l => :10
             lmove l m left right => $1 a
             exists l => :0
             lmove l m left right => $-1
             lmove m n up left => -ERR syntax error
             set s v => +OK
             lmove m s left left => -WRONGTYPE Operation against a key holding the wrong kind of value
             lmove s m left left => -WRONGTYPE Operation against a key holding the wrong kind of value
             lmove none s left left => $-1
             lrange m 0 -1 => *1 $1 a",
        );
    }

    #[test]
    fn the_first_list_with_elements_gives_them() {
        Probe::new().expect(
            "rpush b 1 2 3 => :3
             lmpop 2 a b left => *2 $1 b *1 $1 1
             lmpop 2 a b right count 10 => *2 $1 b *2 $1 3 $1 2
             lmpop 2 a b left => *-1
             lmpop 0 a left => -ERR numkeys should be greater than 0
             lmpop x a left => -ERR numkeys should be greater than 0
             lmpop 2 a left => -ERR syntax error
             lmpop 9223372036854775807 a left => -ERR syntax error
             lmpop 1 a left count 0 => -ERR count should be greater than 0
             lmpop 1 a left count 1 count 1 => -ERR syntax error
             lmpop 1 a left count x more => -ERR count should be greater than 0
             set s v => +OK
             lmpop 1 s left => -WRONGTYPE Operation against a key holding the wrong kind of value",
        );
    }
}
