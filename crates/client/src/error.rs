//! What can go wrong.
use kintsugidb_ramp::wire::{WireError, frame::TooLong};

/// What a client's operation answers.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server answered with an error; code first, as in Redis.
    #[error("{0}")]
    Server(String),
    /// The connection broke while the operation was under way. A write may have been done or not; nothing else was lost, and the
    /// next operation connects again.
    #[error("the connection was lost; whether the operation was done is not known")]
    Disconnected,
    /// The server did not answer in time. The connection is closed, as if it were lost.
    #[error("the server did not answer within {0} ms; whether the operation was done is not known")]
    TimedOut(u64),
    /// The address, the fabric, or the server's refusal.
    #[error("cannot connect: {0}")]
    Connect(#[source] kintsugidb_fabric::Error),
    /// The server refused the client, or ended it.
    #[error("the server ended the connection: {0}")]
    Refused(String),
    /// The fabric failed.
    #[error("the fabric failed: {0}")]
    Fabric(#[source] kintsugidb_fabric::Error),
    /// The server's bytes are none of this protocol.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
    /// The reply is not of the type that the operation has.
    #[error("an unexpected reply: {0}")]
    Unexpected(String),
    /// Commands that change the connection have their own operations here (transactions, watching).
    #[error("{0} is not for a native client: use its operations")]
    NotHere(&'static str),
}

impl From<kintsugidb_fabric::Error> for Error {
    fn from(e: kintsugidb_fabric::Error) -> Self {
        match e {
            kintsugidb_fabric::Error::PeerDead => Self::Disconnected,
            e => Self::Fabric(e),
        }
    }
}

impl From<WireError> for Error {
    fn from(e: WireError) -> Self {
        Self::Protocol(e.to_string())
    }
}

impl From<TooLong> for Error {
    fn from(e: TooLong) -> Self {
        Self::Protocol(e.to_string())
    }
}

impl From<kintsugidb_engine::Error> for Error {
    fn from(e: kintsugidb_engine::Error) -> Self {
        Self::Server(e.to_string())
    }
}

impl Error {
    /// Whether the connection is of no use any more.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self, Self::Server(_) | Self::Unexpected(_) | Self::NotHere(_) | Self::Connect(_))
    }
}
