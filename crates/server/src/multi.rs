//! MULTI: what a connection has queued.
use crate::txn::Queued;

/// Bytes that one MULTI may queue.
pub(crate) const MAX_QUEUED_BYTES: usize = 512 << 20;

#[derive(Default)]
pub(crate) struct Multi {
    pub is_open: bool,
    /// A command was refused: EXEC will fail.
    pub is_broken: bool,
    pub commands: Vec<Queued>,
    pub bytes: usize,
}

impl Multi {
    /// Ends it; what was queued.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}
