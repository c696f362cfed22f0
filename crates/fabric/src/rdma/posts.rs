//! Bytes through messages that are sent and received: what the fabric `verbs` is made of.
//!
//! Each side has a number of slots of registered memory for what it sends, and as many posted for what it receives. A receiver that takes
//! nothing posts nothing; the sender's adapter is then told "not ready" and tries again, for ever, and once its slots are all under way
//! there is no room.

use super::link::{Link, linger};
use crate::ibv::{Piece, Registered, Rights, Work};
use crate::net::Heard;
use crate::tcp::Pipe;
use crate::words::{append, copy_in};
use crate::{Error, Mapping, limits};
use rustix::event::epoll::EventFlags;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

const SLOTS: u64 = limits::VERBS_SLOTS as u64;
const SLOT: u64 = limits::VERBS_SLOT_BYTES as u64;
const _: () = assert!(SLOT.is_multiple_of(8) && limits::VERBS_SLOT_BYTES <= crate::tcp::CHUNK);

/// One queue pair as a byte stream.
pub(super) struct Posts {
    link: Link,
    outgoing: Registered,
    incoming: Registered,
    next: u64,
    starved: bool,
}

impl Posts {
    pub fn new(mut link: Link) -> Result<Posts, Error> {
        let memory = || Ok::<_, Error>(Arc::new(Mapping::buffer(SLOTS * SLOT)?));
        let register = |link: &Link, memory| {
            Registered::new(&link.domain, &memory, Rights::Local).map_err(|error| error.on(link.fabric))
        };
        let (outgoing, incoming) = (register(&link, memory()?)?, register(&link, memory()?)?);
        for slot in 0..SLOTS {
            let piece = Piece { memory: &incoming, offset: slot * SLOT, bytes: SLOT as u32 };
            link.post_receive(slot, Some(piece))?;
        }
        Ok(Posts { link, outgoing, incoming, next: 0, starved: false })
    }

    fn has_room(&self) -> bool {
        self.link.messages() < SLOTS as usize
    }
}

impl Pipe for Posts {
    fn fd(&self) -> BorrowedFd<'_> {
        self.link.fd()
    }

    /// A send that has completed makes the descriptor readable.
    fn room(&self) -> EventFlags {
        EventFlags::IN
    }

    /// Does not end the announcement of a sleep: who sends while it sleeps is still woken.
    fn send(&mut self, bytes: &[u8]) -> Result<Option<usize>, Error> {
        if !self.has_room() {
            self.link.progress()?;
        }
        let mut sent = 0;
        while sent < bytes.len() && !self.link.dead && (self.has_room() || self.link.wakes_for_room()?) {
            if !self.has_room() {
                continue;
            }
            let part = &bytes[sent..];
            let part = &part[..part.len().min(SLOT as usize)];
            let offset = self.next % SLOTS * SLOT;
            let words = self.outgoing.memory().range(offset, part.len().next_multiple_of(8) as u64)?;
            copy_in(words, part);
            let piece = Piece { memory: &self.outgoing, offset, bytes: part.len() as u32 };
            self.link.post_message(Work::Send(piece))?;
            self.next += 1;
            sent += part.len();
        }
        self.starved = sent < bytes.len();
        Ok(if self.link.dead { None } else { Some(sent) })
    }

    fn receive(&mut self, into: &mut Vec<u8>) -> Result<Heard, Error> {
        self.link.disarm()?;
        if self.link.arrived.is_empty() {
            self.link.progress()?;
        }
        let Some((slot, bytes)) = self.link.arrived.pop_front() else {
            self.link.fruitless()?;
            // What has arrived comes before the end.
            if !self.link.dead {
                return Ok(Heard::Nothing);
            }
            self.link.progress()?;
            return Ok(if self.link.arrived.is_empty() { Heard::End } else { Heard::Nothing });
        };
        // The adapter does not write more than the slot has.
        let (offset, bytes) = (slot % SLOTS * SLOT, u64::from(bytes).min(SLOT));
        let words = self.incoming.memory().range(offset, bytes.next_multiple_of(8))?;
        append(words, bytes as usize, into);
        self.link.post_receive(slot, Some(Piece { memory: &self.incoming, offset, bytes: SLOT as u32 }))?;
        Ok(Heard::Bytes(bytes as usize))
    }

    fn rest(&mut self, wants_input: bool) -> Result<bool, Error> {
        self.link.disarm()?;
        self.link.arm(self.starved)?;
        self.link.progress()?;
        let room = self.starved && self.has_room();
        let input = wants_input && !self.link.arrived.is_empty();
        Ok(!self.link.dead && !room && !input)
    }
}

impl Drop for Posts {
    fn drop(&mut self) {
        linger(&mut self.link, |link| link.progress());
    }
}
