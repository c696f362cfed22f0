//! A fixed pool of threads that do blocking I/O: the paper's second way (remote-io-2020, section 2.4).

use super::threads::{Outbox, execute};
use super::{Done, Engine, Job};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    idle: usize,
    ending: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    news: Condvar,
    outbox: Outbox,
}

/// The engine.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    in_flight: usize,
}

impl Pool {
    /// A pool of so many threads.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(threads: usize) -> Result<Pool, Errno> {
        let shared =
            Arc::new(Shared { queue: Mutex::default(), news: Condvar::new(), outbox: Outbox::new()? });
        let mut pool = Pool { shared, threads: Vec::new(), in_flight: 0 };
        for number in 0..threads.max(1) {
            let shared = pool.shared.clone();
            let thread = std::thread::Builder::new().name(format!("io-{number}")).stack_size(64 << 10);
            pool.threads.push(thread.spawn(move || work(&shared)).map_err(|_| Errno::AGAIN)?);
        }
        Ok(pool)
    }
}

fn work(shared: &Shared) {
    let mut queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(job) = queue.jobs.pop_front() {
            drop(queue);
            let (token, result) = (job.token, execute(&job));
            drop(job);
            shared.outbox.put(Done { token, result });
            queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        } else if queue.ending {
            return;
        } else {
            queue.idle += 1;
            queue = shared.news.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}

impl Engine for Pool {
    fn name(&self) -> &'static str {
        "static"
    }

    fn submit(&mut self, job: Job) {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.jobs.push_back(job);
        let wake = queue.idle > 0;
        drop(queue);
        self.in_flight += 1;
        if wake {
            self.shared.news.notify_one();
        }
    }

    fn kick(&mut self) -> Result<(), Errno> {
        Ok(())
    }

    fn complete(&mut self, done: &mut Vec<Done>) -> Result<usize, Errno> {
        let count = self.shared.outbox.take(done);
        self.in_flight -= count;
        Ok(count)
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.shared.outbox.fd()
    }

    fn arm(&mut self) -> Result<bool, Errno> {
        Ok(self.shared.outbox.arm())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.ending = true;
        queue.jobs.clear();
        drop(queue);
        self.shared.news.notify_all();
        for thread in self.threads.drain(..) {
            // A worker that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}
