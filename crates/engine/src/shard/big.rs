//! The owner's part of big collections, and the changes of their items.
use super::{
    Shard,
    chunks::Chunks,
    order::Order,
    root::{expiry, handle_of},
};
use crate::{Error, Result, Type};
use kintsugidb_arena::{Arena, CellView, Kind, NewCell, Ref, Table, hash};

/// The words of a header, besides the change word at 0.
pub(crate) const COUNT: usize = 1;
pub(crate) const MODIFIED: usize = 2;
pub(crate) const TABLE: usize = 3;

/// What a big collection has in the owner's heap.
pub(super) enum Heap {
    /// Nothing: a hash or a set.
    Nothing,
    /// A list's elements.
    List(Chunks),
    /// A sorted set's order; the references are to the members' cells.
    Order(Order<Ref>),
}

/// One big collection.
pub(super) struct Big {
    /// The second half of the version of its last change.
    pub seq: u32,
    /// Its items; none for a list.
    pub table: Option<Table>,
    pub heap: Heap,
}

/// A big collection that was found: its header and its handle.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub header: Ref,
    pub handle: usize,
    /// Its items; meaningless for a list.
    pub table: Table,
    pub count: usize,
}

/// All big collections of a shard, by handle.
#[derive(Default)]
pub(super) struct Bigs {
    slots: Vec<Option<Big>>,
    free: Vec<usize>,
    /// Heaps of deleted collections, freed a little at each tick.
    garbage: Vec<Heap>,
    bytes: usize,
}

impl Heap {
    fn bytes(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::List(l) => l.bytes(),
            Self::Order(o) => o.bytes(),
        }
    }

    fn shrink(&mut self, chunks: usize) -> usize {
        match self {
            Self::Nothing => 0,
            Self::List(l) => l.shrink(chunks),
            Self::Order(o) => o.shrink(chunks),
        }
    }
}

