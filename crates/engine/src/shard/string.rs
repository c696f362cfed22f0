//! Strings: the bytes are the value of the root cell.
use super::{Expire, Shard};
use crate::{Dump, Result, Type, Value};
use kintsugidb_arena::{Kind, hash};

/// Strings.
impl Shard {
    /// Fetches the index bucket of a key, whose fingerprint this is, ahead of its use.
    #[inline]
    pub fn prefetch(&self, fingerprint: u64) {
        self.arena.prefetch(kintsugidb_arena::Table::ROOT, fingerprint);
    }

    /// Fetches the cell of a key whose bucket has been fetched.
    #[inline]
    pub fn prefetch_cell(&self, fingerprint: u64) {
        self.arena.prefetch_cell(kintsugidb_arena::Table::ROOT, fingerprint);
    }

    /// The value.
    #[inline]
    pub fn string(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        Ok(self.typed_root(key, Type::String)?.map(|c| c.value()))
    }

    /// Sets a key to a string, the concatenation of `parts`, whatever its type was.
    pub fn set_string(&mut self, key: &[u8], parts: &[&[u8]], expire: Expire) -> Result<()> {
        let h = hash(key);
        let at = match expire {
            Expire::Keep => self.root(h, key).and_then(|c| super::root::expiry(&c)),
            Expire::Clear => None,
            Expire::At(at) => Some(at),
        };
        if self.history.is_hot(key) {
            let value = Value::String(parts.concat());
            if !self.hot_whole(key, Some(Dump { value, expire_at_ms: at })) {
                return Ok(());
            }
        }
        self.put_root(h, key, Kind::String, parts, at, None)?;
        self.dirty += 1;
        Ok(())
    }
}
