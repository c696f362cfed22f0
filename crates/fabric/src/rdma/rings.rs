//! Messages through rings in the peer's memory, written by RDMA writes.

use super::blob::Inbox;
use super::link::Link;
use super::messages::Pieces;
use crate::ibv::{Piece as Local, Registered, Remote, Rights, Work};
use crate::ring::{Carrier, LINE, Piece, Receiver, Record, Sender, Unsent, piece_bytes};
use crate::words::copy_in;
use crate::{Error, Mapping, limits};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words before the ring in an inbox: a page.
const CONTROL: u64 = 512;
const CREDIT: usize = 0;

/// Receives that have to be posted: for the records of the peer, and for its credits for ours.
pub(super) const RECEIVES: usize = 2 * limits::RDMA_RECORDS;
/// Messages and credits of ours that can be under way.
pub(super) const SENDS: usize = 128;

/// One pair of rings.
pub(super) struct Rings {
    pub link: Link,
    inbox: Registered,
    /// The peer's inbox as this side fills it: what the adapter copies from.
    staging: Registered,
    peer: Inbox,
    sender: Sender,
    receiver: Receiver,
    /// Where the records that the peer has not consumed end, in words ever sent.
    records: VecDeque<u64>,
    /// Records consumed since the last credit was given.
    uncredited: usize,
    starved: bool,
}

/// An inbox for a ring of so many bytes, before the peer's is known.
pub(super) fn inbox(link: &Link, ring_bytes: u64) -> Result<(Registered, Inbox), Error> {
    let memory = Arc::new(Mapping::buffer(8 * CONTROL + ring_bytes)?);
    let registered =
        Registered::new(&link.domain, &memory, Rights::RemoteWrite).map_err(|error| error.on(link.fabric))?;
    let at = Remote { address: memory.address(), key: registered.remote_key() };
    Ok((registered, Inbox { at, ring_bytes }))
}

struct Writes<'a> {
    link: &'a mut Link,
    staging: &'a Registered,
    peer: Inbox,
}

impl Carrier for Writes<'_> {
    type Error = Error;

    fn carry(&mut self, at: u64, record: Record<'_>) -> Result<(), Error> {
        let body = record.body.len().div_ceil(8) as u64;
        let (offset, words) = (8 * (CONTROL + at), 3 + body);
        let staged = self.staging.memory().range(offset, 8 * words)?;
        staged[0].store(record.header, Ordering::Relaxed);
        staged[1].store(record.first, Ordering::Relaxed);
        copy_in(&staged[2..2 + body as usize], record.body);
        staged[2 + body as usize].store(record.last, Ordering::Relaxed);
        let piece = Local { memory: self.staging, offset, bytes: 8 * words as u32 };
        let remote = Remote { address: self.peer.at.address + offset, ..self.peer.at };
        // A record that only leads back to the ring's beginning is followed by one that tells.
        let leads_back = record.header & crate::ring::SKIP != 0;
        let work = if leads_back { Work::Write(piece, remote) } else { Work::WriteAndTell(piece, remote) };
        self.link.post_message(work)
    }
}

impl Rings {
    /// `inbox`: ours. `peer`: where the peer's is, with a ring of a size that has been checked.
    pub fn new(mut link: Link, inbox: Registered, ring_bytes: u64, peer: Inbox) -> Result<Rings, Error> {
        let memory = Arc::new(Mapping::buffer(8 * CONTROL + peer.ring_bytes)?);
        let staging =
            Registered::new(&link.domain, &memory, Rights::Local).map_err(|error| error.on(link.fabric))?;
        for _ in 0..RECEIVES {
            link.post_receive(0, None)?;
        }
        let (sender, receiver) = (Sender::new(peer.ring_bytes / 8), Receiver::new(ring_bytes / 8));
        Ok(Rings {
            link,
            inbox,
            staging,
            peer,
            sender,
            receiver,
            records: VecDeque::new(),
            uncredited: 0,
            starved: false,
        })
    }

    fn ring(&self) -> &[AtomicU64] {
        &self.inbox.memory().words()[CONTROL as usize..][..self.ring_words()]
    }