impl Bigs {
    /// Bytes of the heap.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + (self.slots.len() - self.free.len()) * size_of::<Option<Big>>()
    }

    pub(super) fn add(&mut self, big: Big) -> usize {
        self.bytes += big.heap.bytes();
        let handle = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[handle] = Some(big);
        handle
    }

    pub(super) fn remove(&mut self, handle: usize) -> Option<Table> {
        let big = self.slots.get_mut(handle)?.take()?;
        self.free.push(handle);
        if big.heap.bytes() > 0 {
            self.garbage.push(big.heap);
            self.sweep(4);
        }
        big.table
    }

    pub(super) fn at(&self, handle: usize) -> Option<&Big> {
        self.slots.get(handle)?.as_ref()
    }

    pub(super) fn list(&self, handle: usize) -> Option<&Chunks> {
        match &self.at(handle)?.heap {
            Heap::List(l) => Some(l),
            _ => None,
        }
    }

    pub(super) fn order(&self, handle: usize) -> Option<&Order<Ref>> {
        match &self.at(handle)?.heap {
            Heap::Order(o) => Some(o),
            _ => None,
        }
    }

    /// Changes a list.
    pub(super) fn edit_list<R>(&mut self, handle: usize, edit: impl FnOnce(&mut Chunks) -> R) -> Option<R> {
        match &mut self.slots.get_mut(handle)?.as_mut()?.heap {
            Heap::List(l) => {
                let before = l.bytes();
                let answer = edit(l);
                self.bytes = self.bytes + l.bytes() - before;
                Some(answer)
            }
            _ => None,
        }
    }

    /// Changes an order; `edit` answers by how many bytes it has grown.
    pub(super) fn edit_order(&mut self, handle: usize, edit: impl FnOnce(&mut Order<Ref>) -> isize) {
        if let Some(Some(Big { heap: Heap::Order(o), .. })) = self.slots.get_mut(handle) {
            self.bytes = self.bytes.saturating_add_signed(edit(o));
        }
    }

    pub(super) fn set_seq(&mut self, handle: Option<usize>, seq: u32) {
        if let Some(Some(big)) = handle.and_then(|h| self.slots.get_mut(h)) {
            big.seq = seq;
        }
    }

    /// Frees up to `chunks` chunks of what deleted collections held.
    pub(super) fn sweep(&mut self, chunks: usize) {
        if let Some(heap) = self.garbage.last_mut() {
            self.bytes -= heap.shrink(chunks);
            if heap.bytes() == 0 {
                self.garbage.pop();
            }
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The kind of the header of a big collection.
pub(super) fn big_kind(of: Type) -> Kind {
    match of {
        Type::String => Kind::String,
        Type::List => Kind::BigList,
        Type::Hash => Kind::BigHash,
        Type::Set => Kind::BigSet,
        Type::Zset => Kind::BigZset,
    }
}

/// A score as an item's value.
pub(crate) fn score_of(item: &CellView<'_>) -> f64 {
    item.value().first_chunk().map_or(0.0, |b| f64::from_le_bytes(*b))
}

/// The member whose cell this is.
pub(super) fn name_of(arena: &Arena, cell: Ref) -> &[u8] {
    arena.view(cell).map_or(&[], |c| c.key())
}

/// Big collections that are published.
impl Shard {
    pub(super) fn found(&self, header: &CellView<'_>) -> Found {
        let words = header.words();
        Found {
            header: header.cell(),
            handle: handle_of(header.value()).unwrap_or(usize::MAX),
            table: Table::from_raw(words[TABLE]),
            count: words[COUNT] as usize,
        }
    }

    /// Frees what a big collection held.
    pub(super) fn drop_big(&mut self, handle: usize) {
        if let Some(table) = self.bigs.remove(handle) {
            self.arena.drop_table(table);
        }
    }

    /// Publishes an item; its cell, and whether it is new.
    pub(super) fn put_item(&mut self, table: Table, name: &[u8], value: &[u8]) -> Result<(Ref, bool)> {
        let h = hash(name);
        let new = self.arena.find(table, h, name).is_none();
        let item = NewCell {
            kind: Kind::Item,
            key: name,
            value: &[value],
            ts: self.version.ts,
            seq: self.version.seq,
            ..NewCell::default()
        };
        let cell = self.arena.publish(table, h, &item).map_err(|_| Error::OutOfMemory)?;
        Ok((cell, new))
    }

    /// Publishes items, names and values, of a big collection; how many of them are new. What is there is replaced, or left alone.
    pub(super) fn put_items<'a>(
        &mut self,
        h: u64,
        key: &[u8],
        big: Found,
        items: impl ExactSizeIterator<Item = (&'a [u8], &'a [u8])> + Clone,
        replace: bool,
    ) -> Result<usize> {
        if items.len() > 1 {
            self.room_for(items.len(), items.clone().map(|(name, value)| name.len() + value.len()).sum())?;
        }
        let (mut added, mut changed) = (0, false);
        let mut result = Ok(());
        let big = self.begin_change(h, key, big);
        for (name, value) in items {
            if !replace && self.arena.find(big.table, hash(name), name).is_some() {
                continue;
            }
            match self.put_item(big.table, name, value) {
                Ok((_, new)) => {
                    added += usize::from(new);
                    changed = true;
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        if changed {
            self.end_change(h, key, big, big.count + added);
        } else {
            self.cancel_change(big);
        }
        result.map(|()| added)
    }

    /// Whether items of so many bytes in all, names and values, fit; so that a change of several is not left half done.
    pub(super) fn room_for(&self, items: usize, bytes: usize) -> Result<()> {
        if self.memory_limit == 0 || self.txn.is_some() || self.lifted {
            return Ok(());
        }
        // a cell's header, padding and checksum, the waste of its slab class, its share of a growing index, a fresh page
        let need = bytes + bytes / 8 + items * 112 + 16384;
        if self.memory().used + need > self.memory_limit { Err(Error::OutOfMemory) } else { Ok(()) }
    }

    /// Begins a change of a big collection; readers wait for its end. From here on its header is that of the answer.
    pub(super) fn begin_change(&mut self, h: u64, key: &[u8], mut big: Found) -> Found {
        if self.txn.is_some() {
            big = self.sign(h, key, big);
        }
        self.arena.begin_change(big.header);
        big
    }

    /// Within a transaction: gives a big collection a header that names the transaction, so that readers wait for the end of all
    /// of it, and can tell that they have seen a part. Not if there is no memory at all.
    #[cold]
    fn sign(&mut self, h: u64, key: &[u8], big: Found) -> Found {
        let Ok(record) = self.txn_record() else { return big };
        let Some(c) = self.root(h, key) else { return big };
        if c.txn() == record {
            return big;
        }
        let (kind, words, at, value) = (c.kind(), c.words(), expiry(&c), c.value().to_vec());
        let words = [0, words[COUNT], words[MODIFIED], words[TABLE]];
        match self.put_root(h, key, kind, &[&value], at, Some(words)) {
            Ok(()) => self.root(h, key).map_or(big, |c| self.found(&c)),
            Err(_) => big,
        }
    }

    /// Ends a change that came to nothing.
    pub(super) fn cancel_change(&mut self, big: Found) {
        self.arena.end_change(big.header);
    }

    /// Ends a change, after which there are `count` items. A collection without any goes.
    pub(super) fn end_change(&mut self, h: u64, key: &[u8], big: Found, count: usize) {
        if count == 0 {
            // its change word stays odd
            self.remove_root(h, key);
        } else {
            self.arena.set_word(big.header, COUNT, count as u64);
            self.arena.set_word(big.header, MODIFIED, self.version.ts);
            self.bigs.set_seq(Some(big.handle), self.version.seq);
            self.arena.end_change(big.header);
        }
        if self.memory_limit != 0 {
            self.share_memory();
        }
    }
}
