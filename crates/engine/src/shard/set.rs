//! Sets: packed, or a sub-table of members; and what collections of names have in common.
use super::{
    Shard,
    big::Found,
    draft::Draft,
    root::{Unpacked, is_big, shape},
};
use crate::{
    Result, Type,
    history::ItemValue,
    packed::{self, Entries, Shape, element_bytes},
};
use kintsugidb_arena::hash;

/// Sets.
impl Shard {
    /// Number of members.
    pub fn set_len(&self, key: &[u8]) -> Result<usize> {
        self.collection_len(key, Type::Set)
    }

    /// Whether it is a member.
    pub fn set_contains(&self, key: &[u8], member: &[u8]) -> Result<bool> {
        let Some(c) = self.typed_root(key, Type::Set)? else { return Ok(false) };
        if is_big(c.kind()) {
            return Ok(self.arena.find(self.found(&c).table, hash(member), member).is_some());
        }
        Ok(packed::find(Shape::Set, c.value(), member).is_some())
    }

    /// Adds members; how many are new.
    pub fn set_add(&mut self, key: &[u8], members: &[&[u8]]) -> Result<usize> {
        let kept;
        let members = if self.history.is_hot(key) {
            kept = self.hot_filter(key, Type::Set, members, |m| (m, Some(ItemValue::Member)))?;
            &kept[..]
        } else {
            members
        };
        let h = hash(key);
        let mut buf = std::mem::take(&mut self.scratch);
        let result = match self.unpack(h, key, Type::Set, &mut buf) {
            Ok(Unpacked::Big(big)) => {
                self.put_items(h, key, big, members.iter().map(|m| (*m, &[][..])), false)
            }
            Ok(Unpacked::Packed { expire_at_ms }) => {
                self.set_add_packed(h, key, &mut buf, expire_at_ms, members)
            }
            Err(error) => Err(error),
        };
        self.scratch = buf;
        self.dirty += *result.as_ref().unwrap_or(&0) as u64;
        result
    }

    fn set_add_packed(
        &mut self,
        h: u64,
        key: &[u8],
        buf: &mut Vec<u8>,
        expire_at_ms: Option<u64>,
        members: &[&[u8]],
    ) -> Result<usize> {
        let l = self.limits;
        let mut added = 0;
        for (i, &member) in members.iter().enumerate() {
            if packed::find(Shape::Set, buf, member).is_some() {
                continue;
            }
            let fits = member.len() <= l.set_value
                && buf.len() + element_bytes(member.len()) <= l.bytes
                && packed::count(buf) < l.set_entries.min(packed::MAX_ENTRIES);
            if !fits {
                let new = self.promote(h, key, Type::Set, buf, expire_at_ms, &mut |shard, draft| {
                    let mut new = 0;
                    for member in &members[i..] {
                        new += usize::from(shard.draft_put(draft, member, &[], 0.0)?);
                    }
                    Ok(new)
                })?;
                return Ok(added + new);
            }
            packed::push(Shape::Set, buf, 0.0, member, &[]);
            added += 1;
        }
        if added > 0 {
            self.repack(h, key, Type::Set, buf, expire_at_ms)?;
        }
        Ok(added)
    }

    /// Removes members; how many there were.
    pub fn set_remove(&mut self, key: &[u8], members: &[&[u8]]) -> Result<usize> {
        self.remove_names(key, Type::Set, members)
    }

