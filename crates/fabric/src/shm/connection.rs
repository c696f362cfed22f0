//! The data path over shared memory.

use crate::bell;
use crate::local::Local;
use crate::net::Heard;
use crate::ring::{Piece, Receiver, Sender, Stores, Unsent, piece_bytes};
use crate::sync::{Ordering, fence};
use crate::{
    Access, Buffer, Capabilities, Completion, Connection, Error, Fabric, Mapping, OneSided, RemoteRegion,
    Span, Written, limits, words::copy_words,
};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Words before the ring in an inbox: a page.
const CONTROL: u64 = 512;
const CREDIT: usize = 0;
const ASLEEP: usize = 8;
/// Fruitless polls between two looks at whether the peer still lives.
const LOOK_AT_SOCKET: u32 = 512;

/// Bytes of the rings file for rings of so many bytes.
pub(super) fn file_bytes(ring_bytes: u64) -> u64 {
    2 * (CONTROL * 8 + ring_bytes)
}

/// One side's view of the rings file.
struct Inboxes {
    file: Mapping,
    ring_words: u64,
    mine: u64,
    theirs: u64,
}

impl Inboxes {
    fn control(&self, inbox: u64, word: usize) -> &AtomicU64 {
        &self.file.words()[inbox as usize + word]
    }
    fn ring(&self, inbox: u64) -> &[AtomicU64] {
        &self.file.words()[(inbox + CONTROL) as usize..][..self.ring_words as usize]
    }
}

pub(super) struct Shm {
    socket: OwnedFd,
    inboxes: Inboxes,
    sender: Sender,
    receiver: Receiver,
    /// What is left to send of a message that went in pieces.
    backlog: Vec<u8>,
    /// How much of it is gone.
    sent: usize,
    /// The pieces so far of a message that comes in pieces.
    assembly: Vec<u8>,
    regions: Vec<RemoteRegion>,
    mappings: Vec<Arc<Mapping>>,
    local: Local,
    done: VecDeque<Completion>,
    fruitless: u32,
    armed: bool,
    starved: bool,
    /// Something is in the peer's ring that it has not been told of.
    untold: bool,
    dead: bool,
}

impl Shm {
    /// `listening`: which of the two inboxes is ours. The file's length has been checked against `ring_bytes`.
    pub fn new(
        socket: OwnedFd,
        file: Mapping,
        ring_bytes: u64,
        listening: bool,
        regions: Vec<RemoteRegion>,
        mappings: Vec<Arc<Mapping>>,
    ) -> Shm {
        let ring_words = ring_bytes / 8;
        let other = CONTROL + ring_words;
        let (mine, theirs) = if listening { (0, other) } else { (other, 0) };
        Shm {
            socket,
            inboxes: Inboxes { file, ring_words, mine, theirs },
            sender: Sender::new(ring_words),
            receiver: Receiver::new(ring_words),
            backlog: Vec::new(),
            sent: 0,
            assembly: Vec::new(),
            regions,
            mappings,
            local: Local::default(),
            done: VecDeque::new(),
            fruitless: 0,
            armed: false,
            starved: false,
            untold: false,
            dead: false,
        }
    }

    fn complete(&mut self, token: u64) {
        self.done.push_back(Completion { token, result: Ok(()) });
    }

    fn may_post(&self) -> Result<(), Error> {
        if self.dead {
            Err(Error::PeerDead)
        } else if self.done.len() >= limits::OUTSTANDING {
            Err(Error::Full)
        } else {
            Ok(())
        }
    }

    /// Rings if the peer sleeps. Something has been stored for it before.
    fn wake_peer(&mut self) -> Result<(), Error> {
        self.untold = false;
        if bell::must_ring(self.inboxes.control(self.inboxes.mine, ASLEEP)) {
            // If it does not fit, the peer has bells enough to wake up.
            if crate::net::send(&self.socket, &[1])?.is_none() {
                self.dead = true;
            }
        }
        Ok(())
    }

    /// Empties the socket; notices the peer's end.
    fn look_at_socket(&mut self) -> Result<(), Error> {
        let mut bells = [0; 256];
        loop {
            match crate::net::receive(&self.socket, &mut bells)? {
                Heard::Bytes(count) if count == bells.len() => {}
                Heard::Bytes(_) | Heard::Nothing => return Ok(()),
                Heard::End => {
                    self.dead = true;
                    return Ok(());
                }
            }
        }
    }

