//! MULTI, EXEC, WATCH, and commands whose keys are on several shards.
//!
//! Where all shards belong to this thread and nothing is in the way, everything happens in this turn, without a message
//! ([`commit_local`]). Otherwise it is a transaction, for whose end the connection waits.
//! A command over all shards inside of MULTI (FLUSHALL, KEYS …) splits EXEC: what stands before it and what stands after it
//! are transactions of their own.
use crate::{
    all::{AllKind, AllPart},
    conn::Conn,
    dispatch::{Flow, each_key},
    registry::Entry,
    txn::{Exec, Queued, Step, Then},
    worker::Worker,
};
use kintsugidb_engine::{Class, Flags, KeySpec, Route, fingerprint};
use kintsugidb_ramp::{
    Request,
    participant::{Executed, LocalOp, commit_local},
};
use kintsugidb_wire::{OwnedArgs, Reply, slot};
use std::sync::{Arc, atomic::Ordering};

/// Keys whose memory is fetched together: more would push each other out of the first-level cache.
const PREFETCH: usize = 32;

/// Where a key of a command lives.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    shard: usize,
    /// The shard's index among those of its thread; means something only if that is this thread.
    place: usize,
    fingerprint: u64,
}

impl Worker {
    /// Runs a command whose keys are on several shards.
    pub fn run_multiple(&mut self, conn: &mut Conn, entry: &'static Entry, args: &[&[u8]]) -> Flow {
        if entry.command.route == Route::Split && self.run_split_here(conn, entry, args) {
            return Flow::Taken;
        }
        if self.read_outside(conn, entry, args) {
            return Flow::Taken;
        }
        if conn.is_waiting() {
            return Flow::Later;
        }
        if entry.command.flags.has(Flags::DENYOOM) && self.is_full(entry, args) {
            conn.out.error(&kintsugidb_engine::Error::OutOfMemory.to_string());
            return Flow::Taken;
        }
        let requests = vec![Request::Command(entry.command, OwnedArgs::new(args))];
        self.start_for(conn, requests, Then::Answer);
        Flow::Taken
    }

    /// Runs MSET, MGET, DEL and the like in this turn if all shards are this thread's and nothing is in the way.
    fn run_split_here(&mut self, conn: &mut Conn, entry: &'static Entry, args: &[&[u8]]) -> bool {
        let KeySpec::Range { first, step, .. } = entry.command.keys else { return false };
        let (mut here, threads, shards) =
            (!conn.session.has_proofs(), self.shared.threads(), self.config.shards);
        let mut targets = std::mem::take(&mut self.targets);
        targets.clear();
        each_key(entry, args, |key| {
            let shard = usize::from(slot(key)) % shards;
            here &= shard % threads == self.me;
            targets.push(Target { shard, place: self.owner.place(shard), fingerprint: fingerprint(key) });
        });
        let done = self.run_split_at(conn, entry, args, &targets, here, (first, step));
        self.targets = targets;
        done
    }

    fn run_split_at(
        &mut self,
        conn: &mut Conn,
        entry: &'static Entry,
        args: &[&[u8]],
        targets: &[Target],
        here: bool,
        (first, step): (usize, usize),
    ) -> bool {
        if !here || first != 1 || !(1..=2).contains(&step) || !(args.len() - 1).is_multiple_of(step) {
            return false;
        }
        let start = conn.out.len();
        let merge = Merge::of(entry.command.name);
        let begun = merge.begin(&mut conn.out, (args.len() - 1) / step);
        let done = if entry.command.class == Class::Read {
            self.read_split_here(conn, entry, args, targets, &merge)
        } else if entry.command.flags.has(Flags::DENYOOM) && self.is_full(entry, args) {
            false
        } else {
            self.write_split_here(conn, entry, args, targets, step)
        };
        if done {
            merge.end(&mut conn.out, start, begun);
            self.stats().transactions.add(1);
            self.stats().local_transactions.add(1);
        } else {
            conn.out.truncate(start);
        }
        done
    }

    /// Fetches what the keys need from memory, all misses side by side: first the buckets, then the cells they lead to.
    fn prefetch(&self, targets: &[Target]) {
        for t in targets {
            self.owner.parts[t.place].shard.prefetch(t.fingerprint);
        }
        for t in targets {
            self.owner.parts[t.place].shard.prefetch_cell(t.fingerprint);
        }
    }

