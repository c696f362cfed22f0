//! One connection: what it sent, what it will be sent, and the order of its replies.
//!
//! ```text
//!   input   [..parsed..|..to parse..]          at: where to parse from
//!   send    [..sent..|..to send..]             replies in order, complete
//!   queue   [before|reply?] [before|reply?] …  replies asked of other threads; `before`: replies that go before it
//!   out     replies after all of these
//! ```
//! A command that runs on this thread appends to `out`. One that runs elsewhere moves `out` into the queue and
//! leaves a gap behind it, to be filled when the answer comes. What stands before the first gap can be sent.
//!
//! Which commands may be outstanding together: single-key commands, because those on the same key go to the same thread,
//! which runs them in the order sent. Those on different keys are concurrent, as if each had come on a connection of its
//! own, until the client has seen their replies: a client that wants one after the other waits for the reply, or uses
//! MULTI. Within one thread they run in the order sent, and each knows what those before it have seen.
//! Everything else (transactions, commands over several keys or all shards) waits until the queue is empty and
//! holds up what follows.
use crate::{clients::ClientCard, mailbox::Token, multi::Multi, native::Io, txn::Pending};
use kintsugidb_ramp::{Session, ShardId, message::Watch};
use kintsugidb_wire::{Parser, Proto, Reply};
use rustix::{io, net};
use std::{collections::VecDeque, sync::Arc};

/// Replies of a connection that may be outstanding at other threads.
const MAX_OUTSTANDING: usize = 512;

/// Bytes of buffers that an idle connection keeps.
const KEEP: usize = 64 * 1024;

struct Gap {
    before: Vec<u8>,
    reply: Option<Vec<u8>>,
    /// The client does not want it (CLIENT REPLY).
    dropped: bool,
}

/// Which replies a client wants (CLIENT REPLY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyMode {
    On,
    Off,
    /// Not the next one.
    SkipNext,
    /// Not this one.
    Skip,
}

pub(crate) struct Conn {
    pub io: Io,
    pub token: Token,
    pub parser: Parser,
    pub input: Vec<u8>,
    pub at: usize,
    /// There may be something to read.
    pub readable: bool,
    /// Nothing more will come from the peer.
    pub ended: bool,
    pub out: Reply,
    send: Vec<u8>,
    sent: usize,
    queue: VecDeque<Gap>,
    first_seq: u64,
    queued_bytes: usize,
    /// The largest of the last replies from elsewhere, decaying: how many more may be asked for.
    typical_reply: usize,
    /// Outstanding calls, by thread.
    pub calls: Box<[u32]>,
    /// Epoll reports when there is room to write.
    pub writing: bool,
    /// It is among those to be flushed at the end of this turn.
    pub dirty: bool,
    /// It is among those that have input left to be looked at in the next turn.
    pub ready: bool,
    /// Close once everything is sent.
    pub closing: bool,
    /// A command that holds up the others.
    pub pending: Option<Pending>,
    pub multi: Multi,
    /// What it has seen, for the order of what it does.
    pub session: Session,
    /// What is watched, while a command that is none of EXEC runs as a transaction.
    pub watches_aside: Vec<(ShardId, Watch)>,
    pub reply_mode: ReplyMode,
    pub card: Arc<ClientCard>,
    /// Sections that an INFO under way was asked for.
    pub info_sections: Vec<String>,
}

impl Conn {
    pub fn new(io: Io, token: Token, threads: usize, card: Arc<ClientCard>) -> Self {
        Self {
            io,
            token,
            parser: Parser::new(),
            input: Vec::new(),
            at: 0,
            readable: true,
            ended: false,
            out: Reply::new(Proto::Resp2),
            send: Vec::new(),
            sent: 0,
            queue: VecDeque::new(),
            first_seq: 0,
            queued_bytes: 0,
            typical_reply: 0,
            calls: vec![0; threads].into(),
            writing: false,
            dirty: false,
            ready: false,
            closing: false,
            pending: None,
            multi: Multi::default(),
            session: Session::default(),
            watches_aside: Vec::new(),
            reply_mode: ReplyMode::On,
            card,
            info_sections: Vec::new(),
        }
    }

    /// Ends MULTI and WATCH.
    pub fn end_multi(&mut self) {
        self.multi.take();
        self.unwatch();
        self.card.queued.store(0, std::sync::atomic::Ordering::Relaxed);
    }

