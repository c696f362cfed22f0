//! The RESP front end: event loops, connections, the way of a request to the shards and of its reply back.
//!
//! ```text
//!   Server::start -> T threads, each a Worker:
//!     poll      sockets and the bell of its mailbox
//!     conn      a connection: input, replies in order
//!     dispatch  one request: here, to the owner of its key, or a transaction
//!     front     commands that need no shard (PING, CLIENT, CONFIG, INFO …)
//!     native    connections over a fabric, whose clients coordinate transactions themselves
//!     owner     the shards s with s % T == t
//!   pages       a thread that has the kernel make large pages of what is in use
//!   udp         one more thread: datagrams to requests of a connection of its own, replies to answers
//!     mailbox   batches of calls, replies and letters to and from other threads
//! ```
//! Nothing is shared on the way of a request but mailboxes. No `unsafe` here.
#![forbid(unsafe_code)]

mod accept;
mod all;
mod clients;
pub mod config;
mod conn;
mod conns;
mod dispatch;
mod exec;
mod front;
mod held;
mod letter;
mod listen;
mod mailbox;
mod multi;
mod native;
mod outside;
mod owner;
mod poll;
mod post;
mod registry;
mod slices;
mod sockets;
mod stats;

mod txn;
mod udp;
mod worker;

pub use config::{Config, Isolation};
pub use listen::Listeners;

