//! The shared-memory region of a shard: index, cells and slab, with an owner's side and a reader's side.
//!
//! One thread, the owner, writes ([`Arena`]); any other reads without asking it ([`Reader`]). The layout of the bytes is in
//! `layout.rs` and in `spec/layout.md`; the order of the owner's stores in `owner.rs`; the read procedure in `reader.rs`.
//!
//! ```
//! use kintsugidb_arena::{Arena, Config, NewCell, Table, hash};
//! let mut arena = Arena::create(Config { reserve_bytes: 1 << 24, ..Config::default() })?;
//! let reader = arena.reader();
//! arena.publish(Table::ROOT, hash(b"k"), &NewCell { key: b"k", value: &[b"v"], ts: 1, ..NewCell::default() })?;
//! let mut out = Vec::new();
//! let seen = reader.read(Table::ROOT, hash(b"k"), b"k", &mut out).unwrap().unwrap();
//! assert_eq!((&out[seen.value], seen.ts), (&b"v"[..], 1));
//! # Ok::<(), kintsugidb_arena::Error>(())
//! ```

mod batch;
mod cell;
mod check;
mod error;
mod grow;
mod heap;
mod index;
mod large_pages;
pub mod layout;
#[cfg(not(model))]
mod mapping;
mod owner;
mod pages;
mod prepared;
mod reader;
mod region;
#[cfg(not(model))]
pub mod remote;
mod slab;
mod sync;
mod walk;

pub use batch::{Get, read_many};
pub use cell::{CellView, NewCell};
pub use error::{Busy, Error};
pub use large_pages::LargePage;
pub use layout::{Kind, Ref, Table};
pub use owner::{Arena, Config, Memory};
pub use reader::{Answer, Reader, Seen, TRIES, Witness};
#[cfg(model)]
pub use sync::{Safeguard, each_is_needed};

use std::sync::atomic::{AtomicU64, Ordering};

/// The hash's seed until [`set_hash_seed`] changes it.
pub const DEFAULT_SEED: u64 = 0x4b69_6e74_7375_6769;

static SEED: AtomicU64 = AtomicU64::new(DEFAULT_SEED);

/// Chooses the seed of [`hash`] for this process: a random one keeps peers from choosing keys that collide. To be called before the
/// first region is made; each superblock names the seed that its index was built with.
pub fn set_hash_seed(seed: u64) {
    SEED.store(seed, Ordering::Relaxed);
}

/// The seed of [`hash`] in this process.
pub fn hash_seed() -> u64 {
    SEED.load(Ordering::Relaxed)
}

/// The hash of a key: XXH3, 64 bits, with the seed that stands in the superblock.
#[inline]
pub fn hash(key: &[u8]) -> u64 {
    hash_with(SEED.load(Ordering::Relaxed), key)
}

/// The same with the seed of a region that another process has made ([`Reader::seed`]).
#[inline]
pub fn hash_with(seed: u64, key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(key, seed)
}
