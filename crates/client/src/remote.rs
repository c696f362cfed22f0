//! GET\*: items of regions that are not mapped here, read by the fabric, without work for the server.
//!
//! ```text
//!   known address   read the cell                                      one round trip
//!   else            read the bucket, then the cell                     two
//!   then            the record of the transaction that wrote it, if any; a second look at keys of one shard
//! ```
//! The lookups are `kintsugidb_arena::remote`'s; what is read of several keys is judged as `kintsugidb_engine::PointReader` judges it: nothing of a transaction that
//! its owner is still writing; keys of one shard unchanged after all were read; no half of a transaction that another key's record
//! names; no epoch passed twice. Any doubt, after a few attempts, is a message instead.
use crate::{
    Error, Result, Transport,
    fault::{Fault, Faults},
};
use kintsugidb_arena::{
    Kind, Ref, Table,
    remote::{
        Address, Busy, Descriptor, EPOCH, Item, Lookup, Outcome, Range, Record, ask_record, feed_record,
    },
};
use kintsugidb_engine::{Siblings, fingerprint_with};
use kintsugidb_fabric::{Buffer, Completion, Connection, Error as FabricError, Failure, OneSided};
use std::{collections::HashMap, sync::Arc, time::Duration};

/// Bytes of the buffer that reads go into.
const BUFFER: usize = 4 << 20;
/// Addresses that are remembered.
const ADDRESSES: usize = 1 << 20;
/// Attempts before the owners are asked.
const TRIES: usize = 8;

/// Reads of regions over a fabric.
pub(crate) struct Remote {
    buffer: Buffer,
    regions: Vec<u64>,
    seed: u64,
    /// Whether the fabric carries reads out in the order in which they are posted.
    in_order: bool,
    how: How,
    descriptors: Vec<Option<Descriptor>>,
    addresses: HashMap<Box<[u8]>, Address>,
    done: Vec<Completion>,
    pub retries: u64,
    pub followed: u64,
    pub fractures: u64,
}

/// How regions are read.
pub(crate) struct How {
    /// For its time.
    pub transport: Arc<dyn Transport>,
    /// What transaction records say.
    pub siblings: Siblings,
    /// Also where the fabric only pretends.
    pub emulated: bool,
    /// How long one question may take.
    pub timeout: Duration,
    pub faults: Faults,
}

/// What a string's key holds: the string, if it is there; `Err`: another type.
pub(crate) type Text = std::result::Result<Option<Vec<u8>>, ()>;

/// What was read of some keys.
pub(crate) struct Read {
    /// The strings, in the order of the keys.
    pub values: Vec<Text>,
    /// The highest timestamp met.
    pub clock: u64,
    /// Transactions that are not known to be stable, and their commit timestamps.
    pub txns: Vec<(u64, u64)>,
}

/// Something changed meanwhile, or half of a transaction was seen.
enum Doubt {
    Changed,
    Fractured,
}

impl Remote {
    /// `None`: this fabric reads nothing one-sidedly, or only pretends to, unless that is wanted.
    pub fn new(connection: &mut dyn Connection, shards: u16, seed: u64, how: How) -> Option<Self> {
        let can = connection.capabilities();
        if can.one_sided != OneSided::Truly && !how.emulated {
            return None;
        }
        let table = connection.regions();
        let length = |shard| table.iter().find(|r| r.id == u32::from(shard)).map(|r| r.length);
        let regions: Vec<u64> = (0..shards).map(length).collect::<Option<_>>()?;
        Some(Self {
            buffer: connection.register(BUFFER).ok()?,
            descriptors: vec![None; regions.len()],
            regions,
            seed,
            // Operations of one connection are carried out in the order in which they complete.
            in_order: can.completes_in_order,
            how,
            addresses: HashMap::new(),
            done: Vec::new(),
            retries: 0,
            followed: 0,
            fractures: 0,
        })
    }

    /// Reads strings together. `Ok(None)`: ask the owners.
    pub fn strings(
        &mut self,
        connection: &mut dyn Connection,
        keys: &[(usize, &[u8])],
        now_ms: u64,
    ) -> Result<Option<Read>> {
        let mut fractures = 0;
        for _ in 0..TRIES {
            match self.attempt(connection, keys, now_ms)? {
                Ok(read) => return Ok(Some(read)),
                Err(Doubt::Changed) => {}
                Err(Doubt::Fractured) => {
                    self.fractures += 1;
                    fractures += 1;
                    if fractures > 1 {
                        return Ok(None);
                    }
                }
            }
            self.retries += 1;
        }
        Ok(None)
    }

