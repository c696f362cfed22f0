//! Versions that are prepared and not committed, where readers of the region find them.
use super::Shard;
use crate::fingerprint;
use kintsugidb_arena::{Kind, NewCell};

/// The name of a transaction's version of a key in the table of prepared versions.
pub fn prepared_name(tid: u64, key: &[u8]) -> Vec<u8> {
    [&tid.to_le_bytes(), key].concat()
}

/// What readers are told of transactions before they are committed (PROTOCOL rule 22).
impl Shard {
    /// Shows readers what transaction `tid` makes of a key if it is committed: this string, or nothing. If there is no memory for it,
    /// nothing is shown: readers ask then.
    pub fn show_prepared(&mut self, tid: u64, key: &[u8], string: Option<&[u8]>) {
        let name = prepared_name(tid, key);
        let kind = if string.is_some() { Kind::String } else { Kind::Tombstone };
        let value = [string.unwrap_or_default()];
        let cell = NewCell { kind, ts: tid, key: &name, value: &value, ..NewCell::default() };
        let Ok(table) = self.arena.prepared_table() else { return };
        if self.arena.publish(table, fingerprint(&name), &cell).is_err() {
            self.hide_prepared(tid, key);
        }
    }

    /// Takes it back: the transaction is committed, or will never be.
    pub fn hide_prepared(&mut self, tid: u64, key: &[u8]) {
        let name = prepared_name(tid, key);
        if let Some(table) = self.arena.prepared() {
            self.arena.remove(table, fingerprint(&name), &name);
        }
    }

    /// Tells readers of a key to ask the owner, or no more (the invalidation bit of "RAMP over RDMA"). A new version has no mark.
    pub fn invalidate(&mut self, key: &[u8], marked: bool) {
        self.arena.invalidate(fingerprint(key), key, marked);
    }
}
