//! The memory of a region: mapped once, at its full size, sparse, and read and written through 8-byte atomics only.
//!
//! The one place that turns offsets into pointers. Every access is checked against the region's length, so no offset, wherever
//! it comes from, reaches outside; the checks are one predictable branch for a whole run of words.

use crate::Error;
use crate::sync::{AtomicU64, Ordering};
#[cfg(not(model))]
use crate::{large_pages::LARGE_PAGE, mapping};
use std::os::fd::BorrowedFd;
#[cfg(not(model))]
#[cfg(not(model))]
use std::{
    os::fd::{AsFd, OwnedFd},
    ptr::NonNull,
};

/// A mapped region. Shared by the owner and its readers; unmapped when the last is gone.
pub(crate) struct Region {
    #[cfg(not(model))]
    base: NonNull<AtomicU64>,
    #[cfg(model)]
    words: Box<[AtomicU64]>,
    bytes: u64,
    /// Links that readers have followed.
    pub(crate) followed: std::sync::atomic::AtomicU64,
    #[cfg(not(model))]
    backing: Backing,
    /// Pages are never given back.
    #[cfg(not(model))]
    pinned: std::sync::atomic::AtomicBool,
}

#[cfg(not(model))]
enum Backing {
    Memfd(OwnedFd),
    Heap,
}

// SAFETY: the memory is only reached as `AtomicU64`s, or as bytes that nobody writes meanwhile (`bytes`).
#[cfg(not(model))]
unsafe impl Send for Region {}
// SAFETY: as above.
#[cfg(not(model))]
unsafe impl Sync for Region {}

#[cfg(model)]
impl Region {
    pub fn heap(bytes: u64) -> Result<Region, Error> {
        Ok(Region {
            words: (0..bytes / 8).map(|_| AtomicU64::new(0)).collect(),
            bytes,
            followed: Default::default(),
        })
    }
    pub fn words(&self, offset: u64, count: usize) -> &[AtomicU64] {
        &self.words[(offset / 8) as usize..][..count]
    }
    pub fn try_words(&self, offset: u64, count: usize) -> Option<&[AtomicU64]> {
        self.words.get((offset / 8) as usize..)?.get(..count)
    }
    pub fn bytes(&self, _offset: u64, _count: usize) -> &[u8] {
        unimplemented!("a model has no bytes, only words")
    }
    pub fn clear(&self, offset: u64, count: u64) {
        if !cfg!(loom) {
            self.words(offset, count as usize / 8).iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
    }
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    pub fn prefetch(&self, _offset: u64) {}
    pub fn collapse(&self, _offset: u64, _count: u64) -> bool {
        false
    }
}

#[cfg(not(model))]
impl Region {
    /// A region in a memfd, sparse: it costs address space until it is written.
    pub fn memfd(bytes: u64) -> Result<Region, Error> {
        use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
        use rustix::mm::ProtFlags;
        let fd = memfd_create("kintsugi-region", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, bytes)?;
        let base = mapping::map(fd.as_fd(), bytes, ProtFlags::READ | ProtFlags::WRITE)?;
        // Nobody can shrink the file under the mapping (a read would be a SIGBUS), nor map it for writing from now on.
        // Kernels before 5.1 lack the last one; the region works without it.
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)?;
        let _ = fcntl_add_seals(&fd, SealFlags::FUTURE_WRITE);
        // Large pages at once, where the system grants them, but not at the start: a small region takes no more than it uses.
        if bytes > LARGE_PAGE {
            // SAFETY: the range is within the fresh mapping; the advice changes no content.
            let _ = unsafe {
                rustix::mm::madvise(
                    base.as_ptr().cast::<u8>().add(LARGE_PAGE as usize).cast(),
                    (bytes - LARGE_PAGE) as usize,
                    rustix::mm::Advice::LinuxHugepage,
                )
            };
        }
        Ok(Region {
            base,
            bytes,
            followed: Default::default(),
            backing: Backing::Memfd(fd),
            pinned: false.into(),
        })
    }

    /// Maps the file of another process's region, for reading only.
    ///
    /// # Errors
    /// [`Error::Foreign`] if it is no file in memory of at least this length that is sealed against shrinking: a read behind its end
    /// would be a SIGBUS.
    pub fn map(fd: BorrowedFd<'_>, bytes: u64) -> Result<Region, Error> {
        use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
        let sealed = fcntl_get_seals(fd).is_ok_and(|s| s.contains(SealFlags::SHRINK));
        let there = u64::try_from(fstat(fd)?.st_size).unwrap_or(0);
        if !sealed || bytes == 0 || bytes > there || !bytes.is_multiple_of(8) {
            return Err(Error::Foreign);
        }
        let fd = fd.try_clone_to_owned().map_err(|_| Error::Foreign)?;
        let base = mapping::map(fd.as_fd(), bytes, rustix::mm::ProtFlags::READ)?;
        Ok(Region {
            base,
            bytes,
            followed: Default::default(),
            backing: Backing::Memfd(fd),
            pinned: false.into(),
        })
    }

