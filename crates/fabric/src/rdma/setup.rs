//! Set-up over a TCP socket, from both sides: who may come in, keys, queue pairs.

use super::blob::{OneSidedBlob, TwoSidedBlob};
use super::link::Link;
use super::onesided::Rdma;
use super::posts::Posts;
use super::rings::{self, Rings};
use super::socket;
use crate::handshake::{First, Hello, Welcome};
use crate::ibv::{Device, Reach, Registered, Rights, Sizes};
use crate::net::Deadline;
use crate::pending::{Heard, Waiting, refuse};
use crate::setup::{describe, take_regions};
use crate::tcp::{Agent, Stream, Tcp};
use crate::{
    Accepted, Access, Address, ConnectOptions, Connected, Connection, Error, Export, Fabric, Gate,
    ListenOptions, Peer, Refusal, RefusalCode, RemoteRegion, limits,
};
use rustix::event::epoll;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// What the connecting side says once its queue pair can receive.
const READY: u8 = 1;

const ONE_SIDED: Sizes =
    Sizes { sends: (limits::OUTSTANDING + rings::SENDS) as u32, receives: rings::RECEIVES as u32 };
const TWO_SIDED: Sizes = Sizes { sends: limits::VERBS_SLOTS as u32, receives: limits::VERBS_SLOTS as u32 };

fn two_sided_link(fabric: Fabric, device: &Arc<Device>, socket: OwnedFd) -> Result<Link, Error> {
    Link::new(fabric, device, socket, TWO_SIDED, Reach::Nothing)
}

fn doubled(fd: &OwnedFd) -> Result<OwnedFd, Error> {
    fd.try_clone().map_err(|_| Error::Unsafe("its descriptor cannot be doubled"))
}

/// The listening side of a connection, and what the other is told.
struct Made {
    connection: Box<dyn Connection>,
    blob: Vec<u8>,
    regions: Vec<RemoteRegion>,
}

/// A connection that was welcomed, and whose other end is not yet ready.
struct Half {
    accepted: Accepted,
    socket: OwnedFd,
    deadline: Deadline,
}

/// The port that peers connect to.
pub(crate) struct Listener {
    fabric: Fabric,
    waiting: Waiting,
    address: SocketAddr,
    /// Of the listening socket, and of the halves' sockets.
    epoll: OwnedFd,
    halves: Vec<Half>,
    /// Serves the one-sided accesses of `verbs`.
    agent: Option<Arc<Agent>>,
    seats: u64,
    ring_bytes: u64,
    incarnation: u64,
    handshake: Duration,
    connections: u64,
    peer_regions: usize,
}

