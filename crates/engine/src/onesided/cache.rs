//! What a reader of a region that is not mapped remembers of it: where tables and keys were, and which of their versions belong to transactions that are over.
use kintsugidb_arena::{
    Table,
    remote::{Address, Descriptor, Lookup},
};
use std::collections::HashMap;

/// What is remembered of one region. Where something is does not have to be true: what has moved is found by the index.
#[derive(Debug)]
pub struct Cache {
    /// Bytes of the region.
    region: u64,
    tables: HashMap<Table, Known>,
    /// Tables and addresses together, and how many of them there may be.
    size: usize,
    limit: usize,
}

#[derive(Debug, Default)]
struct Known {
    descriptor: Option<Descriptor>,
    places: HashMap<Box<[u8]>, Place>,
}

#[derive(Debug)]
struct Place {
    at: Address,
    /// The timestamp of a version whose transaction is over; 0: of none.
    settled: u64,
}

impl Cache {
    /// Nothing is known yet of a region of so many bytes, and at most so many places will be.
    pub fn new(region: u64, limit: usize) -> Self {
        Self { region, tables: HashMap::new(), size: 0, limit }
    }

    /// Bytes of the region.
    pub fn region(&self) -> u64 {
        self.region
    }

    /// Looks a key up from what is known.
    pub(super) fn look_up<'k>(&self, table: Table, hash: u64, key: &'k [u8]) -> Lookup<'k> {
        let known = self.tables.get(&table);
        let descriptor = known.and_then(|k| k.descriptor);
        match known.and_then(|k| k.places.get(key)) {
            Some(place) => Lookup::by_address(self.region, table, hash, key, descriptor, place.at),
            None => Lookup::by_index(self.region, table, hash, key, descriptor),
        }
    }

    /// Takes over what a lookup has found out.
    pub(super) fn learn(&mut self, table: Table, key: &[u8], lookup: &Lookup<'_>, at: Option<Address>) {
        if self.size >= self.limit {
            self.tables.clear();
            self.size = 0;
        }
        let known = self.tables.entry(table).or_insert_with(|| {
            self.size += 1;
            Known::default()
        });
        known.descriptor = lookup.descriptor();
        match (at, known.places.get_mut(key)) {
            (Some(at), Some(place)) => place.at = at,
            (Some(at), None) => {
                known.places.insert(key.into(), Place { at, settled: 0 });
                self.size += 1;
            }
            (None, _) => self.size -= usize::from(known.places.remove(key).is_some()),
        }
    }

    /// Remembers that the transaction that wrote this version of a key of the root is committed at all its participants.
    pub(super) fn settle(&mut self, key: &[u8], ts: u64) {
        if let Some(place) = self.tables.get_mut(&Table::ROOT).and_then(|known| known.places.get_mut(key)) {
            place.settled = ts;
        }
    }

    /// Whether that is known. A timestamp belongs to one transaction alone.
    pub(super) fn is_settled(&self, key: &[u8], ts: u64) -> bool {
        let place = self.tables.get(&Table::ROOT).and_then(|known| known.places.get(key));
        place.is_some_and(|place| place.settled == ts)
    }
}
