//! What can go wrong with remote I/O.

use crate::protocol::{Reply, Status};
use kintsugidb_fabric as fabric;

/// What can go wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoError {
    /// The target refused or failed it.
    #[error("{status}{}", if *.errno == 0 { String::new() } else { format!(" (errno {errno})") })]
    Target {
        /// How.
        status: Status,
        /// The target's errno, or 0.
        errno: u32,
        /// The segment that failed.
        segment: u16,
    },
    /// The connection ended before the reply; a write may or may not have happened.
    #[error("the connection to the target was lost{}", if *.unknown { "; the write may or may not have happened" } else { "" })]
    Lost {
        /// Whether it may have had an effect.
        unknown: bool,
    },
    /// No reply in time; a write may or may not have happened.
    #[error("no reply within {limit_ms} ms")]
    TimedOut {
        /// The limit, in milliseconds.
        limit_ms: u64,
    },
    /// Nobody waits for it any more.
    #[error("cancelled")]
    Cancelled,
    /// The request is larger than the target takes.
    #[error("the request is larger than the target takes")]
    TooMuch,
    /// The target said something that makes no sense.
    #[error("the target broke the protocol: {0}")]
    Protocol(&'static str),
    /// The target cannot be reached.
    #[error("{0}")]
    Connect(String),
}

impl IoError {
    pub(super) fn from_reply(reply: &Reply) -> IoError {
        match reply.status {
            Status::Cancelled => IoError::Cancelled,
            status => IoError::Target { status, errno: reply.errno, segment: reply.segment },
        }
    }

    /// The connection is of no use any more.
    pub(super) fn lost(why: fabric::Error) -> IoError {
        match why {
            fabric::Error::Protocol(what) => IoError::Protocol(what),
            _ => IoError::Lost { unknown: false },
        }
    }
}

impl From<IoError> for std::io::Error {
    fn from(why: IoError) -> std::io::Error {
        use std::io::ErrorKind;
        let kind = match &why {
            IoError::Target { status: Status::NoSuchVolume, .. } => ErrorKind::NotFound,
            IoError::Target { status: Status::ReadOnly, .. } => ErrorKind::PermissionDenied,
            IoError::Target { status: Status::Short, .. } => ErrorKind::UnexpectedEof,
            IoError::TimedOut { .. } => ErrorKind::TimedOut,
            IoError::Lost { .. } => ErrorKind::ConnectionReset,
            _ => ErrorKind::Other,
        };
        std::io::Error::new(kind, why)
    }
}
