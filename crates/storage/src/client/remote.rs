//! A volume from afar, for everybody: any number of threads, blocking or `async`, with time-outs, cancellation and reconnection.
//!
//! ```text
//!   RemoteFile ── read, write … ──▶ inbox ──▶ driver thread: one Channel ◀──fabric──▶ target
//!       ▲                                       │
//!       └────── Request: wait(), .await, drop ◀─┘
//! ```
//! **Cancellation.** Dropping a [`Request`] cancels it. What the caller gets is only ever copied out of a finished [`Block`], so a buffer
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

use super::channel::{Block, Channel, Finished, IoError};
use crate::limits;
use crate::protocol::VolumeInfo;
use kintsugidb_fabric::{Address, ConnectOptions};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
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

enum Work {
    Open,
    Read(Vec<(u64, u32)>),
    Write(u64, Vec<u8>),
    Flush,
    Trim(u64, u32),
}

enum Answer {
    Block(Block),
    Volume(VolumeInfo),
}

#[derive(Default)]
struct State {
    answer: Option<Result<Answer, IoError>>,
    waker: Option<Waker>,
    abandoned: bool,
}

/// Where a request and its answer meet.
#[derive(Default)]
struct Ticket {
    state: Mutex<State>,
    news: Condvar,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ticket {
    fn answer(&self, answer: Result<Answer, IoError>) {
        let mut state = locked(&self.state);
        if state.answer.is_none() && !state.abandoned {
            state.answer = Some(answer);
            let waker = state.waker.take();
            drop(state);
            self.news.notify_all();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    fn abandoned(&self) -> bool {
        locked(&self.state).abandoned
    }
}

struct Command {
    volume: Arc<str>,
    work: Work,
    ticket: Arc<Ticket>,
    deadline: Instant,
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
        let driver = Driver {
            shared: shared.clone(),
            channel: Some(channel),
            handles: HashMap::new(),
            queue: VecDeque::new(),
            sent: HashMap::new(),
            next: 0,
            heard: Instant::now(),
            lost: None,
            retry: Instant::now(),
            no_room: false,
        };
        let thread = std::thread::Builder::new().name("remote-io".into()).spawn(move || driver.run());
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

    /// How often the connection was lost and made again.
    pub fn reconnections(&self) -> u64 {
        self.shared.reconnections.load(Ordering::Relaxed)
    }

    fn begin(&self, volume: &Arc<str>, work: Work) -> Request {
        let ticket = Arc::new(Ticket::default());
        let deadline = Instant::now() + self.shared.options.request;
        let command = Command { volume: volume.clone(), work, ticket: ticket.clone(), deadline };
        locked(&self.shared.inbox).push(command);
        self.shared.ring();
        Request { ticket }
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

/// A request under way. Dropping it cancels it.
#[must_use = "a request that is dropped is cancelled"]
pub struct Request {
    ticket: Arc<Ticket>,
}

impl Request {
    fn answer(self) -> Result<Answer, IoError> {
        let mut state = locked(&self.ticket.state);
        loop {
            if let Some(answer) = state.answer.take() {
                return answer;
            }
            state = self.ticket.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for its end. (It ends in time: see [`RemoteOptions::request`].)
    ///
    /// # Errors
    /// [`IoError`].
    pub fn wait(self) -> Result<Block, IoError> {
        block(self.answer())
    }
}

fn block(answer: Result<Answer, IoError>) -> Result<Block, IoError> {
    match answer? {
        Answer::Block(block) => Ok(block),
        Answer::Volume(_) => Err(IoError::Protocol("a volume for a block")),
    }
}

impl Future for Request {
    type Output = Result<Block, IoError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = locked(&self.ticket.state);
        match state.answer.take() {
            Some(answer) => Poll::Ready(block(answer)),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        locked(&self.ticket.state).abandoned = true;
    }
}

/// A volume of a target.
#[derive(Clone)]
pub struct RemoteFile {
    remote: Arc<Remote>,
    volume: Arc<str>,
    info: VolumeInfo,
}

/// Bytes of the pieces that large reads and writes are cut into: many small ones are under way together.
const PIECE: usize = 256 << 10;

impl RemoteFile {
    /// The volume's length in bytes when it was opened.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.info.bytes
    }

    /// Whether it may be written.
    pub fn writable(&self) -> bool {
        self.info.writable
    }

    /// The volume's name.
    pub fn name(&self) -> &str {
        &self.volume
    }

    /// Begins to read; at most [`limits::REQUEST_BYTES`]. The block is shorter only at the volume's end.
    pub fn read(&self, offset: u64, bytes: u32) -> Request {
        self.read_ranges(vec![(offset, bytes)])
    }

    /// Begins to read many ranges (offset, bytes) with one request. All of them must be within the volume, except that the last one
    /// may be cut by its end.
    pub fn read_ranges(&self, ranges: Vec<(u64, u32)>) -> Request {
        self.remote.begin(&self.volume, Work::Read(ranges))
    }

    /// Reads as many bytes as there are, up to the buffer's length.
    ///
    /// # Errors
    /// [`IoError`]; the buffer's content is then undefined.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, IoError> {
        let mut requests = VecDeque::new();
        let mut begun = 0;
        let mut count = 0;
        while count < into.len() {
            while begun < into.len() && requests.len() < 16 {
                let length = PIECE.min(into.len() - begun);
                requests.push_back((self.read(offset + begun as u64, length as u32), length));
                begun += length;
            }
            let Some((request, length)) = requests.pop_front() else { break };
            let block = request.wait()?;
            if !block.copy_to(0, &mut into[count..][..block.len().min(length)]) {
                return Err(IoError::Protocol("a block shorter than itself"));
            }
            count += block.len();
            if block.len() < length {
                break;
            }
        }
        Ok(count)
    }

    /// Fills the buffer.
    ///
    /// # Errors
    /// [`IoError`]; the volume's end is one.
    pub fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        if self.read_at(offset, into)? == into.len() {
            return Ok(());
        }
        Err(IoError::Target { status: crate::protocol::Status::Short, errno: 0, segment: 0 })
    }

    /// Begins to write; at most [`limits::REQUEST_BYTES`].
    pub fn write(&self, offset: u64, bytes: Vec<u8>) -> Request {
        self.remote.begin(&self.volume, Work::Write(offset, bytes))
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// [`IoError`]; parts of it may have been written.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        let mut requests = VecDeque::new();
        let mut at = offset;
        for piece in bytes.chunks(PIECE) {
            if requests.len() == 16
                && let Some(request) = requests.pop_front()
            {
                Request::wait(request)?;
            }
            requests.push_back(self.write(at, piece.to_vec()));
            at += piece.len() as u64;
        }
        requests.into_iter().try_for_each(|r| r.wait().map(drop))
    }

    /// Begins to bring to the medium what was written.
    pub fn flush(&self) -> Request {
        self.remote.begin(&self.volume, Work::Flush)
    }

    /// Begins to say that a range holds nothing of value.
    pub fn trim(&self, offset: u64, bytes: u32) -> Request {
        self.remote.begin(&self.volume, Work::Trim(offset, bytes))
    }
}

struct Sent {
    /// `None`: its time is over, or nobody waits for it. The place is still the target's.
    command: Option<Command>,
    at: Instant,
}

struct Driver {
    shared: Arc<Shared>,
    channel: Option<Channel>,
    handles: HashMap<Arc<str>, VolumeInfo>,
    queue: VecDeque<Command>,
    sent: HashMap<u64, Sent>,
    next: u64,
    heard: Instant,
    /// Since when there is no connection, and the last reason.
    lost: Option<(Instant, IoError)>,
    retry: Instant,
    no_room: bool,
}

/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(50);
/// Between two looks at deadlines and abandoned requests.
const LOOK: Duration = Duration::from_millis(20);

impl Driver {
    fn run(mut self) {
        let mut finished = Vec::new();
        let mut looked = Instant::now();
        loop {
            self.queue.extend(locked(&self.shared.inbox).drain(..));
            if self.shared.stop.load(Ordering::Relaxed) {
                return self.fail_all(&IoError::Cancelled);
            }
            if self.channel.is_none() {
                self.reconnect();
            }
            self.issue();
            let heard = self.hear(&mut finished);
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.look();
            }
            if !heard {
                self.sleep();
            }
        }
    }

    fn fail_all(&mut self, why: &IoError) {
        for command in self.queue.drain(..).chain(self.sent.drain().filter_map(|(_, s)| s.command)) {
            command.ticket.answer(Err(why.clone()));
        }
    }

    fn reconnect(&mut self) {
        let now = Instant::now();
        if now < self.retry || self.queue.is_empty() {
            return;
        }
        let mut options = self.shared.options.connect.clone();
        options.handshake = options.handshake.min(Duration::from_secs(1));
        match Channel::connect(&self.shared.options.address, &options) {
            Ok(channel) => {
                self.channel = Some(channel);
                self.lost = None;
                self.heard = now;
                self.shared.reconnections.fetch_add(1, Ordering::Relaxed);
            }
            Err(why) => {
                self.retry = Instant::now() + RETRY;
                let since = self.lost.as_ref().map_or(now, |(since, _)| *since);
                if since.elapsed() >= self.shared.options.reconnect {
                    self.fail_all(&why);
                    self.lost = None;
                } else {
                    self.lost = Some((since, why));
                }
            }
        }
    }

    /// The connection is of no use any more.
    fn disconnect(&mut self, why: IoError) {
        self.channel = None;
        self.handles.clear();
        self.lost = Some((Instant::now(), why));
        self.retry = Instant::now();
        let mut again: Vec<(u64, Command)> = Vec::new();
        for (token, sent) in self.sent.drain() {
            let Some(command) = sent.command else { continue };
            match command.work {
                Work::Read(_) | Work::Open => again.push((token, command)),
                Work::Write(..) | Work::Trim(..) => {
                    command.ticket.answer(Err(IoError::Lost { unknown: true }))
                }
                Work::Flush => command.ticket.answer(Err(IoError::Lost { unknown: false })),
            }
        }
        again.sort_by_key(|(token, _)| std::cmp::Reverse(*token));
        for (_, command) in again {
            self.queue.push_front(command);
        }
    }

    fn issue(&mut self) {
        self.no_room = false;
        while let Some(command) = self.queue.pop_front() {
            let Some(channel) = self.channel.as_mut() else {
                self.queue.push_front(command);
                return;
            };
            if command.ticket.abandoned() {
                continue;
            }
            let known = self.handles.get(&command.volume).copied();
            let opened = match (known, &command.work) {
                (Some(info), work) if !matches!(work, Work::Open) => Ok(info),
                _ => {
                    channel.open(&command.volume, command.deadline.saturating_duration_since(Instant::now()))
                }
            };
            let info = match opened {
                Ok(info) => info,
                Err(why @ (IoError::Lost { .. } | IoError::Protocol(_))) => {
                    self.queue.push_front(command);
                    return self.disconnect(why);
                }
                Err(why) => {
                    command.ticket.answer(Err(why));
                    continue;
                }
            };
            self.handles.insert(command.volume.clone(), info);
            let (volume, token) = (info.handle, self.next);
            let begun = match &command.work {
                Work::Open => {
                    command.ticket.answer(Ok(Answer::Volume(info)));
                    continue;
                }
                Work::Read(ranges) => channel.read(volume, ranges, token),
                Work::Write(offset, bytes) => channel.write(volume, *offset, bytes, token),
                Work::Flush => channel.flush(volume, token),
                Work::Trim(offset, bytes) => channel.trim(volume, *offset, *bytes, token),
            };
            match begun {
                Ok(Ok(())) => {
                    self.next += 1;
                    self.sent.insert(token, Sent { command: Some(command), at: Instant::now() });
                }
                Ok(Err(_)) => {
                    self.no_room = true;
                    self.queue.push_front(command);
                    return;
                }
                Err(IoError::TooMuch) => command.ticket.answer(Err(IoError::TooMuch)),
                Err(why) => {
                    self.queue.push_front(command);
                    return self.disconnect(why);
                }
            }
        }
    }

    /// Whether anything came.
    fn hear(&mut self, finished: &mut Vec<Finished>) -> bool {
        let Some(channel) = self.channel.as_mut() else { return false };
        let polled = channel.poll(finished);
        for Finished { token, result } in finished.drain(..) {
            if let Some(command) = self.sent.remove(&token).and_then(|s| s.command) {
                command.ticket.answer(result.map(Answer::Block));
            }
        }
        match polled {
            Ok(0) => false,
            Ok(_) => {
                self.heard = Instant::now();
                true
            }
            Err(why) => {
                self.disconnect(why);
                true
            }
        }
    }

    /// Ends what has taken too long, and cancels what nobody waits for.
    fn look(&mut self) {
        let now = Instant::now();
        let limit_ms = self.shared.options.request.as_millis() as u64;
        let over = |command: &Command| {
            let late = command.deadline <= now;
            if late {
                command.ticket.answer(Err(IoError::TimedOut { limit_ms }));
            }
            late || command.ticket.abandoned()
        };
        self.queue.retain(|command| !over(command));
        let mut silent = false;
        for (token, sent) in &mut self.sent {
            let Some(command) = &sent.command else { continue };
            if over(command) {
                silent |= command.deadline <= now && self.heard < sent.at;
                sent.command = None;
                if let Some(channel) = self.channel.as_mut() {
                    channel.cancel(*token);
                }
            }
        }
        if silent {
            self.disconnect(IoError::TimedOut { limit_ms });
        }
    }

    fn sleep(&mut self) {
        self.shared.asleep.store(true, Ordering::SeqCst);
        let news = !locked(&self.shared.inbox).is_empty() || self.shared.stop.load(Ordering::SeqCst);
        let armed = match self.channel.as_mut().map(Channel::arm) {
            None | Some(Ok(true)) => true,
            // The next poll says what is wrong.
            Some(Ok(false) | Err(_)) => false,
        };
        if news || !armed {
            self.shared.asleep.store(false, Ordering::SeqCst);
            return;
        }
        let limit = match (self.no_room, self.queue.is_empty(), self.sent.is_empty()) {
            // A block that is dropped makes room without ringing.
            (true, ..) => Some(Duration::from_millis(1)),
            (_, true, true) => None,
            _ => Some(LOOK),
        };
        let limit = limit.map(|l| Timespec { tv_sec: 0, tv_nsec: l.as_nanos() as i64 });
        let mut fds = vec![PollFd::from_borrowed_fd(self.shared.bell.as_fd(), PollFlags::IN)];
        if let Some(fd) = self.channel.as_ref().and_then(Channel::fd) {
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        // Interrupted or not: everything is looked at again.
        let _ = poll(&mut fds, limit.as_ref());
        self.shared.asleep.store(false, Ordering::SeqCst);
        let mut bells = [0; 8];
        // Empties the bell; it is not blocking.
        let _ = rustix::io::read(&self.shared.bell, &mut bells);
    }
}
