//! When a coordinator is gone (PROTOCOL rules 25 and 26), and everything else that time brings.
use super::{Participant, Settled, State, Txn};
use crate::{
    Fault, ShardId, TxnId,
    message::{Body, Node, Outbox, Proof, Refusal, Standing, TxnInfo},
};
use kintsugidb_engine::{Version, fingerprint};
use std::sync::Arc;

/// What the other participants' answers add up to.
const COMMITTED: u64 = u64::MAX;

impl Participant {
    pub(super) fn on_ask(
        &mut self,
        from: Node,
        info: &Arc<TxnInfo>,
        committed: Option<u64>,
        out: &mut Outbox,
    ) {
        let txn = info.id;
        if let Some(c) = committed {
            self.commit_prepared(Proof { txn, c }, out);
        }
        let standing = match (self.txns.get(&txn).map(|t| &t.state), self.outcomes.get(&txn)) {
            (Some(State::Prepared { p }), _) => Standing::Prepared(*p),
            (Some(State::Committed { c, .. }), _) | (None, Some(Settled::Committed { c, .. })) => {
                Standing::Committed(*c)
            }
            // It may be prepared yet: no answer.
            (Some(State::Waiting(_)), _) => return,
            (Some(State::Reserved), _) => {
                self.abort(txn, out);
                Standing::Aborted
            }
            (None, Some(Settled::Refused(_))) => Standing::Aborted,
            // The asker knows that it is committed: here it was, and is forgotten.
            (None, None) => match committed {
                Some(c) => Standing::Committed(c),
                None => {
                    if !self.config.faults.has(Fault::NoPromise) && !self.is_beyond_horizon(txn) {
                        self.settle(txn, Settled::Refused(Refusal::Aborted));
                    }
                    Standing::Aborted
                }
            },
        };
        self.send(from, Body::Answer { txn, standing }, out);
    }

    pub(super) fn on_answer(&mut self, from: ShardId, txn: TxnId, standing: Standing, out: &mut Outbox) {
        let own = self.id;
        let Some(t) = self.txns.get_mut(&txn) else { return };
        let others = t.info.participants.len() - usize::from(t.info.participants.contains(&own));
        match (&t.state, standing) {
            (State::Prepared { .. }, Standing::Committed(c)) => {
                self.commit_prepared(Proof { txn, c }, out);
                if let Some(t) = self.txns.get_mut(&txn) {
                    t.answers.insert(from, COMMITTED);
                }
            }
            (State::Prepared { .. }, Standing::Aborted) => self.abort(txn, out),
            (State::Prepared { p }, Standing::Prepared(theirs)) => {
                let p = *p;
                t.answers.insert(from, theirs);
                if t.answers.len() == others {
                    let c = t.answers.values().copied().max().unwrap_or(p).max(p);
                    self.commit_prepared(Proof { txn, c }, out);
                }
            }
            (State::Committed { .. }, Standing::Committed(_)) => {
                t.answers.insert(from, COMMITTED);
                if t.answers.len() == others {
                    self.on_stable(txn, false);
                }
            }
            _ => {}
        }
    }

    /// Asks every other participant how a transaction stands.
    fn ask(&mut self, txn: TxnId, out: &mut Outbox) {
        let Some(t) = self.txns.get(&txn) else { return };
        let committed = match &t.state {
            State::Committed { c, .. } => Some(*c),
            _ => None,
        };
        let info = t.info.clone();
        for shard in info.participants.iter().copied().filter(|s| *s != self.id) {
            self.send(Node::Shard(shard), Body::Ask { info: info.clone(), committed }, out);
        }
    }

    /// Time has passed: orphans are asked about, what is old is forgotten. To be called every few milliseconds.
    pub fn tick(&mut self, now_us: u64, out: &mut Outbox) {
        self.set_now(now_us);
        let now = self.now_us;
        self.shard.tick(now / 1000);
        while let Some(txn) = due(&mut self.timers.reserved, now) {
            if matches!(self.txns.get(&txn), Some(Txn { state: State::Reserved, .. })) {
                self.abort(txn, out);
            }
        }
        while let Some(txn) = due(&mut self.timers.prepared, now) {
            let Some(Txn { state: State::Prepared { p }, info, .. }) = self.txns.get(&txn) else { continue };
            if info.participants.len() == 1 {
                let c = *p;
                self.commit_prepared(Proof { txn, c }, out);
            } else {
                self.ask(txn, out);
                self.timers.prepared.push_back((now + self.config.prepared_timeout_us, txn));
            }
        }
        while let Some(txn) = due(&mut self.timers.unstable, now) {
            if let Some(Txn { state: State::Committed { stable: false, .. }, .. }) = self.txns.get(&txn) {
                self.ask(txn, out);
                self.timers.unstable.push_back((now + self.config.stable_timeout_us, txn));
            }
        }
        while let Some(txn) = due(&mut self.timers.window, now) {
            self.forget(txn);
        }
        while let Some(txn) = self.timers.horizon.front().copied() {
            if !self.is_beyond_horizon(txn) {
                break;
            }
            self.timers.horizon.pop_front();
            self.outcomes.remove(&txn);
        }
        self.fold(now);
    }

    /// Forgets versions and transaction records that no reader in time can ask for.
    fn fold(&mut self, now: u64) {
        if now < self.timers.next_mark_us {
            return;
        }
        let window = if self.config.faults.has(Fault::ShortWindow) { 0 } else { self.config.window_us };
        self.timers.next_mark_us = now + window / 4;
        let mut fold_to = None;
        while let Some((at, seq)) = self.timers.marks.front().copied() {
            if at + window > now {
                break;
            }
            fold_to = Some(seq);
            self.timers.marks.pop_front();
        }
        let hot = self.shard.history_len().0 > 0;
        if let (true, Some(seq)) = (hot, fold_to) {
            let careless = self.config.faults.has(Fault::ForgetUnderPending);
            let (keys, txns) = (&self.keys, &self.txns);
            self.shard.fold_history(seq, &|key| {
                let pending = &keys.get(&fingerprint(key))?.pending;
                let lowest = pending.iter().filter_map(|t| match txns.get(t)?.state {
                    State::Prepared { p } => Some(p),
                    _ => None,
                });
                lowest.min().filter(|_| !careless).map(|ts| Version { ts, seq: 0 })
            });
        }
        if hot {
            let seq = self.shard.snapshot();
            self.timers.marks.push_back((now, seq));
        }
        if !self.timers.records.is_empty() && now >= self.timers.next_epoch_us {
            self.timers.next_epoch_us = now + window / 2;
            self.timers.epoch += 1;
            self.shard.bump_epoch();
            let epoch = self.timers.epoch;
            let old = self.timers.records.iter().take_while(|(e, _)| e + 2 <= epoch).count();
            let records: Vec<_> = self.timers.records.drain(..old).map(|(_, r)| r).collect();
            self.shard.forget_txns(&records);
        }
    }
}

fn due(queue: &mut std::collections::VecDeque<(u64, TxnId)>, now: u64) -> Option<TxnId> {
    queue.front().filter(|(at, _)| *at <= now)?;
    queue.pop_front().map(|(_, txn)| txn)
}
