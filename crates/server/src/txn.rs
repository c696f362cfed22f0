//! Transactions in hand on this thread: their messages in and out, and what they are for.
//!
//! ```text
//!   start ──► Transaction (ramp) ──► messages ─┬─► shards of this thread: `queue`, worked off in the same turn
//!                  ▲                           └─► other threads: their batch
//!                  └── messages for Coordinator { id: this thread, request } ◄──────┘
//! ```
//! A transaction belongs to a connection, or to a single call of another thread's connection that met a reservation. It
//! goes on if its connection is closed meanwhile; if the thread dies, its participants settle it among themselves.
use crate::{all::AllPart, conn::Conn, mailbox::Token, registry::Entry, worker::Worker};
use kintsugidb_ramp::{
    Outcome, Request, Session, Transaction,
    message::{Message, Node, Outbox},
};
use kintsugidb_wire::{OwnedArgs, Proto, Reply};
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// A command that outlives the buffer it was read into.
pub(crate) struct Queued {
    pub entry: &'static Entry,
    pub args: OwnedArgs,
}

/// What a connection waits for.
pub(crate) enum Pending {
    /// Parts from all threads.
    All { entry: &'static Entry, left: usize, part: AllPart, then: Then },
    /// The end of a transaction.
    Transaction(Then),
}

/// What happens with the replies.
pub(crate) enum Then {
    /// They are the reply.
    Answer,
    /// They say that keys are watched.
    Watched,
    /// They are part of what EXEC answers.
    Exec(Box<Exec>),
}

/// EXEC on its way through what was queued.
pub(crate) struct Exec {
    pub steps: VecDeque<Step>,
    pub replies: Reply,
}

/// A part of EXEC.
pub(crate) enum Step {
    /// Commands that are one transaction.
    Group(Vec<Request>),
    /// A command over all shards.
    All(Queued),
}

/// For whom a transaction runs.
#[derive(Clone, Copy)]
pub(crate) enum Who {
    /// A connection of this thread.
    Conn(Token),
    /// One call of a connection of another thread.
    Call { thread: usize, token: Token, seq: u64 },
}

/// A transaction in hand, with the session of its connection.
pub(crate) struct InHand {
    who: Who,
    transaction: Transaction,
    session: Session,
}

impl Worker {
    /// Begins a transaction. Its end is there at once, or comes to [`Worker::finish`].
    pub fn start(
        &mut self,
        who: Who,
        mut session: Session,
        requests: Vec<Request>,
        proto: Proto,
    ) -> Option<(Session, Outcome)> {
        self.stats().transactions.add(1);
        let mut out = Outbox::new();
        let now_us = self.owner.now_us;
        let (transaction, outcome) = self.coordinator.start(&mut session, requests, proto, now_us, &mut out);
        let request = transaction.request();
        self.route(Node::Coordinator { id: self.me as u16, request }, &mut out);
        if let Some(outcome) = outcome {
            return Some((session, outcome));
        }
        self.transactions.insert(request, InHand { who, transaction, session });
        None
    }

    /// Begins a transaction of a connection, which waits for its end.
    pub fn start_for(&mut self, conn: &mut Conn, requests: Vec<Request>, then: Then) {
        let mut session = std::mem::take(&mut conn.session);
        if matches!(then, Then::Answer) {
            // A command by itself neither checks nor ends what is watched: that is for EXEC.
            conn.watches_aside = session.take_watches();
        }
        match self.start(Who::Conn(conn.token), session, requests, conn.out.proto()) {
            Some((session, outcome)) => {
                conn.take_back(session);
                self.after(conn, outcome, then);
            }
            None => conn.pending = Some(Pending::Transaction(then)),
        }
    }

    /// Sends messages on their way.
    pub fn route(&mut self, from: Node, out: &mut Outbox) {
        for (to, message) in out.drain(..) {
            self.send(from, to, message);
        }
    }

    pub fn send(&mut self, from: Node, to: Node, message: Message) {
        let thread = match to {
            Node::Shard(s) => self.thread_of(usize::from(s)),
            // A native client's number, too, tells the thread that holds its connection.
            Node::Coordinator { id, .. } => usize::from(id) % self.outboxes.len(),
        };
        if thread == self.me {
            self.queue.push_back((from, to, message));
        } else {
            self.outbox(thread).messages.push((from, to, message));
        }
    }

