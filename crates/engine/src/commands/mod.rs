//! The commands, a file a group: a table of entries, then one function each.
mod connection;
mod expiry;
mod generic;
mod hash;
mod keyspace;
mod lcs;
mod list;
mod list_index;
mod long_double;
mod memory;
mod number;
mod object;
mod parse;
mod random;
mod range;
mod scan;
mod server;
mod set;
mod string;
#[cfg(test)]
pub(crate) mod testing;
mod transaction;
mod ttl;
mod zset;
mod zset_algebra;
mod zset_range;

use crate::{Call, Command, Error, Result};

/// The tables of all groups.
pub(crate) static TABLES: &[&[Command]] = &[
    string::TABLE,
    number::TABLE,
    range::TABLE,
    lcs::TABLE,
    generic::TABLE,
    ttl::TABLE,
    keyspace::TABLE,
    object::TABLE,
    memory::TABLE,
    transaction::TABLE,
    connection::TABLE,
    server::TABLE,
    list::TABLE,
    list_index::TABLE,
    hash::TABLE,
    set::TABLE,
    zset::TABLE,
    zset_range::TABLE,
    zset_algebra::TABLE,
];

/// Whether the options of this SET or ZADD let it write without looking.
pub(crate) fn is_blind(name: &str, args: &[&[u8]]) -> bool {
    match name {
        "set" => args.len() == 3,
        "zadd" => args.get(2).is_some_and(|a| std::str::from_utf8(a).is_ok_and(|s| s.parse::<f64>().is_ok())),
        _ => true,
    }
}

/// The handler of commands that the front end runs itself; it is never called.
pub(crate) fn front(_: &mut Call<'_>) -> Result<()> {
    Err(Error::other("ERR internal error: a command of the front end reached a shard"))
}
