//! The coordinator's side: a transaction as a state machine that is fed messages and time.
//!
//! ```text
//!                    one shard
//!   start ─┬────────────────────────────► Execute ────────────────────────────────► done
//!          │ reads               writes, watches
//!          ├─► Read ─► (round 2) ─┬─► Prepare ─► Commit ──────────────────────────► done
//!          │                      └────────────────────────────────────────────────► done (nothing to write)
//!          │ must be evaluated, or Locking: reads and writes together
//!          └─► Reserve ─► evaluate ─► Prepare(reserved) ─► Commit ────────────────► done
//!                 └── refused: Abort, wait, again with a new name and the same age ──┘
//! ```
//! A transaction never gives up because of time (rule 8): it sends again what was not answered. It can be dropped at any moment:
//! the participants find out how it ends (rule 25).
mod finish;
pub(crate) mod plan;
mod read;
mod write;

use crate::{
    Config, Hlc, Isolation, Session, ShardId,
    message::{Batch, Body, Found, Message, Node, Outbox, Proof, Refusal},
};
pub(crate) use finish::run;
use kintsugidb_engine::Shard;
use kintsugidb_wire::Proto;
use plan::Plan;
pub use plan::{Request, shard_of};
use read::ReadState;
use std::{collections::BTreeMap, sync::Arc};
use write::WriteState;

/// What all transactions of one thread share.
#[derive(Debug)]
pub struct Coordinator {
    pub(crate) id: u16,
    pub(crate) clock: Hlc,
    pub(crate) config: Config,
    pub(crate) shards: u16,
    next_request: u64,
    scratch: Option<Shard>,
}

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The encoded reply of each request, in order.
    Replies(Vec<Vec<u8>>),
    /// A watched key changed: EXEC answers nil.
    Nil,
    /// Nothing was done (or, if the text says so, nobody knows): an error reply, code first.
    Error(&'static str),
}

/// "Nothing was done, try again".
pub const TRY_AGAIN: &str = "TRYAGAIN too many transactions compete for these keys; nothing was done";
/// A limit was reached.
pub const BUSY: &str = "TRYAGAIN the shard holds as many transactions as it may; nothing was done";
/// A shard has used up its memory.
pub const FULL: &str = "OOM command not allowed when used memory > 'maxmemory'.";
/// Rule 26.
pub const OUTCOME_UNKNOWN: &str = "ERR the transaction took too long, its outcome is unknown";
/// The replies were forgotten before the coordinator asked for them.
pub const REPLIES_FORGOTTEN: &str = "ERR the transaction was committed, but its replies are forgotten";

impl Coordinator {
    /// The coordinator `id` (unique in the process, below [`crate::MAX_COORDINATORS`]) over `shards` shards.
    pub fn new(id: u16, shards: u16, config: Config) -> Self {
        Self { id, clock: Hlc::coordinator(id), config, shards, next_request: 0, scratch: None }
    }

    /// For a coordinator that follows another one of the same number: its transactions are named, and its requests numbered, above
    /// this timestamp.
    pub fn begin_after(&mut self, ts: u64) {
        self.clock.see(ts);
        self.next_request = self.next_request.max(ts);
    }

    /// The shard of a key.
    pub fn shard_of(&self, key: &[u8]) -> ShardId {
        shard_of(key, self.shards)
    }

    /// Its configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Begins a transaction. The messages to send are appended to `out`; if there is nothing to send, the outcome is there.
    ///
    /// `requests` are the commands of EXEC (with what the session watches), a single command of several keys, or WATCHes.
    pub fn start(
        &mut self,
        session: &mut Session,
        requests: Vec<Request>,
        proto: Proto,
        now_us: u64,
        out: &mut Outbox,
    ) -> (Transaction, Option<Outcome>) {
        self.next_request += 1;
        let watching = requests.iter().any(|r| matches!(r, Request::Watch(_)));
        let watched = if watching { &[] } else { session.watches() };
        let plan = plan::plan(&requests, watched, self.shards, proto, &self.config);
        let mut t = Transaction {
            request: self.next_request,
            requests,
            proto,
            found: (0..plan.ops).map(|_| None).collect(),
            evaluated: Vec::new(),
            plan,
            phase: Phase::Start,
            read: ReadState::default(),
            write: WriteState::default(),
            sent: BTreeMap::new(),
            sent_at: now_us,
            attempts: 0,
            slow: 0,
        };
        let outcome = t.begin(self, session, now_us, out);
        (t, outcome)
    }

    /// A scratch shard, empty.
    pub(crate) fn scratch(&mut self, now_us: u64) -> &mut Shard {
        let s = self.scratch.get_or_insert_with(|| Shard::scratch(u64::from(self.id) + 1));
        s.flush();
        s.now_ms = now_us / 1000;
        s
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Start,
    Execute,
    Read,
    Reserve,
    Prepare,
    Commit,
    Apply,
    /// Waits to try again.
    Refused {
        until_us: u64,
    },
    Done,
}

/// One transaction in hand. Dropping it is what happens when a coordinator dies.
pub struct Transaction {
    request: u64,
    requests: Vec<Request>,
    proto: Proto,
    plan: Plan,
    phase: Phase,
    read: ReadState,
    write: WriteState,
    found: Vec<Option<Found>>,
    evaluated: Vec<Vec<u8>>,
    /// The proofs that went to each shard.
    sent: BTreeMap<ShardId, Arc<[Proof]>>,
    sent_at: u64,
    attempts: u32,
    /// Reads that took too long.
    slow: u32,
}

impl Transaction {
    /// Its request number: messages for it come to [`Node::Coordinator`] with this number.
    pub fn request(&self) -> u64 {
        self.request
    }

