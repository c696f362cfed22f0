//! The transport layer: registered regions, one-sided reads and writes, messages and completions, behind one trait with honest
//! capabilities.
//!
//! | fabric | carries | one-sided |
//! | --- | --- | --- |
//! | `shm` | files in memory, mapped by the peer, passed over a Unix socket | truly |
//! | `tcp` | framed messages | emulated by an agent thread of the target |
//! | `verbs` | ibverbs, send and receive | emulated by an agent thread of the target |
//! | `rdma` | ibverbs, RDMA reads and writes | truly |
//! | `sim` | a deterministic, seeded simulation | as configured |
//!
//! Set-up ([`listen`], [`connect`]: who may come in, what is handed out) is apart from the data path ([`Connection`]).
//!
//! ```
//! use kintsugidb_fabric::{*, handshake::Hello};
//! use std::sync::Arc;
//! let region = Arc::new(Mapping::create(4096)?);
//! region.store_bytes(0, b"Kintsugi")?;
//! region.seal_future_writes()?;
//! let path = std::env::temp_dir().join(format!("kintsugi-doc-{}.sock", std::process::id()));
//! let mut listener = listen(&Address::Shm(path.clone()), &ListenOptions::default())?;
//! let client = std::thread::spawn(move || connect(&Address::Shm(path), &ConnectOptions::default()));
//! let mut gate = |_: &Hello, _: &Peer| {
//!     let exports = vec![Export { id: 7, access: Access::Read, memory: region.clone() }];
//!     Ok(Grant { exports, info: Vec::new() })
//! };
//! let server = loop {
//!     if let Some(accepted) = listener.accept(&mut gate)? { break accepted }
//! };
//! let mut client = client.join().unwrap()?.connection;
//! let buffer = client.register(64)?;
//! client.read(7, 0, buffer.span(0, 8), 1)?;
//! let mut done = Vec::new();
//! while client.poll(&mut done)? == 0 {}
//! let mut bytes = [0; 8];
//! buffer.memory().load_bytes(0, &mut bytes)?;
//! assert_eq!(&bytes, b"Kintsugi");
//! # drop(server);
//! # Ok::<(), Error>(())
//! ```

mod sync;
mod words;

pub mod bell;
pub mod ring;
#[cfg(model)]
pub use sync::{Safeguard, each_is_needed};

#[cfg(not(model))]
mod address;
#[cfg(not(model))]
mod connection;
#[cfg(not(model))]
pub mod handshake;
#[cfg(not(model))]
mod ibv;
#[cfg(not(model))]
mod local;
#[cfg(not(model))]
mod memory;
#[cfg(not(model))]
mod net;
#[cfg(not(model))]
mod pending;
#[cfg(not(model))]
mod rdma;
#[cfg(not(model))]
mod setup;
#[cfg(not(model))]
mod shm;
#[cfg(not(model))]
pub mod sim;
#[cfg(not(model))]
mod tcp;

#[cfg(not(model))]
mod error;
#[cfg(not(model))]
pub mod limits;

#[cfg(not(model))]
pub use address::{Address, Fabric};
#[cfg(not(model))]
pub use connection::{Access, Capabilities, Completion, Connection, OneSided, RemoteRegion, Written};
#[cfg(not(model))]
pub use error::{Error, Failure, Refusal, RefusalCode};
#[cfg(not(model))]
pub use memory::{Buffer, Kept, Mapping, Span};
#[cfg(not(model))]
pub use setup::{
    Accepted, ConnectOptions, Connected, Export, Gate, Grant, ListenOptions, Listener, Peer, connect, listen,
};
