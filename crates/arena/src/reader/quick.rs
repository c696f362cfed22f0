//! The common case of a read, by the same procedure in fewer steps: no growth, the first candidate of the preferred line, a current
//! cell without extensions. What it cannot answer says nothing at all.
use super::{Reader, Seen, read_fence};
use crate::index::{LINE_WORDS, line_candidates, preferred_line};
use crate::layout::{
    Array, Kind, Link, PAGE, PLAIN_MASK, Ref, SEQ_MASK, Table, cell, entry_offset, plain, superblock, table,
};
use crate::region::{copy_behind, words_equal};
use crate::sync::{AtomicU64, Ordering, Safeguard, kept};

/// What one attempt found, before any of it is handed out: all there is of a cell without extensions.
pub(crate) struct Quick {
    pub offset: u64,
    pub w0: u64,
    pub ts: u64,
    pub value_len: usize,
    pub flushes: u32,
    pub kind: Kind,
}

/// The line of the index that a hash prefers, as one attempt sees it, in a table that does not grow.
pub(crate) struct Line<'a> {
    slots: &'a [AtomicU64],
    /// Byte offset in the region.
    pub at: u64,
    table: &'a [AtomicU64],
    table_w0: u64,
    current: Array,
    flushes: u32,
}

/// An entry whose tag fits, and where it stands.
#[derive(Copy, Clone)]
pub(crate) struct Candidate<'a> {
    slot: &'a AtomicU64,
    pub entry: u64,
}

impl<'a> Line<'a> {
    /// The first candidate.
    #[inline(always)]
    pub fn candidate(&self, hash: u64) -> Option<Candidate<'a>> {
        let mask = line_candidates(self.slots, hash);
        if mask == 0 {
            return None;
        }
        let slot = &self.slots[mask.trailing_zeros() as usize & (LINE_WORDS - 1)];
        Some(Candidate { slot, entry: slot.load(Ordering::Acquire) })
    }
}

impl Quick {
    #[inline(always)]
    pub(crate) fn seen(&self, table: Table, start: usize) -> Seen {
        Seen {
            ts: self.ts,
            cell: Ref::new(self.offset, self.w0 & SEQ_MASK),
            expire_at_ms: 0,
            txn: None,
            value: start..start + self.value_len,
            words: None,
            table,
            flushes: self.flushes,
            seq: 0,
            kind: self.kind,
            invalidated: false,
        }
    }
}

impl Reader {
    /// One attempt at the common case, by the same procedure: no growth, the first candidate of the preferred line, a current cell
    /// without extensions. `None` says nothing at all.
    #[inline(always)]
    pub(super) fn quick<const COPY: bool>(
        &self,
        t: Table,
        hash: u64,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<Quick> {
        let line = self.line(t, hash)?;
        let candidate = line.candidate(hash)?;
        self.quick_at::<COPY>(&line, candidate, key, out)
    }

    /// The line that a hash prefers, unless the table grows.
    #[inline(always)]
    pub(crate) fn line(&self, t: Table, hash: u64) -> Option<Line<'_>> {
        let root = self.region.try_words(superblock::ROOT_AT, table::WORDS)?;
        let table = if t == Table::ROOT { root } else { self.region.try_words(t.offset(), table::WORDS)? };
        let table_w0 = t.seq() | (Kind::Table as u64) << 24;
        if table[table::W0].load(Ordering::Acquire) != table_w0 {
            return None;
        }
        let flushes = root[table::FLUSHES].load(Ordering::Acquire) as u32;
        let current = Array(table[table::CURRENT].load(Ordering::Acquire));
        if table[table::OLD].load(Ordering::Acquire) != 0 {
            return None;
        }
        let at = current.bucket_offset(current.home(hash)) + preferred_line(hash);
        Some(Line { slots: self.region.try_words(at, LINE_WORDS)?, at, table, table_w0, current, flushes })
    }

    /// Reads the cell that a candidate names. The candidate may be as old as it likes: all of it is confirmed after the cell was read.
    #[inline(always)]
    pub(crate) fn quick_at<const COPY: bool>(
        &self,
        line: &Line<'_>,
        Candidate { slot, entry }: Candidate<'_>,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<Quick> {
        if key.len() > 0xff {
            return None;
        }
        let offset = entry_offset(entry);
        let value_at = cell::FIXED + key.len().div_ceil(8);
        let head = self.region.try_words(offset, value_at)?;
        let w0 = head[cell::W0].load(Ordering::Acquire);
        if w0 & PLAIN_MASK != plain(key.len()) || offset < PAGE || !words_equal(&head[cell::FIXED..], key) {
            return None;
        }
        let value_len = (w0 >> 48) as usize;
        if COPY {
            copy_behind(self.region.try_words(offset + 8 * value_at as u64, value_len.div_ceil(8))?, out);
        }
        let ts = head[cell::TS].load(Ordering::Relaxed);
        let link = head[cell::LINK].load(Ordering::Acquire);
        read_fence();
        let confirmed = (!kept(Safeguard::ConfirmEntry) || slot.load(Ordering::Acquire) == entry)
            && (!kept(Safeguard::SecondLook) || head[cell::W0].load(Ordering::Relaxed) == w0)
            && line.table[table::CURRENT].load(Ordering::Relaxed) == line.current.0
            && line.table[table::W0].load(Ordering::Relaxed) == line.table_w0;
        let kind = Kind::from_u8((w0 >> 24) as u8)?;
        if !confirmed || Link::of(link) != Link::Current {
            return None;
        }
        if COPY {
            let length = out.len() + value_len;
            // SAFETY: `copy_behind` has written at least `value_len` bytes behind the length.
            unsafe { out.set_len(length) };
        }
        Some(Quick { offset, w0, ts, value_len, flushes: line.flushes, kind })
    }
}
