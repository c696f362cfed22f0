//! What is read besides keys: whether an answer still holds, transactions' records, the words of big collections, counts.
use super::{LARGE, Reader, Seen, Witness, read_fence};
use crate::layout::{
    Array, Kind, Link, Ref, SEQ_MASK, Shape, Table, cell, current_link, flag, superblock, table,
};
use crate::region::append;
use crate::sync::{AtomicU64, Ordering, Safeguard, fence, kept};

impl Reader {
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
        let freed = Link::of(words[cell::LINK].load(Ordering::Acquire)) != Link::Current;
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

    /// The table of prepared versions; `None`: nothing has ever been prepared for readers to see. It may have been dropped since.
    #[inline]
    pub fn prepared(&self) -> Option<Table> {
        let raw = self.region.try_words(superblock::PREPARED_AT, 1)?[0].load(Ordering::Acquire);
        (raw != 0).then(|| Table::from_raw(raw))
    }

    /// The epoch in the superblock.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.region.try_words(superblock::EPOCH_AT, 1).map_or(0, |word| word[0].load(Ordering::Acquire))
    }

    pub(super) fn holds(&self, witness: &Witness) -> bool {
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
            return w0 & SEQ_MASK == cell.seq()
                && link == current_link(cell.seq())
                && head[cell::W0].load(Ordering::Relaxed) == w0;
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
}
