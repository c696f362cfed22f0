//! Frames: what a native client and the server say to each other over a fabric.
//!
//! ```text
//!   frame       length u32 of what follows | kind u8 | body          a stream of them; a message of the fabric carries any piece of it
//!   1 resp      clock u64 | proofs | bytes of RESP, to the end        both ways: requests, replies; a stream of their own
//!   2 ramp      each: request u64 | shard u16 | bytes (message)       both ways: everything that one turn produced
//!   3 welcome   version u32 | coordinator u16 | shards u16 | threads u16 | hash seed u64 | incarnation u64 | clock u64 | now u64
//!               | isolation u8 | window u64 | horizon u64 | reserved u64     server to client, first of all
//!   4 refused   text, to the end                                      server to client, last of all
//! ```
//! The clock and the proofs of a RESP frame are the sender's session (PROTOCOL rule 2): with requests, what the client has read by
//! other ways, so that the connection's session at the server knows it; with replies, what that session has seen.
//!
//! `now` is the server's time; the client counts from it, so that a client whose clock is wrong draws timestamps like everybody's.
use super::{
    Cursor, Fingerprint, MAX_MESSAGE, Result, VERSION, WireError, decode, encode, put_proofs, put_u16,
    put_u32, put_u64, unknown,
};
use crate::{
    Config, Isolation, ShardId,
    message::{Message, Proof},
};

/// Bytes of one frame, its length included.
pub const MAX_FRAME: usize = MAX_MESSAGE + 64;

/// What the server tells a client that has connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The client's number as a coordinator; its transactions are named with it.
    pub coordinator: u16,
    /// Number of shards.
    pub shards: u16,
    /// Threads that serve them: thread t owns the shards s with s mod threads = t.
    pub threads: u16,
    /// The seed of the keys' fingerprints.
    pub seed: u64,
    /// Differs from one start of a server to the next.
    pub incarnation: u64,
    /// No timestamp of an earlier client with the same number is above this.
    pub clock: u64,
    /// The server's time, in microseconds since the Unix epoch.
    pub now_us: u64,
    /// How transactions are isolated.
    pub isolation: Isolation,
    /// [`Config::window_us`].
    pub window_us: u64,
    /// [`Config::horizon_us`].
    pub horizon_us: u64,
    /// [`Config::reserved_timeout_us`].
    pub reserved_timeout_us: u64,
}

impl Welcome {
    /// The settings of the client's coordinator.
    pub fn config(&self) -> Config {
        Config {
            isolation: self.isolation,
            window_us: self.window_us,
            horizon_us: self.horizon_us,
            reserved_timeout_us: self.reserved_timeout_us,
            hash_seed: Some(self.seed),
            // The fabric loses nothing: what is not answered is being worked on, or the connection is gone.
            resend_us: 10_000_000,
            ..Config::default()
        }
    }
}

/// One frame.
#[derive(Debug)]
pub enum Frame<'a> {
    /// RESP, with the sender's session.
    Resp {
        /// The highest timestamp seen.
        clock: u64,
        /// Transactions read from, not known to be stable.
        proofs: Vec<Proof>,
        /// A piece of the stream.
        bytes: &'a [u8],
    },
    /// Messages of transactions: the client's request, the shard, the message.
    Ramp(Vec<(u64, ShardId, Message)>),
    /// The connection is made.
    Welcome(Welcome),
    /// The connection ends.
    Refused(String),
}

/// Appends a frame whose body `f` writes.
fn put_frame(out: &mut Vec<u8>, kind: u8, f: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    put_u32(out, 0);
    out.push(kind);
    f(out);
    let length = u32::try_from(out.len() - at - 4).unwrap_or(u32::MAX);
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Appends a RESP frame.
pub fn put_resp(out: &mut Vec<u8>, clock: u64, proofs: &[Proof], bytes: &[u8]) {
    put_frame(out, 1, |out| {
        put_u64(out, clock);
        put_proofs(out, proofs);
        out.extend_from_slice(bytes);
    });
}

/// Appends a frame of transaction messages.
pub fn put_ramp<'a>(out: &mut Vec<u8>, messages: impl IntoIterator<Item = (u64, ShardId, &'a Message)>) {
    put_frame(out, 2, |out| {
        for (request, shard, message) in messages {
            put_u64(out, request);
            put_u16(out, shard);
            let at = out.len();
            put_u32(out, 0);
            encode(message, out);
            let length = u32::try_from(out.len() - at - 4).unwrap_or(u32::MAX);
            out[at..at + 4].copy_from_slice(&length.to_le_bytes());
        }
    });
}

