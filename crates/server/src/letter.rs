//! What threads send each other besides calls of single commands.
use crate::{all::AllPart, mailbox::Token, registry::Entry, txn::Queued};
use kintsugidb_wire::{OwnedArgs, Proto};
use rustix::fd::OwnedFd;
use std::sync::Arc;

pub(crate) enum Letter {
    /// A new connection, accepted by another thread.
    Connection { fd: OwnedFd, is_unix: bool },
    /// Look at which connections are to be closed (CLIENT KILL).
    Kill,
    /// Run this on all your shards.
    All { token: Token, entry: &'static Entry, args: Arc<OwnedArgs> },
    /// What came out.
    AllDone { token: Token, part: AllPart },
    /// Run these one after the other on one shard, in one turn.
    Run { token: Token, shard: usize, proto: Proto, commands: Vec<Queued> },
    /// What came out: replies one after the other.
    Ran { token: Token, replies: Vec<u8> },
}
