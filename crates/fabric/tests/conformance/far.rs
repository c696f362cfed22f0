//! The listening side of a pair, or a process, on another machine: what the tests ask of the deputy there ([`crate::deputy`]).
//!
//! ```text
//!   test, this machine  ──── TCP: requests and answers ────▶  deputy, the other machine
//!     client  ════════════ the fabric under test ════════════▶  its listening side, or the process it started
//! ```
//! A frame is its length (4 bytes, little-endian) and a body; the first byte of a request's body says what is asked.

use kintsugidb_fabric::{
    Accepted, Address, Buffer, Capabilities, Completion, Connection, Error, Fabric, Peer, RemoteRegion, Span,
    handshake::Role,
};
use rustix::process::Signal;
use std::io::{Read, Result as IoResult, Write};
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Where the deputy of the other machine is; a loopback one is started if it is not said.
pub const DEPUTY: &str = "KINTSUGI_FABRIC_DEPUTY";

pub mod ask {
    //! What can be asked, and what the answers begin with.
    /// Listen on a fabric (by its name): the address; then, once somebody has come in, the connection's number.
    pub const LISTEN: u8 = 1;
    /// Listen, and admit or refuse whoever comes until this control connection ends: the address.
    pub const GUARD: u8 = 2;
    pub const SEND: u8 = 3;
    pub const RECEIVE: u8 = 4;
    /// Sleep for at most so many milliseconds.
    pub const WAIT: u8 = 5;
    pub const POLL: u8 = 6;
    /// Close the connection.
    pub const DROP: u8 = 7;
    /// Store words in the region for reading, from an offset.
    pub const STORE: u8 = 8;
    /// The bytes of the region for writing: offset, count.
    pub const LOAD: u8 = 9;
    /// Start a process: its role and the fabric, or an address.
    pub const START: u8 = 10;
    /// What it says next.
    pub const HEAR: u8 = 11;
    /// Send it a signal; STOP waits until it has stopped.
    pub const SIGNAL: u8 = 12;

    pub const DONE: u8 = 0;
    pub const NONE: u8 = 1;
    pub const FULL: u8 = 2;
    pub const DEAD: u8 = 3;
    pub const FAILED: u8 = 4;
}

pub fn put(socket: &mut TcpStream, first: u8, rest: &[&[u8]]) -> IoResult<()> {
    let length = 1 + rest.iter().map(|part| part.len()).sum::<usize>();
    let mut frame = (length as u32).to_le_bytes().to_vec();
    frame.push(first);
    rest.iter().for_each(|part| frame.extend_from_slice(part));
    socket.write_all(&frame)
}

pub fn take(socket: &mut TcpStream) -> IoResult<(u8, Vec<u8>)> {
    let mut length = [0; 4];
    socket.read_exact(&mut length)?;
    let mut body = vec![0; u32::from_le_bytes(length) as usize];
    socket.read_exact(&mut body)?;
    Ok((body.remove(0), body))
}

pub fn word(bytes: &[u8], i: usize) -> u64 {
    u64::from_le_bytes(bytes[8 * i..][..8].try_into().unwrap())
}

/// A control connection to the deputy.
pub struct Control(Mutex<TcpStream>);

impl Control {
    /// To the deputy of the other machine, or to one of this machine that ends with this process.
    pub fn new() -> Arc<Control> {
        static DEPUTY_HERE: OnceLock<(String, Mutex<crate::processes::Process>)> = OnceLock::new();
        let at = std::env::var(DEPUTY).unwrap_or_else(|_| {
            let started = DEPUTY_HERE.get_or_init(|| {
                let process = crate::processes::Process::here("deputy", "127.0.0.1:0");
                (process.hear(), Mutex::new(process))
            });
            started.0.clone()
        });
        let socket = TcpStream::connect(&at).unwrap_or_else(|e| panic!("no deputy at {at}: {e}"));
        socket.set_nodelay(true).unwrap();
        Arc::new(Control(Mutex::new(socket)))
    }

    fn ask_parts(&self, what: u8, rest: &[&[u8]]) -> Result<Option<Vec<u8>>, Error> {
        let mut socket = self.0.lock().unwrap();
        put(&mut socket, what, rest).expect("the deputy takes requests");
        answer(&mut socket)
    }

    /// One request. `None`: there is nothing (now).
    pub fn ask(&self, what: u8, rest: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.ask_parts(what, &[rest])
    }

    fn text(&self, what: u8, rest: &[u8]) -> String {
        String::from_utf8(self.ask(what, rest).unwrap().expect("an answer")).unwrap()
    }

