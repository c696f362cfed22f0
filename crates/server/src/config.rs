//! Settings. Each is defined once, in the list below: from it come the flag (`--proto-max-bulk-len`), the variable
//! (`KINTSUGI_PROTO_MAX_BULK_LEN`), the entry of `kintsugi.toml` with its comment, CONFIG GET and CONFIG SET.
//! Flags win over the environment, that over the file, that over the default.
use kintsugidb_ramp::MAX_SHARDS;
pub use kintsugidb_ramp::{Isolation, PreparedVersions};
use std::fmt::Write as _;

/// A type that settings have.
pub trait SettingValue: Sized {
    /// Reads it; the error says what is allowed.
    fn parse(s: &str) -> Result<Self, String>;
    /// Writes it so that [`SettingValue::parse`] reads it.
    fn show(&self) -> String;
    /// Whether TOML writes it in quotes.
    const QUOTED: bool = false;
}

impl SettingValue for String {
    fn parse(s: &str) -> Result<Self, String> {
        Ok(s.into())
    }
    fn show(&self) -> String {
        self.clone()
    }
    const QUOTED: bool = true;
}

impl SettingValue for bool {
    fn parse(s: &str) -> Result<Self, String> {
        match s {
            "yes" | "true" => Ok(true),
            "no" | "false" => Ok(false),
            _ => Err("argument must be 'yes' or 'no'".into()),
        }
    }
    fn show(&self) -> String {
        if *self { "yes".into() } else { "no".into() }
    }
    const QUOTED: bool = true;
}

macro_rules! integers {
    ($($t:ty),*) => { $(impl SettingValue for $t {
        fn parse(s: &str) -> Result<Self, String> {
            s.parse().map_err(|_| "argument couldn't be parsed into an integer".into())
        }
        fn show(&self) -> String {
            self.to_string()
        }
    })* };
}
integers!(u16, u32, u64, usize);

/// A number of bytes; written with `kb`, `mb` or `gb` if one likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Bytes(pub u64);

impl SettingValue for Bytes {
    fn parse(s: &str) -> Result<Self, String> {
        let lower = s.to_ascii_lowercase();
        let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let factor: u64 = match &lower[digits.len()..] {
            "" | "b" => 1,
            "k" => 1_000,
            "kb" => 1 << 10,
            "m" => 1_000_000,
            "mb" => 1 << 20,
            "g" => 1_000_000_000,
            "gb" => 1 << 30,
            _ => return Err("argument must be a memory value".into()),
        };
        let n: u64 = digits.parse().map_err(|_| "argument must be a memory value")?;
        n.checked_mul(factor).map(Self).ok_or_else(|| "argument must be a memory value".into())
    }
    fn show(&self) -> String {
        self.0.to_string()
    }
    const QUOTED: bool = true;
}

impl SettingValue for Isolation {
    fn parse(s: &str) -> Result<Self, String> {
        Self::from_name(&s.to_ascii_lowercase())
            .ok_or_else(|| "argument must be one of: fast, small, hybrid, locking, none".into())
    }
    fn show(&self) -> String {
        self.name().into()
    }
    const QUOTED: bool = true;
}

impl SettingValue for PreparedVersions {
    fn parse(s: &str) -> Result<Self, String> {
        Self::from_name(&s.to_ascii_lowercase())
            .ok_or_else(|| "argument must be one of: hidden, shown, invalidated".into())
    }
    fn show(&self) -> String {
        self.name().into()
    }
    const QUOTED: bool = true;
}

/// What is known of one setting.
pub struct Setting {
    /// Its name: as a flag, in the file, in CONFIG.
    pub name: &'static str,
    /// What it does, for people; lines end with a line break.
    pub doc: &'static str,
    /// Whether CONFIG SET may change it while the server runs.
    pub runtime: bool,
    /// Whether TOML writes it in quotes.
    pub quoted: bool,
    /// Its value as text.
    pub show: fn(&Config) -> String,
    /// Changes it; the error says what is allowed.
    pub parse: fn(&mut Config, &str) -> Result<(), String>,
}

