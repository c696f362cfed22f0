//! The owner's side: the one thread that writes a region.
//!
//! Order of the stores in a replacement, which is what readers rely on:
//!
//! 1. the new cell: `w0` odd, release fence, body with link 0, `w0` even (release);
//! 2. the old cell's link = the new cell and its generation (release): **the linearization point**;
//! 3. the index entry (release); 4. the old cell goes to limbo.
//!
//! A first version: the cell, the entry (the linearization point), then the bucket's change counter: whoever saw the key absent with
//! this counter learns that it is no longer. A removal: "look in the index" in the link (the linearization point), the entry = 0.

use crate::Error;
use crate::cell::{CellView, NewCell, shape_at};
use crate::grow::DropJob;
use crate::heap::{Heap, Use};
use crate::index::{self, Descriptor, Slot};
use crate::layout::{
    Array, BUCKET, GRANULE, Kind, LAYOUT_VERSION, LOOK_IN_INDEX, MAGIC, MAX_SLAB, PAGE, Ref, SEQ_MASK, Table,
    cell, class_bytes, class_of, code_for, control_bump, control_with_link, current_link, entry,
    entry_offset, flag, superblock, table,
};
use crate::reader::Reader;
use crate::region::Region;
use crate::sync::{Ordering, Safeguard, fence, kept};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// How a region is made.
#[derive(Clone, Debug)]
pub struct Config {
    /// The shard's number, for the superblock.
    pub shard: u16,
    /// Address space of the region; sparse, so it costs nothing until used.
    pub reserve_bytes: u64,
    /// Limit of live cells, limbo and index together; 0 = the reserve.
    pub max_bytes: u64,
    /// How long a replaced cell waits before it is recycled.
    pub grace_ms: u64,
    /// Keys that the root index holds before it grows for the first time.
    pub initial_keys: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config { shard: 0, reserve_bytes: 1 << 36, max_bytes: 0, grace_ms: 100, initial_keys: 64 }
    }
}

/// What the memory of a region is used for, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Live cells, each with the size of its slab class.
    pub used: u64,
    /// Replaced cells and arrays that wait to be recycled.
    pub limbo: u64,
    /// Bucket arrays and overflow buckets.
    pub index: u64,
    /// Pages taken from the system for all of it, with what is free within slabs.
    pub committed: u64,
    /// The limit of `used + limbo + index`.
    pub limit: u64,
    /// For each slab class that is in use: its size, and the places taken (limbo among them).
    pub classes: Vec<(u64, u64)>,
}

impl Memory {
    /// What counts against the limit.
    pub fn total(&self) -> u64 {
        self.used + self.limbo + self.index
    }
}

/// A shard's region, from the side of its owner.
pub struct Arena {
    pub(crate) region: Arc<Region>,
    pub(crate) heap: Heap,
    pub(crate) growing: VecDeque<Table>,
    pub(crate) drops: VecDeque<DropJob>,
    /// Overflow buckets set aside so that emptying a bucket never fails half way.
    pub(crate) spare: Vec<u64>,
    pub(crate) scratch: Vec<(u64, u64)>,
    pub(crate) initial_code: u64,
    /// Parts of the region that have been offered as large pages.
    pub(crate) large_pages: u64,
}

impl Arena {
    /// A region in a memfd.
    pub fn create(config: Config) -> Result<Arena, Error> {
        #[cfg(not(model))]
        let region = Region::memfd(Arena::reserve(&config))?;
        #[cfg(model)]
        let region = Region::heap(Arena::reserve(&config))?;
        Arena::begin(region, &config)
    }

    /// A region in ordinary memory of this process, for tests and checkers. Its reserve is allocated at once.
    pub fn create_heap(config: Config) -> Result<Arena, Error> {
        Arena::begin(Region::heap(Arena::reserve(&config))?, &config)
    }

    fn reserve(config: &Config) -> u64 {
        config.reserve_bytes.clamp(8 * PAGE, 1 << 44) / PAGE * PAGE
    }