    /// Whether it has ended.
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Whether it read a second time, because the first time it saw half of another transaction.
    pub fn had_second_round(&self) -> bool {
        self.read.is_second()
    }

    fn begin(
        &mut self,
        co: &mut Coordinator,
        session: &mut Session,
        now_us: u64,
        out: &mut Outbox,
    ) -> Option<Outcome> {
        let clock = co.clock.peek(now_us);
        if !session.make_room(co.config.max_proofs, clock, co.config.horizon_us) {
            self.phase = Phase::Done;
            return Some(Outcome::Error(TRY_AGAIN));
        }
        let shards = self.plan.shards();
        let locking = co.config.isolation == Isolation::Locking;
        if shards.is_empty() {
            return Some(self.finish(co, session, now_us));
        }
        let only_watch = self.requests.iter().any(|r| matches!(r, Request::Watch(_)));
        if shards.len() == 1 && self.plan.reads.is_empty() && !self.plan.writes.is_empty() {
            self.phase = Phase::Execute;
            let work = std::mem::take(self.plan.writes.entry(shards[0]).or_default());
            let body = Body::Execute(Arc::new(Batch { work }));
            self.send(co, session, shards[0], body, out);
            return None;
        }
        if self.plan.evaluate || (locking && !only_watch && !self.plan.reads.is_empty()) {
            self.start_reserve(co, session, now_us, out);
        } else if !self.plan.reads.is_empty() {
            self.start_read(co, session, now_us, out);
        } else {
            self.start_write(co, session, now_us, out);
        }
        None
    }

    /// A message for it has come from a shard. Late and repeated ones are ignored.
    pub fn on_message(
        &mut self,
        co: &mut Coordinator,
        session: &mut Session,
        from: ShardId,
        message: Message,
        now_us: u64,
        out: &mut Outbox,
    ) -> Option<Outcome> {
        if !co.config.faults.has(crate::Fault::NoClock) {
            co.clock.see(message.clock);
            session.see(message.clock);
        }
        if let Some(proofs) = self.sent.remove(&from) {
            session.confirm(from, &proofs);
        }
        match (self.phase, message.body) {
            (Phase::Execute, Body::Executed { replies, seen, refused }) => {
                for s in &seen {
                    session.saw(from, s);
                }
                self.phase = Phase::Done;
                match (replies, refused) {
                    (_, Some(Refusal::Changed)) => Some(self.nil(session)),
                    (_, Some(Refusal::Full)) => Some(self.error(session, FULL)),
                    (_, Some(_)) => Some(self.error(session, BUSY)),
                    (None, None) => Some(self.nil(session)),
                    (Some(replies), None) => {
                        self.store(replies);
                        Some(self.finish(co, session, now_us))
                    }
                }
            }
            (Phase::Read | Phase::Reserve, body @ (Body::ReadReply { .. } | Body::Refused { .. })) => {
                self.on_read_reply(co, session, from, body, now_us, out)
            }
            (Phase::Prepare | Phase::Commit | Phase::Apply, body) => {
                self.on_write_reply(co, session, from, body, now_us, out)
            }
            _ => None,
        }
    }

    /// Time has passed. To be called every few milliseconds; sends again what was not answered.
    pub fn on_tick(
        &mut self,
        co: &mut Coordinator,
        session: &mut Session,
        now_us: u64,
        out: &mut Outbox,
    ) -> Option<Outcome> {
        match self.phase {
            Phase::Refused { until_us } if now_us >= until_us => {
                if self.write.reserves() {
                    self.start_reserve(co, session, now_us, out);
                } else {
                    self.start_write(co, session, now_us, out);
                }
                None
            }
            Phase::Read | Phase::Reserve | Phase::Prepare | Phase::Commit | Phase::Apply
                if now_us.saturating_sub(self.sent_at) >= co.config.resend_us =>
            {
                if self.phase == Phase::Prepare && co.config.faults.has(crate::Fault::AbortOnTimeout) {
                    self.abort(co, session, out);
                    return self.again(co, session, now_us);
                }
                self.sent_at = now_us;
                match self.phase {
                    Phase::Read | Phase::Reserve => self.send_reads(co, session, out),
                    _ => self.send_writes(co, session, out),
                }
                None
            }
            _ => None,
        }
    }

    fn send(&mut self, co: &Coordinator, session: &Session, to: ShardId, body: Body, out: &mut Outbox) {
        let no_clock = co.config.faults.has(crate::Fault::NoClock);
        let proofs = if no_clock { None } else { session.proofs_for(to) };
        if let Some(p) = &proofs {
            self.sent.insert(to, p.clone());
        }
        let clock = if no_clock { 0 } else { session.clock() };
        out.push((Node::Shard(to), Message { clock, proofs, body }));
    }

    fn store(&mut self, answers: impl IntoIterator<Item = crate::message::ReadAnswer>) {
        for a in answers {
            if let Some(place) = self.found.get_mut(a.index as usize) {
                *place = Some(a.found);
            }
        }
    }

    fn nil(&mut self, session: &mut Session) -> Outcome {
        self.phase = Phase::Done;
        session.unwatch();
        Outcome::Nil
    }

    fn error(&mut self, session: &mut Session, text: &'static str) -> Outcome {
        self.phase = Phase::Done;
        if !self.requests.iter().any(|r| matches!(r, Request::Watch(_))) {
            session.unwatch();
        }
        Outcome::Error(text)
    }
}