    /// Where somebody there admits and refuses, as long as this control connection lasts.
    pub fn guard(&self, fabric: Fabric) -> Address {
        self.text(ask::GUARD, fabric.name().as_bytes()).parse().unwrap()
    }

    /// Listens there, connects by `connect`, and answers its outcome and the other side.
    pub fn pair<T>(self: &Arc<Self>, fabric: Fabric, connect: impl FnOnce(&Address) -> T) -> (T, Accepted) {
        let address: Address = self.text(ask::LISTEN, fabric.name().as_bytes()).parse().unwrap();
        let here = connect(&address);
        let id = answer(&mut self.0.lock().unwrap()).unwrap().expect("the connection's number");
        let connection = Box::new(FarConnection(self.clone()));
        let (user, peer) = (b"default".to_vec(), Peer::default());
        (here, Accepted { connection, id: word(&id, 0), user, role: Role::Client, peer })
    }

    pub fn store(&self, offset: u64, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.ask_parts(ask::STORE, &[&offset.to_le_bytes(), &bytes]).unwrap();
    }

    pub fn load(&self, offset: u64, into: &mut [u8]) {
        let (offset, count) = (offset.to_le_bytes(), (into.len() as u64).to_le_bytes());
        into.copy_from_slice(&self.ask_parts(ask::LOAD, &[&offset, &count]).unwrap().expect("bytes"));
    }

    pub fn start(&self, role: &str, address: &str) {
        self.ask(ask::START, format!("{role} {address}").as_bytes()).unwrap();
    }

    pub fn hear(&self) -> String {
        self.text(ask::HEAR, b"")
    }

    pub fn signal(&self, signal: Signal) {
        self.ask(ask::SIGNAL, &signal.as_raw().to_le_bytes()).unwrap();
    }
}

fn answer(socket: &mut TcpStream) -> Result<Option<Vec<u8>>, Error> {
    match take(socket).expect("the deputy answers") {
        (ask::DONE, rest) => Ok(Some(rest)),
        (ask::NONE, _) => Ok(None),
        (ask::FULL, _) => Err(Error::Full),
        (ask::DEAD, _) => Err(Error::PeerDead),
        (_, why) => panic!("the deputy says: {}", String::from_utf8_lossy(&why)),
    }
}

/// The other end of a pair, moved by requests; its own one-sided accesses are not asked for.
struct FarConnection(Arc<Control>);

impl Drop for FarConnection {
    fn drop(&mut self) {
        // Nobody minds while a test is failing anyway.
        if !std::thread::panicking() {
            let _ = self.0.ask(ask::DROP, b"");
        }
    }
}

impl Connection for FarConnection {
    fn capabilities(&self) -> Capabilities {
        unimplemented!("the tests ask the connecting side")
    }
    fn regions(&self) -> &[RemoteRegion] {
        &[]
    }
    fn register(&mut self, _: usize) -> Result<Buffer, Error> {
        unimplemented!("it has no memory here")
    }
    fn deregister(&mut self, buffer: &Buffer) -> Result<(), Error> {
        Err(Error::NoSuchBuffer(buffer.id()))
    }
    fn read(&mut self, region: u32, _: u64, _: Span, _: u64) -> Result<(), Error> {
        Err(Error::NoSuchRegion(region))
    }
    fn write(&mut self, _: Span, region: u32, _: u64, _: u64) -> Result<(), Error> {
        Err(Error::NoSuchRegion(region))
    }
    fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        self.0.ask(ask::SEND, message).map(drop)
    }
    fn receive(&mut self, into: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        let message = self.0.ask(ask::RECEIVE, b"")?;
        Ok(message.map(|m| {
            into.extend_from_slice(&m);
            m.len()
        }))
    }
    fn poll(&mut self, _: &mut Vec<Completion>) -> Result<usize, Error> {
        self.0.ask(ask::POLL, b"").map(|_| 0)
    }
    fn arm(&mut self) -> Result<bool, Error> {
        Ok(true)
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// In short naps: others want to ask the deputy meanwhile.
    fn wait(&mut self, limit: Duration) -> Result<bool, Error> {
        let end = Instant::now() + limit;
        loop {
            let nap = end.saturating_duration_since(Instant::now()).min(Duration::from_millis(50));
            if self.0.ask(ask::WAIT, &(nap.as_millis() as u64).to_le_bytes())?.is_some() {
                return Ok(true);
            }
            if Instant::now() >= end {
                return Ok(false);
            }
        }
    }
}