    fn begin(region: Region, config: &Config) -> Result<Arena, Error> {
        let limit = if config.max_bytes == 0 { region.len() } else { config.max_bytes };
        let heap = Heap::new(&region, limit, config.grace_ms);
        let initial_code = code_for(config.initial_keys as u64);
        let mut arena = Arena {
            region: Arc::new(region),
            heap,
            growing: VecDeque::new(),
            drops: VecDeque::new(),
            spare: Vec::new(),
            scratch: Vec::new(),
            initial_code,
            large_pages: 0,
        };
        let buckets = Array::new(0, initial_code, 0).bytes();
        let array = arena.heap.take_array(&arena.region, buckets).ok_or(Error::OutOfMemory)?;
        let region = &arena.region;
        let head = region.words(0, superblock::BYTES as usize / 8);
        let set = |at: u64, value: u64| head[at as usize / 8].store(value, Ordering::Relaxed);
        set(superblock::VERSION_AT, u64::from(LAYOUT_VERSION) | u64::from(config.shard) << 32);
        set(superblock::BYTES_AT, region.len());
        set(superblock::SEED_AT, crate::hash_seed());
        let root = superblock::ROOT_AT;
        set(root + 8 * table::CURRENT as u64, Array::new(array, initial_code, 0).0);
        set(root, Table::ROOT_SEQ | (Kind::Table as u64) << 24);
        region.store(superblock::MAGIC_AT, MAGIC, Ordering::Release);
        Ok(arena)
    }

    /// A reader of this region. It keeps the memory mapped, and may outlive the owner.
    pub fn reader(&self) -> Reader {
        Reader::new(self.region.clone())
    }

