//! When keys expire: (time, hash of the key) in order of time.
//!
//! The hash stands for the key: a write that keeps the expiry leaves the entry as it is, and an entry takes 16 bytes whatever
//! the key's length. Two keys with the same hash and time share an entry, so that one of them may be left to be removed when it
//! is next written; it is absent for everybody all the same.
use super::{Shard, root};
use kintsugidb_arena::{Table, hash};
use std::collections::BTreeSet;

#[derive(Default)]
pub(super) struct Expiry {
    times: BTreeSet<(u64, u64)>,
}

impl Expiry {
    /// An estimate: 16 bytes an entry, and what a tree of them leaves empty.
    pub(super) fn bytes(&self) -> usize {
        self.times.len() * 32
    }

    pub(super) fn change(&mut self, h: u64, was: Option<u64>, is: Option<u64>) {
        if let Some(at) = was {
            self.times.remove(&(at, h));
        }
        if let Some(at) = is {
            self.times.insert((at, h));
        }
    }

    /// Takes the first entry whose time has come.
    fn pop_due(&mut self, now_ms: u64) -> Option<(u64, u64)> {
        let first = *self.times.first()?;
        (first.0 <= now_ms).then(|| {
            self.times.remove(&first);
            first
        })
    }

    pub(super) fn clear(&mut self) {
        self.times.clear();
    }
}

impl Shard {
    /// Number of keys that expire.
    pub fn expiring(&self) -> usize {
        self.expiry.times.len()
    }

    /// Removes up to `most` keys whose time has come.
    pub(super) fn expire_due(&mut self, most: usize) {
        for _ in 0..most {
            let Some((at, h)) = self.expiry.pop_due(self.now_ms) else { return };
            let mut key = None;
            // the cursor of a scan is a position in the order of hashes: one bucket is visited
            self.arena.scan(Table::ROOT, h >> 32, &mut |c| {
                if root::expiry(&c) == Some(at) && hash(c.key()) == h {
                    key = Some(c.key().to_vec());
                }
            });
            if let Some(key) = key {
                self.remove_root(h, &key);
            }
        }
    }
}
