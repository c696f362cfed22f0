//! io_uring: one thread submits and completes, many requests travel with one system call.
//!
//! Volumes are registered files and data areas registered buffers, so that a request costs neither a reference count on a file nor the
//! pinning of pages. Where the kernel does not know the newer set-up flags (single issuer, deferred task work), an ordinary ring is
//! made; where it refuses rings altogether, [`super::open`] takes the pool. Kernel-side polling for submissions or completions is not
//! used: on ordinary disks it brings nothing, and an idle target is to cost nothing.
//!
//! A short count is no end: what is left of a request is asked for again, through the page cache, until nothing comes.

use super::threads::descriptor;
use super::{Done, Engine, Job, Op, rest_on_both};
use crate::limits;
use crate::memory::Area;
use crate::volume::Volume;
use io_uring::{IoUring, opcode, squeue, types};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// A job in the ring.
struct Flight {
    job: Job,
    moved: u64,
    direct: bool,
}

/// The name of the request that looks at another descriptor; jobs have the numbers of their flights.
const WATCH: u64 = u64::MAX;

/// The engine.
pub struct Uring {
    ring: IoUring,
    /// Rung when deferred work waits: the ring's own descriptor is not, before that work has run.
    bell: OwnedFd,
    armed: bool,
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    /// Jobs that wait for a place in the ring.
    waiting: VecDeque<usize>,
    in_ring: usize,
    /// The ring looks at somebody else's descriptor: whose, and whether it has seen it readable.
    watched: Option<RawFd>,
    seen: bool,
    /// The kernel takes a limit of time along with a submission.
    sleeps: bool,
    /// What ended without the kernel.
    ended: Vec<Done>,
    /// Places of volumes in the table of registered files; it keeps them open.
    files: HashMap<u64, (u32, Arc<Volume>)>,
    file_table: bool,
    /// Places of areas in the table of registered buffers, by address.
    areas: HashMap<usize, u16>,
    free_areas: Vec<u16>,
}

fn errno(why: &std::io::Error) -> Errno {
    Errno::from_io_error(why).unwrap_or(Errno::IO)
}

