//! The cluster: shards, clients, the network between them, and time.
use super::{
    Logged, Options, Rng, STEP_US, Stats, client::Client, client::Record, config, trace::Line, work::Keys,
};
use crate::{
    Config, EPOCH_US, Participant, ShardId, TxnId,
    message::{Batch, Body, Message, Node, Outbox, ReadAnswer, What, Work},
    participant::Census,
};
use kintsugidb_engine::{Shard, Version};
use std::{collections::BTreeMap, sync::Arc};

const SHARDS: u16 = 3;

struct Flight {
    from: Node,
    to: Node,
    message: Message,
}

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

pub(super) struct World {
    options: Options,
    rng: Rng,
    config: Config,
    pub step: u64,
    pub shards: Vec<Participant>,
    skew: Vec<i64>,
    net: Vec<Flight>,
    pub(super) clients: Vec<Client>,
    next_client: u16,
    keys: Keys,
    loss: usize,
    repeat: usize,
    death: usize,
    lazy: usize,
    pub records: Vec<Record>,
    /// Transactions' parts as they were sent, and the operation that each attempt belongs to.
    works: BTreeMap<(TxnId, ShardId), Arc<Work>>,
    pub attempts: BTreeMap<TxnId, usize>,
    batches: BTreeMap<Node, (Arc<Batch>, usize)>,
    pub applied: Vec<Applied>,
    pub committed: BTreeMap<TxnId, BTreeMap<ShardId, u64>>,
    aborted: BTreeMap<TxnId, ShardId>,
    pub stats: Stats,
}

impl World {
    pub fn new(options: Options) -> Self {
        let mut rng = Rng::new(options.seed);
        let config = config(&options, &mut rng);
        let region = kintsugidb_engine::Config { reserve_bytes: 1 << 30, ..Default::default() };
        let shard = |id| {
            let shard = Shard::create(1, region.clone()).expect("address space for a small region");
            Participant::new(id, shard, config.clone())
        };
        let shards = (0..SHARDS).map(shard).collect();
        let keys = Keys::new(&mut rng, SHARDS);
        let n = rng.pick(&[3, 4]);
        let clients = (0..n).map(|id| Client::new(id, SHARDS, config.clone(), &mut rng)).collect();
        let mut skew: Vec<_> = (0..SHARDS).map(|_| rng.pick(&[0, 0, 40, -60, 200])).collect();
        // These two live on one thread.
        skew[1] = skew[0];
        Self {
            options,
            step: 0,
            shards,
            skew,
            net: Vec::new(),
            clients,
            next_client: n,
            keys,
            loss: rng.pick(&[0, 50, 150]),
            repeat: rng.pick(&[0, 50, 150]),
            death: rng.pick(&[0, 2, 6]),
            lazy: rng.pick(&[300, 600, 900]),
            records: Vec::new(),
            works: BTreeMap::new(),
            attempts: BTreeMap::new(),
            batches: BTreeMap::new(),
            applied: Vec::new(),
            committed: BTreeMap::new(),
            aborted: BTreeMap::new(),
            stats: Stats::default(),
            rng,
            config,
        }
    }

    fn now_us(&self, skew: i64) -> u64 {
        EPOCH_US + (self.step + 1000).saturating_add_signed(skew) * STEP_US
    }

    /// The time at the thread that has shards and clients.
    pub(super) fn local_now(&self) -> u64 {
        self.now_us(self.skew[0])
    }

    fn trace(&self, line: impl FnOnce() -> String) {
        if self.options.trace {
            println!("{:6} {}", self.step, line());
        }
    }