macro_rules! settings {
    ($($(#[doc = $doc:literal])* $name:literal $field:ident: $t:ty = $default:expr, $runtime:literal;)*) => {
        /// All settings.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Config {
            $($(#[doc = $doc])* pub $field: $t,)*
        }

        impl Default for Config {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        /// What is known of all settings, in the order of the file.
        pub static SETTINGS: &[Setting] = &[$(Setting {
            name: $name,
            doc: concat!($($doc, "\n"),*),
            runtime: $runtime,
            quoted: <$t as SettingValue>::QUOTED,
            show: |c| c.$field.show(),
            parse: |c, s| { c.$field = <$t as SettingValue>::parse(s)?; Ok(()) },
        },)*];
    };
}

settings! {
    /// The address to listen on for TCP. Anyone who can connect can read and write everything:
    /// leave the loopback address unless the network is trusted.
    "bind" bind: String = "127.0.0.1".into(), false;
    /// The TCP port; 0 listens on no port.
    "port" port: u16 = 6379, false;
    /// The path of a Unix socket to listen on; empty for none.
    "unixsocket" unixsocket: String = String::new(), false;
    /// Where native clients connect, one address or several with blanks between them: `shm:/run/kintsugi.sock` for processes
    /// of this host, which then read the data from shared memory; `tcp:127.0.0.1:7400`; on a machine with an RDMA device
    /// `verbs:10.0.0.1:7400` and `rdma:10.0.0.1:7401`, the address being the device's. With `rdma`, all regions are
    /// wholly in memory and locked there: set `region-size`. Empty for none.
    "fabric" fabric: String = String::new(), false;
    /// What native clients that read the data themselves are told of transactions that are prepared and not committed. `shown`: their
    /// versions, so that who has read half of one reads the other half, too. `hidden`: nothing; such a reader waits a moment and asks. `invalidated`:
    /// that they are under way; every reader of their keys asks (the scheme of the paper \"RAMP over RDMA\", for comparison).
    "prepared-versions" prepared_versions: PreparedVersions = PreparedVersions::default(), false;
    /// Microseconds for which a thread goes on polling a native connection that has fallen silent, before it sleeps.
    "fabric-spin-us" fabric_spin_us: u64 = 50, true;
    /// The address and port to answer datagrams on (spec/wire.md), as 127.0.0.1:6380; empty for none. The sender of a
    /// datagram can be forged: leave the loopback address unless the network is trusted.
    "udp" udp: String = String::new(), false;
    /// Shards: partitions of the key space, each owned by one thread. A key's shard is its hash slot
    /// (as in Redis Cluster, {tags} included) modulo this number. 1 to 512.
    "shards" shards: usize = 16, false;
    /// Threads. Each has an event loop, its share of the shards and its share of the connections. 0: one a core.
    "threads" threads: usize = 0, false;
    /// How commands and transactions over several shards are isolated:
    ///   fast     read atomic, RAMP-Fast: reads take one round, rarely two
    ///   small    read atomic, RAMP-Small: the least metadata, reads take two rounds
    ///   hybrid   read atomic, RAMP-Hybrid: metadata of constant size
    ///   locking  two-phase locking: for comparison
    ///   none     nothing: a read may see half of a write; for comparison
    "isolation" isolation: Isolation = Isolation::Fast, false;
    /// Bytes of memory for data, all shards together; 0 for no limit. Each shard has an equal share. When a
    /// shard's share is used up, commands that need memory there are answered with an error. Nothing is evicted.
    "maxmemory" maxmemory: Bytes = Bytes(0), true;
    /// How long metadata of finished transactions is kept for slow readers, in milliseconds.
    "window-ms" window_ms: u64 = 20, false;
    /// How long a prepared transaction may be without word from its coordinator before its
    /// participants settle it among themselves, in milliseconds.
    "orphan-ms" orphan_ms: u64 = 50, false;
    /// How long replaced values stay readable for readers of other threads, in milliseconds.
    "grace-ms" grace_ms: u64 = 4, false;
    /// Address space of one shard's region, the most that the shard can hold. It costs nothing until it is used;
    /// make it smaller where a process's address space is limited.
    "region-size" region_size: Bytes = Bytes(64 << 30), false;
    /// Whether memory of a shard is put into large pages (2 MiB) once a quarter of one is in use, by a thread of its own. Reads then
    /// need fewer address translations; a shard may take up to 1.5 MiB more. No effect where the system cannot (Linux before 6.1).
    "large-pages" large_pages: bool = true, false;
    /// Connections at one time; more are turned away with an error.
    "maxclients" maxclients: usize = 10_000, true;
    /// Seconds after which an idle connection is closed; 0 for never.
    "timeout" timeout: u64 = 0, true;
    /// Seconds between keep-alive probes of idle TCP connections; 0 for none.
    "tcp-keepalive" tcp_keepalive: u64 = 300, true;
    /// Connections that the kernel holds until they are accepted.
    "tcp-backlog" tcp_backlog: u32 = 511, false;
    /// Bytes of replies that may wait for a connection before its further requests are left unread.
    "output-buffer-soft" output_soft: Bytes = Bytes(1 << 20), true;
    /// Bytes of replies that may wait for a connection before it is closed.
    "output-buffer-hard" output_hard: Bytes = Bytes(2 << 30), true;
    /// Bytes of one request.
    "client-query-buffer-limit" query_limit: Bytes = Bytes(1 << 30), true;
    /// Bytes of one argument.
    "proto-max-bulk-len" max_bulk: Bytes = Bytes(512 << 20), true;
}

impl Config {
    /// Sets one setting by name, as the file, the environment and flags do. The error names it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let s = setting(name).ok_or_else(|| format!("there is no setting '{name}'"))?;
        let before = self.clone();
        (s.parse)(self, value)
            .and_then(|()| self.check())
            .map_err(|why| format!("{name} = {value:?}: {why}"))
            .inspect_err(|_| *self = before)
    }

    /// Whether all values are in range.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=usize::from(MAX_SHARDS)).contains(&self.shards) {
            return Err("shards must be between 1 and 512".into());
        }
        if !self.fabric.trim().is_empty() && self.shards > kintsugidb_fabric::limits::REGIONS {
            return Err("shards must be at most 240 where there is a fabric".into());
        }
        if self.threads > 256 {
            return Err("threads must be at most 256".into());
        }
        if self.max_bulk.0 < 1 << 20 || self.max_bulk.0 > 1 << 30 {
            return Err("proto-max-bulk-len must be between 1mb and 1gb".into());
        }
        if self.query_limit.0 < 1 << 20 || self.query_limit.0 > 4 << 30 {
            return Err("client-query-buffer-limit must be between 1mb and 4gb".into());
        }
        Ok(())
    }

    /// Reads the text of a `kintsugi.toml`.
    pub fn merge_toml(&mut self, text: &str) -> Result<(), String> {
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| e.to_string())?;
        for (name, value) in table {
            let value = match value {
                toml::Value::String(s) => s,
                toml::Value::Integer(n) => n.to_string(),
                toml::Value::Boolean(b) => b.show(),
                other => return Err(format!("{name}: a string or a number, not {}", other.type_str())),
            };
            self.set(&name, &value)?;
        }
        Ok(())
    }

    /// Writes a `kintsugi.toml` with these values and all comments.
    pub fn to_toml(&self) -> String {
        let mut out = String::from(HEAD);
        for s in SETTINGS {
            out.push('\n');
            for line in s.doc.lines() {
                let _ = writeln!(out, "#{line}");
            }
            let flags = if s.runtime { " CONFIG SET changes it." } else { "" };
            let variable = variable(s.name);
            let _ = writeln!(out, "# Flag --{}, variable {variable}.{flags}", s.name);
            let value = (s.show)(self);
            let _ = if s.quoted {
                writeln!(out, "{} = {value:?}", s.name)
            } else {
                writeln!(out, "{} = {value}", s.name)
            };
        }
        out
    }

    /// Threads to start: as set, or one a core; never more than shards.
    pub fn thread_count(&self) -> usize {
        let n = match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        n.clamp(1, self.shards)
    }

    /// What one shard may use of [`Config::maxmemory`]; `None` for no limit.
    pub fn memory_per_shard(&self) -> Option<u64> {
        (self.maxmemory.0 > 0).then(|| (self.maxmemory.0 / self.shards as u64).max(1))
    }
}

