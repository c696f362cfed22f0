//! The Unix socket: its path, and descriptors that travel on it.

use crate::Error;
use crate::net::{DESCRIPTORS, Deadline, Heard};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType,
};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

fn socket() -> Result<OwnedFd, Error> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(Error::system("socket"))
}

fn address(path: &Path) -> Result<SocketAddrUnix, Error> {
    SocketAddrUnix::new(path).map_err(Error::system("the path of a Unix socket"))
}

/// Binds and listens. A socket that a dead process left at the path is replaced; a live one is not.
pub(super) fn bind(path: &Path, mode: u32) -> Result<OwnedFd, Error> {
    let address = address(path)?;
    let fd = socket()?;
    match rustix::net::bind(&fd, &address) {
        Err(Errno::ADDRINUSE) if rustix::net::connect(socket()?, &address) == Err(Errno::CONNREFUSED) => {
            rustix::fs::unlink(path).map_err(Error::system("removing a stale socket"))?;
            rustix::net::bind(&fd, &address).map_err(Error::system("bind"))?;
        }
        other => other.map_err(Error::system("bind"))?,
    }
    rustix::fs::chmod(path, Mode::from_raw_mode(mode)).map_err(Error::system("chmod of the socket"))?;
    rustix::net::listen(&fd, 128).map_err(Error::system("listen"))?;
    Ok(fd)
}

pub(super) fn connect(path: &Path, deadline: &Deadline) -> Result<OwnedFd, Error> {
    let address = address(path)?;
    let fd = socket()?;
    loop {
        match rustix::net::connect(&fd, &address) {
            Ok(()) | Err(Errno::ISCONN) => return Ok(fd),
            Err(Errno::INTR) => {}
            // The queue of the listener is full.
            Err(Errno::AGAIN) if !deadline.passed() => {
                std::thread::sleep(std::time::Duration::from_millis(5))
            }
            Err(errno) => return Err(Error::system("connect")(errno)),
        }
    }
}

/// Sends a frame, and descriptors with its first byte. The frame has to fit into a fresh socket; if it does not, the peer is at fault.
pub(super) fn send_with(
    fd: BorrowedFd<'_>,
    frame: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Error> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Error::TooLarge { bytes: descriptors.len() as u64, limit: DESCRIPTORS as u64 });
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let sent = rustix::net::sendmsg(fd, &[IoSlice::new(frame)], &mut ancillary, flags);
    if sent.map_err(Error::system("sendmsg"))? == frame.len() { Ok(()) } else { Err(Error::PeerDead) }
}

/// Receives bytes, at most so many at once, and the descriptors that came with them. `false`: the end.
pub(super) fn receive_with(
    fd: BorrowedFd<'_>,
    bytes: &mut Vec<u8>,
    descriptors: &mut Vec<OwnedFd>,
    deadline: &Deadline,
) -> Result<bool, Error> {
    let mut chunk = [0; crate::net::CHUNK];
    loop {
        match crate::net::receive_with(fd, &mut chunk, descriptors)? {
            Heard::Bytes(_) | Heard::End if descriptors.len() > DESCRIPTORS => {
                return Err(Error::Protocol("too many descriptors"));
            }
            Heard::Bytes(count) => {
                bytes.extend_from_slice(&chunk[..count]);
                return Ok(true);
            }
            Heard::End => return Ok(false),
            Heard::Nothing => deadline.wait_readable(fd)?,
        }
    }
}
