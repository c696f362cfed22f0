//! The shards that a thread owns, each with what its owner knows of transactions.
use crate::Config;
use kintsugidb_arena::Config as Region;
use kintsugidb_engine::{Command, Route, Shard};
use kintsugidb_ramp::{
    Participant, PreparedVersions, Session,
    message::{Message, Node, Outbox, Proof, Seen},
    participant::{Carried, Executed},
};
use kintsugidb_wire::Reply;

pub(crate) struct Owner {
    /// Shard `me + i * threads` at place i.
    pub parts: Vec<Participant>,
    threads: usize,
    total: usize,
    pub now_us: u64,
    /// The highest timestamp that calls of other threads' connections have met here.
    clock: u64,
    /// What the participant that worked last wants sent.
    pub out: Outbox,
    /// What others want sent, with their names.
    pub more: Vec<(Node, Node, Message)>,
}

/// What the transaction layer is told of the settings.
pub(crate) fn ramp_config(config: &Config, threads: usize) -> kintsugidb_ramp::Config {
    kintsugidb_ramp::Config {
        isolation: config.isolation,
        window_us: config.window_ms.max(1) * 1000,
        prepared_timeout_us: config.orphan_ms.max(1) * 1000,
        readers_elsewhere: threads > 1 || !config.fabric.is_empty(),
        // Threads of this process ask an owner as soon as they wait.
        prepared: if config.fabric.is_empty() { PreparedVersions::Hidden } else { config.prepared_versions },
        // Within a process no message is lost: what is not answered is being worked on, or its thread is gone.
        resend_us: 10_000_000,
        reserved_timeout_us: 10_000_000,
        // Longer than a thread of a busy machine is kept from running; what is older is refused, its outcome unknown.
        horizon_us: 6_000_000,
        ..kintsugidb_ramp::Config::default()
    }
}

impl Owner {
    /// The shards `me`, `me + threads` … of all.
    pub fn new(
        me: usize,
        threads: usize,
        config: &Config,
        seed: u64,
    ) -> Result<Self, kintsugidb_arena::Error> {
        let ramp = ramp_config(config, threads);
        let parts = (me..config.shards).step_by(threads).map(|id| {
            let region = Region {
                shard: id as u16,
                grace_ms: config.grace_ms,
                reserve_bytes: config.region_size.0,
                ..Region::default()
            };
            let seed = seed.wrapping_add(id as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let shard = Shard::create(seed, region)?;
            Ok::<_, kintsugidb_arena::Error>(Participant::new(id as u16, shard, ramp.clone()))
        });
        let parts = parts.collect::<Result<_, _>>()?;
        Ok(Self {
            parts,
            threads,
            total: config.shards,
            now_us: 0,
            clock: 0,
            out: Outbox::new(),
            more: Vec::new(),
        })
    }

    /// Where a shard of this thread, named by its number, is in `parts`.
    pub fn place(&self, shard: usize) -> usize {
        shard / self.threads
    }

    /// Number of all shards.
    pub fn total(&self) -> usize {
        self.total
    }

    /// What each shard may use; `None` for no limit.
    pub fn set_memory_limit(&mut self, bytes: Option<u64>) {
        for p in &mut self.parts {
            p.shard.set_memory_limit(bytes.map_or(0, |b| b as usize));
        }
    }

    /// The time by which expiry is judged.
    pub fn set_now(&mut self, now_us: u64) {
        self.now_us = now_us;
        for p in &mut self.parts {
            p.shard.now_ms = now_us / 1000;
        }
    }

    /// Runs a command on one shard of this thread and writes its reply or its error, unless it has to wait.
    pub fn execute(
        &mut self,
        shard: usize,
        command: &'static Command,
        args: &[&[u8]],
        session: &mut Session,
        reply: &mut Reply,
    ) -> Executed {
        let at = reply.len();
        let place = self.place(shard);
        let done = self.parts[place].execute_one(command, args, session, self.now_us, reply, &mut self.out);
        if command.route == Route::All && command.name == "scan" {
            crate::all::globalise_cursor(reply, at, shard, self.total);
        }
        done
    }

    /// Tells the other shards of this thread of transactions that one has shown to a connection.
    fn tell(&mut self, from: usize, seen: &[Seen]) {
        for s in seen.iter().filter(|s| !s.stable) {
            let proof = Proof { txn: s.info.id, c: s.c };
            for shard in s.info.participants.iter().map(|s| usize::from(*s)) {
                if shard != from && shard % self.threads == from % self.threads {
                    let place = self.place(shard);
                    let mut out = Outbox::new();
                    self.parts[place].learn(&[proof], &mut out);
                    let from = Node::Shard(shard as u16);
                    self.more.extend(out.into_iter().map(|(to, message)| (from, to, message)));
                }
            }
        }
    }

    /// The same for a connection of another thread.
    pub fn execute_for(
        &mut self,
        shard: usize,
        command: &'static Command,
        args: &[&[u8]],
        carried: Carried<'_>,
        reply: &mut Reply,
        seen: &mut Vec<Seen>,
    ) -> Executed {
        let at = reply.len();
        let place = self.place(shard);
        let p = &mut self.parts[place];
        // Calls of one pipeline are sent before the replies of those before them have come back: what a shard of this thread
        // has told the connection, the next one has to know as well.
        let carried = Carried { clock: carried.clock.max(self.clock), ..carried };
        let done = p.execute_carried(command, args, carried, self.now_us, reply, seen, &mut self.out);
        self.clock = p.clock();
        self.tell(shard, seen);
        if command.route == Route::All && command.name == "scan" {
            crate::all::globalise_cursor(reply, at, shard, self.total);
        }
        done
    }
}
