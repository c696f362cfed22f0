//! Handshakes under way at a listening socket: sockets that have connected and not said all of their first frame. Bounded in number,
//! bytes and time, so that strangers cost nothing else.
//!
//! When all places are taken, a newcomer gets that of the stranger that has been silent for longest, of those whose origin (a network
//! address, a user of this host) holds the most places. So who connects without a word takes places from himself, and who says what he
//! has to say on his first look is never turned away for others' silence.

use crate::handshake::First;
use crate::net::Deadline;
use crate::{Error, Refusal, RefusalCode, limits};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Whom a stranger's place is counted to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Origin {
    Network(IpAddr),
    User(u32),
    Unknown,
}

impl Origin {
    fn of(fd: &OwnedFd) -> Origin {
        let address = rustix::net::getpeername(fd).ok().flatten();
        if let Some(address) = address.and_then(|a| SocketAddr::try_from(a).ok()) {
            return Origin::Network(address.ip());
        }
        match rustix::net::sockopt::socket_peercred(fd) {
            Ok(credentials) => Origin::User(credentials.uid.as_raw()),
            Err(_) => Origin::Unknown,
        }
    }
}

struct Stranger {
    fd: OwnedFd,
    origin: Origin,
    said: Vec<u8>,
    handed: Vec<OwnedFd>,
    deadline: Deadline,
}

/// A stranger's first frame, and what came behind it.
pub(crate) struct Heard {
    pub fd: OwnedFd,
    pub first: First,
    pub rest: Vec<u8>,
    /// Descriptors that came with it, over a Unix socket that takes any.
    pub handed: Vec<OwnedFd>,
}

/// A listening socket with its strangers.
pub(crate) struct Waiting {
    listener: OwnedFd,
    epoll: OwnedFd,
    strangers: VecDeque<Stranger>,
    limit: Duration,
    descriptors: usize,
}

/// Tells a peer why it is turned away, if it still listens.
pub(crate) fn refuse(fd: BorrowedFd<'_>, error: &Error) {
    let refusal = match error {
        Error::Refused(refusal) => refusal.clone(),
        Error::Protocol(reason) => Refusal { code: RefusalCode::Malformed, reason: (*reason).to_owned() },
        other => Refusal { code: RefusalCode::Internal, reason: other.to_string() },
    };
    let _ = crate::net::send(fd, &refusal.encode());
}

fn busy(reason: &str) -> Error {
    Error::Refused(Refusal { code: RefusalCode::Busy, reason: reason.to_owned() })
}

impl Waiting {
    /// For a non-blocking listening socket. `descriptors`: how many a stranger may hand over (a Unix socket); others are closed.
    pub fn new(listener: OwnedFd, limit: Duration, descriptors: usize) -> Result<Waiting, Error> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Error::system("epoll_create"))?;
        let data = epoll::EventData::new_u64(0);
        epoll::add(&epoll, &listener, data, epoll::EventFlags::IN).map_err(Error::system("epoll_ctl"))?;
        Ok(Waiting { listener, epoll, strangers: VecDeque::new(), limit, descriptors })
    }

    /// Readable when there is something to do.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Accepts who has connected; of many, only so many that all can be listened to before there are more.
    pub fn admit_newcomers(&mut self) -> Result<(), Error> {
        for _ in 0..limits::PENDING {
            match rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(fd) => {
                    let origin = Origin::of(&fd);
                    if self.strangers.len() >= limits::PENDING && !self.make_room(origin) {
                        refuse(fd.as_fd(), &busy("too many handshakes under way"));
                        continue;
                    }
                    let data = epoll::EventData::new_u64(1);
                    epoll::add(&self.epoll, &fd, data, epoll::EventFlags::IN)
                        .map_err(Error::system("epoll_ctl"))?;
                    let deadline = Deadline::new("the handshake", self.limit);
                    let (said, handed) = (Vec::new(), Vec::new());
                    self.strangers.push_back(Stranger { fd, origin, said, handed, deadline });
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => {}
                // No descriptors left: those who wait in the queue wait longer.
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => return Ok(()),
                Err(errno) => return Err(Error::system("accept")(errno)),
            }
        }
        Ok(())
    }

    /// Turns somebody away for a newcomer. False: everybody who could be has said all of the first frame by now, and is heard next.
    fn make_room(&mut self, newcomer: Origin) -> bool {
        let places = |origin| {
            let held = self.strangers.iter().filter(|s| s.origin == origin).count();
            held + usize::from(origin == newcomer)
        };
        let most = self.strangers.iter().map(|s| places(s.origin)).max().unwrap_or(0);
        let mut greedy: Vec<usize> =
            (0..self.strangers.len()).filter(|i| places(self.strangers[*i].origin) == most).collect();
        greedy.sort_by_key(|i| self.strangers[*i].deadline.end());
        for i in greedy {
            let stranger = &mut self.strangers[i];
            match listen_to(stranger, self.descriptors) {
                Ok(Some(_)) => continue,
                Ok(None) => refuse(stranger.fd.as_fd(), &busy("silent while others want to come in")),
                Err(Error::PeerDead) => {}
                Err(error) => refuse(stranger.fd.as_fd(), &error),
            }
            self.strangers.remove(i);
            return true;
        }
        false
    }

    /// The next stranger that has said all of its first frame. Those that talk nonsense, hang up or take too long are dropped.
    pub fn next(&mut self) -> Result<Option<Heard>, Error> {
        for _ in 0..self.strangers.len() {
            let Some(mut stranger) = self.strangers.pop_front() else { break };
            match listen_to(&mut stranger, self.descriptors) {
                Ok(Some((first, used))) => {
                    let _ = epoll::delete(&self.epoll, &stranger.fd);
                    let rest = stranger.said.split_off(used);
                    return Ok(Some(Heard { fd: stranger.fd, first, rest, handed: stranger.handed }));
                }
                Ok(None) if stranger.deadline.passed() => {
                    refuse(stranger.fd.as_fd(), &busy("the handshake took too long"));
                }
                Ok(None) => self.strangers.push_back(stranger),
                Err(Error::PeerDead) => {}
                Err(error) => refuse(stranger.fd.as_fd(), &error),
            }
        }
        Ok(None)
    }
}

fn listen_to(stranger: &mut Stranger, descriptors: usize) -> Result<Option<(First, usize)>, Error> {
    let mut chunk = [0; crate::net::CHUNK];
    loop {
        if let Some(first) = First::decode(&stranger.said)? {
            return Ok(Some(first));
        }
        let heard = match descriptors {
            0 => crate::net::receive(&stranger.fd, &mut chunk)?,
            _ => crate::net::receive_with(stranger.fd.as_fd(), &mut chunk, &mut stranger.handed)?,
        };
        if stranger.handed.len() > descriptors {
            return Err(Error::Protocol("too many descriptors"));
        }
        match heard {
            crate::net::Heard::Bytes(count) => stranger.said.extend_from_slice(&chunk[..count]),
            crate::net::Heard::Nothing => return Ok(None),
            crate::net::Heard::End => return Err(Error::PeerDead),
        }
    }
}

#[cfg(all(test, not(model)))]
#[path = "pending_tests.rs"]
mod tests;
