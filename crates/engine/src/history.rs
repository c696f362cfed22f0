//! Versions of the items of hot keys.
//!
//! A key is *hot* while a transaction over several shards is pending on it or was recently committed: then a reader may ask
//! for "your snapshot s plus transactions B" (round two of a RAMP read), and a transaction that commits late may have to go in below
//! what is there. Every other key has only its current value, and its mutators pay one test (`is_hot`: an empty map).
//!
//! ```text
//!   base      the value when the key became hot: only the items that were written since ("now, except …"), or all of it
//!   changes   in version order:  (version, transaction, commit sequence)  item := value | whole := value | expiry := t
//!   current   what the Shard holds  =  base, then all changes one after the other
//!   (s, B)    base, then those changes whose commit sequence is ≤ s or whose transaction is in B
//! ```
//! Applying changes in version order is last-writer-wins per item, with changes of whole keys hiding what lies below them
//! (PROTOCOL rules 4, 7, 11). A list is one item: its changes are whole values, made only in version order (its writers
//! take turns), so the newest is not copied until the next one comes.
//!
//! The *commit sequence* counts snapshots handed out, not writes: writes between two snapshots are told apart by nobody, so
//! they share a number, and repeated writes of one item within it share an entry.
//!
//! The hooks: a mutator of a hot key first asks `hot_filter` (items) or `hot_whole` / `hot_list` / `hot_expire`, which
//! record the change and say what of it concerns the current value. Whole-key writes that come late are the only case
//! in which the current value is computed anew.
use crate::{Dump, Error, Result, Shard, Type, Value, Version, fingerprint};
use hashbrown::HashMap;
use std::collections::BTreeMap;

mod change;
pub(crate) use change::ItemValue;
use change::{Change, Entry, apply, revert};

/// A version that a snapshot needs is forgotten: the reader begins again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// A value at a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct AtSnapshot {
    /// The value.
    pub dump: Option<Dump>,
    /// Transactions that could not be left out although they were not asked for: the value was made from theirs.
    pub beneath: Vec<u64>,
}

/// Keys are told apart in this many classes when asking whether one was created since.
const BIRTH_CLASSES: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct History {
    hot: HashMap<Box<[u8]>, HotKey>,
    /// The commit sequence.
    seq: u64,
    /// Whether `seq` was handed out, so that the next write needs a new one.
    handed: bool,
    /// The sequence of the last transaction within this shard.
    last_multi: u64,
    version: Version,
    tid: u64,
    /// Rule 6: writes go just above the item's latest version, absent ones not below this.
    under: Option<Version>,
    /// The version of the last change of a hot key.
    last: Option<Version>,
    births: Vec<u64>,
}

#[derive(Debug)]
struct HotKey {
    refs: u32,
    base: Base,
    /// Snapshots below this cannot be told any more.
    base_seq: u64,
    base_version: Version,
    changes: Vec<Entry>,
    latest: HashMap<Box<[u8]>, Version>,
    /// The newest change of the whole key.
    whole: Version,
    /// The newest change of any kind.
    newest: Version,
    /// What the current value's version was set to last.
    stamp: Version,
    expire_at_ms: Option<u64>,
}

#[derive(Debug)]
enum Base {
    /// The current value, except for these items. Nothing but items was changed.
    Except(BTreeMap<Box<[u8]>, (Type, Option<ItemValue>)>),
    /// The whole value.
    Whole(Option<Dump>),
}

impl History {
    /// Whether a key is hot: the one test that mutators make.
    #[inline]
    pub fn is_hot(&self, key: &[u8]) -> bool {
        !self.hot.is_empty() && self.hot.contains_key(key)
    }

    #[inline]
    pub fn begin_write(&mut self, version: Version) {
        self.version = version;
        self.under = None;
    }

    pub fn set_txn(&mut self, tid: u64) {
        self.tid = tid;
    }

    /// A key was created where there was none.
    #[inline]
    pub fn born(&mut self, fingerprint: u64) {
        if self.births.is_empty() {
            self.births = vec![0; BIRTH_CLASSES];
        }
        self.births[fingerprint as usize % BIRTH_CLASSES] += 1;
    }

    fn next_seq(&mut self) -> u64 {
        if self.handed {
            self.seq += 1;
            self.handed = false;
        }
        self.seq
    }
}

impl HotKey {
    fn latest(&self, sub: Option<&[u8]>) -> Version {
        match sub {
            None => self.newest.max(self.base_version),
            Some(sub) => {
                self.latest.get(sub).copied().unwrap_or_default().max(self.whole).max(self.base_version)
            }
        }
    }

