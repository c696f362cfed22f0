//! Point reads without the owner: a front end reads the regions of all shards itself.
//!
//! ```text
//!   string, packed    the root cell is the whole answer: one read
//!   big collection    header; change word even?  items from its table;  change word the same, header still current?
//!   several keys      all cells in three passes (hash and fetch; probe and fetch; copy), then, before anything is believed:
//!                     1. no transaction that was met is still being written by its owner
//!                     2. keys of one shard: every cell that was read is still current after all were read, so that there was
//!                        a moment at which all of them were (a double collect): linearizable within a shard
//!                     3. over several shards: a cell written by transaction T at c, whose record names another key read, of which a version below c
//!                        was read: a fracture (PROTOCOL rule 13). It is mended if T, the newest of those that are missing there, has
//!                        left its version among the prepared ones of that key's shard (rules 14, 22)
//!                     4. epochs: no shard has forgotten transactions twice meanwhile, or a record may have been missed
//! ```
//! Any doubt is a new attempt, after a bounded number of them a [`Fallback`]: the caller sends messages to the owners. So does a
//! fracture that a new attempt does not mend; round two is the owners' then (rule 14).
//!
//! Point 1 holds for single keys too: whoever has seen one key of a transaction within a shard, and then reads another, must not
//! find it from before. The owner marks the transaction's record done at the end of its turn; and since a transaction may write a
//! key more than once (DEL, then SADD), what was read of it has to be current still after that. A big collection gets a new header
//! from each transaction that changes its items.
//!
//! A key whose time has come is absent, by the reader's clock.
use crate::{fingerprint_with, shard};
use kintsugidb_arena::{Answer, Busy, Kind, Reader, Ref, Seen, Table};
use kintsugidb_wire::Reply;

mod cache;
mod collection;
mod commands;
mod fetched;
mod part;
#[cfg(test)]
mod tests;
mod together;
#[cfg(test)]
mod together_tests;

pub use cache::Cache;
pub use commands::Point;
pub use fetched::{KeyRead, MAX_NAMES, Stop};
pub use part::Part;

/// Attempts before the owner is asked.
const TRIES: usize = 32;
/// Keys that are read in one batch.
const WIDTH: usize = 16;
/// Attempts that may end in a fracture before the owners are asked.
const FRACTURES: usize = 2;

/// What a transaction's record in the region says of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Siblings {
    /// Their fingerprints (RAMP-Fast).
    Keys,
    /// A Bloom filter of them, by [`bloom_bits`] (RAMP-Hybrid).
    Bloom,
    /// Nothing (RAMP-Small): it may have written any key.
    Unsaid,
    /// They are not looked at: keys of different shards are read without isolation.
    Ignored,
}

impl Siblings {
    /// Whether a transaction of whose siblings a record says `words` may have written the key of this fingerprint.
    pub fn may_hold(self, words: &[u64], fingerprint: u64) -> bool {
        match self {
            Self::Keys => words.contains(&fingerprint),
            Self::Bloom => bloom_bits(fingerprint)
                .iter()
                .all(|b| words.get(b / 64).is_some_and(|word| word & 1 << (b % 64) != 0)),
            Self::Unsaid => true,
            Self::Ignored => false,
        }
    }
}

/// The bits of a fingerprint in a Bloom filter of 128 bits: four, from disjoint parts of it.
pub fn bloom_bits(fingerprint: u64) -> [usize; 4] {
    [0, 7, 14, 21].map(|shift| (fingerprint >> shift) as usize & 127)
}

/// It could not be read one-sidedly in a bounded time: ask the owner. Nothing has been written to the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fallback {
    /// What is read changes all the time, or half of a transaction is missing.
    #[error("the region changes too fast to be read from outside")]
    Changing,
    /// The owner has marked a key ([`crate::Shard::invalidate`]).
    #[error("the owner wants to be asked for this key")]
    Invalidated,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Commands answered.
    pub reads: u64,
    /// Attempts that had to be repeated.
    pub retries: u64,
    /// Commands left to the owners.
    pub fallbacks: u64,
    /// Fractures detected.
    pub fractures: u64,
    /// Versions taken from transactions that were prepared at their shard, and not committed there.
    pub prepared: u64,
}

/// Reads of any shard's region, for one front-end thread.
pub struct PointReader {
    /// The time that expiry is judged by, in milliseconds since the Unix epoch. The caller keeps it current.
    pub now_ms: u64,
    readers: Box<[Reader]>,
    seed: u64,
    siblings: Siblings,
    counters: Counters,
    clock: u64,
    txns: Vec<(u64, u64)>,
    records: Vec<(usize, Ref)>,
    buf: Vec<u8>,
    record: Vec<u64>,
    cells: Vec<Cell>,
    epochs: Vec<(usize, u64)>,
    answers: Vec<std::result::Result<Answer, Busy>>,
}

/// One key of several: where it is, and the timestamp of what was found there (0: nothing). Its answer has the same index.
#[derive(Clone, Copy)]
struct Cell {
    shard: usize,
    hash: u64,
    ts: u64,
    is_tombstone: bool,
    /// The newest transaction that was met, as (commit timestamp, id), whose version of the key is missing.
    missing: Option<(u64, u64)>,
}

/// Why an attempt has to be repeated.
enum Again {
    /// Something changed meanwhile.
    Changed,
    /// Half of a transaction was seen.
    Fractured,
    /// Not again: the owner wants to be asked.
    Invalidated,
}

impl From<Busy> for Again {
    fn from(_: Busy) -> Self {
        Self::Changed
    }
}