impl Uring {
    /// Makes a ring. It is to be used by the thread that makes it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new() -> Result<Uring, Errno> {
        let entries = limits::RING_ENTRIES;
        let mut modern = IoUring::builder();
        modern.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_cqsize(2 * entries);
        let ring = modern.build(entries).or_else(|_| IoUring::new(entries)).map_err(|why| errno(&why))?;
        let sleeps = ring.params().is_feature_ext_arg();
        let submitter = ring.submitter();
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        submitter.register_eventfd(bell.as_raw_fd()).map_err(|why| errno(&why))?;
        let file_table = submitter.register_files_sparse(limits::RING_FILES).is_ok();
        let area_table = submitter.register_buffers_sparse(limits::RING_AREAS).is_ok();
        let free_areas = if area_table { (0..limits::RING_AREAS as u16).rev().collect() } else { Vec::new() };
        Ok(Uring {
            ring,
            bell,
            armed: true,
            flights: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            in_ring: 0,
            watched: None,
            seen: false,
            sleeps,
            ended: Vec::new(),
            files: HashMap::new(),
            file_table,
            areas: HashMap::new(),
            free_areas,
        })
    }

    /// The place of a volume's first descriptor in the table; that around the page cache is the next one.
    fn file_place(&mut self, volume: &Arc<Volume>) -> Option<u32> {
        if let Some((place, _)) = self.files.get(&volume.number()) {
            return Some(*place);
        }
        let place = 2 * self.files.len() as u32;
        if !self.file_table || place + 2 > limits::RING_FILES {
            return None;
        }
        let fds: [RawFd; 2] = [descriptor(volume, false)?, descriptor(volume, true)?];
        self.ring.submitter().register_files_update(place, &fds).ok()?;
        self.files.insert(volume.number(), (place, volume.clone()));
        Some(place)
    }

    fn entry(&mut self, at: usize) -> Option<squeue::Entry> {
        let volume = self.flights[at].as_ref()?.job.volume.clone();
        let place = self.file_place(&volume);
        let flight = self.flights[at].as_ref()?;
        let job = &flight.job;
        let raw = types::Fd(descriptor(&volume, flight.direct)?);
        let fixed = place.map(|p| types::Fixed(p + u32::from(flight.direct)));
        let offset = job.offset + flight.moved;
        // Both kinds of descriptor lead to the same entry.
        macro_rules! on_file {
            ($fd:ident => $entry:expr) => {
                match fixed {
                    Some($fd) => $entry.build(),
                    None => {
                        let $fd = raw;
                        $entry.build()
                    }
                }
            };
        }
        let entry = match job.op {
            Op::Flush => on_file!(fd => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC)),
            Op::Trim => {
                let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                on_file!(fd => opcode::Fallocate::new(fd, job.bytes).offset(job.offset).mode(mode))
            }
            Op::Read | Op::Write => {
                let memory = job.place.as_ref()?;
                let area = self.areas.get(&(memory.area().base().as_ptr() as usize)).copied();
                // SAFETY: `moved` is less than `job.bytes`, which `submit` has checked against the place.
                let pointer = unsafe { memory.pointer().add(flight.moved as usize) };
                let bytes = u32::try_from(job.bytes - flight.moved).ok()?;
                match (job.op, area) {
                    (Op::Read, Some(area)) => {
                        on_file!(fd => opcode::ReadFixed::new(fd, pointer, bytes, area).offset(offset))
                    }
                    (Op::Read, None) => on_file!(fd => opcode::Read::new(fd, pointer, bytes).offset(offset)),
                    (_, Some(area)) => {
                        on_file!(fd => opcode::WriteFixed::new(fd, pointer, bytes, area).offset(offset))
                    }
                    (_, None) => on_file!(fd => opcode::Write::new(fd, pointer, bytes).offset(offset)),
                }
            }
        };
        Some(entry.user_data(at as u64))
    }

    /// Puts what waits into the submission queue, as far as there is room in both queues.
    fn fill(&mut self) {
        while self.in_ring < limits::RING_ENTRIES as usize && !self.ring.submission().is_full() {
            let Some(at) = self.waiting.pop_front() else { return };
            match self.entry(at) {
                Some(entry) => {
                    // SAFETY: the flight keeps the volume's descriptors and the place's area alive until its completion has been
                    // seen; `drop` waits for all of them.
                    let pushed = unsafe { self.ring.submission().push(&entry) };
                    if pushed.is_err() {
                        self.waiting.push_front(at);
                        return;
                    }
                    self.in_ring += 1;
                }
                None => self.end(at, Err(Errno::INVAL)),
            }
        }
    }

    fn end(&mut self, at: usize, result: Result<u64, Errno>) {
        if let Some(flight) = self.flights[at].take() {
            self.free.push(at);
            self.ended.push(Done { token: flight.job.token, result });
        }
    }

    fn enter(&mut self, wait: usize) -> Result<(), Errno> {
        match self.ring.submitter().submit_and_wait(wait) {
            Ok(_) => Ok(()),
            // Out of memory for now, interrupted, or completions first: the entries stay where they are.
            Err(why) => match errno(&why) {
                Errno::INTR | Errno::AGAIN | Errno::BUSY => Ok(()),
                other => Err(other),
            },
        }
    }

    /// Lets the kernel finish what it has deferred until somebody asks.
    fn run_deferred(&mut self) {
        let flags = 1; // IORING_ENTER_GETEVENTS
        // SAFETY: no argument is passed; nothing is waited for.
        let _ = unsafe { self.ring.submitter().enter::<libc::sigset_t>(0, 0, flags, None) };
    }

    /// Takes completions from the ring.
    fn reap(&mut self) -> usize {
        let mut seen = 0;
        while let Some(entry) = { self.ring.completion().next() } {
            if entry.user_data() == WATCH {
                (self.watched, self.seen) = (None, true);
                continue;
            }
            seen += 1;
            self.in_ring -= 1;
            let at = entry.user_data() as usize;
            let result = entry.result();
            let Some(Some(flight)) = self.flights.get_mut(at) else { continue };
            let transfer = matches!(flight.job.op, Op::Read | Op::Write);
            match u64::try_from(result) {
                Ok(count) if transfer => {
                    flight.moved += count;
                    let moved = flight.moved;
                    if count == 0 || moved >= flight.job.bytes {
                        self.end(at, Ok(moved));
                    } else {
                        flight.direct = false;
                        self.waiting.push_back(at);
                    }
                }
                Ok(_) => {
                    let bytes = if flight.job.op == Op::Trim { flight.job.bytes } else { 0 };
                    self.end(at, Ok(bytes));
                }
                Err(_) => match Errno::from_raw_os_error(-result) {
                    Errno::INTR | Errno::AGAIN => self.waiting.push_back(at),
                    why => self.end(at, Err(why)),
                },
            }
        }
        seen
    }
}