    fn read_split_here(
        &mut self,
        conn: &mut Conn,
        entry: &'static Entry,
        args: &[&[u8]],
        targets: &[Target],
        merge: &Merge,
    ) -> bool {
        if targets.iter().any(|t| self.owner.parts[t.place].has_pending(t.fingerprint)) {
            return false;
        }
        for (keys, targets) in args[1..].chunks(PREFETCH).zip(targets.chunks(PREFETCH)) {
            self.prefetch(targets);
            for (key, target) in keys.iter().zip(targets) {
                let before = conn.out.len();
                let one = [args[0], *key];
                let (session, out) = (&mut conn.session, &mut conn.out);
                if self.owner.execute(target.shard, entry.command, &one, session, out) == Executed::MustWait {
                    return false;
                }
                merge.one(&mut conn.out, before);
            }
        }
        true
    }

    fn write_split_here(
        &mut self,
        conn: &mut Conn,
        entry: &'static Entry,
        args: &[&[u8]],
        targets: &[Target],
        step: usize,
    ) -> bool {
        self.prefetch(&targets[..targets.len().min(PREFETCH)]);
        let single: Vec<[&[u8]; 3]> = args[1..]
            .chunks_exact(step)
            .map(|c| [args[0], c[0], c.get(1).copied().unwrap_or_default()])
            .collect();
        let ops: Vec<LocalOp<'_>> = single
            .iter()
            .zip(targets)
            .map(|(a, t)| LocalOp {
                at: t.place,
                command: entry.command,
                args: &a[..=step],
                key: a[1],
                fingerprint: t.fingerprint,
            })
            .collect();
        let clock = conn.session.clock();
        match commit_local(&mut self.owner.parts, &ops, clock, self.owner.now_us, &mut conn.out) {
            Some(c) => {
                conn.session.see(c);
                true
            }
            None => false,
        }
    }

    /// WATCH.
    pub fn watch(&mut self, conn: &mut Conn, keys: &[&[u8]]) -> Flow {
        if conn.is_waiting() {
            return Flow::Later;
        }
        let new = keys.iter().filter(|k| !conn.session.is_watched(k));
        let requests: Vec<_> = new.map(|k| Request::Watch(k.to_vec())).collect();
        if requests.is_empty() {
            conn.out.ok();
        } else {
            self.start_for(conn, requests, Then::Watched);
        }
        Flow::Taken
    }

    /// EXEC.
    pub fn exec(&mut self, conn: &mut Conn) -> Flow {
        if !conn.multi.is_open {
            conn.out.error("ERR EXEC without MULTI");
            return Flow::Taken;
        }
        if self.exec_here(conn) {
            return Flow::Taken;
        }
        if conn.is_waiting() {
            return Flow::Later;
        }
        let multi = conn.multi.take();
        conn.card.queued.store(0, Ordering::Relaxed);
        if multi.is_broken {
            conn.unwatch();
            conn.out.error("EXECABORT Transaction discarded because of previous errors.");
            return Flow::Taken;
        }
        let mut replies = Reply::new(conn.out.proto());
        replies.array(multi.commands.len());
        let steps = self.steps(conn, multi.commands);
        self.continue_exec(conn, Box::new(Exec { steps, replies }));
        Flow::Taken
    }

    /// Runs EXEC in this turn if all shards are this thread's, every command has one key, and nothing is watched or in the way.
    fn exec_here(&mut self, conn: &mut Conn) -> bool {
        let (threads, shards) = (self.shared.threads(), self.config.shards);
        let simple = |q: &Queued| {
            let is_one_key = q.entry.command.route == Route::Single
                && matches!(q.entry.command.keys, KeySpec::Range { first: 1, last: 1, .. });
            is_one_key && q.args.arg(1).is_some_and(|k| usize::from(slot(k)) % shards % threads == self.me)
        };
        let watching = !conn.session.watches().is_empty() || conn.session.has_proofs();
        if conn.multi.is_broken || watching || conn.multi.commands.is_empty() {
            return false;
        }
        if !conn.multi.commands.iter().all(simple) {
            return false;
        }
        let args: Vec<Vec<&[u8]>> = conn.multi.commands.iter().map(|q| q.args.to_vec()).collect();
        let ops: Vec<LocalOp<'_>> = conn
            .multi
            .commands
            .iter()
            .zip(&args)
            .map(|(q, args)| LocalOp {
                at: self.owner.place(usize::from(slot(args[1])) % shards),
                command: q.entry.command,
                args,
                key: args[1],
                fingerprint: fingerprint(args[1]),
            })
            .collect();
        let start = conn.out.len();
        conn.out.array(ops.len());
        let clock = conn.session.clock();
        match commit_local(&mut self.owner.parts, &ops, clock, self.owner.now_us, &mut conn.out) {
            Some(c) => {
                conn.session.see(c);
                conn.multi.take();
                conn.card.queued.store(0, Ordering::Relaxed);
                self.stats().transactions.add(1);
                self.stats().local_transactions.add(1);
                true
            }
            None => {
                conn.out.truncate(start);
                false
            }
        }
    }