    fn record(&mut self, entry: Entry) {
        self.newest = self.newest.max(entry.version);
        match &entry.change {
            Change::Item(sub, ..) => {
                let latest = self.latest.entry(sub.clone()).or_default();
                *latest = (*latest).max(entry.version);
            }
            Change::Whole(_) | Change::Current => self.whole = self.whole.max(entry.version),
            Change::Expire(_) => {}
        }
        if let Some(last) = self.changes.last_mut()
            && last.replaced_by(&entry)
        {
            *last = entry;
            return;
        }
        let at = self.changes.partition_point(|e| e.version <= entry.version);
        self.changes.insert(at, entry);
    }
}

/// Hot keys, for the transaction layer.
impl Shard {
    /// Makes a key hot, once more: its versions are kept until it was cooled as often.
    pub fn heat(&mut self, key: &[u8]) {
        if let Some(h) = self.history.hot.get_mut(key) {
            h.refs += 1;
            return;
        }
        let version = self.version(key);
        let expire_at_ms = self.expire_at(key);
        let base = match self.type_of(key) {
            Some(_) if expire_at_ms.is_none() => Base::Except(BTreeMap::new()),
            _ => Base::Whole(self.dump(key)),
        };
        let h = HotKey {
            refs: 1,
            base,
            base_seq: self.history.last_multi,
            base_version: version,
            changes: Vec::new(),
            latest: HashMap::new(),
            whole: Version::default(),
            newest: Version::default(),
            stamp: version,
            expire_at_ms,
        };
        self.history.hot.insert(key.into(), h);
    }

    /// Takes back one [`Shard::heat`].
    pub fn cool(&mut self, key: &[u8]) {
        if let Some(h) = self.history.hot.get_mut(key) {
            h.refs -= 1;
            if h.refs == 0 {
                self.history.hot.remove(key);
            }
        }
    }

    /// Number of hot keys, and of changes kept for them.
    pub fn history_len(&self) -> (usize, usize) {
        (self.history.hot.len(), self.history.hot.values().map(|h| h.changes.len()).sum())
    }

    /// The commit sequence now. What is written from here on is not part of this snapshot.
    pub fn snapshot(&mut self) -> u64 {
        self.history.handed = true;
        self.history.seq
    }

    /// The commit sequence that the current turn's writes have. `multi`: they are a transaction within this shard, of which a later
    /// snapshot must not show half.
    pub fn commit_seq(&mut self, multi: bool) -> u64 {
        let seq = self.history.next_seq();
        if multi {
            self.history.last_multi = seq;
        }
        seq
    }

    /// The following writes go just above the latest version of each item (rule 6); where there is none, not below `floor`.
    pub fn begin_write_under(&mut self, floor: Version) {
        self.history.last = None;
        self.history.version = floor;
        self.history.under = Some(floor);
    }

    /// The version at which a hot key was last changed since [`Shard::begin_write_under`], if one was.
    pub fn written_under(&self) -> Option<Version> {
        self.history.last
    }

    /// How often a key like this was created: equal twice, and the key absent both times, means that it was absent all the time.
    pub fn births(&self, key: &[u8]) -> u64 {
        self.history.births.get(fingerprint(key) as usize % BIRTH_CLASSES).copied().unwrap_or(0)
    }

    /// The value of a key at `snapshot` plus the transactions `with`.
    pub fn dump_at(&self, key: &[u8], snapshot: u64, with: &[u64]) -> std::result::Result<AtSnapshot, Gone> {
        let Some(h) = self.history.hot.get(key) else {
            // Its single writes are nobody's half. A transaction within the shard may have written a hot key as well.
            if snapshot < self.history.last_multi {
                return Err(Gone);
            }
            return Ok(AtSnapshot { dump: self.dump(key), beneath: Vec::new() });
        };
        if snapshot < h.base_seq {
            return Err(Gone);
        }
        let visible = |e: &Entry| e.seq <= snapshot || (e.tid != 0 && with.contains(&e.tid));
        let mut beneath = Vec::new();
        if let Some(top) = h.changes.iter().rev().find(|e| visible(e) && e.derived) {
            let hidden =
                |e: &&Entry| e.tid != 0 && e.version < top.version && e.seq <= top.seq && !visible(e);
            beneath = h.changes.iter().filter(hidden).map(|e| e.tid).collect();
            beneath.dedup();
        }
        let dump =
            self.resolved(key, h, visible).filter(|d| d.expire_at_ms.is_none_or(|at| at > self.now_ms));
        Ok(AtSnapshot { dump, beneath })
    }

