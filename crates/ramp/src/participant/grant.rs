//! Preparing and reserving (PROTOCOL rules 7, 9, 10).
//!
//! A reservation is granted only when nothing else is pending on the key; until its transaction is resolved, other writers of
//! the key wait, single-key ones too. Who meets a conflict waits if it is older than all whom it would wait for, and is refused
//! otherwise (wait-die); this is judged again at every grant. Blind writes reserve nothing and never wait for each other.
use super::{Participant, Settled, State, Txn, Waiting};
use crate::{
    Fault, TxnId,
    message::{Body, Lock, Node, Outbox, Read, Refusal, TxnInfo, Watch, WatchState, Work},
};
use std::{collections::BTreeMap, sync::Arc};

enum Grant {
    Granted,
    Wait,
    Refused(Refusal),
}

impl Participant {
    pub(super) fn on_prepare(
        &mut self,
        from: Node,
        info: Arc<TxnInfo>,
        work: Arc<Work>,
        reserved: bool,
        out: &mut Outbox,
    ) {
        let txn = info.id;
        if self.answered_again(from, txn, out) {
            return;
        }
        match self.txns.get_mut(&txn) {
            None if reserved => self.refuse(from, txn, Refusal::Aborted, out),
            None => self.admit(from, info, work, None, out),
            Some(t) if reserved && matches!(t.state, State::Reserved) => {
                t.work = work;
                t.reply_to = from;
                self.prepare(txn, out);
            }
            Some(_) => {}
        }
    }

    pub(super) fn on_reserve(
        &mut self,
        from: Node,
        info: Arc<TxnInfo>,
        work: Arc<Work>,
        read: Arc<Read>,
        out: &mut Outbox,
    ) {
        let txn = info.id;
        let reserved = self.txns.get(&txn).map(|t| matches!(t.state, State::Reserved));
        match reserved {
            Some(true) => self.on_read(from, &read, out),
            Some(false) => {}
            None if self.answered_again(from, txn, out) => {}
            None => self.admit(from, info, work, Some(read), out),
        }
    }

    /// Answers a repeated request as it was answered before.
    fn answered_again(&mut self, from: Node, txn: TxnId, out: &mut Outbox) -> bool {
        let body = match (self.txns.get(&txn).map(|t| &t.state), self.outcomes.get(&txn)) {
            (Some(State::Prepared { p } | State::Committed { p, .. }), _)
            | (None, Some(Settled::Committed { p, .. })) => Body::Prepared { txn, p: *p },
            (None, Some(Settled::Refused(why))) => Body::Refused { txn, why: *why },
            _ => return false,
        };
        self.send(from, body, out);
        true
    }

    fn refuse(&mut self, to: Node, txn: TxnId, why: Refusal, out: &mut Outbox) {
        self.settle(txn, Settled::Refused(why));
        self.send(to, Body::Refused { txn, why }, out);
    }

    /// A transaction heard of for the first time.
    fn admit(
        &mut self,
        from: Node,
        info: Arc<TxnInfo>,
        work: Arc<Work>,
        read: Option<Arc<Read>>,
        out: &mut Outbox,
    ) {
        let txn = info.id;
        if self.is_beyond_horizon(txn) {
            return self.send(from, Body::Refused { txn, why: Refusal::Horizon }, out);
        }
        if self.txns.len() >= self.config.max_txns {
            return self.refuse(from, txn, Refusal::Busy, out);
        }
        let grant = self.judge(&info, &work);
        if let Grant::Refused(why) = grant {
            return self.refuse(from, txn, why, out);
        }
        if matches!(grant, Grant::Wait) {
            if self.queue.len() >= self.config.max_queue {
                return self.refuse(from, txn, Refusal::Busy, out);
            }
            self.queue.push_back(Waiting::Txn(txn));
        }
        let t = Txn { info, work, reply_to: from, state: State::Waiting(read), answers: BTreeMap::new() };
        self.txns.insert(txn, t);
        if matches!(grant, Grant::Granted) {
            self.grant(txn, out);
            self.wake(out);
        }
    }