impl Listener {
    /// Fails where there is no device, rather than at the first connection.
    pub fn bind(fabric: Fabric, at: &str, options: &ListenOptions) -> Result<Listener, Error> {
        let ring_bytes = options.ring_bytes as u64;
        if !ring_bytes.is_power_of_two() || !limits::RING_BYTES_RANGE.contains(&ring_bytes) {
            return Err(Error::TooLarge { bytes: ring_bytes, limit: *limits::RING_BYTES_RANGE.end() });
        }
        Device::open(None).map_err(|error| error.on(fabric))?;
        let (socket, address) = socket::bind(at)?;
        let waiting = Waiting::new(socket, options.handshake, 0)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Error::system("epoll_create"))?;
        epoll::add(&epoll, waiting.fd(), epoll::EventData::new_u64(0), epoll::EventFlags::IN)
            .map_err(Error::system("epoll_ctl"))?;
        let incarnation = if options.incarnation == 0 { crate::net::secret()? } else { options.incarnation };
        let handshake = options.handshake;
        Ok(Listener {
            fabric,
            waiting,
            address,
            epoll,
            halves: Vec::new(),
            agent: None,
            seats: 0,
            ring_bytes,
            incarnation,
            handshake,
            connections: 0,
            peer_regions: options.peer_regions,
        })
    }

    /// Admits who said hello.
    fn welcome(&mut self, fd: &OwnedFd, hello: Hello, gate: &mut dyn Gate) -> Result<Half, Error> {
        let refused = |code, reason: String| Err(Error::Refused(Refusal { code, reason }));
        if hello.fabric != self.fabric {
            let reason = format!("this port is for {}, not for {}", self.fabric, hello.fabric);
            return refused(RefusalCode::Malformed, reason);
        }
        if self.halves.len() >= limits::PENDING {
            return refused(RefusalCode::Busy, "too many handshakes under way".to_owned());
        }
        take_regions(&hello, self.peer_regions)?;
        socket::prepare(fd)?;
        let (own, address) = socket::addresses(fd)?;
        let peer = Peer { address: Some(address), process: None };
        // The queue pair is made for those only who may come in.
        let grant = gate.admit(&hello, &peer).map_err(Error::Refused)?;
        let kept = doubled(fd)?;
        let device = Device::open(Some(own.ip())).map_err(|error| error.on(self.fabric))?;
        let Made { connection, blob, regions } = match self.fabric {
            Fabric::Verbs => self.two_sided(&device, kept, &hello, grant.exports)?,
            _ => self.one_sided(&device, kept, &hello, &grant.exports)?,
        };
        self.connections += 1;
        let (id, incarnation) = (self.connections, self.incarnation);
        let frame = Welcome { connection: id, incarnation, info: grant.info, blob, regions }.encode()?;
        if crate::net::send(fd, &frame)? != Some(frame.len()) {
            return Err(Error::PeerDead);
        }
        let accepted = Accepted { connection, id, user: hello.user, role: hello.role, peer };
        let socket = doubled(fd)?;
        let deadline = Deadline::new("the handshake", self.handshake);
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(0), epoll::EventFlags::IN)
            .map_err(Error::system("epoll_ctl"))?;
        Ok(Half { accepted, socket, deadline })
    }

    fn one_sided(
        &self,
        device: &Arc<Device>,
        socket: OwnedFd,
        hello: &Hello,
        exports: &[Export],
    ) -> Result<Made, Error> {
        let theirs = OneSidedBlob::decode(&hello.blob)?;
        let link = Link::new(self.fabric, device, socket, ONE_SIDED, Reach::WritesAndReads)?;
        let (inbox, inbox_at) = rings::inbox(&link, self.ring_bytes)?;
        let ours = OneSidedBlob { endpoint: link.endpoint(), inbox: inbox_at };
        let (regions, exports) = register(&link, exports)?;
        link.connect(&theirs.endpoint)?;
        let rings = Rings::new(link, inbox, self.ring_bytes, theirs.inbox)?;
        let connection = Box::new(Rdma::new(rings, hello.regions.clone(), exports));
        Ok(Made { connection, blob: ours.encode(), regions })
    }

    fn two_sided(
        &mut self,
        device: &Arc<Device>,
        socket: OwnedFd,
        hello: &Hello,
        exports: Vec<Export>,
    ) -> Result<Made, Error> {
        let theirs = TwoSidedBlob::decode(&hello.blob)?;
        if theirs.peers_agent.is_some() == hello.regions.is_empty() {
            return Err(Error::Protocol("regions without an agent, or the reverse"));
        }
        let desk = two_sided_link(self.fabric, device, doubled(&socket)?)?;
        let theirs_desk = match theirs.peers_agent {
            Some(peer) => Some((two_sided_link(self.fabric, device, doubled(&socket)?)?, peer)),
            None => None,
        };
        let (_, host) = socket::addresses(&socket)?;
        let messages = two_sided_link(self.fabric, device, socket)?;
        let ours = TwoSidedBlob {
            messages: messages.endpoint(),
            agent: desk.endpoint(),
            peers_agent: theirs_desk.as_ref().map(|(link, _)| link.endpoint()),
        };
        let (regions, opened) = crate::tcp::open(exports)?;
        messages.connect(&theirs.messages)?;
        desk.connect(&theirs.agent)?;
        let messages = Stream::over(Box::new(Posts::new(messages)?), Vec::new());
        let desk = Stream::over(Box::new(Posts::new(desk)?), Vec::new());
        let agent = match &self.agent {
            Some(agent) => agent.clone(),
            None => self.agent.insert(Arc::new(Agent::start()?)).clone(),
        };
        self.seats += 1;
        let seat = Some(agent.serve(self.seats, desk, opened));
        let theirs_desk = match theirs_desk {
            Some((link, peer)) => {
                link.connect(&peer)?;
                Some((Stream::over(Box::new(Posts::new(link)?), Vec::new()), host.to_string()))
            }
            None => None,
        };
        let regions_of_theirs = hello.regions.clone();
        let connection =
            Tcp::new(self.fabric, messages, theirs_desk, seat, regions_of_theirs, limits::OPERATION)?;
        Ok(Made { connection: Box::new(connection), blob: ours.encode(), regions })
    }

    /// A connection whose other end is ready; those that hang up or take too long are dropped.
    fn ready(&mut self) -> Option<Accepted> {
        let mut at = 0;
        while at < self.halves.len() {
            let mut byte = [0];
            let heard = crate::net::receive(&self.halves[at].socket, &mut byte);
            let waits = matches!(heard, Ok(crate::net::Heard::Nothing)) && !self.halves[at].deadline.passed();
            if waits {
                at += 1;
                continue;
            }
            let half = self.halves.swap_remove(at);
            let _ = epoll::delete(&self.epoll, &half.socket);
            if matches!(heard, Ok(crate::net::Heard::Bytes(_))) && byte == [READY] {
                return Some(half.accepted);
            }
        }
        None
    }
}

