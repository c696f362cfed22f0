//! The invariants, checked from scratch: every byte is accounted for exactly once. For tests; slow.

use crate::cell::shape_at;
use crate::grow::hash_of;
use crate::heap::Use;
use crate::index::{self, Descriptor};
use crate::layout::{
    BUCKET, INVALIDATED, Kind, PAGE, Ref, Table, cell, control_link, current_link, entry_offset, superblock,
    table,
};
use crate::owner::Arena;
use crate::sync::Ordering;
use std::collections::BTreeMap;

struct Ledger {
    /// Start to (end, what).
    claims: BTreeMap<u64, (u64, &'static str)>,
    live: u64,
    index: u64,
}

impl Ledger {
    fn claim(&mut self, start: u64, bytes: u64, what: &'static str) -> Result<(), String> {
        match self.claims.insert(start, (start + bytes, what)) {
            None => Ok(()),
            Some((_, before)) => Err(format!("offset {start} is claimed as {before} and as {what}")),
        }
    }
    fn disjoint(&self) -> Result<(), String> {
        let mut last = (0, "nothing");
        for (&start, &(end, what)) in &self.claims {
            if start < last.0 {
                return Err(format!("{what} at {start} overlaps {} that ends at {}", last.1, last.0));
            }
            last = (end, what);
        }
        Ok(())
    }
}

impl Arena {
    /// Walks everything and compares it with the counters.
    pub fn check(&self) -> Result<(), String> {
        let mut ledger = Ledger { claims: BTreeMap::new(), live: 0, index: 0 };
        self.check_table(Table::ROOT, &mut ledger)?;
        let mut previous = superblock::ROOT_AT;
        let mut at = self.region.load(previous + 8 * table::NEXT as u64, Ordering::Relaxed);
        while at != 0 {
            let w0 = self.region.load(at, Ordering::Relaxed);
            let d = Descriptor::load(&self.region, at);
            if d.word(&self.region, table::PREVIOUS) != previous {
                return Err(format!("the list of tables is broken at {at}"));
            }
            self.claim_cell(&mut ledger, at, 64, "descriptor")?;
            self.check_table(Table(Ref::new(at, w0).to_raw()), &mut ledger)?;
            previous = at;
            at = d.word(&self.region, table::NEXT);
        }
        self.check_drops(&mut ledger)?;
        for &spare in &self.spare {
            self.claim_index(&mut ledger, spare, BUCKET)?;
        }
        self.claim_loose(&mut ledger)?;
        let mut waiting = 0;
        for place in &self.heap.limbo {
            let bytes = place.bytes(&self.heap);
            waiting += bytes;
            ledger.claim(place.offset, bytes, "limbo")?;
        }
        ledger.disjoint()?;
        let counted = (ledger.live, ledger.index, waiting);
        let kept = (self.heap.live, self.heap.index, self.heap.waiting);
        if counted != kept {
            return Err(format!("live, index, limbo: counted {counted:?}, kept {kept:?}"));
        }
        self.check_slab(&mut ledger)?;
        ledger.disjoint()?;
        self.check_pages(&ledger)
    }

    fn claim_cell(&self, ledger: &mut Ledger, at: u64, bytes: u64, what: &'static str) -> Result<(), String> {
        let size = self.heap.rounded(bytes, Use::Cell);
        ledger.live += size;
        ledger.claim(at, size, what)
    }

    fn claim_index(&self, ledger: &mut Ledger, at: u64, bytes: u64) -> Result<(), String> {
        let size = self.heap.rounded(bytes, Use::Index);
        ledger.index += size;
        ledger.claim(at, size, "index")
    }

    fn claim_chain(&self, ledger: &mut Ledger, home: u64) -> Result<(), String> {
        let mut chain = control_link(self.region.load(home, Ordering::Relaxed));
        while chain != 0 {
            self.claim_index(ledger, chain, BUCKET)?;
            chain = control_link(self.region.load(chain, Ordering::Relaxed));
        }
        Ok(())
    }

    fn check_table(&self, t: Table, ledger: &mut Ledger) -> Result<(), String> {
        let d = self.descriptor(t).ok_or_else(|| format!("{t:?} has no descriptor"))?;
        for array in [d.old, d.current].into_iter().filter(|a| a.0 != 0) {
            self.claim_index(ledger, array.offset(), array.bytes())?;
        }
        let mut homes = Vec::new();
        self.for_each_bucket(&d, &mut |home| homes.push(home));
        let mut entries = 0;
        for home in homes {
            let mut cells = Vec::new();
            index::for_each_in_chain(&self.region, home, &mut |slot| cells.push(entry_offset(slot.entry)));
            for offset in cells {
                let shape = shape_at(&self.region, offset);
                let hash = hash_of(&self.region, offset);
                if d.home(&self.region, hash) != home {
                    return Err(format!("the cell at {offset} is not at home"));
                }
                let link = self.region.load(offset + 8 * cell::LINK as u64, Ordering::Relaxed);
                if shape.seq() & 1 != 0 || !(link == current_link(shape.seq()) || link == INVALIDATED) {
                    return Err(format!("the index leads to the cell at {offset}, which is not current"));
                }
                if !self.reader().checksum_holds(Ref::new(offset, shape.seq())) {
                    return Err(format!("the checksum of the cell at {offset} is wrong"));
                }
                self.claim_cell(ledger, offset, 8 * shape.words() as u64, "cell")?;
                entries += 1;
            }
            self.claim_chain(ledger, home)?;
        }
        if entries != self.len(t) {
            return Err(format!("{t:?} counts {} entries and has {entries}", self.len(t)));
        }
        Ok(())
    }

