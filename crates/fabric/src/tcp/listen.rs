//! Set-up over TCP, from both sides.

use super::agent::{Agent, Opened, Seat};
use super::connection::Tcp;
use super::stream::Stream;
use crate::handshake::{Attach, First, Hello, Welcome};
use crate::net::Deadline;
use crate::pending::{Heard, Waiting, refuse};
use crate::setup::{describe, take_regions};
use crate::{
    Accepted, Address, ConnectOptions, Connected, Error, Export, Fabric, Gate, ListenOptions, Peer, Refusal,
    RefusalCode, RemoteRegion, limits,
};
use rustix::net::sockopt;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

fn from_std(what: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |error| {
        let source = rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO);
        Error::System { what, source }
    }
}

/// No delay for small frames; a peer whose machine has vanished is noticed within half a minute.
fn tune(fd: BorrowedFd<'_>) -> Result<(), Error> {
    let failed = Error::system("setsockopt");
    sockopt::set_tcp_nodelay(fd, true).map_err(&failed)?;
    sockopt::set_socket_keepalive(fd, true).map_err(&failed)?;
    sockopt::set_tcp_keepidle(fd, Duration::from_secs(10)).map_err(&failed)?;
    sockopt::set_tcp_keepintvl(fd, Duration::from_secs(5)).map_err(&failed)?;
    sockopt::set_tcp_keepcnt(fd, 4).map_err(&failed)?;
    sockopt::set_tcp_user_timeout(fd, 30_000).map_err(&failed)
}

/// A further socket of a connection, which the connecting side has yet to attach.
enum Missing<T> {
    Nothing,
    Attach { key: u64, then: T },
}

/// A connection that was welcomed, and perhaps has yet to attach to this side's agent, or its own to this side.
struct Half {
    id: u64,
    hello: Hello,
    peer: Peer,
    messages: OwnedFd,
    /// What our agent is to serve.
    agent: Missing<Vec<Opened>>,
    seat: Option<Seat>,
    /// The socket to the peer's agent, which serves what it has handed out.
    desk: Missing<()>,
    stream: Option<Stream>,
    deadline: Deadline,
}

impl Half {
    fn is_whole(&self) -> bool {
        matches!((&self.agent, &self.desk), (Missing::Nothing, Missing::Nothing))
    }

    fn complete(self) -> Result<Accepted, Error> {
        let messages = Stream::new(self.messages, Vec::new());
        let host = self.peer.address.map_or_else(|| "the other side".to_owned(), |at| at.to_string());
        let desk = self.stream.map(|stream| (stream, host));
        let regions = self.hello.regions;
        let connection = Tcp::new(Fabric::Tcp, messages, desk, self.seat, regions, limits::OPERATION)?;
        let (user, role) = (self.hello.user, self.hello.role);
        Ok(Accepted { connection: Box::new(connection), id: self.id, user, role, peer: self.peer })
    }
}

/// What is handed out, as the peer is told, and as the agent is to open it.
pub(crate) fn open(exports: Vec<Export>) -> Result<(Vec<RemoteRegion>, Vec<Opened>), Error> {
    let (mut regions, mut opened) = (Vec::new(), Vec::new());
    for export in exports {
        let key = crate::net::secret()?;
        regions.push(describe(&export, key)?);
        opened.push(Opened { key, access: export.access, memory: export.memory });
    }
    Ok((regions, opened))
}

/// The port that peers connect to.
pub(crate) struct Listener {
    waiting: Waiting,
    address: SocketAddr,
    agent: Option<Arc<Agent>>,
    halves: Vec<Half>,
    incarnation: u64,
    handshake: Duration,
    connections: u64,
    peer_regions: usize,
}

