//! Memory that blocks come into and go out of: the one place with raw pointers besides the engines' system calls.
//!
//! An [`Area`] is memory at a fixed address. Where the fabric maps memory on both sides, it is the connection's data area and a block
//! goes from the disk to the client's memory without a copy; else it is a [`Heap`] buffer of the request's own.

use kintsugidb_fabric::Mapping;
use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;

/// Memory at a fixed address.
///
/// # Safety
/// `base` points to `bytes` bytes that stay valid for reading and writing through raw pointers as long as `self` lives.
pub unsafe trait Area: Send + Sync {
    /// Where it begins.
    fn base(&self) -> NonNull<u8>;
    /// Its length in bytes.
    fn bytes(&self) -> usize;
}

/// A page of what direct I/O wants: alignment in memory, in bytes.
pub const ALIGNMENT: usize = 4096;

/// A zeroed buffer of this process, aligned for direct I/O.
pub struct Heap {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it is plain memory that it owns; shared access goes through raw pointers of the engines only.
unsafe impl Send for Heap {}
// SAFETY: as above; safe access to the bytes needs `&mut`.
unsafe impl Sync for Heap {}

// SAFETY: allocated with this length, freed in `drop`.
unsafe impl Area for Heap {
    fn base(&self) -> NonNull<u8> {
        self.base
    }
    fn bytes(&self) -> usize {
        self.layout.size()
    }
}

impl Heap {
    /// A buffer of at least so many bytes. `None`: no memory.
    pub fn new(bytes: usize) -> Option<Heap> {
        let layout =
            Layout::from_size_align(bytes.max(1).checked_next_multiple_of(ALIGNMENT)?, ALIGNMENT).ok()?;
        // SAFETY: the layout's size is not zero.
        let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        Some(Heap { base, layout })
    }

    /// Some of its bytes, once everything that was read into them is there.
    ///
    /// # Panics
    /// If the range is not inside.
    pub(crate) fn bytes_of(&self, range: std::ops::Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.layout.size());
        // SAFETY: within the allocation, and initialised; only a session calls this, on a buffer that it held alone (`Arc::get_mut`)
        // after all jobs on it had ended, and that it hands to no engine again.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(range.start), range.len()) }
    }

    /// Its bytes, which nobody else can reach meanwhile.
    pub fn slice(&mut self) -> &mut [u8] {
        // SAFETY: `&mut self` means that no engine holds it (they hold an `Arc`); initialised by `alloc_zeroed`.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.layout.size()) }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), self.layout) }
    }
}

/// A mapping of the fabric's, as an area. Only of writable ones.
pub struct Mapped(Arc<Mapping>);

impl Mapped {
    /// `None` if it is mapped for reading only.
    pub fn new(mapping: Arc<Mapping>) -> Option<Mapped> {
        let usable = mapping.writable() && NonNull::new(mapping.address() as *mut u8).is_some();
        usable.then_some(Mapped(mapping))
    }
}

// SAFETY: a mapping keeps its address and its length as long as it lives, cannot be cut (sealed), and is writable (`new`).
unsafe impl Area for Mapped {
    fn base(&self) -> NonNull<u8> {
        // `new` has looked; `dangling` is never used.
        NonNull::new(self.0.address() as *mut u8).unwrap_or(NonNull::dangling())
    }
    fn bytes(&self) -> usize {
        self.0.len() as usize
    }
}

/// A part of an area. Keeps the area alive, so that a late transfer has somewhere to go.
#[derive(Clone)]
pub struct Place {
    area: Arc<dyn Area>,
    offset: usize,
    bytes: usize,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Place({} bytes at {})", self.bytes, self.offset)
    }
}

impl Place {
    /// `None` if the area does not reach so far.
    pub fn new(area: Arc<dyn Area>, offset: u64, bytes: u64) -> Option<Place> {
        let end = offset.checked_add(bytes)?;
        if end > area.bytes() as u64 {
            return None;
        }
        Some(Place { area, offset: offset as usize, bytes: bytes as usize })
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The area that it is in.
    pub fn area(&self) -> &Arc<dyn Area> {
        &self.area
    }

    /// Where it begins.
    pub fn pointer(&self) -> *mut u8 {
        // SAFETY: `new` has checked that offset and length are within the area.
        unsafe { self.area.base().as_ptr().add(self.offset) }
    }

    /// Puts bytes into it, as a disk would. For simulations.
    #[cfg(test)]
    pub fn put(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.bytes);
        // SAFETY: within the place, whose area is alive; a simulation has one thread.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.pointer().add(at), bytes.len()) }
    }

    /// A copy of its bytes. For simulations.
    #[cfg(test)]
    pub fn to_vec(&self) -> Vec<u8> {
        // SAFETY: as above; areas are made of initialised memory.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.bytes) }.to_vec()
    }

    /// Whether direct I/O accepts its address.
    pub fn aligned(&self, to: usize) -> bool {
        (self.pointer() as usize).is_multiple_of(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_outside_of_an_area_do_not_exist() {
        let area: Arc<dyn Area> = Arc::new(Heap::new(4096).unwrap());
        assert!(Place::new(area.clone(), 0, 4096).is_some());
        assert!(Place::new(area.clone(), 4096, 0).is_some());
        for (offset, bytes) in [(1, 4096), (4097, 0), (u64::MAX, 1), (u64::MAX, u64::MAX), (0, 4097)] {
            assert!(Place::new(area.clone(), offset, bytes).is_none(), "{offset} {bytes}");
        }
    }
}
