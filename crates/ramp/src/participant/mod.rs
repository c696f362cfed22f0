//! The participant's side: the owner of one shard.
//!
//! ```text
//!               reservation needed             Prepare(reserved)
//!   (unknown) ──► Waiting ──► Reserved ────────────┐
//!       │            │            └ time out ─► aborted
//!       │ Prepare    ▼                             ▼
//!       ├──────────► Prepared ◄────────────────────┘
//!       │ refused       │ Commit, a proof, or all others prepared (rule 25)
//!       ▼               ▼
//!    outcomes ◄──── Committed ── stable, then the window ──► outcomes ── horizon ──► forgotten
//! ```
//! *Prepared* makes its keys hot (their versions are kept) and, where it reserved them, closed to other writers. *Committed* keeps
//! them hot until everybody has committed it and the window has passed. *Outcomes* answer repeated messages until the
//! horizon. Everything is found by transaction (`txns`, `outcomes`) or by the fingerprint of a key (`keys`).
mod commit;
mod execute;
mod grant;
mod local;
mod prepared;
mod reads;
mod termination;

pub use execute::{Carried, Executed};
pub use local::{LocalOp, commit_local};

use crate::{
    Config, Fault, Hlc, ShardId, TxnId,
    message::{Batch, Body, Message, Node, Outbox, Proof, Read, ReadAnswer, Refusal, TxnInfo, Work},
};
use hashbrown::HashMap;
use kintsugidb_engine::{Shard, TxnRecord};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// A shard and what its owner knows of transactions.
#[derive(Debug)]
pub struct Participant {
    id: ShardId,
    /// The data.
    pub shard: Shard,
    clock: Hlc,
    config: Config,
    now_us: u64,
    txns: HashMap<TxnId, Txn>,
    keys: HashMap<u64, KeyState>,
    outcomes: HashMap<TxnId, Settled>,
    queue: VecDeque<Waiting>,
    timers: Timers,
    scratch: Option<Box<Shard>>,
    /// What was committed and aborted, for the simulator's checker.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) log: Vec<crate::sim::Logged>,
    /// The version of what [`Participant::execute_one`] wrote last, for the same.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) wrote: Option<kintsugidb_engine::Version>,
}

/// What is going on at one key.
#[derive(Debug, Default)]
struct KeyState {
    /// Prepared transactions that write it.
    pending: Vec<TxnId>,
    /// Who has reserved it.
    exclusive: Option<TxnId>,
    /// Who keeps it from being written.
    shared: Vec<TxnId>,
    /// Committed ones whose metadata are kept.
    recent: Vec<TxnId>,
}

impl KeyState {
    fn is_reserved(&self) -> bool {
        self.exclusive.is_some() || !self.shared.is_empty()
    }

    fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.recent.is_empty() && !self.is_reserved()
    }
}

#[derive(Debug)]
struct Txn {
    info: Arc<TxnInfo>,
    work: Arc<Work>,
    /// Who waits for its replies.
    reply_to: Node,
    state: State,
    /// What the others have answered: their `p`, or that they have committed (`u64::MAX`).
    answers: BTreeMap<ShardId, u64>,
}

#[derive(Debug)]
enum State {
    Waiting(Option<Arc<Read>>),
    Reserved,
    Prepared {
        p: u64,
    },
    Committed {
        p: u64,
        c: u64,
        seq: u64,
        stable: bool,
        replies: Option<Arc<Vec<ReadAnswer>>>,
        record: Option<TxnRecord>,
    },
}

/// How a transaction that is not in hand any more ended.
#[derive(Clone, Debug)]
enum Settled {
    Committed { p: u64, c: u64, seq: u64, replies: Option<Arc<Vec<ReadAnswer>>> },
    Refused(Refusal),
}

/// A request that waits for reservations of others to end.
#[derive(Debug)]
enum Waiting {
    Txn(TxnId),
    Batch { batch: Arc<Batch>, reply_to: Node },
}

/// What is to be looked at, and when. Each queue has one delay, so it is in order.
#[derive(Debug, Default)]
struct Timers {
    reserved: VecDeque<(u64, TxnId)>,
    prepared: VecDeque<(u64, TxnId)>,
    unstable: VecDeque<(u64, TxnId)>,
    window: VecDeque<(u64, TxnId)>,
    horizon: VecDeque<TxnId>,
    /// Records for one-sided readers, and the epoch in which each became stable.
    records: VecDeque<(u64, TxnRecord)>,
    epoch: u64,
    next_epoch_us: u64,
    /// The commit sequence at past moments.
    marks: VecDeque<(u64, u64)>,
    next_mark_us: u64,
}

