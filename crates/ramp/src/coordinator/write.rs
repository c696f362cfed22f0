//! Writing at several shards (PROTOCOL rules 3, 7 to 10), and reserving first where a command has to look before it writes.
use super::{
    BUSY, Coordinator, FULL, Isolation, OUTCOME_UNKNOWN, Outcome, Phase, Request, Session, ShardId,
    TRY_AGAIN, Transaction, finish::run, plan::keys_of,
};
use crate::{
    Fault, TxnId,
    message::{Body, Found, Lock, Op, Outbox, Proof, Refusal, Siblings, TxnInfo, What, Work},
};
use kintsugidb_engine::{Class, Dump};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

#[derive(Debug, Default)]
pub(super) struct WriteState {
    info: Option<Arc<TxnInfo>>,
    /// The name of the first attempt.
    age: Option<u64>,
    works: BTreeMap<ShardId, Arc<Work>>,
    prepared: BTreeMap<ShardId, u64>,
    committed: BTreeSet<ShardId>,
    c: u64,
    /// Whether attempts begin with a reservation, and whether this one has it.
    reserves: bool,
    reserved: bool,
    refusals: u64,
}

impl WriteState {
    pub fn info(&self) -> Option<Arc<TxnInfo>> {
        self.info.clone()
    }

    pub fn reserves(&self) -> bool {
        self.reserves
    }

    pub fn work(&self, shard: ShardId) -> Arc<Work> {
        self.works.get(&shard).cloned().unwrap_or_default()
    }

    /// The commit timestamp, once it is decided.
    pub fn decided(&self) -> Option<Proof> {
        let txn = self.info.as_ref()?.id;
        (self.c > 0).then_some(Proof { txn, c: self.c })
    }
}

impl Transaction {
    /// Draws a name for an attempt over the shards of `works`.
    fn name(&mut self, co: &mut Coordinator, works: BTreeMap<ShardId, Arc<Work>>, now_us: u64) {
        let id = co.clock.next(now_us);
        let age = *self.write.age.get_or_insert(id);
        let mut written: Vec<_> = works
            .values()
            .flat_map(|w| w.keys.iter().filter(|(_, l)| *l != Lock::Shared).map(|(k, _)| k.fingerprint))
            .collect();
        written.sort_unstable();
        written.dedup();
        let siblings = match co.config.isolation {
            Isolation::Small => Siblings::Unsaid,
            Isolation::Hybrid => Siblings::bloom(&written),
            _ => Siblings::Keys(written.into()),
        };
        let participants = works.keys().copied().collect();
        let w = &mut self.write;
        w.info = Some(Arc::new(TxnInfo { id: TxnId(id), age, participants, siblings }));
        w.works = works;
        w.prepared.clear();
        w.committed.clear();
        w.c = 0;
        w.reserved = false;
    }

    pub(super) fn start_write(
        &mut self,
        co: &mut Coordinator,
        session: &mut Session,
        now_us: u64,
        out: &mut Outbox,
    ) {
        let works = if self.write.works.is_empty() {
            std::mem::take(&mut self.plan.writes).into_iter().map(|(s, w)| (s, Arc::new(w))).collect()
        } else {
            std::mem::take(&mut self.write.works)
        };
        let direct = co.config.isolation == Isolation::None && works.values().all(|w| w.watches.is_empty());
        self.name(co, works, now_us);
        self.phase = if direct { Phase::Apply } else { Phase::Prepare };
        self.sent_at = now_us;
        self.send_writes(co, session, out);
    }

