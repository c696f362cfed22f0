//! The reader's side: any thread, later any process. It trusts nothing that it reads, waits for nobody, and gives up after a
//! bounded number of tries.
//!
//! # One attempt
//! 1. Find the home bucket from the descriptor; load the entries of the preferred line; if no cell there has the key, all entries.
//! 2. Load the entry (acquire), then the cell's `w0` (acquire). Odd: begin again.
//! 3. Load key, value, `ts`, link and extensions, relaxed, within the region whatever the lengths say.
//! 4. Acquire fence. **Confirm**: the entry is still the same, `w0` is still the same, the bucket's array is still the table's.
//!    So this generation of this cell was what the index led to, some time between; if not, begin again. A different key is
//!    believed, and the search goes on, only after the same confirmation.
//! 5. Link 0: done. "Look in the index": the key is being removed, and is absent. Else the link names the successor and its
//!    generation: read it likewise, but confirmed by its own sequence and by the first cell's, which goes to limbo before it.
//! 6. A miss is believed only if the bucket's change counter, loaded before all entries, is still the same, and the table has not
//!    been resized meanwhile.
//!
//! Every other outcome is a new attempt; after [`TRIES`] of them the answer is [`Busy`].

use crate::Busy;
use crate::index::{LINE_WORDS, candidates, line_candidates, preferred_candidates, preferred_line};
use crate::layout::{
    Array, BUCKET_WORDS, Kind, LAYOUT_VERSION, LOOK_IN_INDEX, MAGIC, PAGE, PLAIN_MASK, Ref, SEQ_MASK, Shape,
    Table, cell, control_link, entry_offset, extension_at, flag, plain, superblock, table,
};
use crate::region::{Region, append, copy_behind, words_equal};
use crate::sync::{AtomicU64, Ordering, Safeguard, fence, kept};
use std::ops::Range;
use std::sync::Arc;

/// Attempts before a read answers [`Busy`].
pub const TRIES: usize = if cfg!(loom) { 3 } else { 64 };
/// Links followed in one attempt.
const HOPS: usize = if cfg!(loom) { 2 } else { 16 };
/// Overflow buckets followed in one attempt.
const CHAIN: usize = if cfg!(loom) { 2 } else { 256 };
/// Values larger than this are confirmed before they are copied, too, so that a length read from garbage costs nothing.
const LARGE: usize = 16 << 10;

/// A region, from the side of those who only read it.
#[derive(Clone)]
pub struct Reader {
    pub(crate) region: Arc<Region>,
}

/// What a read found. Kept small: it is written and moved for each read.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Commit timestamp.
    pub ts: u64,
    /// The cell and its generation.
    pub cell: Ref,
    /// Expiry in milliseconds of the Unix epoch; 0 = none.
    pub expire_at_ms: u64,
    /// The record of the multi-key transaction that wrote this version.
    pub txn: Option<Ref>,
    /// Where the value is in the output. After a peek nothing is there, but it is as long as the value.
    pub value: Range<usize>,
    /// Only big collections have them.
    words: Option<Box<[u64; 4]>>,
    table: Table,
    flushes: u32,
    /// Second half of the version order.
    pub seq: u32,
    /// What the cell holds.
    pub kind: Kind,
}

const _: () = assert!(size_of::<Answer>() <= 80, "larger ones are moved by calls");

impl Seen {
    /// The mutable words; zeros if it has none.
    pub fn words(&self) -> [u64; 4] {
        self.words.as_ref().map_or([0; 4], |words| **words)
    }

    /// Proof to be asked later whether this is still so.
    #[inline]
    pub fn witness(&self) -> Witness {
        let (table, flushes) = (self.table, self.flushes);
        Witness { table, place: self.cell.to_raw(), bucket: 0, changes: 0, flushes, which: 0 }
    }
}

/// An answer: what is there, or the proof that nothing is.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The key is there.
    Present(Seen),
    /// The key is absent.
    Absent(Witness),
}

impl Answer {
    /// What is there.
    #[inline]
    pub fn seen(&self) -> Option<&Seen> {
        match self {
            Answer::Present(seen) => Some(seen),
            Answer::Absent(_) => None,
        }
    }

    /// What is there.
    #[inline]
    pub fn into_seen(self) -> Option<Seen> {
        match self {
            Answer::Present(seen) => Some(seen),
            Answer::Absent(_) => None,
        }
    }

