//! From a request to a handler: which command it is, whether its arguments fit, and running it at a shard.
use crate::{Call, Command, Error, Result, Shard, lookup};
use kintsugidb_wire::Reply;
use std::fmt::Write;

/// The command that `args` call, if it exists and their number fits it.
pub fn resolve(args: &[&[u8]]) -> Result<&'static Command> {
    let Some(command) = args.first().and_then(|name| lookup(name)) else {
        return Err(unknown(args));
    };
    if !command.takes(args.len()) {
        return Err(Error::Arity(command.name.into()));
    }
    Ok(command)
}

/// Runs a command at a shard and appends its reply, an error reply included. Says whether it succeeded.
pub fn execute(shard: &mut Shard, args: &[&[u8]], out: &mut Reply) -> bool {
    let start = out.len();
    let done = resolve(args).and_then(|command| (command.run)(&mut Call { shard, args, out }));
    if let Err(e) = &done {
        out.truncate(start);
        out.error(&e.to_string());
    }
    done.is_ok()
}

/// "unknown command", with as much of the arguments as Redis shows.
fn unknown(args: &[&[u8]]) -> Error {
    let text = |arg: &[u8], limit: usize| String::from_utf8_lossy(&arg[..arg.len().min(limit)]).into_owned();
    let name = args.first().map_or_else(String::new, |a| text(a, 128));
    let mut beginning = String::new();
    for arg in args.iter().skip(1) {
        if beginning.len() >= 128 {
            break;
        }
        let _ = write!(beginning, "'{}' ", text(arg, 128 - beginning.len()));
    }
    Error::other(format!("ERR unknown command '{name}', with args beginning with: {beginning}"))
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::Probe;

    #[test]
    fn calls_that_fit_no_command_say_so_in_redis_words() {
        let mut p = Probe::new();
        assert_eq!(p.run("nope a b"), "-ERR unknown command 'nope', with args beginning with: 'a' 'b' ");
        assert_eq!(p.run("GET"), "-ERR wrong number of arguments for 'get' command");
        assert_eq!(p.run("mset a"), "-ERR wrong number of arguments for 'mset' command");
        assert_eq!(p.run("mset a 1 b"), "-ERR wrong number of arguments for 'mset' command");
    }
}
