//! Committing, aborting, and forgetting (PROTOCOL rules 7, 15, 16, 26).
use super::{Participant, Settled, State, Txn};
use crate::{
    Fault, TxnId,
    coordinator::run,
    message::{Body, Found, Lock, Node, Outbox, Proof, ReadAnswer, Refusal, TxnInfo, What, Work},
};
use kintsugidb_engine::{TxnRecord, Version};
use kintsugidb_wire::{Proto, Reply};
use std::sync::Arc;

impl Participant {
    pub(super) fn on_commit(&mut self, from: Node, proof: Proof, out: &mut Outbox) {
        let txn = proof.txn;
        self.commit_prepared(proof, out);
        let replies = match (self.txns.get(&txn), self.outcomes.get(&txn)) {
            (Some(Txn { state: State::Committed { replies, .. }, .. }), _) => replies.clone(),
            (None, Some(Settled::Committed { replies, .. })) => replies.clone(),
            // Forgotten: it is stable everywhere. Refused or reserved: no coordinator that keeps the rules says so.
            (None, None) => None,
            _ => return,
        };
        let mut seen: Vec<_> = match self.txns.get(&txn) {
            Some(t) => t.work.keys.iter().flat_map(|(k, _)| self.unstable_on(k.fingerprint)).collect(),
            None => Vec::new(),
        };
        seen.retain(|s| s.info.id != txn);
        self.send(from, Body::Committed { txn, replies, seen }, out);
    }

    /// Commits a transaction if it is held prepared (rule 15).
    pub(super) fn commit_prepared(&mut self, proof: Proof, out: &mut Outbox) {
        let txn = proof.txn;
        let Some(Txn { state: State::Prepared { p }, info, work, .. }) = self.txns.get(&txn) else { return };
        let (p, info, work) = (*p, info.clone(), work.clone());
        // The maximum of the participants' answers is no less than this one's: whoever says so does not keep rule 3.
        if proof.c < p && !self.config.faults.has(Fault::CoordinatorClock) {
            return;
        }
        self.release(txn, &work);
        self.clock.see(proof.c);
        let (replies, record) = self.run_work(&info, &work, proof.c);
        let seq = self.shard.commit_seq(false);
        self.retract(txn, &work);
        for (key, lock) in &work.keys {
            if *lock != Lock::Shared {
                self.keys.entry(key.fingerprint).or_default().recent.push(txn);
            }
        }
        let state = State::Committed { p, c: proof.c, seq, stable: false, replies: Some(replies), record };
        if let Some(t) = self.txns.get_mut(&txn) {
            t.state = state;
            t.answers.clear();
        }
        if info.participants.len() == 1 {
            self.on_stable(txn, false);
        } else {
            self.timers.unstable.push_back((self.now_us + self.config.stable_timeout_us, txn));
        }
        self.wake(out);
    }

    /// Runs a transaction's part in one turn, at version (c, 0).
    fn run_work(&mut self, info: &TxnInfo, work: &Work, c: u64) -> (Arc<Vec<ReadAnswer>>, Option<TxnRecord>) {
        #[cfg(any(test, feature = "sim"))]
        self.log.push(crate::sim::Logged::Committed(info.id, c));
        self.shard.begin_txn(Version { ts: c, seq: 0 }, info.id.0, info.siblings.words());
        let replies = self.run_ops(work);
        (Arc::new(replies), self.shard.end_txn())
    }

    /// Keeps a record of a transaction that is stable, for one-sided readers that may be under way.
    pub(super) fn keep_record(&mut self, record: Option<TxnRecord>) {
        if let Some(record) = record {
            self.shard.mark_stable(record.handle());
            self.timers.records.push_back((self.timers.epoch, record));
        }
    }

    /// Runs the operations at the version that was set.
    pub(super) fn run_ops(&mut self, work: &Work) -> Vec<ReadAnswer> {
        let mut replies = Vec::with_capacity(work.ops.len());
        for op in &work.ops {
            let found = self.run_op(&op.what, work.proto);
            if op.index != u32::MAX {
                replies.push(ReadAnswer { index: op.index, found });
            }
        }
        replies
    }