    fn check_drops(&self, ledger: &mut Ledger) -> Result<(), String> {
        for job in &self.drops {
            if job.descriptor() != 0 {
                self.claim_cell(ledger, job.descriptor(), 64, "dropped descriptor")?;
            }
            for (array, first) in job.remaining() {
                self.claim_index(ledger, array.offset(), array.bytes())?;
                for bucket in first..array.buckets() {
                    let home = array.bucket_offset(bucket);
                    let mut cells = Vec::new();
                    index::for_each_in_chain(&self.region, home, &mut |slot| {
                        cells.push(entry_offset(slot.entry))
                    });
                    for offset in cells {
                        let bytes = 8 * shape_at(&self.region, offset).words() as u64;
                        self.claim_cell(ledger, offset, bytes, "dropped cell")?;
                    }
                    self.claim_chain(ledger, home)?;
                }
            }
        }
        Ok(())
    }

    /// Transaction records: live cells of slabs that no index leads to.
    fn claim_loose(&self, ledger: &mut Ledger) -> Result<(), String> {
        let waiting: std::collections::BTreeSet<u64> =
            self.heap.limbo.iter().map(|place| place.offset).collect();
        for span in self
            .heap
            .slab
            .spans
            .iter()
            .filter(|s| s.in_use && usize::from(s.class) < crate::layout::CELL_CLASSES)
        {
            let bytes = self.heap.slab.classes[usize::from(span.class)].bytes;
            for place in 0..u64::from(span.fresh) {
                let offset = span.page * PAGE + place * bytes;
                let shape = shape_at(&self.region, offset);
                if shape.seq() & 1 == 0 && shape.kind() == Some(Kind::Txn) && !waiting.contains(&offset) {
                    self.claim_cell(ledger, offset, bytes, "transaction record")?;
                }
            }
        }
        Ok(())
    }

    /// Every place of every span is free, fresh or claimed.
    fn check_slab(&self, ledger: &mut Ledger) -> Result<(), String> {
        for span in self.heap.slab.spans.iter().filter(|s| s.in_use) {
            let class = usize::from(span.class);
            let bytes = self.heap.slab.classes[class].bytes;
            let mut free = span.free;
            let mut count = 0;
            while free != 0 {
                ledger.claim(free, bytes, "free place")?;
                count += 1;
                free = self.region.load(free + 8 * cell::LINK as u64, Ordering::Relaxed) * 16;
            }
            if span.taken + count != span.fresh {
                return Err(format!(
                    "a span of {bytes} has {} taken, {count} free, {} used",
                    span.taken, span.fresh
                ));
            }
            for place in 0..u64::from(span.fresh) {
                let offset = span.page * PAGE + place * bytes;
                match ledger.claims.get(&offset) {
                    Some(&(end, _)) if end == offset + bytes => {}
                    other => return Err(format!("the place at {offset} of {bytes} is claimed as {other:?}")),
                }
            }
            let used = u64::from(span.fresh) * bytes;
            let all = self.heap.slab.span_pages(span) * PAGE;
            if used < all {
                ledger.claim(span.page * PAGE + used, all - used, "fresh places")?;
            }
            debug_assert!(span.fresh <= self.heap.slab.places(class));
        }
        Ok(())
    }

    /// The claims and the free pages cover the region up to the high-water mark, without a gap.
    fn check_pages(&self, ledger: &Ledger) -> Result<(), String> {
        let pages = &self.heap.slab.pages;
        let mut claims = ledger.claims.clone();
        claims.insert(0, (PAGE, "superblock"));
        let mut free = 0;
        for (start, count) in pages.free_runs() {
            free += count;
            if claims.insert(start * PAGE, ((start + count) * PAGE, "free pages")).is_some() {
                return Err(format!("page {start} is free and claimed"));
            }
        }
        let mut at = 0;
        for (&start, &(end, what)) in &claims {
            if start != at {
                return Err(format!("bytes {at} to {start}, before {what}, belong to nobody or to two"));
            }
            at = end;
        }
        if at != pages.top() * PAGE || pages.used() + free != pages.top() {
            return Err(format!("{at} bytes, {} pages used, {free} free, top {}", pages.used(), pages.top()));
        }
        Ok(())
    }
}
