//! The bytes of a region: every offset, mask and packed word, in one place.
//!
//! `spec/layout.md` draws what this file defines. Everything is little-endian 8-byte words, and every address is an offset
//! from the start of the region in *granules* of 16 bytes, so a region means the same wherever it is mapped.
//!
//! ```text
//! entry   | tag 16 (63..48) | spare 4 | offset in granules 40 (43..4) | lines 4 (3..0) |      0 = empty
//! w0      | value length 16 | key length 8 | flags 8 | kind 8 | sequence 24 (odd: not readable) |
//! ref     | sequence 24 (63..40) | offset in granules 40 |                            link: a ref, or see [`Link`]
//! array   | changes 16 (63..48) | shift 6 (47..42) | factor 2 (41..40) | offset in granules 40 |
//! control | changes 24 (63..40) | offset of the overflow bucket 40 |
//! ```

use std::num::NonZeroU64;

#[cfg(target_endian = "big")]
compile_error!("regions are little-endian words, and are read in place");

/// Bytes in a granule, the unit of every offset.
pub const GRANULE: u64 = 16;
/// Bytes in a page, the unit in which the region is handed to slabs, arrays and large cells.
pub const PAGE: u64 = if cfg!(loom) { 256 } else { 4096 };
/// "KINTSUGI", the first word of a region.
pub const MAGIC: u64 = u64::from_le_bytes(*b"KINTSUGI");
/// The version of this layout. A reader refuses any other.
pub const LAYOUT_VERSION: u32 = 2;

/// Byte offsets in the superblock, which fills the first page.
pub mod superblock {
    /// [`super::MAGIC`].
    pub const MAGIC_AT: u64 = 0;
    /// Layout version (low 32 bits), shard (next 16).
    pub const VERSION_AT: u64 = 8;
    /// Bytes of the whole region.
    pub const BYTES_AT: u64 = 16;
    /// The seed of the hash.
    pub const SEED_AT: u64 = 24;
    /// The epoch: bumped each time the owner forgets transaction metadata.
    pub const EPOCH_AT: u64 = 32;
    /// The table of prepared versions, named as by [`super::Table::to_raw`]; 0 = there is none.
    pub const PREPARED_AT: u64 = 40;
    /// The descriptor of the root table.
    pub const ROOT_AT: u64 = 64;
    /// Bytes in use at the head of the page; the rest is zero.
    pub const BYTES: u64 = 128;
}
const _: () = assert!(superblock::ROOT_AT.is_multiple_of(64) && superblock::BYTES <= PAGE);
const _: () = assert!(superblock::ROOT_AT + 8 * table::WORDS as u64 == superblock::BYTES);

/// Word numbers in a table's descriptor.
pub mod table {
    /// Sequence and kind, as in every cell.
    pub const W0: usize = 0;
    /// The array in use.
    pub const CURRENT: usize = 1;
    /// The array that is being emptied into the current one; 0 = none.
    pub const OLD: usize = 2;
    /// Buckets of the old array that have been emptied, counted from its start.
    pub const FRONTIER: usize = 3;
    /// Entries in the table.
    pub const COUNT: usize = 4;
    /// Owner's list of all tables: the previous and the next one's byte offset. The root is its head.
    pub const PREVIOUS: usize = 5;
    /// See [`PREVIOUS`].
    pub const NEXT: usize = 6;
    /// In the root: how often the region was flushed. In others: unused.
    pub const FLUSHES: usize = 7;
    /// Words in all.
    pub const WORDS: usize = 8;
}

pub(crate) const OFFSET_MASK: u64 = (1 << 40) - 1;
pub(crate) const SEQ_MASK: u64 = (1 << 24) - 1;

/// Words in a bucket: the control word, then [`SLOTS`] entries. Two cache lines.
pub const BUCKET_WORDS: usize = if cfg!(loom) { 4 } else { 16 };
/// Entries in a bucket.
pub const SLOTS: usize = BUCKET_WORDS - 1;
/// Bytes in a bucket.
pub const BUCKET: u64 = 8 * BUCKET_WORDS as u64;
const _: () = assert!(BUCKET == 128 || cfg!(loom));

