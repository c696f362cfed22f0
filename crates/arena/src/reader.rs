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
//! 5. Link 0: done; "invalidated": done, with a word about it. "Look in the index": the key is being removed, and is absent. Else the link names the successor and its
//!    generation: read it likewise, but confirmed by its own sequence and by the first cell's, which goes to limbo before it.
//! 6. A miss is believed only if the bucket's change counter, loaded before all entries, is still the same, and the table has not
//!    been resized meanwhile.
//!
//! Every other outcome is a new attempt; after [`TRIES`] of them the answer is [`Busy`].

mod attempt;
mod quick;
mod records;

use crate::Busy;
use crate::layout::{Kind, LAYOUT_VERSION, MAGIC, Ref, Table, superblock};
use crate::region::Region;
use crate::sync::{Ordering, Safeguard, fence, kept};
use attempt::{Extensions, Hit};
pub(crate) use quick::{Candidate, Line, Quick};
use std::ops::Range;
use std::sync::Arc;

/// Attempts before a read answers [`Busy`].
pub const TRIES: usize = if cfg!(loom) { 3 } else { 64 };
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
    /// It is current, but the owner wants to be asked: a transaction that writes the key is prepared ([`crate::Arena::invalidate`]).
    pub invalidated: bool,
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

/// The fence between the loads of a cell and the second looks.
#[inline(always)]
fn read_fence() {
    if kept(Safeguard::ReaderFence) {
        fence(Ordering::Acquire);
    }
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
    #[cfg(not(model))]
    pub fn map(file: std::os::fd::BorrowedFd<'_>, bytes: u64) -> Result<Reader, crate::Error> {
        let reader = Reader::new(Arc::new(Region::map(file, bytes)?));
        if reader.understands() { Ok(reader) } else { Err(crate::Error::Foreign) }
    }

    /// The file of the region and its length, to be handed to a process that reads it. `None`: it has none.
    pub fn file(&self) -> Option<(std::os::fd::BorrowedFd<'_>, u64)> {
        Some((self.region.fd()?, self.region.len()))
    }

    /// The words of the region, for who makes them known to an adapter. Call [`Reader::pin`] before anything is stored in it.
    #[cfg(not(model))]
    pub fn memory(&self) -> std::sync::Arc<dyn AsRef<[std::sync::atomic::AtomicU64]> + Send + Sync> {
        self.region.clone()
    }

    /// From now on the owner keeps every page that it has ever used: an adapter that has been told of a page goes on reading it, even if
    /// the region has another one in its place. Costs the memory that large cells and grown indexes leave behind, until they are
    /// used again.
    #[cfg(not(model))]
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
            invalidated: false,
        };
        for _ in 0..TRIES {
            if self.attempt::<COPY>(t, hash, key, out, &mut hit).is_ok() {
                return Ok(hit);
            }
            out.truncate(start);
            #[cfg(loom)]
            loom::thread::yield_now();
            #[cfg(shuttle)]
            shuttle::thread::yield_now();
        }
        Err(Busy)
    }
}
