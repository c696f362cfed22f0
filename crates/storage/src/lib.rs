//! Remote I/O: a target serves blocks of files and devices, a client reads them over any fabric.
mod client;
mod memory;
mod session;
#[cfg(test)]
mod simulation;
mod target;
mod users;
mod volume;

pub mod engine;
pub mod limits;
#[cfg(feature = "object-store")]
pub mod object_store;
pub mod pattern;
pub mod protocol;
pub mod replay;
pub mod trace;
pub use client::{Block, CacheOptions, CacheStatistics, CachedFile, Channel, Finished, IoError, NoRoom};
pub use client::{Remote, RemoteFile, RemoteOptions, Request};
pub use memory::{ALIGNMENT, Area, Heap, Mapped, Place};
pub use session::{Outgoing, Permission, Session};
pub use target::{Target, TargetError, TargetOptions};
pub use users::User;
pub use volume::{OpenError, Volume, VolumeOptions};