    /// For [`Reader::still_current`].
    #[inline]
    pub fn witness(&self) -> Witness {
        match self {
            Answer::Present(seen) => seen.witness(),
            Answer::Absent(witness) => *witness,
        }
    }
}

/// What [`Reader::still_current`] needs to know about a read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    table: Table,
    /// Present: the cell. Absent: the array.
    place: u64,
    /// Absent: the home bucket.
    bucket: u32,
    /// Absent: the home bucket's count of changes.
    changes: u32,
    flushes: u32,
    /// 0 = present; otherwise which of the two arrays, as a word number of the descriptor.
    which: u32,
}

/// What one attempt found, before any of it is handed out: all there is of a cell without extensions.
pub(crate) struct Quick {
    offset: u64,
    w0: u64,
    ts: u64,
    value_len: usize,
    flushes: u32,
    kind: Kind,
}

/// The line of the index that a hash prefers, as one attempt sees it, in a table that does not grow.
pub(crate) struct Line<'a> {
    slots: &'a [AtomicU64],
    /// Byte offset in the region.
    pub at: u64,
    table: &'a [AtomicU64],
    table_w0: u64,
    current: Array,
    flushes: u32,
}

/// An entry whose tag fits, and where it stands.
#[derive(Copy, Clone)]
pub(crate) struct Candidate<'a> {
    slot: &'a AtomicU64,
    pub entry: u64,
}

impl<'a> Line<'a> {
    /// The first candidate.
    #[inline(always)]
    pub fn candidate(&self, hash: u64) -> Option<Candidate<'a>> {
        let mask = line_candidates(self.slots, hash);
        if mask == 0 {
            return None;
        }
        let slot = &self.slots[mask.trailing_zeros() as usize & (LINE_WORDS - 1)];
        Some(Candidate { slot, entry: slot.load(Ordering::Acquire) })
    }
}

/// The same of any cell, or of none.
struct Hit {
    quick: Quick,
    extensions: Extensions,
    absent: Option<Witness>,
}

#[derive(Default)]
struct Extensions {
    used: bool,
    expire_at_ms: u64,
    seq: u32,
    txn: Option<Ref>,
    words: Option<Box<[u64; 4]>>,
}

/// The fence between the loads of a cell and the second looks.
#[inline(always)]
fn read_fence() {
    if kept(Safeguard::ReaderFence) {
        fence(Ordering::Acquire);
    }
}

/// Begin again.
struct Again;

/// A table as one attempt sees it.
struct Sight<'a> {
    words: &'a [AtomicU64],
    w0: u64,
    /// Which of the two arrays: a word number of the descriptor.
    which: usize,
    array: Array,
    bucket: u64,
    flushes: u32,
    table: Table,
}

impl Sight<'_> {
    /// Whether the array is still the table's.
    #[inline(always)]
    fn holds(&self) -> bool {
        self.words[self.which].load(Ordering::Relaxed) == self.array.0
            && self.words[table::W0].load(Ordering::Relaxed) == self.w0
    }
    #[inline(always)]
    fn home(&self) -> u64 {
        self.array.bucket_offset(self.bucket)
    }
    fn absent(&self, control: u64) -> Witness {
        Witness {
            table: self.table,
            place: self.array.0,
            bucket: self.bucket as u32,
            changes: (control >> 40) as u32,
            flushes: self.flushes,
            which: self.which as u32,
        }
    }
}

impl Extensions {
    #[inline(never)]
    fn load(words: &[AtomicU64], shape: &Shape) -> Extensions {
        let load = |which| shape.extension(which).map(|at| words[at].load(Ordering::Relaxed));
        Extensions {
            used: true,
            expire_at_ms: load(flag::EXPIRE).unwrap_or(0),
            seq: load(flag::SEQ).unwrap_or(0) as u32,
            txn: load(flag::TXN).map(Ref::from_raw),
            words: shape
                .extension(flag::WORDS)
                .map(|at| Box::new(std::array::from_fn(|i| words[at + i].load(Ordering::Acquire)))),
        }
    }
}

impl Quick {
    #[inline(always)]
    pub(crate) fn seen(&self, table: Table, start: usize) -> Seen {
        Seen {
            ts: self.ts,
            cell: Ref::new(self.offset, self.w0 & SEQ_MASK),
            expire_at_ms: 0,
            txn: None,
            value: start..start + self.value_len,
            words: None,
            table,
            flushes: self.flushes,
            seq: 0,
            kind: self.kind,
        }
    }
}

