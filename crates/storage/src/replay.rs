//! Driving I/O: random reads and replayed traces, on an engine of this process or over channels to a target, by one loop.
//!
//! The loop keeps so many reads under way, sleeps when nothing comes, and counts. It is what the benchmarks and the replayer run, so that
//! local and remote figures differ in nothing but what is under them.

use crate::client::{Channel, Finished, IoError};
use crate::engine::{self, Done, Engine, Job, Kind};
use crate::memory::{Area, Heap, Place};
use crate::pattern;
use crate::trace::{Op, Trace};
use crate::volume::Volume;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What reads are sent to.
pub trait Backend {
    /// Begins to read. `false`: there is no room now.
    ///
    /// # Errors
    /// What is final.
    fn begin(&mut self, offset: u64, bytes: u32, token: u64) -> Result<bool, IoError>;
    /// Appends the tokens of the reads that are done. Those that failed are an error.
    ///
    /// # Errors
    /// The first failure.
    fn poll(&mut self, done: &mut Vec<u64>) -> Result<(), IoError>;
    /// Sleeps until there may be something to poll.
    ///
    /// # Errors
    /// What is final.
    fn wait(&mut self) -> Result<(), IoError>;
}

/// An engine of this process.
pub struct Local {
    engine: Box<dyn Engine>,
    volume: Arc<Volume>,
    area: Arc<dyn Area>,
    slot: u64,
    done: Vec<Done>,
    asked: Vec<u32>,
}

impl Local {
    /// Reads of at most `bytes`, at most `depth` under way; tokens are below `depth`.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(kind: Kind, volume: Arc<Volume>, bytes: u32, depth: usize) -> Result<Local, Errno> {
        let slot = u64::from(bytes).next_multiple_of(crate::ALIGNMENT as u64);
        let area: Arc<dyn Area> = Arc::new(Heap::new(slot as usize * depth).ok_or(Errno::NOMEM)?);
        let mut engine = engine::open(kind, |_| {})?;
        engine.adopt(&area);
        Ok(Local { engine, volume, area, slot, done: Vec::new(), asked: vec![0; depth] })
    }
}

impl Backend for Local {
    fn begin(&mut self, offset: u64, bytes: u32, token: u64) -> Result<bool, IoError> {
        let place = Place::new(self.area.clone(), token * self.slot, self.slot).ok_or(IoError::TooMuch)?;
        let bytes = u64::from(bytes).min(self.volume.len().saturating_sub(offset));
        self.asked[token as usize] = bytes as u32;
        let volume = self.volume.clone();
        let job = Job { token, op: engine::Op::Read, volume, offset, bytes, place: Some(place) };
        self.engine.submit(job);
        Ok(true)
    }

