//! One attempt at a read, in all its cases: the steps are those of the essay in `reader.rs`.
use super::quick::Quick;
use super::{Answer, LARGE, Reader, Seen, Witness, read_fence};
use crate::index::{candidates, preferred_candidates};
use crate::layout::{
    Array, BUCKET_WORDS, Kind, LOOK_IN_INDEX, Link, PAGE, Ref, Shape, Table, cell, control_link,
    entry_offset, extension_at, flag, superblock, table,
};
use crate::region::{append, words_equal};
use crate::sync::{AtomicU64, Ordering, Safeguard, fence, kept};

/// Links followed in one attempt.
const HOPS: usize = if cfg!(loom) { 2 } else { 16 };
/// Overflow buckets followed in one attempt.
const CHAIN: usize = if cfg!(loom) { 2 } else { 256 };

/// The same of any cell, or of none.
pub(super) struct Hit {
    pub quick: Quick,
    pub extensions: Extensions,
    pub absent: Option<Witness>,
    pub invalidated: bool,
}

#[derive(Default)]
pub(super) struct Extensions {
    used: bool,
    expire_at_ms: u64,
    seq: u32,
    txn: Option<Ref>,
    words: Option<Box<[u64; 4]>>,
}

/// Begin again.
pub(super) struct Again;

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

impl Hit {
    pub fn seen(self, table: Table, start: usize) -> Seen {
        let Extensions { used: _, expire_at_ms, seq, txn, words } = self.extensions;
        let invalidated = self.invalidated;
        Seen { seq, expire_at_ms, txn, words, invalidated, ..self.quick.seen(table, start) }
    }
    pub fn answer(self, table: Table, start: usize) -> Answer {
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
    pub(super) fn attempt<const COPY: bool>(
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
        hit.invalidated = link == Link::Invalidated;
        let target = match link {
            Link::Current | Link::Invalidated => return Ok(Verdict::Found),
            Link::LookInIndex => None,
            Link::To(target) => Some(target),
        };
        out.truncate(start);
        match target {
            None => Ok(Verdict::Removed),
            Some(target) => self.follow::<COPY>(words, shape.w0, target, key, out, hit),
        }
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
            hit.invalidated = link == Link::Invalidated;
            match link {
                Link::Current | Link::Invalidated => return Ok(Verdict::Found),
                Link::LookInIndex => return Err(Again),
                Link::To(next) => target = next,
            }
            out.truncate(start);
        }
        Err(Again)
    }

    /// All words of a cell, as many as its lengths say, if they are within the region.
    #[inline(always)]
    pub(super) fn whole_cell(&self, offset: u64) -> Result<(&[AtomicU64], Shape), Again> {
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
    ) -> Result<Link, Again> {
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
        Ok(Link::of(words[cell::LINK].load(Ordering::Acquire)))
    }
}