    /// The file behind the region, for another process to map; nobody but this mapping can write to it.
    /// `None` for a region on the heap.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.region.fd()
    }

    #[inline]
    pub(crate) fn descriptor(&self, t: Table) -> Option<Descriptor> {
        let w0 = self.region.load(t.offset(), Ordering::Relaxed);
        (w0 == t.seq() | (Kind::Table as u64) << 24).then(|| Descriptor::load(&self.region, t.offset()))
    }

    #[inline]
    fn slot(&self, t: Table, hash: u64, key: &[u8]) -> Option<(Descriptor, Slot)> {
        let d = self.descriptor(t)?;
        let slot = index::find(&self.region, d.home(&self.region, hash), hash, key)?;
        Some((d, slot))
    }

    /// The cell of a key.
    #[inline]
    pub fn find(&self, t: Table, hash: u64, key: &[u8]) -> Option<CellView<'_>> {
        let (_, slot) = self.slot(t, hash, key)?;
        Some(CellView::new(&self.region, entry_offset(slot.entry)))
    }

    /// Fetches a key's home bucket ahead of a [`Arena::find`] or a [`Arena::publish`].
    #[inline]
    pub fn prefetch(&self, t: Table, hash: u64) {
        if let Some(d) = self.descriptor(t) {
            let home = d.home(&self.region, hash);
            self.region.prefetch(home);
            self.region.prefetch(home + 64);
        }
    }

    /// Fetches the cell that a key most likely has, its home bucket having been fetched.
    #[inline]
    pub fn prefetch_cell(&self, t: Table, hash: u64) {
        if let Some(d) = self.descriptor(t) {
            let words = index::bucket(&self.region, d.home(&self.region, hash));
            let mask = index::preferred_candidates(words, hash);
            if mask != 0 {
                let entry = words[mask.trailing_zeros() as usize].load(Ordering::Relaxed);
                let cell = entry_offset(entry);
                self.region.prefetch(cell);
                self.region.prefetch(cell + 64);
            }
        }
    }

    /// Writes a cell that nothing leads to yet.
    #[inline]
    fn write(&mut self, c: &NewCell<'_>) -> Result<(Ref, u64), Error> {
        let shape = c.shape().ok_or(Error::TooLarge)?;
        let bytes = 8 * shape.words() as u64;
        let (offset, odd) = self.heap.take(&self.region, bytes, Use::Cell).ok_or(Error::OutOfMemory)?;
        Ok((c.write(&self.region, offset, odd, shape), bytes))
    }

    /// Makes `c` the current version of its key, in place of what was there. `hash` is the key's.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]: nothing has changed. [`Error::UnknownTable`]: `t` has been dropped.
    pub fn publish(&mut self, t: Table, hash: u64, c: &NewCell<'_>) -> Result<Ref, Error> {
        self.publish_over(t, hash, c, |_| ()).map(|(new, ())| new)
    }

    /// The same, with a look at what is there before it is replaced.
    ///
    /// # Errors
    /// As [`Arena::publish`].
    #[inline]
    pub fn publish_over<R>(
        &mut self,
        t: Table,
        hash: u64,
        c: &NewCell<'_>,
        look: impl FnOnce(Option<CellView<'_>>) -> R,
    ) -> Result<(Ref, R), Error> {
        self.heap.recycle(&self.region, 2, false);
        let d = self.descriptor(t).ok_or(Error::UnknownTable)?;
        let home = d.home(&self.region, hash);
        if let Some(slot) = index::find(&self.region, home, hash, c.key) {
            let (new, bytes) = self.write(c)?;
            let old = entry_offset(slot.entry);
            let seen = look(Some(CellView::new(&self.region, old)));
            let old_bytes = 8 * shape_at(&self.region, old).words() as u64;
            if kept(Safeguard::LinkFirst) {
                self.region.store(old + 8 * cell::LINK as u64, new.to_raw(), Ordering::Release);
            }
            self.region.store(slot.at, entry(hash, new.offset(), bytes), Ordering::Release);
            self.heap.retire(old, old_bytes, Use::Cell);
            return Ok((new, seen));
        }
        // A new key: a vacancy is found, or made, before anything can be seen.
        let place = index::vacancy(&self.region, home, hash);
        let overflow = match place {
            Ok(_) => 0,
            Err(_) => self.heap.take_array(&self.region, BUCKET).ok_or(Error::OutOfMemory)?,
        };
        let written = self.write(c);
        let (new, bytes) = match written {
            Ok(done) => done,
            Err(e) => {
                if overflow != 0 {
                    self.heap.retire(overflow, BUCKET, Use::Index);
                }
                return Err(e);
            }
        };
        self.enter(home, place, overflow, entry(hash, new.offset(), bytes));
        let count = d.word(&self.region, table::COUNT) + 1;
        d.set(&self.region, table::COUNT, count, Ordering::Relaxed);
        self.after_insert(t, d, count);
        Ok((new, look(None)))
    }

    /// Stores an entry in a vacancy, or in a new overflow bucket, and counts the change at the home bucket.
    pub(crate) fn enter(&self, home: u64, place: Result<u64, u64>, overflow: u64, entry: u64) {
        let region = &self.region;
        match place {
            Ok(at) => region.store(at, entry, Ordering::Release),
            Err(last) => {
                region.store(overflow + 8, entry, Ordering::Release);
                let control = region.load(last, Ordering::Relaxed);
                region.store(last, control_with_link(control, overflow), Ordering::Release);
            }
        }
        self.count_change(home);
    }

    #[inline]
    pub(crate) fn count_change(&self, home: u64) {
        if !kept(Safeguard::CountInsertion) {
            return;
        }
        let control = self.region.load(home, Ordering::Relaxed);
        self.region.store(home, control_bump(control), Ordering::Release);
    }

    /// Removes a key; `false` if it was not there.
    pub fn remove(&mut self, t: Table, hash: u64, key: &[u8]) -> bool {
        self.heap.recycle(&self.region, 2, false);
        let Some((d, slot)) = self.slot(t, hash, key) else { return false };
        let old = entry_offset(slot.entry);
        let bytes = 8 * shape_at(&self.region, old).words() as u64;
        if kept(Safeguard::LinkRemoved) {
            self.region.store(old + 8 * cell::LINK as u64, LOOK_IN_INDEX, Ordering::Release);
        }
        self.region.store(slot.at, 0, Ordering::Release);
        self.heap.retire(old, bytes, Use::Cell);
        let count = d.word(&self.region, table::COUNT) - 1;
        d.set(&self.region, table::COUNT, count, Ordering::Relaxed);
        self.after_remove(t, d, count);
        true
    }

    /// A table for about `capacity` entries; it grows by itself.
    pub fn new_table(&mut self, capacity: usize) -> Result<Table, Error> {
        let code = code_for(capacity as u64);
        let bytes = Array::new(0, code, 0).bytes();
        let (offset, odd) =
            self.heap.take(&self.region, 8 * table::WORDS as u64, Use::Cell).ok_or(Error::OutOfMemory)?;
        let array = match self.heap.take_array(&self.region, bytes) {
            Some(array) => array,
            None => {
                self.region.store(offset, odd | (Kind::Table as u64) << 24, Ordering::Relaxed);
                self.heap.retire(offset, 8 * table::WORDS as u64, Use::Cell);
                return Err(Error::OutOfMemory);
            }
        };
        let seq = odd.wrapping_add(1) & SEQ_MASK;
        let words = self.region.words(offset, table::WORDS);
        words[table::W0].store(odd | (Kind::Table as u64) << 24, Ordering::Relaxed);
        fence(Ordering::Release);
        let root = superblock::ROOT_AT;
        let next = self.region.load(root + 8 * table::NEXT as u64, Ordering::Relaxed);
        let fields =
            [(table::CURRENT, Array::new(array, code, 0).0), (table::PREVIOUS, root), (table::NEXT, next)];
        for word in &words[1..] {
            word.store(0, Ordering::Relaxed);
        }
        for (at, value) in fields {
            words[at].store(value, Ordering::Relaxed);
        }
        words[table::W0].store(seq | (Kind::Table as u64) << 24, Ordering::Release);
        self.region.store(root + 8 * table::NEXT as u64, offset, Ordering::Relaxed);
        if next != 0 {
            self.region.store(next + 8 * table::PREVIOUS as u64, offset, Ordering::Relaxed);
        }
        Ok(Table(Ref::new(offset, seq).to_raw()))
    }

    /// Entries in a table; 0 if it has been dropped.
    #[inline]
    pub fn len(&self, t: Table) -> usize {
        self.descriptor(t).map_or(0, |d| d.word(&self.region, table::COUNT) as usize)
    }

    /// Whether a table has no entries.
    pub fn is_empty(&self, t: Table) -> bool {
        self.len(t) == 0
    }

    /// The cell that a reference names, if it has not been recycled since.
    pub fn view(&self, r: Ref) -> Option<CellView<'_>> {
        self.live(r).then(|| CellView::new(&self.region, r.offset()))
    }

    fn live(&self, r: Ref) -> bool {
        if r.offset() < PAGE || r.offset() + GRANULE > self.region.len() {
            return false;
        }
        let w0 = self.region.load(r.offset(), Ordering::Relaxed);
        w0 & SEQ_MASK == r.seq() && w0 & 1 == 0
    }

    fn word_at(&self, r: Ref, i: usize) -> Option<u64> {
        let has =
            i < 4 && self.live(r) && self.region.load(r.offset(), Ordering::Relaxed) >> 32 & flag::WORDS != 0;
        has.then(|| r.offset() + 8 * (cell::FIXED + i) as u64)
    }

    /// The mutable words of a cell; zeros if it has none or is gone.
    pub fn words(&self, r: Ref) -> [u64; 4] {
        std::array::from_fn(|i| self.word_at(r, i).map_or(0, |at| self.region.load(at, Ordering::Relaxed)))
    }

    /// Stores one of the mutable words (release). Nothing happens if the cell has none or is gone.
    pub fn set_word(&mut self, r: Ref, i: usize, value: u64) {
        if let Some(at) = self.word_at(r, i) {
            self.region.store(at, value, Ordering::Release);
        }
    }

    /// Word 0 becomes odd: whoever reads the collection now will begin again. Nests not.
    pub fn begin_change(&mut self, r: Ref) {
        if let Some(at) = self.word_at(r, 0) {
            let word = self.region.load(at, Ordering::Relaxed);
            debug_assert_eq!(word & 1, 0, "a change is already under way");
            if kept(Safeguard::OddChange) {
                self.region.store(at, word | 1, Ordering::Relaxed);
            }
            fence(Ordering::Release);
        }
    }

    /// Word 0 becomes even again, and another than before.
    pub fn end_change(&mut self, r: Ref) {
        if let Some(at) = self.word_at(r, 0) {
            let word = self.region.load(at, Ordering::Relaxed);
            self.region.store(at, (word | 1).wrapping_add(1), Ordering::Release);
        }
    }

    /// A transaction record: what cells written by a multi-key transaction refer to. It says that the transaction is still being
    /// written, until [`Arena::end_change`].
    pub fn new_txn_record(&mut self, tid: u64, siblings: &[u64]) -> Result<Ref, Error> {
        let mut value = Vec::with_capacity(8 * (siblings.len() + 1));
        value.extend_from_slice(&tid.to_le_bytes());
        siblings.iter().for_each(|fingerprint| value.extend_from_slice(&fingerprint.to_le_bytes()));
        let (record, _) = self.write(&NewCell {
            kind: Kind::Txn,
            value: &[&value],
            ts: tid,
            words: Some([1, 0, 0, 0]),
            ..NewCell::default()
        })?;
        Ok(record)
    }

    /// Says in a transaction's record that it is committed at all its participants.
    pub fn mark_txn_stable(&mut self, r: Ref) {
        self.set_word(r, 1, 1);
    }

    /// Sends a transaction record to limbo. Nothing happens if it is not one, or gone.
    pub fn free_txn_record(&mut self, r: Ref) {
        if !self.live(r) {
            return;
        }
        let shape = shape_at(&self.region, r.offset());
        let link = r.offset() + 8 * cell::LINK as u64;
        if shape.kind() == Some(Kind::Txn)
            && self.region.load(link, Ordering::Relaxed) == current_link(r.seq())
        {
            self.region.store(link, LOOK_IN_INDEX, Ordering::Release);
            self.heap.retire(r.offset(), 8 * shape.words() as u64, Use::Cell);
        }
    }

    /// The epoch in the superblock.
    pub fn epoch(&self) -> u64 {
        self.region.load(superblock::EPOCH_AT, Ordering::Relaxed)
    }

    /// Begins the next epoch.
    pub fn bump_epoch(&mut self) {
        let next = self.epoch() + 1;
        self.region.store(superblock::EPOCH_AT, next, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Sets the time that the grace of replaced cells is judged by, between two ticks.
    #[inline]
    pub fn set_now(&mut self, now_ms: u64) {
        self.heap.now_ms = now_ms;
    }

    /// Bounded housekeeping: recycles what has waited long enough, and goes on with growth and with dropped tables.
    pub fn tick(&mut self, now_ms: u64) {
        self.heap.now_ms = now_ms;
        self.heap.recycle(&self.region, 4096, false);
        self.step_growth(64);
        self.step_drops(1024);
    }

    /// What counts against the limit, in bytes: live cells, limbo and index.
    #[inline]
    pub fn used_bytes(&self) -> u64 {
        self.heap.total()
    }

    /// Bytes that wait to be recycled; they are taken before anything is refused.
    #[inline]
    pub fn limbo_bytes(&self) -> u64 {
        self.heap.waiting
    }

    /// What the memory is used for.
    pub fn memory(&self) -> Memory {
        Memory {
            used: self.heap.live,
            limbo: self.heap.waiting,
            index: self.heap.index,
            committed: self.heap.slab.pages.used() * PAGE,
            limit: self.heap.limit,
            classes: self
                .heap
                .slab
                .classes
                .iter()
                .filter(|c| c.taken > 0)
                .map(|c| (c.bytes, c.taken))
                .collect(),
        }
    }

    /// Sets the limit of live cells, limbo and index together; 0 = the reserve.
    pub fn set_limit(&mut self, bytes: u64) {
        self.heap.limit = if bytes == 0 { self.region.len() } else { bytes };
    }

    /// Bytes that a cell with this key and value length takes, index apart.
    pub fn cell_bytes(key_len: usize, value_len: usize) -> u64 {
        let long = if key_len > 0xff || value_len > 0xffff { flag::LONG << 32 } else { 0 };
        let shape = crate::layout::Shape { w0: long, key_len, value_len };
        let bytes = 8 * shape.words() as u64;
        if bytes <= MAX_SLAB { class_bytes(class_of(bytes)) } else { bytes.div_ceil(PAGE) * PAGE }
    }
}
