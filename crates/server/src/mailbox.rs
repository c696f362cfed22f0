//! Messages between threads.
//!
//! ```text
//!   thread a                                thread b
//!   outbox for b: Batch  --- one push a turn ---> Mailbox of b: Vec<Batch> --- swapped out once a turn
//!                                                  eventfd, rung only if b sleeps
//! ```
//! A thread collects what it has for another in one [`Batch`] and hands it over once a turn of its loop: one lock and at most one
//! system call for all of it, however many requests it holds. Requests and replies are packed in shared
//! buffers: no allocation each. Emptied batches are used again.
//!
//! Order: what a thread sends to another arrives in the order sent, calls among themselves and letters among themselves.
//! A connection that needs more order than that waits for the answer first.
use crate::{letter::Letter, poll::Bell};
use kintsugidb_engine::Command;
use kintsugidb_ramp::{
    ShardId,
    message::{Message, Node, Proof, Seen},
};
use kintsugidb_wire::Proto;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

/// A connection of some thread. Its generation tells it from an earlier one at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Token {
    pub index: u32,
    pub generation: u32,
}

impl Token {
    pub fn to_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub fn from_u64(n: u64) -> Self {
        Self { index: n as u32, generation: (n >> 32) as u32 }
    }
}

/// A command for the owner of its key.
pub(crate) struct CallHead {
    pub token: Token,
    /// Which of the connection's replies it is.
    pub seq: u64,
    pub shard: usize,
    pub proto: Proto,
    pub command: &'static Command,
    /// The highest timestamp that the connection has seen, and transactions that it has read from.
    pub clock: u64,
    pub proofs: Option<Arc<[Proof]>>,
    /// Where its arguments end in [`Batch::ends`].
    pub args_end: usize,
}

/// The reply to it.
pub(crate) struct ReplyHead {
    pub token: Token,
    pub seq: u64,
    pub clock: u64,
    /// Where it ends in [`Batch::reply_bytes`].
    pub end: usize,
    /// The command failed in a way that must not happen: the connection is closed.
    pub fatal: bool,
}

/// What one thread has for another.
#[derive(Default)]
pub(crate) struct Batch {
    pub from: usize,
    pub calls: Vec<CallHead>,
    pub bytes: Vec<u8>,
    pub ends: Vec<usize>,
    pub replies: Vec<ReplyHead>,
    pub reply_bytes: Vec<u8>,
    /// What connections have to take note of, with the replies of this batch.
    pub seen: Vec<(Token, ShardId, Vec<Seen>)>,
    /// Messages of transactions: from whom, to whom.
    pub messages: Vec<(Node, Node, Message)>,
    pub letters: Vec<Letter>,
}

/// Capacity that an emptied batch may keep.
const KEEP: usize = 1 << 20;

impl Batch {
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
            && self.replies.is_empty()
            && self.letters.is_empty()
            && self.messages.is_empty()
    }

    /// Adds a call; the head's `args_end` is filled in.
    pub fn call(&mut self, mut head: CallHead, args: &[&[u8]]) {
        for a in args {
            self.bytes.extend_from_slice(a);
            self.ends.push(self.bytes.len());
        }
        head.args_end = self.ends.len();
        self.calls.push(head);
    }

    /// Adds a reply.
    pub fn reply(&mut self, token: Token, seq: u64, clock: u64, bytes: &[u8], fatal: bool) {
        self.reply_bytes.extend_from_slice(bytes);
        self.replies.push(ReplyHead { token, seq, clock, end: self.reply_bytes.len(), fatal });
    }

    /// Bytes that it carries, roughly.
    pub fn weight(&self) -> usize {
        self.bytes.len() + self.reply_bytes.len()
    }

    pub fn clear(&mut self) {
        self.calls.clear();
        self.replies.clear();
        self.letters.clear();
        self.seen.clear();
        self.messages.clear();
        for v in [&mut self.bytes, &mut self.reply_bytes] {
            v.clear();
            v.shrink_to(KEEP);
        }
        self.ends.clear();
        self.ends.shrink_to(KEEP / 8);
    }
}

/// Where a thread finds what others have for it.
pub(crate) struct Mailbox {
    batches: Mutex<Vec<Batch>>,
    sleeping: AtomicBool,
    pub bell: Bell,
}

impl Mailbox {
    pub fn new() -> rustix::io::Result<Self> {
        Ok(Self { batches: Mutex::default(), sleeping: AtomicBool::new(false), bell: Bell::new()? })
    }

    /// Puts a batch in, and wakes the receiver if it sleeps.
    pub fn send(&self, batch: Batch) {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
        // After the push: either the receiver sees the batch before it sleeps, or we see that it sleeps.
        if self.sleeping.swap(false, Ordering::SeqCst) {
            self.bell.ring();
        }
    }

    /// Takes everything out, into an empty vector.
    pub fn receive(&self, into: &mut Vec<Batch>) {
        std::mem::swap(&mut *self.batches.lock().unwrap_or_else(PoisonError::into_inner), into);
    }

    /// The receiver is about to sleep; false if there is something to do first.
    pub fn may_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        let empty = self.batches.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        if !empty {
            self.sleeping.store(false, Ordering::SeqCst);
        }
        empty
    }

    /// The receiver is awake.
    pub fn awake(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
    }
}
