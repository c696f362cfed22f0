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

use crate::engine::{self, Done, Engine, FaultPlan, Faulty, Job, Kind};
use crate::limits;
use crate::memory::{Area, Mapped};
use crate::protocol::{AREA_REGION, Info};
use crate::session::{Outgoing, Session};
use crate::users::{User, Users};
use crate::volume::{OpenError, Volume, VolumeOptions};
use kintsugidb_fabric as fabric;
use kintsugidb_fabric::handshake::Hello;
use kintsugidb_fabric::{
    Access, Address, Connection, Export, Fabric, Grant, Listener, Mapping, Peer, Refusal, RefusalCode,
};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

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
    arrived: Mutex<Vec<Arrival>>,
}

struct Arrival {
    connection: Box<dyn Connection>,
    session: Session,
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
            let listener = fabric::listen(address, &fabric::ListenOptions::default());
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

struct Connected {
    /// `None`: closed; the session waits for its last jobs.
    link: Option<Box<dyn Connection>>,
    session: Session,
    outgoing: VecDeque<Outgoing>,
    fruitless: u32,
    asleep: bool,
}

struct Thread {
    shared: Arc<Shared>,
    number: usize,
    listeners: Vec<Box<dyn Listener>>,
    engine: Box<dyn Engine>,
    epoll: OwnedFd,
    connections: Vec<Option<Connected>>,
    jobs: Vec<Job>,
    replies: Vec<Outgoing>,
    done: Vec<Done>,
    message: Vec<u8>,
    next: usize,
}

const ENGINE: u64 = 1 << 32;
const DOOR: u64 = 2 << 32;
const LISTENER: u64 = 3 << 32;
/// Turns between two looks at those that sleep, while others are awake.
const TURNS_BETWEEN_LOOKS: u32 = 32;

impl Thread {
    fn new(shared: Arc<Shared>, number: usize, listeners: Vec<Box<dyn Listener>>) -> Result<Thread, Errno> {
        if shared.options.pin {
            pin_to(number);
        }
        let note = shared.options.note.clone();
        let mut engine = engine::open(shared.options.engine, |text| note(text))?;
        if !shared.options.faults.is_empty() {
            engine = Box::new(Faulty::new(engine, shared.options.faults.clone()));
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let watch = |fd: std::os::fd::BorrowedFd<'_>, data| {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(data), epoll::EventFlags::IN)
        };
        watch(engine.fd(), ENGINE)?;
        watch(std::os::fd::AsFd::as_fd(&shared.doors[number].bell), DOOR)?;
        for listener in &listeners {
            watch(listener.fd(), LISTENER)?;
        }
        Ok(Thread {
            shared,
            number,
            listeners,
            engine,
            epoll,
            connections: Vec::new(),
            jobs: Vec::new(),
            replies: Vec::new(),
            done: Vec::new(),
            message: Vec::new(),
            next: 0,
        })
    }

    fn serve(mut self) -> Result<(), Errno> {
        let mut turns = 0u32;
        while !self.shared.stop.load(Ordering::Relaxed) {
            let mut awake = false;
            for at in 0..self.connections.len() {
                awake |= self.listen_to(at);
            }
            self.engine.kick()?;
            let ended = self.reap()?;
            turns += 1;
            if awake || ended > 0 {
                if turns >= TURNS_BETWEEN_LOOKS {
                    turns = 0;
                    self.look_around(Some(0))?;
                }
            } else if self.engine.arm()? {
                turns = 0;
                let handshakes = if self.listeners.is_empty() { None } else { Some(1000) };
                self.look_around(handshakes)?;
            }
        }
        Ok(())
    }

