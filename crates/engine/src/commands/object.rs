//! OBJECT: how a value is held. Names of encodings are those that Redis would use for such a value, by its default limits.
use super::parse::{commands, integer, is};
use crate::{Call, Command, Error, KeySpec, Result, Value};

const KEY_AT_TWO: KeySpec = KeySpec::Range { first: 2, last: 2, step: 1 };

pub(crate) static TABLE: &[Command] = commands! { Generic:
    "object" -2 (READONLY) KEY_AT_TWO Single Read "2.2.3" "O(N) for ENCODING where N is the size of the value, else O(1)"
        "ENCODING key | REFCOUNT key | IDLETIME key | FREQ key | HELP" "Shows how the value at a key is held." => object;
};

const HELP: [&str; 11] = [
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    The name of the encoding that Redis would use for the value.",
    "FREQ <key>",
    "    Access frequency; not tracked.",
    "IDLETIME <key>",
    "    Seconds since the last access; not tracked, 0.",
    "REFCOUNT <key>",
    "    Number of references to the value: 1.",
    "HELP",
    "    Print this help.",
];

fn object(c: &mut Call<'_>) -> Result<()> {
    let sub = c.args[1];
    let known = ["encoding", "refcount", "idletime", "freq", "help"].into_iter().find(|name| is(sub, name));
    let Some(name) = known else {
        return Err(Error::other(format!(
            "ERR unknown subcommand '{}'. Try OBJECT HELP.",
            String::from_utf8_lossy(&sub[..sub.len().min(128)])
        )));
    };
    if c.args.len() != if name == "help" { 2 } else { 3 } {
        return Err(Error::Arity(format!("object|{name}").into()));
    }
    if name == "help" {
        c.out.array(HELP.len());
        HELP.iter().for_each(|line| c.out.simple(line));
        return Ok(());
    }
    let key = c.args[2];
    if c.shard.type_of(key).is_none() {
        c.out.null();
        return Ok(());
    }
    match name {
        "encoding" => {
            let value = c.shard.dump(key).map(|d| d.value);
            c.out.bulk(value.as_ref().map_or("", encoding).as_bytes());
        }
        "refcount" => c.out.int(1),
        "idletime" => c.out.int(0),
        _ => {
            return Err(Error::other(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. \
                 Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
    }
    Ok(())
}

fn encoding(value: &Value) -> &'static str {
    let small = |mut lens: Box<dyn Iterator<Item = usize> + '_>| value.len() <= 128 && lens.all(|n| n <= 64);
    match value {
        Value::String(s) if integer(s).is_some() => "int",
        Value::String(s) if s.len() <= 44 => "embstr",
        Value::String(_) => "raw",
        Value::List(_) => "quicklist",
        Value::Hash(h) if small(Box::new(h.iter().map(|(f, v)| f.len().max(v.len())))) => "listpack",
        Value::Set(s) if s.len() <= 512 && s.iter().all(|m| integer(m).is_some()) => "intset",
        Value::Hash(_) | Value::Set(_) => "hashtable",
        Value::Zset(z) if small(Box::new(z.keys().map(Vec::len))) => "listpack",
        Value::Zset(_) => "skiplist",
    }
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::Probe;

    #[test]
    fn encodings_have_the_names_that_redis_gives() {
        Probe::new().expect(
            "mset i 12 s 012 => +OK
             rpush l x => :1
             object encoding i => $3 int
             object ENCODING s => $6 embstr
             object encoding l => $9 quicklist
             object encoding none => $-1
             object refcount i => :1
             object encoding => -ERR wrong number of arguments for 'object|encoding' command
             object what i => -ERR unknown subcommand 'what'. Try OBJECT HELP.",
        );
    }
}
