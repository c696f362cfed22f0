//! Commands whose keys all live here: one turn of the owner, no messages (PROTOCOL rules 5, 6, 9).
//!
//! A key on which nothing goes on costs one look at an empty table. A single-key read-modify-write on a key with pending blind
//! writes commits just above what it read, so that it sorts before them. Several keys or commands in one turn are a
//! transaction within the shard: if one of them looks at a key on which something is pending, all wait for its end.
use super::{Participant, State, Waiting};
use crate::{
    Fault, Session, TxnId,
    message::{Batch, Body, Lock, Node, Outbox, Proof, ReadAnswer, Refusal, Seen, Work},
};
use kintsugidb_engine::{Call, Class, Command, KeySpec, Version, fingerprint};
use kintsugidb_wire::Reply;
use std::sync::Arc;

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executed {
    /// The reply is written.
    Done,
    /// It has to wait for a reservation: send it as [`Body::Execute`], or give it to [`Participant::handle`] as such.
    MustWait,
}

/// What a connection carries to a shard (rule 2).
#[derive(Clone, Copy, Debug, Default)]
pub struct Carried<'a> {
    /// The highest timestamp that it has seen.
    pub clock: u64,
    /// Transactions that it has read from.
    pub proofs: Option<&'a [Proof]>,
}

impl Participant {
    /// Runs a command on keys of this shard at once, if nothing is in its way. Errors are replies.
    pub fn execute_one(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        session: &mut Session,
        now_us: u64,
        reply: &mut Reply,
        out: &mut Outbox,
    ) -> Executed {
        let proofs = session.proofs_for(self.id);
        let mut seen = Vec::new();
        let carried = Carried { clock: session.clock(), proofs: proofs.as_deref() };
        let executed = self.execute_carried(command, args, carried, now_us, reply, &mut seen, out);
        if let Some(proofs) = &proofs {
            session.confirm(self.id, proofs);
        }
        for s in &seen {
            session.saw(self.id, s);
        }
        if executed == Executed::Done {
            session.see(self.clock.last());
        }
        executed
    }

    /// The same for a connection that is elsewhere: what it carries comes with the command, and what it has to take
    /// note of (this shard's clock and `seen`) goes back with the reply.
    #[allow(clippy::too_many_arguments)]
    pub fn execute_carried(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        carried: Carried<'_>,
        now_us: u64,
        reply: &mut Reply,
        seen: &mut Vec<Seen>,
        out: &mut Outbox,
    ) -> Executed {
        self.set_now(now_us);
        self.see(carried.clock, carried.proofs, out);
        if command.class == Class::Read {
            self.run_command(command, args, reply);
            if !self.keys.is_empty() {
                for i in command.key_indexes(args) {
                    seen.extend(self.unstable_on(fingerprint(args[i])));
                }
            }
        } else if self.keys.is_empty() && is_single(command) {
            let ts = self.clock.next(self.now_us);
            self.shard.begin_write(Version { ts, seq: 0 });
            self.run_command(command, args, reply);
            #[cfg(any(test, feature = "sim"))]
            self.wrote.replace(Version { ts, seq: 0 });
        } else {
            let class = command.class_of(args);
            let keys: Vec<_> =
                command.key_indexes(args).into_iter().map(|i| (args[i], fingerprint(args[i]))).collect();
            if keys.iter().any(|(_, k)| self.is_in_the_way(*k, class, keys.len() > 1)) {
                return Executed::MustWait;
            }
            let fingerprints: Vec<_> = keys.iter().map(|(_, k)| *k).collect();
            if class != Class::Blind {
                seen.extend(fingerprints.iter().flat_map(|k| self.unstable_on(*k)));
            }
            let _version = self.begin(&fingerprints, class, keys.len() > 1);
            self.run_command(command, args, reply);
            self.end(keys.len() > 1);
            for (key, fingerprint) in keys {
                self.mark_again(key, fingerprint);
            }
            #[cfg(any(test, feature = "sim"))]
            {
                self.wrote = _version.or_else(|| self.shard.written_under());
            }
        }
        Executed::Done
    }

    /// Takes note of transactions that are committed (rule 15).
    pub fn learn(&mut self, proofs: &[Proof], out: &mut Outbox) {
        self.see(0, Some(proofs), out);
    }

    /// Whether a transaction is prepared, and not committed yet, that may write this key. If there is none on any
    /// of some keys of one thread, reading them in one turn of the thread is reading them atomically: what is committed at
    /// one of its shards is then committed at all.
    #[inline]
    pub fn has_pending(&self, fingerprint: u64) -> bool {
        !self.keys.is_empty() && self.keys.get(&fingerprint).is_some_and(|k| !k.pending.is_empty())
    }

    fn run_command(&mut self, command: &'static Command, args: &[&[u8]], reply: &mut Reply) {
        let start = reply.len();
        if let Err(e) = (command.run)(&mut Call { shard: &mut self.shard, args, out: reply }) {
            reply.truncate(start);
            reply.error(&e.to_string());
        }
    }

