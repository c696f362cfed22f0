//! The client's side: a [`Channel`] for who drives it himself, a [`Remote`] with [`RemoteFile`]s for everybody else, and a cache.

mod block;
mod buddy;
mod cache;
mod channel;
mod driver;
mod error;
mod file;
mod remote;
mod request;

pub use block::Block;
pub use cache::{CacheOptions, CacheStatistics, CachedFile};
pub use channel::{Channel, Finished, NoRoom};
pub use error::IoError;
pub use file::RemoteFile;
pub use remote::{Remote, RemoteOptions};
pub use request::Request;

#[cfg(feature = "object-store")]
pub(crate) use remote::listed;

#[cfg(test)]
pub(crate) use {
    block::{Area, Held},
    driver::{Driver, Patience},
    request::{Answer, Command, Work},
};
