//! Reading a region that is not mapped here: a lookup as a state machine that asks for ranges of bytes and is fed what they held.
//!
//! ```text
//!   by address   cell | its w0 again                                                 one round trip
//!   by index     (the descriptor, word by word)                                      unless it is known
//!                control word | bucket                                               one
//!                cell | entry again | w0 again | array again                         one     ... and so for every candidate
//!   link         successor | its w0 again | the first cell's w0 again                one
//!   missing      control word again | array again                                    one
//!   record       a transaction's record | its w0 again                               one
//! ```
//! The ranges of one question are to be read **one after the other**, in the order asked; words within a range can be read in any order, each
//! as a whole. (An RDMA adapter reads those of one connection in order; they can all be posted at once.) So the second look at a word
//! is later than everything before it, as in `reader.rs`, whose procedure this is. What is different:
//!
//! - There is no fence between the words of a cell: its **checksum** says whether they belong together, also where the key is another's. It does not cover the link and the
//!   mutable words; those are of the generation that `w0` named before and after, or of a time before the cell was published, when
//!   the link was 0: then the cell became current within this lookup, which is as good.
//! - A cell at a *cached address* is believed only in the cached generation: it was published before the lookup began. Through the index,
//!   the entry that leads to it is looked at again after it.
//! - Everything that is fed is bounded and checked; garbage makes the lookup begin again, at most [`TRIES`] times, then it is [`Busy`].
pub use crate::Busy;
use crate::cell::Checksum;
use crate::layout::{
    Array, BUCKET_WORDS, GRANULE, Kind, LOOK_IN_INDEX, PAGE, Ref, SEQ_MASK, SLOTS, Shape, Table, cell,
    control_link, entry_offset, flag, superblock, table,
};

/// Attempts before a lookup gives up. Each costs round trips.
pub const TRIES: usize = 8;
/// Links followed in one attempt.
const HOPS: usize = 8;
/// Overflow buckets followed in one attempt.
const CHAIN: usize = 32;
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

/// Where an item was found: the cell, its generation, and its size.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The cell and its generation.
    pub cell: Ref,
    /// Its bytes.
    pub bytes: u64,
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
    /// The mutable words; zeros if it has none.
    pub words: [u64; 4],
    /// The value.
    pub value: Vec<u8>,
    /// Where it is, for the address cache.
    pub address: Address,
}

/// A table's descriptor as it was last seen, so that the next lookup need not fetch it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Descriptor([u64; FIELDS.len()]);

/// The words of a descriptor that a lookup needs, in the order in which they have to be read: an array that is current has an old one
/// until that is empty, and the frontier only moves on. Read at once they could say "current, and no old one" of an array that
/// has just been made.
const FIELDS: [usize; 4] = [table::W0, table::CURRENT, table::OLD, table::FRONTIER];

/// How a lookup ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The key's current version.
    Found(Box<Item>),
    /// There was a moment at which the key was absent.
    Absent,
}

#[derive(Copy, Clone, Debug)]
enum Stage {
    Descriptor,
    /// The home bucket, or an overflow bucket.
    Bucket {
        chained: usize,
    },
    /// A candidate: the entry and where it stands.
    Candidate {
        at: u64,
        entry: u64,
    },
    /// The first cell, and the one that its link led to.
    Link {
        first: Ref,
        target: Ref,
        hops: usize,
    },
    Missing,
    Cached(Address),
}

/// One lookup.
#[derive(Debug)]
pub struct Lookup<'k> {
    region: u64,
    table: Table,
    hash: u64,
    key: &'k [u8],
    stage: Stage,
    ask: Vec<Range>,
    tries: usize,
    descriptor: Option<Descriptor>,
    /// The descriptor's word that names the array, the array, the home bucket and its control word.
    which: usize,
    array: Array,
    bucket: u64,
    control: u64,
    /// Candidates left in the bucket in hand, and the bucket after it.
    left: Vec<(u64, u64)>,
    next: u64,
    chained: usize,
    followed: usize,
}

/// Begin again.
struct Again;

type Attempt = Result<Option<Outcome>, Again>;

