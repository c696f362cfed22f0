//! What can go wrong.

use crate::{Access, Fabric};
use std::sync::Arc;

/// An error of a connection or of its set-up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: rustix::io::Errno,
    },
    /// Not an address.
    #[error("{address:?} is not an address: {why}")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// This fabric cannot be had here.
    #[error("fabric {fabric} is not available: {why}")]
    Unavailable {
        /// Which.
        fabric: Fabric,
        /// What is missing.
        why: String,
    },
    /// The listening side turned the connection away.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The peer did not keep to the protocol; the connection is closed.
    #[error("the peer broke the protocol: {0}")]
    Protocol(&'static str),
    /// Set-up took too long.
    #[error("{what} took longer than {limit_ms} ms")]
    SetUpTimedOut {
        /// What.
        what: &'static str,
        /// The limit, in milliseconds.
        limit_ms: u64,
    },
    /// The peer is gone, and all that it sent has been received.
    #[error("the peer is gone")]
    PeerDead,
    /// No room now: fetch completions, or wait, and try again. Nothing was done.
    #[error("no room; try again when the peer has caught up")]
    Full,
    /// Larger than this fabric carries.
    #[error("{bytes} bytes are more than the {limit} that can be carried")]
    TooLarge {
        /// What was asked.
        bytes: u64,
        /// What is possible.
        limit: u64,
    },
    /// The peer handed out no such region.
    #[error("the peer handed out no region {0}")]
    NoSuchRegion(u32),
    /// No such local buffer, or it has been deregistered.
    #[error("no buffer {0} is registered")]
    NoSuchBuffer(u64),
    /// Outside a region or a buffer.
    #[error("{bytes} bytes at {offset} are outside its {length} bytes")]
    OutOfBounds {
        /// Where the access would begin, in bytes.
        offset: u64,
        /// How long it would be.
        bytes: u64,
        /// How long the region or the buffer is.
        length: u64,
    },
    /// The region may not be accessed in this way.
    #[error("region {region} grants {granted:?} only")]
    Denied {
        /// Which.
        region: u32,
        /// What it grants.
        granted: Access,
    },
    /// Offsets and lengths of one-sided accesses are multiples of 8.
    #[error("offset or length is not a multiple of 8")]
    Unaligned,
    /// A memory that could be written by whom it is to be handed to, or cut under its readers.
    #[error("the memory cannot be shared safely: {0}")]
    Unsafe(&'static str),
}

impl Error {
    pub(crate) fn system(what: &'static str) -> impl Fn(rustix::io::Errno) -> Error {
        move |source| Error::System { what, source }
    }
}

/// Why a connection was turned away.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// The kind of reason, for programs.
    pub code: RefusalCode,
    /// The reason, for people; cut to [`crate::limits::REASON_BYTES`].
    pub reason: String,
}

/// Kinds of refusals.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RefusalCode {
    /// Wrong user or password.
    Authentication = 1,
    /// The user may not connect in this way.
    Permission = 2,
    /// Another version of the handshake.
    Version = 3,
    /// Too many connections.
    Busy = 4,
    /// The frame made no sense, or the fabric is another one.
    Malformed = 5,
    /// Something at the listening side.
    Internal = 6,
}

impl RefusalCode {
    pub(crate) fn from_number(number: u8) -> Option<RefusalCode> {
        use RefusalCode::{Authentication, Busy, Internal, Malformed, Permission, Version};
        [Authentication, Permission, Version, Busy, Malformed, Internal]
            .into_iter()
            .find(|c| *c as u8 == number)
    }
}

/// How a one-sided operation ended that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Its buffer was deregistered, or the connection closed, before it was done.
    #[error("cancelled")]
    Cancelled,
    /// The target found the range outside the region.
    #[error("out of bounds, says the target")]
    OutOfBounds,
    /// The target does not grant this access, or the key is wrong.
    #[error("denied by the target")]
    Denied,
    /// The peer is gone.
    #[error("the peer is gone")]
    PeerDead,
    /// The agent that emulates one-sided accesses did not answer in time.
    #[error("{agent} did not answer within {limit_ms} ms")]
    TimedOut {
        /// Which agent, for people.
        agent: Arc<str>,
        /// The limit, in milliseconds.
        limit_ms: u64,
    },
}