impl Listener {
    pub fn bind(at: &str, options: &ListenOptions) -> Result<Listener, Error> {
        let socket = TcpListener::bind(at).map_err(from_std("bind"))?;
        socket.set_nonblocking(true).map_err(from_std("fcntl"))?;
        let address = socket.local_addr().map_err(from_std("getsockname"))?;
        let incarnation = if options.incarnation == 0 { crate::net::secret()? } else { options.incarnation };
        Ok(Listener {
            waiting: Waiting::new(socket.into(), options.handshake, 0)?,
            address,
            agent: None,
            halves: Vec::new(),
            incarnation,
            handshake: options.handshake,
            connections: 0,
            peer_regions: options.peer_regions,
        })
    }

    /// Admits who said hello.
    fn welcome(&mut self, fd: &OwnedFd, hello: Hello, gate: &mut dyn Gate) -> Result<Half, Error> {
        let refused = |code, reason: String| Err(Error::Refused(Refusal { code, reason }));
        if hello.fabric != Fabric::Tcp {
            let reason = format!("this port is for tcp, not for {}", hello.fabric);
            return refused(RefusalCode::Malformed, reason);
        }
        if self.halves.len() >= limits::PENDING {
            return refused(RefusalCode::Busy, "too many handshakes under way".to_owned());
        }
        take_regions(&hello, self.peer_regions)?;
        tune(fd.as_fd())?;
        let address = rustix::net::getpeername(fd).ok().flatten().and_then(|a| SocketAddr::try_from(a).ok());
        let peer = Peer { address, process: None };
        let grant = gate.admit(&hello, &peer).map_err(Error::Refused)?;
        let (regions, opened) = open(grant.exports)?;
        self.connections += 1;
        let id = self.connections;
        let keys = [crate::net::secret()?, crate::net::secret()?];
        let blob = keys.map(u64::to_le_bytes).concat();
        let welcome =
            Welcome { connection: id, incarnation: self.incarnation, info: grant.info, blob, regions };
        let frame = welcome.encode()?;
        let messages = fd.try_clone().map_err(from_std("dup"))?;
        if crate::net::send(fd, &frame)? != Some(frame.len()) {
            return Err(Error::PeerDead);
        }
        let deadline = Deadline::new("attaching to the agent", self.handshake);
        let agent = match opened.is_empty() {
            true => Missing::Nothing,
            false => Missing::Attach { key: keys[0], then: opened },
        };
        let desk = match hello.regions.is_empty() {
            true => Missing::Nothing,
            false => Missing::Attach { key: keys[1], then: () },
        };
        Ok(Half { id, hello, peer, messages, agent, seat: None, desk, stream: None, deadline })
    }

    /// Gives a further socket of a connection its place. The connection, if that was all it lacked.
    fn attach(&mut self, fd: OwnedFd, attach: Attach, rest: Vec<u8>) -> Result<Option<Accepted>, Error> {
        const NOTHING: Error = Error::Protocol("attached to nothing");
        let at = self.halves.iter().position(|half| half.id == attach.connection).ok_or(NOTHING)?;
        let half = &mut self.halves[at];
        tune(fd.as_fd())?;
        let stream = Stream::new(fd, rest);
        match (&half.agent, &half.desk) {
            (Missing::Attach { key, .. }, _) if *key == attach.key => {
                let agent = match &self.agent {
                    Some(agent) => agent.clone(),
                    None => self.agent.insert(Arc::new(Agent::start()?)).clone(),
                };
                let Missing::Attach { then, .. } = std::mem::replace(&mut half.agent, Missing::Nothing)
                else {
                    return Err(NOTHING);
                };
                half.seat = Some(agent.serve(half.id, stream, then));
            }
            (_, Missing::Attach { key, .. }) if *key == attach.key => {
                half.desk = Missing::Nothing;
                half.stream = Some(stream);
            }
            _ => return Err(NOTHING),
        }
        if half.is_whole() { self.halves.swap_remove(at).complete().map(Some) } else { Ok(None) }
    }
}

impl crate::Listener for Listener {
    fn address(&self) -> Address {
        Address::Tcp(self.address.to_string())
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.waiting.fd()
    }

