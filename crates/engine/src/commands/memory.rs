//! MEMORY USAGE: how much of the memory a key takes.
use super::parse::{commands, is, parse_int};
use crate::{Call, Command, Error, KeySpec, Result, Value};

const KEY_AT_TWO: KeySpec = KeySpec::Range { first: 2, last: 2, step: 1 };

pub(crate) static TABLE: &[Command] = commands! { Server:
    "memory" -2 (READONLY) KEY_AT_TWO Single Read "4.0.0" "O(N) where N is the size of the value"
        "<USAGE key [SAMPLES count] | HELP>" "Estimates the memory that a key and its value take." => memory;
};

const HELP: [&str; 5] = [
    "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "USAGE <key> [SAMPLES <count>]",
    "    Estimate the bytes that <key> and its value take. All elements are counted, whatever SAMPLES says.",
    "HELP",
    "    Print this help.",
];

/// What a cell takes beside its bytes: header and index entry.
const CELL: usize = 48;
/// What an element of a collection takes beside its bytes.
const ELEMENT: usize = 16;

fn memory(c: &mut Call<'_>) -> Result<()> {
    match c.args {
        [_, sub] if is(sub, "help") => {
            c.out.array(HELP.len());
            HELP.iter().for_each(|line| c.out.simple(line));
        }
        [_, sub] if is(sub, "usage") => return Err(Error::Arity("memory|usage".into())),
        [_, sub, key, options @ ..] if is(sub, "usage") => {
            match options {
                [] => {}
                [name, count] if is(name, "samples") => {
                    if parse_int(count)? < 0 {
                        return Err(Error::Syntax);
                    }
                }
                _ => return Err(Error::Syntax),
            }
            match c.shard.dump(key) {
                Some(d) => c.out.int((CELL + key.len() + size(&d.value)) as i64),
                None => c.out.null(),
            }
        }
        _ => {
            let sub = String::from_utf8_lossy(&c.args[1][..c.args[1].len().min(128)]);
            return Err(Error::other(format!("ERR unknown subcommand '{sub}'. Try MEMORY HELP.")));
        }
    }
    Ok(())
}

fn size(value: &Value) -> usize {
    let bytes: usize = match value {
        Value::String(s) => return s.len(),
        Value::List(l) => l.iter().map(Vec::len).sum(),
        Value::Hash(h) => h.iter().map(|(f, v)| f.len() + v.len()).sum(),
        Value::Set(s) => s.iter().map(Vec::len).sum(),
        Value::Zset(z) => z.keys().map(|m| m.len() + 8).sum(),
    };
    bytes + value.len() * ELEMENT
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::Probe;

    #[test]
    fn larger_values_take_more() {
        Probe::new().expect(
            "set k 12345 => +OK
             memory usage k => :54
             memory usage k samples 5 => :54
             memory usage none => $-1
             memory usage => -ERR wrong number of arguments for 'memory|usage' command
             memory usage k samples => -ERR syntax error
             memory doctor => -ERR unknown subcommand 'doctor'. Try MEMORY HELP.",
        );
    }
}
