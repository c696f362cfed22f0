//! The target's side of one connection: what comes over the fabric goes into the session, what the session answers goes back.
//!
//! ```text
//!   the client's memory      is made by    a block gets there                                            reply
//!   mapped here (shm)        the target    by the disk's DMA                                             then
//!   handed out (rdma)        the client    disk ─▶ mirror, registered ─▶ one-sided write                 behind the write
//!   none (tcp, verbs)                      disk ─▶ scratch ─▶ in the reply
//! ```
//! The *mirror* is memory of this side, as long as what the client has handed out. A block has the same place in both, so that it is the
//! client alone who says which places are in use, and gives none away before its reply.
//!
//! Invariant: a reply is not seen before the blocks that it speaks of are. Where messages follow writes, it is sent behind them; elsewhere
//! it waits for their completions. What is refused, has failed or was cancelled is not written at all.

use crate::engine::Job;
use crate::memory::{Area, Mapped};
use crate::protocol::AREA_REGION;
use crate::session::{Outgoing, Permission, Session};
use crate::{ALIGNMENT, limits};
use kintsugidb_fabric::{self as fabric, Access, Buffer, Completion, Connection, Mapping, OneSided, Written};
use std::collections::{HashMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A reply that waits for writes to end.
struct Unwritten {
    left: usize,
    reply: Vec<u8>,
}

/// Memory from which blocks are written into the client's.
struct Mirror {
    buffer: Buffer,
    /// Whether a message is received only after the writes before it.
    ordered: bool,
    largest_write: u64,
    /// Writes posted and not completed.
    under_way: usize,
    /// By the token of their writes; none if ordered.
    unwritten: HashMap<u64, Unwritten>,
    last: u64,
    completions: Vec<Completion>,
}

/// What is to be sent, in order.
enum Step {
    Send(Outgoing),
    /// Writes a part of the mirror to the same place of the client's memory.
    Write {
        place: u64,
        bytes: u64,
        token: u64,
    },
}

/// What came of listening to a connection.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// So many messages.
    Messages(usize),
    /// The peer is gone.
    End,
    /// The peer does not speak the protocol.
    Nonsense,
}

/// What came of sending.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// All of it is on its way.
    All,
    /// Something waits for room, or for a write to end: the connection must be awake, or armed anew.
    NotAll,
    /// The peer is gone.
    End,
}

/// One connection.
pub(crate) struct Service {
    /// `None`: closed; the session waits for its last jobs.
    link: Option<Box<dyn Connection>>,
    session: Session,
    steps: VecDeque<Step>,
    mirror: Option<Mirror>,
    message: Vec<u8>,
    replies: Vec<Outgoing>,
}

/// Why a connection cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unserved {
    /// What the client has handed out cannot be the memory for its blocks.
    #[error("what a client has handed out is no data area")]
    NoArea,
    /// There is no memory to mirror the client's.
    #[error("no mirror of a client's memory: {0}")]
    NoMirror(fabric::Error),
}

impl Service {
    /// `shared`: the memory that was made for this connection, and handed out, where the fabric maps memory.
    pub fn new(
        mut link: Box<dyn Connection>,
        permissions: Arc<HashMap<String, Permission>>,
        shared: Option<Arc<Mapping>>,
    ) -> Result<Service, Unserved> {
        let capabilities = link.capabilities();
        let area = |memory| Mapped::new(memory).map(|mapped| Arc::new(mapped) as Arc<dyn Area>);
        let (mut mirror, mut session_area) = (None, shared.and_then(area));
        if let Some(region) = link.regions().iter().find(|region| region.id == AREA_REGION) {
            // Neither emulated writes, which are messages with one more copy, nor what was mapped here that a stranger made.
            let suits = capabilities.one_sided == OneSided::Truly
                && !capabilities.direct
                && (capabilities.messages_follow_writes || capabilities.written == Written::Visible)
                && region.access == Access::ReadWrite
                && (ALIGNMENT as u64..=limits::AREA_BYTES).contains(&region.length);
            if !suits {
                return Err(Unserved::NoArea);
            }
            #[cfg(test)]
            let hasty = crate::simulation::HASTY.get();
            #[cfg(not(test))]
            let hasty = false;
            let buffer = link.register(region.length as usize).map_err(Unserved::NoMirror)?;
            session_area = area(buffer.memory().clone());
            mirror = Some(Mirror {
                buffer,
                ordered: capabilities.messages_follow_writes || hasty,
                largest_write: capabilities.max_transfer_bytes,
                under_way: 0,
                unwritten: HashMap::new(),
                last: 0,
                completions: Vec::new(),
            });
        }
        let session = match mirror {
            Some(_) => Session::mirrored(permissions, session_area),
            None => Session::new(permissions, session_area),
        };
        let (steps, message, replies) = (VecDeque::new(), Vec::new(), Vec::new());
        Ok(Service { link: Some(link), session, steps, mirror, message, replies })
    }

    /// The memory that jobs use, if it is known beforehand.
    pub fn area(&self) -> Option<&Arc<dyn Area>> {
        self.session.area()
    }

    /// Whether the connection is still there.
    pub fn open(&self) -> bool {
        self.link.is_some()
    }

    /// Whether nothing is left of it: closed, and no job under way.
    pub fn over(&self) -> bool {
        self.link.is_none() && self.session.outstanding() == 0
    }