    /// Takes its session back from a transaction.
    pub fn take_back(&mut self, session: Session) {
        self.session = session;
        if !self.watches_aside.is_empty() {
            self.session.put_watches(std::mem::take(&mut self.watches_aside));
        }
    }

    /// Forgets watched keys.
    pub fn unwatch(&mut self) {
        self.session.unwatch();
        self.note_watches();
    }

    /// Notes on the card how many keys are watched.
    pub fn note_watches(&self) {
        self.card.watching.store(self.session.watches().len(), std::sync::atomic::Ordering::Relaxed);
    }

    /// Leaves a gap for a reply that another thread will give; its number.
    pub fn gap(&mut self) -> u64 {
        let before = if self.out.is_empty() { Vec::new() } else { std::mem::take(self.out.buffer()) };
        self.queued_bytes += before.len();
        let dropped = matches!(self.reply_mode, ReplyMode::Off | ReplyMode::Skip);
        self.queue.push_back(Gap { before, reply: None, dropped });
        self.first_seq + self.queue.len() as u64 - 1
    }

    /// Fills a gap.
    pub fn fill(&mut self, seq: u64, reply: &[u8]) {
        self.typical_reply = reply.len().max(self.typical_reply - self.typical_reply / 8);
        let Some(gap) = seq.checked_sub(self.first_seq).and_then(|i| self.queue.get_mut(i as usize)) else {
            return;
        };
        let reply = if gap.dropped { &[] } else { reply };
        if seq == self.first_seq {
            self.queued_bytes -= gap.before.len();
            append(&mut self.send, &mut gap.before);
            self.send.extend_from_slice(reply);
            self.queue.pop_front();
            self.first_seq += 1;
            self.settle();
        } else {
            self.queued_bytes += reply.len();
            gap.reply = Some(reply.to_vec());
        }
    }

    /// Moves what is complete into `send`.
    fn settle(&mut self) {
        while let Some(gap) = self.queue.front_mut() {
            let Some(reply) = &mut gap.reply else { return };
            self.queued_bytes -= gap.before.len() + reply.len();
            append(&mut self.send, &mut gap.before);
            append(&mut self.send, reply);
            self.queue.pop_front();
            self.first_seq += 1;
        }
    }

    /// Whether replies are outstanding.
    pub fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Bytes of replies that wait here.
    pub fn waiting_bytes(&self) -> usize {
        let native = match &self.io {
            Io::Native(native) => native.waiting(),
            Io::Socket(_) => 0,
        };
        self.send.len() - self.sent + self.queued_bytes + self.out.len() + native
    }

    /// Whether another request may be looked at now.
    pub fn may_go_on(&self, soft_limit: usize) -> bool {
        self.pending.is_none()
            && !self.closing
            && self.waiting_bytes() + self.queue.len() * self.typical_reply
                < soft_limit.max(self.typical_reply + 1)
            && self.queue.len() < MAX_OUTSTANDING
    }

    /// Sends what can be sent. `Ok(true)`: all of it.
    pub fn flush(&mut self) -> io::Result<bool> {
        if self.queue.is_empty() && !self.out.is_empty() {
            append(&mut self.send, self.out.buffer());
        }
        let fd = match &mut self.io {
            Io::Socket(fd) => fd,
            Io::Native(native) => {
                let sent = native.flush(&mut self.send, &self.session);
                self.send.shrink_to(KEEP);
                return sent.map_err(|_| io::Errno::PIPE);
            }
        };
        while self.sent < self.send.len() {
            match net::send(&*fd, &self.send[self.sent..], net::SendFlags::NOSIGNAL) {
                Ok(n) => self.sent += n,
                Err(io::Errno::AGAIN) => return Ok(false),
                Err(io::Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
        self.send.clear();
        self.sent = 0;
        self.send.shrink_to(KEEP);
        Ok(true)
    }

    /// Gives back memory after a large request.
    pub fn trim_input(&mut self) {
        if self.at == self.input.len() {
            self.input.clear();
            self.at = 0;
            if self.input.capacity() > KEEP {
                self.input = Vec::new();
            }
        } else if self.at > self.input.len() / 2 {
            self.input.drain(..self.at);
            self.at = 0;
        }
    }
}

/// Appends `from` to `to`, by exchange if `to` is empty.
fn append(to: &mut Vec<u8>, from: &mut Vec<u8>) {
    if to.is_empty() {
        std::mem::swap(to, from);
    } else {
        to.append(from);
    }
    from.clear();
}
