//! Lists: packed, or chunks in the owner's heap with a header that tells the length.
use super::{
    ListEnd, Shard,
    big::Found,
    chunks::Chunks,
    root::{Unpacked, is_big},
};
use crate::{
    Error, Result, Type,
    packed::{self, Entries, Shape, element_bytes},
};
use kintsugidb_arena::{CellView, hash};

/// What a change of a list works on.
enum Edit<'a> {
    Packed(&'a mut Vec<u8>),
    Big(&'a mut Chunks),
}

/// Lists.
impl Shard {
    /// Number of elements; 0 if there is no such key.
    pub fn list_len(&self, key: &[u8]) -> Result<usize> {
        self.collection_len(key, Type::List)
    }

    /// The element at `index` from the left.
    pub fn list_get(&self, key: &[u8], index: usize) -> Result<Option<&[u8]>> {
        let Some(c) = self.typed_root(key, Type::List)? else { return Ok(None) };
        Ok(match self.chunks(&c) {
            Some(l) => l.get(index),
            None => Entries::new(Shape::List, c.value()).nth(index).map(|e| e.name),
        })
    }

    /// Calls `f` with up to `count` elements from `start` on.
    pub fn list_range(&self, key: &[u8], start: usize, count: usize, f: &mut dyn FnMut(&[u8])) -> Result<()> {
        let Some(c) = self.typed_root(key, Type::List)? else { return Ok(()) };
        match self.chunks(&c) {
            Some(l) => l.from(start).take(count).for_each(f),
            None => Entries::new(Shape::List, c.value()).skip(start).take(count).for_each(|e| f(e.name)),
        }
        Ok(())
    }

    fn chunks(&self, c: &CellView<'_>) -> Option<&Chunks> {
        if is_big(c.kind()) { self.bigs.list(self.found(c).handle) } else { None }
    }

    /// Pushes `elements` one after the other to an end; the new length.
    pub fn list_push(&mut self, key: &[u8], end: ListEnd, elements: &[&[u8]]) -> Result<usize> {
        if elements.is_empty() {
            return self.list_len(key);
        }
        let bytes = elements.iter().map(|e| element_bytes(e.len())).sum();
        let largest = elements.iter().map(|e| e.len()).max().unwrap_or(0);
        self.edit_list(key, (elements.len(), bytes, largest), |edit| {
            for e in elements {
                match (end, &mut *edit) {
                    (ListEnd::Left, Edit::Big(l)) => l.push_front(e),
                    (ListEnd::Right, Edit::Big(l)) => l.push_back(e),
                    (ListEnd::Left, Edit::Packed(buf)) => {
                        packed::insert(Shape::List, buf, packed::HEAD, 0.0, e, &[]);
                    }
                    (ListEnd::Right, Edit::Packed(buf)) => packed::push(Shape::List, buf, 0.0, e, &[]),
                }
            }
            elements.len()
        })?;
        self.list_len(key)
    }

    /// Takes up to `count` elements from an end, calling `f` with each; how many.
    pub fn list_pop(
        &mut self,
        key: &[u8],
        end: ListEnd,
        count: usize,
        f: &mut dyn FnMut(&[u8]),
    ) -> Result<usize> {
        let len = self.list_len(key)?;
        let n = count.min(len);
        if n == 0 {
            return Ok(0);
        }
        let left = end == ListEnd::Left;
        self.edit_list(key, (0, 0, 0), |edit| match edit {
            Edit::Big(l) => {
                for _ in 0..n {
                    l.pop(left, f);
                }
                n
            }
            Edit::Packed(buf) => {
                let first = if left { 0 } else { len - n };
                let popped: Vec<_> = Entries::new(Shape::List, buf).skip(first).take(n).collect();
                if left {
                    popped.iter().for_each(|e| f(e.name));
                } else {
                    popped.iter().rev().for_each(|e| f(e.name));
                }
                let ends = popped.first().zip(popped.last()).map(|(a, b)| (a.start, b.end));
                if let Some((start, end)) = ends {
                    packed::cut(buf, start, end, n);
                }
                n
            }
        })
    }

    /// Replaces the element at `index`; false if there is none.
    pub fn list_set(&mut self, key: &[u8], index: usize, element: &[u8]) -> Result<bool> {
        if self.list_len(key)? <= index {
            return Ok(false);
        }
        self.edit_list(key, (0, element_bytes(element.len()), element.len()), |edit| {
            match edit {
                Edit::Big(l) => l.set(index, element),
                Edit::Packed(buf) => {
                    let at = Entries::new(Shape::List, buf).nth(index).map(|e| (e.start, e.end));
                    if let Some(at) = at {
                        packed::write(Shape::List, buf, at, 0.0, element, &[]);
                    }
                }
            }
            1
        })?;
        Ok(true)
    }

    /// Inserts before the element at `index` (the length: at the end) of a list that exists.
    pub fn list_insert(&mut self, key: &[u8], index: usize, element: &[u8]) -> Result<()> {
        let len = self.list_len(key)?;
        if len < index || len == 0 {
            return Err(Error::NoSuchKey);
        }
        self.edit_list(key, (1, element_bytes(element.len()), element.len()), |edit| {
            match edit {
                Edit::Big(l) => l.insert(index, element),
                Edit::Packed(buf) => {
                    let at = packed::offset_of(Shape::List, buf, index);
                    packed::insert(Shape::List, buf, at, 0.0, element, &[]);
                }
            }
            1
        })?;
        Ok(())
    }

    /// Removes `count` elements from `start` on (fewer if there are not so many); how many.
    pub fn list_remove_range(&mut self, key: &[u8], start: usize, count: usize) -> Result<usize> {
        let n = count.min(self.list_len(key)?.saturating_sub(start));
        if n == 0 {
            return Ok(0);
        }
        self.edit_list(key, (0, 0, 0), |edit| {
            match edit {
                Edit::Big(l) => l.remove(start, n),
                Edit::Packed(buf) => {
                    let from = packed::offset_of(Shape::List, buf, start);
                    let to = packed::offset_of(Shape::List, buf, start + n);
                    packed::cut(buf, from, to, n);
                }
            }
            n
        })
    }

    /// Removes up to `|count|` elements equal to `element`, from the left, or from the right if negative; all if 0. How many.
    pub fn list_remove_equal(&mut self, key: &[u8], count: i64, element: &[u8]) -> Result<usize> {
        let mut found = false;
        self.list_range(key, 0, usize::MAX, &mut |e| found |= e == element)?;
        if !found {
            return Ok(0);
        }
        let limit =
            if count == 0 { usize::MAX } else { usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) };
        self.edit_list(key, (0, 0, 0), |edit| match edit {
            Edit::Big(l) => l.remove_equal(element, limit, count < 0),
            Edit::Packed(buf) => {
                let mut at: Vec<_> = Entries::new(Shape::List, buf)
                    .filter(|e| e.name == element)
                    .map(|e| (e.start, e.end))
                    .collect();
                if count < 0 {
                    at.drain(..at.len().saturating_sub(limit));
                } else {
                    at.truncate(limit);
                }
                for &(start, end) in at.iter().rev() {
                    packed::cut(buf, start, end, 1);
                }
                at.len()
            }
        })
    }

    /// Changes a list by `edit`, which answers how many elements it touched. Before, it is made big if what is added (elements,
    /// their bytes, the length of the largest) does not fit a packed one.
    fn edit_list(
        &mut self,
        key: &[u8],
        (elements, bytes, largest): (usize, usize, usize),
        edit: impl FnOnce(&mut Edit<'_>) -> usize,
    ) -> Result<usize> {
        if bytes > 0 {
            self.room_for(elements, bytes)?; // the chunks of a big list are not the region's to refuse
        }
        let h = hash(key);
        if self.history.is_hot(key) {
            self.typed_root(key, Type::List)?;
            self.hot_list(key);
        }
        let mut buf = std::mem::take(&mut self.scratch);
        let opened = self.unpack(h, key, Type::List, &mut buf);
        let l = self.limits;
        let result = match opened {
            Err(error) => Err(error),
            Ok(Unpacked::Big(big)) => Ok(self.edit_big_list(h, key, big, edit)),
            Ok(Unpacked::Packed { expire_at_ms }) => {
                let fits = packed::count(&buf) + elements <= l.list_entries.min(packed::MAX_ENTRIES)
                    && buf.len() + bytes <= l.bytes
                    && largest <= l.list_value;
                if fits {
                    let n = edit(&mut Edit::Packed(&mut buf));
                    self.repack(h, key, Type::List, &buf, expire_at_ms).map(|()| n)
                } else {
                    self.draft(Type::List, &buf).and_then(|mut draft| {
                        let n = draft.list().map_or(0, |l| edit(&mut Edit::Big(l)));
                        self.publish_draft(h, key, draft, expire_at_ms).map(|()| n)
                    })
                }
            }
        };
        self.scratch = buf;
        self.dirty += *result.as_ref().unwrap_or(&0) as u64;
        result
    }

    fn edit_big_list(
        &mut self,
        h: u64,
        key: &[u8],
        big: Found,
        edit: impl FnOnce(&mut Edit<'_>) -> usize,
    ) -> usize {
        let big = self.begin_change(h, key, big);
        let done = self.bigs.edit_list(big.handle, |l| (edit(&mut Edit::Big(l)), l.len()));
        let (n, count) = done.unwrap_or((0, big.count));
        self.end_change(h, key, big, count);
        n
    }
}
