//! Reading at several shards (PROTOCOL rules 12 to 18).
//!
//! Round one asks every shard for its keys; the answers name the recent transactions on them, all of which are included in what
//! was read there. A transaction that one shard names, that lists a key of another shard, and that is not included there, has been
//! read in half. Round two asks that shard for the same keys at "your snapshot plus these transactions". An answer that
//! could not leave out a further transaction says so, and is judged again; the rounds are bounded, then the read begins again, and
//! so it does when it has taken more than half the window, or something it asks for is gone.
use super::{Coordinator, Isolation, Outcome, Phase, Session, ShardId, TRY_AGAIN, Transaction};
use crate::{
    Fault, TxnId,
    message::{Body, Op, Outbox, Proof, Read, ReadAnswer, Seen, TxnInfo},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Rounds of one attempt.
const MAX_ROUNDS: u32 = 6;

/// Attempts that may take too long, before the keys are reserved for the next.
const SLOW_READS: u32 = 3;

#[derive(Debug, Default)]
pub(super) struct ReadState {
    attempt: u32,
    round: u32,
    began_us: u64,
    shards: BTreeMap<ShardId, AtShard>,
    /// Everything seen in this attempt.
    seen: BTreeMap<TxnId, Seen>,
    /// What is being asked, and not answered yet.
    asked: BTreeMap<ShardId, Arc<Read>>,
    answers: Vec<ReadAnswer>,
}

#[derive(Debug, Default)]
struct AtShard {
    snapshot: u64,
    included: BTreeSet<TxnId>,
    with: Vec<Proof>,
}

impl ReadState {
    /// Whether a later round than the first has begun.
    pub fn is_second(&self) -> bool {
        self.round > 1
    }

    /// When the first message of this attempt was sent.
    pub fn began_us(&self) -> u64 {
        self.began_us
    }

    /// Asks every shard for everything, at any snapshot.
    pub fn restart(&mut self, t: &super::Plan, proto: super::Proto, now_us: u64) {
        let attempt = self.attempt + 1;
        let asked = t.reads.iter().map(|(shard, reads)| {
            let read = Read {
                attempt,
                round: 1,
                ops: reads.ops.clone(),
                keys: reads.keys.clone(),
                all_keys: t.read_keys.clone(),
                snapshot: 0,
                with: Vec::new(),
                proto,
            };
            (*shard, Arc::new(read))
        });
        *self = Self { attempt, round: 1, began_us: now_us, asked: asked.collect(), ..Self::default() };
    }

    /// Asks the shards that have nothing to read as well, for an empty answer.
    pub fn ask_nothing<'a>(&mut self, shards: impl Iterator<Item = &'a ShardId>, proto: super::Proto) {
        for shard in shards {
            let (attempt, round) = (self.attempt, self.round);
            self.asked.entry(*shard).or_insert_with(|| {
                Arc::new(Read {
                    attempt,
                    round,
                    ops: Vec::new(),
                    keys: Vec::new(),
                    all_keys: Arc::new([]),
                    snapshot: 0,
                    with: Vec::new(),
                    proto,
                })
            });
        }
    }

    /// Transactions that were read in half: for each shard those that it has to add.
    fn detect(&self, t: &super::Plan, newest_only: bool) -> BTreeMap<ShardId, Vec<Proof>> {
        let mut need = BTreeMap::new();
        for (shard, at) in &self.shards {
            let mut here: Vec<_> = self
                .seen
                .values()
                .filter(|s| s.info.participants.binary_search(shard).is_ok())
                .filter(|s| !at.included.contains(&s.info.id))
                .filter(|s| t.reads[shard].keys.iter().any(|k| s.info.siblings.may_hold(k.fingerprint)))
                .map(|s| Proof { txn: s.info.id, c: s.c })
                .collect();
            if newest_only {
                here.sort_by_key(|p| std::cmp::Reverse(p.c));
                here.truncate(1);
            }
            if !here.is_empty() {
                need.insert(*shard, here);
            }
        }
        need
    }
}

/// The reads that concern a key which one of these transactions may have written.
fn concerned(config: &crate::Config, reads: &super::plan::Reads, infos: &[Arc<TxnInfo>]) -> Vec<Op> {
    let hit = |key: &&[u8]| infos.iter().any(|i| i.siblings.may_hold(config.fingerprint(key)));
    reads.ops.iter().filter(|op| op.what.keys().iter().any(hit)).cloned().collect()
}

impl Transaction {
    pub(super) fn start_read(
        &mut self,
        co: &mut Coordinator,
        session: &mut Session,
        now_us: u64,
        out: &mut Outbox,
    ) {
        self.phase = Phase::Read;
        self.sent_at = now_us;
        self.read.restart(&self.plan, self.proto, now_us);
        self.send_reads(co, session, out);
    }

