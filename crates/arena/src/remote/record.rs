//! Records of transactions, and the epochs that they go by.
use super::body::Body;
use super::{Again, GUESS, MAX_CELL, Range, word};
use crate::layout::{Kind, PAGE, Ref, SEQ_MASK, cell, current_link, flag, superblock};

/// What a transaction's record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The transaction's name.
    pub txn: u64,
    /// What it says of its siblings.
    pub siblings: Vec<u64>,
    /// The owner is still writing.
    pub under_way: bool,
    /// All participants have committed it.
    pub stable: bool,
}

/// What to read of a transaction's record, of which so many bytes have been asked for so far (0: none).
pub fn ask_record(region: u64, record: Ref, bytes: u64) -> Option<[Range; 2]> {
    let bytes = bytes.max(GUESS).min(region.checked_sub(record.offset())?) / 8 * 8;
    ((64..=MAX_CELL).contains(&bytes) && record.offset() >= PAGE)
        .then(|| [Range { offset: record.offset(), bytes }, word(record.offset())])
}

/// Takes the words of both ranges. `Ok(None)`: the record has been freed; the transaction is stable, and long over. `Err`: so many
/// bytes are needed, or (0) it was torn.
pub fn feed_record(record: Ref, words: &[u64]) -> Result<Option<Record>, u64> {
    let (again, cell) = words.split_last().ok_or(0u64)?;
    if *again & SEQ_MASK != record.seq() || cell.first() != Some(again) {
        return Ok(None);
    }
    let shape = Body::shape(cell).map_err(|Again| 0u64)??;
    let body = Body { cell, shape };
    if shape.kind() != Some(Kind::Txn) || cell[cell::LINK] != current_link(record.seq()) {
        return Ok(None);
    }
    let (true, Some(at)) = (body.checksum_holds(), shape.extension(flag::WORDS)) else { return Err(0) };
    let value = &cell[shape.value_at()..][..shape.value_len / 8];
    let Some((txn, siblings)) = value.split_first() else { return Err(0) };
    let (under_way, stable) = (cell[at] & 1 == 1, cell[at + 1] != 0);
    Ok(Some(Record { txn: *txn, siblings: siblings.to_vec(), under_way, stable }))
}

/// Where a region's epoch is: it moves when the owner forgets transactions.
pub const EPOCH: Range = Range { offset: superblock::EPOCH_AT, bytes: 8 };
/// Where a region names its table of prepared versions ([`crate::Table::from_raw`]; 0: it has none).
pub const PREPARED: Range = Range { offset: superblock::PREPARED_AT, bytes: 8 };
