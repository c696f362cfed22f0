//! The plain reference of a shard: one map of whole values. It says what every operation means, for the property tests that the
//! form in the region has to agree with.
use crate::{Dump, Error, Expire, LexBound, ListEnd, Result, ScoreBound, Type, Value, Version, ZAdded};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A shard of the key space, owned by one thread.
#[derive(Debug, Default)]
pub struct Shard {
    /// The time that expiry is judged by, in milliseconds since the Unix epoch. The caller keeps it current.
    pub now_ms: u64,
    version: Version,
    keys: BTreeMap<Vec<u8>, Entry>,
    dirty: u64,
}

#[derive(Debug)]
struct Entry {
    value: Value,
    expire_at_ms: Option<u64>,
    version: Version,
}

/// Shards: life cycle and what the transaction layer needs.
impl Shard {
    /// An empty shard.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the version at which the following writes are made.
    pub fn begin_write(&mut self, version: Version) {
        self.version = version;
    }

    /// Changes made since the shard was created: elements and keys written. A command that changed nothing leaves it.
    pub fn dirty(&self) -> u64 {
        self.dirty
    }

    /// The whole value of a key.
    pub fn dump(&self, key: &[u8]) -> Option<Dump> {
        self.entry(key).map(|e| Dump { value: e.value.clone(), expire_at_ms: e.expire_at_ms })
    }

    /// Replaces the whole value of a key.
    pub fn restore(&mut self, key: &[u8], dump: Dump) -> Result<()> {
        self.put(key, dump.value, dump.expire_at_ms);
        Ok(())
    }

    fn entry(&self, key: &[u8]) -> Option<&Entry> {
        self.keys.get(key).filter(|e| e.expire_at_ms.is_none_or(|at| at > self.now_ms))
    }

    fn entry_mut(&mut self, key: &[u8]) -> Option<&mut Entry> {
        let version = self.version;
        let now = self.now_ms;
        let e = self.keys.get_mut(key).filter(|e| e.expire_at_ms.is_none_or(|at| at > now))?;
        e.version = version;
        Some(e)
    }

    fn put(&mut self, key: &[u8], value: Value, expire_at_ms: Option<u64>) {
        self.dirty += 1;
        if value.is_empty() && value.type_of() != Type::String {
            self.keys.remove(key);
        } else {
            self.keys.insert(key.to_vec(), Entry { value, expire_at_ms, version: self.version });
        }
    }

    fn drop_if_empty(&mut self, key: &[u8]) {
        if self.keys.get(key).is_some_and(|e| e.value.is_empty() && e.value.type_of() != Type::String) {
            self.keys.remove(key);
        }
    }
}

/// Keys of any type.
impl Shard {
    /// The type of a key that exists.
    pub fn type_of(&self, key: &[u8]) -> Option<Type> {
        self.entry(key).map(|e| e.value.type_of())
    }

    /// Removes a key; whether it existed.
    pub fn delete(&mut self, key: &[u8]) -> bool {
        let existed = self.entry(key).is_some();
        self.keys.remove(key);
        self.dirty += u64::from(existed);
        existed
    }

    /// When a key expires (milliseconds since the Unix epoch); `None`: never, or no such key.
    pub fn expire_at(&self, key: &[u8]) -> Option<u64> {
        self.entry(key)?.expire_at_ms
    }

    /// Sets or removes a key's expiry; false if there is no such key. A time in the past deletes the key.
    pub fn set_expire_at(&mut self, key: &[u8], at_ms: Option<u64>) -> Result<bool> {
        let now = self.now_ms;
        let Some(e) = self.entry_mut(key) else { return Ok(false) };
        e.expire_at_ms = at_ms;
        if at_ms.is_some_and(|at| at <= now) {
            self.keys.remove(key);
        }
        self.dirty += 1;
        Ok(true)
    }