    fn attempt(
        &mut self,
        connection: &mut dyn Connection,
        keys: &[(usize, &[u8])],
        now_ms: u64,
    ) -> Result<std::result::Result<Read, Doubt>> {
        let mut shards: Vec<usize> = keys.iter().map(|(s, _)| *s).collect();
        shards.sort_unstable();
        shards.dedup();
        let several = shards.len() > 1 && !self.how.faults.has(Fault::NoEpochs);
        let before = if several { self.epochs(connection, &shards)? } else { Vec::new() };
        let Ok(items) = self.look_up(connection, keys)? else { return Ok(Err(Doubt::Changed)) };
        let Ok(records) = self.records(connection, keys, &items)? else { return Ok(Err(Doubt::Changed)) };
        // Keys of one shard: every cell has to be current after all were read.
        if keys.len() > shards.len() && !self.how.faults.has(Fault::NoSecondLook) {
            let Ok(again) = self.look_up(connection, keys)? else { return Ok(Err(Doubt::Changed)) };
            let place = |i: &Option<Item>| i.as_ref().map(|i| i.address);
            if items.iter().map(place).ne(again.iter().map(place)) {
                return Ok(Err(Doubt::Changed));
            }
        }
        if records.iter().flatten().any(|r| r.under_way) {
            return Ok(Err(Doubt::Changed));
        }
        let mut read = Read { values: Vec::new(), clock: 0, txns: Vec::new() };
        for (i, (item, record)) in items.iter().zip(&records).enumerate() {
            let (Some(item), Some(record)) = (item, record) else { continue };
            if !record.stable {
                read.txns.push((record.txn, item.ts));
            }
            let half = |j: usize| {
                let ts = items[j].as_ref().map_or(0, |other| other.ts);
                keys[j].0 != keys[i].0 && ts < item.ts && self.may_hold(record, keys[j].1)
            };
            if (0..keys.len()).any(half) && !self.how.faults.has(Fault::NoSiblings) {
                return Ok(Err(Doubt::Fractured));
            }
        }
        if several {
            let after = self.epochs(connection, &shards)?;
            if before.iter().zip(after).any(|(b, a)| a > b + 1) {
                return Ok(Err(Doubt::Changed));
            }
        }
        for item in items {
            read.clock = read.clock.max(item.as_ref().map_or(0, |i| i.ts));
            let live = item
                .filter(|i| i.kind != Kind::Tombstone && (i.expire_at_ms == 0 || i.expire_at_ms > now_ms));
            read.values.push(match live {
                None => Ok(None),
                Some(item) if item.kind == Kind::String => Ok(Some(item.value)),
                Some(_) => Err(()),
            });
        }
        Ok(Ok(read))
    }

    fn may_hold(&self, record: &Record, key: &[u8]) -> bool {
        let fingerprint = fingerprint_with(self.seed, key);
        self.how.siblings.may_hold(&record.siblings, fingerprint)
    }

    /// Looks keys up side by side. `Err`: too much changes.
    fn look_up(
        &mut self,
        connection: &mut dyn Connection,
        keys: &[(usize, &[u8])],
    ) -> Result<std::result::Result<Vec<Option<Item>>, Busy>> {
        let mut lookups: Vec<Lookup<'_>> = Vec::with_capacity(keys.len());
        for &(shard, key) in keys {
            let (region, hash, known) =
                (self.regions[shard], fingerprint_with(self.seed, key), self.descriptors[shard]);
            lookups.push(match self.addresses.get(key) {
                Some(at) => Lookup::by_address(region, Table::ROOT, hash, key, known, *at),
                None => Lookup::by_index(region, Table::ROOT, hash, key, known),
            });
        }
        let mut ended: Vec<Option<Option<Item>>> = keys.iter().map(|_| None).collect();
        while ended.iter().any(Option::is_none) {
            let open: Vec<usize> = (0..keys.len()).filter(|i| ended[*i].is_none()).collect();
            let asked: Vec<(usize, Vec<Range>)> =
                open.iter().map(|i| (keys[*i].0, lookups[*i].ask().to_vec())).collect();
            let fed = self.fetch(connection, &asked)?;
            for (i, words) in open.into_iter().zip(fed) {
                match lookups[i].feed(&words) {
                    Ok(None) => {}
                    Ok(Some(Outcome::Found(item))) => ended[i] = Some(Some(*item)),
                    Ok(Some(Outcome::Absent)) => ended[i] = Some(None),
                    Err(Busy) => return Ok(Err(Busy)),
                }
            }
        }
        for ((lookup, &(shard, key)), item) in lookups.iter().zip(keys).zip(&ended) {
            self.descriptors[shard] = lookup.descriptor();
            self.retries += lookup.retries() as u64;
            self.followed += lookup.followed() as u64;
            match item {
                Some(Some(item)) => {
                    if self.addresses.len() >= ADDRESSES {
                        self.addresses.clear();
                    }
                    self.addresses.insert(key.into(), item.address);
                }
                _ => drop(self.addresses.remove(key)),
            }
        }
        Ok(Ok(ended.into_iter().flatten().collect()))
    }

