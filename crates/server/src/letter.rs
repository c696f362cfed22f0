//! What threads send each other besides calls of single commands.
use crate::{all::AllPart, mailbox::Token, registry::Entry};
use kintsugidb_wire::OwnedArgs;
use rustix::fd::OwnedFd;
use std::sync::Arc;

pub(crate) enum Letter {
    /// A new connection, accepted by another thread.
    Connection { fd: OwnedFd, is_unix: bool },
    /// A native connection, let in by another thread.
    Native(Box<kintsugidb_fabric::Accepted>),
    /// Look at which connections are to be closed (CLIENT KILL).
    Kill,
    /// Run this on all your shards.
    All { token: Token, entry: &'static Entry, args: Arc<OwnedArgs> },
    /// What came out.
    AllDone { token: Token, part: AllPart },
}
