//! Memory that several processes see: mapped files in memory, and buffers. The one place that turns offsets into pointers.
//!
//! All of it is reached through 8-byte atomics, because somebody else may write meanwhile. A mapping is made only of files that
//! cannot shrink (`F_SEAL_SHRINK`), since a read beyond the end of a file is a SIGBUS; nor of huge pages, which can be missing.
//!
//! A region is handed out read-only in two ways at once: the descriptor is opened for reading, and the file is sealed against *new*
//! writable mappings and against `write` (`F_SEAL_FUTURE_WRITE`), so that to open `/proc/self/fd/N` again for writing gains nothing.
//! The owner keeps the writable mapping that it had before the seal.

use crate::words::{copy_in, copy_out};
use crate::{Error, limits};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Mapped memory: a region, a pair of rings, or a buffer.
pub struct Mapping {
    base: NonNull<AtomicU64>,
    bytes: u64,
    writable: bool,
    backing: Backing,
}

enum Backing {
    File(OwnedFd),
    Heap,
    /// Somebody else's, whom this keeps alive.
    Kept(#[allow(dead_code, reason = "held, not used")] Kept, Option<OwnedFd>),
}

/// Whoever has words in memory.
pub type Kept = Arc<dyn AsRef<[AtomicU64]> + Send + Sync>;

// SAFETY: the memory is only reached as `AtomicU64`s.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl std::fmt::Debug for Mapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mapping({} bytes{})", self.bytes, if self.writable { ", writable" } else { "" })
    }
}

impl AsRef<[AtomicU64]> for Mapping {
    fn as_ref(&self) -> &[AtomicU64] {
        self.words()
    }
}

const PAGE: u64 = 4096;
/// `TMPFS_MAGIC`: what files in memory of ordinary pages say that they are on.
const TMPFS: u64 = 0x0102_1994;

fn round_up(bytes: u64) -> Result<u64, Error> {
    let limit = limits::REGION_BYTES;
    if bytes > limit {
        return Err(Error::TooLarge { bytes, limit });
    }
    Ok(bytes.max(1).next_multiple_of(PAGE))
}

impl Mapping {
    /// A new file in memory, sparse and zeroed, of fixed size, mapped for reading and writing. Whoever is given its descriptor can
    /// write it until it is sealed.
    pub fn create(bytes: u64) -> Result<Mapping, Error> {
        let bytes = round_up(bytes)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("kintsugi-fabric", flags).map_err(Error::system("memfd_create"))?;
        rustix::fs::ftruncate(&fd, bytes).map_err(Error::system("ftruncate"))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW;
        rustix::fs::fcntl_add_seals(&fd, seals).map_err(Error::system("F_ADD_SEALS"))?;
        Mapping::map(fd, bytes, true)
    }