    /// The records of the transactions that wrote these items. `Err`: one was torn.
    fn records(
        &mut self,
        connection: &mut dyn Connection,
        keys: &[(usize, &[u8])],
        items: &[Option<Item>],
    ) -> Result<std::result::Result<Vec<Option<Record>>, ()>> {
        let mut records: Vec<Option<Record>> = items.iter().map(|_| None).collect();
        let mut open: Vec<(usize, Ref, u64)> = Vec::new();
        for (i, item) in items.iter().enumerate() {
            open.extend(item.as_ref().and_then(|item| item.txn).map(|record| (i, record, 0)));
        }
        for _ in 0..TRIES {
            if open.is_empty() {
                return Ok(Ok(records));
            }
            let ask = |(i, record, bytes): &(usize, Ref, u64)| {
                let shard = keys[*i].0;
                Some((shard, ask_record(self.regions[shard], *record, *bytes)?.to_vec()))
            };
            let Some(asked) = open.iter().map(ask).collect::<Option<Vec<_>>>() else { return Ok(Err(())) };
            let fed = self.fetch(connection, &asked)?;
            let mut again = Vec::new();
            for ((i, record, bytes), words) in std::mem::take(&mut open).into_iter().zip(fed) {
                match feed_record(record, &words) {
                    Ok(found) => records[i] = found,
                    Err(more) => again.push((i, record, more.max(bytes))),
                }
            }
            open = again;
        }
        Ok(Err(()))
    }

    fn epochs(&mut self, connection: &mut dyn Connection, shards: &[usize]) -> Result<Vec<u64>> {
        let asked: Vec<_> = shards.iter().map(|s| (*s, vec![EPOCH])).collect();
        Ok(self.fetch(connection, &asked)?.into_iter().map(|words| words[0]).collect())
    }

    fn now(&self) -> Duration {
        self.how.transport.now()
    }

    /// Reads ranges of shards, those of one list one after the other; the words of each list.
    fn fetch(
        &mut self,
        connection: &mut dyn Connection,
        asked: &[(usize, Vec<Range>)],
    ) -> Result<Vec<Vec<u64>>> {
        let end = self.now() + self.how.timeout;
        let mut results = Vec::with_capacity(asked.len());
        let mut from = 0;
        while from < asked.len() {
            // As many lists at once as the buffer and the connection take; at least one.
            let most = connection.capabilities().max_outstanding;
            let (mut bytes, mut ranges, mut to) = (0, 0, from);
            while to < asked.len() {
                let more: u64 = asked[to].1.iter().map(|r| r.bytes).sum();
                if to > from && (bytes + more > BUFFER as u64 || ranges + asked[to].1.len() > most) {
                    break;
                }
                (bytes, ranges, to) = (bytes + more, ranges + asked[to].1.len(), to + 1);
            }
            // All at once where the order is kept; else the first of each list, when they are here the second, and so on.
            let lists = &asked[from..to];
            let waves = if self.in_order { 1 } else { lists.iter().map(|(_, r)| r.len()).max().unwrap_or(0) };
            for wave in 0..waves {
                let (mut at, mut under_way) = (0, 0);
                for (shard, ranges) in lists {
                    for (i, range) in ranges.iter().enumerate() {
                        let span = self.buffer.span(at, range.bytes);
                        at += range.bytes;
                        if !self.in_order && i != wave {
                            continue;
                        }
                        while let Err(e) = connection.read(*shard as u32, range.offset, span, 0) {
                            match e {
                                FabricError::Full => under_way -= self.collect(connection, end)?,
                                e => return Err(e.into()),
                            }
                        }
                        under_way += 1;
                    }
                }
                while under_way > 0 {
                    under_way -= self.collect(connection, end)?;
                }
            }
            let mut at = 0;
            for (_, ranges) in &asked[from..to] {
                let bytes: u64 = ranges.iter().map(|r| r.bytes).sum();
                let words = self.buffer.memory().range(at, bytes).map_err(Error::Fabric)?;
                results.push(words.iter().map(|w| w.load(std::sync::atomic::Ordering::Relaxed)).collect());
                at += bytes;
            }
            from = to;
        }
        Ok(results)
    }

    /// Waits for completions; how many came.
    fn collect(&mut self, connection: &mut dyn Connection, end: Duration) -> Result<usize> {
        let mut polls = 0u32;
        loop {
            self.done.clear();
            let n = connection.poll(&mut self.done)?;
            match self.done.iter().find_map(|c| c.result.as_ref().err()) {
                None => {}
                Some(Failure::PeerDead) => return Err(Error::Disconnected),
                Some(failed) => return Err(Error::Protocol(format!("a one-sided read failed: {failed}"))),
            }
            if n > 0 {
                return Ok(n);
            }
            polls += 1;
            if polls > 200 {
                if self.now() >= end {
                    return Err(Error::TimedOut(self.how.timeout.as_millis() as u64));
                }
                connection.wait(Duration::from_millis(1))?;
            }
        }
    }
}