/// Word numbers at the head of a cell.
pub mod cell {
    /// Sequence, kind, flags and lengths.
    pub const W0: usize = 0;
    /// Commit timestamp.
    pub const TS: usize = 1;
    /// What became of the cell: see [`super::Link`].
    pub const LINK: usize = 2;
    /// Words of the fixed header; the extensions that the flags name follow.
    pub const FIXED: usize = 3;
}
const _: () = assert!(cell::FIXED * 8 == 24);

/// The link of a cell whose entry has left, or is about to leave, the index.
pub const LOOK_IN_INDEX: u64 = 1;

/// The link of a current cell whose key a transaction is about to write, where readers are to ask the owner until it has.
pub const INVALIDATED: u64 = 2;

/// Instead of an offset, in the link of a current cell: the rest is the cell's own sequence. So the link alone, one word, says that this
/// generation of the place is current; neither another generation nor the list of free places can look like it.
const OWN: u64 = 3;

/// The link of a current cell of this sequence.
#[inline]
pub(crate) fn current_link(seq: u64) -> u64 {
    OWN | (seq & SEQ_MASK) << 40
}

/// What a link says.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    /// Nothing has replaced the cell.
    Current,
    /// See [`INVALIDATED`].
    Invalidated,
    /// See [`LOOK_IN_INDEX`].
    LookInIndex,
    /// The cell, and its generation, that replaced this one; or anything, if the place is not a cell.
    To(Ref),
}

impl Link {
    /// The link of a cell whose `w0` is confirmed, or will be: its own sequence is not compared.
    #[inline]
    pub fn of(link: u64) -> Link {
        match link & OFFSET_MASK {
            OWN => Link::Current,
            _ if link == INVALIDATED => Link::Invalidated,
            _ if link == LOOK_IN_INDEX => Link::LookInIndex,
            _ => Link::To(Ref::from_raw(link)),
        }
    }
}

/// Flags of a cell: each names an extension, and they stand in this order.
pub mod flag {
    /// Four mutable words; first, so that they are always at words 3 to 6.
    pub const WORDS: u64 = 1;
    /// Key length (low 32 bits) and value length, for what does not fit in `w0`.
    pub const LONG: u64 = 2;
    /// Expiry in milliseconds of the Unix epoch.
    pub const EXPIRE: u64 = 4;
    /// The second half of the version order.
    pub const SEQ: u64 = 8;
    /// The transaction record of a version that a multi-key transaction wrote.
    pub const TXN: u64 = 16;
    /// All of them.
    pub const ALL: u64 = 31;
}

/// What a cell holds.
#[repr(u8)]
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A string.
    String = 1,
    /// A whole small list in one cell.
    PackedList = 2,
    /// A whole small hash in one cell.
    PackedHash = 3,
    /// A whole small set in one cell.
    PackedSet = 4,
    /// A whole small sorted set in one cell.
    PackedZset = 5,
    /// The header of a list whose elements are elsewhere.
    BigList = 6,
    /// The header of a hash whose fields are in a table.
    BigHash = 7,
    /// The header of a set whose members are in a table.
    BigSet = 8,
    /// The header of a sorted set whose members are in a table.
    BigZset = 9,
    /// A deleted key, while transactions still care.
    Tombstone = 10,
    /// A cell of a sub-table; its key is the subkey.
    Item = 11,
    /// A transaction record.
    Txn = 12,
    /// A table's descriptor.
    Table = 13,
}

impl Kind {
    /// The kind with this number.
    #[inline]
    pub fn from_u8(number: u8) -> Option<Kind> {
        use Kind::*;
        const ALL: [Kind; 13] = [
            String, PackedList, PackedHash, PackedSet, PackedZset, BigList, BigHash, BigSet, BigZset,
            Tombstone, Item, Txn, Table,
        ];
        ALL.get(usize::from(number).wrapping_sub(1)).copied()
    }
}

/// A cell and its generation: 40 bits of offset in granules, 24 bits of sequence.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ref(NonZeroU64);