type Attempt<T> = std::result::Result<T, Again>;

impl PointReader {
    /// Reads the regions of these shards, in the order of their numbers.
    ///
    /// Keys are hashed with the seed that stands in the first of them: all are of one server, which may be another process.
    pub fn new(readers: impl Into<Box<[Reader]>>, siblings: Siblings) -> Self {
        let readers = readers.into();
        Self {
            now_ms: 0,
            seed: readers.first().map_or(0, Reader::seed),
            readers,
            siblings,
            counters: Counters::default(),
            clock: 0,
            txns: Vec::new(),
            records: Vec::new(),
            buf: Vec::new(),
            record: Vec::new(),
            cells: Vec::new(),
            epochs: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The highest timestamp that the last read met; the connection's clock has to take note of it (PROTOCOL rule 2).
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// The transactions that the last read met, as (id, commit timestamp), unless they are known to be stable: the connection
    /// takes proofs of them along.
    pub fn txns(&self) -> &[(u64, u64)] {
        &self.txns
    }

    /// The shard and the record of each of [`PointReader::txns`], for [`PointReader::is_stable`].
    pub fn records(&self) -> &[(usize, Ref)] {
        &self.records
    }

    /// Whether the transaction of this record is known by now to be committed at all its participants.
    #[inline]
    pub fn is_stable(&self, shard: usize, record: Ref) -> bool {
        self.readers.get(shard).is_none_or(|r| r.txn_stable(record))
    }

    /// Appends what a transaction's record says of its siblings, for [`PointReader::may_have_written`]; false if it is gone.
    pub fn siblings_of(&self, shard: usize, record: Ref, out: &mut Vec<u64>) -> bool {
        self.readers.get(shard).is_some_and(|r| r.txn_record(record, out).is_some())
    }

    /// Whether a transaction with these words about its siblings may have written a key.
    pub fn may_have_written(&self, siblings: &[u64], key: &[u8]) -> bool {
        self.siblings.may_hold(siblings, fingerprint_with(self.seed, key))
    }

    /// Links from superseded versions that were followed so far, by all readers of these regions in this process.
    pub fn followed(&self) -> u64 {
        self.readers.iter().map(Reader::followed).sum()
    }

    /// Tries until an attempt succeeds. What it wrote to the reply before is taken back.
    fn attempts(
        &mut self,
        out: &mut Reply,
        mut attempt: impl FnMut(&mut Self, &mut Reply) -> Attempt<crate::Result<()>>,
    ) -> std::result::Result<(), Fallback> {
        let start = out.len();
        let mut fractures = 0;
        for _ in 0..TRIES {
            self.clock = 0;
            self.txns.clear();
            self.records.clear();
            self.buf.clear();
            match attempt(self, out) {
                Ok(done) => {
                    if let Err(error) = done {
                        out.truncate(start);
                        out.error(&error.to_string());
                    }
                    self.counters.reads += 1;
                    return Ok(());
                }
                Err(Again::Changed) => {}
                Err(Again::Invalidated) => {
                    out.truncate(start);
                    self.counters.fallbacks += 1;
                    return Err(Fallback::Invalidated);
                }
                Err(Again::Fractured) => {
                    fractures += 1;
                }
            }
            out.truncate(start);
            if fractures == FRACTURES {
                break;
            }
            self.counters.retries += 1;
            std::hint::spin_loop();
        }
        self.counters.fallbacks += 1;
        Err(Fallback::Changing)
    }

    /// The root cell of one key: its value in the buffer, or nothing.
    fn root(&mut self, shard: usize, key: &[u8]) -> Attempt<Option<Seen>> {
        let seen =
            self.readers[shard].read(Table::ROOT, fingerprint_with(self.seed, key), key, &mut self.buf)?;
        if let Some(seen) = &seen {
            self.note(shard, seen)?;
        }
        Ok(seen.filter(|s| self.is_live(s)))
    }

    fn is_live(&self, seen: &Seen) -> bool {
        seen.kind != Kind::Tombstone && (seen.expire_at_ms == 0 || seen.expire_at_ms > self.now_ms)
    }

    /// The timestamp of a root cell's last change.
    fn ts_of(seen: &Seen) -> u64 {
        if shard::is_big(seen.kind) { seen.words()[shard::MODIFIED].max(seen.ts) } else { seen.ts }
    }

    /// Takes note of what was read; again, if its transaction is still being written. Answers the transaction's id, and whether it is
    /// committed everywhere, if it has a record, whose words are left in `record`.
    fn note(&mut self, shard: usize, seen: &Seen) -> Attempt<Option<(u64, bool)>> {
        if seen.invalidated {
            return Err(Again::Invalidated);
        }
        self.clock = self.clock.max(Self::ts_of(seen));
        let Some(txn) = seen.txn else { return Ok(None) };
        let reader = &self.readers[shard];
        self.record.clear();
        let tid = reader.txn_record(txn, &mut self.record);
        let mut patience = 200;
        while tid.is_some() && reader.txn_under_way(txn) {
            patience -= 1;
            if patience == 0 {
                return Err(Again::Changed);
            }
            std::hint::spin_loop();
        }
        // What was read before its end may have been a step on its way.
        if !reader.still_current(&seen.witness()) {
            return Err(Again::Changed);
        }
        let Some(tid) = tid else { return Ok(None) };
        let stable = reader.txn_stable(txn);
        if !stable {
            self.txns.push((tid, seen.ts));
            self.records.push((shard, txn));
        }
        Ok(Some((tid, stable)))
    }
}