impl Engine for Uring {
    fn name(&self) -> &'static str {
        "uring"
    }

    fn submit(&mut self, job: Job) {
        let transfer = matches!(job.op, Op::Read | Op::Write);
        let fits = job.place.as_ref().is_some_and(|p| p.bytes() as u64 >= job.bytes);
        if transfer && !fits {
            self.ended.push(Done { token: job.token, result: Err(Errno::INVAL) });
            return;
        }
        if descriptor(&job.volume, false).is_none() {
            self.ended.push(Done { token: job.token, result: Ok(job.bytes) });
            return;
        }
        if transfer && job.bytes == 0 {
            self.ended.push(Done { token: job.token, result: Ok(0) });
            return;
        }
        let direct = transfer
            && job.place.as_ref().is_some_and(|place| job.volume.goes_direct(job.offset, job.bytes, place));
        let flight = Some(Flight { job, moved: 0, direct });
        let at = match self.free.pop() {
            Some(at) => {
                self.flights[at] = flight;
                at
            }
            None => {
                self.flights.push(flight);
                self.flights.len() - 1
            }
        };
        self.waiting.push_back(at);
    }

    fn kick(&mut self) -> Result<(), Errno> {
        self.fill();
        if self.ring.submission().is_empty() { Ok(()) } else { self.enter(0) }
    }

    fn complete(&mut self, done: &mut Vec<Done>) -> Result<usize, Errno> {
        if self.armed {
            self.armed = false;
            self.ring.completion().disable_eventfd();
        }
        if self.in_ring > 0 {
            if self.ring.submission().taskrun() {
                self.run_deferred();
            }
            self.reap();
            if !self.waiting.is_empty() {
                self.kick()?;
            }
        }
        let count = self.ended.len();
        done.append(&mut self.ended);
        Ok(count)
    }

    fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len() + self.ended.len()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    fn arm(&mut self) -> Result<bool, Errno> {
        let mut bells = [0; 8];
        // Empties the bell; it is not blocking.
        let _ = rustix::io::read(&self.bell, &mut bells);
        self.kick()?;
        self.armed = true;
        self.ring.completion().enable_eventfd();
        // The kernel reads that flag after it has queued what is done: one of the two sees the other.
        fence(Ordering::SeqCst);
        let quiet = self.ring.completion().is_empty() && !self.ring.submission().taskrun();
        Ok(quiet && self.ended.is_empty() && (self.waiting.is_empty() || self.in_ring > 0))
    }

    /// One system call: it submits, sleeps, and runs what the kernel has deferred. The other descriptor is looked at by the ring.
    fn rest(&mut self, other: Option<BorrowedFd<'_>>, limit: Option<Duration>) -> Result<bool, Errno> {
        if !self.sleeps {
            return rest_on_both(self, other, limit);
        }
        self.fill();
        if !self.ended.is_empty() {
            return self.kick().map(|()| false);
        }
        let other = other.map(|fd| fd.as_raw_fd());
        if let Some(other) = other.filter(|_| self.watched != other) {
            let entry = opcode::PollAdd::new(types::Fd(other), libc::POLLIN as u32).build().user_data(WATCH);
            // SAFETY: the request refers to no memory of ours.
            if unsafe { self.ring.submission().push(&entry) }.is_err() {
                // No room: what is there goes first.
                return self.kick().map(|()| true);
            }
            self.watched = Some(other);
        }
        let limit = limit.map(|l| types::Timespec::new().sec(l.as_secs()).nsec(l.subsec_nanos()));
        let mut arguments = types::SubmitArgs::new();
        if let Some(limit) = &limit {
            arguments = arguments.timespec(limit);
        }
        match self.ring.submitter().submit_with_args(1, &arguments) {
            Ok(_) => {}
            Err(why) => match errno(&why) {
                Errno::INTR | Errno::AGAIN | Errno::BUSY | Errno::TIME => {}
                other => return Err(other),
            },
        }
        self.reap();
        Ok(std::mem::take(&mut self.seen))
    }

    fn adopt(&mut self, area: &Arc<dyn Area>) {
        let Some(place) = self.free_areas.pop() else { return };
        let base = area.base().as_ptr();
        let vector = libc::iovec { iov_base: base.cast(), iov_len: area.bytes() };
        // SAFETY: the area is valid memory; the kernel holds its pages as long as they are in the table, and `forget` takes them out
        // of it (drop closes the ring).
        let made = unsafe { self.ring.submitter().register_buffers_update(place.into(), &[vector], None) };
        match made {
            Ok(_) => drop(self.areas.insert(base as usize, place)),
            // Over the limit of locked memory, most likely: it works without.
            Err(_) => self.free_areas.push(place),
        }
    }

    fn forget(&mut self, area: &Arc<dyn Area>) {
        let Some(place) = self.areas.remove(&(area.base().as_ptr() as usize)) else { return };
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: an empty vector clears the place; the kernel keeps the pages for what is under way.
        let cleared =
            unsafe { self.ring.submitter().register_buffers_update(place.into(), &[nothing], None) };
        if cleared.is_ok() {
            self.free_areas.push(place);
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        self.waiting.clear();
        while self.in_ring > 0 {
            if self.enter(1).is_err() {
                // The kernel may still write to the memory of what is under way: rather leak it than give it back.
                self.flights.drain(..).for_each(std::mem::forget);
                return;
            }
            self.reap();
            self.waiting.clear();
        }
    }
}
