//! One shard: items, their versions, the five data structures, expiry, and the table of commands.
//!
//! ```text
//!   commands/*      one function a command: arguments in, RESP out        (what Redis users see)
//!   Shard           typed operations on keys: string_*, list_*, hash_*, set_*, zset_*
//!   History         versions of the items of hot keys, for round two of a RAMP read
//!   arena::Arena    the region that holds it all, which readers read one-sidedly
//! ```
//! Nothing here does I/O, reads a clock or draws a random number: the caller sets [`Shard::now_ms`], the write
//! version ([`Shard::begin_write`]) and the seed. One thread owns a shard.
mod command;
mod commands;
mod describe;
mod error;
mod execute;
mod glob;
mod history;
#[cfg(test)]
mod model;
mod onesided;
mod packed;
mod shard;
mod value;

pub use command::{Call, Class, Command, Flags, Group, Handler, KeySpec, Route, lookup, table};
pub use describe::{command as describe_commands, commands_markdown};
pub use error::Error;
pub use execute::{execute, resolve};
pub use glob::{glob_match, glob_match_ignore_case};
pub use history::{AtSnapshot, Gone};
pub use kintsugidb_arena::{
    Config, Reader, hash as fingerprint, hash_with as fingerprint_with, set_hash_seed,
};
pub use onesided::{
    Cache, Counters, Fallback, KeyRead, MAX_NAMES, Part, Point, PointReader, Siblings, Stop, bloom_bits,
};
pub use shard::{
    Expire, LexBound, Limits, ListEnd, Memory, ScoreBound, Shard, TxnHandle, TxnRecord, Version, ZAdded,
    prepared_name,
};
pub use value::{Dump, Type, Value};

/// What an operation of a shard answers.
pub type Result<T> = std::result::Result<T, Error>;