    fn disarm(&mut self) -> Result<(), Error> {
        if self.armed {
            self.armed = false;
            bell::withdraw(self.inboxes.control(self.inboxes.theirs, ASLEEP));
            self.look_at_socket()?;
        }
        Ok(())
    }

    /// Looks at the socket now and then, where nobody sleeps on it: a bell that is taken out of it before [`Connection::poll`] or
    /// [`Connection::receive`] ends the announcement would wake nobody, and be the last.
    fn fruitless(&mut self) -> Result<(), Error> {
        self.fruitless += 1;
        if self.fruitless >= LOOK_AT_SOCKET && !self.armed {
            self.fruitless = 0;
            self.look_at_socket()?;
        }
        Ok(())
    }

    fn tell(&mut self) -> Result<(), Error> {
        if self.untold { self.wake_peer() } else { Ok(()) }
    }

    /// Puts a piece into the peer's ring. It is told later, but no later than that there was no room.
    fn push(&mut self, piece: &[u8], more: bool) -> Result<(), Error> {
        let (mine, theirs) = (self.inboxes.mine, self.inboxes.theirs);
        let credit = self.inboxes.control(mine, CREDIT);
        match self.sender.push(&mut Stores(self.inboxes.ring(theirs)), credit, piece, more) {
            Ok(()) => {
                self.untold = true;
                Ok(())
            }
            Err(Unsent::Full) => {
                self.starved = true;
                self.tell()?;
                Err(Error::Full)
            }
            Err(Unsent::TooLarge) => {
                let (bytes, limit) = (piece.len() as u64, piece_bytes(self.inboxes.ring_words) as u64);
                Err(Error::TooLarge { bytes, limit })
            }
            Err(Unsent::Broken(broken)) => {
                self.dead = true;
                Err(broken.into())
            }
            Err(Unsent::Carrier(never)) => match never {},
        }
    }

    /// Sends on what is left of a large message.
    fn push_backlog(&mut self) -> Result<(), Error> {
        let piece = piece_bytes(self.inboxes.ring_words);
        while self.sent < self.backlog.len() {
            let backlog = std::mem::take(&mut self.backlog);
            let rest = &backlog[self.sent..];
            let length = piece.min(rest.len());
            let pushed = self.push(&rest[..length], rest.len() > length);
            self.backlog = backlog;
            match pushed {
                Ok(()) => self.sent += length,
                Err(Error::Full) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        if self.sent > 0 {
            self.backlog = Vec::new();
            self.sent = 0;
            self.tell()?;
        }
        Ok(())
    }

    fn give_credit(&mut self, idle: bool) -> Result<(), Error> {
        let credit = self.inboxes.control(self.inboxes.theirs, CREDIT);
        if self.receiver.give_credit(credit, idle) {
            self.wake_peer()?;
        }
        Ok(())
    }

    fn pop(&mut self, into: &mut Vec<u8>) -> Result<Option<Piece>, Error> {
        let popped = self.receiver.pop(self.inboxes.ring(self.inboxes.mine), into).map_err(|broken| {
            self.dead = true;
            Error::from(broken)
        })?;
        self.give_credit(popped.is_none())?;
        Ok(popped)
    }

    fn next_message(&mut self, into: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        if self.assembly.is_empty() {
            let start = into.len();
            match self.pop(into)? {
                None => return Ok(None),
                Some(Piece { bytes, more: false }) => return Ok(Some(bytes)),
                Some(_) => self.assembly.extend(into.drain(start..)),
            }
        }
        let mut assembly = std::mem::take(&mut self.assembly);
        while let Some(piece) = self.pop(&mut assembly)? {
            if assembly.len() > limits::MESSAGE_BYTES {
                self.dead = true;
                return Err(Error::Protocol("a message larger than any"));
            }
            if !piece.more {
                into.extend_from_slice(&assembly);
                return Ok(Some(assembly.len()));
            }
        }
        self.assembly = assembly;
        Ok(None)
    }
}

impl Connection for Shm {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            fabric: Fabric::Shm,
            one_sided: OneSided::Truly,
            direct: true,
            atomicity_bytes: 8,
            completes_in_order: true,
            messages_follow_writes: true,
            written: Written::Visible,
            max_message_bytes: limits::MESSAGE_BYTES,
            max_outstanding: limits::OUTSTANDING,
            max_transfer_bytes: limits::TRANSFER_BYTES,
        }
    }

