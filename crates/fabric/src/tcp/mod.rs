//! TCP: messages in frames on one socket, one-sided accesses emulated by an agent thread on another.
//!
//! ```text
//!   first socket     HELLO ──▶  ◀── WELCOME (blob: two keys to attach)      then messages: length (u32) │ bytes
//!   second socket    ATTACH ──▶      if the listening side hands out regions: the connecting side asks the other's agent
//!   third socket     ATTACH ──▶      if the connecting side hands out regions: the listening side asks the other's agent
//!
//!     request   length of the frame (u32) │ kind (u8) │ 0 (3 bytes) │ number (u64) │ key (u64) │ offset (u64) │ bytes (u64) │ data of a write
//!     answer    length of the frame (u32) │ status (u8) │ 0 (3 bytes) │ number (u64) │ data of a read
//! ```
//! Sockets of their own, because the target's thread that handles messages is another one than the agent: neither waits for the other, and they
//! share no lock. So there is no order between a message and a one-sided access, which the capabilities say.
//!
//! The fabric `verbs` does the same over two queue pairs: what carries the bytes is a [`Pipe`].
//!
//! The agent is one thread for each listener, or for each connection that hands out regions to a listener. It reads and writes the exported mappings as a mapped peer would, word by word, and checks
//! key, bounds and access of every request. A stopped target does not answer; then the operation fails with the agent's name.

mod agent;
mod connection;
mod listen;
mod stream;

pub(crate) use agent::Agent;
pub(crate) use connection::Tcp;
pub(crate) use listen::{Listener, connect, open};
pub(crate) use stream::{CHUNK, Pipe, Stream};

/// Bytes of a request besides a write's data.
const REQUEST: usize = 40;
/// Bytes of an answer besides a read's data.
const ANSWER: usize = 16;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Read = 1,
    Write = 2,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Status {
    Done = 0,
    OutOfBounds = 1,
    Denied = 2,
}

/// Eight bytes at a place of a frame whose length has been checked.
fn word(frame: &[u8], at: usize) -> u64 {
    frame.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The length that a frame begins with, if so much has come in.
fn length(input: &[u8]) -> Option<usize> {
    input.first_chunk().map(|bytes| u32::from_le_bytes(*bytes) as usize)
}