    /// A region on the heap, for Miri and for tests.
    pub fn heap(bytes: u64) -> Result<Region, Error> {
        let layout = Region::heap_layout(bytes)?;
        // SAFETY: the layout has a size above zero.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        let base = NonNull::new(base.cast()).ok_or(Error::OutOfMemory)?;
        Ok(Region { base, bytes, followed: Default::default(), backing: Backing::Heap, pinned: false.into() })
    }

    fn heap_layout(bytes: u64) -> Result<std::alloc::Layout, Error> {
        let length = usize::try_from(bytes).map_err(|_| Error::TooLarge)?;
        std::alloc::Layout::from_size_align(length.max(4096), 4096).map_err(|_| Error::TooLarge)
    }

    /// `count` words at a byte offset, or `None` if any is outside or the offset is not a multiple of 8.
    #[inline(always)]
    pub fn try_words(&self, offset: u64, count: usize) -> Option<&[AtomicU64]> {
        let end = offset.checked_add(8 * count as u64)?;
        if end > self.bytes || !offset.is_multiple_of(8) {
            return None;
        }
        // SAFETY: in bounds and aligned (the base is page-aligned), the memory lives as long as `self`, was zeroed by the
        // kernel or the allocator, and any bits are a valid `AtomicU64`. A region of another process is mapped for reading, and
        // only an `Arena`, which has made its region itself, stores. Nobody accesses it but through atomics or, for
        // reading while nobody writes, through `bytes`.
        Some(unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(offset as usize / 8), count) })
    }

    /// The same for the owner, whose offsets are its own.
    ///
    /// # Panics
    /// If any of the words is outside.
    #[inline(always)]
    pub fn words(&self, offset: u64, count: usize) -> &[AtomicU64] {
        match self.try_words(offset, count) {
            Some(words) => words,
            None => outside(offset, count),
        }
    }

    /// Bytes of the region in place, for the owner: only the owner writes, and not while it holds this, because its writes
    /// take `&mut Arena` and the slice borrows the arena.
    #[inline]
    pub fn bytes(&self, offset: u64, count: usize) -> &[u8] {
        let words = self.words(offset & !7, ((offset & 7) as usize + count).div_ceil(8));
        // SAFETY: within `words`; no writer while the borrow lives (above), and readers' atomic loads do not conflict.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>().add((offset & 7) as usize), count) }
    }

    /// From now on no page is given back to the system: somebody (an adapter) has them by their place in memory.
    pub fn pin(&self) {
        self.pinned.store(true, Ordering::Release);
    }

    /// Gives whole pages back to the system, unless they are pinned or sealed against it; they read as zero from now on.
    pub fn clear(&self, offset: u64, count: u64) {
        if matches!(self.backing, Backing::Memfd(_)) && !self.pinned.load(Ordering::Acquire) {
            let words = self.words(offset, (count / 8) as usize);
            // SAFETY: the range is within the mapping. The pages become zero as if they were written so; that is what
            // readers of recycled memory must bear anyway.
            let done = unsafe {
                rustix::mm::madvise(
                    words.as_ptr().cast_mut().cast(),
                    count as usize,
                    rustix::mm::Advice::LinuxRemove,
                )
            };
            if done.is_ok() {
                return;
            }
        }
        for word in self.words(offset, (count / 8) as usize) {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Has the system put the pages of a range into large ones, for everybody who maps the file; whether it did.
    pub fn collapse(&self, offset: u64, count: u64) -> bool {
        let range = self.try_words(offset, (count / 8) as usize);
        matches!(self.backing, Backing::Memfd(_)) && range.is_some_and(mapping::collapse)
    }

    /// The file behind the region, if there is one.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.backing {
            Backing::Memfd(fd) => Some(fd.as_fd()),
            Backing::Heap => None,
        }
    }

    /// Asks the processor for the line at an offset. Any offset will do.
    #[inline(always)]
    pub fn prefetch(&self, offset: u64) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if offset < self.bytes {
            // SAFETY: a prefetch never faults, and the address is within the mapping.
            unsafe {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_T0>(self.base.as_ptr().cast::<i8>().add(offset as usize));
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = offset;
    }
}

