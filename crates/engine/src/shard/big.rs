//! The owner's part of big collections, and the changes of their items.
use super::{Shard, ZAdded, chunks::Chunks, order::Order, root::handle_of};
use crate::{Error, Result, Type, packed};
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

/// A big collection that nobody sees yet.
pub(super) struct Draft {
    of: Type,
    table: Option<Table>,
    heap: Heap,
    count: usize,
}

impl Draft {
    pub(super) fn list(&mut self) -> Option<&mut Chunks> {
        match &mut self.heap {
            Heap::List(l) => Some(l),
            _ => None,
        }
    }
}

/// Big collections before they are published.
impl Shard {
    /// A draft with the entries of a packed collection.
    pub(super) fn draft(&mut self, of: Type, entries: &[u8]) -> Result<Draft> {
        let heap = match of {
            Type::List => Heap::List(Chunks::default()),
            Type::Zset => Heap::Order(Order::new()),
            _ => Heap::Nothing,
        };
        let table = if of == Type::List { None } else { Some(self.new_table(2 * packed::count(entries))?) };
        let mut draft = Draft { of, table, heap, count: 0 };
        for e in packed::Entries::new(super::root::shape(of), entries) {
            if let Err(error) = self.draft_put(&mut draft, e.name, e.value, e.score) {
                self.drop_draft(draft);
                return Err(error);
            }
        }
        Ok(draft)
    }

    fn new_table(&mut self, capacity: usize) -> Result<Table> {
        self.arena.new_table(capacity).map_err(|_| Error::OutOfMemory)
    }

    /// Adds an entry, or replaces the one of this name (a list's is appended); whether it is new.
    pub(super) fn draft_put(
        &mut self,
        draft: &mut Draft,
        name: &[u8],
        value: &[u8],
        score: f64,
    ) -> Result<bool> {
        let mut new = true;
        match (&mut draft.heap, draft.table) {
            (Heap::List(l), _) => l.push_back(name),
            (Heap::Nothing, Some(table)) => new = self.put_item(table, name, value)?.1,
            (Heap::Order(_), Some(_)) => new = self.draft_score(draft, score, name)? == ZAdded::Added,
            (_, None) => {}
        }
        if draft.of != Type::Zset {
            // a list's is its length, a sorted set's was counted with the score
            draft.count += usize::from(new);
        }
        Ok(new)
    }

    /// Sets the score of a member of a sorted set's draft.
    pub(super) fn draft_score(&mut self, draft: &mut Draft, score: f64, member: &[u8]) -> Result<ZAdded> {
        let (Heap::Order(order), Some(table)) = (&mut draft.heap, draft.table) else {
            return Ok(ZAdded::Same);
        };
        let old = self.arena.find(table, hash(member), member).map(|c| score_of(&c));
        if old == Some(score) {
            return Ok(ZAdded::Same);
        }
        if let Some(was) = old {
            let arena = &self.arena;
            order.remove(|s, r| s < was || s == was && name_of(arena, r) < member);
        }
        let (cell, _) = self.put_item(table, member, &score.to_le_bytes())?;
        let arena = &self.arena;
        order.insert(score, cell, |s, r| s < score || s == score && name_of(arena, r) < member);
        draft.count += usize::from(old.is_none());
        Ok(if old.is_none() { ZAdded::Added } else { ZAdded::Updated })
    }

    /// Makes a draft the value of a key.
    pub(super) fn publish_draft(
        &mut self,
        h: u64,
        key: &[u8],
        draft: Draft,
        expire_at_ms: Option<u64>,
    ) -> Result<()> {
        let Draft { of, table, heap, mut count } = draft;
        if let Heap::List(l) = &heap {
            count = l.len();
        }
        let words = [0, count as u64, self.version.ts, table.map_or(0, Table::to_raw)];
        let handle = self.bigs.add(Big { seq: self.version.seq, table, heap });
        let value = &(handle as u64).to_le_bytes()[..];
        let result = self.put_root(h, key, big_kind(of), &[value], expire_at_ms, Some(words));
        if result.is_err() {
            self.drop_big(handle);
        }
        self.share_memory();
        result
    }

    pub(super) fn drop_draft(&mut self, draft: Draft) {
        if let Some(table) = draft.table {
            self.arena.drop_table(table);
        }
    }
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

    /// Whether items of so many bytes in all, names and values, fit; so that a change of several is not left half done.
    pub(super) fn room_for(&self, items: usize, bytes: usize) -> Result<()> {
        if self.memory_limit == 0 || self.txn.is_some() || self.lifted {
            return Ok(());
        }
        // a cell's header, padding and checksum, the waste of its slab class, its share of a growing index, a fresh page
        let need = bytes + bytes / 8 + items * 112 + 16384;
        if self.memory().used + need > self.memory_limit { Err(Error::OutOfMemory) } else { Ok(()) }
    }

    /// Begins a change of a big collection; readers wait for its end.
    pub(super) fn begin_change(&mut self, big: Found) {
        self.arena.begin_change(big.header);
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
