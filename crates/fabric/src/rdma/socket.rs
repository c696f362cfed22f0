//! The TCP socket of the set-up, which then stays open to tell of the peer's end.

use crate::Error;
use crate::net::Deadline;
use rustix::io::Errno;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// Silence after which a peer's machine is asked whether it lives, how often, and how many times: gone after 16 s.
const KEEP_ALIVE: (Duration, Duration, u32) = (Duration::from_secs(10), Duration::from_secs(2), 3);

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn failed(what: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::System { what, source: errno(&error) }
}

fn resolve(host: &str) -> Result<Vec<SocketAddr>, Error> {
    let found: Vec<SocketAddr> = host.to_socket_addrs().map_err(failed("looking up the host"))?.collect();
    if found.is_empty() {
        Err(Error::System { what: "looking up the host", source: Errno::NOENT })
    } else {
        Ok(found)
    }
}

/// A listening socket and where it is.
pub(super) fn bind(host: &str) -> Result<(OwnedFd, SocketAddr), Error> {
    let listener = TcpListener::bind(resolve(host)?.as_slice()).map_err(failed("listening"))?;
    listener.set_nonblocking(true).map_err(failed("listening"))?;
    let address = listener.local_addr().map_err(failed("listening"))?;
    Ok((listener.into(), address))
}

/// A connected socket, non-blocking.
pub(super) fn connect(host: &str, limit: Duration) -> Result<OwnedFd, Error> {
    let deadline = Deadline::new("connecting", limit);
    let mut last = Error::System { what: "connecting", source: Errno::TIMEDOUT };
    for address in resolve(host)? {
        match TcpStream::connect_timeout(&address, deadline.left()?) {
            Ok(stream) => {
                stream.set_nonblocking(true).map_err(failed("connecting"))?;
                let fd = OwnedFd::from(stream);
                prepare(&fd)?;
                return Ok(fd);
            }
            Err(error) => last = failed("connecting")(error),
        }
    }
    Err(last)
}

/// Sets what both ends want of their socket.
pub(super) fn prepare(fd: &OwnedFd) -> Result<(), Error> {
    use rustix::net::sockopt;
    let (idle, interval, count) = KEEP_ALIVE;
    sockopt::set_socket_keepalive(fd, true)
        .and_then(|()| sockopt::set_tcp_keepidle(fd, idle))
        .and_then(|()| sockopt::set_tcp_keepintvl(fd, interval))
        .and_then(|()| sockopt::set_tcp_keepcnt(fd, count))
        .and_then(|()| sockopt::set_tcp_nodelay(fd, true))
        .map_err(Error::system("setting up a socket"))
}

/// Both ends' addresses.
pub(super) fn addresses(fd: &OwnedFd) -> Result<(SocketAddr, SocketAddr), Error> {
    let own = rustix::net::getsockname(fd).map_err(Error::system("getsockname"))?;
    let peer = rustix::net::getpeername(fd).map_err(Error::system("getpeername"))?;
    let peer = peer.ok_or(Error::PeerDead)?;
    let of = |any: rustix::net::SocketAddrAny| {
        SocketAddr::try_from(any)
            .map_err(|_| Error::System { what: "an address of a socket", source: Errno::AFNOSUPPORT })
    };
    Ok((of(own)?, of(peer)?))
}

/// Lets the other end, and other descriptors of this one, see the end.
pub(super) fn shut(fd: BorrowedFd<'_>) {
    let _ = rustix::net::shutdown(fd, rustix::net::Shutdown::Both);
}