/// Registers what is exported, for one connection, and says how the peer names it.
fn register(link: &Link, exports: &[Export]) -> Result<(Vec<RemoteRegion>, Vec<Registered>), Error> {
    let (mut regions, mut registered) = (Vec::new(), Vec::new());
    for export in exports {
        let rights = match export.access {
            Access::Read => Rights::RemoteRead,
            Access::ReadWrite => Rights::RemoteReadWrite,
        };
        let memory = &export.memory;
        let one = Registered::new(&link.domain, memory, rights).map_err(|error| error.on(link.fabric))?;
        let base = memory.address();
        regions.push(RemoteRegion { base, ..describe(export, one.remote_key().into())? });
        registered.push(one);
    }
    Ok((regions, registered))
}

impl crate::Listener for Listener {
    fn address(&self) -> Address {
        match self.fabric {
            Fabric::Verbs => Address::Verbs(self.address.to_string()),
            _ => Address::Rdma(self.address.to_string()),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn accept(&mut self, gate: &mut dyn Gate) -> Result<Option<Accepted>, Error> {
        self.waiting.admit_newcomers()?;
        while let Some(Heard { fd, first, rest, .. }) = self.waiting.next()? {
            if let (First::Hello(hello), true) = (first, rest.is_empty()) {
                match self.welcome(&fd, hello, gate) {
                    Ok(half) => self.halves.push(half),
                    Err(error) => refuse(fd.as_fd(), &error),
                }
            }
        }
        Ok(self.ready())
    }
}

/// Connects to a listener at a host and port.
pub(crate) fn connect(fabric: Fabric, at: &str, options: &ConnectOptions) -> Result<Connected, Error> {
    let deadline = Deadline::new("the handshake", options.handshake);
    // What is missing here is said before anything is asked of the other side.
    Device::open(None).map_err(|error| error.on(fabric))?;
    let socket = socket::connect(at, options.handshake)?;
    let (own, _) = socket::addresses(&socket)?;
    let device = Device::open(Some(own.ip())).map_err(|error| error.on(fabric))?;
    let kept = doubled(&socket)?;
    let asking = Asking { fabric, options, socket: &socket, deadline: &deadline };
    let (connection, welcome) = match fabric {
        Fabric::Verbs => two_sided(&asking, &device, kept)?,
        _ => one_sided(&asking, &device, kept)?,
    };
    Ok(Connected { connection, id: welcome.connection, incarnation: welcome.incarnation, info: welcome.info })
}

/// The connecting side of a handshake.
struct Asking<'a> {
    fabric: Fabric,
    options: &'a ConnectOptions,
    socket: &'a OwnedFd,
    deadline: &'a Deadline,
}

impl Asking<'_> {
    fn hello(&self, blob: Vec<u8>, regions: Vec<RemoteRegion>) -> Result<Welcome, Error> {
        let hello = Hello {
            fabric: self.fabric,
            role: self.options.role,
            user: self.options.user.clone(),
            password: self.options.password.clone(),
            blob,
            regions,
        };
        crate::net::send_all(self.socket, &hello.encode()?, self.deadline)?;
        welcomed(self.socket, self.deadline)
    }