    /// Reserves all keys, those that are only read in shared mode, and reads them.
    pub(super) fn start_reserve(
        &mut self,
        co: &mut Coordinator,
        session: &mut Session,
        now_us: u64,
        out: &mut Outbox,
    ) {
        let mut works: BTreeMap<ShardId, Arc<Work>> = if self.write.works.is_empty() {
            std::mem::take(&mut self.plan.writes).into_iter().map(|(s, w)| (s, Arc::new(w))).collect()
        } else {
            std::mem::take(&mut self.write.works)
        };
        for (shard, reads) in &self.plan.reads {
            let work = works.entry(*shard).or_default();
            let missing: Vec<_> = reads
                .keys
                .iter()
                .filter(|k| !work.keys.iter().any(|(o, _)| o.bytes == k.bytes))
                .map(|k| (k.clone(), Lock::Shared))
                .collect();
            if !missing.is_empty() {
                let mut all = Work {
                    keys: work.keys.clone(),
                    ops: work.ops.clone(),
                    watches: work.watches.clone(),
                    proto: self.proto,
                };
                all.keys.extend(missing);
                *work = Arc::new(all);
            }
        }
        self.name(co, works, now_us);
        self.write.reserves = true;
        self.phase = Phase::Reserve;
        self.sent_at = now_us;
        self.read.restart(&self.plan, self.proto, now_us);
        // Shards where nothing is read reserve as well.
        self.read.ask_nothing(self.write.works.keys(), self.proto);
        self.send_reads(co, session, out);
    }

    /// Everything is reserved and read.
    pub(super) fn on_reserved(
        &mut self,
        co: &mut Coordinator,
        session: &mut Session,
        now_us: u64,
        out: &mut Outbox,
    ) -> Option<Outcome> {
        if self.plan.evaluate {
            let works = match self.evaluate(co, now_us) {
                Ok(works) => works,
                Err(text) => {
                    self.abort(co, session, out);
                    return Some(self.error(session, text));
                }
            };
            self.write.works = works;
        }
        let nothing = self.write.works.values().all(|w| w.ops.is_empty() && w.watches.is_empty());
        if nothing {
            // Only read: give the reservations back. Nobody has said that they were all held at one moment; only time does.
            self.abort(co, session, out);
            if now_us.saturating_sub(self.read.began_us()) >= co.config.reserved_timeout_us {
                return self.again(co, session, now_us);
            }
            return Some(self.finish(co, session, now_us));
        }
        self.write.reserved = true;
        self.phase = Phase::Prepare;
        self.sent_at = now_us;
        self.send_writes(co, session, out);
        None
    }