    /// Forgets what no snapshot from `snapshot` on needs. `floor`: the lowest version at which something may still go in at a key.
    pub fn fold_history(&mut self, snapshot: u64, floor: &dyn Fn(&[u8]) -> Option<Version>) {
        let foldable = |h: &HotKey| h.changes.first().is_some_and(|e| e.seq <= snapshot);
        let keys: Vec<_> =
            self.history.hot.iter().filter(|(_, h)| foldable(h)).map(|(k, _)| k.clone()).collect();
        for key in keys {
            self.fold(&key, snapshot, floor(&key));
        }
    }

    fn fold(&mut self, key: &[u8], snapshot: u64, floor: Option<Version>) {
        self.materialize(key);
        let Some(h) = self.history.hot.get_mut(key) else { return };
        let ready = |e: &&Entry| e.seq <= snapshot && floor.is_none_or(|f| e.version < f);
        let n = h.changes.iter().take_while(ready).count();
        let rest = h.changes.split_off(n);
        for e in std::mem::replace(&mut h.changes, rest) {
            h.base_seq = h.base_seq.max(e.seq);
            h.base_version = h.base_version.max(e.version);
            match (&mut h.base, e.change) {
                (Base::Whole(d), change) => apply(d, &change),
                (Base::Except(items), Change::Item(sub, ty, value)) => {
                    let again =
                        h.changes.iter().any(|e| matches!(&e.change, Change::Item(s, ..) if *s == sub));
                    if again {
                        items.insert(sub, (ty, value));
                    } else {
                        items.remove(&sub);
                        h.latest.remove(&sub);
                    }
                }
                (Base::Except(_), _) => {}
            }
        }
        if h.changes.is_empty() && h.expire_at_ms.is_none() {
            let exists = self.type_of(key).is_some();
            if let Some(h) = self.history.hot.get_mut(key) {
                h.base = if exists { Base::Except(BTreeMap::new()) } else { Base::Whole(None) };
                h.latest.clear();
            }
        }
    }

    /// The base of a hot key, then the changes that are `visible`.
    fn resolved(&self, key: &[u8], h: &HotKey, visible: impl Fn(&Entry) -> bool) -> Option<Dump> {
        let mut value = match &h.base {
            Base::Whole(d) => d.clone(),
            Base::Except(items) => {
                let mut d = self.dump(key);
                if h.changes.iter().all(&visible) {
                    return d;
                }
                revert(&mut d, items);
                d
            }
        };
        for e in h.changes.iter().filter(|e| visible(e)) {
            match &e.change {
                Change::Current => value = self.dump(key),
                change => apply(&mut value, change),
            }
        }
        value
    }
}

/// The hooks.
impl Shard {
    /// Records the writing of items of a hot key, and returns those that concern the current value.
    pub(crate) fn hot_filter<'a, T: Copy>(
        &mut self,
        key: &[u8],
        ty: Type,
        items: &[T],
        item: impl Fn(T) -> (&'a [u8], Option<ItemValue>),
    ) -> Result<Vec<T>> {
        if self.type_of(key).is_some_and(|t| t != ty) {
            return Err(Error::WrongType);
        }
        self.open(key);
        let mut kept = Vec::with_capacity(items.len());
        for &it in items {
            let (sub, value) = item(it);
            let old = self.item(key, ty, sub);
            let (version, tid, seq) = self.write_version(key, Some(sub), old.is_none());
            let Some(h) = self.history.hot.get_mut(key) else { return Ok(items.to_vec()) };
            if let Base::Except(items) = &mut h.base {
                items.entry(sub.into()).or_insert((ty, old));
            }
            if version >= h.whole && h.latest.get(sub).is_none_or(|l| version >= *l) {
                kept.push(it);
            }
            h.record(Entry {
                version,
                tid,
                seq,
                derived: false,
                change: Change::Item(sub.into(), ty, value),
            });
        }
        if !kept.is_empty() {
            self.stamp(key);
        }
        Ok(kept)
    }

    /// Records the replacement or removal of a hot key. False: it came late, and the current value is up to date already.
    pub(crate) fn hot_whole(&mut self, key: &[u8], value: Option<Dump>) -> bool {
        self.open(key);
        self.whole_base(key);
        let absent = self.type_of(key).is_none();
        let (version, tid, seq) = self.write_version(key, None, absent);
        let Some(h) = self.history.hot.get_mut(key) else { return true };
        let in_order = version >= h.newest;
        let expire_at_ms = value.as_ref().and_then(|d| d.expire_at_ms);
        h.record(Entry { version, tid, seq, derived: false, change: Change::Whole(value) });
        if in_order {
            h.expire_at_ms = expire_at_ms;
            self.stamp(key);
            return true;
        }
        let before = self.dump(key);
        let after = self.history.hot.get(key).and_then(|h| self.resolved(key, h, |_| true));
        if before != after {
            if let Some(h) = self.history.hot.get_mut(key) {
                h.expire_at_ms = after.as_ref().and_then(|d| d.expire_at_ms);
            }
            self.stamp(key);
            self.replace(key, after);
        }
        false
    }

