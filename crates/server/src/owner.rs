//! The shards that a thread owns: running commands on them.
use kintsugidb_engine::{Call, Command, Flags, Route, Shard, Version};
use kintsugidb_wire::Reply;

pub(crate) struct Owner {
    shards: Vec<Shard>,
    threads: usize,
    total: usize,
    clock: u64,
    pub memory_limit: Option<u64>,
}

impl Owner {
    /// The shards `me`, `me + threads` … of `total`.
    pub fn new(me: usize, threads: usize, total: usize, seed: u64) -> Self {
        let shards = (me..total)
            .step_by(threads)
            .map(|s| Shard::new(seed.wrapping_add(s as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)))
            .collect();
        Self { shards, threads, total, clock: 0, memory_limit: None }
    }

    pub fn set_now(&mut self, now_ms: u64) {
        for s in &mut self.shards {
            s.now_ms = now_ms;
        }
    }

    /// Runs a command on one shard (named by its global number) and writes its reply or its error.
    pub fn run(&mut self, shard: usize, command: &Command, args: &[&[u8]], out: &mut Reply) -> bool {
        self.clock += 1;
        let clock = self.clock;
        let (total, limit) = (self.total, self.memory_limit);
        let s = &mut self.shards[shard / self.threads];
        s.begin_write(Version { ts: clock, seq: 0 });
        let _ = (limit, command.flags.has(Flags::DENYOOM));
        let before = out.len();
        match (command.run)(&mut Call { shard: s, args, out }) {
            Ok(()) => {
                if command.route == Route::All && command.name == "scan" {
                    crate::all::globalise_cursor(out, before, shard, total);
                }
                true
            }
            Err(e) => {
                out.truncate(before);
                out.error(&e.to_string());
                false
            }
        }
    }

    /// Whether this thread's share of the memory limit is used up.
    pub fn is_full(&self) -> bool {
        false
    }

    /// The shards with their global numbers.
    pub fn shards(&mut self, me: usize) -> impl Iterator<Item = (usize, &mut Shard)> {
        let threads = self.threads;
        self.shards.iter_mut().enumerate().map(move |(i, s)| (me + i * threads, s))
    }
}
