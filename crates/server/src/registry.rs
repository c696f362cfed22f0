//! The table of commands as the front end sees it: found by name, with what the front end does itself.
use crate::{all::AllKind, front, front::Front};
use kintsugidb_engine::{Command, Point};
use std::sync::LazyLock;

/// One command.
pub(crate) struct Entry {
    pub index: usize,
    pub command: &'static Command,
    /// What the front end runs instead of the command's own function.
    pub front: Option<Front>,
    /// How parts of all shards are merged.
    pub all: AllKind,
    /// How it is answered from the regions, without their owners.
    pub point: Option<Point>,
}

const BUCKETS: usize = 1024;

struct Registry {
    entries: Vec<Entry>,
    /// Open addressing by the hash of the name; 0 is empty, else index + 1.
    buckets: [u16; BUCKETS],
}

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let entries: Vec<Entry> = kintsugidb_engine::table()
        .iter()
        .copied()
        .enumerate()
        .map(|(index, command)| Entry {
            index,
            command,
            front: front::find(command.name),
            all: AllKind::of(command.name),
            point: Point::of(command.name),
        })
        .collect();
    let mut buckets = [0; BUCKETS];
    for e in &entries {
        let mut at = hash(e.command.name.as_bytes());
        while buckets[at] != 0 {
            at = (at + 1) % BUCKETS;
        }
        buckets[at] = e.index as u16 + 1;
    }
    Registry { entries, buckets }
});

/// A hash that does not see case.
fn hash(name: &[u8]) -> usize {
    let h = name.iter().fold(name.len() as u32, |h, b| h.wrapping_mul(31).wrapping_add(u32::from(b | 0x20)));
    (h ^ h >> 10) as usize % BUCKETS
}

/// The command of this name, whatever its case.
pub(crate) fn find(name: &[u8]) -> Option<&'static Entry> {
    let r = &*REGISTRY;
    let mut at = hash(name);
    loop {
        let entry = r.entries.get(usize::from(r.buckets[at]).checked_sub(1)?)?;
        if entry.command.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(entry);
        }
        at = (at + 1) % BUCKETS;
    }
}

/// The command with this index.
pub(crate) fn by_index(index: usize) -> Option<&'static Entry> {
    REGISTRY.entries.get(index)
}
