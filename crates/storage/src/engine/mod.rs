//! I/O engines: what brings blocks from files into memory and back, many at a time.
//!
//! ```text
//!   submit(job) …  submit(job)   kick()      ─▶ the disk ─▶      complete(&mut done)   each job exactly once, in any order
//!                                              fd() becomes readable; arm() before sleeping on it
//!                  rest(other)   begins and sleeps, with one system call where the engine can
//! ```
//! | engine | a request costs | source |
//! | --- | --- | --- |
//! | `dynamic` | a new thread | remote-io-2020, section 2.4: 70 thousand I/Os a second in the paper |
//! | `static` | a hand-over to one of n threads | the same: 2.3 million |
//! | `uring` | an entry in a ring, one system call for many | the default |
//!
//! A read that ends before its length ended at the file's end: its count says how far it came. Errors are errors.

mod dynamic;
mod fault;
mod pool;
mod threads;
mod uring;

pub use dynamic::Dynamic;
pub use fault::{Fault, FaultPlan, Faulty};
pub use pool::Pool;
pub use uring::Uring;

use crate::memory::{Area, Place};
use crate::volume::Volume;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// What a job does.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// From the volume into memory.
    Read,
    /// From memory to the volume.
    Write,
    /// What was written before is on the medium when this completes.
    Flush,
    /// The range holds nothing of value any more; it reads as zeros.
    Trim,
}

/// One request of an engine.
#[derive(Clone, Debug)]
pub struct Job {
    /// What the caller named it.
    pub token: u64,
    /// What to do.
    pub op: Op,
    /// Where.
    pub volume: Arc<Volume>,
    /// From which byte on.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Memory, of at least so many bytes for reads and writes.
    pub place: Option<Place>,
}

/// A job that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The job's.
    pub token: u64,
    /// Bytes transferred; less than asked only at the end of the file.
    pub result: Result<u64, Errno>,
}

fn timespec(limit: Duration) -> Timespec {
    Timespec { tv_sec: limit.as_secs().min(1 << 30) as i64, tv_nsec: i64::from(limit.subsec_nanos()) }
}

/// [`Engine::rest`] with an engine that has a descriptor to sleep on.
fn rest_on_both<E: Engine + ?Sized>(
    engine: &mut E,
    other: Option<BorrowedFd<'_>>,
    limit: Option<Duration>,
) -> Result<bool, Errno> {
    engine.kick()?;
    if !engine.arm()? {
        return Ok(false);
    }
    let limit = limit.map(timespec);
    let mut fds = vec![PollFd::from_borrowed_fd(engine.fd(), PollFlags::IN)];
    fds.extend(other.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    match poll(&mut fds, limit.as_ref()) {
        Ok(_) => Ok(fds.get(1).is_some_and(|fd| !fd.revents().is_empty())),
        Err(Errno::INTR) => Ok(false),
        Err(why) => Err(why),
    }
}

/// An engine; used by one thread.
pub trait Engine {
    /// Its name, as in [`Kind`].
    fn name(&self) -> &'static str;
    /// Takes a job. It may begin at once, or at the next [`Engine::kick`].
    fn submit(&mut self, job: Job);
    /// Begins everything that was submitted.
    ///
    /// # Errors
    /// Only if the engine itself is broken.
    fn kick(&mut self) -> Result<(), Errno>;
    /// Appends what has ended, without waiting.
    ///
    /// # Errors
    /// Only if the engine itself is broken.
    fn complete(&mut self, done: &mut Vec<Done>) -> Result<usize, Errno>;
    /// Jobs submitted and not yet completed.
    fn in_flight(&self) -> usize;
    /// Readable when an armed engine has something to complete.
    fn fd(&self) -> BorrowedFd<'_>;
    /// Announces sleep on [`Engine::fd`]. `false`: do not sleep, there is something to complete.
    ///
    /// # Errors
    /// Only if the engine itself is broken.
    fn arm(&mut self) -> Result<bool, Errno>;
    /// Begins what was submitted and sleeps until something has ended, or the other descriptor, if any, is readable, at most so long. Whether the
    /// other one may be readable. It can wake without a reason.
    ///
    /// # Errors
    /// Only if the engine itself is broken.
    fn rest(&mut self, other: Option<BorrowedFd<'_>>, limit: Option<Duration>) -> Result<bool, Errno> {
        rest_on_both(self, other, limit)
    }
    /// Makes an area known beforehand, which can make its use cheaper.
    fn adopt(&mut self, area: &Arc<dyn Area>) {
        let _ = area;
    }
    /// The area will not be used for new jobs.
    fn forget(&mut self, area: &Arc<dyn Area>) {
        let _ = area;
    }
}

/// Which engine.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A thread for each request.
    Dynamic,
    /// A pool of so many threads.
    Static(usize),
    /// io_uring, or the pool where the kernel refuses it.
    Uring,
}

impl std::str::FromStr for Kind {
    type Err = String;

    /// `dynamic`, `static[:THREADS]`, `uring`.
    fn from_str(text: &str) -> Result<Kind, String> {
        match text.split_once(':') {
            None if text == "dynamic" => Ok(Kind::Dynamic),
            None if text == "static" => Ok(Kind::Static(8)),
            None if text == "uring" => Ok(Kind::Uring),
            Some(("static", n)) => match n.parse() {
                Ok(n) if (1..=crate::limits::POOL_THREADS).contains(&n) => Ok(Kind::Static(n)),
                _ => Err(format!("{n:?} is no number of threads from 1 to {}", crate::limits::POOL_THREADS)),
            },
            _ => Err(format!("{text:?} is none of dynamic, static[:THREADS], uring")),
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Kind::Dynamic => f.write_str("dynamic"),
            Kind::Static(n) => write!(f, "static:{n}"),
            Kind::Uring => f.write_str("uring"),
        }
    }
}

/// Makes an engine, on the thread that is going to use it.
///
/// # Errors
/// What the system says. A refused io_uring is no error: the pool takes its place, and `note` is told why.
pub fn open(kind: Kind, mut note: impl FnMut(String)) -> Result<Box<dyn Engine>, Errno> {
    Ok(match kind {
        Kind::Dynamic => Box::new(Dynamic::new()?),
        Kind::Static(threads) => Box::new(Pool::new(threads)?),
        Kind::Uring => match Uring::new() {
            Ok(ring) => Box::new(ring),
            Err(why) => {
                note(format!("the kernel refuses io_uring ({why}); a pool of 8 threads takes its place"));
                Box::new(Pool::new(8)?)
            }
        },
    })
}
