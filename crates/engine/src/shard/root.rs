//! Root cells: finding, replacing and removing what a key holds.
use super::{
    Shard, Version,
    big::{Found, MODIFIED},
};
use crate::{
    Error, Result, Type,
    packed::{self, Shape},
};
use kintsugidb_arena::{CellView, Kind, NewCell, Table, hash};

/// What a collection is before a change: packed bytes in a scratch buffer, or big.
pub(super) enum Unpacked {
    /// Packed, or absent: the entries are in the buffer.
    Packed {
        /// When the key expires.
        expire_at_ms: Option<u64>,
    },
    /// In a table, or in the heap.
    Big(Found),
}

/// What must be known of a root cell that is about to go.
struct Old {
    kind: Kind,
    expire_at_ms: Option<u64>,
    /// Of a big collection.
    handle: Option<usize>,
}

impl Old {
    #[inline]
    fn of(c: &CellView<'_>) -> Self {
        let handle = if is_big(c.kind()) { handle_of(c.value()) } else { None };
        Self { kind: c.kind(), expire_at_ms: expiry(c), handle }
    }
}

/// The type that a root cell's kind stands for.
pub(crate) fn type_of(kind: Kind) -> Option<Type> {
    match kind {
        Kind::String => Some(Type::String),
        Kind::PackedList | Kind::BigList => Some(Type::List),
        Kind::PackedHash | Kind::BigHash => Some(Type::Hash),
        Kind::PackedSet | Kind::BigSet => Some(Type::Set),
        Kind::PackedZset | Kind::BigZset => Some(Type::Zset),
        Kind::Tombstone | Kind::Item | Kind::Txn | Kind::Table => None,
    }
}

/// Whether a root cell is the header of a big collection.
pub(crate) fn is_big(kind: Kind) -> bool {
    matches!(kind, Kind::BigList | Kind::BigHash | Kind::BigSet | Kind::BigZset)
}

/// How the entries of a packed collection look.
pub(crate) fn shape(of: Type) -> Shape {
    match of {
        Type::List | Type::String => Shape::List,
        Type::Hash => Shape::Hash,
        Type::Set => Shape::Set,
        Type::Zset => Shape::Zset,
    }
}

/// When a cell expires.
#[inline]
pub(crate) fn expiry(c: &CellView<'_>) -> Option<u64> {
    Some(c.expire_at_ms()).filter(|at| *at != 0)
}

/// The handle in a header's value.
pub(super) fn handle_of(value: &[u8]) -> Option<usize> {
    value.first_chunk().map(|b| u64::from_le_bytes(*b) as usize)
}

fn packed_kind(of: Type) -> Kind {
    match of {
        Type::String => Kind::String,
        Type::List => Kind::PackedList,
        Type::Hash => Kind::PackedHash,
        Type::Set => Kind::PackedSet,
        Type::Zset => Kind::PackedZset,
    }
}

