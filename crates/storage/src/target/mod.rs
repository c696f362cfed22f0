//! A target: listens, admits, and serves volumes to its connections.
//!
//! ```text
//!   thread 0: listeners ──▶ a connection belongs to one thread for its life
//!   each thread, a turn:  messages of awake connections ─▶ session ─▶ jobs ─▶ engine.submit … kick
//!                         engine.complete ─▶ session ─▶ replies ─▶ the fabric
//!                         nothing to do: connections fall asleep one by one; all asleep: epoll, until somebody rings
//! ```
//! Each thread has an engine of its own (one issuer for each io_uring). A turn takes a bounded number of messages from a connection, and
//! always ends with the engine's completions, so that neither a loud connection nor a long queue starves anybody. Who does not fetch
//! its replies is not listened to until it does.

pub(crate) mod service;
mod thread;

use crate::engine::{FaultPlan, Kind};
use crate::limits;
use crate::users::{User, Users};
use crate::volume::{OpenError, Volume, VolumeOptions};
use kintsugidb_fabric::{self as fabric, Address, Fabric};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use service::Service;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use thread::Thread;

/// How to serve.
#[derive(Clone)]
pub struct TargetOptions {
    /// What is exported.
    pub volumes: Vec<VolumeOptions>,
    /// Who may connect. Empty: `default` without a password.
    pub users: Vec<User>,
    /// Where to listen.
    pub listen: Vec<Address>,
    /// How to do I/O.
    pub engine: Kind,
    /// Threads that serve connections.
    pub threads: usize,
    /// Bytes of the data area of each connection over shared memory.
    pub area_bytes: u64,
    /// Connections at one time.
    pub connections: usize,
    /// How often a thread looks at a quiet connection before that falls asleep.
    pub spin: u32,
    /// Whether thread n runs on core n only.
    pub pin: bool,
    /// Faults to inject, for tests and drills.
    pub faults: Vec<FaultPlan>,
    /// Where events are told to.
    pub note: Arc<dyn Fn(String) + Send + Sync>,
}

impl Default for TargetOptions {
    fn default() -> Self {
        TargetOptions {
            volumes: Vec::new(),
            users: Vec::new(),
            listen: Vec::new(),
            engine: Kind::Uring,
            threads: 1,
            area_bytes: limits::AREA_BYTES,
            connections: limits::CONNECTIONS,
            spin: 50,
            pin: false,
            faults: Vec::new(),
            note: Arc::new(|_| {}),
        }
    }
}

/// Why a target does not start.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// A volume cannot be opened.
    #[error(transparent)]
    Volume(#[from] OpenError),
    /// An address cannot be listened on.
    #[error("{0}: {1}")]
    Listen(Address, fabric::Error),
    /// The options contradict each other.
    #[error("{0}")]
    Options(String),
    /// The system refused something.
    #[error("{0}: {1}")]
    System(&'static str, Errno),
}

/// A running target. It ends when this is dropped.
pub struct Target {
    shared: Arc<Shared>,
    addresses: Vec<Address>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    options: TargetOptions,
    users: Users,
    stop: AtomicBool,
    connections: AtomicUsize,
    /// One for each thread.
    doors: Vec<Door>,
}

/// Where a thread finds its new connections.
struct Door {
    bell: OwnedFd,
    arrived: Mutex<Vec<Service>>,
}

impl Target {
    /// Opens the volumes, listens, and starts to serve.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn start(options: TargetOptions) -> Result<Target, TargetError> {
        let mut volumes: Vec<Arc<Volume>> = Vec::new();
        for volume in &options.volumes {
            if volumes.iter().any(|v| v.name() == volume.name) {
                return Err(TargetError::Options(format!("two volumes are called {}", volume.name)));
            }
            volumes.push(Arc::new(Volume::open(volume)?));
        }
        if !options.area_bytes.is_power_of_two() || options.area_bytes < limits::REQUEST_BYTES {
            return Err(TargetError::Options(format!(
                "the data area must be a power of two of at least {} bytes",
                limits::REQUEST_BYTES
            )));
        }
        let users = Users::new(&options.users, &volumes).map_err(TargetError::Options)?;
        let mut listeners = Vec::new();
        for address in &options.listen {
            // Where blocks are written one-sidedly into memory that is not mapped here, the client says where that is.
            let peer_regions = usize::from(address.fabric() == Fabric::Rdma);
            let options = fabric::ListenOptions { peer_regions, ..fabric::ListenOptions::default() };
            let listener = fabric::listen(address, &options);
            listeners.push(listener.map_err(|why| TargetError::Listen(address.clone(), why))?);
        }
        let addresses = listeners.iter().map(|l| l.address()).collect();
        let mut doors = Vec::new();
        for _ in 0..options.threads.max(1) {
            let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
                .map_err(|why| TargetError::System("eventfd", why))?;
            doors.push(Door { bell, arrived: Mutex::default() });
        }
        let stop = AtomicBool::new(false);
        let shared = Arc::new(Shared { options, users, stop, connections: AtomicUsize::new(0), doors });
        let mut target = Target { shared: shared.clone(), addresses, threads: Vec::new() };
        let mut listeners = Some(listeners);
        for number in 0..shared.doors.len() {
            let (shared, listeners) = (shared.clone(), listeners.take().unwrap_or_default());
            let thread = std::thread::Builder::new().name(format!("target-{number}"));
            let started = thread.spawn(move || {
                let note = shared.options.note.clone();
                if let Err(why) = Thread::new(shared, number, listeners).and_then(Thread::serve) {
                    note(format!("thread {number} of the target ends: {why}"));
                }
            });
            target.threads.push(started.map_err(|_| TargetError::System("a thread", Errno::AGAIN))?);
        }
        Ok(target)
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Connections now.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for door in &self.shared.doors {
            door.ring();
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

impl Door {
    fn ring(&self) {
        // It can only fail when it is readable already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}