impl Ref {
    #[inline]
    pub(crate) fn new(offset: u64, seq: u64) -> Ref {
        Ref::from_raw((offset / GRANULE) | (seq & SEQ_MASK) << 40)
    }
    /// The byte offset in the region.
    #[inline]
    pub fn offset(self) -> u64 {
        (self.0.get() & OFFSET_MASK) * GRANULE
    }
    #[inline]
    pub(crate) fn seq(self) -> u64 {
        self.0.get() >> 40
    }
    /// The reference as a number, to be kept in a mutable word or sent. Never 0.
    #[inline]
    pub fn to_raw(self) -> u64 {
        self.0.get()
    }
    /// The inverse of [`Ref::to_raw`]. Any number is safe: it is checked when used. 0 becomes a reference to no cell.
    #[inline]
    pub fn from_raw(raw: u64) -> Ref {
        Ref(NonZeroU64::new(raw).unwrap_or(NonZeroU64::MIN))
    }
}

/// Names an index: the root, or a sub-table by the place and generation of its descriptor.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Table(pub(crate) u64);

impl Table {
    /// The sequence of the root's descriptor, which is never recycled.
    pub(crate) const ROOT_SEQ: u64 = 2;
    /// The root index: key to root cell.
    pub const ROOT: Table = Table((superblock::ROOT_AT / GRANULE) | Table::ROOT_SEQ << 40);
    /// The table as a number, to be kept in a mutable word.
    #[inline]
    pub fn to_raw(self) -> u64 {
        self.0
    }
    /// The inverse of [`Table::to_raw`]. Any number is safe on the reader's side: it is checked when used.
    #[inline]
    pub fn from_raw(raw: u64) -> Table {
        Table(raw)
    }
    #[inline]
    pub(crate) fn offset(self) -> u64 {
        (self.0 & OFFSET_MASK) * GRANULE
    }
    #[inline]
    pub(crate) fn seq(self) -> u64 {
        self.0 >> 40
    }
}

/// Packs an index entry. `bytes` is the cell's size, for the hint of how many lines to fetch.
#[inline]
pub(crate) fn entry(hash: u64, offset: u64, bytes: u64) -> u64 {
    debug_assert!(offset.is_multiple_of(GRANULE) && offset < 1 << 44);
    (hash & 0xffff) << 48 | offset | bytes.div_ceil(64).min(15)
}
/// The byte offset in an entry.
#[inline]
pub(crate) fn entry_offset(entry: u64) -> u64 {
    entry & 0x0fff_ffff_fff0
}
/// A packed array word: where a table's buckets are and how many.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Array(pub u64);

/// The largest size code; 2^30 buckets, 16 billion entries.
pub(crate) const MAX_CODE: u64 = 59;

impl Array {
    pub fn new(offset: u64, code: u64, changes: u64) -> Array {
        let (factor, shift) = match code {
            0 => (1, 32),
            c => (2 + ((c - 1) & 1), 32 - ((c - 1) >> 1)),
        };
        Array((offset / GRANULE) | factor << 40 | shift << 42 | (changes & 0xffff) << 48)
    }
    #[inline]
    pub fn offset(self) -> u64 {
        (self.0 & OFFSET_MASK) * GRANULE
    }
    #[inline]
    fn factor(self) -> u64 {
        (self.0 >> 40) & 3
    }
    #[inline]
    fn shift(self) -> u64 {
        (self.0 >> 42) & 63
    }
    /// The size code, for the owner, whose words are well formed.
    #[inline]
    pub fn code(self) -> u64 {
        if self.factor() < 2 { 0 } else { 1 + 2 * 32u64.saturating_sub(self.shift()) + self.factor() - 2 }
    }
    #[inline]
    pub fn changes(self) -> u64 {
        self.0 >> 48
    }
    /// Buckets in the array; whatever the word holds, no more than 3 * 2^32.
    #[inline]
    pub fn buckets(self) -> u64 {
        self.factor() << 32 >> self.shift()
    }
    #[inline]
    pub fn bytes(self) -> u64 {
        self.buckets() * BUCKET
    }
    /// The home of a hash: its top 32 bits as a fraction of the array, so that the order of buckets is the order of hashes
    /// whatever the size.
    #[inline]
    pub fn home(self, hash: u64) -> u64 {
        ((hash >> 32) * self.factor()) >> self.shift()
    }
    #[inline]
    pub fn bucket_offset(self, bucket: u64) -> u64 {
        self.offset() + bucket * BUCKET
    }
    /// The smallest position (top 32 bits of a hash) at home in this bucket; 2^32 for the one past the end.
    pub fn start_of(self, bucket: u64) -> u64 {
        (bucket << 32).div_ceil(self.buckets())
    }
}

