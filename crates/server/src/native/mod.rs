//! Native clients: connections over a fabric.
//!
//! ```text
//!   client                             server
//!   mapped regions  ◄── read-only ──   the shards' regions           reads: nobody here is asked
//!   RESP frames     ── ring ──►        Conn, as if it were a socket  commands; replies back
//!   RAMP frames     ── ring ──►        claims ─► mailbox ─► owners   PREPARE, COMMIT, reads: the client is the coordinator
//! ```
//! A native connection is a [`Conn`] whose bytes travel in frames (`ramp::wire::frame`). Its number as a coordinator tells the thread
//! that holds it: number mod threads; so owners' answers find their way like those to the server's own coordinators.
//!
//! A thread polls the rings of its *awake* connections once a turn of its loop. One that has said nothing for a while is armed and
//! left to epoll: an idle server sleeps.
//!
//! When a client dies, what it has reserved and not prepared is given back at once. What it has prepared, its participants settle
//! among themselves (PROTOCOL rule 25).
mod claims;
mod numbers;
mod serve;

pub(crate) use numbers::Numbers;

use crate::{conn::Conn, mailbox::Token};
use kintsugidb_fabric::{Connection, Error};
use kintsugidb_ramp::{
    Session, ShardId, TxnId,
    message::Message,
    wire::frame::{self, Frames},
};
use std::{collections::HashMap, time::Instant};

/// Transactions that one client may have in hand.
const MAX_OPEN: usize = 1024;

/// A transaction of a native client, from its first message to its last.
struct Open {
    participants: Box<[ShardId]>,
    /// It may be prepared somewhere: only its participants can tell how it ends.
    prepared: bool,
}

/// What a native connection has besides what every connection has.
pub(crate) struct Native {
    link: Box<dyn Connection>,
    pub coordinator: u16,
    frames: Frames,
    received: Vec<u8>,
    out: Vec<u8>,
    sent: usize,
    answers: Vec<(u64, ShardId, Message)>,
    open: HashMap<TxnId, Open>,
    /// The highest name that a transaction of this client has had.
    last: u64,
    active: Instant,
    awake: bool,
    /// The fabric has taken bytes that it may not have sent yet.
    unsent: bool,
    /// It sleeps, and room to send wakes it.
    watched: bool,
}

impl Native {
    pub fn new(link: Box<dyn Connection>, coordinator: u16) -> Self {
        Self {
            link,
            coordinator,
            frames: Frames::default(),
            received: Vec::new(),
            out: Vec::new(),
            sent: 0,
            answers: Vec::new(),
            open: HashMap::new(),
            last: 0,
            active: Instant::now(),
            awake: false,
            unsent: false,
            watched: false,
        }
    }

    /// Bytes that wait to be sent.
    pub fn waiting(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Looks again at what is left to be sent, once a sleep has been announced, which may have sent it: nobody wakes a connection for room that it
    /// has. `false`: there is room for more.
    fn rests(&mut self) -> bool {
        if self.unsent {
            match self.link.flush() {
                Ok(all) => self.unsent = !all,
                Err(_) => return false,
            }
        }
        self.unsent || self.waiting() == 0
    }

    /// Sends replies and answers, as far as there is room. `Ok(true)`: all of it.
    ///
    /// A RESP frame carries what the session knows then. While a transaction of the connection is in hand its session is with the
    /// transaction; the frame with its reply carries it.
    pub fn flush(&mut self, replies: &mut Vec<u8>, session: &Session) -> Result<bool, Error> {
        if !replies.is_empty() {
            frame::put_resp(&mut self.out, session.clock(), &session.proofs(), replies);
            replies.clear();
        }
        if !self.answers.is_empty() {
            frame::put_ramp(
                &mut self.out,
                self.answers.iter().map(|(request, shard, m)| (*request, *shard, m)),
            );
            self.answers.clear();
        }
        if self.out.is_empty() && !self.unsent {
            return Ok(true);
        }
        let most = self.link.capabilities().max_message_bytes;
        while self.sent < self.out.len() {
            let piece = &self.out[self.sent..];
            let piece = &piece[..piece.len().min(most)];
            match self.link.send(piece) {
                Ok(()) => self.sent += piece.len(),
                Err(Error::Full) => {
                    self.unsent = true;
                    return Ok(false);
                }
                Err(e) => return Err(e),
            }
        }
        self.unsent = !self.link.flush()?;
        self.out.clear();
        self.out.shrink_to(64 << 10);
        self.sent = 0;
        Ok(true)
    }
}

/// What a connection's bytes travel over.
pub(crate) enum Io {
    /// A socket.
    Socket(rustix::fd::OwnedFd),
    /// A fabric.
    Native(Box<Native>),
}

impl Conn {
    /// What it has as a native connection, if it is one.
    pub fn native(&mut self) -> Option<&mut Native> {
        match &mut self.io {
            Io::Native(native) => Some(native),
            Io::Socket(_) => None,
        }
    }
}

impl Natives {
    /// Has a connection polled that went to sleep with nothing to send, and has something left now: room would not wake it.
    pub fn wake_to_send(&mut self, conn: &mut Conn) {
        let token = conn.token;
        if let Some(native) = conn.native()
            && native.unsent
            && !native.awake
            && !native.watched
        {
            native.awake = true;
            self.awake.push(token);
        }
    }
}

/// The connections of a thread that are native: by coordinator number, and those whose rings are polled.
#[derive(Default)]
pub(crate) struct Natives {
    pub by_number: HashMap<u16, Token>,
    pub awake: Vec<Token>,
}