    /// Sets the version of the writes that follow, if they all have the same. `several`: they are a transaction within the shard.
    fn begin(&mut self, fingerprints: &[u64], class: Class, several: bool) -> Option<Version> {
        if several {
            let ts = self.clock.next(self.now_us);
            let siblings: &[u64] = if self.config.readers_elsewhere { fingerprints } else { &[] };
            let version = Version { ts, seq: 0 };
            self.shard.begin_txn(version, ts, siblings);
            return Some(version);
        }
        let lowest = fingerprints.iter().filter_map(|k| self.lowest_pending(*k)).min();
        match lowest {
            Some(p) if class != Class::Blind && !self.config.faults.has(Fault::FreshRmw) => {
                self.shard.begin_write_under(Version { ts: p - 1, seq: 1 });
                None
            }
            _ => {
                let version = Version { ts: self.clock.next(self.now_us), seq: 0 };
                self.shard.begin_write(version);
                Some(version)
            }
        }
    }

    fn end(&mut self, several: bool) {
        if several {
            let record = self.shard.end_txn();
            self.keep_record(record);
            self.shard.commit_seq(true);
        }
    }

    /// The lowest answer given to a transaction that is pending on this key.
    fn lowest_pending(&self, key: u64) -> Option<u64> {
        let pending = &self.keys.get(&key)?.pending;
        let p = |t: &TxnId| match self.txns.get(t)?.state {
            State::Prepared { p } => Some(p),
            _ => None,
        };
        pending.iter().filter_map(p).min()
    }

    /// Whether a command of this class on this key has to wait. `several`: it is part of a transaction within the shard.
    fn is_in_the_way(&self, key: u64, class: Class, several: bool) -> bool {
        class != Class::Read
            && self
                .keys
                .get(&key)
                .is_some_and(|k| k.is_reserved() || (several && class == Class::Rmw && !k.pending.is_empty()))
    }

    /// Transactions on this key that are committed here and not known to be committed everywhere.
    pub(super) fn unstable_on(&self, key: u64) -> Vec<Seen> {
        let Some(k) = self.keys.get(&key) else { return Vec::new() };
        k.recent.iter().filter_map(|t| self.seen(*t)).filter(|s| !s.stable).collect()
    }

    pub(super) fn seen(&self, txn: TxnId) -> Option<Seen> {
        let t = self.txns.get(&txn)?;
        match t.state {
            State::Committed { c, stable, .. } => Some(Seen { info: t.info.clone(), c, stable }),
            _ => None,
        }
    }

    pub(super) fn must_wait(&self, work: &Work) -> bool {
        let several = work.ops.len() > 1 || work.keys.len() > 1;
        // What is pending on a watched key may come before us: wait until it is known.
        let pending = |k: u64| self.keys.get(&k).is_some_and(|k| !k.pending.is_empty());
        if work.watches.iter().any(|w| pending(fingerprint(&w.key))) {
            return true;
        }
        work.keys.iter().any(|(k, lock)| {
            let class = match lock {
                Lock::Blind => Class::Blind,
                Lock::Shared => Class::Read,
                Lock::Exclusive => Class::Rmw,
            };
            self.is_in_the_way(k.fingerprint, class, several)
        })
    }

    pub(super) fn on_execute(&mut self, from: Node, batch: Arc<Batch>, out: &mut Outbox) {
        if !self.must_wait(&batch.work) {
            self.run_batch(from, &batch, out);
        } else if self.queue.len() < self.config.max_queue {
            self.queue.push_back(Waiting::Batch { batch, reply_to: from });
        } else {
            let refused = Some(Refusal::Busy);
            self.send(from, Body::Executed { replies: None, seen: Vec::new(), refused }, out);
        }
    }

    pub(super) fn run_batch(&mut self, to: Node, batch: &Batch, out: &mut Outbox) {
        let body = if batch.work.watches.iter().all(|w| self.is_unchanged(w)) {
            let replies = Some(self.run_here(to, &batch.work));
            let seen = batch.work.keys.iter().flat_map(|(k, _)| self.unstable_on(k.fingerprint)).collect();
            Body::Executed { replies, seen, refused: None }
        } else {
            Body::Executed { replies: None, seen: Vec::new(), refused: Some(Refusal::Changed) }
        };
        self.send(to, body, out);
    }

    /// Runs operations in one turn. Nothing is in their way.
    fn run_here(&mut self, to: Node, work: &Work) -> Vec<ReadAnswer> {
        let written: Vec<_> =
            work.keys.iter().filter(|(_, l)| *l != Lock::Shared).map(|(k, _)| k.fingerprint).collect();
        if written.is_empty() {
            return self.run_ops(work);
        }
        let several = work.ops.len() > 1 || work.keys.len() > 1;
        let rmw = work.keys.iter().any(|(_, l)| *l == Lock::Exclusive);
        let version = self.begin(&written, if rmw { Class::Rmw } else { Class::Blind }, several);
        let replies = self.run_ops(work);
        self.end(several);
        for (key, _) in &work.keys {
            self.mark_again(&key.bytes, key.fingerprint);
        }
        #[cfg(any(test, feature = "sim"))]
        if let Some(version) = version.or_else(|| self.shard.written_under()) {
            self.log.push(crate::sim::Logged::Executed(to, version));
        }
        let _ = (to, version);
        replies
    }
}

/// Whether a command has exactly one key.
fn is_single(command: &Command) -> bool {
    matches!(command.keys, KeySpec::Range { first, last, .. } if last == first as isize)
}