    /// Readable when an armed connection has something to do.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.link.as_ref().and_then(|link| link.fd())
    }

    /// Announces sleep on [`Service::fd`]. `None`: the peer is gone.
    pub fn arm(&mut self) -> Option<bool> {
        self.link.as_mut().and_then(|link| link.arm().ok())
    }

    /// Ends the connection. Jobs under way end later, into memory that nobody looks at.
    pub fn close(&mut self) {
        self.link = None;
        self.steps.clear();
        if let Some(mirror) = &mut self.mirror {
            mirror.unwritten.clear();
        }
    }

    /// Takes messages, a bounded number, as long as the client fetches its replies.
    pub fn hear(&mut self, jobs: &mut Vec<Job>) -> Heard {
        if self.send() == Sent::End {
            return Heard::End;
        }
        let mut count = 0;
        let mut end = None;
        while count < limits::MESSAGES_PER_TURN && self.unsent() < limits::OUTSTANDING {
            let Some(link) = self.link.as_mut() else { return Heard::End };
            self.message.clear();
            match link.receive(&mut self.message) {
                Ok(None) => break,
                Ok(Some(_)) => count += 1,
                Err(_) => {
                    end = Some(Heard::End);
                    break;
                }
            }
            if self.session.message(&self.message, jobs, &mut self.replies).is_err() {
                end = Some(Heard::Nonsense);
                break;
            }
        }
        self.answer();
        if self.send() == Sent::End {
            end = end.or(Some(Heard::End));
        }
        end.unwrap_or(Heard::Messages(count))
    }

    /// Steps that wait, and writes that have not completed.
    fn unsent(&self) -> usize {
        self.steps.len() + self.mirror.as_ref().map_or(0, |mirror| mirror.under_way)
    }

    /// Takes the end of a job. Its reply goes with the next [`Service::send`].
    pub fn done(&mut self, token: u64, result: Result<u64, rustix::io::Errno>) {
        self.session.done(token, result, &mut self.replies);
        self.answer();
    }

    /// Makes steps of what the session has answered.
    fn answer(&mut self) {
        for reply in self.replies.drain(..) {
            if self.link.is_none() {
                continue;
            }
            match (reply, &mut self.mirror) {
                (Outgoing::Placed { reply, parts }, Some(mirror)) => {
                    mirror.answer(reply, &parts, &mut self.steps)
                }
                (reply, _) => self.steps.push_back(Step::Send(reply)),
            }
        }
    }

    /// Sends what there is room for.
    pub fn send(&mut self) -> Sent {
        let Some(link) = self.link.as_mut() else { return Sent::All };
        if let Some(mirror) = &mut self.mirror
            && !mirror.fetch(&mut **link, &mut self.steps)
        {
            return Sent::End;
        }
        while let Some(step) = self.steps.pop_front() {
            let done = match (&step, &mut self.mirror) {
                (Step::Send(Outgoing::Plain(bytes)), _) => link.queue(bytes),
                (Step::Send(Outgoing::Blocks(memory, range)), _) => {
                    link.queue(memory.bytes_of(range.clone()))
                }

                (Step::Write { place, bytes, token }, Some(mirror)) => {
                    let span = mirror.buffer.span(*place, *bytes);
                    let posted = link.write(span, AREA_REGION, *place, *token);
                    mirror.under_way += usize::from(posted.is_ok());
                    posted
                }
                // Without a mirror nothing is placed: a session says so of mirrored memory only.
                (Step::Write { .. }, None) | (Step::Send(Outgoing::Placed { .. }), _) => return Sent::End,
            };
            match done {
                Ok(()) => {
                    if let Step::Send(Outgoing::Blocks(memory, _)) = step {
                        self.session.recycle(memory);
                    }
                }
                Err(fabric::Error::Full) => {
                    self.steps.push_front(step);
                    break;
                }
                Err(_) => return Sent::End,
            }
        }
        // One word to the client for all of them.
        match link.flush() {
            // Who has fetched completions is not armed any more.
            Ok(true) if self.steps.is_empty() && self.mirror.is_none() => Sent::All,
            Ok(_) => Sent::NotAll,
            Err(_) => Sent::End,
        }
    }
}

impl Mirror {
    /// The steps of a reply whose blocks are written first.
    fn answer(&mut self, reply: Vec<u8>, parts: &[(u64, u64)], steps: &mut VecDeque<Step>) {
        self.last += 1;
        let token = self.last;
        let mut count = 0;
        for (place, bytes) in parts {
            // Whole words. A place has all of the words that it reaches into to itself, since it begins with one.
            let end = place + bytes.next_multiple_of(8);
            let mut at = *place;
            while at < end {
                let bytes = (end - at).min(self.largest_write);
                steps.push_back(Step::Write { place: at, bytes, token });
                (at, count) = (at + bytes, count + 1);
            }
        }
        if self.ordered || count == 0 {
            steps.push_back(Step::Send(Outgoing::Plain(reply)));
        } else {
            self.unwritten.insert(token, Unwritten { left: count, reply });
        }
    }

    /// Fetches the ends of writes, and makes steps of the replies that waited for them. `false`: the peer is gone.
    fn fetch(&mut self, link: &mut dyn Connection, steps: &mut VecDeque<Step>) -> bool {
        if self.under_way == 0 {
            return true;
        }
        let alive = link.poll(&mut self.completions).is_ok();
        for Completion { token, result } in self.completions.drain(..) {
            self.under_way -= 1;
            if result.is_err() {
                return false;
            }
            let Some(unwritten) = self.unwritten.get_mut(&token) else { continue };
            unwritten.left -= 1;
            if unwritten.left == 0
                && let Some(Unwritten { reply, .. }) = self.unwritten.remove(&token)
            {
                steps.push_back(Step::Send(Outgoing::Plain(reply)));
            }
        }
        alive
    }
}