impl<'k> Lookup<'k> {
    /// Looks a key up by the index of a region of so many bytes. `descriptor`: the table's, if it has been seen.
    pub fn by_index(region: u64, t: Table, hash: u64, key: &'k [u8], descriptor: Option<Descriptor>) -> Self {
        let mut lookup = Lookup {
            region,
            table: t,
            hash,
            key,
            stage: Stage::Descriptor,
            ask: Vec::with_capacity(4),
            tries: 0,
            descriptor,
            which: table::CURRENT,
            array: Array(0),
            bucket: 0,
            control: 0,
            left: Vec::new(),
            next: 0,
            chained: 0,
            followed: 0,
        };
        if descriptor.is_none() || lookup.ask_bucket().is_err() {
            lookup.ask_descriptor();
        }
        lookup
    }

    /// Looks a key up where it was found the last time; if it is there no more, by the index.
    pub fn by_address(
        region: u64,
        t: Table,
        hash: u64,
        key: &'k [u8],
        descriptor: Option<Descriptor>,
        address: Address,
    ) -> Self {
        let mut lookup = Self::by_index(region, t, hash, key, descriptor);
        let cell = lookup.cell_range(address.cell.offset(), address.bytes);
        if let Ok(cell) = cell {
            lookup.stage = Stage::Cached(address);
            lookup.ask = vec![cell, word(address.cell.offset())];
        }
        lookup
    }

    /// What to read next, one after the other.
    pub fn ask(&self) -> &[Range] {
        &self.ask
    }

    /// The table's descriptor as it was seen last, for the next lookup.
    pub fn descriptor(&self) -> Option<Descriptor> {
        self.descriptor
    }

    /// Links that were followed.
    pub fn followed(&self) -> usize {
        self.followed
    }

    /// Attempts that had to be repeated.
    pub fn retries(&self) -> usize {
        self.tries
    }

    /// Takes the words of all ranges of [`Lookup::ask`], one range after the other; the end, if it has come to one.
    ///
    /// # Errors
    /// [`Busy`] after too many attempts.
    pub fn feed(&mut self, words: &[u64]) -> Result<Option<Outcome>, Busy> {
        let asked: u64 = self.ask.iter().map(|r| r.bytes / 8).sum();
        let result = if asked == words.len() as u64 { self.step(words) } else { Err(Again) };
        match result {
            Ok(end) => Ok(end),
            Err(Again) => {
                self.tries += 1;
                if self.tries >= TRIES {
                    return Err(Busy);
                }
                self.ask_descriptor();
                Ok(None)
            }
        }
    }

    fn step(&mut self, words: &[u64]) -> Attempt {
        match self.stage {
            Stage::Descriptor => {
                let seen = words.try_into().map_err(|_| Again)?;
                self.descriptor = Some(Descriptor(seen));
                self.ask_bucket()?;
                Ok(None)
            }
            Stage::Bucket { chained } => self.on_bucket(words, chained),
            Stage::Candidate { at, entry } => self.on_candidate(words, at, entry),
            Stage::Link { first, target, hops } => self.on_link(words, first, target, hops),
            Stage::Missing => {
                let (control, seen) = words.split_first().ok_or(Again)?;
                self.confirm(seen)?;
                // The frontier matters to what is missing only: where an entry stood, it was looked at again.
                let emptied = seen[2] > self.bucket && self.which == table::OLD;
                if *control == self.control && !emptied { Ok(Some(Outcome::Absent)) } else { Err(Again) }
            }
            Stage::Cached(address) => self.on_cached(words, address),
        }
    }

    fn ask_descriptor(&mut self) {
        self.stage = Stage::Descriptor;
        self.ask = FIELDS.map(|which| self.field(which)).to_vec();
    }

    fn within(&self, range: Range) -> Result<Range, Again> {
        let end = range.offset.checked_add(range.bytes).ok_or(Again)?;
        let fits = end <= self.region && range.offset.is_multiple_of(8) && range.bytes.is_multiple_of(8);
        if fits { Ok(range) } else { Err(Again) }
    }

