//! A shim that injects faults into an engine: disk errors, short reads, jobs that take long. For tests and drills.

use super::{Done, Engine, Job, Op};
use crate::memory::Area;
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// What goes wrong with a job.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails with this error, without reaching the disk.
    Error(Errno),
    /// It ends after so many bytes.
    Short(u64),
}

/// Which jobs it strikes: those of one kind that touch a range of bytes.
#[derive(Clone, Debug)]
pub struct FaultPlan {
    /// Reads, writes, …
    pub op: Op,
    /// Bytes of the volume.
    pub range: std::ops::Range<u64>,
    /// What happens.
    pub fault: Fault,
}

impl std::str::FromStr for FaultPlan {
    type Err = String;

    /// `read:4096-8192:eio`, `write:0-512:enospc`, `read:0-4096:short=100`.
    fn from_str(text: &str) -> Result<FaultPlan, String> {
        let wrong = || format!("{text:?} is not like read:4096-8192:eio or read:0-4096:short=100");
        let mut parts = text.splitn(3, ':');
        let op = match parts.next() {
            Some("read") => Op::Read,
            Some("write") => Op::Write,
            Some("flush") => Op::Flush,
            Some("trim") => Op::Trim,
            _ => return Err(wrong()),
        };
        let (from, to) = parts.next().and_then(|r| r.split_once('-')).ok_or_else(wrong)?;
        let range = from.parse().map_err(|_| wrong())?..to.parse().map_err(|_| wrong())?;
        let fault = match parts.next().ok_or_else(wrong)? {
            "eio" => Fault::Error(Errno::IO),
            "enospc" => Fault::Error(Errno::NOSPC),
            "enodev" => Fault::Error(Errno::NODEV),
            other => match other.strip_prefix("short=").and_then(|n| n.parse().ok()) {
                Some(bytes) => Fault::Short(bytes),
                None => return Err(wrong()),
            },
        };
        Ok(FaultPlan { op, range, fault })
    }
}

/// An engine with faults.
pub struct Faulty {
    inner: Box<dyn Engine>,
    plans: Vec<FaultPlan>,
    failed: Vec<Done>,
    short: HashMap<u64, u64>,
}

impl Faulty {
    /// Puts the shim before an engine.
    pub fn new(inner: Box<dyn Engine>, plans: Vec<FaultPlan>) -> Faulty {
        Faulty { inner, plans, failed: Vec::new(), short: HashMap::new() }
    }
}

impl Engine for Faulty {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn submit(&mut self, mut job: Job) {
        let end = job.offset.saturating_add(job.bytes.max(1));
        let struck = |p: &&FaultPlan| p.op == job.op && p.range.start < end && job.offset < p.range.end;
        match self.plans.iter().find(struck).map(|p| p.fault) {
            None => self.inner.submit(job),
            Some(Fault::Error(errno)) => self.failed.push(Done { token: job.token, result: Err(errno) }),
            Some(Fault::Short(bytes)) => {
                let bytes = bytes.min(job.bytes);
                self.short.insert(job.token, bytes);
                job.bytes = bytes;
                self.inner.submit(job);
            }
        }
    }

    fn kick(&mut self) -> Result<(), Errno> {
        self.inner.kick()
    }

    fn complete(&mut self, done: &mut Vec<Done>) -> Result<usize, Errno> {
        let failed = self.failed.len();
        done.append(&mut self.failed);
        let start = done.len();
        let count = self.inner.complete(done)?;
        for d in &mut done[start..] {
            if let (Some(limit), Ok(bytes)) = (self.short.remove(&d.token), &mut d.result) {
                *bytes = (*bytes).min(limit);
            }
        }
        Ok(failed + count)
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.failed.len()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.inner.fd()
    }

    fn arm(&mut self) -> Result<bool, Errno> {
        Ok(self.failed.is_empty() && self.inner.arm()?)
    }

    fn rest(&mut self, other: Option<BorrowedFd<'_>>, limit: Option<Duration>) -> Result<bool, Errno> {
        if self.failed.is_empty() { self.inner.rest(other, limit) } else { self.inner.kick().map(|()| false) }
    }

    fn adopt(&mut self, area: &Arc<dyn Area>) {
        self.inner.adopt(area);
    }

    fn forget(&mut self, area: &Arc<dyn Area>) {
        self.inner.forget(area);
    }
}
