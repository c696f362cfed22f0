//! What the table of commands says of itself: the replies of COMMAND, and `docs/commands.md`.
use crate::{
    Class, Command, Error, Flags, Group, KeySpec, Result, Route, glob_match_ignore_case, lookup, table,
};
use kintsugidb_wire::Reply;
use std::fmt::Write;

const FLAG_NAMES: [(Flags, &str); 10] = [
    (Flags::WRITE, "write"),
    (Flags::READONLY, "readonly"),
    (Flags::DENYOOM, "denyoom"),
    (Flags::ADMIN, "admin"),
    (Flags::LOADING, "loading"),
    (Flags::STALE, "stale"),
    (Flags::FAST, "fast"),
    (Flags::NO_AUTH, "no_auth"),
    (Flags::MOVABLE_KEYS, "movablekeys"),
    (Flags::NO_MULTI, "no_multi"),
];

const HELP: [&str; 15] = [
    "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "(no subcommand)",
    "    Describe all commands.",
    "COUNT",
    "    The number of commands.",
    "LIST [FILTERBY (MODULE <name> | ACLCAT <category> | PATTERN <pattern>)]",
    "    The names of the commands.",
    "INFO [<name> ...]",
    "    Describe these commands, or all.",
    "DOCS [<name> ...]",
    "    The documentation of these commands, or of all.",
    "GETKEYS <command>, GETKEYSANDFLAGS <command>",
    "    The keys in a whole command.",
    "HELP",
    "    Print this help.",
];

impl Group {
    /// The groups in the order of the documentation.
    pub const ALL: [Self; 9] = [
        Self::String,
        Self::List,
        Self::Hash,
        Self::Set,
        Self::SortedSet,
        Self::Generic,
        Self::Transactions,
        Self::Connection,
        Self::Server,
    ];

    /// The name that COMMAND DOCS uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::List => "list",
            Self::Hash => "hash",
            Self::Set => "set",
            Self::SortedSet => "sorted-set",
            Self::Generic => "generic",
            Self::Transactions => "transactions",
            Self::Connection => "connection",
            Self::Server => "server",
        }
    }

    /// The category of access control that its commands are in.
    fn category(self) -> Option<&'static str> {
        match self {
            Self::String => Some("string"),
            Self::List => Some("list"),
            Self::Hash => Some("hash"),
            Self::Set => Some("set"),
            Self::SortedSet => Some("sortedset"),
            Self::Generic => Some("keyspace"),
            Self::Transactions => Some("transaction"),
            Self::Connection => Some("connection"),
            Self::Server => None,
        }
    }
}

impl Command {
    /// The names of its flags.
    pub fn flag_names(&self) -> Vec<&'static str> {
        FLAG_NAMES.iter().filter(|(f, _)| self.flags.has(*f)).map(|(_, name)| *name).collect()
    }

    /// The categories of access control that it is in, without the at sign.
    pub fn categories(&self) -> Vec<&'static str> {
        let mut all = Vec::new();
        let has = |f| self.flags.has(f);
        // What only looks at the connection or at a transaction reads no data.
        if has(Flags::WRITE) {
            all.push("write");
        }
        if has(Flags::READONLY) {
            all.push("read");
        }
        all.extend(self.group.category());
        if has(Flags::ADMIN) {
            all.push("admin");
        }
        all.push(if has(Flags::FAST) { "fast" } else { "slow" });
        if has(Flags::ADMIN) || matches!(self.name, "keys" | "flushall" | "flushdb" | "info") {
            all.push("dangerous");
        }
        all
    }

    /// What it does to its keys, in the words of key specifications.
    fn key_flags(&self) -> &'static [&'static str] {
        match self.class {
            _ if matches!(self.name, "del" | "unlink" | "getdel") => &["RM", "delete"],
            Class::Read => &["RO", "access"],
            Class::Blind => &["OW", "update"],
            Class::Rmw => &["RW", "access", "update"],
        }
    }
}