/// Appends a welcome.
pub fn put_welcome(out: &mut Vec<u8>, w: &Welcome) {
    put_frame(out, 3, |out| {
        put_u32(out, VERSION);
        [w.coordinator, w.shards, w.threads].iter().for_each(|n| put_u16(out, *n));
        [w.seed, w.incarnation, w.clock, w.now_us].iter().for_each(|n| put_u64(out, *n));
        out.push(Isolation::ALL.iter().position(|(_, i)| *i == w.isolation).unwrap_or(0) as u8);
        [w.window_us, w.horizon_us, w.reserved_timeout_us].iter().for_each(|n| put_u64(out, *n));
    });
}

/// Appends a refusal.
pub fn put_refused(out: &mut Vec<u8>, why: &str) {
    put_frame(out, 4, |out| out.extend_from_slice(why.as_bytes()));
}

impl<'a> Frame<'a> {
    /// Reads one frame, without its length. `fingerprint`: as in [`decode`].
    pub fn read(body: &'a [u8], fingerprint: Fingerprint) -> Result<Self> {
        let mut from = Cursor::new(body, fingerprint);
        Ok(match from.u8()? {
            1 => {
                let (clock, proofs) = (from.u64()?, from.proofs()?);
                Self::Resp { clock, proofs, bytes: from.take(from.rest.len())? }
            }
            2 => {
                let mut messages = Vec::new();
                while !from.rest.is_empty() {
                    let (request, shard) = (from.u64()?, from.u16()?);
                    messages.push((request, shard, decode(from.bytes()?, fingerprint)?));
                }
                Self::Ramp(messages)
            }
            3 => {
                let version = from.u32()?;
                if version != VERSION {
                    return Err(WireError::Unknown { what: "protocol version", number: version });
                }
                let mut n16 = || from.u16();
                let (coordinator, shards, threads) = (n16()?, n16()?, n16()?);
                let mut n64 = || from.u64();
                let (seed, incarnation, clock, now_us) = (n64()?, n64()?, n64()?, n64()?);
                let number = from.u8()?;
                let isolation =
                    Isolation::ALL.get(usize::from(number)).ok_or(unknown("isolation", number))?.1;
                let mut n64 = || from.u64();
                let (window_us, horizon_us, reserved_timeout_us) = (n64()?, n64()?, n64()?);
                from.end()?;
                if shards == 0 || threads == 0 {
                    return Err(WireError::Value);
                }
                Self::Welcome(Welcome {
                    coordinator,
                    shards,
                    threads,
                    seed,
                    incarnation,
                    clock,
                    now_us,
                    isolation,
                    window_us,
                    horizon_us,
                    reserved_timeout_us,
                })
            }
            4 => Self::Refused(String::from_utf8_lossy(from.rest).into_owned()),
            n => return Err(unknown("frame", n)),
        })
    }
}

/// Cuts frames out of what arrives, piece by piece.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    at: usize,
}

/// A frame claims to be longer than [`MAX_FRAME`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {0} bytes is too long")]
pub struct TooLong(pub usize);

impl Frames {
    /// Capacity that is kept when everything has been read.
    const KEEP: usize = 1 << 20;

    /// Adds a piece.
    pub fn add(&mut self, piece: &[u8]) {
        if self.at == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(Self::KEEP);
            self.at = 0;
        } else if self.at > self.bytes.len() / 2 {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        self.bytes.extend_from_slice(piece);
    }

    /// The next whole frame, without its length.
    #[allow(clippy::should_implement_trait, reason = "it borrows what it returns")]
    pub fn next(&mut self) -> std::result::Result<Option<&[u8]>, TooLong> {
        let rest = &self.bytes[self.at..];
        let Some((head, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*head) as usize;
        if length > MAX_FRAME {
            return Err(TooLong(length));
        }
        if rest.len() < length {
            return Ok(None);
        }
        self.at += 4 + length;
        Ok(Some(&rest[..length]))
    }
}
