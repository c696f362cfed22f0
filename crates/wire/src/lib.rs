//! RESP2 and RESP3: parsing requests, writing replies, and the client's side of both. The datagram protocol.
mod args;
pub mod client;
pub mod datagram;
mod parse;
mod reply;
mod slot;
mod value;

pub use args::OwnedArgs;
pub use client::{Client, encode};
pub use parse::{Limits, Parser, ProtocolError};
pub use reply::{Proto, Reply, format_double};
pub use slot::{SLOTS, slot};
pub use value::{Value, ValueError};
