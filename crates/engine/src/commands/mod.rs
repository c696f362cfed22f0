//! The commands, a file a group: a table of entries, then one function each.
mod expiry;
mod generic;
mod hash;
mod keyspace;
mod lcs;
mod list;
mod list_index;
mod long_double;
mod number;
mod object;
mod parse;
mod random;
mod range;
mod scan;
mod set;
mod string;
#[cfg(test)]
pub(crate) mod testing;
mod ttl;
mod zset;
mod zset_algebra;
mod zset_range;

use crate::Command;

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