    /// Sends what is asked and not answered.
    pub(super) fn send_reads(&mut self, co: &Coordinator, session: &Session, out: &mut Outbox) {
        let asked: Vec<_> = self.read.asked.iter().map(|(s, r)| (*s, r.clone())).collect();
        let reserve = self.phase == Phase::Reserve;
        for (shard, read) in asked {
            let body = match self.write.info() {
                Some(info) if reserve => Body::Reserve(info, self.write.work(shard), read),
                _ => Body::Read(read),
            };
            self.send(co, session, shard, body, out);
        }
    }

    pub(super) fn on_read_reply(
        &mut self,
        co: &mut Coordinator,
        session: &mut Session,
        from: ShardId,
        body: Body,
        now_us: u64,
        out: &mut Outbox,
    ) -> Option<Outcome> {
        let (attempt, round, snapshot, answers, seen) = match body {
            Body::ReadReply { attempt, round, snapshot, answers, seen } => {
                (attempt, round, snapshot, answers, seen)
            }
            Body::Refused { txn, why } if self.phase == Phase::Reserve => {
                return self.on_refused(co, session, txn, why, now_us, out);
            }
            _ => return None,
        };
        if attempt != self.read.attempt || round != self.read.round || self.read.asked.remove(&from).is_none()
        {
            return None;
        }
        let reserved = self.phase == Phase::Reserve;
        let half = if co.config.faults.has(Fault::ShortWindow) { u64::MAX } else { co.config.window_us / 2 };
        let slow = now_us.saturating_sub(self.read.began_us) > half;
        let Some(answers) = answers.filter(|_| !slow || reserved) else {
            self.attempts += 1;
            if self.attempts > co.config.max_attempts {
                return Some(self.error(session, TRY_AGAIN));
            }
            self.slow += u32::from(slow);
            if self.slow > SLOW_READS {
                // It will not get faster: keep the keys from changing instead.
                self.start_reserve(co, session, now_us, out);
            } else {
                self.start_read(co, session, now_us, out);
            }
            return None;
        };
        self.read.answers.extend(answers);
        let at = self.read.shards.entry(from).or_default();
        if round == 1 {
            at.snapshot = snapshot;
        }
        for s in seen {
            session.saw(from, &s);
            at.included.insert(s.info.id);
            self.read.seen.insert(s.info.id, s);
        }
        if !self.read.asked.is_empty() {
            return None;
        }
        if reserved {
            let answers = std::mem::take(&mut self.read.answers);
            self.store(answers);
            return self.on_reserved(co, session, now_us, out);
        }
        self.next_round(co, session, now_us, out)
    }

    fn next_round(
        &mut self,
        co: &mut Coordinator,
        session: &mut Session,
        now_us: u64,
        out: &mut Outbox,
    ) -> Option<Outcome> {
        let answers = std::mem::take(&mut self.read.answers);
        self.store(answers);
        let faults = co.config.faults;
        let one_round = co.config.isolation == Isolation::None || faults.has(Fault::NoRoundTwo);

        let need = if one_round || self.read.seen.is_empty() {
            BTreeMap::new()
        } else {
            self.read.detect(&self.plan, faults.has(Fault::NewestNeedOnly))
        };
        if need.is_empty() || (faults.has(Fault::NewestNeedOnly) && self.read.round > 1) {
            if self.plan.writes.is_empty() {
                return Some(self.finish(co, session, now_us));
            }
            self.start_write(co, session, now_us, out);
            return None;
        }
        self.read.round += 1;
        if self.read.round > MAX_ROUNDS {
            self.attempts += 1;
            if self.attempts > co.config.max_attempts {
                return Some(self.error(session, TRY_AGAIN));
            }
            self.start_read(co, session, now_us, out);
            return None;
        }
        for (shard, proofs) in need {
            let infos: Vec<_> = proofs.iter().map(|p| self.read.seen[&p.txn].info.clone()).collect();
            let ops = concerned(&co.config, &self.plan.reads[&shard], &infos);
            let Some(at) = self.read.shards.get_mut(&shard) else { continue };
            at.included.extend(proofs.iter().map(|p| p.txn));
            at.with.extend(proofs);
            let read = Read {
                attempt: self.read.attempt,
                round: self.read.round,
                ops,
                keys: self.plan.reads[&shard].keys.clone(),
                all_keys: self.plan.read_keys.clone(),
                snapshot: at.snapshot,
                with: at.with.clone(),
                proto: self.proto,
            };
            self.read.asked.insert(shard, Arc::new(read));
        }
        self.sent_at = now_us;
        self.send_reads(co, session, out);
        None
    }
}
