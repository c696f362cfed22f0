//! The native client: it reads the shards' memory itself, and coordinates its own transactions.
//!
//! ```text
//!   Client ─┬─ point reads ───► mapped regions            no message; no work for the server at all
//!           ├─ transactions ──► RAMP frames over a fabric  the coordinator runs here: PREPARE, COMMIT, reads to the owners
//!           └─ the rest ──────► RESP frames                one key, or the whole server: run there
//! ```
//! What is promised is what the server promises every connection: single-key commands are linearizable; multi-key reads and writes
//! are read atomic across shards; a client reads its own writes. All three ways share one [`session`](kintsugidb_ramp::Session), which
//! carries what has been seen from one to the other.
//!
//! ```no_run
//! use kintsugidb_client::Client;
//! let mut client = Client::connect("shm:/run/kintsugi.sock")?;
//! client.transaction().set("user:7", "Ada").sadd("city:London", ["user:7"]).exec()?;
//! assert_eq!(client.get("user:7")?.as_deref(), Some(&b"Ada"[..]));
//! # Ok::<(), kintsugidb_client::Error>(())
//! ```
//! A client is used by one thread at a time; a thread each is one client each. No `unsafe` here.
#![forbid(unsafe_code)]

#[cfg(feature = "async")]
mod asynchronous;
mod client;
mod error;
mod fault;
mod lease;
mod link;
mod onesided;
mod operations;
mod options;
mod remote;
#[cfg(feature = "sim")]
pub mod sim;
mod transaction;
mod transport;

#[cfg(feature = "async")]
pub use asynchronous::{AsyncClient, Pending};
pub use client::Client;
pub use error::{Error, Result};
#[cfg(feature = "sim")]
pub use fault::Fault;
pub use kintsugidb_wire::Value;
pub use options::{Counters, Mode, Options};
pub use transaction::Transaction;
pub use transport::Transport;
