//! A volume from afar, for everybody: any number of threads, blocking or `async`, with time-outs, cancellation and reconnection.
//!
//! ```text
//!   RemoteFile ── read, write … ──▶ inbox ──▶ driver thread: one Channel ◀──fabric──▶ target
//!       ▲                                       │
//!       └────── Request: wait(), .await, drop ◀─┘
//! ```
//! **Cancellation.** Dropping a [`Request`] cancels it. What the caller gets is only ever copied out of a finished [`crate::Block`], so a buffer
//! of the caller's is never written by a request that was given up.
//!
//! **Reconnection.** When the connection is lost the driver connects again, and sends again what is safe: everything that was never
//! sent, and reads. A write or a trim that was under way ends in [`IoError::Lost`] with `unknown`, because it may or may not have
//! happened, and somebody else may have written meanwhile. A flush ends in an error, too: what it was to cover may be lost.
//!
//! **Time-outs.** A request that was not answered in time ends; its place stays taken until the target answers. If the target has said
//! nothing at all since the request was sent, the connection is given up, and with it its data area.
//!
//! Each request costs two changes of thread. Who wants every microsecond drives a [`Channel`].

use super::block::Block;
use super::channel::Channel;
use super::driver::{Driver, Patience};
use super::error::IoError;
use super::file::RemoteFile;
use super::request::{Answer, Command, Request, Work, locked};
use crate::limits;
use crate::protocol::Listed;
use kintsugidb_fabric::{Address, ConnectOptions};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How to reach a target.
#[derive(Clone, Debug)]
pub struct RemoteOptions {
    /// Where it listens.
    pub address: Address,
    /// Who we are.
    pub connect: ConnectOptions,
    /// What a request may take, from its beginning, reconnections included.
    pub request: Duration,
    /// How long to try to reach the target again before requests fail.
    pub reconnect: Duration,
}

impl RemoteOptions {
    /// The usual limits, and the user `default`.
    pub fn new(address: Address) -> RemoteOptions {
        let connect = ConnectOptions::default();
        RemoteOptions { address, connect, request: limits::REQUEST, reconnect: limits::RECONNECT }
    }
}

struct Shared {
    options: RemoteOptions,
    inbox: Mutex<Vec<Command>>,
    bell: OwnedFd,
    asleep: AtomicBool,
    stop: AtomicBool,
    reconnections: AtomicU64,
}

impl Shared {
    fn ring(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            // It can only fail when it is readable already.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }
}

/// A target, over one connection at a time.
pub struct Remote {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Remote {
    /// Connects.
    ///
    /// # Errors
    /// [`IoError::Connect`] and [`IoError::Protocol`]; the first connection is not tried again.
    pub fn connect(options: RemoteOptions) -> Result<Arc<Remote>, IoError> {
        let channel = Channel::connect(&options.address, &options.connect)?;
        let system = |why: rustix::io::Errno| IoError::Connect(format!("eventfd: {why}"));
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(system)?;
        let shared = Arc::new(Shared {
            options,
            inbox: Mutex::default(),
            bell,
            asleep: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            reconnections: AtomicU64::new(0),
        });
        let RemoteOptions { address, mut connect, request, reconnect } = shared.options.clone();
        // Meanwhile the driver ends no requests: a part of what they may take.
        connect.handshake = connect.handshake.min((request / 4).max(Duration::from_secs(1)));
        let connector = Box::new(move || Channel::connect(&address, &connect));
        let driver = Driver::new(Patience { request, reconnect }, connector, channel, Instant::now());
        let at_thread = shared.clone();
        let thread =
            std::thread::Builder::new().name("remote-io".into()).spawn(move || run(&at_thread, driver));
        let thread = thread.map_err(|why| IoError::Connect(format!("a thread: {why}")))?;
        Ok(Arc::new(Remote { shared, thread: Some(thread) }))
    }

    /// Opens a volume.
    ///
    /// # Errors
    /// [`IoError`].
    pub fn open(self: &Arc<Self>, volume: &str) -> Result<RemoteFile, IoError> {
        let volume: Arc<str> = volume.into();
        match self.begin(&volume, Work::Open).answer()? {
            Answer::Volume(info) => Ok(RemoteFile { remote: self.clone(), volume, info }),
            Answer::Block(_) => Err(IoError::Protocol("a block for a volume")),
        }
    }

    /// Begins to ask which volumes this user may open; [`Listed::parse`] understands the block.
    pub fn begin_list(&self) -> Request {
        self.begin(&"".into(), Work::List)
    }

    /// The volumes that this user may open, by name.
    ///
    /// # Errors
    /// [`IoError`].
    pub fn list(&self) -> Result<Vec<Listed>, IoError> {
        listed(&self.begin_list().wait()?)
    }

    /// How often the connection was lost and made again.
    pub fn reconnections(&self) -> u64 {
        self.shared.reconnections.load(Ordering::Relaxed)
    }

    pub(super) fn begin(&self, volume: &Arc<str>, work: Work) -> Request {
        let deadline = Instant::now() + self.shared.options.request;
        let (command, request) = Command::new(volume, work, deadline);
        locked(&self.shared.inbox).push(command);
        self.shared.ring();
        request
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.asleep.store(true, Ordering::SeqCst);
        self.shared.ring();
        if let Some(thread) = self.thread.take() {
            // A driver that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

/// What a block of [`Remote::begin_list`] says.
pub(crate) fn listed(block: &Block) -> Result<Vec<Listed>, IoError> {
    Listed::parse(&block.to_vec()).ok_or(IoError::Protocol("a list that makes no sense"))
}

/// The driver's thread.
fn run(shared: &Shared, mut driver: Driver) {
    loop {
        driver.take(locked(&shared.inbox).drain(..));
        if shared.stop.load(Ordering::Relaxed) {
            return driver.fail_all(&IoError::Cancelled);
        }
        let heard = driver.turn(Instant::now());
        shared.reconnections.store(driver.reconnections(), Ordering::Relaxed);
        if !heard {
            sleep(shared, &mut driver);
        }
    }
}

fn sleep(shared: &Shared, driver: &mut Driver) {
    shared.asleep.store(true, Ordering::SeqCst);
    let news = !locked(&shared.inbox).is_empty() || shared.stop.load(Ordering::SeqCst);
    let armed = match driver.channel.as_mut().map(Channel::arm) {
        None | Some(Ok(true)) => true,
        // The next poll says what is wrong.
        Some(Ok(false) | Err(_)) => false,
    };
    if news || !armed {
        shared.asleep.store(false, Ordering::SeqCst);
        return;
    }
    let limit = driver.patience();
    let limit = limit.map(|l| Timespec { tv_sec: 0, tv_nsec: i64::from(l.subsec_nanos()) });
    let mut fds = vec![PollFd::from_borrowed_fd(shared.bell.as_fd(), PollFlags::IN)];
    if let Some(fd) = driver.channel.as_ref().and_then(Channel::fd) {
        fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
    }
    // Interrupted or not: everything is looked at again.
    let _ = poll(&mut fds, limit.as_ref());
    shared.asleep.store(false, Ordering::SeqCst);
    let mut bells = [0; 8];
    // Empties the bell; it is not blocking.
    let _ = rustix::io::read(&shared.bell, &mut bells);
}
