//! Read Atomic transactions over shards: coordinator, participant, five isolation algorithms, and the simulator.
//!
//! ```text
//!   clock         timestamps that are unique and never behind what was seen
//!   message       what coordinators and participants say to each other
//!   Session       what a connection has seen, and takes along
//!   Coordinator   plans a transaction; Transaction drives it
//!   Participant   owns a Shard; prepares, commits, answers reads, finds out how orphans end
//! ```
//! Nothing here does I/O, reads a clock or draws a random number: time is an argument, messages go into an
//! [`message::Outbox`]. So a whole cluster runs in one thread under the simulator (feature `sim`), and every
//! failure has a seed. The numbered rules that comments refer to are those of `docs/PROTOCOL.md`.
mod clock;
mod config;
pub mod coordinator;
pub mod message;
pub mod participant;
mod session;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
pub mod wire;

pub use clock::{EPOCH_US, Hlc, MAX_COORDINATORS, MAX_SHARDS, NODE_BITS, ShardId, TxnId};
pub use config::{Config, Fault, Faults, Isolation, PreparedVersions};
pub use coordinator::{Coordinator, Outcome, Request, Transaction, shard_of};
pub use participant::Participant;
pub use session::Session;