    /// Takes the keys and goes on to what was wanted.
    fn grant(&mut self, txn: TxnId, out: &mut Outbox) {
        let Some(t) = self.txns.get_mut(&txn) else { return };
        let State::Waiting(read) = std::mem::replace(&mut t.state, State::Reserved) else { return };
        let (work, to) = (t.work.clone(), t.reply_to);
        for (key, lock) in &work.keys {
            if *lock == Lock::Blind {
                continue;
            }
            let k = self.keys.entry(key.fingerprint).or_default();
            match lock {
                Lock::Exclusive => k.exclusive = Some(txn),
                _ => k.shared.push(txn),
            }
        }
        match read {
            Some(read) => {
                self.timers.reserved.push_back((self.now_us + self.config.reserved_timeout_us, txn));
                self.on_read(to, &read, out);
            }
            None => self.prepare(txn, out),
        }
    }

    /// From reserved to prepared: the keys are pending and hot, and `p` is given.
    fn prepare(&mut self, txn: TxnId, out: &mut Outbox) {
        let p = self.clock.next(self.now_us);
        let Some(t) = self.txns.get_mut(&txn) else { return };
        t.state = State::Prepared { p };
        let (work, to) = (t.work.clone(), t.reply_to);
        for (key, lock) in &work.keys {
            if *lock != Lock::Shared {
                self.keys.entry(key.fingerprint).or_default().pending.push(txn);
                self.shard.heat(&key.bytes);
            }
        }
        self.announce(txn, &work);
        self.timers.prepared.push_back((self.now_us + self.config.prepared_timeout_us, txn));
        self.send(to, Body::Prepared { txn, p }, out);
    }

    fn judge(&self, info: &TxnInfo, work: &Work) -> Grant {
        let mut conflict = false;
        let mut oldest = u64::MAX;
        if !self.keys.is_empty() {
            for (key, lock) in &work.keys {
                let Some(k) = self.keys.get(&key.fingerprint) else { continue };
                let pending: &[TxnId] = if *lock == Lock::Blind { &[] } else { &k.pending };
                let shared: &[TxnId] = if *lock == Lock::Shared { &[] } else { &k.shared };
                for other in pending.iter().chain(shared).chain(&k.exclusive).filter(|t| **t != info.id) {
                    conflict = true;
                    oldest = oldest.min(self.txns.get(other).map_or(u64::MAX, |t| t.info.age));
                }
            }
        }
        if conflict {
            let die = oldest < info.age && !self.config.faults.has(Fault::NoAge);
            return if die { Grant::Refused(Refusal::Die) } else { Grant::Wait };
        }
        if work.watches.iter().all(|w| self.is_unchanged(w)) {
            Grant::Granted
        } else {
            Grant::Refused(Refusal::Changed)
        }
    }

    /// What WATCH remembers of a key.
    pub fn watch_state(&self, key: &[u8]) -> WatchState {
        let present = self.shard.type_of(key).is_some();
        WatchState {
            version: if present { self.shard.version(key) } else { Default::default() },
            births: if present { 0 } else { self.shard.births(key) },
        }
    }

    pub(super) fn is_unchanged(&self, watch: &Watch) -> bool {
        self.watch_state(&watch.key) == watch.state || self.config.faults.has(Fault::NoWatch)
    }

    /// Something was released or granted: those who wait are judged again, in the order in which they came.
    pub(super) fn wake(&mut self, out: &mut Outbox) {
        let mut again = !self.queue.is_empty();
        while again {
            again = false;
            for w in std::mem::take(&mut self.queue) {
                match w {
                    Waiting::Batch { batch, reply_to } => {
                        if self.must_wait(&batch.work) {
                            self.queue.push_back(Waiting::Batch { batch, reply_to });
                        } else {
                            self.run_batch(reply_to, &batch, out);
                        }
                    }
                    Waiting::Txn(txn) => {
                        let Some(t) = self.txns.get(&txn) else { continue };
                        let (info, work, to) = (t.info.clone(), t.work.clone(), t.reply_to);
                        match self.judge(&info, &work) {
                            Grant::Wait => self.queue.push_back(Waiting::Txn(txn)),
                            Grant::Granted => {
                                self.grant(txn, out);
                                again = true;
                            }
                            Grant::Refused(why) => {
                                self.txns.remove(&txn);
                                self.refuse(to, txn, why, out);
                            }
                        }
                    }
                }
            }
            again &= !self.queue.is_empty();
        }
    }
}