impl Hit {
    fn seen(self, table: Table, start: usize) -> Seen {
        let Extensions { used: _, expire_at_ms, seq, txn, words } = self.extensions;
        Seen { seq, expire_at_ms, txn, words, ..self.quick.seen(table, start) }
    }
    fn answer(self, table: Table, start: usize) -> Answer {
        match self.absent {
            Some(witness) => Answer::Absent(witness),
            None => Answer::Present(self.seen(table, start)),
        }
    }
}

/// A candidate's verdict.
enum Verdict {
    Found,
    Removed,
    OtherKey,
}

impl Reader {
    pub(crate) fn new(region: Arc<Region>) -> Reader {
        Reader { region }
    }

    /// A reader of a copy of these bytes, whatever they are: for images of regions, and for fuzzers. Cut to whole words.
    pub fn of_bytes(bytes: &[u8]) -> Result<Reader, crate::Error> {
        let region = Region::heap(bytes.len() as u64 / 8 * 8)?;
        for (i, chunk) in bytes.chunks_exact(8).enumerate() {
            region.store(8 * i as u64, crate::region::le_word(chunk), Ordering::Relaxed);
        }
        Ok(Reader::new(Arc::new(region)))
    }

    /// A reader of a region that another process has made and handed over ([`Reader::file`]). The file is mapped for reading.
    ///
    /// # Errors
    /// [`crate::Error::Foreign`] if the file could become shorter under the reader, or is not a region of this layout.
    #[cfg(not(loom))]
    pub fn map(file: std::os::fd::BorrowedFd<'_>, bytes: u64) -> Result<Reader, crate::Error> {
        let reader = Reader::new(Arc::new(Region::map(file, bytes)?));
        if reader.understands() { Ok(reader) } else { Err(crate::Error::Foreign) }
    }

    /// The file of the region and its length, to be handed to a process that reads it. `None`: it has none.
    pub fn file(&self) -> Option<(std::os::fd::BorrowedFd<'_>, u64)> {
        Some((self.region.fd()?, self.region.len()))
    }

    /// The words of the region, for who makes them known to an adapter. Call [`Reader::pin`] before anything is stored in it.
    #[cfg(not(loom))]
    pub fn memory(&self) -> std::sync::Arc<dyn AsRef<[std::sync::atomic::AtomicU64]> + Send + Sync> {
        self.region.clone()
    }

    /// From now on the owner keeps every page that it has ever used: an adapter that has been told of a page goes on reading it, even if
    /// the region has another one in its place. Costs the memory that large cells and grown indexes leave behind, until they are
    /// used again.
    #[cfg(not(loom))]
    pub fn pin(&self) {
        self.region.pin();
    }