    /// Takes messages of one connection. Whether it is awake afterwards.
    fn listen_to(&mut self, at: usize) -> bool {
        let Some(Some(connected)) = self.connections.get_mut(at) else { return false };
        if connected.asleep || connected.link.is_none() {
            return false;
        }
        if !connected.send_what_waits() {
            self.close(at);
            return false;
        }
        let Some(link) = connected.link.as_mut() else { return false };
        let mut heard = 0;
        let mut alive = true;
        while heard < limits::MESSAGES_PER_TURN && connected.outgoing.len() < limits::OUTSTANDING {
            self.message.clear();
            match link.receive(&mut self.message) {
                Ok(None) => break,
                Ok(Some(_)) => heard += 1,
                Err(_) => {
                    alive = false;
                    break;
                }
            }
            if connected.session.message(&self.message, &mut self.jobs, &mut self.replies).is_err() {
                (self.shared.options.note)("a peer does not speak the storage protocol".into());
                alive = false;
                break;
            }
        }
        for mut job in self.jobs.drain(..) {
            job.token |= (at as u64) << 32;
            self.engine.submit(job);
        }
        connected.outgoing.extend(self.replies.drain(..));
        alive = alive && connected.send_what_waits();
        if !alive {
            self.close(at);
            return false;
        }
        if heard > 0 {
            connected.fruitless = 0;
            return true;
        }
        connected.fruitless += 1;
        if connected.fruitless <= self.shared.options.spin {
            return true;
        }
        connected.fruitless = 0;
        match connected.link.as_mut().map(|link| link.arm()) {
            Some(Ok(armed)) => {
                connected.asleep = armed;
                !armed
            }
            _ => {
                self.close(at);
                false
            }
        }
    }

    /// Takes what the engine has done.
    fn reap(&mut self) -> Result<usize, Errno> {
        self.engine.complete(&mut self.done)?;
        let count = self.done.len();
        let mut done = std::mem::take(&mut self.done);
        for Done { token, result } in done.drain(..) {
            let at = (token >> 32) as usize;
            let Some(Some(connected)) = self.connections.get_mut(at) else { continue };
            connected.session.done(token & u64::from(u32::MAX), result, &mut self.replies);
            if connected.link.is_none() {
                self.replies.clear();
                self.bury(at);
                continue;
            }
            connected.outgoing.extend(self.replies.drain(..));
            if !connected.send_what_waits() {
                self.close(at);
            }
        }
        self.done = done;
        Ok(count)
    }

