//! Transactions: MULTI, EXEC, DISCARD, WATCH, and commands whose keys are on several shards.
use crate::{
    all::{AllKind, AllPart},
    conn::Conn,
    dispatch::{Flow, each_key},
    letter::Letter,
    registry::Entry,
    txn::{Exec, Pending, Queued, Then},
    worker::Worker,
};
use kintsugidb_engine::Route;
use kintsugidb_wire::{Proto, Reply, slot};
use std::sync::{Arc, atomic::Ordering};

/// What has to be done atomically.
pub(crate) enum Multiple {
    /// One command with several keys.
    Command(Queued),
}

impl Worker {
    /// Runs what concerns several shards.
    pub fn run_multiple(&mut self, conn: &mut Conn, what: Multiple) -> Flow {
        if conn.is_waiting() {
            return Flow::Later;
        }
        let Multiple::Command(q) = what;
        conn.out.error(&format!("ERR '{}' over several shards is not there yet", q.entry.command.name));
        Flow::Taken
    }

    /// EXEC.
    pub fn exec(&mut self, conn: &mut Conn) -> Flow {
        if !conn.multi.is_open {
            conn.out.error("ERR EXEC without MULTI");
            return Flow::Taken;
        }
        if conn.is_waiting() {
            return Flow::Later;
        }
        let multi = conn.multi.take();
        conn.card.queued.store(0, Ordering::Relaxed);
        if multi.is_broken {
            conn.out.error("EXECABORT Transaction discarded because of previous errors.");
            return Flow::Taken;
        }
        let mut replies = Reply::new(conn.out.proto());
        replies.array(multi.commands.len());
        self.continue_exec(conn, Box::new(Exec { commands: multi.commands.into_iter(), replies }));
        Flow::Taken
    }

    /// Goes on with EXEC until it has to wait, or is done.
    fn continue_exec(&mut self, conn: &mut Conn, mut exec: Box<Exec>) {
        loop {
            match exec.commands.as_slice().first() {
                None => {
                    conn.out.raw(exec.replies.bytes());
                    return;
                }
                Some(q) if is_over_all(q.entry) => {
                    if let Some(q) = exec.commands.next() {
                        return self.start_all(conn, q.entry, Arc::new(q.args), Then::Exec(exec));
                    }
                }
                Some(q) if q.entry.command.route == Route::Front => {
                    if let Some(q) = exec.commands.next() {
                        self.front_in_exec(conn, &q, &mut exec.replies);
                    }
                }
                Some(_) => {
                    let group: Vec<Queued> = std::iter::from_fn(|| {
                        let next = exec.commands.as_slice().first()?;
                        let on_keys = next.entry.command.route != Route::Front && !is_over_all(next.entry);
                        if on_keys { exec.commands.next() } else { None }
                    })
                    .collect();
                    match self.one_shard(&group) {
                        None => {
                            conn.out.error("ERR a transaction over several shards is not there yet");
                            return;
                        }
                        Some(shard) if self.thread_of(shard) == self.me => {
                            let replies = self.run_batch(shard, conn.out.proto(), &group);
                            exec.replies.raw(&replies);
                        }
                        Some(shard) => {
                            let proto = conn.out.proto();
                            conn.pending = Some(Pending::Run { then: Then::Exec(exec) });
                            let thread = self.thread_of(shard);
                            self.post(
                                thread,
                                Letter::Run { token: conn.token, shard, proto, commands: group },
                            );
                            return;
                        }
                    }
                }
            }
        }
    }

    /// WATCH.
    pub fn watch(&mut self, conn: &mut Conn, _keys: &[&[u8]]) -> Flow {
        conn.out.error("ERR WATCH is not there yet");
        Flow::Taken
    }

    fn one_shard(&self, group: &[Queued]) -> Option<usize> {
        let (mut shard, mut same) = (None, true);
        for q in group {
            each_key(q.entry, &q.args.to_vec(), |key| {
                let s = usize::from(slot(key)) % self.config.shards;
                same &= *shard.get_or_insert(s) == s;
            });
        }
        same.then_some(shard.unwrap_or(self.me))
    }

    /// Runs commands on one shard of this thread, one after the other; their replies.
    pub fn run_batch(&mut self, shard: usize, proto: Proto, commands: &[Queued]) -> Vec<u8> {
        let mut out = Reply::new(proto);
        for q in commands {
            self.owner.run(shard, q.entry.command, &q.args.to_vec(), &mut out);
        }
        out.into_bytes()
    }

    fn front_in_exec(&mut self, conn: &mut Conn, q: &Queued, replies: &mut Reply) {
        replies.set_proto(conn.out.proto());
        let kept = std::mem::replace(&mut conn.out, std::mem::take(replies));
        self.run_command(conn, q.entry, &q.args.to_vec());
        *replies = std::mem::replace(&mut conn.out, kept);
        conn.out.set_proto(replies.proto());
    }

    /// All threads have answered.
    pub fn finish_all(&mut self, conn: &mut Conn, entry: &'static Entry, part: &AllPart, then: Then) {
        let mut reply = Reply::new(conn.out.proto());
        if entry.all == AllKind::Figures {
            self.write_info(conn, part, &mut reply);
        } else {
            part.write(entry.all, &mut reply);
        }
        self.continue_after(conn, reply.bytes(), then);
    }

    /// What a connection waited for is there.
    pub fn continue_after(&mut self, conn: &mut Conn, replies: &[u8], then: Then) {
        match then {
            Then::Answer => conn.out.raw(replies),
            Then::Exec(mut exec) => {
                exec.replies.raw(replies);
                self.continue_exec(conn, exec);
            }
        }
    }
}

fn is_over_all(entry: &Entry) -> bool {
    entry.command.route == Route::All && entry.command.name != "scan" || entry.all == AllKind::Figures
}