#[cfg(not(model))]
impl AsRef<[AtomicU64]> for Region {
    fn as_ref(&self) -> &[AtomicU64] {
        self.words(0, (self.bytes / 8) as usize)
    }
}

#[cold]
#[inline(never)]
#[cfg(not(model))]
fn outside(offset: u64, count: usize) -> ! {
    panic!("{count} words at {offset} are outside the region");
}

#[cfg(not(model))]
impl Drop for Region {
    fn drop(&mut self) {
        match self.backing {
            Backing::Memfd(_) => {
                // SAFETY: mapped by `memfd` with this length; nothing borrows from it any more.
                let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes as usize) };
            }
            Backing::Heap => {
                if let Ok(layout) = Region::heap_layout(self.bytes) {
                    // SAFETY: allocated by `heap` with this layout.
                    unsafe { std::alloc::dealloc(self.base.as_ptr().cast(), layout) };
                }
            }
        }
    }
}

impl Region {
    /// Bytes in all.
    #[inline]
    pub fn len(&self) -> u64 {
        self.bytes
    }
    #[inline(always)]
    pub fn load(&self, offset: u64, order: Ordering) -> u64 {
        self.words(offset, 1)[0].load(order)
    }
    #[inline(always)]
    pub fn store(&self, offset: u64, value: u64, order: Ordering) {
        self.words(offset, 1)[0].store(value, order);
    }
}

/// Whether words hold exactly these bytes; the last word is padded with zeros.
#[inline(always)]
pub(crate) fn words_equal(words: &[AtomicU64], bytes: &[u8]) -> bool {
    let mut chunks = bytes.chunks_exact(8);
    let mut same = true;
    for (chunk, word) in chunks.by_ref().zip(words) {
        same &= word.load(Ordering::Relaxed) == le_word(chunk);
    }
    let rest = chunks.remainder();
    if rest.is_empty() {
        return same;
    }
    match words.get(bytes.len() / 8) {
        Some(word) => same & (word.load(Ordering::Relaxed) == le_word(rest)),
        None => false,
    }
}

/// Up to eight bytes as a little-endian word.
#[inline(always)]
pub(crate) fn le_word(bytes: &[u8]) -> u64 {
    match bytes.len() {
        8 => u64::from_le_bytes(bytes.try_into().unwrap_or([0; 8])),
        n => {
            let mut word = [0; 8];
            word[..n].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        }
    }
}

/// Appends the first `count` bytes held by the words.
#[inline(always)]
pub(crate) fn append(words: &[AtomicU64], count: usize, out: &mut Vec<u8>) {
    let copied = copy_behind(words, out);
    let length = out.len() + count.min(copied);
    // SAFETY: `copy_behind` has just written `copied` bytes behind the length.
    unsafe { out.set_len(length) };
}

/// Copies the words behind the end of a buffer, whose length stays, and answers how many bytes that were.
#[inline(always)]
pub(crate) fn copy_behind(words: &[AtomicU64], out: &mut Vec<u8>) -> usize {
    let bytes = words.len() * 8;
    if out.capacity() - out.len() < bytes {
        out.reserve(bytes.max(64));
    }
    let target = out.spare_capacity_mut().as_mut_ptr().cast::<u8>();
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(model))))]
    let at = 0;
    #[cfg(all(target_arch = "x86_64", not(miri), not(model)))]
    let at = if bytes < 64 {
        0
    } else {
        // SAFETY: reads whole 64-byte pieces of `words` and writes as many bytes into the spare capacity. The loads are
        // assembly because Rust has no relaxed vector load; to the language they are relaxed loads of the words.
        unsafe {
            std::arch::asm!(
                "2:",
                "movups {a}, [{from}]",
                "movups {b}, [{from} + 16]",
                "movups {c}, [{from} + 32]",
                "movups {d}, [{from} + 48]",
                "movups [{to}], {a}",
                "movups [{to} + 16], {b}",
                "movups [{to} + 32], {c}",
                "movups [{to} + 48], {d}",
                "add {from}, 64",
                "add {to}, 64",
                "sub {left}, 64",
                "jnz 2b",
                from = inout(reg) words.as_ptr() => _,
                to = inout(reg) target => _,
                left = inout(reg) bytes & !63 => _,
                a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
                options(nostack),
            );
        }
        (bytes & !63) / 8
    };
    for (i, word) in words.iter().enumerate().skip(at) {
        // SAFETY: `bytes` are reserved behind the length, and `8 * i + 8 <= bytes`.
        unsafe { target.add(i * 8).cast::<u64>().write_unaligned(word.load(Ordering::Relaxed)) };
    }
    bytes
}