    /// Calls `f` with every member.
    pub fn set_for_each(&self, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<()> {
        let Some(c) = self.typed_root(key, Type::Set)? else { return Ok(()) };
        if is_big(c.kind()) {
            self.arena.for_each(self.found(&c).table, &mut |i| f(i.key()));
        } else {
            Entries::new(Shape::Set, c.value()).for_each(|e| f(e.name));
        }
        Ok(())
    }

    /// One step over the members; see [`Shard::scan`].
    pub fn set_scan(&self, key: &[u8], cursor: u64, f: &mut dyn FnMut(&[u8])) -> Result<u64> {
        match self.typed_root(key, Type::Set)? {
            Some(c) if is_big(c.kind()) => {
                Ok(self.arena.scan(self.found(&c).table, cursor, &mut |i| f(i.key())))
            }
            _ => self.set_for_each(key, f).map(|()| 0),
        }
    }

    /// A member, drawn by the random number `r`.
    pub fn set_random(&self, key: &[u8], r: u64) -> Result<Option<&[u8]>> {
        let Some(c) = self.typed_root(key, Type::Set)? else { return Ok(None) };
        if is_big(c.kind()) {
            return Ok(self.arena.random(self.found(&c).table, r).map(|i| i.key()));
        }
        let nth = r as usize % packed::count(c.value()).max(1);
        Ok(Entries::new(Shape::Set, c.value()).nth(nth).map(|e| e.name))
    }
}

/// What collections have in common.
impl Shard {
    /// Entries of a collection; 0 if there is no such key.
    pub(super) fn collection_len(&self, key: &[u8], of: Type) -> Result<usize> {
        Ok(match self.typed_root(key, of)? {
            None => 0,
            Some(c) if is_big(c.kind()) => self.found(&c).count,
            Some(c) => packed::count(c.value()),
        })
    }

    /// Makes a packed collection big, with what `more` adds to it; nothing changes if that fails.
    pub(super) fn promote(
        &mut self,
        h: u64,
        key: &[u8],
        of: Type,
        entries: &[u8],
        expire_at_ms: Option<u64>,
        more: &mut dyn FnMut(&mut Self, &mut Draft) -> Result<usize>,
    ) -> Result<usize> {
        let mut draft = self.draft(of, entries)?;
        match more(self, &mut draft) {
            Ok(answer) => {
                self.publish_draft(h, key, draft, expire_at_ms)?;
                Ok(answer)
            }
            Err(error) => {
                self.drop_draft(draft);
                Err(error)
            }
        }
    }

    /// Removes fields or members; how many there were.
    pub(super) fn remove_names(&mut self, key: &[u8], of: Type, names: &[&[u8]]) -> Result<usize> {
        let kept;
        let names = if self.history.is_hot(key) {
            kept = self.hot_filter(key, of, names, |n| (n, None))?;
            &kept[..]
        } else {
            names
        };
        let h = hash(key);
        let mut buf = std::mem::take(&mut self.scratch);
        let result = match self.unpack(h, key, of, &mut buf) {
            Ok(Unpacked::Big(big)) => Ok(self.remove_items(h, key, of, big, names)),
            Ok(Unpacked::Packed { expire_at_ms }) => {
                let mut n = 0;
                for name in names {
                    if let Some((start, end)) = packed::find(shape(of), &buf, name).map(|e| (e.start, e.end))
                    {
                        packed::cut(&mut buf, start, end, 1);
                        n += 1;
                    }
                }
                let closed = if n > 0 { self.repack(h, key, of, &buf, expire_at_ms) } else { Ok(()) };
                closed.map(|()| n)
            }
            Err(error) => Err(error),
        };
        self.scratch = buf;
        self.dirty += *result.as_ref().unwrap_or(&0) as u64;
        result
    }

    fn remove_items(&mut self, h: u64, key: &[u8], of: Type, big: Found, names: &[&[u8]]) -> usize {
        let present = |shard: &Self| names.iter().any(|n| shard.arena.find(big.table, hash(n), n).is_some());
        if !present(self) {
            return 0;
        }
        let mut n = 0;
        let big = self.begin_change(h, key, big);
        for name in names {
            if of == Type::Zset {
                self.unorder(big, name);
            }
            n += usize::from(self.arena.remove(big.table, hash(name), name));
        }
        self.end_change(h, key, big, big.count - n.min(big.count));
        n
    }
}
