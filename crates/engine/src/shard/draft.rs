//! Big collections before anybody sees them: built whole, then published by one root cell.
use super::{
    Shard, ZAdded,
    big::{Big, Heap, big_kind, name_of, score_of},
    chunks::Chunks,
    order::Order,
    root::shape,
};
use crate::{Error, Result, Type, packed};
use kintsugidb_arena::{Table, hash};

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
        for e in packed::Entries::new(shape(of), entries) {
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
