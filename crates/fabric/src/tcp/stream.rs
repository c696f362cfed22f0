//! A byte stream with what is not yet sent and not yet understood.

use crate::Error;
use crate::net::{self, Heard};
use rustix::event::epoll::EventFlags;
use rustix::net::RecvFlags;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes asked for at once.
pub(crate) const CHUNK: usize = 64 << 10;

/// Bytes of a body whose copy costs more than a system call.
const LARGE: usize = 16 << 10;

/// What carries bytes, in order and without blocking: a socket, or a queue pair.
pub(crate) trait Pipe: Send {
    /// What to sleep on.
    fn fd(&self) -> BorrowedFd<'_>;

    /// The event that tells of room to send.
    fn room(&self) -> EventFlags;

    /// Sends as much as fits. `None`: the peer is gone.
    fn send(&mut self, bytes: &[u8]) -> Result<Option<usize>, Error>;

    /// Sends as much as fits of two parts, if it can do that with one call. `None`: the peer is gone.
    fn send_both(&mut self, head: &[u8], body: &[u8]) -> Result<Option<usize>, Error> {
        let _ = (head, body);
        Ok(Some(0))
    }

    /// Appends what has come in, a chunk at a time.
    fn receive(&mut self, into: &mut Vec<u8>) -> Result<Heard, Error>;

    /// Before a sleep. `false`: there is something already, and the descriptor might not tell of it.
    fn rest(&mut self, wants_input: bool) -> Result<bool, Error>;
}

struct Socket(OwnedFd);

impl Pipe for Socket {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
    fn room(&self) -> EventFlags {
        EventFlags::OUT
    }
    fn send(&mut self, bytes: &[u8]) -> Result<Option<usize>, Error> {
        net::send(&self.0, bytes)
    }
    fn send_both(&mut self, head: &[u8], body: &[u8]) -> Result<Option<usize>, Error> {
        net::send_parts(&self.0, &[IoSlice::new(head), IoSlice::new(body)])
    }
    fn receive(&mut self, into: &mut Vec<u8>) -> Result<Heard, Error> {
        let spare = rustix::buffer::spare_capacity(into);
        net::heard(|| rustix::net::recv(&self.0, spare, RecvFlags::DONTWAIT).map(|(count, _)| count))
    }
    fn rest(&mut self, _wants_input: bool) -> Result<bool, Error> {
        Ok(true)
    }
}

pub(crate) struct Stream {
    pipe: Box<dyn Pipe>,
    out: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    taken: usize,
    /// The peer has ended it; what came in before can still be taken.
    pub ended: bool,
}

impl Stream {
    pub fn new(fd: OwnedFd, already_heard: Vec<u8>) -> Stream {
        Stream::over(Box::new(Socket(fd)), already_heard)
    }

    pub fn over(pipe: Box<dyn Pipe>, already_heard: Vec<u8>) -> Stream {
        Stream { pipe, out: Vec::new(), sent: 0, input: already_heard, taken: 0, ended: false }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.fd()
    }

    /// The event that tells of room to send.
    pub fn room(&self) -> EventFlags {
        self.pipe.room()
    }

    /// Before a sleep on the descriptor. `false`: do not.
    pub fn rest(&mut self, wants_input: bool) -> Result<bool, Error> {
        Ok(!self.ended && self.pipe.rest(wants_input)?)
    }

    /// Bytes that wait to be sent.
    pub fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// What is to be sent next: append to it, then [`Stream::flush`].
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Puts a head and a body behind what is to be sent. A large body goes at once, without a copy, as far as there is room.
    pub fn put(&mut self, head: &[u8], body: &[u8]) -> Result<(), Error> {
        let mut gone = 0;
        if body.len() >= LARGE {
            self.flush()?;
            if self.unsent() == 0 && !self.ended {
                match self.pipe.send_both(head, body)? {
                    None => self.ended = true,
                    Some(count) => gone = count,
                }
            }
        }
        self.out.extend_from_slice(head.get(gone..).unwrap_or_default());
        self.out.extend_from_slice(body.get(gone.saturating_sub(head.len())..).unwrap_or_default());
        Ok(())
    }

    /// Sends what the socket takes.
    pub fn flush(&mut self) -> Result<(), Error> {
        while !self.ended && self.sent < self.out.len() {
            match self.pipe.send(&self.out[self.sent..])? {
                None => self.ended = true,
                Some(0) => break,
                Some(count) => self.sent += count,
            }
        }
        if self.sent == self.out.len() || self.ended {
            self.sent = 0;
            self.out.clear();
            // A large message once is no reason to keep its room.
            if self.out.capacity() > 4 * CHUNK {
                self.out.shrink_to(CHUNK);
            }
        } else if self.sent > CHUNK && self.sent > self.out.len() / 2 {
            self.out.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }

    /// Takes one chunk from the socket. Whether there was anything.
    pub fn fill(&mut self) -> Result<bool, Error> {
        if self.ended {
            return Ok(false);
        }
        if self.taken == self.input.len() {
            self.input.clear();
            self.taken = 0;
            if self.input.capacity() > 4 * CHUNK {
                self.input.shrink_to(CHUNK);
            }
        } else if self.taken > CHUNK {
            self.input.drain(..self.taken);
            self.taken = 0;
        }
        self.input.reserve(CHUNK);
        match self.pipe.receive(&mut self.input)? {
            Heard::Bytes(_) => Ok(true),
            Heard::Nothing => Ok(false),
            Heard::End => {
                self.ended = true;
                Ok(false)
            }
        }
    }

    /// What has come in and was not consumed.
    pub fn input(&self) -> &[u8] {
        &self.input[self.taken..]
    }

    pub fn consume(&mut self, count: usize) {
        self.taken = (self.taken + count).min(self.input.len());
    }
}