    /// Looks at, or sleeps on, everything that has a descriptor.
    fn look_around(&mut self, limit_ms: Option<i64>) -> Result<(), Errno> {
        let limit = limit_ms.map(|ms| Timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 });
        let mut events = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; 64];
        let events = match epoll::wait(&self.epoll, &mut events[..], limit.as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(why) => return Err(why),
        };
        let mut visitors = limit_ms == Some(1000) && events.is_empty();
        for event in events.iter() {
            match event.data.u64() {
                ENGINE => {}
                DOOR => {
                    let mut bells = [0; 8];
                    // Empties the bell; it is not blocking.
                    let _ = rustix::io::read(&self.shared.doors[self.number].bell, &mut bells);
                    let mut door =
                        self.shared.doors[self.number].arrived.lock().unwrap_or_else(PoisonError::into_inner);
                    let arrived = std::mem::take(&mut *door);
                    drop(door);
                    for arrival in arrived {
                        self.take_in(arrival)?;
                    }
                }
                LISTENER => visitors = true,
                at => {
                    if let Some(Some(connected)) = self.connections.get_mut(at as usize) {
                        connected.asleep = false;
                    }
                }
            }
        }
        if visitors { self.accept() } else { Ok(()) }
    }

    fn accept(&mut self) -> Result<(), Errno> {
        let shared = self.shared.clone();
        let mut area = None;
        for listener in &mut self.listeners {
            loop {
                let mut gate = |hello: &Hello, _: &Peer| admit(&shared, hello, &mut area);
                match listener.accept(&mut gate) {
                    Ok(Some(accepted)) => {
                        let Some(permissions) = shared.users.permissions(&accepted.user) else { continue };
                        // Over shared memory the area that was made last is this connection's: admission and acceptance are one call.
                        let mapped = accepted.connection.capabilities().fabric == Fabric::Shm;
                        let shared_area = area.take().filter(|_| mapped).and_then(Mapped::new);
                        let session =
                            Session::new(permissions, shared_area.map(|a| Arc::new(a) as Arc<dyn Area>));
                        let door = &shared.doors[self.next % shared.doors.len()];
                        self.next += 1;
                        shared.connections.fetch_add(1, Ordering::Relaxed);
                        let arrival = Arrival { connection: accepted.connection, session };
                        door.arrived.lock().unwrap_or_else(PoisonError::into_inner).push(arrival);
                        door.ring();
                    }
                    Ok(None) => break,
                    Err(why) => {
                        (shared.options.note)(format!("{} does not accept: {why}", listener.address()));
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn take_in(&mut self, arrival: Arrival) -> Result<(), Errno> {
        let Arrival { connection, session } = arrival;
        let at = self.connections.iter().position(Option::is_none).unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        if let Some(fd) = connection.fd() {
            epoll::add(&self.epoll, fd, epoll::EventData::new_u64(at as u64), epoll::EventFlags::IN)?;
        }
        if let Some(area) = session.area() {
            self.engine.adopt(area);
        }
        let outgoing = VecDeque::new();
        self.connections[at] =
            Some(Connected { link: Some(connection), session, outgoing, fruitless: 0, asleep: false });
        Ok(())
    }

    fn close(&mut self, at: usize) {
        if let Some(Some(connected)) = self.connections.get_mut(at) {
            if let Some(link) = connected.link.take() {
                if let Some(fd) = link.fd() {
                    // The peer may hold the same socket, so that closing ours would not take it out.
                    let _ = epoll::delete(&self.epoll, fd);
                }
                self.shared.connections.fetch_sub(1, Ordering::Relaxed);
            }
            connected.outgoing.clear();
        }
        self.bury(at);
    }

    /// Forgets a closed connection once nothing of it is under way.
    fn bury(&mut self, at: usize) {
        if let Some(slot) = self.connections.get_mut(at) {
            let over = slot.as_ref().is_some_and(|c| c.link.is_none() && c.session.outstanding() == 0);
            if over {
                if let Some(area) = slot.as_ref().and_then(|c| c.session.area()) {
                    self.engine.forget(area);
                }
                *slot = None;
            }
        }
    }
}

impl Connected {
    /// `false`: the peer is gone.
    fn send_what_waits(&mut self) -> bool {
        let Some(link) = self.link.as_mut() else { return true };
        while let Some(outgoing) = self.outgoing.pop_front() {
            let sent = match &outgoing {
                Outgoing::Plain(bytes) => link.send(bytes),
                Outgoing::Blocks(memory, range) => link.send(memory.bytes_of(range.clone())),
            };
            match sent {
                Ok(()) => {}
                Err(fabric::Error::Full) => {
                    self.outgoing.push_front(outgoing);
                    return true;
                }
                Err(_) => return false,
            }
        }
        true
    }
}

fn admit(shared: &Shared, hello: &Hello, area: &mut Option<Arc<Mapping>>) -> Result<Grant, Refusal> {
    *area = None;
    shared.users.admit(&hello.user, &hello.password)?;
    if shared.connections.load(Ordering::Relaxed) >= shared.options.connections {
        return Err(Refusal { code: RefusalCode::Busy, reason: "too many connections".into() });
    }
    let mut exports = Vec::new();
    let mut area_bytes = 0;
    if hello.fabric == Fabric::Shm {
        let memory = Mapping::create(shared.options.area_bytes).map_err(|why| Refusal {
            code: RefusalCode::Internal,
            reason: format!("no memory for a data area: {why}"),
        })?;
        let memory = Arc::new(memory);
        *area = Some(memory.clone());
        area_bytes = shared.options.area_bytes;
        exports.push(Export { id: AREA_REGION, access: Access::ReadWrite, memory });
    }
    let info = Info {
        area_bytes,
        request_bytes: limits::REQUEST_BYTES,
        outstanding: limits::OUTSTANDING as u32,
        segments: limits::SEGMENTS as u32,
    };
    Ok(Grant { exports, info: info.encode() })
}

/// Keeps the calling thread on one core. Best effort: it is an optimisation.
pub(crate) fn pin_to(core: usize) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut set = rustix::thread::CpuSet::new();
    set.set(core % cores);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}
