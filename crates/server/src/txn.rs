//! Commands that hold up their connection: over all shards, over several, and EXEC.
use crate::all::AllPart;
use crate::registry::Entry;
use kintsugidb_wire::{OwnedArgs, Reply};

/// A command that outlives the buffer it was read into.
pub(crate) struct Queued {
    pub entry: &'static Entry,
    pub args: OwnedArgs,
}

/// What a connection waits for.
pub(crate) enum Pending {
    /// Parts from all threads.
    All { entry: &'static Entry, left: usize, part: AllPart, then: Then },
    /// Replies of commands run in one turn elsewhere.
    Run { then: Then },
}

/// What happens with the replies.
pub(crate) enum Then {
    /// They are the reply.
    Answer,
    /// They are part of what EXEC answers.
    Exec(Box<Exec>),
}

/// EXEC on its way through what was queued.
pub(crate) struct Exec {
    pub commands: std::vec::IntoIter<Queued>,
    pub replies: Reply,
}