impl Shard {
    /// The root cell of a key that exists.
    #[inline]
    pub(super) fn root(&self, h: u64, key: &[u8]) -> Option<CellView<'_>> {
        let c = self.arena.find(Table::ROOT, h, key)?;
        self.is_live(c.kind(), expiry(&c)).then_some(c)
    }

    /// Whether a root cell of this kind and expiry is a key that exists.
    #[inline]
    pub(super) fn is_live(&self, kind: Kind, expire_at_ms: Option<u64>) -> bool {
        kind != Kind::Tombstone && expire_at_ms.is_none_or(|at| at > self.now_ms)
    }

    /// The root cell of a key that is absent or of this type.
    #[inline]
    pub(super) fn typed_root(&self, key: &[u8], of: Type) -> Result<Option<CellView<'_>>> {
        match self.root(hash(key), key) {
            None => Ok(None),
            Some(c) if type_of(c.kind()) == Some(of) => Ok(Some(c)),
            Some(_) => Err(Error::WrongType),
        }
    }

    /// A collection that is about to change; its packed entries are copied to `buf`.
    pub(super) fn unpack(&self, h: u64, key: &[u8], of: Type, buf: &mut Vec<u8>) -> Result<Unpacked> {
        let Some(c) = self.root(h, key) else {
            packed::clear(buf);
            return Ok(Unpacked::Packed { expire_at_ms: None });
        };
        match type_of(c.kind()) {
            Some(t) if t != of => Err(Error::WrongType),
            _ if is_big(c.kind()) => Ok(Unpacked::Big(self.found(&c))),
            _ => {
                buf.clear();
                buf.extend_from_slice(c.value());
                Ok(Unpacked::Packed { expire_at_ms: expiry(&c) })
            }
        }
    }

    /// Ends a change of a packed collection: publishes the entries, or removes the key if there are none.
    pub(super) fn repack(
        &mut self,
        h: u64,
        key: &[u8],
        of: Type,
        entries: &[u8],
        expire_at_ms: Option<u64>,
    ) -> Result<()> {
        if packed::count(entries) == 0 {
            self.remove_root(h, key);
            return Ok(());
        }
        self.put_root(h, key, packed_kind(of), &[entries], expire_at_ms, None)
    }

    /// The version of a key's last change; of an absent key, the default.
    pub fn version(&self, key: &[u8]) -> Version {
        let Some(c) = self.root(hash(key), key) else { return Version::default() };
        if is_big(c.kind()) {
            let seq = self.bigs.at(self.found(&c).handle).map_or(0, |b| b.seq);
            Version { ts: self.arena.words(c.cell())[MODIFIED], seq }
        } else {
            Version { ts: c.ts(), seq: c.seq() }
        }
    }

    /// Publishes a root cell at the current version, in place of whatever the key holds.
    pub(super) fn put_root(
        &mut self,
        h: u64,
        key: &[u8],
        kind: Kind,
        value: &[&[u8]],
        expire_at_ms: Option<u64>,
        words: Option<[u64; 4]>,
    ) -> Result<()> {
        let kept = words.and(value.first()).and_then(|v| handle_of(v));
        self.put_root_keeping(h, key, kind, value, expire_at_ms, words, kept)
    }

    /// The same; the big collection of handle `kept` is not freed, it has another header now.
    #[expect(clippy::too_many_arguments)]
    #[inline]
    pub(super) fn put_root_keeping(
        &mut self,
        h: u64,
        key: &[u8],
        kind: Kind,
        value: &[&[u8]],
        expire_at_ms: Option<u64>,
        words: Option<[u64; 4]>,
        kept: Option<usize>,
    ) -> Result<()> {
        // 0 means never: what expired at the epoch expires just after
        let at = expire_at_ms.map_or(0, |at| at.max(1));
        let expire_at_ms = expire_at_ms.map(|_| at);
        let Version { ts, seq } = self.version;
        let txn = self.txn_record()?;
        let cell = NewCell { kind, key, value, ts, seq, expire_at_ms: at, txn, words };
        let published = self.arena.publish_over(Table::ROOT, h, &cell, |old| old.map(|c| Old::of(&c)));
        let (_, old) = published.map_err(|_| Error::OutOfMemory)?;
        if kind != Kind::Tombstone && !old.as_ref().is_some_and(|o| self.is_live(o.kind, o.expire_at_ms)) {
            self.history.born(h);
        }
        if old.is_some() || expire_at_ms.is_some() {
            self.settle(h, old, expire_at_ms, kept);
        }
        self.tombstones += usize::from(kind == Kind::Tombstone);
        Ok(())
    }

    /// Takes a key's root cell out of the index, or puts a tombstone in its place within a transaction.
    pub(super) fn remove_root(&mut self, h: u64, key: &[u8]) {
        self.move_root(h, key, None);
    }

    /// The same; the big collection of handle `kept` is not freed, it has another header now.
    pub(super) fn move_root(&mut self, h: u64, key: &[u8], kept: Option<usize>) {
        if !self.leave_tombstone(h, key, kept) {
            self.unlink_root(h, key, kept);
        }
    }

    /// Takes a key's root cell out of the index. The big collection of handle `kept` has moved elsewhere.
    pub(super) fn unlink_root(&mut self, h: u64, key: &[u8], kept: Option<usize>) {
        let old = self.arena.find(Table::ROOT, h, key).map(|c| Old::of(&c));
        if old.is_some() {
            self.arena.remove(Table::ROOT, h, key);
            self.settle(h, old, None, kept);
        }
    }

    /// What goes with a root cell that was replaced or removed.
    fn settle(&mut self, h: u64, old: Option<Old>, expire_at_ms: Option<u64>, kept: Option<usize>) {
        let was = old.as_ref().and_then(|o| o.expire_at_ms);
        if was != expire_at_ms {
            self.expiry.change(h, was, expire_at_ms);
        }
        let Some(old) = old else { return };
        if let Some(handle) = old.handle.filter(|_| old.handle != kept) {
            self.drop_big(handle);
        }
        self.tombstones -= usize::from(old.kind == Kind::Tombstone);
    }
}