    /// Gives a value another key, replacing what is there; false if there is no such key. Constant time.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<bool> {
        let Some(d) = self.dump(from) else { return Ok(false) };
        self.keys.remove(from);
        self.put(to, d.value, d.expire_at_ms);
        Ok(true)
    }

    /// Calls `f` with every key.
    pub fn for_each_key(&self, f: &mut dyn FnMut(&[u8], Type)) {
        for k in self.keys.keys() {
            if let Some(e) = self.entry(k) {
                f(k, e.value.type_of());
            }
        }
    }

    /// Removes every key.
    pub fn flush(&mut self) {
        self.dirty += self.keys.len() as u64;
        self.keys.clear();
    }
}

/// Strings.
impl Shard {
    /// The value.
    pub fn string(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        match self.entry(key).map(|e| &e.value) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s)),
            Some(_) => Err(Error::WrongType),
        }
    }

    /// Sets a key to a string, the concatenation of `parts`, whatever its type was.
    pub fn set_string(&mut self, key: &[u8], parts: &[&[u8]], expire: Expire) -> Result<()> {
        let at = match expire {
            Expire::Keep => self.expire_at(key),
            Expire::Clear => None,
            Expire::At(at) => Some(at),
        };
        self.put(key, Value::String(parts.concat()), at);
        Ok(())
    }
}

macro_rules! typed {
    ($get:ident, $get_mut:ident, $variant:ident, $ty:ty) => {
        fn $get(&self, key: &[u8]) -> Result<Option<&$ty>> {
            match self.entry(key).map(|e| &e.value) {
                None => Ok(None),
                Some(Value::$variant(v)) => Ok(Some(v)),
                Some(_) => Err(Error::WrongType),
            }
        }

        fn $get_mut(&mut self, key: &[u8]) -> Result<&mut $ty> {
            self.$get(key)?;
            if self.entry(key).is_none() {
                let e = Entry {
                    value: Value::$variant(Default::default()),
                    expire_at_ms: None,
                    version: self.version,
                };
                self.keys.insert(key.to_vec(), e);
            }
            match self.entry_mut(key).map(|e| &mut e.value) {
                Some(Value::$variant(v)) => Ok(v),
                _ => Err(Error::WrongType),
            }
        }
    };
}

/// Lists.
impl Shard {
    typed!(list, list_mut, List, VecDeque<Vec<u8>>);

    /// Number of elements; 0 if there is no such key.
    pub fn list_len(&self, key: &[u8]) -> Result<usize> {
        Ok(self.list(key)?.map_or(0, VecDeque::len))
    }

    /// The element at `index` from the left.
    pub fn list_get(&self, key: &[u8], index: usize) -> Result<Option<&[u8]>> {
        Ok(self.list(key)?.and_then(|l| l.get(index)).map(Vec::as_slice))
    }

    /// Calls `f` with up to `count` elements from `start` on.
    pub fn list_range(&self, key: &[u8], start: usize, count: usize, f: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Some(l) = self.list(key)? {
            l.iter().skip(start).take(count).for_each(|e| f(e));
        }
        Ok(())
    }

    /// Pushes `elements` one after the other to an end; the new length.
    pub fn list_push(&mut self, key: &[u8], end: ListEnd, elements: &[&[u8]]) -> Result<usize> {
        let l = self.list_mut(key)?;
        for e in elements {
            match end {
                ListEnd::Left => l.push_front(e.to_vec()),
                ListEnd::Right => l.push_back(e.to_vec()),
            }
        }
        let n = l.len();
        self.dirty += elements.len() as u64;
        Ok(n)
    }

    /// Takes up to `count` elements from an end, calling `f` with each; how many.
    pub fn list_pop(
        &mut self,
        key: &[u8],
        end: ListEnd,
        count: usize,
        f: &mut dyn FnMut(&[u8]),
    ) -> Result<usize> {
        let mut n = 0;
        if self.list(key)?.is_some() {
            let l = self.list_mut(key)?;
            while n < count {
                let e = match end {
                    ListEnd::Left => l.pop_front(),
                    ListEnd::Right => l.pop_back(),
                };
                let Some(e) = e else { break };
                f(&e);
                n += 1;
            }
            self.dirty += n as u64;
            self.drop_if_empty(key);
        }
        Ok(n)
    }

    /// Replaces the element at `index`; false if there is none.
    pub fn list_set(&mut self, key: &[u8], index: usize, element: &[u8]) -> Result<bool> {
        if self.list_len(key)? <= index {
            return Ok(false);
        }
        self.list_mut(key)?[index] = element.to_vec();
        self.dirty += 1;
        Ok(true)
    }