    pub(super) fn run_op(&mut self, what: &What, proto: Proto) -> Found {
        match what {
            What::Command(command, args) => {
                Found::Reply(run(&mut self.shard, command, &args.to_vec(), proto))
            }
            What::Dump(key) => Found::Dump(self.shard.dump(key)),
            What::Watch(key) => Found::Watch(self.watch_state(key)),
            What::Put(key, dump) => {
                let mut reply = Reply::new(proto);
                match dump {
                    Some(d) => {
                        if let Err(e) = self.shard.restore(key, d.clone()) {
                            reply.error(&e.to_string());
                        }
                    }
                    None => {
                        self.shard.delete(key);
                    }
                }
                Found::Reply(reply.into_bytes())
            }
        }
    }

    /// Without any protocol, but once only.
    pub(super) fn on_apply(&mut self, from: Node, info: &TxnInfo, work: &Work, out: &mut Outbox) {
        let txn = info.id;
        let replies = if let Some(Settled::Committed { replies, .. }) = self.outcomes.get(&txn) {
            replies.clone()
        } else if self.is_beyond_horizon(txn) {
            None
        } else {
            let c = self.clock.next(self.now_us);
            let (replies, record) = self.run_work(info, work, c);
            self.keep_record(record);
            let replies = Some(replies);
            let seq = self.shard.commit_seq(true);
            self.settle(txn, Settled::Committed { p: c, c, seq, replies: replies.clone() });
            replies
        };
        self.send(from, Body::Committed { txn, replies, seen: Vec::new() }, out);
    }

    /// Gives back what a transaction has reserved, and is no longer pending.
    fn release(&mut self, txn: TxnId, work: &Work) {
        for (key, _) in &work.keys {
            if let Some(k) = self.keys.get_mut(&key.fingerprint) {
                k.pending.retain(|t| *t != txn);
                k.shared.retain(|t| *t != txn);
                if k.exclusive == Some(txn) {
                    k.exclusive = None;
                }
                if k.is_idle() {
                    self.keys.remove(&key.fingerprint);
                }
            }
        }
    }

    pub(super) fn on_abort(&mut self, txn: TxnId, out: &mut Outbox) {
        match self.txns.get(&txn).map(|t| &t.state) {
            Some(State::Committed { .. }) => {}
            Some(_) => self.abort(txn, out),
            None => {
                if !self.outcomes.contains_key(&txn) && !self.is_beyond_horizon(txn) {
                    self.settle(txn, Settled::Refused(Refusal::Aborted));
                }
            }
        }
    }

    /// Aborts a transaction that is not committed.
    pub(super) fn abort(&mut self, txn: TxnId, out: &mut Outbox) {
        let Some(t) = self.txns.remove(&txn) else { return };
        #[cfg(any(test, feature = "sim"))]
        self.log.push(crate::sim::Logged::Aborted(txn));
        self.release(txn, &t.work);
        match t.state {
            State::Prepared { .. } => {
                self.retract(txn, &t.work);
                self.cool(&t.work);
            }
            State::Waiting(_) => {
                self.queue.retain(|w| !matches!(w, super::Waiting::Txn(other) if *other == txn));
            }
            _ => {}
        }
        self.settle(txn, Settled::Refused(Refusal::Aborted));
        self.wake(out);
    }

    fn cool(&mut self, work: &Work) {
        for (key, lock) in &work.keys {
            if *lock != Lock::Shared {
                self.shard.cool(&key.bytes);
            }
        }
    }

    /// Everybody has committed it. `told`: by its coordinator, which has all replies.
    pub(super) fn on_stable(&mut self, txn: TxnId, told: bool) {
        let Some(Txn { state: State::Committed { stable, replies, record, .. }, .. }) =
            self.txns.get_mut(&txn)
        else {
            return;
        };
        if told {
            *replies = None;
        }
        if !std::mem::replace(stable, true) {
            let window = if self.config.faults.has(Fault::ShortWindow) { 0 } else { self.config.window_us };
            self.timers.window.push_back((self.now_us + window, txn));
            let record = record.take();
            self.keep_record(record);
        }
    }

    /// The window has passed: only the outcome is kept.
    pub(super) fn forget(&mut self, txn: TxnId) {
        let Some(t) = self.txns.remove(&txn) else { return };
        let State::Committed { p, c, seq, replies, .. } = t.state else { return };
        for (key, lock) in &t.work.keys {
            if *lock == Lock::Shared {
                continue;
            }
            if let Some(k) = self.keys.get_mut(&key.fingerprint) {
                k.recent.retain(|t| *t != txn);
                if k.is_idle() {
                    self.keys.remove(&key.fingerprint);
                }
            }
        }
        self.cool(&t.work);
        self.settle(txn, Settled::Committed { p, c, seq, replies });
    }
}
