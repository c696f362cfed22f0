//! What the engines with threads share: one job done by blocking system calls, and the way back to the engine's thread.

use super::{Done, Job, Op};
use crate::volume::Volume;
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Which of a volume's descriptors serves a transfer, as a number. `None`: there is nothing behind the volume.
pub(super) fn descriptor(volume: &Volume, direct: bool) -> Option<RawFd> {
    let (cached, around) = volume.descriptors();
    if direct { around.or(cached) } else { cached }.map(|fd| fd.as_raw_fd())
}

/// Does one job, and waits for it.
pub(super) fn execute(job: &Job) -> Result<u64, Errno> {
    match job.op {
        Op::Read | Op::Write => transfer(job),
        Op::Flush => match job.volume.descriptors().0 {
            Some(fd) => rustix::fs::fdatasync(fd).map(|()| 0),
            None => Ok(0),
        },
        Op::Trim => match job.volume.descriptors().0 {
            Some(fd) => {
                let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(fd, flags, job.offset, job.bytes).map(|()| job.bytes)
            }
            None => Ok(job.bytes),
        },
    }
}

fn transfer(job: &Job) -> Result<u64, Errno> {
    let place = job.place.as_ref().ok_or(Errno::INVAL)?;
    if (place.bytes() as u64) < job.bytes {
        return Err(Errno::INVAL);
    }
    let mut direct = job.volume.goes_direct(job.offset, job.bytes, place);
    let mut moved = 0u64;
    while moved < job.bytes {
        let Some(fd) = descriptor(&job.volume, direct) else { return Ok(job.bytes) };
        let rest = (job.bytes - moved) as usize;
        let at = libc::off_t::try_from(job.offset + moved).map_err(|_| Errno::INVAL)?;
        // SAFETY: the place has `job.bytes` bytes from its pointer on, `moved` is less, and `job` keeps its area alive.
        let pointer = unsafe { place.pointer().add(moved as usize) }.cast::<libc::c_void>();
        let count = match job.op {
            // SAFETY: `rest` bytes from `pointer` on are within the place; nobody has a Rust reference to them.
            Op::Read => unsafe { libc::pread(fd, pointer, rest, at) },
            // SAFETY: as above; bytes that a peer changes meanwhile are only those that it wanted written.
            _ => unsafe { libc::pwrite(fd, pointer, rest, at) },
        };
        match u64::try_from(count) {
            Ok(0) => break,
            Ok(count) => {
                moved += count;
                // What is left is not aligned any more, or is the end of the file.
                direct = false;
            }
            Err(_) => match Errno::from_io_error(&std::io::Error::last_os_error()) {
                Some(Errno::INTR) => {}
                Some(errno) => return Err(errno),
                None => return Err(Errno::IO),
            },
        }
    }
    Ok(moved)
}

/// Where worker threads leave what they did.
pub(super) struct Outbox {
    done: Mutex<Vec<Done>>,
    bell: OwnedFd,
    asleep: AtomicBool,
}

impl Outbox {
    pub fn new() -> Result<Outbox, Errno> {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Outbox { done: Mutex::default(), bell, asleep: AtomicBool::new(false) })
    }

    pub fn put(&self, done: Done) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(done);
        if self.asleep.swap(false, Ordering::SeqCst) {
            // It can only fail when it is readable already.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    pub fn take(&self, into: &mut Vec<Done>) -> usize {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let count = done.len();
        into.append(&mut done);
        count
    }

    /// `false`: there is something to take.
    pub fn arm(&self) -> bool {
        let mut bells = [0; 8];
        // Empties the bell; it is not blocking.
        let _ = rustix::io::read(&self.bell, &mut bells);
        self.asleep.store(true, Ordering::SeqCst);
        let empty = self.done.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        if !empty {
            self.asleep.store(false, Ordering::SeqCst);
        }
        empty
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
