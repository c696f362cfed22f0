//! Set-up over the Unix socket, from both sides.

use super::connection::{Shm, file_bytes};
use super::socket;
use crate::handshake::{First, Hello, Welcome};
use crate::net::Deadline;
use crate::pending::{Heard, Waiting};
use crate::setup::{describe, take_regions};
use crate::{
    Accepted, Access, Address, ConnectOptions, Connected, Error, Export, Fabric, Gate, ListenOptions,
    Mapping, Peer, Refusal, RefusalCode, RemoteRegion, limits,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The socket that peers connect to.
pub(crate) struct Listener {
    waiting: Waiting,
    path: PathBuf,
    identity: (u64, u64),
    ring_bytes: u64,
    incarnation: u64,
    connections: u64,
    peer_regions: usize,
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let stat = rustix::fs::stat(path).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

impl Listener {
    pub fn bind(path: &Path, options: &ListenOptions) -> Result<Listener, Error> {
        let ring_bytes = options.ring_bytes as u64;
        if !ring_bytes.is_power_of_two() || !limits::RING_BYTES_RANGE.contains(&ring_bytes) {
            return Err(Error::TooLarge { bytes: ring_bytes, limit: *limits::RING_BYTES_RANGE.end() });
        }
        let fd = socket::bind(path, options.mode)?;
        let incarnation = if options.incarnation == 0 { crate::net::secret()? } else { options.incarnation };
        Ok(Listener {
            waiting: Waiting::new(fd, options.handshake, options.peer_regions)?,
            path: path.to_owned(),
            identity: identity(path).unwrap_or_default(),
            ring_bytes,
            incarnation,
            connections: 0,
            peer_regions: options.peer_regions,
        })
    }

    fn welcome(
        &mut self,
        fd: OwnedFd,
        hello: Hello,
        theirs: Vec<OwnedFd>,
        gate: &mut dyn Gate,
    ) -> Result<Accepted, Error> {
        if hello.fabric != Fabric::Shm {
            let reason = format!("this socket is for shm, not for {}", hello.fabric);
            return Err(Error::Refused(Refusal { code: RefusalCode::Malformed, reason }));
        }
        take_regions(&hello, self.peer_regions)?;
        let credentials = rustix::net::sockopt::socket_peercred(&fd).map_err(Error::system("SO_PEERCRED"))?;
        let pid = credentials.pid.as_raw_nonzero().get().unsigned_abs();
        let peer = Peer { address: None, process: Some((pid, credentials.uid.as_raw())) };
        let grant = gate.admit(&hello, &peer).map_err(Error::Refused)?;
        // Only of those who may come in.
        let mappings = map(&hello.regions, theirs)?;
        let (regions, handed) = hand_out(&grant.exports)?;
        let file = Mapping::create(file_bytes(self.ring_bytes))?;
        let file_fd = file.fd().ok_or(Error::Unsafe("rings without a file"))?;
        self.connections += 1;
        let welcome = Welcome {
            connection: self.connections,
            incarnation: self.incarnation,
            info: grant.info,
            blob: self.ring_bytes.to_le_bytes().to_vec(),
            regions,
        };
        let mut descriptors = vec![file_fd];
        descriptors.extend(handed.iter().map(OwnedFd::as_fd));
        socket::send_with(fd.as_fd(), &welcome.encode()?, &descriptors)?;
        let connection = Shm::new(fd, file, self.ring_bytes, true, hello.regions, mappings);
        let (id, user, role) = (self.connections, hello.user, hello.role);
        Ok(Accepted { connection: Box::new(connection), id, user, role, peer })
    }
}

impl crate::Listener for Listener {
    fn address(&self) -> Address {
        Address::Shm(self.path.clone())
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.waiting.fd()
    }

    fn accept(&mut self, gate: &mut dyn Gate) -> Result<Option<Accepted>, Error> {
        self.waiting.admit_newcomers()?;
        while let Some(Heard { fd, first, rest, handed }) = self.waiting.next()? {
            match first {
                // Who talks on before it was answered, or attaches to nothing, is no peer.
                First::Hello(hello) if rest.is_empty() => {
                    let answer = fd.try_clone();
                    match self.welcome(fd, hello, handed, gate) {
                        Ok(accepted) => return Ok(Some(accepted)),
                        Err(error) => {
                            if let Ok(fd) = answer {
                                crate::pending::refuse(fd.as_fd(), &error);
                            }
                        }
                    }
                }
                First::Hello(_) | First::Attach(_) => {}
            }
        }
        Ok(None)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if identity(&self.path) == Some(self.identity) {
            let _ = rustix::fs::unlink(&self.path);
        }
    }
}

/// What the peer is told of regions, and the descriptors to go with it.
fn hand_out(exports: &[Export]) -> Result<(Vec<RemoteRegion>, Vec<OwnedFd>), Error> {
    let regions = exports.iter().map(|export| describe(export, 0)).collect::<Result<_, _>>()?;
    let descriptor = |export: &Export| export.memory.descriptor(export.access == Access::ReadWrite);
    Ok((regions, exports.iter().map(descriptor).collect::<Result<_, _>>()?))
}

/// Maps what the peer has handed out.
fn map(regions: &[RemoteRegion], descriptors: Vec<OwnedFd>) -> Result<Vec<Arc<Mapping>>, Error> {
    if regions.len() != descriptors.len() {
        return Err(Error::Protocol("another number of descriptors than of regions"));
    }
    let map = |(region, fd): (&RemoteRegion, OwnedFd)| {
        Mapping::map(fd, region.length, region.access == Access::ReadWrite).map(Arc::new)
    };
    regions.iter().zip(descriptors).map(map).collect()
}

/// Connects to a listener at a path.
pub(crate) fn connect(path: &Path, options: &ConnectOptions) -> Result<Connected, Error> {
    let deadline = Deadline::new("the handshake", options.handshake);
    let fd = socket::connect(path, &deadline)?;
    let (regions, handed) = hand_out(&options.exports)?;
    let hello = Hello {
        fabric: Fabric::Shm,
        role: options.role,
        user: options.user.clone(),
        password: options.password.clone(),
        blob: Vec::new(),
        regions,
    };
    let handed: Vec<BorrowedFd<'_>> = handed.iter().map(OwnedFd::as_fd).collect();
    socket::send_with(fd.as_fd(), &hello.encode()?, &handed)?;
    let (mut bytes, mut descriptors) = (Vec::new(), Vec::new());
    let (welcome, used) = loop {
        if let Some(decoded) = Welcome::decode(&bytes)? {
            break decoded;
        }
        if !socket::receive_with(fd.as_fd(), &mut bytes, &mut descriptors, &deadline)? {
            return Err(Error::PeerDead);
        }
    };
    // Behind the frame there can be doorbells only.
    if bytes[used..].iter().any(|bell| *bell != 1) || descriptors.len() != welcome.regions.len() + 1 {
        return Err(Error::Protocol("the welcome does not fit the descriptors that came with it"));
    }
    let ring_bytes = welcome.blob.as_slice().try_into().map(u64::from_le_bytes);
    let ring_bytes = ring_bytes.map_err(|_| Error::Protocol("a welcome without the rings' size"))?;
    if !ring_bytes.is_power_of_two() || !limits::RING_BYTES_RANGE.contains(&ring_bytes) {
        return Err(Error::Protocol("rings of an impossible size"));
    }
    let mut descriptors = descriptors.into_iter();
    let file = descriptors.next().ok_or(Error::Protocol("no rings"))?;
    let file = Mapping::map(file, file_bytes(ring_bytes), true)?;
    let mappings = map(&welcome.regions, descriptors.collect())?;
    let connection = Shm::new(fd, file, ring_bytes, false, welcome.regions, mappings);
    Ok(Connected {
        connection: Box::new(connection),
        id: welcome.connection,
        incarnation: welcome.incarnation,
        info: welcome.info,
    })
}
