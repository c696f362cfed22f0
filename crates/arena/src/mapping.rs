//! Files in memory at addresses that large pages can begin at.

use crate::Error;
use crate::large_pages::LARGE_PAGE;
use crate::layout::PAGE;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicU64;

/// `MADV_COLLAPSE` of Linux 6.1; before, the call answers that it knows none.
const COLLAPSE: libc::c_int = 25;

/// Maps a file, shared, at a multiple of [`LARGE_PAGE`].
pub(crate) fn map(fd: BorrowedFd<'_>, bytes: u64, access: ProtFlags) -> Result<NonNull<AtomicU64>, Error> {
    let length = usize::try_from(bytes).map_err(|_| Error::TooLarge)?;
    let align = LARGE_PAGE as usize;
    let pages = length.checked_next_multiple_of(PAGE as usize).ok_or(Error::TooLarge)?;
    let room = pages.checked_add(align).ok_or(Error::TooLarge)?;
    let reserve = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a fresh mapping, without access, at an address that the kernel picks.
    let reserved = unsafe { mmap_anonymous(null_mut(), room, ProtFlags::empty(), reserve)? };
    let before = reserved.addr().next_multiple_of(align) - reserved.addr();
    let base = reserved.wrapping_byte_add(before);
    let shared = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: it takes the place of addresses that were reserved above, and that nobody else knows.
    let mapped = unsafe { mmap(base, length, access, shared, fd, 0) };
    let (keep_from, keep) = if mapped.is_ok() { (before, pages) } else { (0, 0) };
    for (from, to) in [(0, keep_from), (keep_from + keep, room)] {
        if from < to {
            // SAFETY: what is left of the reservation.
            unsafe { munmap(reserved.wrapping_byte_add(from), to - from)? };
        }
    }
    NonNull::new(mapped?.cast()).ok_or(Error::OutOfMemory)
}

/// Has the system put the pages of these words, which are mapped from a file in memory, into large ones; whether it did.
pub(crate) fn collapse(words: &[AtomicU64]) -> bool {
    // SAFETY: the range is mapped. Contents and addresses stay as they are, and accesses meanwhile wait for the kernel.
    unsafe { libc::madvise(words.as_ptr().cast_mut().cast(), size_of_val(words), COLLAPSE) == 0 }
}
