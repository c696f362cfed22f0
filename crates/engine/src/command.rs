//! The table of commands: one entry a command, from which dispatch, key routing, COMMAND and the docs page come.
//! Adding a command is one entry in its group's table (`commands/*.rs`) and one function.
use crate::{Result, Shard};
use kintsugidb_wire::Reply;
use std::{collections::HashMap, sync::LazyLock};

/// A call of a command at the shard that owns its keys (or at a scratch shard that holds copies of them).
pub struct Call<'a> {
    /// The shard.
    pub shard: &'a mut Shard,
    /// The arguments, the command's name first. Their number fits the command's arity.
    pub args: &'a [&'a [u8]],
    /// Where the reply goes. A handler that returns an error has written nothing that stays.
    pub out: &'a mut Reply,
}

/// What runs a command.
pub type Handler = fn(&mut Call<'_>) -> Result<()>;

/// Where a command's keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySpec {
    /// No keys.
    None,
    /// Arguments `first`, `first + step` … to `last` (negative: from the end, -1 is the last argument).
    Range {
        /// Index of the first key.
        first: usize,
        /// Index of the last key; negative counts from the end.
        last: isize,
        /// From one key to the next.
        step: usize,
    },
    /// A count at argument `at`, the keys after it (ZUNION, SINTERCARD). With `dest`, argument 1 is a key too.
    Count {
        /// Index of the count.
        at: usize,
        /// Whether argument 1 is a key (the STORE forms).
        dest: bool,
    },
}

/// Who runs a command, and how it is put together when its keys live on several shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The front end itself (PING, CLIENT, CONFIG …); the handler is never called.
    Front,
    /// One key: its shard.
    Single,
    /// Several keys, each handled alone, replies merged: MSET (ok), DEL, EXISTS, TOUCH, UNLINK (sum), MGET (array).
    Split,
    /// Reads whole collections at several keys (SINTER, ZUNION, SINTERCARD …): over several shards, on copies read atomically.
    Gather,
    /// The same, then replaces the key at argument 1 (SUNIONSTORE, ZINTERSTORE, ZRANGESTORE …).
    Store,
    /// Reads and writes several keys (RENAME, COPY, LMOVE, SMOVE, MSETNX …): over several shards, under reservations.
    Move,
    /// Every shard (KEYS, SCAN, DBSIZE, FLUSHALL, RANDOMKEY); the front end merges.
    All,
}

/// What a command does inside of a write transaction over several shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It only reads.
    Read,
    /// It writes items without looking (SET without options, DEL, HSET, HDEL, SADD, SREM, ZADD without flags, ZREM): reserves nothing.
    /// [`Command::class_of`] looks at the options.
    Blind,
    /// It reads what it writes, or depends on order (INCR, LPUSH …): reserves its keys.
    Rmw,
}

/// Properties of a command as COMMAND reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags(pub u32);

impl Flags {
    /// It changes the data.
    pub const WRITE: Self = Self(1);
    /// It only reads.
    pub const READONLY: Self = Self(1 << 1);
    /// It may need memory: refused when the limit is reached.
    pub const DENYOOM: Self = Self(1 << 2);
    /// Constant or logarithmic time.
    pub const FAST: Self = Self(1 << 3);
    /// For administrators.
    pub const ADMIN: Self = Self(1 << 4);
    /// Not inside of MULTI.
    pub const NO_MULTI: Self = Self(1 << 5);
    /// Allowed before authentication.
    pub const NO_AUTH: Self = Self(1 << 6);
    /// The position of keys depends on the arguments.
    pub const MOVABLE_KEYS: Self = Self(1 << 7);
    /// Allowed while loading.
    pub const LOADING: Self = Self(1 << 8);
    /// Allowed on a stale replica.
    pub const STALE: Self = Self(1 << 9);

    /// Both sets of flags.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The group of a command: its section in the documentation and its data category.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Strings.
    String,
    /// Lists.
    List,
    /// Hashes.
    Hash,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Keys of any type.
    Generic,
    /// MULTI and kin.
    Transactions,
    /// The connection.
    Connection,
    /// The server.
    Server,
}

/// One command.
pub struct Command {
    /// Lower-case name.
    pub name: &'static str,
    /// Number of arguments, the name included; negative: at least that many.
    pub arity: i32,
    /// Properties.
    pub flags: Flags,
    /// Where its keys are.
    pub keys: KeySpec,
    /// Who runs it.
    pub route: Route,
    /// What it does inside of a transaction, without options that make it look.
    pub class: Class,
    /// Its group.
    pub group: Group,
    /// Version of Redis that has it first.
    pub since: &'static str,
    /// Time, in the usual notation.
    pub complexity: &'static str,
    /// The arguments as documentation writes them, the name left out.
    pub syntax: &'static str,
    /// One line of documentation.
    pub summary: &'static str,
    /// What runs it at a shard.
    pub run: Handler,
}

impl Command {
    /// Whether `n` arguments, the name included, fit.
    pub fn takes(&self, n: usize) -> bool {
        let n = n as i64;
        let arity = i64::from(self.arity);
        if arity >= 0 { n == arity } else { n >= -arity }
    }

    /// The class of this call: [`Class::Blind`] only when no option makes the command look before it writes.
    pub fn class_of(&self, args: &[&[u8]]) -> Class {
        match (self.class, self.name) {
            (Class::Blind, "set" | "zadd") if !crate::commands::is_blind(self.name, args) => Class::Rmw,
            (class, _) => class,
        }
    }

    /// Indexes of the keys among `args`. Empty if the arguments do not parse; the handler says what is wrong.
    pub fn key_indexes(&self, args: &[&[u8]]) -> Vec<usize> {
        match self.keys {
            KeySpec::None => Vec::new(),
            KeySpec::Range { first, last, step } => {
                if !args.len().saturating_sub(first).is_multiple_of(step) {
                    // A key without its value (MSET).
                    return Vec::new();
                }
                let last = if last < 0 { args.len() as isize + last } else { last };
                (first..args.len()).step_by(step).take_while(|&i| i as isize <= last).collect()
            }
            KeySpec::Count { at, dest } => {
                let count = args.get(at).and_then(|a| std::str::from_utf8(a).ok()?.parse::<usize>().ok());
                match count {
                    Some(n) if n > 0 && n <= args.len().saturating_sub(at + 1) => {
                        let keys = at + 1..at + 1 + n;
                        if dest { std::iter::once(1).chain(keys).collect() } else { keys.collect() }
                    }
                    _ => Vec::new(),
                }
            }
        }
    }
}

static TABLE: LazyLock<Vec<&'static Command>> =
    LazyLock::new(|| crate::commands::TABLES.iter().flat_map(|t| t.iter()).collect());
static BY_NAME: LazyLock<HashMap<&'static [u8], &'static Command>> =
    LazyLock::new(|| TABLE.iter().map(|c| (c.name.as_bytes(), *c)).collect());

/// All commands.
pub fn table() -> &'static [&'static Command] {
    &TABLE
}

/// The command of this name, whatever its case.
pub fn lookup(name: &[u8]) -> Option<&'static Command> {
    let mut lower = [0u8; 32];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    BY_NAME.get(&*lower).copied()
}
