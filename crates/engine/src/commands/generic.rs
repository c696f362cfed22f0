//! Keys of any type: existence, removal, renaming, copies.
use super::parse::{ALL_KEYS, ONE_KEY, TWO_KEYS, commands, is, parse_int};
use crate::{Call, Command, Error, Result};

pub(crate) static TABLE: &[Command] = commands! { Generic:
    "del" -2 (WRITE) ALL_KEYS Split Blind "1.0.0" "O(N) where N is the number of keys"
        "key [key ...]" "Deletes keys." => del;
    "unlink" -2 (WRITE|FAST) ALL_KEYS Split Blind "4.0.0" "O(N) where N is the number of keys"
        "key [key ...]" "Deletes keys; the same as DEL." => del;
    "exists" -2 (READONLY|FAST) ALL_KEYS Split Read "1.0.0" "O(N) where N is the number of keys"
        "key [key ...]" "Counts how many of the keys exist, each as often as it is named." => exists;
    "touch" -2 (READONLY|FAST) ALL_KEYS Split Read "3.2.1" "O(N) where N is the number of keys"
        "key [key ...]" "Counts how many of the keys exist." => exists;
    "type" 2 (READONLY|FAST) ONE_KEY Single Read "1.0.0" "O(1)"
        "key" "Returns the type of the value at a key." => type_of;
    "rename" 3 (WRITE) TWO_KEYS Move Rmw "1.0.0" "O(1)"
        "key newkey" "Renames a key, replacing the key of the new name." => rename;
    "renamenx" 3 (WRITE|FAST) TWO_KEYS Move Rmw "1.0.0" "O(1)"
        "key newkey" "Renames a key only if there is no key of the new name." => renamenx;
    "copy" -3 (WRITE|DENYOOM) TWO_KEYS Move Rmw "6.2.0" "O(N) where N is the size of the value"
        "source destination [DB destination-db] [REPLACE]" "Copies the value and the expiry of a key to another key." => copy;
};

fn del(c: &mut Call<'_>) -> Result<()> {
    let n = c.args[1..].iter().filter(|key| c.shard.delete(key)).count();
    c.out.int(n as i64);
    Ok(())
}

fn exists(c: &mut Call<'_>) -> Result<()> {
    let n = c.args[1..].iter().filter(|key| c.shard.type_of(key).is_some()).count();
    c.out.int(n as i64);
    Ok(())
}

fn type_of(c: &mut Call<'_>) -> Result<()> {
    c.out.simple(c.shard.type_of(c.args[1]).map_or("none", |t| t.name()));
    Ok(())
}

fn rename(c: &mut Call<'_>) -> Result<()> {
    let (from, to) = (c.args[1], c.args[2]);
    let found = if from == to { c.shard.type_of(from).is_some() } else { c.shard.rename(from, to)? };
    if !found {
        return Err(Error::NoSuchKey);
    }
    c.out.ok();
    Ok(())
}

fn renamenx(c: &mut Call<'_>) -> Result<()> {
    let (from, to) = (c.args[1], c.args[2]);
    if c.shard.type_of(from).is_none() {
        return Err(Error::NoSuchKey);
    }
    let free = c.shard.type_of(to).is_none();
    if free {
        c.shard.rename(from, to)?;
    }
    c.out.int(free.into());
    Ok(())
}

fn copy(c: &mut Call<'_>) -> Result<()> {
    let (from, to) = (c.args[1], c.args[2]);
    let mut replace = false;
    let mut args = &c.args[3..];
    while let [option, rest @ ..] = args {
        args = rest;
        match rest {
            _ if is(option, "replace") => replace = true,
            [db, rest @ ..] if is(option, "db") => {
                if parse_int(db)? != 0 {
                    return Err(Error::other("ERR DB index is out of range"));
                }
                args = rest;
            }
            _ => return Err(Error::Syntax),
        }
    }
    if from == to {
        return Err(Error::other("ERR source and destination objects are the same"));
    }
    let value = c.shard.dump(from).filter(|_| replace || c.shard.type_of(to).is_none());
    c.out.int(value.is_some().into());
    if let Some(value) = value {
        c.shard.restore(to, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::Probe;

    #[test]
    fn keys_are_counted_renamed_and_copied() {
        let mut p = Probe::new();
        p.expect(
            "mset a 1 b 2 => +OK
             exists a a none => :2
             touch a b none => :2
             type a => +string
             type none => +none
             rename a c => +OK
             rename a c => -ERR no such key
             rename c c => +OK
             renamenx c b => :0
             renamenx c c => :0
             renamenx none b => -ERR no such key
             renamenx c d => :1
             expire d 10 => :1
             copy d e => :1
             ttl e => :10
             copy d b => :0
             copy d b replace => :1
             get b => $1 1
             copy none b => :0
             copy d d => -ERR source and destination objects are the same
             copy d f db 1 => -ERR DB index is out of range
             copy d f db 0 => :1
             copy d f what => -ERR syntax error
             del d e none => :2
             unlink b f => :2
             dbsize => :0",
        );
        let dirty = p.shard.dirty();
        p.expect("del none => :0\n copy none b replace => :0");
        assert_eq!(p.shard.dirty(), dirty);
    }
}
