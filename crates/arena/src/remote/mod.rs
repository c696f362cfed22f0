//! Reading a region that is not mapped here: a lookup as a state machine that asks for ranges of bytes and is fed what they held.
//!
//! ```text
//!   by address   cell | its w0 again, if it has mutable words | flushes               one round trip
//!   by index     (the descriptor, word by word)                                      unless it is known
//!                control word | bucket                                               one
//!                cell | entry again | w0 again | array again                         one     ... and so for every candidate
//!   link         successor | its w0 again | the first cell's w0 again                one
//!   missing      control word again | array again                                    one
//!   words        a cell with mutable words that the index led to: once more, by its address     one
//!   record       a transaction's record | its w0 again                               one
//! ```
//! The ranges of one question are to be read **one after the other**, in the order asked; words within a range can be read in any order, each
//! as a whole. (An RDMA adapter reads those of one connection in order; they can all be posted at once.) So the second look at a word
//! is later than everything before it, as in `reader.rs`, whose procedure this is. What is different:
//!
//! - There is no fence between the words of a cell: its **checksum** says whether they belong together, also where the key is another's. It does not cover the link and the
//!   mutable words. A current cell's **link names its own generation**, so one look at it says that this generation was current then. Mutable words
//!   are of the generation that `w0` named before and after, or of a time before the cell was published, when they would be another's: a cell that has
//!   some is read again by its address, now that its generation is known to be published.
//! - A cell at a *cached address* is believed only in the cached generation: it was published before the lookup began. Through the index,
//!   the entry that leads to it is looked at again after it.
//! - A flush leaves the cells of what it removed as they are until they are freed. So an address counts only as long as the region has not
//!   been flushed since.
//! - Everything that is fed is bounded and checked; garbage makes the lookup begin again, at most [`TRIES`] times, then it is [`Busy`].

mod body;
mod lookup;
mod record;
#[cfg(test)]
mod tests;
mod witness;

pub use crate::Busy;
use crate::layout::{Kind, Ref, Table, superblock, table};
pub use lookup::Lookup;
pub use record::{EPOCH, PREPARED, Record, ask_record, feed_record};
pub use witness::Witness;

/// Attempts before a lookup gives up. Each costs round trips.
pub const TRIES: usize = 8;
/// Bytes of the largest cell that is fetched; larger ones are the owner's to send.
pub const MAX_CELL: u64 = 1 << 20;
/// Bytes that are fetched of a cell whose size is not known.
const GUESS: u64 = 256;

/// Bytes of a region, both multiples of 8.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Where they begin.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

/// Where an item was found: the cell, its generation and its size.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The cell and its generation.
    pub cell: Ref,
    /// Its bytes.
    pub bytes: u64,
    /// Whether it has mutable words.
    pub mutable: bool,
    /// How often the region had been flushed before it was found.
    pub flushes: u64,
}

/// What a lookup found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What the cell holds.
    pub kind: Kind,
    /// Commit timestamp.
    pub ts: u64,
    /// Second half of the version order.
    pub seq: u32,
    /// Expiry in milliseconds of the Unix epoch; 0 = none.
    pub expire_at_ms: u64,
    /// The record of the multi-key transaction that wrote this version.
    pub txn: Option<Ref>,
    /// The mutable words, of this generation of the cell, each from a moment of its own; zeros if it has none.
    pub words: [u64; 4],
    /// The value.
    pub value: Vec<u8>,
    /// It is current, but the owner wants to be asked: a transaction that writes the key is prepared.
    pub invalidated: bool,
    /// Where it is, for the address cache.
    pub address: Address,
}

/// A table's descriptor as it was last seen, so that the next lookup need not fetch it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Descriptor([u64; FIELDS]);

/// The words of a descriptor that a lookup needs.
const FIELDS: usize = 5;

/// Where they stand, in the order in which they have to be read: an array that is current has an old one until that is empty, and the
/// frontier only moves on. Read at once they could say "current, and no old one" of an array that has just been made. A flush is
/// counted before it makes another array current. (It is the root's to count, whichever the table.)
fn fields(t: Table) -> [Range; FIELDS] {
    let field = |which: usize| word(t.offset() + 8 * which as u64);
    [field(table::W0), FLUSHES, field(table::CURRENT), field(table::OLD), field(table::FRONTIER)]
}

/// How often a region was flushed. Where it ends a question it can be read later, and once for several questions.
pub const FLUSHES: Range = Range { offset: superblock::ROOT_AT + 8 * table::FLUSHES as u64, bytes: 8 };

/// What a table's descriptor begins with, while it is there.
fn w0_of(t: Table) -> u64 {
    t.seq() | (Kind::Table as u64) << 24
}

/// How a lookup ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The key's current version.
    Found(Box<Item>),
    /// There was a moment at which the key was absent: the proof that it still is.
    Absent(Witness),
}

/// Begin again.
struct Again;

/// The eight bytes at an offset.
fn word(offset: u64) -> Range {
    Range { offset, bytes: 8 }
}