    /// Sends what a participant of this thread has put out.
    pub fn route_owned(&mut self, shard: usize) {
        if !self.owner.out.is_empty() {
            let mut out = std::mem::take(&mut self.owner.out);
            self.route(Node::Shard(shard as u16), &mut out);
            self.owner.out = out;
        }
        if !self.owner.more.is_empty() {
            for (from, to, message) in std::mem::take(&mut self.owner.more) {
                self.send(from, to, message);
            }
        }
    }

    /// Works off the messages for this thread.
    pub fn work_off(&mut self) {
        while let Some((from, to, message)) = self.queue.pop_front() {
            let handled = catch_unwind(AssertUnwindSafe(|| match to {
                Node::Shard(shard) => {
                    let shard = usize::from(shard);
                    let place = self.owner.place(shard);
                    let owner = &mut self.owner;
                    owner.parts[place].handle(from, message, owner.now_us, &mut owner.out);
                    self.route_owned(shard);
                }
                Node::Coordinator { id, request } if usize::from(id) == self.me => {
                    self.coordinate(from, request, message);
                }
                Node::Coordinator { id, request } => self.answer_native(id, request, from, message),
            }));
            if handled.is_err() {
                self.stats().panics.add(1);
                self.owner.out.clear();
            }
        }
    }

    fn coordinate(&mut self, from: Node, request: u64, message: Message) {
        let Node::Shard(shard) = from else { return };
        // Taken out while it works: a panic in it drops it, as if the coordinator had died.
        let Some(mut t) = self.transactions.remove(&request) else { return };
        let (mut out, now_us) = (Outbox::new(), self.owner.now_us);
        let outcome =
            t.transaction.on_message(&mut self.coordinator, &mut t.session, shard, message, now_us, &mut out);
        self.advance(request, t, outcome, &mut out);
    }

    fn advance(&mut self, request: u64, t: InHand, outcome: Option<Outcome>, out: &mut Outbox) {
        self.route(Node::Coordinator { id: self.me as u16, request }, out);
        match outcome {
            Some(outcome) => self.finish(t.who, t.session, outcome),
            None => {
                self.transactions.insert(request, t);
            }
        }
    }

    /// Lets transactions in hand see that time passes.
    pub fn tick_transactions(&mut self) {
        if self.transactions.is_empty() {
            return;
        }
        let requests: Vec<_> = self.transactions.keys().copied().collect();
        for request in requests {
            let Some(mut t) = self.transactions.remove(&request) else { continue };
            let (mut out, now_us) = (Outbox::new(), self.owner.now_us);
            let outcome = t.transaction.on_tick(&mut self.coordinator, &mut t.session, now_us, &mut out);
            self.advance(request, t, outcome, &mut out);
        }
        self.work_off();
    }

    fn finish(&mut self, who: Who, session: Session, outcome: Outcome) {
        match who {
            Who::Conn(token) => self.with_conn(token, |w, conn| {
                conn.take_back(session);
                if let Some(Pending::Transaction(then)) = conn.pending.take() {
                    w.after(conn, outcome, then);
                }
                w.go_on(conn);
            }),
            Who::Call { thread, token, seq } => {
                let mut reply = Vec::new();
                match outcome {
                    Outcome::Replies(mut r) => reply = r.pop().unwrap_or_default(),
                    Outcome::Nil => reply.extend_from_slice(b"*-1\r\n"),
                    Outcome::Error(e) => reply = format!("-{e}\r\n").into_bytes(),
                }
                self.outbox(thread).reply(token, seq, session.clock(), &reply, false);
                self.release(thread, token);
            }
        }
    }

    /// A transaction of a connection has ended.
    fn after(&mut self, conn: &mut Conn, outcome: Outcome, then: Then) {
        conn.note_watches();
        match (outcome, then) {
            (Outcome::Replies(r), Then::Answer) => r.iter().for_each(|r| conn.out.raw(r)),
            (Outcome::Replies(_), Then::Watched) => conn.out.ok(),
            (Outcome::Replies(r), Then::Exec(mut exec)) => {
                r.iter().for_each(|r| exec.replies.raw(r));
                self.continue_exec(conn, exec);
            }
            (Outcome::Nil, _) => {
                self.stats().watch_failures.add(1);
                conn.out.null_array();
            }
            (Outcome::Error(e), _) => conn.out.error(e),
        }
    }
}
