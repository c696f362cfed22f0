//! INFO.
use crate::{
    REDIS_VERSION,
    all::AllPart,
    config::SettingValue as _,
    conn::Conn,
    dispatch::Flow,
    registry,
    stats::{Counter, Stats},
    txn::Then,
    worker::Worker,
};
use kintsugidb_wire::{OwnedArgs, Reply};
use std::{fmt::Write as _, sync::Arc, sync::atomic::Ordering::Relaxed};

/// Asks all shards for figures; [`Worker::write_info`] writes them.
pub(super) fn info(w: &mut Worker, c: &mut Conn, args: &[&[u8]]) -> Flow {
    if c.is_waiting() {
        return Flow::Later;
    }
    if let Some(entry) = registry::find(b"info") {
        let sections = args[1..].iter().map(|a| super::text(a).to_ascii_lowercase()).collect();
        c.info_sections = sections;
        w.start_all(c, entry, Arc::new(OwnedArgs::new(args)), Then::Answer);
    }
    Flow::Taken
}

const SECTIONS: [&str; 8] =
    ["server", "clients", "memory", "persistence", "stats", "kintsugi", "cpu", "keyspace"];

impl Worker {
    /// Writes the sections that were asked for.
    pub fn write_info(&mut self, conn: &mut Conn, part: &AllPart, out: &mut Reply) {
        let asked = std::mem::take(&mut conn.info_sections);
        let all =
            asked.is_empty() || asked.iter().any(|s| matches!(s.as_str(), "all" | "everything" | "default"));
        let mut text = String::new();
        for section in SECTIONS {
            if all || asked.iter().any(|s| s == section) {
                if !text.is_empty() {
                    text.push_str("\r\n");
                }
                self.section(section, part, &mut text);
            }
        }
        out.verbatim(&text);
    }

    fn total(&self, counter: impl Fn(&Stats) -> &Counter) -> u64 {
        self.shared.stats.iter().map(|s| counter(s).value()).sum()
    }

    fn section(&self, section: &str, part: &AllPart, out: &mut String) {
        let mut line = |name: &str, value: &dyn std::fmt::Display| {
            let _ = write!(out, "{name}:{value}\r\n");
        };
        let used: u64 = part.figures.iter().map(|f| f.used_bytes).sum();
        match section {
            "server" => {
                line("# Server\r\nredis_version", &REDIS_VERSION);
                line("kintsugi_version", &env!("CARGO_PKG_VERSION"));
                line("redis_mode", &"standalone");
                line("os", &std::env::consts::OS);
                line("arch_bits", &usize::BITS);
                line("multiplexing_api", &"epoll");
                line("process_id", &std::process::id());
                line("run_id", &self.shared.run_id);
                line("tcp_port", &self.shared.tcp_port);
                let up = self.shared.started.elapsed().as_secs();
                line("uptime_in_seconds", &up);
                line("uptime_in_days", &(up / 86_400));
                line("threads", &self.shared.threads());
                line("shards", &self.config.shards);
            }
            "clients" => {
                line("# Clients\r\nconnected_clients", &self.shared.clients.len());
                line("maxclients", &self.config.maxclients);
                line("blocked_clients", &0);
                let cards = self.shared.clients.all();
                let watching = cards.iter().filter(|c| c.watching.load(Relaxed) > 0).count();
                line("watching_clients", &watching);
            }
            "memory" => {
                let resident = resident_bytes().unwrap_or(0);
                line("# Memory\r\nused_memory", &used);
                line("used_memory_human", &format!("{:.2}M", used as f64 / f64::from(1 << 20)));
                line("used_memory_rss", &resident);
                line("used_memory_dataset", &used);
                line("maxmemory", &self.config.maxmemory.0);
                line("maxmemory_policy", &"noeviction");
                line("mem_clients_normal", &0);
            }
            "persistence" => {
                line("# Persistence\r\nloading", &0);
                line("rdb_bgsave_in_progress", &0);
                line("aof_enabled", &0);
                line("aof_rewrite_in_progress", &0);
            }
            "stats" => {
                line("# Stats\r\ntotal_connections_received", &self.total(|s| &s.connections));
                line("total_commands_processed", &self.total(|s| &s.commands));
                line("total_net_input_bytes", &self.total(|s| &s.bytes_in));
                line("total_net_output_bytes", &self.total(|s| &s.bytes_out));
                line("rejected_connections", &self.total(|s| &s.rejected));
                line("evicted_keys", &0);
                line("total_error_replies", &self.total(|s| &s.errors));
                line("protocol_errors", &self.total(|s| &s.protocol_errors));
                line("internal_errors", &self.total(|s| &s.panics));
            }
            "kintsugi" => {
                line("# Kintsugi\r\nisolation", &self.config.isolation.show());
                line("calls_sent", &self.total(|s| &s.sent));
                line("calls_served", &self.total(|s| &s.served));
                line("one_sided_reads", &self.total(|s| &s.one_sided));
                line("one_sided_retries", &self.total(|s| &s.one_sided_retries));
                line("one_sided_fallbacks", &self.total(|s| &s.one_sided_fallbacks));
                line("one_sided_fractures", &self.total(|s| &s.fractures));
                line("one_sided_prepared", &self.total(|s| &s.one_sided_prepared));
                line("transactions", &self.total(|s| &s.transactions));
                line("transactions_local", &self.total(|s| &s.local_transactions));
                line("transactions_open", &self.total(|s| &s.open));
                line("transactions_recent", &self.total(|s| &s.recent));
                line("reservations_waiting", &self.total(|s| &s.waiting));
                line("hot_keys", &self.total(|s| &s.hot));
                line("native_messages", &self.total(|s| &s.native_messages));
                line("native_orphans", &self.total(|s| &s.native_orphans));
                line("watch_failures", &self.total(|s| &s.watch_failures));
            }
            "cpu" => {
                let (user, system) = cpu_seconds().unwrap_or_default();
                line("# CPU\r\nused_cpu_sys", &format!("{system:.6}"));
                line("used_cpu_user", &format!("{user:.6}"));
            }
            _ => {
                let keys: u64 = part.figures.iter().map(|f| f.keys).sum();
                let expires: u64 = part.figures.iter().map(|f| f.expires).sum();
                out.push_str("# Keyspace\r\n");
                if keys > 0 {
                    let _ = write!(out, "db0:keys={keys},expires={expires},avg_ttl=0\r\n");
                }
            }
        }
    }
}

/// Bytes of memory that the process has, as the system counts them.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Seconds of processor time, user's and system's, of all threads.
fn cpu_seconds() -> Option<(f64, f64)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user / ticks, system / ticks))
}