    pub fn run(&mut self) -> Result<(), String> {
        for _ in 0..self.options.steps {
            self.step += 1;
            if self.rng.chance(self.death) {
                self.kill();
            }
            if !self.net.is_empty() && self.rng.chance(self.lazy) {
                self.deliver(false)?;
            }
            let c = self.rng.below(self.clients.len());
            if self.clients[c].busy.is_none() && self.rng.chance(300) {
                self.begin(c);
            }
            self.tick()?;
        }
        // Nothing is lost from here on, and nothing new begins: everything has to come to its end.
        let mut left = 14_000;
        while self.clients.iter().any(|c| c.busy.is_some())
            || !self.net.is_empty()
            || self.shards.iter().any(|s| s.census().open > 0 || s.census().queued > 0)
        {
            self.step += 1;
            left -= 1;
            if left == 0 {
                let open: Vec<_> = self.shards.iter().map(Participant::census).collect();
                let busy: Vec<_> = self.clients.iter().filter_map(|c| Some(c.busy.as_ref()?.1)).collect();
                return Err(format!("termination: operations {busy:?} do not end; shards {open:?}"));
            }
            if !self.net.is_empty() {
                self.deliver(true)?;
            }
            self.tick()?;
        }
        self.baseline()
    }

    /// Windows and horizons pass: nothing must be left.
    fn baseline(&mut self) -> Result<(), String> {
        for _ in 0..400 {
            self.step += 20;
            for s in 0..self.shards.len() {
                self.tick_shard(s)?;
            }
            while !self.net.is_empty() {
                self.deliver(true)?;
            }
        }
        for s in &self.shards {
            if s.census() != Census::default() {
                return Err(format!("baseline: shard {} still holds {:?}", s.id(), s.census()));
            }
        }
        Ok(())
    }

    fn kill(&mut self) {
        let c = self.rng.below(self.clients.len());
        self.trace(|| format!("client {} dies", self.clients[c].id));
        self.stats.deaths += 1;
        let id = self.next_client;
        self.next_client += 1;
        self.clients[c] = Client::new(id, SHARDS, self.config.clone(), &mut self.rng);
    }

    fn begin(&mut self, c: usize) {
        let may_watch = self.clients[c].session.watches().is_empty();
        let doing = self.keys.next(&mut self.rng, may_watch);
        let number = self.records.len();
        self.stats.ops += 1;
        self.trace(|| format!("client {} begins {number}: {doing:?}", self.clients[c].id));
        if self.rng.chance(250) && self.locally(c, &doing) {
            self.stats.local += 1;
            return self.trace(|| format!("client {} has done {number} locally", self.clients[c].id));
        }
        let now = self.now_us(self.clients[c].skew);
        let mut out = Outbox::new();
        let record = self.clients[c].begin(doing, number, self.step, now, &mut out);
        self.records.push(record);
        self.sent(c, out);
    }

    /// Messages of a client go out.
    fn sent(&mut self, c: usize, out: Outbox) {
        let client = &self.clients[c];
        let Some((t, number)) = &client.busy else {
            let from = Node::Coordinator { id: client.id, request: 0 };
            return self.net.extend(out.into_iter().map(|(to, message)| Flight { from, to, message }));
        };
        let (number, from) = (*number, Node::Coordinator { id: client.id, request: t.request() });
        for (to, message) in out {
            if let Node::Shard(shard) = to {
                match &message.body {
                    Body::Prepare { info, work, .. } | Body::Apply(info, work) => {
                        self.works.insert((info.id, shard), work.clone());
                        self.attempts.insert(info.id, number);
                    }
                    Body::Execute(batch) => {
                        self.batches.insert(from, (batch.clone(), number));
                    }
                    Body::Read(read) if read.round > 1 => self.stats.rereads += 1,
                    _ => {}
                }
            }
            self.net.push(Flight { from, to, message });
        }
    }

    fn tick(&mut self) -> Result<(), String> {
        let s = self.rng.below(self.shards.len());
        self.tick_shard(s)?;
        let c = self.rng.below(self.clients.len());
        let now = self.now_us(self.clients[c].skew);
        let mut out = Outbox::new();
        let client = &mut self.clients[c];
        let Some((t, number)) = &mut client.busy else { return Ok(()) };
        let number = *number;
        let outcome = t.on_tick(&mut client.coordinator, &mut client.session, now, &mut out);
        self.sent(c, out);
        self.ended(c, number, outcome);
        Ok(())
    }

