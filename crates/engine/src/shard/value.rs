//! Whole values: taken out of a shard, and put into one.
use super::{
    Shard,
    root::{expiry, type_of},
};
use crate::{
    Dump, Result, Type, Value,
    packed::{self, element_bytes},
};
use kintsugidb_arena::{Kind, hash};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Whole values.
impl Shard {
    /// The whole value of a key.
    pub fn dump(&self, key: &[u8]) -> Option<Dump> {
        let c = self.root(hash(key), key)?;
        let expire_at_ms = expiry(&c);
        self.value(key, type_of(c.kind())?).ok().map(|value| Dump { value, expire_at_ms })
    }

    fn value(&self, key: &[u8], of: Type) -> Result<Value> {
        Ok(match of {
            Type::String => Value::String(self.string(key)?.unwrap_or_default().to_vec()),
            Type::List => {
                let mut l = VecDeque::with_capacity(self.list_len(key)?);
                self.list_range(key, 0, usize::MAX, &mut |e| l.push_back(e.to_vec()))?;
                Value::List(l)
            }
            Type::Hash => {
                let mut h = BTreeMap::new();
                self.hash_for_each(key, &mut |f, v| h.extend([(f.to_vec(), v.to_vec())]))?;
                Value::Hash(h)
            }
            Type::Set => {
                let mut s = BTreeSet::new();
                self.set_for_each(key, &mut |m| s.extend([m.to_vec()]))?;
                Value::Set(s)
            }
            Type::Zset => {
                let mut z = BTreeMap::new();
                self.zset_range(key, 0, usize::MAX, false, &mut |m, s| z.extend([(m.to_vec(), s)]))?;
                Value::Zset(z)
            }
        })
    }

    /// Replaces the whole value of a key.
    pub fn restore(&mut self, key: &[u8], dump: Dump) -> Result<()> {
        if self.history.is_hot(key) && !self.hot_whole(key, Some(dump.clone())) {
            return Ok(());
        }
        self.put_value(key, dump)
    }

    /// Replaces or removes a whole value, without a look at its history.
    pub(crate) fn replace(&mut self, key: &[u8], dump: Option<Dump>) {
        match dump {
            Some(dump) => {
                // it has been recorded, so only a region that is used up can refuse it
                let _ = self.put_value(key, dump);
            }
            None => {
                let h = hash(key);
                self.dirty += u64::from(self.root(h, key).is_some());
                self.remove_root(h, key);
            }
        }
    }

    fn put_value(&mut self, key: &[u8], dump: Dump) -> Result<()> {
        let h = hash(key);
        let at = dump.expire_at_ms;
        let of = dump.value.type_of();
        if let Value::String(s) = &dump.value {
            self.put_root(h, key, Kind::String, &[s], at, None)?;
        } else if dump.value.is_empty() {
            self.remove_root(h, key);
        } else {
            let l = self.limits;
            let (entries, longest) = match of {
                Type::List | Type::String => (l.list_entries, l.list_value),
                Type::Hash => (l.hash_entries, l.hash_value),
                Type::Set => (l.set_entries, l.set_value),
                Type::Zset => (l.zset_entries, l.zset_value),
            };
            let mut fits = dump.value.len() <= entries.min(packed::MAX_ENTRIES);
            let mut bytes = packed::HEAD;
            if fits {
                for_each(&dump.value, &mut |name, value, _| {
                    fits &= name.len() <= longest && value.len() <= longest;
                    bytes += 8 + element_bytes(name.len()) + element_bytes(value.len());
                    Ok(())
                })?;
            }
            let mut buf = std::mem::take(&mut self.scratch);
            packed::clear(&mut buf);
            let result = if fits && bytes <= l.bytes {
                pack(&dump.value, &mut buf).and_then(|()| self.repack(h, key, of, &buf, at))
            } else {
                self.promote(h, key, of, &buf, at, &mut |shard, draft| {
                    for_each(&dump.value, &mut |name, value, score| {
                        shard.draft_put(draft, name, value, score).map(|_| ())
                    })?;
                    Ok(0)
                })
                .map(|_| ())
            };
            self.scratch = buf;
            result?;
        }
        self.dirty += 1;
        Ok(())
    }
}

/// Takes the name, the value and the score of an entry.
type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8], f64) -> Result<()>;

/// Calls `f` with the name, the value and the score of each entry.
fn for_each(value: &Value, f: Visit<'_>) -> Result<()> {
    match value {
        Value::String(_) => Ok(()),
        Value::List(l) => l.iter().try_for_each(|e| f(e, &[], 0.0)),
        Value::Hash(h) => h.iter().try_for_each(|(k, v)| f(k, v, 0.0)),
        Value::Set(s) => s.iter().try_for_each(|m| f(m, &[], 0.0)),
        Value::Zset(z) => {
            let mut sorted: Vec<_> = z.iter().map(|(m, s)| (*s + 0.0, m)).collect();
            sorted.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
            sorted.into_iter().try_for_each(|(s, m)| f(m, &[], s))
        }
    }
}

fn pack(value: &Value, buf: &mut Vec<u8>) -> Result<()> {
    let shape = super::root::shape(value.type_of());
    for_each(value, &mut |name, value, score| {
        packed::push(shape, buf, score, name, value);
        Ok(())
    })
}