    /// Inserts before the element at `index` (the length: at the end) of a list that exists.
    pub fn list_insert(&mut self, key: &[u8], index: usize, element: &[u8]) -> Result<()> {
        let len = self.list_len(key)?;
        if len < index || len == 0 {
            return Err(Error::NoSuchKey);
        }
        self.list_mut(key)?.insert(index, element.to_vec());
        self.dirty += 1;
        Ok(())
    }

    /// Removes `count` elements from `start` on (fewer if there are not so many); how many.
    pub fn list_remove_range(&mut self, key: &[u8], start: usize, count: usize) -> Result<usize> {
        let len = self.list_len(key)?;
        let n = count.min(len.saturating_sub(start));
        if n > 0 {
            self.list_mut(key)?.drain(start..start + n);
            self.dirty += n as u64;
            self.drop_if_empty(key);
        }
        Ok(n)
    }

    /// Removes up to `|count|` elements equal to `element`, from the left, or from the right if negative; all if 0. How many.
    pub fn list_remove_equal(&mut self, key: &[u8], count: i64, element: &[u8]) -> Result<usize> {
        if self.list(key)?.is_none() {
            return Ok(0);
        }
        let l = self.list_mut(key)?;
        let limit =
            if count == 0 { usize::MAX } else { usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) };
        let mut at: Vec<usize> =
            l.iter().enumerate().filter(|(_, e)| *e == element).map(|(i, _)| i).collect();
        if count < 0 {
            at.reverse();
        }
        at.truncate(limit);
        at.sort_unstable();
        for &i in at.iter().rev() {
            l.remove(i);
        }
        self.dirty += at.len() as u64;
        self.drop_if_empty(key);
        Ok(at.len())
    }
}

/// Hashes.
impl Shard {
    typed!(hash, hash_mut, Hash, BTreeMap<Vec<u8>, Vec<u8>>);

    /// Number of fields.
    pub fn hash_len(&self, key: &[u8]) -> Result<usize> {
        Ok(self.hash(key)?.map_or(0, BTreeMap::len))
    }

    /// The value of a field.
    pub fn hash_get(&self, key: &[u8], field: &[u8]) -> Result<Option<&[u8]>> {
        Ok(self.hash(key)?.and_then(|h| h.get(field)).map(Vec::as_slice))
    }

    /// Sets fields; how many are new.
    pub fn hash_set(&mut self, key: &[u8], pairs: &[(&[u8], &[u8])]) -> Result<usize> {
        let h = self.hash_mut(key)?;
        let added = pairs.iter().filter(|(f, v)| h.insert(f.to_vec(), v.to_vec()).is_none()).count();
        self.dirty += pairs.len() as u64;
        Ok(added)
    }

    /// Removes fields; how many there were.
    pub fn hash_remove(&mut self, key: &[u8], fields: &[&[u8]]) -> Result<usize> {
        if self.hash(key)?.is_none() {
            return Ok(0);
        }
        let h = self.hash_mut(key)?;
        let n = fields.iter().filter(|f| h.remove(**f).is_some()).count();
        self.dirty += n as u64;
        self.drop_if_empty(key);
        Ok(n)
    }
}

/// Sets.
impl Shard {
    typed!(set, set_mut, Set, BTreeSet<Vec<u8>>);

    /// Number of members.
    pub fn set_len(&self, key: &[u8]) -> Result<usize> {
        Ok(self.set(key)?.map_or(0, BTreeSet::len))
    }

    /// Whether it is a member.
    pub fn set_contains(&self, key: &[u8], member: &[u8]) -> Result<bool> {
        Ok(self.set(key)?.is_some_and(|s| s.contains(member)))
    }

    /// Adds members; how many are new.
    pub fn set_add(&mut self, key: &[u8], members: &[&[u8]]) -> Result<usize> {
        let s = self.set_mut(key)?;
        let n = members.iter().filter(|m| s.insert(m.to_vec())).count();
        self.dirty += n as u64;
        Ok(n)
    }

