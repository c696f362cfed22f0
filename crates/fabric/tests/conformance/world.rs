//! How a pair of connections comes about.

use crate::far::Control;
use crate::processes::{Other, Process};
use kintsugidb_fabric::handshake::Hello;
use kintsugidb_fabric::{
    Accepted, Access, Address, ConnectOptions, Connected, Error, Export, Fabric, Grant, ListenOptions,
    Listener, Mapping, OneSided, Peer, Refusal, RefusalCode, connect, listen, sim,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The region that the pair's listening side exports for reading, and the one for writing too.
pub const READ: u32 = 3;
pub const WRITE: u32 = 4;
pub const REGION_BYTES: u64 = 1 << 20;
pub const PASSWORD: &[u8] = b"gold";

pub struct World {
    pub fabric: Fabric,
    pub ring_bytes: usize,
    /// What the simulation pretends.
    pub one_sided: OneSided,
    /// The listening side, and other processes, are on another machine.
    pub far: bool,
}

pub struct Pair {
    pub client: Connected,
    pub server: Accepted,
    pub memory: Memory,
    _listener: Option<Box<dyn Listener>>,
}

/// The regions of the side that hands some out.
pub struct Memory {
    pub read: Arc<Mapping>,
    pub write: Arc<Mapping>,
    /// Those in use are another machine's, not those two.
    far: Option<Arc<Control>>,
}

impl Memory {
    /// Their owner stores words in the region for reading.
    pub fn store(&self, offset: u64, words: &[u64]) {
        if let Some(far) = &self.far {
            return far.store(offset, words);
        }
        let range = self.read.range(offset, 8 * words.len() as u64).unwrap();
        range.iter().zip(words).for_each(|(to, word)| to.store(*word, Ordering::Release));
    }

    /// Bytes of the region for writing.
    pub fn written(&self, offset: u64, into: &mut [u8]) {
        match &self.far {
            Some(far) => far.load(offset, into),
            None => self.write.load_bytes(offset, into).unwrap(),
        }
    }
}

/// The host that the RDMA device is on.
fn rdma_host() -> String {
    std::env::var("SOFTROCE_ADDRESS").unwrap_or_else(|_| "127.0.0.1".to_owned())
}

pub fn options() -> ConnectOptions {
    ConnectOptions { password: PASSWORD.to_vec(), handshake: Duration::from_secs(30), ..Default::default() }
}

pub fn gate(exports: Vec<Export>) -> impl FnMut(&Hello, &Peer) -> Result<Grant, Refusal> {
    move |hello: &Hello, _: &Peer| {
        if hello.user != b"default" || hello.password != PASSWORD {
            let reason = "wrong user or password".to_owned();
            return Err(Refusal { code: RefusalCode::Authentication, reason });
        }
        Ok(Grant { exports: exports.clone(), info: b"shards: 2".to_vec() })
    }
}

impl World {
    pub fn new(fabric: Fabric) -> World {
        World { fabric, ring_bytes: 16 << 10, one_sided: OneSided::Truly, far: false }
    }

    /// The same with the other side on another machine: the one that `far::DEPUTY` names, else (not for RDMA devices) this one again.
    pub fn far(fabric: Fabric) -> World {
        World { far: true, ..World::new(fabric) }
    }

    pub fn fabric_named(name: &str) -> Fabric {
        *Fabric::ALL.iter().find(|f| f.name() == name).unwrap_or_else(|| panic!("no fabric {name}"))
    }

    /// Another process, on the machine of the other side.
    pub fn start(&self, role: &str, address: &str) -> Other {
        if !self.far {
            return Other::Here(Process::here(role, address));
        }
        let control = Control::new();
        control.start(role, address);
        Other::There(control)
    }

    /// Whether this machine has what the fabric needs; if not, that is said. Where it must have it (`tests/softroce`), it is not asked.
    pub fn available(&self) -> bool {
        if self.far
            && matches!(self.fabric, Fabric::Verbs | Fabric::Rdma)
            && std::env::var_os(crate::far::DEPUTY).is_none()
        {
            eprintln!("skipped: no other machine");
            return false;
        }
        if !matches!(self.fabric, Fabric::Verbs | Fabric::Rdma) || std::env::var_os("SOFTROCE_ROLE").is_some()
        {
            return true;
        }
        match listen(&self.address(), &ListenOptions::default()) {
            Err(error @ Error::Unavailable { .. }) => {
                eprintln!("skipped: {error}");
                false
            }
            _ => true,
        }
    }

    pub fn address(&self) -> Address {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("kf-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        match self.fabric {
            Fabric::Shm => Address::Shm(std::env::temp_dir().join(name + ".sock")),
            Fabric::Tcp => Address::Tcp("127.0.0.1:0".to_owned()),
            Fabric::Verbs => Address::Verbs(rdma_host() + ":0"),
            Fabric::Rdma => Address::Rdma(rdma_host() + ":0"),
            Fabric::Sim => Address::Sim(name),
        }
    }

    pub fn network(&self) -> sim::Network {
        let seed = self.ring_bytes as u64;
        sim::Network::new(sim::Config { seed, one_sided: self.one_sided, ..Default::default() })
    }

    pub fn listen(&self) -> Box<dyn Listener> {
        self.listen_at(&self.address())
    }

    pub fn listen_at(&self, address: &Address) -> Box<dyn Listener> {
        let options = ListenOptions {
            ring_bytes: self.ring_bytes,
            handshake: Duration::from_secs(30),
            peer_regions: 2,
            ..Default::default()
        };
        listen(address, &options).unwrap()
    }

    pub fn exports() -> (Vec<Export>, Arc<Mapping>, Arc<Mapping>) {
        let read = Arc::new(Mapping::create(REGION_BYTES).unwrap());
        read.seal_future_writes().unwrap();
        let write = Arc::new(Mapping::create(REGION_BYTES).unwrap());
        let exports = vec![
            Export { id: READ, access: Access::Read, memory: read.clone() },
            Export { id: WRITE, access: Access::ReadWrite, memory: write.clone() },
        ];
        (exports, read, write)
    }

    /// A connected pair in this process.
    pub fn pair(&self) -> Pair {
        let (exports, read, write) = World::exports();
        self.pair_with(options(), exports, read, write)
    }

    /// A pair whose connecting side hands out the regions; the listening side hands out `exports`.
    pub fn pair_the_other_way(&self, exports: Vec<Export>) -> Pair {
        let (own, read, write) = World::exports();
        self.pair_with(ConnectOptions { exports: own, ..options() }, exports, read, write)
    }

    fn pair_with(
        &self,
        options: ConnectOptions,
        exports: Vec<Export>,
        read: Arc<Mapping>,
        write: Arc<Mapping>,
    ) -> Pair {
        if self.fabric == Fabric::Sim {
            let (client, server) = self.network().connect(&options, &mut gate(exports)).unwrap();
            return Pair { client, server, memory: Memory { read, write, far: None }, _listener: None };
        }
        if self.far {
            assert!(
                exports.len() == 2 && options.exports.is_empty(),
                "regions of its own are not asked of the far side"
            );
            let control = Control::new();
            let (client, server) = control.pair(self.fabric, |address| connect(address, &options).unwrap());
            return Pair {
                client,
                server,
                memory: Memory { read, write, far: Some(control) },
                _listener: None,
            };
        }
        let mut listener = self.listen();
        let address = listener.address();
        let client = std::thread::spawn(move || connect(&address, &options));
        let server = accept(&mut *listener, exports);
        let client = client.join().unwrap().unwrap();
        Pair { client, server, memory: Memory { read, write, far: None }, _listener: Some(listener) }
    }
}

/// Waits for a connection.
pub fn accept(listener: &mut dyn Listener, exports: Vec<Export>) -> Accepted {
    let mut gate = gate(exports);
    loop {
        if let Some(accepted) = listener.accept(&mut gate).unwrap() {
            return accepted;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What comes of connecting with these options, while a listener admits by the gate.
pub fn try_connect(world: &World, options: ConnectOptions) -> Result<Connected, Error> {
    let mut gate = gate(Vec::new());
    if world.fabric == Fabric::Sim {
        return world.network().connect(&options, &mut gate).map(|(client, _)| client);
    }
    if world.far {
        let control = Control::new();
        return connect(&control.guard(world.fabric), &options);
    }
    let mut listener = world.listen();
    let address = listener.address();
    let client = std::thread::spawn(move || connect(&address, &options));
    while !client.is_finished() {
        let _ = listener.accept(&mut gate).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    client.join().unwrap()
}
