//! Writes that belong to a multi-key transaction, so that one-sided readers can tell when they saw half of one.
use super::{Shard, Version};
use crate::{Error, Result};
use kintsugidb_arena::{Kind, Ref, hash};

/// The transaction that writes now.
pub(super) struct Txn {
    tid: u64,
    siblings: Vec<u64>,
    record: Option<Ref>,
    tombstones: Vec<Box<[u8]>>,
}

/// What a transaction left in a shard for its readers, to be given to [`Shard::forget_txns`] when its window has closed.
#[derive(Debug)]
pub struct TxnRecord {
    record: Ref,
    tombstones: Vec<Box<[u8]>>,
}

/// Names the record of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct TxnHandle(Ref);

impl TxnRecord {
    /// Its name.
    pub fn handle(&self) -> TxnHandle {
        TxnHandle(self.record)
    }
}

/// Multi-key transactions.
impl Shard {
    /// Tells readers that a transaction is committed at all its participants: who has read from it need not tell anybody.
    pub fn mark_stable(&mut self, txn: TxnHandle) {
        self.arena.mark_txn_stable(txn.0);
    }

    /// The following writes, at `version`, belong to the multi-key transaction `tid`. `siblings` are the fingerprints
    /// ([`crate::fingerprint`]) of its keys, or the words of a Bloom filter of them. Its
    /// writes are not refused for want of memory: the time for that is before it is prepared.
    pub fn begin_txn(&mut self, version: Version, tid: u64, siblings: &[u64]) {
        self.begin_write(version);
        self.history.set_txn(tid);
        self.txn = Some(Txn { tid, siblings: siblings.to_vec(), record: None, tombstones: Vec::new() });
        self.share_memory();
    }

    /// Ends it. `None` if it wrote nothing.
    pub fn end_txn(&mut self) -> Option<TxnRecord> {
        self.history.set_txn(0);
        let Txn { record, tombstones, .. } = self.txn.take()?;
        self.share_memory();
        let record = record?;
        self.arena.end_change(record);
        Some(TxnRecord { record, tombstones })
    }

    /// Frees the records of transactions whose window has closed, and the tombstones that were kept for them.
    pub fn forget_txns(&mut self, records: &[TxnRecord]) {
        for TxnRecord { record, tombstones } in records {
            for key in tombstones {
                let h = hash(key);
                let cell = self.arena.find(kintsugidb_arena::Table::ROOT, h, key);
                if cell.is_some_and(|c| c.kind() == Kind::Tombstone && c.txn() == Some(*record)) {
                    self.unlink_root(h, key, None);
                }
            }
            self.arena.free_txn_record(*record);
        }
    }

    /// Tells readers that transactions have been forgotten: who began before the last two calls begins again.
    pub fn bump_epoch(&mut self) {
        self.arena.bump_epoch();
    }

    /// The record of the transaction that writes now, made by its first write.
    pub(super) fn txn_record(&mut self) -> Result<Option<Ref>> {
        let Some(txn) = &mut self.txn else { return Ok(None) };
        if txn.record.is_none() {
            let record = self.arena.new_txn_record(txn.tid, &txn.siblings).map_err(|_| Error::OutOfMemory)?;
            txn.record = Some(record);
        }
        Ok(txn.record)
    }

    /// Within a transaction: puts a tombstone in a key's place, even where there was nothing, so that whoever reads the key
    /// with a sibling sees that they belong together. False if there is no transaction, or no memory at all.
    pub(super) fn leave_tombstone(&mut self, h: u64, key: &[u8], kept: Option<usize>) -> bool {
        if self.txn.is_none() {
            return false;
        }
        let done = self.put_root_keeping(h, key, Kind::Tombstone, &[], None, None, kept).is_ok();
        if let (true, Some(txn)) = (done, &mut self.txn) {
            txn.tombstones.push(key.into());
        }
        done
    }
}
