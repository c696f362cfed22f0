//! Items of collections, packed or big.
use super::{Again, Attempt, PointReader, part::score_of};
use crate::{Error, Result, Type, fingerprint_with, packed, shard};
use kintsugidb_arena::{Seen, Table};
use std::ops::Range;

/// An item that was found: where its value is in the buffer, and its score.
pub(super) struct Item {
    pub value: Range<usize>,
    pub score: f64,
}

impl PointReader {
    /// The root cell of a collection of this type.
    pub(super) fn collection(&mut self, shard: usize, key: &[u8], of: Type) -> Attempt<Result<Option<Seen>>> {
        Ok(match self.root(shard, key)? {
            None => Ok(None),
            Some(seen) if shard::type_of(seen.kind) == Some(of) => Ok(Some(seen)),
            Some(_) => Err(Error::WrongType),
        })
    }

    /// Calls `f` with each of the items of these names, as they were together at one moment.
    pub(super) fn items(
        &mut self,
        shard: usize,
        key: &[u8],
        of: Type,
        names: &[&[u8]],
        f: &mut dyn FnMut(&[u8], Option<Item>),
    ) -> Attempt<Result<()>> {
        let root = match self.collection(shard, key, of)? {
            Err(error) => return Ok(Err(error)),
            Ok(root) => root,
        };
        let Some(root) = root else {
            names.iter().for_each(|_| f(&[], None));
            return Ok(Ok(()));
        };
        if !shard::is_big(root.kind) {
            let bytes = &self.buf[root.value.clone()];
            for name in names {
                let found = packed::find(shard::shape(of), bytes, name).map(|e| {
                    let end = root.value.start + e.end;
                    Item { value: end - e.value.len()..end, score: e.score }
                });
                f(&self.buf, found);
            }
            return Ok(Ok(()));
        }
        let reader = &self.readers[shard];
        let change = reader.seqlock_begin(&root).ok_or(Again::Changed)?;
        // The items may be newer than the root cell was when it was read.
        self.clock = self.clock.max(reader.word(&root, shard::MODIFIED));
        let table = Table::from_raw(root.words()[shard::TABLE]);
        for name in names {
            let item = reader.read(table, fingerprint_with(self.seed, name), name, &mut self.buf)?;
            let found = item.map(|i| Item { score: score_of(&self.buf[i.value.clone()]), value: i.value });
            f(&self.buf, found);
        }
        if reader.seqlock_validate(&root, change) { Ok(Ok(())) } else { Err(Again::Changed) }
    }

    /// The number of entries of a collection.
    pub(super) fn len(&mut self, shard: usize, key: &[u8], of: Type) -> Attempt<Result<usize>> {
        let root = match self.collection(shard, key, of)? {
            Err(error) => return Ok(Err(error)),
            Ok(root) => root,
        };
        Ok(Ok(match root {
            None => 0,
            Some(root) if shard::is_big(root.kind) => {
                let reader = &self.readers[shard];
                let change = reader.seqlock_begin(&root).ok_or(Again::Changed)?;
                let count = reader.word(&root, shard::COUNT);
                self.clock = self.clock.max(reader.word(&root, shard::MODIFIED));
                if !reader.seqlock_validate(&root, change) {
                    return Err(Again::Changed);
                }
                count as usize
            }
            Some(root) => packed::count(&self.buf[root.value]),
        }))
    }
}