    /// Groups what was queued. What the front end answers is answered here.
    fn steps(&mut self, conn: &mut Conn, commands: Vec<Queued>) -> std::collections::VecDeque<Step> {
        let mut steps = std::collections::VecDeque::from([Step::Group(Vec::new())]);
        for q in commands {
            if q.entry.command.route == Route::All || q.entry.all == AllKind::Figures {
                steps.push_back(Step::All(q));
                steps.push_back(Step::Group(Vec::new()));
                continue;
            }
            let args = q.args.to_vec();
            let has_keys = q.entry.command.route != Route::Front && each_key(q.entry, &args, |_| {});
            let request = if has_keys {
                drop(args);
                Request::Command(q.entry.command, q.args)
            } else {
                Request::Ready(self.answer_apart(conn, q.entry, &args))
            };
            if let Some(Step::Group(group)) = steps.back_mut() {
                group.push(request);
            }
        }
        steps
    }

    /// Runs a command that needs no shard (or does not say which), its reply apart from the connection's.
    fn answer_apart(&mut self, conn: &mut Conn, entry: &'static Entry, args: &[&[u8]]) -> Vec<u8> {
        let apart = Reply::new(conn.out.proto());
        let kept = std::mem::replace(&mut conn.out, apart);
        self.run_command(conn, entry, args);
        let reply = std::mem::replace(&mut conn.out, kept);
        conn.out.set_proto(reply.proto());
        reply.into_bytes()
    }

    /// Goes on with EXEC until it has to wait, or is done.
    pub fn continue_exec(&mut self, conn: &mut Conn, mut exec: Box<Exec>) {
        loop {
            match exec.steps.pop_front() {
                None => return conn.out.raw(exec.replies.bytes()),
                Some(Step::All(q)) => {
                    return self.start_all(conn, q.entry, Arc::new(q.args), Then::Exec(exec));
                }
                Some(Step::Group(group)) if group.is_empty() && conn.session.watches().is_empty() => {}
                Some(Step::Group(group)) => return self.start_for(conn, group, Then::Exec(exec)),
            }
        }
    }

    /// All threads have answered.
    pub fn finish_all(&mut self, conn: &mut Conn, entry: &'static Entry, part: &AllPart, then: Then) {
        let mut reply = Reply::new(conn.out.proto());
        if entry.all == AllKind::Figures {
            self.write_info(conn, part, &mut reply);
        } else {
            part.write(entry.all, &mut reply);
        }
        match then {
            Then::Answer | Then::Watched => conn.out.raw(reply.bytes()),
            Then::Exec(mut exec) => {
                exec.replies.raw(reply.bytes());
                self.continue_exec(conn, exec);
            }
        }
    }
}

/// How the replies of one key each become the reply of the command.
enum Merge {
    Ok,
    Sum,
    Array,
}

impl Merge {
    fn of(name: &str) -> Self {
        match name {
            "mset" => Self::Ok,
            "mget" => Self::Array,
            _ => Self::Sum,
        }
    }

    /// Where the replies of single keys begin.
    fn begin(&self, out: &mut Reply, keys: usize) -> usize {
        if matches!(self, Self::Array) {
            out.array(keys);
        }
        out.len()
    }

    /// After the reply of one key that begins at `at`: an array of one becomes its element.
    fn one(&self, out: &mut Reply, at: usize) {
        if matches!(self, Self::Array) && out.bytes()[at..].starts_with(b"*1\r\n") {
            out.buffer().drain(at..at + 4);
        }
    }

    fn end(&self, out: &mut Reply, start: usize, begun: usize) {
        let replies = &out.bytes()[begun..];
        let error = replies.starts_with(b"-").then(|| {
            let end = replies.windows(2).position(|w| w == b"\r\n").map_or(replies.len(), |n| n + 2);
            replies[..end].to_vec()
        });
        match self {
            Self::Array => {}
            Self::Ok | Self::Sum if error.is_some() => {
                out.truncate(start);
                out.raw(&error.unwrap_or_default());
            }
            Self::Ok => {
                out.truncate(start);
                out.ok();
            }
            Self::Sum => {
                let lines = replies.split(|&b| b == b'\n');
                let number =
                    |l: &[u8]| std::str::from_utf8(l).ok()?.strip_prefix(':')?.trim_end().parse::<i64>().ok();
                let sum = lines.filter_map(number).sum();
                out.truncate(start);
                out.int(sum);
            }
        }
    }
}
