//! A new thread for every request: the paper's first way (remote-io-2020, section 2.4), kept for comparison.

use super::threads::{Outbox, execute};
use super::{Done, Engine, Job};
use crate::limits;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The engine.
pub struct Dynamic {
    outbox: Arc<Outbox>,
    running: usize,
    waiting: VecDeque<Job>,
}

impl Dynamic {
    /// # Errors
    /// What the system says.
    pub fn new() -> Result<Dynamic, Errno> {
        Ok(Dynamic { outbox: Arc::new(Outbox::new()?), running: 0, waiting: VecDeque::new() })
    }
}

impl Engine for Dynamic {
    fn name(&self) -> &'static str {
        "dynamic"
    }

    fn submit(&mut self, job: Job) {
        self.waiting.push_back(job);
    }

    fn kick(&mut self) -> Result<(), Errno> {
        while self.running < limits::DYNAMIC_THREADS {
            let Some(job) = self.waiting.pop_front() else { break };
            let (outbox, token) = (self.outbox.clone(), job.token);
            let thread = std::thread::Builder::new().stack_size(64 << 10);
            let started = thread.spawn(move || {
                let result = execute(&job);
                drop(job);
                outbox.put(Done { token, result });
            });
            self.running += 1;
            if started.is_err() {
                self.outbox.put(Done { token, result: Err(Errno::AGAIN) });
            }
        }
        Ok(())
    }

    fn complete(&mut self, done: &mut Vec<Done>) -> Result<usize, Errno> {
        let count = self.outbox.take(done);
        self.running -= count;
        if !self.waiting.is_empty() {
            self.kick()?;
        }
        Ok(count)
    }

    fn in_flight(&self) -> usize {
        self.running + self.waiting.len()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.outbox.fd()
    }

    fn arm(&mut self) -> Result<bool, Errno> {
        Ok(self.outbox.arm())
    }
}