/// Sizes 1, 2, 3, 4, 6, 8, 12, 16 …: a step is a half or a third more.
#[inline]
pub(crate) fn buckets_of(code: u64) -> u64 {
    if code == 0 { 1 } else { (2 + ((code - 1) & 1)) << ((code - 1) >> 1) }
}

/// The smallest size code that keeps `entries` below the growth threshold.
pub(crate) fn code_for(entries: u64) -> u64 {
    (0..MAX_CODE).find(|&c| entries <= grow_at(c)).unwrap_or(MAX_CODE)
}

/// Entries beyond which an array of this size is replaced by a larger one: three quarters of its slots.
#[inline]
pub(crate) fn grow_at(code: u64) -> u64 {
    buckets_of(code) * SLOTS as u64 * 3 / 4
}

/// The control word's count of changes, wrapping within its 24 bits, and its overflow link.
#[inline]
pub(crate) fn control_bump(control: u64) -> u64 {
    control.wrapping_add(1 << 40)
}
#[inline]
pub(crate) fn control_link(control: u64) -> u64 {
    (control & OFFSET_MASK) * GRANULE
}
#[inline]
pub(crate) fn control_with_link(control: u64, offset: u64) -> u64 {
    (control & !OFFSET_MASK) | (offset / GRANULE)
}

/// Where the parts of a cell are, from its `w0` and, if flagged, its LONG word.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Shape {
    pub w0: u64,
    pub key_len: usize,
    pub value_len: usize,
}

impl Shape {
    #[inline]
    pub fn short(w0: u64) -> Shape {
        Shape { w0, key_len: (w0 >> 40 & 0xff) as usize, value_len: (w0 >> 48) as usize }
    }
    #[inline]
    pub fn long(w0: u64, long: u64) -> Shape {
        Shape { w0, key_len: (long & 0xffff_ffff) as usize, value_len: (long >> 32) as usize }
    }
    #[inline]
    pub fn flags_of(w0: u64) -> u64 {
        w0 >> 32 & flag::ALL
    }
    #[inline]
    pub fn flags(&self) -> u64 {
        Shape::flags_of(self.w0)
    }
    #[inline]
    pub fn kind(&self) -> Option<Kind> {
        Kind::from_u8((self.w0 >> 24) as u8)
    }
    #[inline]
    pub fn seq(&self) -> u64 {
        self.w0 & SEQ_MASK
    }
    /// Word number of an extension, if it is there.
    #[inline]
    pub fn extension(&self, which: u64) -> Option<usize> {
        let flags = self.flags();
        (flags & which != 0).then(|| extension_at(flags, which))
    }
    #[inline]
    pub fn key_at(&self) -> usize {
        extension_at(self.flags(), flag::ALL + 1)
    }
    #[inline]
    pub fn value_at(&self) -> usize {
        self.key_at() + self.key_len.div_ceil(8)
    }
    /// Words of the value with its checksum.
    #[inline]
    pub fn value_words(&self) -> usize {
        (self.value_len + 4).div_ceil(8)
    }
    /// Words in all; the checksum is the upper half of the last.
    #[inline]
    pub fn words(&self) -> usize {
        self.value_at() + self.value_words()
    }
}

/// Words of the fixed header and of the extensions that a set of flags names.
const WORDS_BEFORE: [u8; flag::ALL as usize + 1] = {
    let mut table = [0; flag::ALL as usize + 1];
    let mut flags = 0;
    while flags < table.len() {
        let words = if flags as u64 & flag::WORDS != 0 { 3 } else { 0 };
        table[flags] = cell::FIXED as u8 + flags.count_ones() as u8 + words;
        flags += 1;
    }
    table
};