const HEAD: &str = "# Kintsugi's settings, with their defaults. This file is the manual: `kintsugi serve --print-config` writes it.
# Kintsugi reads the file that `--config FILE` or the variable KINTSUGI_CONFIG names, else `kintsugi.toml` in the
# working directory if there is one. Environment variables win over the file, flags over both.
";

/// The setting of this name.
pub fn setting(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|s| s.name == name)
}

/// The environment variable of a setting.
pub fn variable(name: &str) -> String {
    format!("KINTSUGI_{}", name.to_ascii_uppercase().replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_file_reads_back_as_what_was_printed() {
        let mut c = Config::default();
        c.set("maxmemory", "100mb").unwrap();
        c.set("isolation", "hybrid").unwrap();
        let mut back = Config::default();
        back.merge_toml(&c.to_toml()).unwrap();
        assert_eq!(back, c);
        assert_eq!(back.maxmemory, Bytes(100 << 20));
    }

    #[test]
    fn a_bad_value_leaves_the_setting_and_names_it() {
        let mut c = Config::default();
        let why = c.set("shards", "0").unwrap_err();
        assert!(why.contains("shards"), "{why}");
        assert_eq!(c, Config::default());
        assert!(c.merge_toml("no-such = 1").is_err());
    }

    #[test]
    fn the_file_in_the_repository_is_the_printed_one() {
        let file = include_str!("../../../kintsugi.toml");
        assert_eq!(file, Config::default().to_toml(), "run: kintsugi serve --print-config > kintsugi.toml");
    }
}