    /// Maps a file in memory that somebody has handed over.
    ///
    /// # Errors
    /// [`Error::Unsafe`] if it is shorter than said or could become so.
    pub fn map(fd: OwnedFd, bytes: u64, writable: bool) -> Result<Mapping, Error> {
        let length =
            usize::try_from(bytes).map_err(|_| Error::TooLarge { bytes, limit: limits::REGION_BYTES })?;
        if bytes == 0 || !bytes.is_multiple_of(8) || bytes > limits::REGION_BYTES {
            return Err(Error::Unsafe("its length is not that of a region"));
        }
        let seals = rustix::fs::fcntl_get_seals(&fd).map_err(|_| Error::Unsafe("it is no file in memory"))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(Error::Unsafe("it is not sealed against shrinking"));
        }
        // Pages of other file systems (huge ones above all) can be missing when they are touched, which is a SIGBUS, too.
        let system = rustix::fs::fstatfs(&fd).map_err(Error::system("fstatfs"))?.f_type;
        if system as u64 != TMPFS {
            return Err(Error::Unsafe("its pages are not ordinary memory"));
        }
        let size = rustix::fs::fstat(&fd).map_err(Error::system("fstat"))?.st_size;
        if u64::try_from(size).unwrap_or(0) < bytes {
            return Err(Error::Unsafe("it is shorter than announced"));
        }
        let protection = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address that the kernel picks.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, protection, flags, &fd, 0) };
        let base = NonNull::new(base.map_err(Error::system("mmap"))?.cast());
        let base = base.ok_or(Error::Unsafe("it was mapped at address zero"))?;
        Ok(Mapping { base, bytes, writable, backing: Backing::File(fd) })
    }

    /// Memory that another part of this process has mapped for writing, at page granularity: for reading, and for adapters, which cannot be
    /// told of memory that is mapped for reading only (before Linux 6.2). `file`: the file behind it, to be handed to peers.
    ///
    /// # Errors
    /// [`Error::Unsafe`].
    pub fn kept(memory: Kept, file: Option<OwnedFd>) -> Result<Mapping, Error> {
        let words = (*memory).as_ref();
        let bytes = 8 * words.len() as u64;
        let base = NonNull::from(words).cast::<AtomicU64>();
        if bytes == 0 || bytes > limits::REGION_BYTES || !(base.as_ptr() as u64).is_multiple_of(PAGE) {
            return Err(Error::Unsafe("its length or its place is not that of a region"));
        }
        // The slice lives as long as what it was borrowed from, which nobody can change or move while there are several owners.
        Ok(Mapping { base, bytes, writable: false, backing: Backing::Kept(memory, file) })
    }

    /// A zeroed buffer of this process alone, at page granularity.
    pub fn buffer(bytes: u64) -> Result<Mapping, Error> {
        let bytes = round_up(bytes)?;
        // SAFETY: the layout's size is not zero.
        let base = unsafe { std::alloc::alloc_zeroed(heap_layout(bytes)?) };
        let limit = limits::BUFFER_BYTES as u64;
        let base = NonNull::new(base.cast()).ok_or(Error::TooLarge { bytes, limit })?;
        Ok(Mapping { base, bytes, writable: true, backing: Backing::Heap })
    }

    /// Bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether it may be stored to. A store to another one is a fault, so [`Mapping::store_bytes`] and the like look at this.
    pub fn writable(&self) -> bool {
        self.writable
    }

    /// Where it begins in this process's address space: what an adapter is told.
    pub fn address(&self) -> u64 {
        self.base.as_ptr() as u64
    }

    /// All of its words. Stores are allowed only if it is [`Mapping::writable`].
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped, allocated or kept with this length, aligned to pages, alive as long as `self`; any bits are valid; nobody
        // reaches it but through atomics (other processes are other writers of words, as far as the language knows).
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), (self.bytes / 8) as usize) }
    }

    /// Words at a byte offset.
    ///
    /// # Errors
    /// [`Error::Unaligned`], [`Error::OutOfBounds`].
    #[inline]
    pub fn range(&self, offset: u64, bytes: u64) -> Result<&[AtomicU64], Error> {
        check(offset, bytes, self.bytes)?;
        Ok(&self.words()[(offset / 8) as usize..][..(bytes / 8) as usize])
    }

    /// Copies bytes from any offset.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`].
    pub fn load_bytes(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let bytes = into.len() as u64;
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(Error::OutOfBounds { offset, bytes, length: self.bytes });
        }
        let skip = (offset % 8) as usize;
        let words = &self.words()[(offset / 8) as usize..];
        let (head, tail) = into.split_at_mut(if skip == 0 { 0 } else { (8 - skip).min(into.len()) });
        if skip != 0 && !head.is_empty() {
            let word = words[0].load(Ordering::Relaxed).to_le_bytes();
            head.copy_from_slice(&word[skip..skip + head.len()]);
        }
        copy_out(&words[usize::from(skip != 0 && !words.is_empty())..], tail);
        Ok(())
    }

    /// Copies bytes to an offset that is a multiple of 8. The rest of the last word becomes zero.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Unaligned`], [`Error::Unsafe`] if it is read-only.
    pub fn store_bytes(&self, offset: u64, from: &[u8]) -> Result<(), Error> {
        if !self.writable {
            return Err(Error::Unsafe("it is mapped for reading"));
        }
        copy_in(self.range(offset, from.len().next_multiple_of(8) as u64)?, from);
        Ok(())
    }

    /// The file behind it; none behind a buffer.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.backing {
            Backing::File(fd) | Backing::Kept(_, Some(fd)) => Some(fd.as_fd()),
            Backing::Heap | Backing::Kept(_, None) => None,
        }
    }

    /// Forbids new writable mappings, and every further seal; this mapping stays writable.
    ///
    /// # Errors
    /// What the system says; [`Error::Unsafe`] for a buffer.
    pub fn seal_future_writes(&self) -> Result<(), Error> {
        let fd = self.fd().ok_or(Error::Unsafe("a buffer has no file"))?;
        let seals = SealFlags::FUTURE_WRITE | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(fd, seals).map_err(Error::system("F_ADD_SEALS"))
    }

    /// A descriptor to hand to a peer.
    ///
    /// # Errors
    /// [`Error::Unsafe`] if it is to be for reading and a peer could get at more than that.
    pub fn descriptor(&self, writable: bool) -> Result<OwnedFd, Error> {
        let fd = self.fd().ok_or(Error::Unsafe("a buffer has no file"))?;
        if writable {
            return fd.try_clone_to_owned().map_err(|_| Error::Unsafe("its descriptor cannot be doubled"));
        }
        let seals = rustix::fs::fcntl_get_seals(fd).map_err(Error::system("F_GET_SEALS"))?;
        if !seals.intersects(SealFlags::FUTURE_WRITE | SealFlags::WRITE) {
            return Err(Error::Unsafe("it is not sealed against being mapped for writing"));
        }
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(Error::system("opening a region for reading"))
    }
}

