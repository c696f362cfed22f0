//! Transaction messages as bytes: what a coordinator outside of the server's process says to shards, and what they answer.
//!
//! ```text
//!   message   clock u64 | proofs u32, each: txn u64, c u64 | kind u8 | body, by kind (body.rs)
//!   bytes     length u32 | bytes                args   count u32 | each: bytes
//!   option    0 | 1, value                      dump   type u8 | content | expiry option u64   (dump.rs)
//! ```
//! Little-endian, nothing padded. Between shards of one process messages travel as they are; this is for those that cross a
//! fabric (`frame.rs`), in the protocol version of [`VERSION`].
//!
//! Decoding is total: any bytes are a message or a [`WireError`], memory is bounded by a small multiple of the input's length,
//! and what follows a message is an error. It checks the *form* only: a known command with a number of arguments that it
//! takes, ascending lists, values that exist. Whether the sender may say it is decided by the server (`native/claims.rs` there).
//!
//! A key's fingerprint is not sent with the key; the receiver computes it, so that nobody can claim another one.
mod body;
mod dump;
pub mod frame;
#[cfg(test)]
mod tests;

use crate::message::{Message, Proof};
use crate::{ShardId, TxnId};
use std::sync::Arc;

/// The version of these bytes. Peers of another version are refused when they connect.
pub const VERSION: u32 = 1;

/// Bytes of one encoded message; a longer one is refused by both sides.
pub const MAX_MESSAGE: usize = 64 << 20;

/// The fingerprint of a key, as the receiver's shards compute it. Who receives no keys may pass anything.
pub type Fingerprint = fn(&[u8]) -> u64;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// They end before the message does.
    #[error("the message is cut short")]
    Short,
    /// They go on after the message.
    #[error("there are bytes behind the message")]
    Rest,
    /// A number that names a kind names none.
    #[error("{what} {number} is unknown")]
    Unknown {
        /// What it should be.
        what: &'static str,
        /// The number.
        number: u32,
    },
    /// A command that does not exist, or not with so many arguments.
    #[error("a command is unknown or has a wrong number of arguments")]
    Command,
    /// A list that has to ascend does not.
    #[error("a list is not in order")]
    Order,
    /// A value that cannot be (a score that is no number).
    #[error("a value is impossible")]
    Value,
}

pub(crate) type Result<T> = std::result::Result<T, WireError>;

/// Appends a message.
pub fn encode(message: &Message, out: &mut Vec<u8>) {
    put_u64(out, message.clock);
    put_proofs(out, message.proofs.as_deref().unwrap_or_default());
    body::put(out, &message.body);
}

/// Reads a message that takes all of `input`.
pub fn decode(input: &[u8], fingerprint: Fingerprint) -> Result<Message> {
    let mut from = Cursor::new(input, fingerprint);
    let clock = from.u64()?;
    let proofs = from.proofs()?;
    let body = from.body()?;
    from.end()?;
    let proofs: Option<Arc<[Proof]>> = if proofs.is_empty() { None } else { Some(proofs.into()) };
    Ok(Message { clock, proofs, body })
}

fn put_u16(out: &mut Vec<u8>, n: u16) {
    out.extend_from_slice(&n.to_le_bytes());
}

fn put_u32(out: &mut Vec<u8>, n: u32) {
    out.extend_from_slice(&n.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(&n.to_le_bytes());
}

/// A length or a count. What does not fit is cut off by [`MAX_MESSAGE`] long before.
fn put_len(out: &mut Vec<u8>, n: usize) {
    put_u32(out, u32::try_from(n).unwrap_or(u32::MAX));
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_proofs(out: &mut Vec<u8>, proofs: &[Proof]) {
    put_len(out, proofs.len());
    for p in proofs {
        put_u64(out, p.txn.0);
        put_u64(out, p.c);
    }
}

/// What is left to read.
struct Cursor<'a> {
    rest: &'a [u8],
    fingerprint: Fingerprint,
}

impl<'a> Cursor<'a> {
    fn new(rest: &'a [u8], fingerprint: Fingerprint) -> Self {
        Self { rest, fingerprint }
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or(WireError::Short)?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(WireError::Short)?;
        self.rest = rest;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn bool(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            n => Err(unknown("boolean", n)),
        }
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        let n = self.u32()? as usize;
        self.take(n)
    }

    /// A list whose elements take at least `least` bytes each, so that its count is bounded by what is there.
    fn list<T>(&mut self, least: usize, mut one: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let n = self.u32()? as usize;
        if n.saturating_mul(least) > self.rest.len() {
            return Err(WireError::Short);
        }
        let mut all = Vec::with_capacity(n);
        for _ in 0..n {
            all.push(one(self)?);
        }
        Ok(all)
    }

    fn option<T>(&mut self, one: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        if self.bool()? { one(self).map(Some) } else { Ok(None) }
    }

    fn txn(&mut self) -> Result<TxnId> {
        Ok(TxnId(self.u64()?))
    }

    fn proof(&mut self) -> Result<Proof> {
        Ok(Proof { txn: self.txn()?, c: self.u64()? })
    }

    fn proofs(&mut self) -> Result<Vec<Proof>> {
        self.list(16, Self::proof)
    }

    fn shards(&mut self) -> Result<Vec<ShardId>> {
        let shards = self.list(2, Self::u16)?;
        if shards.is_sorted_by(|a, b| a < b) { Ok(shards) } else { Err(WireError::Order) }
    }

    fn fingerprints(&mut self) -> Result<Vec<u64>> {
        let all = self.list(8, Self::u64)?;
        if all.is_sorted_by(|a, b| a < b) { Ok(all) } else { Err(WireError::Order) }
    }

    fn end(&self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(WireError::Rest) }
    }
}

fn unknown(what: &'static str, number: u8) -> WireError {
    WireError::Unknown { what, number: number.into() }
}