    fn ring_words(&self) -> usize {
        (self.inbox.memory().len() / 8 - CONTROL) as usize
    }

    /// Fetches completions and posts again what the peer's "tells" have used up.
    pub fn progress(&mut self) -> Result<(), Error> {
        self.link.progress()?;
        for _ in 0..self.link.arrived.len() {
            self.link.post_receive(0, None)?;
        }
        self.link.arrived.clear();
        Ok(())
    }

    /// Tells the sender how far this side has come, if that is due: an eighth of the ring has gathered, or a quarter of the records that
    /// may be outstanding. Less is no reason, not even before a sleep: what is left is room for the largest piece.
    fn give_credit(&mut self) -> Result<(), Error> {
        if self.link.dead || self.link.messages() >= SENDS {
            return Ok(());
        }
        let Some(credit) = self.receiver.credit(self.uncredited >= limits::RDMA_RECORDS / 4) else {
            return Ok(());
        };
        self.uncredited = 0;
        self.staging.memory().words()[CREDIT].store(credit, Ordering::Relaxed);
        let offset = 8 * CREDIT as u64;
        let remote = Remote { address: self.peer.at.address + offset, ..self.peer.at };
        self.link.post_message(Work::WriteAndTell(Local { memory: &self.staging, offset, bytes: 8 }, remote))
    }

    /// Whether something waits for messages to arrive that are under way.
    pub fn needs_room(&self) -> bool {
        self.starved || self.link.messages() >= SENDS / 2
    }

    /// Whether there is something to receive, or room again for what found none.
    pub fn has_news(&mut self) -> bool {
        let room = self.starved
            && (self.sender.has_news(&self.inbox.memory().words()[CREDIT])
                || self.link.messages() < SENDS / 2);
        if room {
            self.starved = false;
        }
        room || self.receiver.has_news(self.ring())
    }

    /// The number of records that the peer has not consumed.
    fn outstanding(&mut self) -> Result<usize, Error> {
        if self.records.len() >= limits::RDMA_RECORDS {
            let consumed = self.sender.consumed(&self.inbox.memory().words()[CREDIT]);
            let consumed = consumed.inspect_err(|_| self.link.die())?;
            while self.records.front().is_some_and(|end| *end <= consumed) {
                self.records.pop_front();
            }
        }
        Ok(self.records.len())
    }
}

impl Pieces for Rings {
    fn piece_bytes(&self) -> usize {
        piece_bytes(self.peer.ring_bytes / 8)
    }

    fn push(&mut self, piece: &[u8], more: bool) -> Result<(), Error> {
        self.progress()?;
        // Two: one may lead back to the ring's beginning.
        while self.link.messages() + 2 > SENDS || self.outstanding()? >= limits::RDMA_RECORDS {
            if !self.link.wakes_for_room()? {
                self.starved = true;
                return Err(Error::Full);
            }
        }
        let credit = &self.inbox.memory().words()[CREDIT];
        let mut writes = Writes { link: &mut self.link, staging: &self.staging, peer: self.peer };
        match self.sender.push(&mut writes, credit, piece, more) {
            Ok(()) => {
                self.records.push_back(self.sender.sent());
                Ok(())
            }
            Err(Unsent::Full) => {
                self.starved = true;
                Err(Error::Full)
            }
            Err(Unsent::TooLarge) => {
                Err(Error::TooLarge { bytes: piece.len() as u64, limit: self.piece_bytes() as u64 })
            }
            Err(Unsent::Broken(broken)) => {
                self.link.die();
                Err(broken.into())
            }
            Err(Unsent::Carrier(error)) => {
                self.link.die();
                Err(error)
            }
        }
    }

    fn pop(&mut self, into: &mut Vec<u8>) -> Result<Option<Piece>, Error> {
        let ring = &self.inbox.memory().words()[CONTROL as usize..];
        let popped = self.receiver.pop(ring, into).map_err(|broken| {
            self.link.die();
            Error::from(broken)
        })?;
        self.uncredited += usize::from(popped.is_some());
        self.give_credit()?;
        Ok(popped)
    }
}

const _: () = assert!(CONTROL.is_multiple_of(LINE));
