//! Shared memory: the peer maps what it may read, and the rings are a file in memory that both sides map.
//!
//! ```text
//!   Unix socket    HELLO ──▶   ◀── WELCOME + descriptors: the rings, then one for each region      (SCM_RIGHTS)
//!                  then: one byte wakes a sleeper; the end of the stream is the peer's death
//!
//!   rings file     ┌────────────── inbox of the listening side ─────────────┬─ inbox of the connecting side ─┐
//!                  │ page: credit (word 0), asleep (word 8) │ ring            │ the same                       │
//!                  └─────────────────────────────────────────┴────────────────┴────────────────────────────────┘
//! ```
//! An *inbox* is what its owner is told: only the peer stores there, except that the owner clears what it has taken. `credit`: how far the
//! peer has consumed what the owner sent. `asleep`: the peer sleeps and wants a byte on the socket when there is news.
//!
//! Who goes to sleep sets `asleep` in the peer's inbox, then looks at its ring once more; who sends writes the ring, then looks at
//! `asleep`; a sequentially consistent fence between the two on both sides, so that one of them sees the other.
//!
//! The doorbell is a byte on the socket rather than an eventfd: the flags of a descriptor that both sides hold are shared, so a peer could
//! make it blocking; `send` is told for each call not to block.
//!
//! The peer can write anything into the rings file at any time; it cannot shrink it (sealed). Nothing read there is trusted.

mod connection;
mod listen;
mod socket;

pub(crate) use listen::{Listener, connect};
#[cfg(test)]
mod tests;
