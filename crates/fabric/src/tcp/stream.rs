//! A byte stream with what is not yet sent and not yet understood.

use crate::Error;
use crate::net::{self, Heard};
use rustix::net::RecvFlags;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes asked for at once.
const CHUNK: usize = 64 << 10;

pub(super) struct Stream {
    fd: OwnedFd,
    out: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    taken: usize,
    /// The peer has ended it; what came in before can still be taken.
    pub ended: bool,
}

impl Stream {
    pub fn new(fd: OwnedFd, already_heard: Vec<u8>) -> Stream {
        Stream { fd, out: Vec::new(), sent: 0, input: already_heard, taken: 0, ended: false }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Bytes that wait to be sent.
    pub fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// What is to be sent next: append to it, then [`Stream::flush`].
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Sends what the socket takes.
    pub fn flush(&mut self) -> Result<(), Error> {
        while !self.ended && self.sent < self.out.len() {
            match net::send(&self.fd, &self.out[self.sent..])? {
                None => self.ended = true,
                Some(0) => break,
                Some(count) => self.sent += count,
            }
        }
        if self.sent == self.out.len() || self.ended {
            self.sent = 0;
            self.out.clear();
            // A large message once is no reason to keep its room.
            self.out.shrink_to(CHUNK);
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
        let spare = rustix::buffer::spare_capacity(&mut self.input);
        let heard =
            net::heard(|| rustix::net::recv(&self.fd, spare, RecvFlags::DONTWAIT).map(|(count, _)| count))?;
        match heard {
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
