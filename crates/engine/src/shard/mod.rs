//! One shard: typed operations on its keys, in a region that others read.
//!
//! ```text
//!   root index   key -> root cell      String          value = the bytes
//!                                      Packed…         value = a whole small collection (packed.rs)
//!                                      Big…            value = handle; words = [changes, count, modified ts, sub-table]
//!                                      Tombstone       only for what a recent multi-key transaction deleted
//!   sub-table    subkey -> Item        one cell a field or member of a big hash, set or sorted set
//!   heap         handle -> Big         the owner's own part: elements of a list (chunks.rs), order of a sorted set (order.rs)
//! ```
//! * A root cell is never changed: a write publishes a new one in its place, so that a string or a packed collection is seen
//!   before or after, never between. A big collection changes under its header's change word, odd meanwhile; whoever reads
//!   several of its items compares the word before and after.
//!   Its reader looks whether the header is still the key's current cell, too: it may have been replaced by another header of
//!   the same table (a new expiry, a new name).
//! * `ts` and `seq` of a root cell are the version of the last write; for a big collection the modified word and
//!   [`Big::seq`] are.
//! * A key whose time has come is absent for everybody from that moment; its cell goes later ([`Shard::tick`]), or when the
//!   key is written.
//! * An operation that fails for want of memory leaves the key as it was.
//!
//! Within a transaction ([`Shard::begin_txn`]) the first write makes a record of it in the region; each root cell written
//! refers to it, and what is deleted leaves a tombstone that does, until [`Shard::forget_txns`].
mod big;
mod chunks;
mod draft;
mod expire;
mod hash;
mod keys;
mod list;
mod order;
mod prepared;
mod root;
mod set;
mod string;
#[cfg(test)]
mod tests;
mod txn;
mod types;
mod value;
mod zset;

pub(crate) use big::{COUNT, MODIFIED, TABLE};
pub use prepared::prepared_name;
pub(crate) use root::{is_big, shape, type_of};
pub use txn::{TxnHandle, TxnRecord};
pub use types::{Expire, LexBound, Limits, ListEnd, Memory, ScoreBound, Version, ZAdded};

use crate::history::History;
use big::Bigs;
use expire::Expiry;
use kintsugidb_arena::{Arena, Config, Reader};
use txn::Txn;

/// A shard of the key space, owned by one thread.
pub struct Shard {
    /// The time that expiry is judged by, in milliseconds since the Unix epoch. The caller keeps it current.
    pub now_ms: u64,
    arena: Arena,
    version: Version,
    rng: u64,
    dirty: u64,
    limits: Limits,
    memory_limit: usize,
    /// Whether the limit does not hold for the current write.
    lifted: bool,
    /// Where the next version of a packed collection is put together.
    scratch: Vec<u8>,
    bigs: Bigs,
    expiry: Expiry,
    txn: Option<Txn>,
    tombstones: usize,
    /// Versions of hot keys. A mutator's first act is to tell it, if its key is hot.
    pub(crate) history: History,
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shard")
            .field("keys", &self.len())
            .field("memory", &self.memory())
            .finish_non_exhaustive()
    }
}

/// Life cycle and what the transaction layer needs.
impl Shard {
    /// An empty shard with a region of the default size. `seed` is for commands that draw random elements.
    ///
    /// # Panics
    /// If the system refuses address space for a region; [`Shard::create`] answers an error instead.
    pub fn new(seed: u64) -> Self {
        Self::create(seed, Config::default()).expect("address space for a region")
    }

    /// An empty shard that nobody else reads, for values that are put together outside of their own: what [`Shard::flush`] removes
    /// can be used again at once.
    ///
    /// # Panics
    /// As [`Shard::new`].
    pub fn scratch(seed: u64) -> Self {
        Self::create(seed, Config { grace_ms: 0, initial_keys: 16, ..Config::default() })
            .expect("address space for a region")
    }

    /// An empty shard.
    pub fn create(seed: u64, region: Config) -> std::result::Result<Self, kintsugidb_arena::Error> {
        let memory_limit = region.max_bytes as usize;
        Ok(Self {
            now_ms: 0,
            arena: Arena::create(region)?,
            version: Version::default(),
            rng: seed | 1,
            dirty: 0,
            limits: Limits::default(),
            memory_limit,
            lifted: false,
            scratch: Vec::new(),
            bigs: Bigs::default(),
            expiry: Expiry::default(),
            txn: None,
            tombstones: 0,
            history: History::default(),
        })
    }

    /// Sets the version at which the following writes are made.
    pub fn begin_write(&mut self, version: Version) {
        self.version = version;
        self.arena.set_now(self.now_ms);
        self.history.begin_write(version);
        if self.lifted {
            self.lifted = false;
            self.share_memory();
        }
    }

    /// Sets the version that the current value of a key gets with the next write.
    ///
    /// The write has been recorded in the key's history, so that it is not refused for want of memory any more.
    pub(crate) fn set_stamp(&mut self, version: Version) {
        self.version = version;
        self.lifted = true;
        self.share_memory();
    }

    /// Changes made since the shard was created: elements and keys written. A command that changed nothing leaves it.
    pub fn dirty(&self) -> u64 {
        self.dirty
    }

    /// A random number (xorshift64*), drawn from the seed.
    pub fn random(&mut self) -> u64 {
        self.rng ^= self.rng >> 12;
        self.rng ^= self.rng << 25;
        self.rng ^= self.rng >> 27;
        self.rng.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Up to where collections stay packed; what is there already stays as it is until it is written.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Up to where collections stay packed.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// A reader of this shard's region, for any thread.
    pub fn reader(&self) -> Reader {
        self.arena.reader()
    }

    /// What the shard's memory is used for.
    pub fn memory(&self) -> Memory {
        let region = (self.arena.used_bytes() - self.arena.limbo_bytes()) as usize;
        let (heap, expiry) = (self.bigs.bytes(), self.expiry.bytes());
        Memory { used: region + heap + expiry, region, heap, expiry }
    }

    /// Refuses what would take more than `bytes`; 0 = no limit.
    pub fn set_memory_limit(&mut self, bytes: usize) {
        self.memory_limit = bytes;
        self.share_memory();
    }

    /// Gives the region what the heap leaves of the limit.
    fn share_memory(&mut self) {
        let limit = match self.memory_limit {
            0 => 0,
            _ if self.txn.is_some() || self.lifted => 0,
            // 0 would be no limit.
            bytes => (bytes.saturating_sub(self.bigs.bytes() + self.expiry.bytes()) as u64).max(1),
        };
        self.arena.set_limit(limit);
    }

    /// The next part of the region that has become worth a large page.
    pub fn next_large_page(&mut self) -> Option<kintsugidb_arena::LargePage> {
        self.arena.next_large_page()
    }

    /// Housekeeping with bounded work: removes keys whose time has come, frees what deleted collections held, recycles cells.
    pub fn tick(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.expire_due(256);
        self.bigs.sweep(256);
        self.arena.tick(now_ms);
        self.share_memory();
    }
}