    /// Runs the commands on copies; the work that writes the changes back.
    fn evaluate(
        &mut self,
        co: &mut Coordinator,
        now_us: u64,
    ) -> Result<BTreeMap<ShardId, Arc<Work>>, &'static str> {
        let mut before: BTreeMap<Box<[u8]>, Option<Dump>> = BTreeMap::new();
        for op in self.plan.reads.values().flat_map(|r| &r.ops) {
            if let (What::Dump(key), Some(Some(Found::Dump(d)))) =
                (&op.what, self.found.get(op.index as usize))
            {
                before.insert(key.clone(), d.clone());
            }
        }
        let scratch = co.scratch(now_us);
        for (key, dump) in &before {
            if let Some(d) = dump {
                scratch.restore(key, d.clone()).map_err(|_| BUSY)?;
            }
        }
        let mut written: BTreeSet<Box<[u8]>> = BTreeSet::new();
        self.evaluated.clear();
        for r in &self.requests {
            let reply = match r {
                Request::Ready(bytes) => bytes.clone(),
                Request::Watch(_) => Vec::new(),
                Request::Command(command, args) => {
                    let args = args.to_vec();
                    if command.class_of(&args) != Class::Read {
                        written.extend(keys_of(command, &args).into_iter().map(Box::from));
                    }
                    run(scratch, command, &args, self.proto)
                }
            };
            self.evaluated.push(reply);
        }
        let mut works = BTreeMap::new();
        for (shard, old) in &self.write.works {
            let mut work = Work {
                keys: old.keys.clone(),
                ops: Vec::new(),
                watches: old.watches.clone(),
                proto: self.proto,
            };
            for (key, _) in &old.keys {
                if written.contains(&key.bytes) {
                    let after = scratch.dump(&key.bytes);
                    if before.get(&key.bytes) != Some(&after) {
                        work.ops.push(Op { index: u32::MAX, what: What::Put(key.bytes.clone(), after) });
                    }
                }
            }
            works.insert(*shard, Arc::new(work));
        }
        Ok(works)
    }

    /// Sends the phase's message to the shards that have not answered it.
    pub(super) fn send_writes(&mut self, co: &Coordinator, session: &Session, out: &mut Outbox) {
        let Some(info) = self.write.info() else { return };
        for shard in info.participants.iter().copied() {
            let body = match self.phase {
                Phase::Apply if !self.write.committed.contains(&shard) => {
                    Body::Apply(info.clone(), self.write.work(shard))
                }
                Phase::Prepare if !self.write.prepared.contains_key(&shard) => Body::Prepare {
                    info: info.clone(),
                    work: self.write.work(shard),
                    reserved: self.write.reserved,
                },
                Phase::Commit if !self.write.committed.contains(&shard) => {
                    Body::Commit(Proof { txn: info.id, c: self.write.c })
                }
                _ => continue,
            };
            self.send(co, session, shard, body, out);
        }
    }

    pub(super) fn on_write_reply(
        &mut self,
        co: &mut Coordinator,
        session: &mut Session,
        from: ShardId,
        body: Body,
        now_us: u64,
        out: &mut Outbox,
    ) -> Option<Outcome> {
        let info = self.write.info()?;
        match (self.phase, body) {
            (Phase::Prepare, Body::Prepared { txn, p }) if txn == info.id => {
                self.write.prepared.insert(from, p);
                if self.write.prepared.len() == info.participants.len() {
                    let max = self.write.prepared.values().copied().max().unwrap_or(p);
                    let own_clock = co.config.faults.has(Fault::CoordinatorClock);
                    self.write.c = if own_clock { co.clock.next(now_us) } else { max };
                    self.phase = Phase::Commit;
                    self.sent_at = now_us;
                    self.send_writes(co, session, out);
                }
                None
            }
            (Phase::Prepare, Body::Refused { txn, why }) => {
                self.on_refused(co, session, txn, why, now_us, out)
            }
            (Phase::Commit | Phase::Apply, Body::Committed { txn, replies, seen }) if txn == info.id => {
                for s in &seen {
                    session.saw(from, s);
                }
                if let Some(replies) = replies {
                    self.store(replies.iter().cloned());
                }
                self.write.committed.insert(from);
                if self.write.committed.len() < info.participants.len() {
                    return None;
                }
                if self.phase == Phase::Commit {
                    session.see(self.write.c);
                    for shard in info.participants.iter().copied() {
                        self.send(co, session, shard, Body::Stable(info.id), out);
                    }
                }
                Some(self.finish(co, session, now_us))
            }
            _ => None,
        }
    }

    /// A shard will not prepare this attempt.
    pub(super) fn on_refused(
        &mut self,
        co: &mut Coordinator,
        session: &mut Session,
        txn: TxnId,
        why: Refusal,
        now_us: u64,
        out: &mut Outbox,
    ) -> Option<Outcome> {
        if self.write.info()?.id != txn {
            return None;
        }
        self.abort(co, session, out);
        match why {
            Refusal::Die | Refusal::Aborted => self.again(co, session, now_us),
            Refusal::Changed => Some(self.nil(session)),
            Refusal::Horizon => Some(self.error(session, OUTCOME_UNKNOWN)),
            Refusal::Busy => Some(self.error(session, BUSY)),
            Refusal::Full => Some(self.error(session, FULL)),
        }
    }

    /// Tells all participants that this attempt is over.
    pub(super) fn abort(&mut self, co: &Coordinator, session: &Session, out: &mut Outbox) {
        let Some(info) = self.write.info() else { return };
        for shard in info.participants.iter().copied() {
            self.send(co, session, shard, Body::Abort(info.id), out);
        }
    }

    /// Waits, then tries again with a new name and the same age.
    pub(super) fn again(
        &mut self,
        co: &mut Coordinator,
        session: &mut Session,
        now_us: u64,
    ) -> Option<Outcome> {
        self.attempts += 1;
        self.write.refusals += 1;
        if self.attempts > co.config.max_attempts {
            return Some(self.error(session, TRY_AGAIN));
        }
        self.phase = Phase::Refused { until_us: now_us + co.config.backoff_us * self.write.refusals.min(16) };
        None
    }

    /// The transaction's name and commit timestamp, once decided.
    pub fn decided(&self) -> Option<Proof> {
        self.write.decided()
    }
}
