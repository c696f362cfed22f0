//! Blocks, and the data area that they may be in.

use super::buddy::Buddy;
use kintsugidb_fabric::Mapping;
use std::sync::{Arc, Mutex, PoisonError};

/// The data area and who has which place of it.
pub(crate) struct Area {
    pub memory: Arc<Mapping>,
    places: Mutex<Buddy>,
}

impl Area {
    /// Over memory of a power of two of pages.
    pub fn new(memory: Arc<Mapping>) -> Arc<Area> {
        Arc::new(Area { places: Mutex::new(Buddy::new(memory.len())), memory })
    }

    /// What is taken by nobody: offset and bytes.
    #[cfg(test)]
    pub fn free(&self) -> Vec<(u64, u64)> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).free().collect()
    }

    pub fn take(self: &Arc<Self>, bytes: u64) -> Option<Held> {
        let at = self.places.lock().unwrap_or_else(PoisonError::into_inner).take(bytes)?;
        Some(Held { area: self.clone(), at, bytes })
    }
}

/// A place that is in use until this is dropped.
pub(crate) struct Held {
    area: Arc<Area>,
    pub at: u64,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.area.places.lock().unwrap_or_else(PoisonError::into_inner).give(self.at, self.bytes);
    }
}

pub(super) enum Content {
    Place(Held),
    Message(Vec<u8>, usize),
    Nothing,
}

/// What a request has read: all its segments, one after another.
pub struct Block {
    pub(super) content: Content,
    pub(super) bytes: usize,
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Block({} bytes)", self.bytes)
    }
}

impl Block {
    /// Bytes that were read.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Copies bytes out of it, from `offset` on. `false`: it is not so long.
    #[must_use]
    pub fn copy_to(&self, offset: usize, into: &mut [u8]) -> bool {
        if offset.checked_add(into.len()).is_none_or(|end| end > self.bytes) {
            return false;
        }
        match &self.content {
            Content::Place(held) => held.area.memory.load_bytes(held.at + offset as u64, into).is_ok(),
            Content::Message(message, start) => {
                into.copy_from_slice(&message[start + offset..][..into.len()]);
                true
            }
            Content::Nothing => into.is_empty(),
        }
    }

    /// A copy of all of it.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = vec![0; self.bytes];
        let whole = self.copy_to(0, &mut out);
        debug_assert!(whole);
        out
    }
}
