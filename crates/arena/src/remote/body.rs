//! A cell whose words were fetched.
use super::{Address, Again, Item};
use crate::cell::Checksum;
use crate::layout::{GRANULE, INVALIDATED, Ref, Shape, cell, flag};

/// The words of a cell, as many as were fetched, at least those of its shape.
pub(super) struct Body<'a> {
    pub cell: &'a [u64],
    pub shape: Shape,
}

impl Body<'_> {
    /// The shape of a cell; `Err`: so many bytes have to be fetched.
    pub fn shape(cell: &[u64]) -> Result<Result<Shape, u64>, Again> {
        let w0 = *cell.first().ok_or(Again)?;
        if w0 & 1 != 0 {
            return Err(Again);
        }
        let mut shape = Shape::short(w0);
        if let Some(at) = shape.extension(flag::LONG) {
            shape = Shape::long(w0, *cell.get(at).ok_or(Again)?);
        }
        let bytes = 8 * shape.words() as u64;
        Ok(if shape.words() > cell.len() { Err(bytes.next_multiple_of(GRANULE)) } else { Ok(shape) })
    }

    fn bytes(&self, at: usize, count: usize) -> Vec<u8> {
        let words = &self.cell[at..at + count.div_ceil(8)];
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        bytes.truncate(count);
        bytes
    }

    pub fn key_is(&self, key: &[u8]) -> bool {
        self.shape.key_len == key.len() && self.bytes(self.shape.key_at(), key.len()) == key
    }

    fn extension(&self, which: u64) -> u64 {
        self.shape.extension(which).map_or(0, |at| self.cell[at])
    }

    pub fn checksum_holds(&self) -> bool {
        let mut sum = Checksum::new(self.shape.w0, self.cell[cell::TS]);
        for which in [flag::LONG, flag::EXPIRE, flag::SEQ, flag::TXN] {
            if let Some(at) = self.shape.extension(which) {
                sum.word(self.cell[at]);
            }
        }
        let mut body = self.bytes(self.shape.key_at(), self.shape.key_len);
        body.extend(self.bytes(self.shape.value_at(), self.shape.value_len));
        sum.bytes(&body);
        (self.cell[self.shape.words() - 1] >> 32) as u32 == sum.value()
    }

    pub fn address(&self, this: Ref, flushes: u64) -> Address {
        let mutable = self.shape.extension(flag::WORDS).is_some();
        Address { cell: this, bytes: 8 * self.shape.words() as u64, mutable, flushes }
    }

    pub fn item(&self, this: Ref, flushes: u64) -> Result<Item, Again> {
        let words = match self.shape.extension(flag::WORDS) {
            Some(at) => self.cell[at..at + 4].try_into().map_err(|_| Again)?,
            None => [0; 4],
        };
        let txn = self.extension(flag::TXN);
        Ok(Item {
            kind: self.shape.kind().ok_or(Again)?,
            ts: self.cell[cell::TS],
            seq: self.extension(flag::SEQ) as u32,
            expire_at_ms: self.extension(flag::EXPIRE),
            txn: (txn != 0).then(|| Ref::from_raw(txn)),
            words,
            value: self.bytes(self.shape.value_at(), self.shape.value_len),
            invalidated: self.cell[cell::LINK] == INVALIDATED,
            address: self.address(this, flushes),
        })
    }
}
