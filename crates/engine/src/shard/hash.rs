//! Hashes: packed, or a sub-table of fields.
use super::{
    Shard,
    root::{Unpacked, is_big},
};
use crate::{
    Result, Type,
    history::ItemValue,
    packed::{self, Entries, Shape, element_bytes},
};
use kintsugidb_arena::hash;

/// Hashes.
impl Shard {
    /// Number of fields.
    pub fn hash_len(&self, key: &[u8]) -> Result<usize> {
        self.collection_len(key, Type::Hash)
    }

    /// The value of a field.
    pub fn hash_get(&self, key: &[u8], field: &[u8]) -> Result<Option<&[u8]>> {
        let Some(c) = self.typed_root(key, Type::Hash)? else { return Ok(None) };
        if is_big(c.kind()) {
            return Ok(self.arena.find(self.found(&c).table, hash(field), field).map(|i| i.value()));
        }
        Ok(packed::find(Shape::Hash, c.value(), field).map(|e| e.value))
    }

    /// Sets fields; how many are new.
    pub fn hash_set(&mut self, key: &[u8], pairs: &[(&[u8], &[u8])]) -> Result<usize> {
        let kept;
        let pairs = if self.history.is_hot(key) {
            kept = self.hot_filter(key, Type::Hash, pairs, |(f, v)| (f, Some(ItemValue::Bytes(v.into()))))?;
            &kept[..]
        } else {
            pairs
        };
        if pairs.is_empty() {
            return self.hash_len(key).map(|_| 0);
        }
        let h = hash(key);
        let mut buf = std::mem::take(&mut self.scratch);
        let result = match self.unpack(h, key, Type::Hash, &mut buf) {
            Ok(Unpacked::Big(big)) => self.put_items(h, key, big, pairs.iter().copied(), true),
            Ok(Unpacked::Packed { expire_at_ms }) => {
                self.hash_set_packed(h, key, &mut buf, expire_at_ms, pairs)
            }
            Err(error) => Err(error),
        };
        self.scratch = buf;
        if result.is_ok() {
            self.dirty += pairs.len() as u64;
        }
        result
    }

    fn hash_set_packed(
        &mut self,
        h: u64,
        key: &[u8],
        buf: &mut Vec<u8>,
        expire_at_ms: Option<u64>,
        pairs: &[(&[u8], &[u8])],
    ) -> Result<usize> {
        let l = self.limits;
        let mut added = 0;
        for (i, &(field, value)) in pairs.iter().enumerate() {
            let old = packed::find(Shape::Hash, buf, field).map(|e| (e.start, e.end));
            let bytes = buf.len() + element_bytes(field.len()) + element_bytes(value.len())
                - old.map_or(0, |(start, end)| end - start);
            let fits = field.len() <= l.hash_value
                && value.len() <= l.hash_value
                && bytes <= l.bytes
                && (old.is_some() || packed::count(buf) < l.hash_entries.min(packed::MAX_ENTRIES));
            match old {
                _ if !fits => {
                    let new = self.promote(h, key, Type::Hash, buf, expire_at_ms, &mut |shard, draft| {
                        let mut new = 0;
                        for (field, value) in &pairs[i..] {
                            new += usize::from(shard.draft_put(draft, field, value, 0.0)?);
                        }
                        Ok(new)
                    })?;
                    return Ok(added + new);
                }
                Some(at) => packed::write(Shape::Hash, buf, at, 0.0, field, value),
                None => {
                    packed::push(Shape::Hash, buf, 0.0, field, value);
                    added += 1;
                }
            }
        }
        self.repack(h, key, Type::Hash, buf, expire_at_ms)?;
        Ok(added)
    }

    /// Removes fields; how many there were.
    pub fn hash_remove(&mut self, key: &[u8], fields: &[&[u8]]) -> Result<usize> {
        self.remove_names(key, Type::Hash, fields)
    }

    /// Calls `f` with every field and its value.
    pub fn hash_for_each(&self, key: &[u8], f: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let Some(c) = self.typed_root(key, Type::Hash)? else { return Ok(()) };
        if is_big(c.kind()) {
            self.arena.for_each(self.found(&c).table, &mut |i| f(i.key(), i.value()));
        } else {
            Entries::new(Shape::Hash, c.value()).for_each(|e| f(e.name, e.value));
        }
        Ok(())
    }

    /// One step over the fields; see [`Shard::scan`].
    pub fn hash_scan(&self, key: &[u8], cursor: u64, f: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        match self.typed_root(key, Type::Hash)? {
            Some(c) if is_big(c.kind()) => {
                Ok(self.arena.scan(self.found(&c).table, cursor, &mut |i| f(i.key(), i.value())))
            }
            _ => self.hash_for_each(key, f).map(|()| 0),
        }
    }

    /// A field and its value, drawn by the random number `r`.
    pub fn hash_random(&self, key: &[u8], r: u64) -> Result<Option<(&[u8], &[u8])>> {
        let Some(c) = self.typed_root(key, Type::Hash)? else { return Ok(None) };
        if is_big(c.kind()) {
            return Ok(self.arena.random(self.found(&c).table, r).map(|i| (i.key(), i.value())));
        }
        let nth = r as usize % packed::count(c.value()).max(1);
        Ok(Entries::new(Shape::Hash, c.value()).nth(nth).map(|e| (e.name, e.value)))
    }
}