    fn ended(&mut self, c: usize, number: usize, outcome: Option<crate::Outcome>) {
        let Some(outcome) = outcome else { return };
        self.trace(|| format!("client {} ends {number}: {}", self.clients[c].id, shown(&outcome)));
        let step = self.step;
        self.clients[c].end(&mut self.records[number], outcome, step);
    }

    fn tick_shard(&mut self, s: usize) -> Result<(), String> {
        let now = self.now_us(self.skew[s]);
        let mut out = Outbox::new();
        self.shards[s].tick(now, &mut out);
        self.answered(s, out)
    }

    fn deliver(&mut self, safely: bool) -> Result<(), String> {
        let i = if self.rng.chance(700) { self.rng.below(self.net.len()) } else { 0 };
        let once = matches!(self.net[i].message.body, Body::Execute(_) | Body::Executed { .. });
        if !safely && !once && self.rng.chance(self.loss) {
            let lost = self.net.remove(i);
            self.trace(|| format!("lost {}", Line(&lost.from, &lost.to, &lost.message)));
            return Ok(());
        }
        let flight = if !safely && !once && self.rng.chance(self.repeat) {
            let f = &self.net[i];
            Flight { from: f.from, to: f.to, message: f.message.clone() }
        } else {
            self.net.remove(i)
        };
        self.trace(|| Line(&flight.from, &flight.to, &flight.message).to_string());
        match flight.to {
            Node::Shard(s) => {
                let now = self.now_us(self.skew[s as usize]);
                let mut out = Outbox::new();
                self.shards[s as usize].handle(flight.from, flight.message, now, &mut out);
                self.answered(s as usize, out)
            }
            Node::Coordinator { id, request } => {
                let Node::Shard(from) = flight.from else { return Ok(()) };
                let Some(c) = self.clients.iter().position(|c| c.id == id) else { return Ok(()) };
                let now = self.now_us(self.clients[c].skew);
                let client = &mut self.clients[c];
                let Some((t, number)) = &mut client.busy else { return Ok(()) };
                if t.request() != request {
                    return Ok(());
                }
                let (number, mut out) = (*number, Outbox::new());
                let (co, session) = (&mut client.coordinator, &mut client.session);
                let outcome = t.on_message(co, session, from, flight.message, now, &mut out);
                self.sent(c, out);
                self.ended(c, number, outcome);
                Ok(())
            }
        }
    }

    /// A shard did something: what it logged, and its messages.
    pub(super) fn answered(&mut self, s: usize, out: Outbox) -> Result<(), String> {
        let shard = s as ShardId;
        for logged in std::mem::take(&mut self.shards[s].log) {
            self.trace(|| format!("shard {s} {logged:?}"));
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
                    if let (Some((_, op)), Some(a)) = (self.batches.get(&to), self.applied.last_mut())
                        && a.op == *op
                    {
                        a.replies = Some(replies.clone());
                    }
                }
                _ => {}
            }
            self.net.push(Flight { from: Node::Shard(shard), to, message });
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
        let direct = self.options.isolation == crate::Isolation::None;
        let is_put = |w: &Arc<Work>| w.ops.iter().any(|o| matches!(o.what, What::Put(..)));
        let evaluated = self.works.get(&(txn, shard)).is_some_and(is_put);
        if (!direct || evaluated) && all.values().any(|other| *other != c) {
            return Err(format!("atomicity: {txn:?} is committed at different timestamps {all:?}"));
        }
        Ok(())
    }

    /// Transactions that are both committed and aborted, or committed at some of their shards only.
    pub fn torn(&self) -> Option<String> {
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

    pub fn isolation(&self) -> crate::Isolation {
        self.options.isolation
    }
}

fn shown(outcome: &crate::Outcome) -> String {
    match outcome {
        crate::Outcome::Replies(all) => {
            all.iter().map(|r| r.escape_ascii().to_string()).collect::<Vec<_>>().join(" | ")
        }
        other => format!("{other:?}"),
    }
}