/// COMMAND and its subcommands.
pub fn command(args: &[&[u8]], out: &mut Reply) -> Result<()> {
    let Some(&sub) = args.get(1) else {
        infos(table().iter().copied().map(Some), out);
        return Ok(());
    };
    let rest = &args[2..];
    match (sub.to_ascii_lowercase().as_slice(), rest.len()) {
        (b"count", 0) => out.int(table().len() as i64),
        (b"info", 0) => infos(table().iter().copied().map(Some), out),
        (b"info", _) => infos(rest.iter().map(|name| lookup(name)), out),
        (b"docs", 0) => docs(table(), out),
        (b"docs", _) => docs(&rest.iter().filter_map(|name| lookup(name)).collect::<Vec<_>>(), out),
        (b"list", _) => return list(rest, out),
        (b"getkeys", 1..) => return keys(rest, false, out),
        (b"getkeysandflags", 1..) => return keys(rest, true, out),
        (b"help", 0) => {
            out.array(HELP.len());
            HELP.iter().for_each(|line| out.simple(line));
        }
        (known @ (b"count" | b"getkeys" | b"getkeysandflags" | b"help"), _) => {
            return Err(Error::Arity(format!("command|{}", String::from_utf8_lossy(known)).into()));
        }
        _ => {
            let sub = String::from_utf8_lossy(&sub[..sub.len().min(128)]);
            return Err(Error::other(format!("ERR unknown subcommand '{sub}'. Try COMMAND HELP.")));
        }
    }
    Ok(())
}

fn infos(commands: impl ExactSizeIterator<Item = Option<&'static Command>>, out: &mut Reply) {
    out.array(commands.len());
    for command in commands {
        match command {
            Some(c) => info(c, out),
            None => out.null_array(),
        }
    }
}

fn names(names: &[&str], out: &mut Reply) {
    out.set(names.len());
    names.iter().for_each(|name| out.simple(name));
}

fn info(c: &Command, out: &mut Reply) {
    out.array(10);
    out.bulk(c.name.as_bytes());
    out.int(c.arity.into());
    names(&c.flag_names(), out);
    let (first, last, step) = match c.keys {
        KeySpec::Range { first, last, step } => (first as i64, last as i64, step as i64),
        KeySpec::Count { dest: true, .. } => (1, 1, 1),
        KeySpec::Count { .. } | KeySpec::None => (0, 0, 0),
    };
    out.int(first);
    out.int(last);
    out.int(step);
    let categories: Vec<String> = c.categories().iter().map(|name| format!("@{name}")).collect();
    names(&categories.iter().map(String::as_str).collect::<Vec<_>>(), out);
    // Tips: none.
    out.set(0);
    key_specs(c, out);
    // Subcommands: none of their own.
    out.array(0);
}

fn key_specs(c: &Command, out: &mut Reply) {
    match c.keys {
        KeySpec::None => out.set(0),
        KeySpec::Range { first, last, step } => {
            out.set(1);
            // Seen from the first key, as key specifications count.
            let last = if last < 0 { last } else { last - first as isize };
            range_spec(c.key_flags(), first, last, step, out);
        }
        KeySpec::Count { at, dest } => {
            out.set(1 + usize::from(dest));
            if dest {
                range_spec(&["OW", "update"], 1, 0, 1, out);
            }
            let flags = if dest { &["RO", "access"] } else { c.key_flags() };
            spec(flags, at, "keynum", &[("keynumidx", 0), ("firstkey", 1), ("keystep", 1)], out);
        }
    }
}

fn range_spec(flags: &[&str], first: usize, last: isize, step: usize, out: &mut Reply) {
    let find = [("lastkey", last as i64), ("keystep", step as i64), ("limit", 0)];
    spec(flags, first, "range", &find, out);
}

fn spec(flags: &[&str], index: usize, kind: &str, find: &[(&str, i64)], out: &mut Reply) {
    out.map(3);
    out.bulk(b"flags");
    names(flags, out);
    for (name, kind, fields) in
        [("begin_search", "index", &[("index", index as i64)][..]), ("find_keys", kind, find)]
    {
        out.bulk(name.as_bytes());
        out.map(2);
        out.bulk(b"type");
        out.bulk(kind.as_bytes());
        out.bulk(b"spec");
        out.map(fields.len());
        for (field, n) in fields {
            out.bulk(field.as_bytes());
            out.int(*n);
        }
    }
}