    /// How often a link from a superseded version was followed, by this reader and its clones.
    pub fn followed(&self) -> u64 {
        self.region.followed.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// A copy of the region's bytes, word by word. An image of a region that is being written is torn, as any read is.
    pub fn image(&self) -> Vec<u8> {
        let words = self.region.words(0, (self.region.len() / 8) as usize);
        words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect()
    }

    /// Whether the superblock is one that this reader understands.
    pub fn understands(&self) -> bool {
        let head = |at| self.region.try_words(at, 1).map_or(0, |w| w[0].load(Ordering::Acquire));
        head(superblock::MAGIC_AT) == MAGIC && head(superblock::VERSION_AT) as u32 == LAYOUT_VERSION
    }

    /// The seed of the hash that the index was built with.
    pub fn seed(&self) -> u64 {
        self.region.try_words(superblock::SEED_AT, 1).map_or(0, |w| w[0].load(Ordering::Relaxed))
    }

    /// Reads a key: its value is appended to `out`. `None` = absent.
    ///
    /// A read through a sub-table is worth something only if the header that named it is still current *afterwards*:
    /// [`Reader::seqlock_validate`].
    #[inline]
    pub fn read(&self, t: Table, hash: u64, key: &[u8], out: &mut Vec<u8>) -> Result<Option<Seen>, Busy> {
        let start = out.len();
        if let Some(quick) = self.quick::<true>(t, hash, key, out) {
            return Ok(Some(quick.seen(t, start)));
        }
        let hit = self.look_up::<true>(t, hash, key, out)?;
        Ok(if hit.absent.is_some() { None } else { Some(hit.seen(t, start)) })
    }

    /// Like [`Reader::read`], with the proof for an absent key, too.
    #[inline]
    pub fn read_witnessed(&self, t: Table, hash: u64, key: &[u8], out: &mut Vec<u8>) -> Result<Answer, Busy> {
        let start = out.len();
        if let Some(quick) = self.quick::<true>(t, hash, key, out) {
            return Ok(Answer::Present(quick.seen(t, start)));
        }
        self.read_slowly(t, hash, key, out)
    }

    /// The same without an attempt at the common case.
    pub(crate) fn read_slowly(
        &self,
        t: Table,
        hash: u64,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Answer, Busy> {
        let start = out.len();
        Ok(self.look_up::<true>(t, hash, key, out)?.answer(t, start))
    }

    /// Reads everything but the value.
    #[inline]
    pub fn peek(&self, t: Table, hash: u64, key: &[u8]) -> Result<Option<Seen>, Busy> {
        if let Some(quick) = self.quick::<false>(t, hash, key, &mut Vec::new()) {
            return Ok(Some(quick.seen(t, 0)));
        }
        self.peek_witnessed(t, hash, key).map(Answer::into_seen)
    }

    /// Like [`Reader::peek`], with the proof for an absent key, too.
    #[inline]
    pub fn peek_witnessed(&self, t: Table, hash: u64, key: &[u8]) -> Result<Answer, Busy> {
        Ok(self.look_up::<false>(t, hash, key, &mut Vec::new())?.answer(t, 0))
    }

    #[inline(never)]
    fn look_up<const COPY: bool>(
        &self,
        t: Table,
        hash: u64,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Hit, Busy> {
        let start = out.len();
        let mut hit = Hit {
            quick: Quick { offset: 0, w0: 0, ts: 0, value_len: 0, flushes: 0, kind: Kind::Tombstone },
            extensions: Extensions::default(),
            absent: None,
        };
        for _ in 0..TRIES {
            if self.attempt::<COPY>(t, hash, key, out, &mut hit).is_ok() {
                return Ok(hit);
            }
            out.truncate(start);
            #[cfg(loom)]
            loom::thread::yield_now();
        }
        Err(Busy)
    }

    /// One attempt at the common case, by the same procedure: no growth, the first candidate of the preferred line, a current cell
    /// without extensions. `None` says nothing at all.
    #[inline(always)]
    fn quick<const COPY: bool>(&self, t: Table, hash: u64, key: &[u8], out: &mut Vec<u8>) -> Option<Quick> {
        let line = self.line(t, hash)?;
        let candidate = line.candidate(hash)?;
        self.quick_at::<COPY>(&line, candidate, key, out)
    }

    /// The line that a hash prefers, unless the table grows.
    #[inline(always)]
    pub(crate) fn line(&self, t: Table, hash: u64) -> Option<Line<'_>> {
        let root = self.region.try_words(superblock::ROOT_AT, table::WORDS)?;
        let table = if t == Table::ROOT { root } else { self.region.try_words(t.offset(), table::WORDS)? };
        let table_w0 = t.seq() | (Kind::Table as u64) << 24;
        if table[table::W0].load(Ordering::Acquire) != table_w0 {
            return None;
        }
        let flushes = root[table::FLUSHES].load(Ordering::Acquire) as u32;
        let current = Array(table[table::CURRENT].load(Ordering::Acquire));
        if table[table::OLD].load(Ordering::Acquire) != 0 {
            return None;
        }
        let at = current.bucket_offset(current.home(hash)) + preferred_line(hash);
        Some(Line { slots: self.region.try_words(at, LINE_WORDS)?, at, table, table_w0, current, flushes })
    }

    /// Reads the cell that a candidate names. The candidate may be as old as it likes: all of it is confirmed after the cell was read.
    #[inline(always)]
    pub(crate) fn quick_at<const COPY: bool>(
        &self,
        line: &Line<'_>,
        Candidate { slot, entry }: Candidate<'_>,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<Quick> {
        if key.len() > 0xff {
            return None;
        }
        let offset = entry_offset(entry);
        let value_at = cell::FIXED + key.len().div_ceil(8);
        let head = self.region.try_words(offset, value_at)?;
        let w0 = head[cell::W0].load(Ordering::Acquire);
        if w0 & PLAIN_MASK != plain(key.len()) || offset < PAGE || !words_equal(&head[cell::FIXED..], key) {
            return None;
        }
        let value_len = (w0 >> 48) as usize;
        if COPY {
            copy_behind(self.region.try_words(offset + 8 * value_at as u64, value_len.div_ceil(8))?, out);
        }
        let ts = head[cell::TS].load(Ordering::Relaxed);
        let link = head[cell::LINK].load(Ordering::Acquire);
        read_fence();
        let confirmed = (!kept(Safeguard::ConfirmEntry) || slot.load(Ordering::Acquire) == entry)
            && (!kept(Safeguard::SecondLook) || head[cell::W0].load(Ordering::Relaxed) == w0)
            && line.table[table::CURRENT].load(Ordering::Relaxed) == line.current.0
            && line.table[table::W0].load(Ordering::Relaxed) == line.table_w0;
        let kind = Kind::from_u8((w0 >> 24) as u8)?;
        if !confirmed || link != 0 {
            return None;
        }
        if COPY {
            let length = out.len() + value_len;
            // SAFETY: `copy_behind` has written at least `value_len` bytes behind the length.
            unsafe { out.set_len(length) };
        }
        Some(Quick { offset, w0, ts, value_len, flushes: line.flushes, kind })
    }

    /// The home of a hash. The order of the loads matters: each of them may be the newest of its kind.
    #[inline(always)]
    fn sight(&self, t: Table, hash: u64) -> Option<Sight<'_>> {
        let root = self.region.try_words(superblock::ROOT_AT, table::WORDS)?;
        let words = if t == Table::ROOT { root } else { self.region.try_words(t.offset(), table::WORDS)? };
        let w0 = words[table::W0].load(Ordering::Acquire);
        if w0 != t.seq() | (Kind::Table as u64) << 24 {
            return None;
        }
        let flushes = root[table::FLUSHES].load(Ordering::Acquire) as u32;
        let current = Array(words[table::CURRENT].load(Ordering::Acquire));
        let old = Array(words[table::OLD].load(Ordering::Acquire));
        if old.0 != 0 {
            let bucket = old.home(hash);
            if bucket >= words[table::FRONTIER].load(Ordering::Acquire) {
                return Some(Sight { words, w0, which: table::OLD, array: old, bucket, flushes, table: t });
            }
        }
        let bucket = current.home(hash);
        Some(Sight { words, w0, which: table::CURRENT, array: current, bucket, flushes, table: t })
    }

    #[inline(always)]
    fn attempt<const COPY: bool>(
        &self,
        t: Table,
        hash: u64,
        key: &[u8],
        out: &mut Vec<u8>,
        hit: &mut Hit,
    ) -> Result<(), Again> {
        let sight = self.sight(t, hash).ok_or(Again)?;
        let words = self.region.try_words(sight.home(), BUCKET_WORDS).ok_or(Again)?;
        let mut mask = preferred_candidates(words, hash);
        while mask != 0 {
            let slot = &words[mask.trailing_zeros() as usize & (BUCKET_WORDS - 1)];
            mask &= mask - 1;
            match self.judge::<COPY>(&sight, slot, key, out, hit)? {
                Verdict::Found => return Ok(()),
                Verdict::Removed => return self.removed(&sight, slot, hit),
                Verdict::OtherKey => {}
            }
        }
        self.attempt_all::<COPY>(&sight, words, hash, key, out, hit)
    }

    /// The whole bucket and its overflow, under the change counter.
    #[inline(never)]
    fn attempt_all<const COPY: bool>(
        &self,
        sight: &Sight<'_>,
        home: &[AtomicU64],
        hash: u64,
        key: &[u8],
        out: &mut Vec<u8>,
        hit: &mut Hit,
    ) -> Result<(), Again> {
        let control = home[0].load(Ordering::Acquire);
        let mut words = home;
        let mut link = control_link(control);
        for _ in 0..CHAIN {
            let mut mask = candidates(words, hash);
            while mask != 0 {
                let slot = &words[mask.trailing_zeros() as usize & (BUCKET_WORDS - 1)];
                mask &= mask - 1;
                match self.judge::<COPY>(sight, slot, key, out, hit)? {
                    Verdict::Found => return Ok(()),
                    Verdict::Removed => return self.removed(sight, slot, hit),
                    Verdict::OtherKey => {}
                }
            }
            if link == 0 {
                fence(Ordering::Acquire);
                return self.absent(sight.absent(control), hit);
            }
            words = self.region.try_words(link, BUCKET_WORDS).ok_or(Again)?;
            link = control_link(words[0].load(Ordering::Acquire));
        }
        Err(Again)
    }

    fn absent(&self, witness: Witness, hit: &mut Hit) -> Result<(), Again> {
        hit.absent = Some(witness);
        if !kept(Safeguard::ChangeCounter) || self.holds(&witness) { Ok(()) } else { Err(Again) }
    }

    /// The entry leads to a removed cell: absent, if it still does so now that the counter is known.
    #[cold]
    fn removed(&self, sight: &Sight<'_>, slot: &AtomicU64, hit: &mut Hit) -> Result<(), Again> {
        let home = self.region.try_words(sight.home(), 1).ok_or(Again)?;
        let control = home[0].load(Ordering::Acquire);
        let entry = slot.load(Ordering::Acquire);
        let head = self.region.try_words(entry_offset(entry), cell::FIXED).ok_or(Again)?;
        let w0 = head[cell::W0].load(Ordering::Acquire);
        let link = head[cell::LINK].load(Ordering::Acquire);
        fence(Ordering::Acquire);
        let same = entry != 0
            && w0 == hit.quick.w0
            && entry_offset(entry) == hit.quick.offset
            && link == LOOK_IN_INDEX
            && slot.load(Ordering::Acquire) == entry
            && head[cell::W0].load(Ordering::Relaxed) == w0;
        if same { self.absent(sight.absent(control), hit) } else { Err(Again) }
    }

    #[inline(always)]
    fn judge<const COPY: bool>(
        &self,
        sight: &Sight<'_>,
        slot: &AtomicU64,
        key: &[u8],
        out: &mut Vec<u8>,
        hit: &mut Hit,
    ) -> Result<Verdict, Again> {
        let entry = slot.load(Ordering::Acquire);
        let offset = entry_offset(entry);
        let confirm = |words: &[AtomicU64], w0: u64| {
            read_fence();
            (!kept(Safeguard::ConfirmEntry) || slot.load(Ordering::Acquire) == entry)
                && (!kept(Safeguard::SecondLook) || words[cell::W0].load(Ordering::Relaxed) == w0)
                && sight.holds()
        };
        if entry == 0 {
            // Empty, or emptied since: a key that is not here, which the change counter has to confirm.
            return Ok(Verdict::OtherKey);
        }
        let (words, shape) = self.whole_cell(offset)?;
        if !self.key_is(words, &shape, key) {
            return if confirm(words, shape.w0) { Ok(Verdict::OtherKey) } else { Err(Again) };
        }
        if COPY && shape.value_len > LARGE && !confirm(words, shape.w0) {
            return Err(Again);
        }
        let start = out.len();
        let link = self.take::<COPY>(offset, words, &shape, out, hit)?;
        if !confirm(words, shape.w0) {
            return Err(Again);
        }
        hit.quick.flushes = sight.flushes;
        hit.absent = None;
        if link == 0 {
            return Ok(Verdict::Found);
        }
        out.truncate(start);
        if link == LOOK_IN_INDEX {
            return Ok(Verdict::Removed);
        }
        self.follow::<COPY>(words, shape.w0, Ref::from_raw(link), key, out, hit)
    }

    /// From a superseded cell to the current one. `first` and `first_w0` are of the confirmed cell where the index led.
    #[cold]
    #[inline(never)]
    fn follow<const COPY: bool>(
        &self,
        first: &[AtomicU64],
        first_w0: u64,
        mut target: Ref,
        key: &[u8],
        out: &mut Vec<u8>,
        hit: &mut Hit,
    ) -> Result<Verdict, Again> {
        self.region.followed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        for _ in 0..HOPS {
            let (words, shape) = self.whole_cell(target.offset())?;
            if shape.seq() != target.seq() || !self.key_is(words, &shape, key) {
                return Err(Again);
            }
            let confirm = || {
                read_fence();
                (!kept(Safeguard::SecondLook) || words[cell::W0].load(Ordering::Acquire) == shape.w0)
                    && first[cell::W0].load(Ordering::Relaxed) == first_w0
            };
            if COPY && shape.value_len > LARGE && !confirm() {
                return Err(Again);
            }
            let start = out.len();
            let link = self.take::<COPY>(target.offset(), words, &shape, out, hit)?;
            if !confirm() {
                return Err(Again);
            }
            match link {
                0 => return Ok(Verdict::Found),
                LOOK_IN_INDEX => return Err(Again),
                _ => target = Ref::from_raw(link),
            }
            out.truncate(start);
        }
        Err(Again)
    }

    /// All words of a cell, as many as its lengths say, if they are within the region.
    #[inline(always)]
    fn whole_cell(&self, offset: u64) -> Result<(&[AtomicU64], Shape), Again> {
        let head = self.region.try_words(offset, cell::FIXED).ok_or(Again)?;
        let w0 = head[cell::W0].load(Ordering::Acquire);
        if w0 & 1 != 0 || offset < PAGE {
            return Err(Again);
        }
        let flags = Shape::flags_of(w0);
        let shape = if flags & flag::LONG == 0 {
            Shape::short(w0)
        } else {
            let at = offset + 8 * extension_at(flags, flag::LONG) as u64;
            Shape::long(w0, self.region.try_words(at, 1).ok_or(Again)?[0].load(Ordering::Relaxed))
        };
        let words = self.region.try_words(offset, shape.words()).ok_or(Again)?;
        Ok((words, shape))
    }

    #[inline(always)]
    fn key_is(&self, words: &[AtomicU64], shape: &Shape, key: &[u8]) -> bool {
        shape.key_len == key.len() && words_equal(&words[shape.key_at()..shape.value_at()], key)
    }

    /// Copies what is to be known of a cell, and answers its link; nothing of it is to be believed before it is confirmed.
    #[inline(always)]
    fn take<const COPY: bool>(
        &self,
        offset: u64,
        words: &[AtomicU64],
        shape: &Shape,
        out: &mut Vec<u8>,
        hit: &mut Hit,
    ) -> Result<u64, Again> {
        hit.quick.kind = shape.kind().ok_or(Again)?;
        hit.quick.offset = offset;
        hit.quick.w0 = shape.w0;
        hit.quick.ts = words[cell::TS].load(Ordering::Relaxed);
        hit.quick.value_len = shape.value_len;
        if shape.flags() != 0 {
            hit.extensions = Extensions::load(words, shape);
        } else if hit.extensions.used {
            // Left by an attempt that failed.
            hit.extensions = Extensions::default();
        }
        if COPY {
            let at = shape.value_at();
            append(&words[at..at + shape.value_len.div_ceil(8)], shape.value_len, out);
        }
        Ok(words[cell::LINK].load(Ordering::Acquire))
    }

    fn holds(&self, witness: &Witness) -> bool {
        let Some(root) = self.region.try_words(superblock::ROOT_AT, table::WORDS) else { return false };
        let t = witness.table;
        let Some(words) = self.region.try_words(t.offset(), table::WORDS) else { return false };
        let same_table = root[table::FLUSHES].load(Ordering::Acquire) as u32 == witness.flushes
            && words[table::W0].load(Ordering::Acquire) == t.seq() | (Kind::Table as u64) << 24;
        if !same_table {
            return false;
        }
        if witness.which == 0 {
            let cell = Ref::from_raw(witness.place);
            let Some(head) = self.region.try_words(cell.offset(), cell::FIXED) else { return false };
            let w0 = head[cell::W0].load(Ordering::Acquire);
            let link = head[cell::LINK].load(Ordering::Acquire);
            fence(Ordering::Acquire);
            return w0 & SEQ_MASK == cell.seq() && link == 0 && head[cell::W0].load(Ordering::Relaxed) == w0;
        }
        let (array, bucket) = (Array(witness.place), u64::from(witness.bucket));
        let Some(home) = self.region.try_words(array.bucket_offset(bucket), 1) else { return false };
        let changes = home[0].load(Ordering::Acquire) >> 40;
        fence(Ordering::Acquire);
        let which = witness.which as usize & (table::WORDS - 1);
        changes == u64::from(witness.changes)
            && words[which].load(Ordering::Acquire) == array.0
            && (which == table::CURRENT || words[table::FRONTIER].load(Ordering::Acquire) <= bucket)
    }

    /// Whether what a read saw is still so: the cell is the same generation and not superseded, or the absent key has not
    /// been made. May say no without need, never yes.
    pub fn still_current(&self, witness: &Witness) -> bool {
        fence(Ordering::Acquire);
        self.holds(witness)
    }

    /// The siblings and the id of a transaction. `None`: freed, so the transaction is stable and beyond the window.
    pub fn txn_record(&self, r: Ref, out: &mut Vec<u64>) -> Option<u64> {
        let (words, shape) = self.whole_cell(r.offset()).ok()?;
        if shape.seq() != r.seq() || shape.kind() != Some(Kind::Txn) || shape.value_len > LARGE * 64 {
            return None;
        }
        let start = out.len();
        let mut value = words[shape.value_at()..].iter().take(shape.value_len / 8);
        let tid = value.next()?.load(Ordering::Relaxed);
        out.extend(value.map(|word| word.load(Ordering::Relaxed)));
        read_fence();
        let freed = words[cell::LINK].load(Ordering::Acquire) != 0;
        let same = !kept(Safeguard::SecondLook) || words[cell::W0].load(Ordering::Relaxed) == shape.w0;
        if same && !freed {
            Some(tid)
        } else {
            out.truncate(start);
            None
        }
    }

    /// Whether the owner is still writing this transaction. Gone: no.
    pub fn txn_under_way(&self, r: Ref) -> bool {
        let Some(words) = self.region.try_words(r.offset(), cell::FIXED + 1) else { return false };
        let w0 = words[cell::W0].load(Ordering::Acquire);
        let change = words[cell::FIXED].load(Ordering::Acquire);
        w0 & SEQ_MASK == r.seq() && Shape::flags_of(w0) & flag::WORDS != 0 && change & 1 == 1
    }

    /// Whether this transaction is known to be committed at all its participants. Gone: yes.
    pub fn txn_stable(&self, r: Ref) -> bool {
        let Some(words) = self.region.try_words(r.offset(), cell::FIXED + 2) else { return true };
        let w0 = words[cell::W0].load(Ordering::Acquire);
        let stable = words[cell::FIXED + 1].load(Ordering::Acquire);
        w0 & SEQ_MASK != r.seq() || Shape::flags_of(w0) & flag::WORDS == 0 || stable != 0
    }

    /// Whether a cell's checksum fits its content; `false` also for a cell that is gone. Not needed where the memory is this
    /// host's: for what came over a wire or from a file.
    pub fn checksum_holds(&self, r: Ref) -> bool {
        let Ok((words, shape)) = self.whole_cell(r.offset()) else { return false };
        let mut sum = crate::cell::Checksum::new(shape.w0, words[cell::TS].load(Ordering::Relaxed));
        for which in [flag::LONG, flag::EXPIRE, flag::SEQ, flag::TXN] {
            if let Some(at) = shape.extension(which) {
                sum.word(words[at].load(Ordering::Relaxed));
            }
        }
        let mut body = Vec::new();
        append(&words[shape.key_at()..shape.value_at()], shape.key_len, &mut body);
        append(&words[shape.value_at()..], shape.value_len, &mut body);
        sum.bytes(&body);
        let last = words[words.len() - 1].load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        shape.seq() == r.seq()
            && words[cell::W0].load(Ordering::Relaxed) == shape.w0
            && (last >> 32) as u32 == sum.value()
    }

    #[inline]
    fn mutable(&self, seen: &Seen, i: usize) -> Option<&AtomicU64> {
        let words = self.region.try_words(seen.cell.offset(), cell::FIXED + 4)?;
        words[cell::FIXED..].get(i)
    }

    /// One of the mutable words now (acquire). Meaningless if the cell has been recycled: [`Reader::seqlock_validate`] tells.
    #[inline]
    pub fn word(&self, header: &Seen, i: usize) -> u64 {
        self.mutable(header, i).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Begins to read a big collection through its header: the change word, or `None` while a change is under way.
    #[inline]
    pub fn seqlock_begin(&self, header: &Seen) -> Option<u64> {
        let change = self.word(header, 0);
        (change & 1 == 0).then_some(change)
    }

    /// Whether the collection has not changed since, and the header is still the key's current version. What was read in between
    /// is to be thrown away otherwise.
    #[inline]
    pub fn seqlock_validate(&self, header: &Seen, change: u64) -> bool {
        fence(Ordering::Acquire);
        self.word(header, 0) == change && self.still_current(&header.witness())
    }

    /// Entries in a table, by the owner's count.
    pub fn len(&self, t: Table) -> Option<u64> {
        let words = self.region.try_words(t.offset(), table::WORDS)?;
        let w0 = words[table::W0].load(Ordering::Acquire);
        let count = words[table::COUNT].load(Ordering::Acquire);
        fence(Ordering::Acquire);
        let same =
            words[table::W0].load(Ordering::Relaxed) == w0 && w0 == t.seq() | (Kind::Table as u64) << 24;
        same.then_some(count)
    }

    /// The epoch in the superblock.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.region.try_words(superblock::EPOCH_AT, 1).map_or(0, |word| word[0].load(Ordering::Acquire))
    }
}
