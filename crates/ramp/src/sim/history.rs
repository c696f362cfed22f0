//! What happened: the operations as their clients saw them, and what the shards did, for the checker.
use super::{Logged, Stats, client::Record};
use crate::{
    Isolation, Participant, ShardId, TxnId,
    message::{Batch, Body, Node, Outbox, ReadAnswer, What, Work},
};
use kintsugidb_engine::Version;
use std::{collections::BTreeMap, sync::Arc};

/// Something that was done at a shard, at one version.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    pub version: Version,
    /// When it was done.
    pub step: u64,
    /// What was done before it, and what after.
    pub order: usize,
    pub shard: ShardId,
    pub txn: Option<TxnId>,
    pub op: usize,
    pub work: Arc<Work>,
    pub replies: Option<Vec<ReadAnswer>>,
}

/// The shards of a run, what was asked of them and what they did.
pub struct History {
    isolation: Isolation,
    trace: bool,
    /// Time; it orders the beginnings and ends of operations.
    pub step: u64,
    /// The shards' owners.
    pub shards: Vec<Participant>,
    /// The operations, by number.
    pub records: Vec<Record>,
    /// Transactions' parts as they were sent, and the operation that each attempt belongs to.
    works: BTreeMap<(TxnId, ShardId), Arc<Work>>,
    attempts: BTreeMap<TxnId, usize>,
    batches: BTreeMap<Node, (Arc<Batch>, usize)>,
    pub(super) applied: Vec<Applied>,
    committed: BTreeMap<TxnId, BTreeMap<ShardId, u64>>,
    aborted: BTreeMap<TxnId, ShardId>,
    /// Counts of what happened.
    pub stats: Stats,
}

impl History {
    /// Nothing has happened yet. `trace`: print a line for everything that does.
    pub fn new(isolation: Isolation, shards: Vec<Participant>, trace: bool) -> Self {
        Self {
            isolation,
            trace,
            step: 0,
            shards,
            records: Vec::new(),
            works: BTreeMap::new(),
            attempts: BTreeMap::new(),
            batches: BTreeMap::new(),
            applied: Vec::new(),
            committed: BTreeMap::new(),
            aborted: BTreeMap::new(),
            stats: Stats::default(),
        }
    }

    /// Prints a line, if lines are wanted.
    pub fn trace(&self, line: impl FnOnce() -> String) {
        if self.trace {
            println!("{:6} {}", self.step, line());
        }
    }

    /// A coordinator sends messages for the operation of that number.
    pub fn sent(&mut self, from: Node, number: usize, out: &Outbox) {
        for (to, message) in out {
            let Node::Shard(shard) = to else { continue };
            match &message.body {
                Body::Prepare { info, work, .. } | Body::Apply(info, work) => {
                    self.works.insert((info.id, *shard), work.clone());
                    self.attempts.insert(info.id, number);
                }
                Body::Execute(batch) => {
                    self.batches.insert(from, (batch.clone(), number));
                }
                Body::Read(read) if read.round > 1 => self.stats.rereads += 1,
                _ => {}
            }
        }
    }

    /// A shard did something and answers: what it logged, and its replies.
    ///
    /// # Errors
    /// A transaction was committed twice, or at different timestamps.
    pub fn answered(&mut self, shard: ShardId, out: &Outbox) -> Result<(), String> {
        for logged in std::mem::take(&mut self.shards[usize::from(shard)].log) {
            self.trace(|| format!("shard {shard} {logged:?}"));
            match logged {
                Logged::Committed(txn, c) => {
                    let op = self.attempts.get(&txn).copied().unwrap_or(usize::MAX);
                    let work = self.works.get(&(txn, shard)).cloned().unwrap_or_default();
                    let version = Version { ts: c, seq: 0 };
                    self.apply(version, shard, Some(txn), op, work);
                    self.commit(txn, shard, c)?;
                }
                Logged::Aborted(txn) => {
                    self.stats.aborted += 1;
                    self.aborted.insert(txn, shard);
                }
                Logged::Executed(node, version) => {
                    if let Some((batch, op)) = self.batches.get(&node) {
                        // The batch's work as an Arc of its own.
                        let work = Arc::new(Work {
                            keys: batch.work.keys.clone(),
                            ops: batch.work.ops.clone(),
                            watches: Vec::new(),
                            proto: batch.work.proto,
                        });
                        let op = *op;
                        self.apply(version, shard, None, op, work);
                    }
                }
            }
        }
        for (to, message) in out {
            match &message.body {
                Body::Committed { txn, replies: Some(replies), .. } => {
                    if let Some(a) =
                        self.applied.iter_mut().rev().find(|a| a.txn == Some(*txn) && a.shard == shard)
                    {
                        a.replies = Some(replies.to_vec());
                    }
                }
                Body::Executed { replies: Some(replies), .. } => {
                    if let (Some((_, op)), Some(a)) = (self.batches.get(to), self.applied.last_mut())
                        && a.op == *op
                    {
                        a.replies = Some(replies.clone());
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn apply(
        &mut self,
        version: Version,
        shard: ShardId,
        txn: Option<TxnId>,
        op: usize,
        work: Arc<Work>,
    ) {
        let (step, order) = (self.step, self.applied.len());
        self.applied.push(Applied { version, step, order, shard, txn, op, work, replies: None });
    }

    fn commit(&mut self, txn: TxnId, shard: ShardId, c: u64) -> Result<(), String> {
        self.stats.committed += 1;
        let all = self.committed.entry(txn).or_default();
        if all.insert(shard, c).is_some() {
            return Err(format!("atomicity: {txn:?} is committed twice at shard {shard}"));
        }
        let direct = self.isolation == Isolation::None;
        let is_put = |w: &Arc<Work>| w.ops.iter().any(|o| matches!(o.what, What::Put(..)));
        let evaluated = self.works.get(&(txn, shard)).is_some_and(is_put);
        if (!direct || evaluated) && all.values().any(|other| *other != c) {
            return Err(format!("atomicity: {txn:?} is committed at different timestamps {all:?}"));
        }
        Ok(())
    }

    /// Transactions that are both committed and aborted, or committed at some of their shards only.
    pub(super) fn torn(&self) -> Option<String> {
        for (txn, at) in &self.committed {
            if let Some(s) = self.aborted.get(txn) {
                return Some(format!("atomicity: {txn:?} is committed at {at:?} and aborted at shard {s}"));
            }
            let parts: Vec<_> = self.works.keys().filter(|(t, _)| t == txn).map(|(_, s)| *s).collect();
            if let Some(s) = parts.iter().find(|s| !at.contains_key(s)) {
                return Some(format!("atomicity: {txn:?} is committed at {at:?}, but never at shard {s}"));
            }
        }
        None
    }

    pub(super) fn shows_prepared(&self) -> bool {
        self.shards.iter().any(|s| s.shows_prepared())
    }

    pub(super) fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Whether the shards hold nothing any more but what is stored.
    ///
    /// # Errors
    /// What is left, and where.
    pub fn at_baseline(&self) -> Result<(), String> {
        for s in &self.shards {
            if s.census() != Default::default() {
                return Err(format!("baseline: shard {} still holds {:?}", s.id(), s.census()));
            }
        }
        Ok(())
    }

    /// Checks everything that was done and answered.
    ///
    /// # Errors
    /// The first thing that was wrong.
    pub fn check(&self) -> Result<(), String> {
        super::check::check(self)
    }
}