    /// A cell of about so many bytes; less if the region ends before.
    fn cell_range(&self, offset: u64, bytes: u64) -> Result<Range, Again> {
        if offset < PAGE || bytes > MAX_CELL {
            return Err(Again);
        }
        let bytes = bytes.max(8 * cell::FIXED as u64).next_multiple_of(8);
        self.within(Range { offset, bytes: bytes.min(self.region.saturating_sub(offset)) })
    }

    fn field(&self, which: usize) -> Range {
        word(self.table.offset() + 8 * which as u64)
    }

    /// What [`Lookup::confirm`] looks at.
    fn array_again(&self) -> [Range; 3] {
        [self.which, table::W0, table::FRONTIER].map(|which| self.field(which))
    }

    fn ask_bucket(&mut self) -> Result<(), Again> {
        let Descriptor([w0, current, old, frontier]) = self.descriptor.ok_or(Again)?;
        if w0 != self.w0() {
            return Err(Again);
        }
        let (current, old) = (Array(current), Array(old));
        (self.which, self.array, self.bucket) = (table::CURRENT, current, current.home(self.hash));
        if old.0 != 0 && old.home(self.hash) >= frontier {
            (self.which, self.array, self.bucket) = (table::OLD, old, old.home(self.hash));
        }
        let home = self.array.bucket_offset(self.bucket);
        let bucket = self.within(Range { offset: home, bytes: 8 * BUCKET_WORDS as u64 })?;
        self.stage = Stage::Bucket { chained: 0 };
        // The control word before the entries.
        self.ask = vec![word(home), bucket];
        Ok(())
    }

    /// What a descriptor of this table begins with.
    fn w0(&self) -> u64 {
        self.table.seq() | (Kind::Table as u64) << 24
    }

    /// Whether the array is still the table's. `seen`: what [`Lookup::array_again`] asked for.
    fn confirm(&self, seen: &[u64]) -> Result<(), Again> {
        if seen[0] == self.array.0 && seen[1] == self.w0() { Ok(()) } else { Err(Again) }
    }

    fn on_bucket(&mut self, words: &[u64], chained: usize) -> Attempt {
        let words = if chained == 0 {
            self.control = words[0];
            &words[1..]
        } else {
            words
        };
        let tag = self.hash & 0xffff;
        let at = self.ask.last().ok_or(Again)?.offset;
        let all = words[1..].iter().zip(1..).filter(|(entry, _)| **entry != 0 && **entry >> 48 == tag);
        self.left = all.map(|(entry, i)| (at + 8 * i, *entry)).collect();
        debug_assert!(self.left.len() <= SLOTS);
        // The home's link as it was read before its entries.
        self.next = control_link(if chained == 0 { self.control } else { words[0] });
        self.chained = chained;
        self.next_candidate()
    }

    fn next_candidate(&mut self) -> Attempt {
        if let Some((at, entry)) = self.left.pop() {
            let bytes = match (entry & 15) * 64 {
                0 => GUESS,
                bytes => bytes,
            };
            self.ask_candidate(at, entry, bytes)?;
            return Ok(None);
        }
        if self.next != 0 {
            if self.chained >= CHAIN {
                return Err(Again);
            }
            self.stage = Stage::Bucket { chained: self.chained + 1 };
            self.ask = vec![self.within(Range { offset: self.next, bytes: 8 * BUCKET_WORDS as u64 })?];
            return Ok(None);
        }
        self.stage = Stage::Missing;
        self.ask = vec![word(self.array.bucket_offset(self.bucket))];
        self.ask.extend(self.array_again());
        Ok(None)
    }

    fn ask_candidate(&mut self, at: u64, entry: u64, bytes: u64) -> Result<(), Again> {
        let offset = entry_offset(entry);
        let cell = self.cell_range(offset, bytes)?;
        self.stage = Stage::Candidate { at, entry };
        self.ask = vec![cell, word(at), word(offset)];
        self.ask.extend(self.array_again());
        Ok(())
    }