fn docs(commands: &[&'static Command], out: &mut Reply) {
    out.map(commands.len());
    for c in commands {
        out.bulk(c.name.as_bytes());
        out.map(4);
        for (field, text) in [
            ("summary", c.summary),
            ("since", c.since),
            ("group", c.group.name()),
            ("complexity", c.complexity),
        ] {
            out.bulk(field.as_bytes());
            out.bulk(text.as_bytes());
        }
    }
}

fn list(args: &[&[u8]], out: &mut Reply) -> Result<()> {
    let fits: Box<dyn Fn(&Command) -> bool> = match args {
        [] => Box::new(|_| true),
        [filter, kind, value] if filter.eq_ignore_ascii_case(b"filterby") => {
            let value = value.to_vec();
            match kind.to_ascii_lowercase().as_slice() {
                b"module" => Box::new(|_| false),
                b"aclcat" => {
                    Box::new(move |c| c.categories().iter().any(|n| value.eq_ignore_ascii_case(n.as_bytes())))
                }
                b"pattern" => Box::new(move |c| glob_match_ignore_case(&value, c.name.as_bytes())),
                _ => return Err(Error::Syntax),
            }
        }
        _ => return Err(Error::Syntax),
    };
    let found: Vec<_> = table().iter().filter(|c| fits(c)).collect();
    out.array(found.len());
    found.iter().for_each(|c| out.bulk(c.name.as_bytes()));
    Ok(())
}

fn keys(args: &[&[u8]], flags: bool, out: &mut Reply) -> Result<()> {
    let command = lookup(args[0]).ok_or(Error::other("ERR Invalid command specified"))?;
    if command.keys == KeySpec::None {
        return Err(Error::other("ERR The command has no key arguments"));
    }
    let found = command.key_indexes(args);
    if !command.takes(args.len()) || found.is_empty() {
        return Err(Error::other("ERR Invalid number of arguments specified for command"));
    }
    out.array(found.len());
    for i in found {
        if flags {
            out.array(2);
        }
        out.bulk(args[i]);
        match command.keys {
            _ if !flags => {}
            KeySpec::Count { dest: true, .. } if i == 1 => names(&["OW", "update"], out),
            KeySpec::Count { dest: true, .. } => names(&["RO", "access"], out),
            _ => names(command.key_flags(), out),
        }
    }
    Ok(())
}

/// The text of `docs/commands.md`.
pub fn commands_markdown() -> String {
    let mut text = String::from(
        "# Commands\n\n\
         Written from the table of commands; do not edit. `KINTSUGI_BLESS=1 cargo test -p kintsugidb-engine --test commands_page` \
         writes it anew.\n\n\
         How a command runs when its keys live in several shards is in the column *keys*:\n\n\
         | keys | meaning |\n|---|---|\n\
         | none | the front end answers by itself |\n\
         | one | the key's shard |\n\
         | each | every key by itself at its shard; written and seen atomically |\n\
         | gather | values read atomically, and the command runs on the copies |\n\
         | store | the same, then the destination is replaced |\n\
         | move | reads and writes, under reservations of the keys |\n\
         | all | every shard in turn |\n",
    );
    for group in Group::ALL {
        let mut commands: Vec<_> = table().iter().filter(|c| c.group == group).collect();
        commands.sort_by_key(|c| c.name);
        if commands.is_empty() {
            continue;
        }
        let _ = write!(
            text,
            "\n## {}\n\n| command | keys | since Redis | time | what it does |\n|---|---|---|---|---|\n",
            group.name()
        );
        for c in commands {
            let syntax =
                format!("{} {}", c.name.to_ascii_uppercase(), c.syntax).trim_end().replace('|', "\\|");
            let route = match c.route {
                Route::Front => "none",
                Route::Single => "one",
                Route::Split => "each",
                Route::Gather => "gather",
                Route::Store => "store",
                Route::Move => "move",
                Route::All => "all",
            };
            let _ =
                writeln!(text, "| `{syntax}` | {route} | {} | {} | {} |", c.since, c.complexity, c.summary);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::Probe;
    use crate::{Flags, KeySpec, Route, table};
    use kintsugidb_wire::Proto;
    use std::collections::HashSet;

    #[test]
    fn every_entry_is_sane_and_documented() {
        let mut names = HashSet::new();
        for c in table() {
            assert!(names.insert(c.name), "{} is there twice", c.name);
            assert_eq!(c.name, c.name.to_ascii_lowercase());
            assert!(c.name.len() <= 32, "{} is longer than lookup takes", c.name);
            assert!(c.arity != 0, "{}: arity", c.name);
            for (what, text) in [("summary", c.summary), ("complexity", c.complexity), ("since", c.since)] {
                assert!(!text.trim().is_empty(), "{}: no {what}", c.name);
            }
            assert!(c.summary.ends_with('.'), "{}: {}", c.name, c.summary);
            assert_eq!(
                c.syntax.is_empty(),
                c.arity == 1 || (c.arity == -1 && c.syntax.is_empty()),
                "{}: syntax",
                c.name
            );
            let both = c.flags.has(Flags::WRITE) && c.flags.has(Flags::READONLY);
            assert!(!both, "{} both writes and only reads", c.name);
            assert!(
                !c.flags.has(Flags::DENYOOM) || c.flags.has(Flags::WRITE),
                "{}: denyoom without write",
                c.name
            );
            let counted = matches!(c.keys, KeySpec::Count { .. });
            assert_eq!(counted, c.flags.has(Flags::MOVABLE_KEYS), "{}: movable keys", c.name);
            match c.route {
                Route::All => assert_eq!(c.keys, KeySpec::None, "{}", c.name),
                Route::Front => {}
                _ => assert_ne!(c.keys, KeySpec::None, "{} goes to a shard by its keys", c.name),
            }
            if let KeySpec::Range { first, last, step } = c.keys {
                let least = c.arity.unsigned_abs() as usize;
                assert!(
                    first >= 1 && step >= 1 && (first < least || c.name == "object" || c.name == "memory"),
                    "{}",
                    c.name
                );
                assert!(last < 0 || last as usize >= first, "{}", c.name);
            }
        }
    }

    #[test]
    fn command_describes_the_table_in_redis_form() {
        let mut p = Probe::new();
        p.expect(
            "command getkeys mset a 1 b 2 => *2 $1 a $1 b
             command getkeys lmpop 2 a b left => *2 $1 a $1 b
             command getkeys lmpop 3 a b left count 1 => *3 $1 a $1 b $4 left
             command getkeys nope a => -ERR Invalid command specified
             command getkeys ping => -ERR The command has no key arguments
             command getkeys mset a => -ERR Invalid number of arguments specified for command
             command getkeys => -ERR wrong number of arguments for 'command|getkeys' command
             command getkeysandflags set a b => *1 *2 $1 a *2 +OW +update
             command count x => -ERR wrong number of arguments for 'command|count' command
             command what => -ERR unknown subcommand 'what'. Try COMMAND HELP.
             command info nope => *1 *-1
             command list filterby pattern GETR* => *1 $8 getrange
             command list filterby module x => *0
             command list filterby what x => -ERR syntax error",
        );
        assert_eq!(p.run("command count"), format!(":{}", table().len()));
        p.proto = Proto::Resp3;
        p.expect(
            "command info get => *1 *10 $3 get :2 ~2 +readonly +fast :1 :1 :1 ~3 +@read +@string +@fast ~0 ~1 %3 $5 flags ~2 +RO +access $12 begin_search %2 $4 type $5 index $4 spec %1 $5 index :1 $9 find_keys %2 $4 type $5 range $4 spec %3 $7 lastkey :0 $7 keystep :1 $5 limit :0 *0
             command docs time => %1 $4 time %4 $7 summary $74 Returns the server's time: seconds since the Unix epoch, and microseconds. $5 since $5 2.6.0 $5 group $6 server $10 complexity $4 O(1)",
        );
    }
}