/// `w0` without sequence, kind and value length, but the lowest bit of the sequence: equal to [`plain`] in a readable cell
/// without extensions whose key has this length.
pub(crate) const PLAIN_MASK: u64 = 1 | 0xff << 32 | 0xff << 40;
#[inline]
pub(crate) fn plain(key_len: usize) -> u64 {
    (key_len as u64) << 40
}

#[inline]
pub(crate) fn extension_at(flags: u64, which: u64) -> usize {
    usize::from(WORDS_BEFORE[(flags & (which - 1) & flag::ALL) as usize])
}

/// The number of slab classes for cells; beyond [`MAX_SLAB`] a cell takes whole pages.
pub(crate) const CELL_CLASSES: usize = 63;
/// The largest slab cell, and the largest array that lives in a slab.
pub(crate) const MAX_SLAB: u64 = 16384;
/// The number of slab classes for bucket arrays: the size codes up to 128 buckets.
pub(crate) const ARRAY_CLASSES: usize = 14;

/// The class of a cell: every 16 bytes to 256, then eight steps to a doubling.
#[inline]
pub(crate) fn class_of(bytes: u64) -> usize {
    debug_assert!(bytes <= MAX_SLAB);
    if bytes <= 256 {
        (bytes.max(32).div_ceil(16) - 2) as usize
    } else {
        let b = bytes - 1;
        let k = 63 - u64::from(b.leading_zeros());
        (15 + (k - 8) * 8 + ((b - (1 << k)) >> (k - 3))) as usize
    }
}

/// Bytes of a class: cells first, then arrays.
pub(crate) const fn class_bytes(class: usize) -> u64 {
    if class < 15 {
        (class as u64 + 2) * 16
    } else if class < CELL_CLASSES {
        let k = 8 + (class as u64 - 15) / 8;
        (1 << k) + ((class as u64 - 15) % 8 + 1) * (1 << (k - 3))
    } else {
        let code = (class - CELL_CLASSES) as u64;
        BUCKET * if code == 0 { 1 } else { (2 + ((code - 1) & 1)) << ((code - 1) >> 1) }
    }
}
const _: () = assert!(class_bytes(0) == 32 && class_bytes(14) == 256 && class_bytes(15) == 288);
const _: () = assert!(class_bytes(CELL_CLASSES - 1) == MAX_SLAB);
const _: () = assert!(class_bytes(CELL_CLASSES + ARRAY_CLASSES - 1) == MAX_SLAB || cfg!(loom));

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_the_smallest_that_fits() {
        for bytes in 1..=MAX_SLAB {
            let class = class_of(bytes);
            assert!(class_bytes(class) >= bytes, "{bytes}");
            assert!(class == 0 || class_bytes(class - 1) < bytes, "{bytes}");
            assert_eq!(class_bytes(class) % GRANULE, 0);
        }
    }

    #[test]
    fn every_position_is_at_home_in_one_bucket() {
        for code in 0..20 {
            let a = Array::new(4096, code, 0);
            assert_eq!((a.code(), a.buckets(), a.offset()), (code, buckets_of(code), 4096));
            for b in 0..a.buckets() {
                let (start, end) = (a.start_of(b), a.start_of(b + 1));
                assert_eq!(a.home(start << 32), b);
                assert_eq!(a.home((end - 1) << 32), b);
            }
            assert_eq!(a.start_of(a.buckets()), 1 << 32);
        }
    }

    #[test]
    fn extensions_do_not_overlap() {
        for flags in 0..=flag::ALL {
            let mut at = cell::FIXED;
            for bit in 0..5 {
                let which = 1 << bit;
                if flags & which != 0 {
                    assert_eq!(extension_at(flags, which), at);
                    at += if which == flag::WORDS { 4 } else { 1 };
                }
            }
            assert_eq!(Shape::short(flags << 32).key_at(), at);
        }
    }

    #[test]
    fn every_kind_has_one_number() {
        for n in 0..=255u8 {
            if let Some(kind) = Kind::from_u8(n) {
                assert_eq!(kind as u8, n);
            }
        }
    }
}