    fn regions(&self) -> &[RemoteRegion] {
        &self.regions
    }

    fn register(&mut self, bytes: usize) -> Result<Buffer, Error> {
        self.local.register(bytes)
    }

    fn deregister(&mut self, buffer: &Buffer) -> Result<(), Error> {
        self.local.deregister(buffer).map(drop)
    }

    fn read(&mut self, region: u32, offset: u64, into: Span, token: u64) -> Result<(), Error> {
        self.may_post()?;
        let (at, into_words) = self.local.check(&self.regions, region, offset, into, Access::Read)?;
        copy_words(self.mappings[at].range(offset, into.bytes)?, into_words);
        // What is loaded later is not older than this.
        fence(Ordering::Acquire);
        self.complete(token);
        Ok(())
    }

    fn write(&mut self, from: Span, region: u32, offset: u64, token: u64) -> Result<(), Error> {
        self.may_post()?;
        let (at, words) = self.local.check(&self.regions, region, offset, from, Access::ReadWrite)?;
        fence(Ordering::Release);
        copy_words(words, self.mappings[at].range(offset, from.bytes)?);
        self.complete(token);
        Ok(())
    }

    fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        self.queue(message)?;
        self.tell()
    }

    fn flush(&mut self) -> Result<bool, Error> {
        if self.dead {
            return Err(Error::PeerDead);
        }
        self.push_backlog()?;
        self.tell()?;
        Ok(self.backlog.is_empty())
    }

    fn queue(&mut self, message: &[u8]) -> Result<(), Error> {
        if self.dead {
            return Err(Error::PeerDead);
        }
        if message.len() > limits::MESSAGE_BYTES {
            return Err(Error::TooLarge { bytes: message.len() as u64, limit: limits::MESSAGE_BYTES as u64 });
        }
        self.push_backlog()?;
        if !self.backlog.is_empty() {
            self.fruitless()?;
            return Err(Error::Full);
        }
        let piece = piece_bytes(self.inboxes.ring_words);
        let (first, rest) = message.split_at(piece.min(message.len()));
        if let Err(error) = self.push(first, !rest.is_empty()) {
            self.fruitless()?;
            return Err(error);
        }
        self.backlog.extend_from_slice(rest);
        self.push_backlog()
    }

    fn receive(&mut self, into: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        self.disarm()?;
        self.push_backlog()?;
        self.tell()?;
        if let Some(bytes) = self.next_message(into)? {
            return Ok(Some(bytes));
        }
        if !self.dead {
            self.fruitless()?;
            if !self.dead {
                return Ok(None);
            }
        }
        // What came in before the end.
        self.next_message(into)?.map_or(Err(Error::PeerDead), |bytes| Ok(Some(bytes)))
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) -> Result<usize, Error> {
        self.disarm()?;
        self.tell()?;
        if self.done.is_empty() {
            if self.dead {
                return Err(Error::PeerDead);
            }
            self.push_backlog()?;
            self.fruitless()?;
            return Ok(0);
        }
        let count = self.done.len();
        completions.extend(self.done.drain(..));
        Ok(count)
    }

    fn direct(&self, region: u32) -> Option<Arc<Mapping>> {
        let at = self.regions.iter().position(|r| r.id == region)?;
        Some(self.mappings[at].clone())
    }

    fn arm(&mut self) -> Result<bool, Error> {
        self.disarm()?;
        self.push_backlog()?;
        self.tell()?;
        self.give_credit(true)?;
        if self.dead || !self.done.is_empty() {
            return Ok(false);
        }
        self.armed = true;
        bell::announce(self.inboxes.control(self.inboxes.theirs, ASLEEP));
        let mine = self.inboxes.mine;
        let room = (self.starved || !self.backlog.is_empty())
            && self.sender.has_news(self.inboxes.control(mine, CREDIT));
        if room || self.receiver.has_news(self.inboxes.ring(mine)) {
            self.starved = false;
            self.disarm()?;
            return Ok(false);
        }
        Ok(true)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}
