//! What can go wrong with a command, in Redis's texts and codes.
use std::borrow::Cow;

/// Why a command failed. [`std::fmt::Display`] gives the whole error reply, code first, without the dash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The key holds another type.
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    /// The arguments do not parse.
    #[error("ERR syntax error")]
    Syntax,
    /// An argument or a stored value is no 64-bit integer.
    #[error("ERR value is not an integer or out of range")]
    NotInteger,
    /// An argument or a stored value is no float.
    #[error("ERR value is not a valid float")]
    NotFloat,
    /// The memory limit is reached.
    #[error("OOM command not allowed when used memory > 'maxmemory'.")]
    OutOfMemory,
    /// The key must exist (LSET, RENAME).
    #[error("ERR no such key")]
    NoSuchKey,
    /// The wrong number of arguments for the command of this (lower-case) name.
    #[error("ERR wrong number of arguments for '{0}' command")]
    Arity(Cow<'static, str>),
    /// Any other error: the whole text, code first.
    #[error("{0}")]
    Other(Cow<'static, str>),
}

impl Error {
    /// An error with a text of its own, code first.
    pub fn other(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Other(text.into())
    }
}
