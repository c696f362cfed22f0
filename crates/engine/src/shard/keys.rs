//! Keys of any type.
use super::{
    Shard,
    big::TABLE,
    root::{expiry, handle_of, is_big, type_of},
};
use crate::{Result, Type};
use kintsugidb_arena::{CellView, Table, hash};

/// Keys of any type.
impl Shard {
    /// The type of a key that exists.
    pub fn type_of(&self, key: &[u8]) -> Option<Type> {
        self.root(hash(key), key).and_then(|c| type_of(c.kind()))
    }

    /// Removes a key; whether it existed.
    pub fn delete(&mut self, key: &[u8]) -> bool {
        let h = hash(key);
        let existed = self.root(h, key).is_some();
        if self.history.is_hot(key) && !self.hot_whole(key, None) {
            return existed;
        }
        self.remove_root(h, key);
        self.dirty += u64::from(existed);
        existed
    }

    /// When a key expires (milliseconds since the Unix epoch); `None`: never, or no such key.
    pub fn expire_at(&self, key: &[u8]) -> Option<u64> {
        self.root(hash(key), key).and_then(|c| expiry(&c))
    }

    /// Sets or removes a key's expiry; false if there is no such key. A time in the past deletes the key.
    pub fn set_expire_at(&mut self, key: &[u8], at_ms: Option<u64>) -> Result<bool> {
        if at_ms.is_some_and(|at| at <= self.now_ms) {
            // A removal like any other, and made at this write's version: what the same transaction writes next sorts after it.
            return Ok(self.delete(key));
        }
        let h = hash(key);
        if self.history.is_hot(key) && self.root(h, key).is_some() {
            self.hot_expire(key, at_ms);
        }
        let Some(c) = self.root(h, key) else { return Ok(false) };
        let (kind, words) = (c.kind(), self.header_words(&c));
        let mut value = std::mem::take(&mut self.scratch);
        value.clear();
        // found again: the buffer was the shard's
        if let Some(c) = self.root(h, key) {
            value.extend_from_slice(c.value());
        }
        let result = self.put_root(h, key, kind, &[&value], at_ms, words);
        let handle = words.and_then(|_| handle_of(&value));
        self.scratch = value;
        result?;
        self.bigs.set_seq(handle, self.version.seq);
        self.dirty += 1;
        Ok(true)
    }

    /// The words of a header that takes over the items of this one, at the current version.
    fn header_words(&self, c: &CellView<'_>) -> Option<[u64; 4]> {
        is_big(c.kind()).then(|| {
            let words = c.words();
            [0, words[super::big::COUNT], self.version.ts, words[TABLE]]
        })
    }

    /// Gives a value another key, replacing what is there; false if there is no such key. Constant time.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<bool> {
        let (h, g) = (hash(from), hash(to));
        if from != to && (self.history.is_hot(from) || self.history.is_hot(to)) {
            return self.rename_hot(from, to);
        }
        let Some(c) = self.root(h, from) else { return Ok(false) };
        let (kind, words, at) = (c.kind(), self.header_words(&c), expiry(&c));
        let value = c.value().to_vec();
        self.dirty += 1;
        if from == to {
            return Ok(true);
        }
        let kept = words.and_then(|_| handle_of(&value));
        // for a moment two headers name the same table; nothing in it changes meanwhile
        if let Err(error) = self.put_root(g, to, kind, &[&value], at, words) {
            self.dirty -= 1;
            return Err(error);
        }
        self.bigs.set_seq(kept, self.version.seq);
        self.move_root(h, from, kept);
        Ok(true)
    }

    /// The same with a copy, which the versions of the two keys refer to.
    #[cold]
    fn rename_hot(&mut self, from: &[u8], to: &[u8]) -> Result<bool> {
        let Some(dump) = self.dump(from) else { return Ok(false) };
        let dirty = self.dirty;
        self.restore(to, dump)?;
        self.delete(from);
        self.dirty = dirty + 1;
        Ok(true)
    }

    /// Number of keys, expired ones that nobody has touched yet included.
    pub fn len(&self) -> usize {
        self.arena.len(Table::ROOT) - self.tombstones
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn live(&self, c: &CellView<'_>) -> bool {
        self.is_live(c.kind(), expiry(c))
    }

    /// One step over the keys: calls `f` with some of them and returns the cursor to go on from, 0 at the end. A key that
    /// exists throughout a whole scan is seen at least once.
    pub fn scan(&self, cursor: u64, f: &mut dyn FnMut(&[u8], Type)) -> u64 {
        self.arena.scan(Table::ROOT, cursor, &mut |c| {
            if let (true, Some(t)) = (self.live(&c), type_of(c.kind())) {
                f(c.key(), t);
            }
        })
    }

    /// Calls `f` with every key.
    pub fn for_each_key(&self, f: &mut dyn FnMut(&[u8], Type)) {
        self.arena.for_each(Table::ROOT, &mut |c| {
            if let (true, Some(t)) = (self.live(&c), type_of(c.kind())) {
                f(c.key(), t);
            }
        });
    }

    /// Some key, drawn at random.
    pub fn random_key(&mut self) -> Option<Vec<u8>> {
        for _ in 0..64 {
            let r = self.random();
            let c = self.arena.random(Table::ROOT, r)?;
            if self.live(&c) {
                return Some(c.key().to_vec());
            }
        }
        // nearly all have expired: the first one that has not
        let (mut cursor, mut found) = (0, None);
        loop {
            cursor = self.scan(cursor, &mut |k, _| found = found.take().or(Some(k.to_vec())));
            if found.is_some() || cursor == 0 {
                return found;
            }
        }
    }

    /// Removes every key.
    pub fn flush(&mut self) {
        self.dirty += self.len() as u64;
        if self.history_len().0 > 0 {
            let mut hot = Vec::new();
            self.for_each_key(&mut |k, _| hot.extend(self.history.is_hot(k).then(|| k.to_vec())));
            for key in hot {
                self.hot_whole(&key, None);
            }
        }
        self.arena.flush();
        self.bigs.clear();
        self.expiry.clear();
        self.tombstones = 0;
        self.arena.tick(self.now_ms);
        self.share_memory();
    }
}
