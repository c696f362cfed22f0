//! The client's side: a [`Channel`] for who drives it himself, a [`Remote`] with [`RemoteFile`]s for everybody else.

mod buddy;
mod channel;

pub use channel::{Block, Channel, Finished, IoError, NoRoom};