    fn accept(&mut self, gate: &mut dyn Gate) -> Result<Option<Accepted>, Error> {
        self.waiting.admit_newcomers()?;
        self.halves.retain(|half| !half.deadline.passed());
        while let Some(Heard { fd, first, rest, .. }) = self.waiting.next()? {
            match first {
                First::Hello(hello) if rest.is_empty() => match self.welcome(&fd, hello, gate) {
                    Ok(half) if half.is_whole() => return half.complete().map(Some),
                    Ok(half) => self.halves.push(half),
                    Err(error) => refuse(fd.as_fd(), &error),
                },
                First::Attach(attach) => {
                    if let Ok(Some(accepted)) = self.attach(fd, attach, rest) {
                        return Ok(Some(accepted));
                    }
                }
                First::Hello(_) => {}
            }
        }
        Ok(None)
    }
}

fn dial(addresses: &[SocketAddr], deadline: &Deadline) -> Result<(OwnedFd, SocketAddr), Error> {
    let mut error = Error::System { what: "connect", source: rustix::io::Errno::HOSTUNREACH };
    for address in addresses {
        match TcpStream::connect_timeout(address, deadline.left()?) {
            Ok(stream) => {
                stream.set_nonblocking(true).map_err(from_std("fcntl"))?;
                let fd = OwnedFd::from(stream);
                tune(fd.as_fd())?;
                return Ok((fd, *address));
            }
            Err(failed) => error = from_std("connect")(failed),
        }
    }
    Err(error)
}

/// Connects to a listener at a host and port.
pub(crate) fn connect(at: &str, options: &ConnectOptions) -> Result<Connected, Error> {
    let deadline = Deadline::new("the handshake", options.handshake);
    let addresses: Vec<SocketAddr> = at.to_socket_addrs().map_err(from_std("looking up the host"))?.collect();
    let (fd, address) = dial(&addresses, &deadline)?;
    let (regions, opened) = open(options.exports.clone())?;
    let hello = Hello {
        fabric: Fabric::Tcp,
        role: options.role,
        user: options.user.clone(),
        password: options.password.clone(),
        blob: Vec::new(),
        regions,
    };
    crate::net::send_all(&fd, &hello.encode()?, &deadline)?;
    let mut bytes = Vec::new();
    let mut chunk = [0; crate::net::CHUNK];
    let (welcome, used) = loop {
        if let Some(decoded) = Welcome::decode(&bytes)? {
            break decoded;
        }
        match crate::net::receive(&fd, &mut chunk)? {
            crate::net::Heard::Bytes(count) => bytes.extend_from_slice(&chunk[..count]),
            crate::net::Heard::Nothing => deadline.wait_readable(fd.as_fd())?,
            crate::net::Heard::End => return Err(Error::PeerDead),
        }
    };
    let attach = |key: usize| -> Result<OwnedFd, Error> {
        let key = welcome.blob.get(8 * key..).and_then(|keys| keys.first_chunk());
        let key = key.ok_or(Error::Protocol("a welcome without the keys to attach"))?;
        let (fd, _) = dial(&[address], &deadline)?;
        let attach = Attach { connection: welcome.connection, key: u64::from_le_bytes(*key) };
        crate::net::send_all(&fd, &attach.encode(), &deadline)?;
        Ok(fd)
    };
    let desk = match welcome.regions.is_empty() {
        true => None,
        false => Some((Stream::new(attach(0)?, Vec::new()), address.to_string())),
    };
    let seat = match opened.is_empty() {
        true => None,
        false => Some(Arc::new(Agent::start()?).serve(1, Stream::new(attach(1)?, Vec::new()), opened)),
    };
    let messages = Stream::new(fd, bytes.split_off(used));
    Ok(Connected {
        connection: Box::new(Tcp::new(
            Fabric::Tcp,
            messages,
            desk,
            seat,
            welcome.regions,
            options.operation,
        )?),
        id: welcome.connection,
        incarnation: welcome.incarnation,
        info: welcome.info,
    })
}
