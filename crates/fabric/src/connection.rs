//! The data path: one page that every back end implements.
//!
//! ```text
//!   register(bytes) ─▶ Buffer         memory of ours that the fabric may read and write
//!   read(region, offset, span, token)   one-sided, the peer's CPU is not asked (or an agent is: see the capabilities)
//!   write(span, region, offset, token)
//!   poll(&mut completions)              tokens come back with how it went
//!   send(bytes), receive(&mut bytes)    messages, whole and in order
//!   queue(bytes) … flush()              many messages, and one word to the peer (one system call, one bell)
//!   direct(region)                      the peer's memory itself, where it is mapped: no call per read
//!   arm(), fd(), wait(limit)            sleep until there is something to poll or to receive
//! ```
//!
//! # Rules
//! - Offsets and lengths of one-sided accesses are multiples of 8; aligned 8-byte words are read and written whole, and nothing
//!   larger is. Words of one access can be seen in any order.
//! - What the region table already shows to be impossible (unknown region, out of bounds, denied) is an error of the call, on every
//!   back end alike. The target checks again and trusts nobody; what it refuses is a [`Failure`] in the completion.
//! - Every accepted `read` and `write` has exactly one completion, also when the peer dies.
//! - `send` has copied its bytes when it returns; it has no completion. A message arrives whole, once and in order, or the
//!   connection is dead. [`Error::Full`] means that the peer is behind: wait or do something else, then try again.
//! - `queue` is `send`, except that the message may stay here until `flush`, `send`, `poll`, `receive` or `arm`.
//! - A buffer is not written any more once [`Connection::deregister`] has returned.
//! - An error other than those of a single call ([`Error::Full`], bounds, size) is final.

use crate::{Buffer, Error, Fabric, Failure, Mapping, Span};
use std::{os::fd::BorrowedFd, sync::Arc, time::Duration};

/// What a region may be used for by a peer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Access {
    /// One-sided reads.
    Read = 1,
    /// One-sided reads and writes.
    ReadWrite = 3,
}

/// A region that the peer has handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteRegion {
    /// Its number, chosen by the application that exports it.
    pub id: u32,
    /// What may be done with it.
    pub access: Access,
    /// Bytes.
    pub length: u64,
    /// What opens it, on this connection only (tcp: a random number; rdma: the remote key).
    pub key: u64,
    /// Where it begins in the target's terms (rdma: the virtual address), else 0.
    pub base: u64,
}

/// Whether one-sided accesses are.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum OneSided {
    /// No CPU of the target works for them.
    Truly,
    /// A thread of the target serves them.
    Emulated,
}

/// What the completion of a one-sided write means. (That of a read always means that the bytes are in the buffer.)
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// The target can see it.
    Visible,
    /// The target's adapter has it; it becomes visible before anything that is sent later on this connection.
    Accepted,
}

/// What a connection is able to do. Declared by the back end, and checked by the conformance suite.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Which back end it is.
    pub fabric: Fabric,
    /// Whether one-sided accesses take work from the target's CPU.
    pub one_sided: OneSided,
    /// Whether [`Connection::direct`] gives memory.
    pub direct: bool,
    /// Bytes, aligned, that are read and written whole.
    pub atomicity_bytes: u32,
    /// One-sided operations complete in the order in which they were posted.
    pub completes_in_order: bool,
    /// A message is received only after the writes posted before it are visible.
    pub messages_follow_writes: bool,
    /// What the completion of a write means.
    pub written: Written,
    /// Bytes of the largest message.
    pub max_message_bytes: usize,
    /// One-sided operations whose completions have not been fetched.
    pub max_outstanding: usize,
    /// Bytes of the largest one-sided access.
    pub max_transfer_bytes: u64,
}

/// A one-sided operation that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What the caller named it.
    pub token: u64,
    /// How it ended.
    pub result: Result<(), Failure>,
}