    fn on_candidate(&mut self, words: &[u64], at: u64, entry: u64) -> Attempt {
        let n = (self.ask[0].bytes / 8) as usize;
        let (cell, again) = words.split_at(n);
        let offset = entry_offset(entry);
        self.confirm(&again[2..])?;
        if again[0] != entry || again[1] != cell[cell::W0] {
            return Err(Again);
        }
        let shape = match Body::shape(cell)? {
            Ok(shape) => shape,
            Err(bytes) => {
                self.ask_candidate(at, entry, bytes)?;
                return Ok(None);
            }
        };
        let body = Body { cell, shape };
        if !body.key_is(self.key) {
            // Or the key is torn: of who had the place in between.
            return if body.checksum_holds() { self.next_candidate() } else { Err(Again) };
        }
        let address = Ref::new(offset, shape.seq());
        self.on_cell(&body, address, address, 0)
    }

    fn on_cached(&mut self, words: &[u64], address: Address) -> Attempt {
        let (again, cell) = words.split_last().ok_or(Again)?;
        let shape = Body::shape(cell)?.map_err(|_| Again)?;
        let body = Body { cell, shape };
        if *again != shape.w0 || shape.seq() != address.cell.seq() || !body.key_is(self.key) {
            return Err(Again);
        }
        self.on_cell(&body, address.cell, address.cell, 0)
    }

    fn on_link(&mut self, words: &[u64], first: Ref, target: Ref, hops: usize) -> Attempt {
        let n = words.len() - 2;
        let (cell, again) = words.split_at(n);
        let first_is_there = again[1] & SEQ_MASK == first.seq();
        if again[0] != cell[cell::W0] || !first_is_there || again[0] & SEQ_MASK != target.seq() {
            return Err(Again);
        }
        let shape = match Body::shape(cell)? {
            Ok(shape) => shape,
            Err(bytes) => {
                self.ask_link(first, target, hops, bytes)?;
                return Ok(None);
            }
        };
        let body = Body { cell, shape };
        if !body.key_is(self.key) {
            return Err(Again);
        }
        self.on_cell(&body, first, target, hops)
    }

    fn ask_link(&mut self, first: Ref, target: Ref, hops: usize, bytes: u64) -> Result<(), Again> {
        let cell = self.cell_range(target.offset(), bytes)?;
        self.stage = Stage::Link { first, target, hops };
        self.ask = vec![cell, word(target.offset()), self.within(word(first.offset()))?];
        Ok(())
    }

    /// A whole cell with the right key.
    fn on_cell(&mut self, body: &Body<'_>, first: Ref, this: Ref, hops: usize) -> Attempt {
        if !body.checksum_holds() {
            return Err(Again);
        }
        match body.cell[cell::LINK] {
            0 => Ok(Some(Outcome::Found(Box::new(body.item(this)?)))),
            LOOK_IN_INDEX => Err(Again),
            link if hops < HOPS => {
                self.followed += 1;
                self.ask_link(first, Ref::from_raw(link), hops + 1, GUESS)?;
                Ok(None)
            }
            _ => Err(Again),
        }
    }
}

fn word(offset: u64) -> Range {
    Range { offset, bytes: 8 }
}

/// The words of a cell, as many as were fetched, at least those of its shape.
struct Body<'a> {
    cell: &'a [u64],
    shape: Shape,
}