use clients::Clients;
use mailbox::Mailbox;
use stats::Stats;
use std::{
    io,
    sync::{
        Arc, Barrier, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The version of Redis whose commands and errors these are; what clients that ask are told.
pub const REDIS_VERSION: &str = "7.0.15";

/// What all threads share.
pub(crate) struct Shared {
    pub mailboxes: Vec<Mailbox>,
    pub stats: Vec<Stats>,
    pub clients: Clients,
    config: Mutex<Arc<Config>>,
    /// Counts changes of the configuration, so that threads notice.
    pub config_changes: AtomicU64,
    /// Settings that other servers have and clients set; kept, and without effect.
    pub foreign_settings: Mutex<std::collections::BTreeMap<String, String>>,
    pub stopping: AtomicBool,
    /// Threads that have no connection left, while stopping.
    pub finished: AtomicUsize,
    /// Until when clients are paused (CLIENT PAUSE), and whether only writers are.
    pub paused_until_ms: AtomicU64,
    pub paused_writes_only: AtomicBool,
    /// Shards that have used up their share of the memory limit, as of the last tick.
    pub full_shards: Vec<AtomicBool>,
    /// Readers of all shards' regions.
    pub readers: Mutex<Vec<Option<kintsugidb_arena::Reader>>>,
    /// The same as regions that native clients are handed; made when the first one comes.
    pub exports: Mutex<Vec<kintsugidb_fabric::Export>>,
    /// Numbers of native clients.
    pub numbers: native::Numbers,
    /// Differs from start to start.
    pub incarnation: u64,
    pub started: Instant,
    pub run_id: String,
    pub addresses: Vec<String>,
    pub tcp_port: u16,
}

impl Shared {
    pub fn config(&self) -> Arc<Config> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the configuration while running.
    pub fn change_config(&self, f: impl FnOnce(&mut Config) -> Result<(), String>) -> Result<(), String> {
        let mut guard = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = Config::clone(&guard);
        f(&mut changed)?;
        *guard = Arc::new(changed);
        self.config_changes.fetch_add(1, Ordering::Release);
        Ok(())
    }

    pub fn threads(&self) -> usize {
        self.mailboxes.len()
    }
}

/// A running server.
pub struct Server {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    unix_path: Option<std::path::PathBuf>,
    udp_address: Option<std::net::SocketAddr>,
}

impl Server {
    /// Starts the threads and serves what comes in at `listeners`.
    pub fn start(config: Config, mut listeners: Listeners) -> io::Result<Self> {
        config.check().map_err(io::Error::other)?;
        let threads = config.thread_count();
        listen::raise_file_limit(config.maxclients);
        let addresses = listeners.addresses();
        let tcp_port = listeners.tcp_port();
        let unix_path = listeners.unix_path();
        let udp = listeners.udp.take();
        let udp_address = udp.as_ref().map(std::net::UdpSocket::local_addr).transpose()?;
        choose_hash_seed();
        let seed = now_us() ^ u64::from(std::process::id()) << 40;
        let shared = Arc::new(Shared {
            mailboxes: (0..threads).map(|_| Mailbox::new()).collect::<Result<_, _>>()?,
            stats: (0..threads).map(|_| Stats::default()).collect(),
            clients: Clients::default(),
            full_shards: (0..config.shards).map(|_| AtomicBool::new(false)).collect(),
            readers: Mutex::new(vec![None; config.shards]),
            config: Mutex::new(Arc::new(config)),
            config_changes: AtomicU64::new(0),
            foreign_settings: Mutex::default(),
            stopping: AtomicBool::new(false),
            finished: AtomicUsize::new(0),
            paused_until_ms: AtomicU64::new(0),
            paused_writes_only: AtomicBool::new(false),
            exports: Mutex::default(),
            numbers: native::Numbers::new(threads),
            incarnation: seed,
            started: Instant::now(),
            run_id: format!(
                "{:040x}",
                u128::from(seed).wrapping_mul(0x2545_F491_4F6C_DD1D_9E37_79B9_7F4A_7C15)
            ),
            addresses,
            tcp_port,
        });
        let ready = Arc::new(Barrier::new(threads));
        let (started, results) = mpsc::channel();
        let mut listeners = Some(listeners);
        let mut handles = Vec::with_capacity(threads + 2);
        let pages = if shared.config().large_pages {
            let (offered, pages) = mpsc::channel::<kintsugidb_arena::LargePage>();
            let thread = std::thread::Builder::new().name("kintsugi-pages".into());
            // It ends with the last thread that has pages to offer.
            handles.push(thread.spawn(move || pages.iter().for_each(make_large))?);
            Some(offered)
        } else {
            None
        };
        for me in 0..threads {
            let mine = listeners.take().unwrap_or_default();
            let (shared, ready, started, pages) =
                (shared.clone(), ready.clone(), started.clone(), pages.clone());
            let thread = std::thread::Builder::new().name(format!("kintsugi-{me}"));
            handles.push(thread.spawn(move || {
                let worker = worker::Worker::new(me, shared, mine, seed, pages);
                ready.wait();
                match worker {
                    Ok(mut w) => {
                        w.connect_readers();
                        let _ = started.send(Ok(()));
                        w.run();
                    }
                    Err(e) => {
                        let _ = started.send(Err(e));
                    }
                }
            })?);
        }
        for _ in 0..threads {
            let result = results.recv().map_err(io::Error::other).and_then(|r| r);
            result.inspect_err(|_| shared.stopping.store(true, Ordering::SeqCst))?;
        }
        if let Some(socket) = udp {
            let (shared, thread) = (shared.clone(), std::thread::Builder::new().name("kintsugi-udp".into()));
            handles.push(thread.spawn(move || udp::run(&shared, &socket))?);
        }
        Ok(Self { shared, threads: handles, unix_path, udp_address })
    }

    /// Where it listens, as people write it.
    pub fn addresses(&self) -> &[String] {
        &self.shared.addresses
    }

    /// Where it answers datagrams, if it does.
    pub fn udp_address(&self) -> Option<std::net::SocketAddr> {
        self.udp_address
    }

    /// The TCP port, if it listens on one.
    pub fn tcp_port(&self) -> Option<u16> {
        (self.shared.tcp_port != 0).then_some(self.shared.tcp_port)
    }

    /// How many threads serve.
    pub fn thread_count(&self) -> usize {
        self.shared.threads()
    }

    /// Begins to stop: no new connections and requests; replies under way are still sent.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        for m in &self.shared.mailboxes {
            m.bell.ring();
        }
    }

    /// Waits until all threads have ended after [`Server::stop`]; false if one of them had panicked.
    pub fn join(self) -> bool {
        let ended: Vec<_> = self.threads.into_iter().map(JoinHandle::join).collect();
        if let Some(path) = self.unix_path {
            let _ = std::fs::remove_file(path);
        }
        ended.iter().all(Result::is_ok)
    }
}

/// Makes a large page, in up to three attempts: pages may be in somebody's hands for a moment.
fn make_large(page: kintsugidb_arena::LargePage) {
    for _ in 0..3 {
        if page.make() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Microseconds since the Unix epoch.
pub(crate) fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_micros() as u64
}

/// Keys that collide in the index cannot be chosen by someone who does not know the seed.
fn choose_hash_seed() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        use std::hash::BuildHasher as _;
        kintsugidb_arena::set_hash_seed(std::hash::RandomState::new().hash_one(now_us()));
    });
}
