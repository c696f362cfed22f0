//! Commands that the front end answers itself.
mod client;
mod config;
mod connection;
mod info;

use crate::{conn::Conn, dispatch::Flow, worker::Worker};
use kintsugidb_engine::Error;

/// What runs a command of the front end. It writes the reply to the connection.
pub(crate) type Front = fn(&mut Worker, &mut Conn, &[&[u8]]) -> Flow;

/// The front end's own function for the command of this name.
pub(crate) fn find(name: &str) -> Option<Front> {
    Some(match name {
        "ping" => connection::ping,
        "echo" => connection::echo,
        "hello" => connection::hello,
        "auth" => connection::auth,
        "select" => connection::select,
        "quit" => connection::quit,
        "reset" => connection::reset,
        "time" => connection::time,
        "function" => connection::function,
        "multi" => connection::multi,
        "exec" => |w, c, _| w.exec(c),
        "discard" => connection::discard,
        "watch" => connection::watch,
        "unwatch" => connection::unwatch,
        "client" => client::client,
        "config" => config::config,
        "info" => info::info,
        _ => return None,
    })
}

/// Answers, with an error if there is one.
fn answer(conn: &mut Conn, done: Result<(), Error>) -> Flow {
    if let Err(e) = done {
        conn.out.error(&e.to_string());
    }
    Flow::Taken
}

/// The error for a subcommand that does not exist.
fn unknown_subcommand(command: &str, args: &[&[u8]]) -> Error {
    let sub = String::from_utf8_lossy(args.get(1).copied().unwrap_or_default());
    Error::other(format!("ERR unknown subcommand '{sub:.128}'. Try {command} HELP."))
}

/// The error for a subcommand with the wrong number of arguments.
fn wrong_number(command: &str) -> Error {
    Error::Arity(command.to_owned().into())
}

fn text(arg: &[u8]) -> String {
    String::from_utf8_lossy(arg).into_owned()
}

fn integer(arg: &[u8]) -> Result<i64, Error> {
    std::str::from_utf8(arg).ok().and_then(|s| s.parse().ok()).ok_or(Error::NotInteger)
}

/// Writes lines of help as Redis does.
fn help(conn: &mut Conn, command: &str, lines: &[&str]) {
    conn.out.array(lines.len() + 1);
    conn.out.simple(&format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for line in lines {
        conn.out.simple(line);
    }
}