    /// Records that a hot list is about to be changed. What it becomes is looked at when it is needed.
    pub(crate) fn hot_list(&mut self, key: &[u8]) {
        let (version, tid, seq) = self.write_version(key, None, self.type_of(key).is_none());
        if let Some(h) = self.history.hot.get(key)
            && let Some(last) = h.changes.last()
            && matches!(last.change, Change::Current)
            && last.tid == tid
            && (last.version == version || (tid == 0 && last.seq == seq))
            && h.expire_at_ms.is_none_or(|at| at > self.now_ms)
        {
            if let Some(h) = self.history.hot.get_mut(key)
                && let Some(last) = h.changes.last_mut()
            {
                last.version = version;
                h.newest = h.newest.max(version);
                h.whole = h.whole.max(version);
            }
        } else {
            self.open(key);
            self.whole_base(key);
            let Some(h) = self.history.hot.get_mut(key) else { return };
            h.record(Entry { version, tid, seq, derived: true, change: Change::Current });
        }
        self.stamp(key);
    }

    /// Records that a hot key's expiry is about to be changed.
    pub(crate) fn hot_expire(&mut self, key: &[u8], at_ms: Option<u64>) {
        self.open(key);
        self.whole_base(key);
        let (version, tid, seq) = self.write_version(key, None, false);
        let Some(h) = self.history.hot.get_mut(key) else { return };
        h.expire_at_ms = at_ms;
        h.record(Entry { version, tid, seq, derived: false, change: Change::Expire(at_ms) });
        self.stamp(key);
    }

    /// Before a change: what the last one made is written down, and an expiry that has passed becomes a removal.
    fn open(&mut self, key: &[u8]) {
        self.materialize(key);
        let Some(h) = self.history.hot.get_mut(key) else { return };
        if h.expire_at_ms.is_some_and(|at| at <= self.now_ms) {
            h.expire_at_ms = None;
            let latest = h.latest(None);
            let version = Version { ts: latest.ts, seq: latest.seq + 1 };
            let seq = self.history.seq;
            h.record(Entry { version, tid: 0, seq, derived: false, change: Change::Whole(None) });
        }
    }

    fn materialize(&mut self, key: &[u8]) {
        let Some(h) = self.history.hot.get(key) else { return };
        let Some(i) = h.changes.iter().rposition(|e| matches!(e.change, Change::Current)) else { return };
        let now = Change::Whole(self.dump(key));
        if let Some(h) = self.history.hot.get_mut(key) {
            h.changes[i].change = now;
        }
    }

    fn whole_base(&mut self, key: &[u8]) {
        let Some(Base::Except(items)) = self.history.hot.get(key).map(|h| &h.base) else { return };
        let mut d = self.dump(key);
        revert(&mut d, items);
        if let Some(h) = self.history.hot.get_mut(key) {
            h.base = Base::Whole(d);
        }
    }

    fn write_version(&mut self, key: &[u8], sub: Option<&[u8]>, absent: bool) -> (Version, u64, u64) {
        let seq = self.history.next_seq();
        let version = match (self.history.under, self.history.hot.get(key)) {
            (Some(floor), Some(h)) => {
                let latest = h.latest(sub);
                let above = Version { ts: latest.ts, seq: latest.seq + 1 };
                if absent { above.max(floor) } else { above }
            }
            _ => self.history.version,
        };
        self.history.last = Some(version);
        (version, self.history.tid, seq)
    }

    /// Sets the version that the current value gets: one that it never had.
    fn stamp(&mut self, key: &[u8]) {
        let Some(h) = self.history.hot.get_mut(key) else { return };
        h.stamp =
            if h.newest > h.stamp { h.newest } else { Version { ts: h.stamp.ts, seq: h.stamp.seq + 1 } };
        let stamp = h.stamp;
        self.set_stamp(stamp);
    }

    fn item(&self, key: &[u8], ty: Type, sub: &[u8]) -> Option<ItemValue> {
        match ty {
            Type::Hash => self.hash_get(key, sub).ok()?.map(|v| ItemValue::Bytes(v.into())),
            Type::Set => self.set_contains(key, sub).ok()?.then_some(ItemValue::Member),
            Type::Zset => self.zset_score(key, sub).ok()?.map(ItemValue::Score),
            Type::String | Type::List => None,
        }
    }
}

#[cfg(test)]
mod tests;