/// Sizes of a participant's tables, for INFO and for the test that everything returns to where it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Transactions in hand, waiting or prepared.
    pub open: usize,
    /// Committed ones whose metadata are kept.
    pub recent: usize,
    /// Outcomes kept.
    pub outcomes: usize,
    /// Requests that wait for reservations.
    pub queued: usize,
    /// Keys with something going on.
    pub keys: usize,
    /// Hot keys.
    pub hot: usize,
    /// Versions kept for them.
    pub versions: usize,
}

impl Participant {
    /// The owner of `shard`, whose number is `id`.
    pub fn new(id: ShardId, shard: Shard, config: Config) -> Self {
        Self {
            id,
            shard,
            clock: Hlc::shard(id),
            config,
            now_us: 0,
            txns: HashMap::new(),
            keys: HashMap::new(),
            outcomes: HashMap::new(),
            queue: VecDeque::new(),
            timers: Timers::default(),
            scratch: None,
            #[cfg(any(test, feature = "sim"))]
            log: Vec::new(),
            #[cfg(any(test, feature = "sim"))]
            wrote: None,
        }
    }

    /// The shard's number.
    pub fn id(&self) -> ShardId {
        self.id
    }

    /// Its clock: the highest timestamp issued or seen.
    pub fn clock(&self) -> u64 {
        self.clock.last()
    }

    /// The sizes of its tables.
    pub fn census(&self) -> Census {
        let recent = self.txns.values().filter(|t| matches!(t.state, State::Committed { .. })).count();
        let (hot, versions) = self.shard.history_len();
        Census {
            open: self.txns.len() - recent,
            recent,
            outcomes: self.outcomes.len(),
            queued: self.queue.len(),
            keys: self.keys.len(),
            hot,
            versions,
        }
    }

    #[inline]
    fn set_now(&mut self, now_us: u64) {
        if now_us > self.now_us {
            self.now_us = now_us;
            self.shard.now_ms = now_us / 1000;
        }
    }

    fn see(&mut self, clock: u64, proofs: Option<&[Proof]>, out: &mut Outbox) {
        if self.config.faults.has(Fault::NoClock) {
            return;
        }
        self.clock.see(clock);
        for p in proofs.unwrap_or_default() {
            self.commit_prepared(*p, out);
        }
    }

    /// Handles a message. `from` is where answers go.
    pub fn handle(&mut self, from: Node, message: Message, now_us: u64, out: &mut Outbox) {
        self.set_now(now_us);
        self.see(message.clock, message.proofs.as_deref(), out);
        match message.body {
            Body::Execute(batch) => self.on_execute(from, batch, out),
            Body::Read(read) => self.on_read(from, &read, out),
            Body::Reserve(info, work, read) => self.on_reserve(from, info, work, read, out),
            Body::Prepare { info, work, reserved } => self.on_prepare(from, info, work, reserved, out),
            Body::Commit(proof) => self.on_commit(from, proof, out),
            Body::Abort(txn) => self.on_abort(txn, out),
            Body::Stable(txn) => self.on_stable(txn, true),
            Body::Ask { info, committed } => self.on_ask(from, &info, committed, out),
            Body::Answer { txn, standing } => {
                if let Node::Shard(shard) = from {
                    self.on_answer(shard, txn, standing, out);
                }
            }
            Body::Apply(info, work) => self.on_apply(from, &info, &work, out),
            // Answers to a coordinator; no shard gets them.
            Body::Executed { .. }
            | Body::ReadReply { .. }
            | Body::Prepared { .. }
            | Body::Refused { .. }
            | Body::Committed { .. } => {}
        }
    }

    fn send(&self, to: Node, body: Body, out: &mut Outbox) {
        let clock = if self.config.faults.has(Fault::NoClock) { 0 } else { self.clock.last() };
        out.push((to, Message { clock, proofs: None, body }));
    }

    /// Whether a transaction of this name is too old to be prepared, and its outcome may be forgotten (rule 26).
    fn is_beyond_horizon(&self, txn: TxnId) -> bool {
        !self.config.faults.has(Fault::ForgetOutcomes)
            && txn.age_us(self.clock.peek(self.now_us)) > self.config.horizon_us
    }

    fn settle(&mut self, txn: TxnId, how: Settled) {
        if self.config.faults.has(Fault::ForgetOutcomes) {
            return;
        }
        if self.outcomes.insert(txn, how).is_none() {
            self.timers.horizon.push_back(txn);
        }
    }
}