    fn poll(&mut self, done: &mut Vec<u64>) -> Result<(), IoError> {
        let broken = |why: Errno| IoError::Connect(format!("the local disk: {why}"));
        self.engine.kick().map_err(broken)?;
        self.engine.complete(&mut self.done).map_err(broken)?;
        for Done { token, result } in self.done.drain(..) {
            if result.map_err(broken)? != u64::from(self.asked[token as usize]) {
                return Err(IoError::Connect("the local disk: a short read".into()));
            }
            done.push(token);
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(), IoError> {
        let rested = self.engine.rest(None, Some(Duration::from_secs(1)));
        rested.map(drop).map_err(|why| IoError::Connect(format!("the local disk: {why}")))
    }
}

/// Channels to a target, each with a volume that is open; reads are spread over them in turn.
pub struct Distant {
    channels: Vec<(Channel, u32)>,
    depth: usize,
    next: usize,
    finished: Vec<Finished>,
    /// Checks every n-th block against the test pattern with this seed.
    check: Option<u64>,
    asked: Vec<(u64, u32)>,
    seen: u64,
    buffer: Vec<u8>,
}

/// Of so many blocks one is checked, where they are.
const CHECKED: u64 = 64;

impl Distant {
    /// At most `depth` reads under way in all; tokens are below `depth`.
    pub fn new(channels: Vec<(Channel, u32)>, depth: usize, check: Option<u64>) -> Distant {
        let asked = vec![(0, 0); depth];
        Distant { channels, depth, next: 0, finished: Vec::new(), check, asked, seen: 0, buffer: Vec::new() }
    }
}

impl Backend for Distant {
    fn begin(&mut self, offset: u64, bytes: u32, token: u64) -> Result<bool, IoError> {
        let limit = self.depth.div_ceil(self.channels.len());
        for _ in 0..self.channels.len() {
            self.next = (self.next + 1) % self.channels.len();
            let (channel, volume) = &mut self.channels[self.next];
            if channel.outstanding() < limit && channel.read(*volume, &[(offset, bytes)], token)?.is_ok() {
                self.asked[token as usize] = (offset, bytes);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn poll(&mut self, done: &mut Vec<u64>) -> Result<(), IoError> {
        for (channel, _) in &mut self.channels {
            channel.poll(&mut self.finished)?;
            for Finished { token, result } in self.finished.drain(..) {
                let block = result?;
                self.seen += 1;
                if let (Some(seed), true) = (self.check, self.seen.is_multiple_of(CHECKED)) {
                    let (offset, _) = self.asked[token as usize];
                    self.buffer.resize(block.len(), 0);
                    if !block.copy_to(0, &mut self.buffer)
                        || pattern::check(seed, offset, &self.buffer).is_err()
                    {
                        return Err(IoError::Protocol("a block with wrong bytes"));
                    }
                }
                done.push(token);
            }
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(), IoError> {
        for (channel, _) in &mut self.channels {
            if !channel.arm()? {
                return Ok(());
            }
        }
        let fds = self.channels.iter().filter_map(|(channel, _)| channel.fd());
        let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        sleep(&mut fds);
        Ok(())
    }
}

/// Sleeps; also when it is interrupted, everything is looked at again.
fn sleep(fds: &mut [PollFd<'_>]) {
    let _ = poll(fds, Some(&Timespec { tv_sec: 1, tv_nsec: 0 }));
}

/// Keeps reads under way: `next` says which, until it says `None`; `ended` is told how long each took.
///
/// # Errors
/// The first failure.
pub fn drive(
    backend: &mut dyn Backend,
    depth: usize,
    think: Duration,
    mut next: impl FnMut() -> Option<(u64, u32)>,
    mut ended: impl FnMut(Duration),
) -> Result<u64, IoError> {
    let mut free: Vec<u64> = (0..depth as u64).rev().collect();
    let mut begun = vec![Instant::now(); depth];
    let (mut done, mut count, mut over) = (Vec::new(), 0, false);
    let mut waiting = None;
    loop {
        while !over && !free.is_empty() {
            let Some((offset, bytes)) = waiting.take().or_else(&mut next) else {
                over = true;
                break;
            };
            let Some(token) = free.pop() else { break };
            begun[token as usize] = Instant::now();
            if !backend.begin(offset, bytes, token)? {
                waiting = Some((offset, bytes));
                free.push(token);
                break;
            }
            count += 1;
        }
        if over && free.len() == depth {
            return Ok(count);
        }
        backend.poll(&mut done)?;
        if done.is_empty() {
            backend.wait()?;
        }
        let now = Instant::now();
        for token in done.drain(..) {
            ended(now.duration_since(begun[token as usize]));
            free.push(token);
            if !think.is_zero() {
                std::thread::sleep(think);
            }
        }
    }
}

/// The reads of a trace as reads of whole blocks of a volume of so many bytes, in order. A block that the next access touches again is
/// read again: the cache is not the replayer's business.
pub fn blocks(trace: &Trace, block: u32, volume_bytes: u64) -> Vec<(u64, u32)> {
    let size = u64::from(block.max(1));
    let mut out = Vec::new();
    for access in trace.accesses.iter().filter(|a| a.op == Op::Read && a.bytes > 0) {
        let last = (access.offset + u64::from(access.bytes) - 1) / size;
        for number in access.offset / size..=last {
            if (number + 1) * size <= volume_bytes {
                out.push((number * size, block));
            }
        }
    }
    out
}
