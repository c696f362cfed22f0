//! Small things around sockets: deadlines, and calls that never block whatever the peer did to the descriptor's flags.

use crate::{Error, limits};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendFlags};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

fn poll_one(fd: BorrowedFd<'_>, events: PollFlags, limit: Duration) -> Result<bool, Error> {
    let end = Instant::now().checked_add(limit);
    loop {
        let left = end.map_or(limit, |end| end.saturating_duration_since(Instant::now()));
        let left =
            Timespec { tv_sec: left.as_secs().min(1 << 30) as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::from_borrowed_fd(fd, events)], Some(&left)) {
            Err(Errno::INTR) => {}
            Ok(count) => return Ok(count > 0),
            Err(errno) => return Err(Error::system("poll")(errno)),
        }
    }
}

/// Sleeps until a descriptor is readable (or its peer gone), at most so long. `false`: the time has passed.
pub(crate) fn readable(fd: BorrowedFd<'_>, limit: Duration) -> Result<bool, Error> {
    poll_one(fd, PollFlags::IN, limit)
}

/// Whether the peer of a socket has ended it. Does not look at what it has said.
pub(crate) fn hung_up(fd: BorrowedFd<'_>) -> Result<bool, Error> {
    poll_one(fd, PollFlags::RDHUP, Duration::ZERO)
}

/// What is left of a set-up's time.
pub(crate) struct Deadline {
    end: Instant,
    limit: Duration,
    what: &'static str,
}

impl Deadline {
    pub fn new(what: &'static str, limit: Duration) -> Deadline {
        Deadline { end: Instant::now() + limit, limit, what }
    }
    pub fn end(&self) -> Instant {
        self.end
    }
    pub fn passed(&self) -> bool {
        Instant::now() >= self.end
    }
    pub fn left(&self) -> Result<Duration, Error> {
        match self.end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => {
                Err(Error::SetUpTimedOut { what: self.what, limit_ms: self.limit.as_millis() as u64 })
            }
            left => Ok(left),
        }
    }
    pub fn wait_readable(&self, fd: BorrowedFd<'_>) -> Result<(), Error> {
        while !poll_one(fd, PollFlags::IN, self.left()?)? {}
        Ok(())
    }
    pub fn wait_writable(&self, fd: BorrowedFd<'_>) -> Result<(), Error> {
        while !poll_one(fd, PollFlags::OUT, self.left()?)? {}
        Ok(())
    }
}

/// What a socket had to say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Bytes(usize),
    Nothing,
    /// The peer has closed its end, or died.
    End,
}

/// What a call of `recv` means.
pub(crate) fn heard(call: impl FnOnce() -> Result<usize, Errno>) -> Result<Heard, Error> {
    match call() {
        Ok(0) => Ok(Heard::End),
        Ok(count) => Ok(Heard::Bytes(count)),
        // Interrupted: it is asked again soon, in polling and in waiting alike.
        Err(Errno::AGAIN | Errno::INTR) => Ok(Heard::Nothing),
        Err(Errno::CONNRESET | Errno::PIPE | Errno::TIMEDOUT | Errno::HOSTUNREACH | Errno::NETUNREACH) => {
            Ok(Heard::End)
        }
        Err(errno) => Err(Error::system("recv")(errno)),
    }
}

/// Receives what is there, without blocking.
pub(crate) fn receive(fd: impl AsFd, into: &mut [u8]) -> Result<Heard, Error> {
    heard(|| rustix::net::recv(&fd, into, RecvFlags::DONTWAIT).map(|(count, _)| count))
}

/// Descriptors that can come with one message: of the rings, and of each region.
pub(crate) const DESCRIPTORS: usize = limits::REGIONS + 1;
const _: () = assert!(DESCRIPTORS <= 253, "the kernel's SCM_MAX_FD");

/// As [`receive`], with the descriptors that came along.
pub(crate) fn receive_with(
    fd: BorrowedFd<'_>,
    into: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> Result<Heard, Error> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let (flags, limit) = (RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC, into.len());
    let result = heard(|| {
        let message = rustix::net::recvmsg(fd, &mut [IoSliceMut::new(into)], &mut ancillary, flags)?;
        Ok(message.bytes.min(limit))
    });
    for ancillary in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = ancillary {
            descriptors.extend(rights);
        }
    }
    result
}

/// Sends as much as fits, without blocking. `None`: the peer is gone.
pub(crate) fn send(fd: impl AsFd, bytes: &[u8]) -> Result<Option<usize>, Error> {
    sent(|| rustix::net::send(&fd, bytes, SEND))
}

/// As [`send`], of several parts.
pub(crate) fn send_parts(fd: impl AsFd, parts: &[IoSlice<'_>]) -> Result<Option<usize>, Error> {
    sent(|| rustix::net::sendmsg(&fd, parts, &mut SendAncillaryBuffer::default(), SEND))
}

const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// What a call of `send` means.
fn sent(mut call: impl FnMut() -> Result<usize, Errno>) -> Result<Option<usize>, Error> {
    loop {
        return match call() {
            Ok(count) => Ok(Some(count)),
            Err(Errno::AGAIN | Errno::NOBUFS) => Ok(Some(0)),
            Err(Errno::INTR) => continue,
            Err(
                Errno::CONNRESET | Errno::PIPE | Errno::TIMEDOUT | Errno::HOSTUNREACH | Errno::NETUNREACH,
            ) => Ok(None),
            Err(errno) => Err(Error::system("send")(errno)),
        };
    }
}

/// Sends all of it within a deadline.
pub(crate) fn send_all(fd: impl AsFd, mut bytes: &[u8], deadline: &Deadline) -> Result<(), Error> {
    while !bytes.is_empty() {
        match send(&fd, bytes)? {
            None => return Err(Error::PeerDead),
            Some(0) => deadline.wait_writable(fd.as_fd())?,
            Some(count) => bytes = &bytes[count..],
        }
    }
    Ok(())
}

/// A number that a peer cannot guess.
pub(crate) fn secret() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    let mut have = 0;
    while have < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[have..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => have += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::system("getrandom")(errno)),
        }
    }
    Ok(u64::from_le_bytes(bytes))
}

/// The room that a handshake is received in.
pub(crate) const CHUNK: usize = limits::HELLO_BYTES;