    /// Removes members; how many there were.
    pub fn set_remove(&mut self, key: &[u8], members: &[&[u8]]) -> Result<usize> {
        if self.set(key)?.is_none() {
            return Ok(0);
        }
        let s = self.set_mut(key)?;
        let n = members.iter().filter(|m| s.remove(**m)).count();
        self.dirty += n as u64;
        self.drop_if_empty(key);
        Ok(n)
    }
}

/// Sorted sets. Order: by score, then by member's bytes. Ranks count from 0 in that order.
impl Shard {
    typed!(zset, zset_mut, Zset, BTreeMap<Vec<u8>, f64>);

    fn zset_sorted(&self, key: &[u8]) -> Result<Vec<(f64, &[u8])>> {
        let mut all: Vec<_> = self.zset(key)?.into_iter().flatten().map(|(m, s)| (*s, &m[..])).collect();
        all.sort_by(|a, b| a.0.total_cmp(&(b.0 + 0.0)).then(a.1.cmp(b.1)));
        Ok(all)
    }

    /// Number of members.
    pub fn zset_len(&self, key: &[u8]) -> Result<usize> {
        Ok(self.zset(key)?.map_or(0, BTreeMap::len))
    }

    /// The score of a member.
    pub fn zset_score(&self, key: &[u8], member: &[u8]) -> Result<Option<f64>> {
        Ok(self.zset(key)?.and_then(|z| z.get(member)).copied())
    }

    /// Sets the score (no NaN) of a member.
    pub fn zset_add(&mut self, key: &[u8], score: f64, member: &[u8]) -> Result<ZAdded> {
        let score = score + 0.0;
        let did = match self.zset_mut(key)?.insert(member.to_vec(), score) {
            None => ZAdded::Added,
            Some(old) if old == score => ZAdded::Same,
            Some(_) => ZAdded::Updated,
        };
        self.dirty += u64::from(did != ZAdded::Same);
        Ok(did)
    }

    /// Removes members; how many there were.
    pub fn zset_remove(&mut self, key: &[u8], members: &[&[u8]]) -> Result<usize> {
        if self.zset(key)?.is_none() {
            return Ok(0);
        }
        let z = self.zset_mut(key)?;
        let n = members.iter().filter(|m| z.remove(**m).is_some()).count();
        self.dirty += n as u64;
        self.drop_if_empty(key);
        Ok(n)
    }

    /// The rank of a member.
    pub fn zset_rank(&self, key: &[u8], member: &[u8]) -> Result<Option<usize>> {
        Ok(self.zset_sorted(key)?.iter().position(|(_, m)| *m == member))
    }

    /// Number of members before a bound in score order. A range of scores is the ranks from one bound's to the other's.
    pub fn zset_rank_of_score(&self, key: &[u8], bound: ScoreBound) -> Result<usize> {
        let before = |s: f64| match bound {
            ScoreBound::Before(b) => s < b,
            ScoreBound::After(b) => s <= b,
        };
        Ok(self.zset_sorted(key)?.iter().filter(|(s, _)| before(*s)).count())
    }

    /// Number of members before a bound in the order of members; meaningful when all scores are equal.
    pub fn zset_rank_of_lex(&self, key: &[u8], bound: LexBound<'_>) -> Result<usize> {
        let before = |m: &[u8]| match bound {
            LexBound::First => false,
            LexBound::Last => true,
            LexBound::Before(b) => m < b,
            LexBound::After(b) => m <= b,
        };
        Ok(self.zset_sorted(key)?.iter().filter(|(_, m)| before(m)).count())
    }

    /// Calls `f` with up to `count` members and scores: upwards from rank `start`, or downwards from it if `reverse`.
    pub fn zset_range(
        &self,
        key: &[u8],
        start: usize,
        count: usize,
        reverse: bool,
        f: &mut dyn FnMut(&[u8], f64),
    ) -> Result<()> {
        let all = self.zset_sorted(key)?;
        if reverse {
            let end = (start + 1).min(all.len());
            all[..end].iter().rev().take(count).for_each(|(s, m)| f(m, *s));
        } else {
            all.iter().skip(start).take(count).for_each(|(s, m)| f(m, *s));
        }
        Ok(())
    }
}
