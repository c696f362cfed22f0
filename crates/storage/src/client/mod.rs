//! The client's side: a [`Channel`] for who drives it himself, a [`Remote`] with [`RemoteFile`]s for everybody else, and a cache.

mod buddy;
mod cache;
mod channel;
mod remote;

pub use cache::{CacheOptions, CacheStatistics, CachedFile};
pub use channel::{Block, Channel, Finished, IoError, NoRoom};
pub use remote::{Remote, RemoteFile, RemoteOptions, Request};
