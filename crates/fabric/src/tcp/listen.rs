//! Set-up over TCP, from both sides.

use super::agent::{Agent, Opened, Seat};
use super::connection::Tcp;
use super::stream::Stream;
use crate::handshake::{Attach, First, Hello, Welcome};
use crate::net::Deadline;
use crate::pending::{Heard, Waiting, refuse};
use crate::{
    Accepted, Access, Address, ConnectOptions, Connected, Error, Export, Fabric, Gate, ListenOptions, Peer,
    Refusal, RefusalCode, RemoteRegion, limits,
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

/// A connection that was welcomed, and perhaps has yet to attach to the agent.
struct Half {
    id: u64,
    hello: Hello,
    peer: Peer,
    messages: OwnedFd,
    key: u64,
    regions: Vec<Opened>,
    deadline: Deadline,
}

impl Half {
    fn complete(self, seat: Option<Seat>) -> Result<Accepted, Error> {
        let messages = Stream::new(self.messages, Vec::new());
        // The operations' time limit is for whoever asks; this side is handed no regions.
        let connection = Tcp::new(Fabric::Tcp, messages, None, seat, Vec::new(), limits::OPERATION)?;
        let (user, role) = (self.hello.user, self.hello.role);
        Ok(Accepted { connection: Box::new(connection), id: self.id, user, role, peer: self.peer })
    }
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
}

impl Listener {
    pub fn bind(at: &str, options: &ListenOptions) -> Result<Listener, Error> {
        let socket = TcpListener::bind(at).map_err(from_std("bind"))?;
        socket.set_nonblocking(true).map_err(from_std("fcntl"))?;
        let address = socket.local_addr().map_err(from_std("getsockname"))?;
        let incarnation = if options.incarnation == 0 { crate::net::secret()? } else { options.incarnation };
        Ok(Listener {
            waiting: Waiting::new(socket.into(), options.handshake)?,
            address,
            agent: None,
            halves: Vec::new(),
            incarnation,
            handshake: options.handshake,
            connections: 0,
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
        tune(fd.as_fd())?;
        let address = rustix::net::getpeername(fd).ok().flatten().and_then(|a| SocketAddr::try_from(a).ok());
        let peer = Peer { address, process: None };
        let grant = gate.admit(&hello, &peer).map_err(Error::Refused)?;
        let (mut regions, mut opened) = (Vec::new(), Vec::new());
        for Export { id, access, memory } in grant.exports {
            if access == Access::ReadWrite && !memory.writable() {
                return Err(Error::Unsafe(
                    "a region that is mapped for reading cannot be exported for writing",
                ));
            }
            let key = crate::net::secret()?;
            regions.push(RemoteRegion { id, access, length: memory.len(), key, base: 0 });
            opened.push(Opened { key, access, memory });
        }
        self.connections += 1;
        let (id, key) = (self.connections, crate::net::secret()?);
        let blob = key.to_le_bytes().to_vec();
        let welcome =
            Welcome { connection: id, incarnation: self.incarnation, info: grant.info, blob, regions };
        let frame = welcome.encode()?;
        let messages = fd.try_clone().map_err(from_std("dup"))?;
        if crate::net::send(fd, &frame)? != Some(frame.len()) {
            return Err(Error::PeerDead);
        }
        let deadline = Deadline::new("attaching to the agent", self.handshake);
        Ok(Half { id, hello, peer, messages, key, regions: opened, deadline })
    }

    /// Seats the second socket of a connection at the agent.
    fn attach(&mut self, fd: OwnedFd, attach: Attach, rest: Vec<u8>) -> Result<Accepted, Error> {
        let fits = |half: &Half| half.id == attach.connection && half.key == attach.key;
        let Some(at) = self.halves.iter().position(fits) else {
            return Err(Error::Protocol("attached to nothing"));
        };
        tune(fd.as_fd())?;
        let mut half = self.halves.swap_remove(at);
        let agent = match &self.agent {
            Some(agent) => agent.clone(),
            None => self.agent.insert(Arc::new(Agent::start()?)).clone(),
        };
        let regions = std::mem::take(&mut half.regions);
        let seat = agent.serve(half.id, Stream::new(fd, rest), regions);
        half.complete(Some(seat))
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
        while let Some(Heard { fd, first, rest }) = self.waiting.next()? {
            match first {
                First::Hello(hello) if rest.is_empty() => match self.welcome(&fd, hello, gate) {
                    Ok(half) if half.regions.is_empty() => return half.complete(None).map(Some),
                    Ok(half) => self.halves.push(half),
                    Err(error) => refuse(fd.as_fd(), &error),
                },
                First::Attach(attach) => {
                    if let Ok(accepted) = self.attach(fd, attach, rest) {
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
    let hello = Hello {
        fabric: Fabric::Tcp,
        role: options.role,
        user: options.user.clone(),
        password: options.password.clone(),
        blob: Vec::new(),
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
    let desk = if welcome.regions.is_empty() {
        None
    } else {
        let key = welcome.blob.as_slice().try_into().map(u64::from_le_bytes);
        let key = key.map_err(|_| Error::Protocol("a welcome without a key to the agent"))?;
        let (fd, _) = dial(&[address], &deadline)?;
        let attach = Attach { connection: welcome.connection, key };
        crate::net::send_all(&fd, &attach.encode(), &deadline)?;
        Some((Stream::new(fd, Vec::new()), address.to_string()))
    };
    let messages = Stream::new(fd, bytes.split_off(used));
    Ok(Connected {
        connection: Box::new(Tcp::new(
            Fabric::Tcp,
            messages,
            desk,
            None,
            welcome.regions,
            options.operation,
        )?),
        id: welcome.connection,
        incarnation: welcome.incarnation,
        info: welcome.info,
    })
}
