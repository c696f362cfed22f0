//! One lookup, attempt by attempt.
use super::body::Body;
use super::witness::Absence;
use super::{
    Address, Again, Busy, Descriptor, FLUSHES, GUESS, MAX_CELL, Outcome, Range, TRIES, Witness, fields,
    w0_of, word,
};
use crate::layout::{
    Array, BUCKET_WORDS, Link, PAGE, Ref, SEQ_MASK, SLOTS, Table, cell, control_link, current_link,
    entry_offset, flag, table,
};

/// Links followed in one attempt.
const HOPS: usize = 8;
/// Overflow buckets followed in one attempt.
const CHAIN: usize = 32;

#[derive(Copy, Clone, Debug)]
pub(super) enum Stage {
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
    pub(super) stage: Stage,
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
    /// How often the region had been flushed before this attempt, at least.
    flushes: u64,
    /// Further attempts would end no better: there is no such table, or the cell is too long.
    hopeless: bool,
}

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
            flushes: 0,
            hopeless: false,
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
        // What is no address in this region is no address at all.
        let _ = lookup.ask_address(address);
        lookup
    }

    /// What to read next, one after the other.
    pub fn ask(&self) -> &[Range] {
        &self.ask
    }

    /// Whether the next words may be the last ones.
    pub fn may_end(&self) -> bool {
        !matches!(self.stage, Stage::Descriptor | Stage::Bucket { .. })
    }

    /// What will tell whether the key is still what it was, if it is found where it is looked for now: at an address, in one cell.
    pub fn expected_witness(&self) -> Option<Witness> {
        match self.stage {
            Stage::Cached(Address { cell, mutable: false, flushes, .. }) => {
                Some(Witness::Present { cell, flushes, change: None })
            }
            _ => None,
        }
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
    /// [`Busy`] after too many attempts, or if no number of them would do.
    pub fn feed(&mut self, words: &[u64]) -> Result<Option<Outcome>, Busy> {
        let asked: u64 = self.ask.iter().map(|r| r.bytes / 8).sum();
        let result = if asked == words.len() as u64 { self.step(words) } else { Err(Again) };
        match result {
            Ok(end) => Ok(end),
            Err(Again) => {
                self.tries += 1;
                if self.hopeless || self.tries >= TRIES {
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
                let Descriptor([w0, ..]) = *self.descriptor.insert(Descriptor(seen));
                self.hopeless = w0 != w0_of(self.table);
                self.ask_bucket()?;
                Ok(None)
            }
            Stage::Bucket { chained } => self.on_bucket(words, chained),
            Stage::Candidate { at, entry } => self.on_candidate(words, at, entry),
            Stage::Link { first, target, hops } => self.on_link(words, first, target, hops),
            Stage::Missing => {
                let witness = Witness::Absent(self.absence());
                if witness.holds(words) { Ok(Some(Outcome::Absent(witness))) } else { Err(Again) }
            }
            Stage::Cached(address) => self.on_cached(words, address),
        }
    }

    fn ask_descriptor(&mut self) {
        self.stage = Stage::Descriptor;
        self.hopeless = self.table.offset() + 8 * table::WORDS as u64 > self.region;
        self.ask = if self.hopeless { Vec::new() } else { fields(self.table).to_vec() };
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
    fn array_again(&self) -> [Range; 2] {
        [self.which, table::W0].map(|which| self.field(which))
    }

    fn absence(&self) -> Absence {
        let Self { table, which, array, bucket, control, .. } = *self;
        Absence { table, which, array, bucket, control }
    }

    fn ask_bucket(&mut self) -> Result<(), Again> {
        let Descriptor([w0, flushes, current, old, frontier]) = self.descriptor.ok_or(Again)?;
        if w0 != w0_of(self.table) {
            return Err(Again);
        }
        let (current, old) = (Array(current), Array(old));
        self.flushes = flushes;
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

    /// Whether the array is still the table's. `seen`: what [`Lookup::array_again`] asked for.
    fn confirm(&self, seen: &[u64]) -> Result<(), Again> {
        if seen[0] == self.array.0 && seen[1] == w0_of(self.table) { Ok(()) } else { Err(Again) }
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
        self.ask = Witness::Absent(self.absence()).ask();
        Ok(None)
    }

    fn ask_candidate(&mut self, at: u64, entry: u64, bytes: u64) -> Result<(), Again> {
        self.hopeless = bytes > MAX_CELL;
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
        let this = Ref::new(offset, shape.seq());
        if shape.extension(flag::WORDS).is_some() && body.checksum_holds() {
            self.ask_address(body.address(this, self.flushes))?;
            return Ok(None);
        }
        self.on_cell(&body, this, this, 0)
    }

    fn ask_address(&mut self, address: Address) -> Result<(), Again> {
        let cell = self.cell_range(address.cell.offset(), address.bytes)?;
        self.stage = Stage::Cached(address);
        self.ask = vec![cell];
        if address.mutable {
            self.ask.push(word(address.cell.offset()));
        }
        self.ask.push(FLUSHES);
        Ok(())
    }

    fn on_cached(&mut self, words: &[u64], address: Address) -> Attempt {
        let [cell @ .., flushes] = words else { return Err(Again) };
        let (again, cell) = if address.mutable { cell.split_last().ok_or(Again)? } else { (&cell[0], cell) };
        let shape = Body::shape(cell)?.map_err(|_| Again)?;
        let body = Body { cell, shape };
        let there = *again == shape.w0 && shape.seq() == address.cell.seq() && *flushes == address.flushes;
        let as_known = shape.extension(flag::WORDS).is_some() == address.mutable;
        if !there || !as_known || !body.key_is(self.key) {
            return Err(Again);
        }
        self.flushes = address.flushes;
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
        self.hopeless = bytes > MAX_CELL;
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
        let link = body.cell[cell::LINK];
        match Link::of(link) {
            Link::Current if link == current_link(this.seq()) => {}
            Link::Invalidated => {}
            Link::To(target) if hops < HOPS => {
                self.followed += 1;
                self.ask_link(first, target, hops + 1, GUESS)?;
                return Ok(None);
            }
            Link::Current | Link::LookInIndex | Link::To(_) => return Err(Again),
        }
        Ok(Some(Outcome::Found(Box::new(body.item(this, self.flushes)?))))
    }
}