    fn ready(&self) -> Result<(), Error> {
        crate::net::send_all(self.socket, &[READY], self.deadline)
    }
}

type Joined = (Box<dyn Connection>, Welcome);

fn one_sided(asking: &Asking<'_>, device: &Arc<Device>, socket: OwnedFd) -> Result<Joined, Error> {
    let exports = &asking.options.exports;
    let reach = if exports.is_empty() { Reach::Writes } else { Reach::WritesAndReads };
    let link = Link::new(asking.fabric, device, socket, ONE_SIDED, reach)?;
    let ring_bytes = limits::RING_BYTES as u64;
    let (inbox, inbox_at) = rings::inbox(&link, ring_bytes)?;
    let (regions, exports) = register(&link, exports)?;
    let blob = OneSidedBlob { endpoint: link.endpoint(), inbox: inbox_at }.encode();
    let mut welcome = asking.hello(blob, regions)?;
    let theirs = OneSidedBlob::decode(&welcome.blob)?;
    link.connect(&theirs.endpoint)?;
    let rings = Rings::new(link, inbox, ring_bytes, theirs.inbox)?;
    asking.ready()?;
    let regions = std::mem::take(&mut welcome.regions);
    Ok((Box::new(Rdma::new(rings, regions, exports)), welcome))
}

fn two_sided(asking: &Asking<'_>, device: &Arc<Device>, socket: OwnedFd) -> Result<Joined, Error> {
    let desk = two_sided_link(asking.fabric, device, doubled(&socket)?)?;
    let (regions, opened) = crate::tcp::open(asking.options.exports.clone())?;
    let own_desk = match opened.is_empty() {
        true => None,
        false => Some(two_sided_link(asking.fabric, device, doubled(&socket)?)?),
    };
    let messages = two_sided_link(asking.fabric, device, socket)?;
    let blob = TwoSidedBlob {
        messages: messages.endpoint(),
        agent: desk.endpoint(),
        peers_agent: own_desk.as_ref().map(Link::endpoint),
    };
    let mut welcome = asking.hello(blob.encode(), regions)?;
    let theirs = TwoSidedBlob::decode(&welcome.blob)?;
    messages.connect(&theirs.messages)?;
    desk.connect(&theirs.agent)?;
    let messages = Stream::over(Box::new(Posts::new(messages)?), Vec::new());
    let desk = Stream::over(Box::new(Posts::new(desk)?), Vec::new());
    let seat = match (own_desk, theirs.peers_agent) {
        (None, None) => None,
        (Some(link), Some(peer)) => {
            link.connect(&peer)?;
            let stream = Stream::over(Box::new(Posts::new(link)?), Vec::new());
            Some(Arc::new(Agent::start()?).serve(1, stream, opened))
        }
        _ => return Err(Error::Protocol("a queue pair for an agent that is none")),
    };
    asking.ready()?;
    let (_, host) = socket::addresses(asking.socket)?;
    let (regions, operation) = (std::mem::take(&mut welcome.regions), asking.options.operation);
    let desk = Some((desk, host.to_string()));
    Ok((Box::new(Tcp::new(asking.fabric, messages, desk, seat, regions, operation)?), welcome))
}

/// Waits for the welcome, behind which nothing may come.
fn welcomed(socket: &OwnedFd, deadline: &Deadline) -> Result<Welcome, Error> {
    let mut bytes = Vec::new();
    let mut chunk = [0; crate::net::CHUNK];
    loop {
        match Welcome::decode(&bytes)? {
            Some((welcome, used)) if used == bytes.len() => return Ok(welcome),
            Some(_) => return Err(Error::Protocol("bytes behind the welcome")),
            None => {}
        }
        match crate::net::receive(socket, &mut chunk)? {
            crate::net::Heard::Bytes(count) => bytes.extend_from_slice(&chunk[..count]),
            crate::net::Heard::Nothing => deadline.wait_readable(socket.as_fd())?,
            crate::net::Heard::End => return Err(Error::PeerDead),
        }
    }
}
