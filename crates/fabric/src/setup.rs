//! Set-up, apart from the data path: listening, connecting, who may come in and what they are handed.

use crate::handshake::{Hello, Role};
use crate::{
    Access, Address, Connection, Error, Fabric, Mapping, Refusal, RefusalCode, RemoteRegion, limits, rdma,
    shm, tcp,
};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// A region that is handed to a peer.
#[derive(Clone, Debug)]
pub struct Export {
    /// Its number, for the peer.
    pub id: u32,
    /// What the peer may do.
    pub access: Access,
    /// The memory.
    pub memory: Arc<Mapping>,
}

/// What an admitted peer is given.
#[derive(Clone, Debug, Default)]
pub struct Grant {
    /// The regions.
    pub exports: Vec<Export>,
    /// Bytes for the peer's application, at most [`limits::INFO_BYTES`].
    pub info: Vec<u8>,
}

/// What is known of who connects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its network address; none over a Unix socket.
    pub address: Option<std::net::SocketAddr>,
    /// Its process and its user, as the system says; only over a Unix socket.
    pub process: Option<(u32, u32)>,
}

/// Who may come in. Asked once for each connection, after the frame has been checked for sense.
///
/// Passwords are to be compared in constant time; that is the gate's part.
pub trait Gate {
    /// Admits or refuses.
    ///
    /// # Errors
    /// The refusal; the peer is told.
    fn admit(&mut self, hello: &Hello, peer: &Peer) -> Result<Grant, Refusal>;
}

impl<F: FnMut(&Hello, &Peer) -> Result<Grant, Refusal>> Gate for F {
    fn admit(&mut self, hello: &Hello, peer: &Peer) -> Result<Grant, Refusal> {
        self(hello, peer)
    }
}

/// A connection that has been let in.
pub struct Accepted {
    /// The data path.
    pub connection: Box<dyn Connection>,
    /// Its number, as its welcome says.
    pub id: u64,
    /// Its user.
    pub user: Vec<u8>,
    /// What it wants to be.
    pub role: Role,
    /// Who it is.
    pub peer: Peer,
}

impl std::fmt::Debug for Accepted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Accepted({} of {:?}, {:?})", self.id, String::from_utf8_lossy(&self.user), self.role)
    }
}

/// A place where peers connect.
pub trait Listener: Send {
    /// Where it is; the port is the one that the system gave.
    fn address(&self) -> Address;

    /// Readable when [`Listener::accept`] has something to do.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Moves on the handshakes under way, and returns a connection if one is complete. Never blocks. To be called again until it
    /// returns `None`, when [`Listener::fd`] is readable and about every second (handshakes have a time limit).
    ///
    /// # Errors
    /// Only what concerns the listener itself; a peer that misbehaves is dropped.
    fn accept(&mut self, gate: &mut dyn Gate) -> Result<Option<Accepted>, Error>;
}

/// How to listen.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// Bytes of the ring of each direction; a power of two within [`limits::RING_BYTES_RANGE`].
    pub ring_bytes: usize,
    /// Which life of this process it is; peers see it change after a restart. 0: a random number.
    pub incarnation: u64,
    /// Permissions of a Unix socket.
    pub mode: u32,
    /// What a handshake may take.
    pub handshake: Duration,
    /// How many regions one who connects may hand to this side ([`ConnectOptions::exports`]), at most [`limits::PEER_REGIONS`]. Who
    /// hands out more is refused. Over shared memory they are mapped here, which is why the usual number is 0.
    pub peer_regions: usize,
}

impl Default for ListenOptions {
    fn default() -> Self {
        ListenOptions {
            ring_bytes: limits::RING_BYTES,
            incarnation: 0,
            mode: 0o600,
            handshake: limits::HANDSHAKE,
            peer_regions: 0,
        }
    }
}

/// How to connect.
#[derive(Clone)]
pub struct ConnectOptions {
    /// The user's name.
    pub user: Vec<u8>,
    /// The password.
    pub password: Vec<u8>,
    /// What this side wants to be.
    pub role: Role,
    /// What the handshake may take.
    pub handshake: Duration,
    /// What an emulated operation may take.
    pub operation: Duration,
    /// Regions for the listening side, as its [`Grant`] has some for this one. At most [`limits::PEER_REGIONS`]; a listener must be
    /// willing ([`ListenOptions::peer_regions`]).
    pub exports: Vec<Export>,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        ConnectOptions {
            user: b"default".to_vec(),
            password: Vec::new(),
            role: Role::Client,
            handshake: limits::HANDSHAKE,
            operation: limits::OPERATION,
            exports: Vec::new(),
        }
    }
}

impl std::fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let user = String::from_utf8_lossy(&self.user);
        write!(f, "ConnectOptions({user:?}, {:?}, password not shown)", self.role)
    }
}

/// A connection from the side that asked for it.
pub struct Connected {
    /// The data path.
    pub connection: Box<dyn Connection>,
    /// The connection's number at the other side.
    pub id: u64,
    /// Which life of the listening process it is.
    pub incarnation: u64,
    /// What the listening application says.
    pub info: Vec<u8>,
}

impl std::fmt::Debug for Connected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connected({} to incarnation {})", self.id, self.incarnation)
    }
}

/// What every listener checks before it asks its gate: whether it takes so many regions.
pub(crate) fn take_regions(hello: &Hello, limit: usize) -> Result<(), Error> {
    let (count, limit) = (hello.regions.len(), limit.min(limits::PEER_REGIONS));
    if count <= limit {
        return Ok(());
    }
    let reason = format!("{count} regions of who connects; this side takes {limit}");
    Err(Error::Refused(Refusal { code: RefusalCode::Permission, reason }))
}

/// What every back end checks of a region before it hands it out; the region's own words for it.
pub(crate) fn describe(export: &Export, key: u64) -> Result<RemoteRegion, Error> {
    let Export { id, access, memory } = export;
    if *access == Access::ReadWrite && !memory.writable() {
        return Err(Error::Unsafe("a region that is mapped for reading cannot be exported for writing"));
    }
    Ok(RemoteRegion { id: *id, access: *access, length: memory.len(), key, base: 0 })
}

/// Connects, within the time that the options allow.
///
/// # Errors
/// [`Error::Refused`], [`Error::Unavailable`], [`Error::SetUpTimedOut`], or what the system says.
pub fn connect(address: &Address, options: &ConnectOptions) -> Result<Connected, Error> {
    match address {
        Address::Shm(path) => shm::connect(path, options),
        Address::Verbs(at) | Address::Rdma(at) => rdma::connect(address.fabric(), at, options),
        Address::Tcp(at) => tcp::connect(at, options),
        other => Err(unavailable(other.fabric())),
    }
}

/// Listens.
///
/// # Errors
/// [`Error::Unavailable`], or what the system says.
pub fn listen(address: &Address, options: &ListenOptions) -> Result<Box<dyn Listener>, Error> {
    match address {
        Address::Shm(path) => Ok(Box::new(shm::Listener::bind(path, options)?)),
        Address::Verbs(at) | Address::Rdma(at) => {
            Ok(Box::new(rdma::Listener::bind(address.fabric(), at, options)?))
        }
        Address::Tcp(at) => Ok(Box::new(tcp::Listener::bind(at, options)?)),
        other => Err(unavailable(other.fabric())),
    }
}

fn unavailable(fabric: Fabric) -> Error {
    Error::Unavailable { fabric, why: "this build does not have it".to_owned() }
}