/// Whether a range of words is inside.
#[inline]
pub(crate) fn check(offset: u64, bytes: u64, length: u64) -> Result<(), Error> {
    if !offset.is_multiple_of(8) || !bytes.is_multiple_of(8) {
        return Err(Error::Unaligned);
    }
    match offset.checked_add(bytes) {
        Some(end) if end <= length => Ok(()),
        _ => Err(Error::OutOfBounds { offset, bytes, length }),
    }
}

fn heap_layout(bytes: u64) -> Result<std::alloc::Layout, Error> {
    let limit = limits::BUFFER_BYTES as u64;
    let length = usize::try_from(bytes).map_err(|_| Error::TooLarge { bytes, limit })?;
    std::alloc::Layout::from_size_align(length, PAGE as usize).map_err(|_| Error::TooLarge { bytes, limit })
}

impl Drop for Mapping {
    fn drop(&mut self) {
        match self.backing {
            Backing::File(_) => {
                // SAFETY: mapped by `map` with this length; nothing borrows from it any more.
                let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes as usize) };
            }
            Backing::Kept(..) => {}
            Backing::Heap => {
                if let Ok(layout) = heap_layout(self.bytes) {
                    // SAFETY: allocated by `buffer` with this layout.
                    unsafe { std::alloc::dealloc(self.base.as_ptr().cast(), layout) };
                }
            }
        }
    }
}

/// A buffer that a connection reads into and writes from. A clone is the same buffer.
#[derive(Clone, Debug)]
pub struct Buffer {
    pub(crate) id: u64,
    pub(crate) memory: Arc<Mapping>,
}

impl Buffer {
    /// For back ends: a buffer with this number.
    pub fn new(id: u64, memory: Arc<Mapping>) -> Buffer {
        Buffer { id, memory }
    }
    /// Its number on its connection.
    pub fn id(&self) -> u64 {
        self.id
    }
    /// Its memory.
    pub fn memory(&self) -> &Arc<Mapping> {
        &self.memory
    }
    /// A part of it, in bytes.
    pub fn span(&self, offset: u64, bytes: u64) -> Span {
        Span { buffer: self.id, offset, bytes }
    }
}

/// A part of a buffer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The buffer's number.
    pub buffer: u64,
    /// Where it begins, in bytes; a multiple of 8.
    pub offset: u64,
    /// How long it is, in bytes; a multiple of 8.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_at_any_offset() {
        let memory = Mapping::buffer(64).unwrap();
        let text: Vec<u8> = (1..=40).collect();
        memory.store_bytes(8, &text).unwrap();
        for offset in 0..40 {
            for length in 0..40 - offset {
                let mut out = vec![0; length];
                memory.load_bytes(8 + offset as u64, &mut out).unwrap();
                assert_eq!(out, text[offset..offset + length]);
            }
        }
        let end = memory.len();
        memory.load_bytes(end, &mut []).unwrap();
        assert!(memory.load_bytes(end, &mut [0]).is_err());
        assert!(memory.load_bytes(u64::MAX, &mut [0]).is_err());
        assert!(matches!(memory.store_bytes(4, b"x"), Err(Error::Unaligned)));
        assert!(memory.range(end - 8, 16).is_err() && memory.range(u64::MAX - 7, 16).is_err());
    }
}