/// One connection to one peer. Used by one thread at a time; what [`Connection::direct`] gives, by any number.
pub trait Connection: Send {
    /// What it is able to do.
    fn capabilities(&self) -> Capabilities;

    /// The regions that the peer has handed out, at set-up.
    fn regions(&self) -> &[RemoteRegion];

    /// Makes a buffer of at least so many bytes, zeroed, for one-sided operations.
    ///
    /// # Errors
    /// [`Error::TooLarge`], or what the system says.
    fn register(&mut self, bytes: usize) -> Result<Buffer, Error>;

    /// Takes a buffer back. Operations that still use it complete as [`Failure::Cancelled`]. It is never written from now on.
    ///
    /// # Errors
    /// [`Error::NoSuchBuffer`].
    fn deregister(&mut self, buffer: &Buffer) -> Result<(), Error>;

    /// Begins to read from a remote region into a span of a buffer.
    ///
    /// # Errors
    /// What the region table shows to be impossible; [`Error::Full`]; [`Error::PeerDead`].
    fn read(&mut self, region: u32, offset: u64, into: Span, token: u64) -> Result<(), Error>;

    /// Begins to write a span of a buffer to a remote region. The span must stay as it is until the completion.
    ///
    /// # Errors
    /// As [`Connection::read`]; [`Error::Denied`].
    fn write(&mut self, from: Span, region: u32, offset: u64, token: u64) -> Result<(), Error>;

    /// Sends one message. The bytes are copied before it returns.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::TooLarge`], [`Error::PeerDead`].
    fn send(&mut self, message: &[u8]) -> Result<(), Error>;

    /// As [`Connection::send`], but the message may wait for [`Connection::flush`], which is to follow soon.
    ///
    /// # Errors
    /// As [`Connection::send`].
    fn queue(&mut self, message: &[u8]) -> Result<(), Error> {
        self.send(message)
    }

    /// Sends on what was queued, as far as there is room. `false`: something may be left, and goes on with [`Connection::poll`],
    /// [`Connection::receive`] and [`Connection::arm`]; who sleeps on an earlier announcement is not woken for it.
    ///
    /// # Errors
    /// As [`Connection::send`], but for [`Error::Full`].
    fn flush(&mut self) -> Result<bool, Error> {
        Ok(false)
    }

    /// Appends the next message to a buffer of the caller's and answers its length, or `None` if there is none now.
    ///
    /// # Errors
    /// [`Error::PeerDead`] once everything has been received, [`Error::Protocol`].
    fn receive(&mut self, into: &mut Vec<u8>) -> Result<Option<usize>, Error>;

    /// Appends what has completed, and moves on what is under way. Never blocks.
    ///
    /// # Errors
    /// [`Error::PeerDead`] once everything has been fetched, [`Error::Protocol`].
    fn poll(&mut self, completions: &mut Vec<Completion>) -> Result<usize, Error>;

    /// The memory of a region itself, where the fabric maps it.
    fn direct(&self, region: u32) -> Option<Arc<Mapping>> {
        let _ = region;
        None
    }

    /// Announces that the caller is going to sleep on [`Connection::fd`]. `false`: do not, there is (or may be) something to receive,
    /// to poll or, after [`Error::Full`], room to send. Any later `poll` or `receive` ends the announcement.
    ///
    /// # Errors
    /// As [`Connection::poll`].
    fn arm(&mut self) -> Result<bool, Error>;

    /// Becomes readable when an armed connection has something to do; for the caller's epoll. It can wake without a reason.
    /// `None` in the simulation.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// Sleeps until there is something to do, at most so long. `false`: the time has passed.
    ///
    /// # Errors
    /// As [`Connection::poll`].
    fn wait(&mut self, limit: Duration) -> Result<bool, Error> {
        if !self.arm()? {
            return Ok(true);
        }
        match self.fd() {
            Some(fd) => crate::net::readable(fd, limit),
            None => Ok(false),
        }
    }
}