impl Body<'_> {
    /// The shape of a cell; `Err`: so many bytes have to be fetched.
    fn shape(cell: &[u64]) -> Result<Result<Shape, u64>, Again> {
        let w0 = *cell.first().ok_or(Again)?;
        if w0 & 1 != 0 {
            return Err(Again);
        }
        let mut shape = Shape::short(w0);
        if let Some(at) = shape.extension(flag::LONG) {
            shape = Shape::long(w0, *cell.get(at).ok_or(Again)?);
        }
        let bytes = 8 * shape.words() as u64;
        match bytes {
            _ if bytes > MAX_CELL => Err(Again),
            _ if shape.words() > cell.len() => Ok(Err(bytes.next_multiple_of(GRANULE))),
            _ => Ok(Ok(shape)),
        }
    }

    fn bytes(&self, at: usize, count: usize) -> Vec<u8> {
        let words = &self.cell[at..at + count.div_ceil(8)];
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        bytes.truncate(count);
        bytes
    }

    fn key_is(&self, key: &[u8]) -> bool {
        self.shape.key_len == key.len() && self.bytes(self.shape.key_at(), key.len()) == key
    }

    fn extension(&self, which: u64) -> u64 {
        self.shape.extension(which).map_or(0, |at| self.cell[at])
    }

    fn checksum_holds(&self) -> bool {
        let mut sum = Checksum::new(self.shape.w0, self.cell[cell::TS]);
        for which in [flag::LONG, flag::EXPIRE, flag::SEQ, flag::TXN] {
            if let Some(at) = self.shape.extension(which) {
                sum.word(self.cell[at]);
            }
        }
        let mut body = self.bytes(self.shape.key_at(), self.shape.key_len);
        body.extend(self.bytes(self.shape.value_at(), self.shape.value_len));
        sum.bytes(&body);
        (self.cell[self.shape.words() - 1] >> 32) as u32 == sum.value()
    }

    fn item(&self, this: Ref) -> Result<Item, Again> {
        let words = match self.shape.extension(flag::WORDS) {
            Some(at) => self.cell[at..at + 4].try_into().map_err(|_| Again)?,
            None => [0; 4],
        };
        let txn = self.extension(flag::TXN);
        Ok(Item {
            kind: self.shape.kind().ok_or(Again)?,
            ts: self.cell[cell::TS],
            seq: self.extension(flag::SEQ) as u32,
            expire_at_ms: self.extension(flag::EXPIRE),
            txn: (txn != 0).then(|| Ref::from_raw(txn)),
            words,
            value: self.bytes(self.shape.value_at(), self.shape.value_len),
            address: Address { cell: this, bytes: 8 * self.shape.words() as u64 },
        })
    }
}

/// What a transaction's record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The transaction's name.
    pub txn: u64,
    /// What it says of its siblings.
    pub siblings: Vec<u64>,
    /// The owner is still writing.
    pub under_way: bool,
    /// All participants have committed it.
    pub stable: bool,
}

/// What to read of a transaction's record, of which so many bytes have been asked for so far (0: none).
pub fn ask_record(region: u64, record: Ref, bytes: u64) -> Option<[Range; 2]> {
    let bytes = bytes.max(GUESS).min(region.checked_sub(record.offset())?) / 8 * 8;
    ((64..=MAX_CELL).contains(&bytes) && record.offset() >= PAGE)
        .then(|| [Range { offset: record.offset(), bytes }, word(record.offset())])
}

/// Takes the words of both ranges. `Ok(None)`: the record has been freed; the transaction is stable, and long over. `Err`: so many
/// bytes are needed, or (0) it was torn.
pub fn feed_record(record: Ref, words: &[u64]) -> Result<Option<Record>, u64> {
    let (again, cell) = words.split_last().ok_or(0u64)?;
    if *again & SEQ_MASK != record.seq() || cell.first() != Some(again) {
        return Ok(None);
    }
    let shape = Body::shape(cell).map_err(|Again| 0u64)??;
    let body = Body { cell, shape };
    if shape.kind() != Some(Kind::Txn) || cell[cell::LINK] != 0 {
        return Ok(None);
    }
    let (true, Some(at)) = (body.checksum_holds(), shape.extension(flag::WORDS)) else { return Err(0) };
    let value = &cell[shape.value_at()..][..shape.value_len / 8];
    let Some((txn, siblings)) = value.split_first() else { return Err(0) };
    let (under_way, stable) = (cell[at] & 1 == 1, cell[at + 1] != 0);
    Ok(Some(Record { txn: *txn, siblings: siblings.to_vec(), under_way, stable }))
}

/// Where a region's epoch is: it moves when the owner forgets transactions.
pub const EPOCH: Range = Range { offset: superblock::EPOCH_AT, bytes: 8 };

#[cfg(test)]
#[path = "remote_tests.rs"]
mod tests;
