//! GET\*: items of regions that are not mapped here, read by the fabric, without work for the server.
//!
//! ```text
//!   string, small collection   known address: the cell                                                  one round trip
//!                              else the bucket, then the cell                                            two
//!   item of a large one        the header likewise; the item's cell by its address, and the witness      one more
//!                              else the sub-table's descriptor, the bucket, then the cell, the witness   up to three more
//!   of a transaction           its record and the witness, beside that                                   one, if nothing else is read then
//!   several keys of a shard    the witnesses of all, after everything else                               none, if the addresses were known
//!   of several shards          the epochs of all, before and after                                       none
//! ```
//! What is read of one key, and why several reads of it are one version's answer, is `kintsugidb_engine::KeyRead`'s to say. What is read of several keys is
//! judged as `kintsugidb_engine::PointReader` judges it: nothing of a transaction that its owner is still writing; keys of one shard unchanged after all were
//! read; no half of a transaction that another key's record names; no epoch passed twice. Any doubt, after a few attempts, is a message instead.
mod fetch;
mod mend;

use crate::{
    Result, Transport,
    fault::{Fault, Faults},
};
use fetch::{List, Questions};
use kintsugidb_arena::remote::{EPOCH, Record, Witness};
use kintsugidb_engine::{Cache, KeyRead, Part, Siblings, Stop, fingerprint_with};
use kintsugidb_fabric::{Buffer, Completion, Connection, OneSided};
use mend::Missing;
use std::{sync::Arc, time::Duration};

/// Bytes of the buffer that reads go into.
const BUFFER: usize = 4 << 20;
/// Places that are remembered, in all regions together.
const ADDRESSES: usize = 1 << 20;
/// Attempts before the owners are asked.
const TRIES: usize = 8;
/// Round trips of one attempt.
const ROUNDS: usize = 128;
/// An epoch that was read so recently stands for that of now, as the one before a read: an older one makes the judgement stricter, never wrong.
const RECENT: Duration = Duration::from_millis(2);

/// Reads of regions over a fabric.
pub(crate) struct Remote {
    buffer: Buffer,
    /// What is known of each region.
    caches: Vec<Cache>,
    /// The epoch of each region as it was read last, and when.
    epochs: Vec<Option<(u64, Duration)>>,
    seed: u64,
    /// Whether the fabric carries reads out in the order in which they are posted.
    in_order: bool,
    how: How,
    done: Vec<Completion>,
    pub retries: u64,
    pub followed: u64,
    pub fractures: u64,
    pub prepared: u64,
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

/// A key to be read: its shard, itself, and what is wanted of it.
pub(crate) type Ask<'a> = (usize, &'a [u8], Part<'a>);

/// What was read of some keys.
pub(crate) struct Read<'a> {
    /// In the order of the keys.
    pub keys: Vec<KeyRead<'a>>,
    /// The highest timestamp met.
    pub clock: u64,
    /// Transactions that are not known to be stable, and their commit timestamps.
    pub txns: Vec<(u64, u64)>,
}

/// Why an attempt came to nothing.
enum Doubt {
    /// Something changed meanwhile.
    Changed,
    /// Half of a transaction was seen.
    Fractured,
    /// It is not to be read this way.
    GiveUp,
}

impl From<Stop> for Doubt {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Changed => Self::Changed,
            Stop::GiveUp => Self::GiveUp,
        }
    }
}

/// What an attempt comes to, unless the connection breaks.
type Attempt<T> = Result<std::result::Result<T, Doubt>>;

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
        let limit = ADDRESSES / regions.len().max(1);
        Some(Self {
            epochs: vec![None; regions.len()],
            buffer: connection.register(BUFFER).ok()?,
            caches: regions.into_iter().map(|bytes| Cache::new(bytes, limit)).collect(),
            seed,
            // Operations of one connection are carried out in the order in which they complete.
            in_order: can.completes_in_order,
            how,
            done: Vec::new(),
            retries: 0,
            followed: 0,
            fractures: 0,
            prepared: 0,
        })
    }

    /// Reads keys together. `Ok(None)`: ask the owners.
    pub fn read<'a>(
        &mut self,
        connection: &mut dyn Connection,
        asks: &[Ask<'a>],
        now_ms: u64,
    ) -> Result<Option<Read<'a>>> {
        let mut fractures = 0;
        for _ in 0..TRIES {
            match self.attempt(connection, asks, now_ms)? {
                Ok(read) => return Ok(Some(read)),
                Err(Doubt::GiveUp) => return Ok(None),
                Err(Doubt::Changed) => {}
                Err(Doubt::Fractured) => {
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

    fn attempt<'a>(
        &mut self,
        connection: &mut dyn Connection,
        asks: &[Ask<'a>],
        now_ms: u64,
    ) -> Attempt<Read<'a>> {
        let mut shards: Vec<usize> = asks.iter().map(|(shard, ..)| *shard).collect();
        shards.sort_unstable();
        shards.dedup();
        let several = shards.len() > 1 && !self.how.faults.has(Fault::NoEpochs);
        let begin =
            |&(shard, key, part): &Ask<'a>| KeyRead::new(&self.caches[shard], self.seed, key, part, now_ms);
        let mut keys: Vec<KeyRead<'a>> = asks.iter().map(begin).collect();
        let epochs_of = if several { &shards[..] } else { &[] };
        let all = self.read_all(connection, asks, &mut keys, epochs_of);
        self.retries += keys.iter().map(KeyRead::retries).sum::<u64>();
        self.followed += keys.iter().map(KeyRead::followed).sum::<u64>();
        let (before, mut after) = match all? {
            Ok(epochs) => epochs,
            Err(doubt) => return Ok(Err(doubt)),
        };
        let mut read = Read { keys, clock: 0, txns: Vec::new() };
        let missing = match self.judge(asks, &mut read) {
            Ok(missing) => missing,
            Err(doubt) => {
                self.fractures += u64::from(matches!(doubt, Doubt::Fractured));
                return Ok(Err(doubt));
            }
        };
        if missing.iter().any(Option::is_some) && !self.how.faults.has(Fault::NoSiblings) {
            self.fractures += 1;
            if let Err(doubt) = self.mend(connection, asks, &missing, &mut read.keys)? {
                return Ok(Err(doubt));
            }
            after = self
                .fetch(connection, Questions { asked: &epochs(epochs_of), ..Questions::default() })?
                .concat();
        }
        read.clock = read.keys.iter().map(KeyRead::ts).max().unwrap_or(0);
        let now = self.how.transport.now();
        let mut too_long = false;
        for ((shard, before), after) in epochs_of.iter().zip(before).zip(after) {
            too_long |= after > before + 1;
            self.epochs[*shard] = (after <= before + 1).then_some((after, now));
        }
        Ok(if too_long { Err(Doubt::Changed) } else { Ok(read) })
    }

    /// Reads all keys side by side to their end, and the witnesses of those whose answer depends on more than one read; the epochs of some shards before
    /// and after all of that.
    fn read_all(
        &mut self,
        connection: &mut dyn Connection,
        asks: &[Ask<'_>],
        keys: &mut [KeyRead<'_>],
        epochs_of: &[usize],
    ) -> Attempt<(Vec<u64>, Vec<u64>)> {
        let oldest = self.how.transport.now().saturating_sub(RECENT);
        let recent =
            |shard: &usize| self.epochs[*shard].filter(|(_, at)| *at >= oldest).map(|(epoch, _)| epoch);
        let mut before: Vec<u64> = epochs_of.iter().map_while(recent).collect();
        if before.len() < epochs_of.len() {
            before.clear();
        }
        for _ in 0..ROUNDS {
            let mut lists = Vec::new();
            let mut of_key = Vec::with_capacity(keys.len());
            for (key, (shard, ..)) in keys.iter().zip(asks) {
                let asked = match key.ask() {
                    Ok(asked) => asked,
                    Err(stop) => return Ok(Err(stop.into())),
                };
                of_key.push(asked.len());
                lists.extend(asked.into_iter().map(|list| (*shard, list)));
            }
            let last = keys.iter().all(KeyRead::may_end);
            let witnesses = if last { self.witnesses(asks, keys) } else { Vec::new() };
            let mut then: Vec<_> = witnesses.iter().map(|(i, w)| (asks[*i].0, w.ask())).collect();
            if last {
                then.extend(epochs(epochs_of));
            }
            let first = if before.is_empty() { epochs(epochs_of) } else { Vec::new() };
            let asked = Questions { first: &first, asked: &lists, then: &then };
            let mut fed = self.fetch(connection, asked)?.into_iter();
            before.extend(fed.by_ref().take(first.len()).flatten());
            for ((key, (shard, ..)), lists) in keys.iter_mut().zip(asks).zip(of_key) {
                let words: Vec<_> = fed.by_ref().take(lists).collect();
                if lists > 0
                    && let Err(stop) = key.feed(&mut words.into_iter(), &mut self.caches[*shard])
                {
                    return Ok(Err(stop.into()));
                }
            }
            if !last || !keys.iter().all(KeyRead::has_ended) {
                continue;
            }
            let heard: Vec<_> = witnesses.into_iter().zip(fed.by_ref()).collect();
            // One that was expected, and turned out to be another key's or another cell's, has said nothing.
            let wanted = self.witnesses(asks, keys);
            if wanted.iter().all(|w| heard.iter().any(|(asked, _)| asked == w)) {
                let holds = |(asked, words): &((usize, Witness), Vec<u64>)| {
                    asked.1.holds(words) || !wanted.contains(asked)
                };
                let after = fed.flatten().collect();
                return Ok(if heard.iter().all(holds) { Ok((before, after)) } else { Err(Doubt::Changed) });
            }
        }
        Ok(Err(Doubt::GiveUp))
    }

    /// The witnesses that have to be heard, and of which keys they are.
    fn witnesses(&self, asks: &[Ask<'_>], keys: &[KeyRead<'_>]) -> Vec<(usize, Witness)> {
        let faults = self.how.faults;
        let mut of_shard = vec![0; self.caches.len()];
        asks.iter().for_each(|(shard, ..)| of_shard[*shard] += 1);
        let needed = |i: usize| {
            let key = &keys[i];
            if key.is_of_several_cells() && faults.has(Fault::NoHeaderRecheck) {
                return false;
            }
            let several = of_shard[asks[i].0] > 1 && !faults.has(Fault::NoSecondLook);
            // Then it has what is known to be committed everywhere: see `includes`.
            let across = of_shard[asks[i].0] < asks.len() && !key.is_one_item();
            key.is_of_several_cells() || key.was_in_transaction() || several || across
        };
        let heard = (0..keys.len()).filter(|i| needed(*i));
        heard.filter_map(|i| Some((i, keys[i].witness()?))).collect()
    }

    /// Takes note of whom was read from; of each key the newest transaction whose half was seen in another key, and missed in this one.
    fn judge(&self, asks: &[Ask<'_>], read: &mut Read<'_>) -> std::result::Result<Vec<Missing>, Doubt> {
        if read.keys.iter().filter_map(KeyRead::record).any(|r| r.under_way) {
            return Err(Doubt::Changed);
        }
        let mut missing: Vec<Missing> = vec![None; asks.len()];
        for (key, (shard, ..)) in read.keys.iter().zip(asks) {
            let (Some(item), Some(record)) = (key.root(), key.record()) else { continue };
            if !record.stable {
                read.txns.push((record.txn, item.ts));
            }
            for ((other, (beside, name, _)), missing) in read.keys.iter().zip(asks).zip(&mut missing) {
                if beside == shard || includes(other, record, item.ts) || !self.may_hold(record, name) {
                    continue;
                }
                if !other.is_one_item() && !self.how.faults.has(Fault::NoSiblings) {
                    // What is prepared for it is not all of it: the owner has to put it together.
                    return Err(Doubt::Fractured);
                }
                let this = (item.ts, record.txn);
                let oldest = self.how.faults.has(Fault::MendWithOldest);
                *missing = Some(missing.map_or(this, |m| if oldest { m.min(this) } else { m.max(this) }));
            }
        }
        Ok(missing)
    }

    fn may_hold(&self, record: &Record, key: &[u8]) -> bool {
        let fingerprint = fingerprint_with(self.seed, key);
        self.how.siblings.may_hold(&record.siblings, fingerprint)
    }
}

/// What to read for the epochs of shards.
fn epochs(shards: &[usize]) -> Vec<List> {
    shards.iter().map(|s| (*s, vec![EPOCH])).collect()
}

/// Whether what was read of a key has what a transaction of this record, committed at `c`, may have written to it. A single item has, if it is not
/// older. A collection has, if the transaction was the last one that wrote to it, or if it was known to be committed everywhere
/// before the witness was heard.
fn includes(key: &KeyRead<'_>, record: &Record, c: u64) -> bool {
    if key.is_one_item() {
        return key.ts() >= c;
    }
    record.stable || key.record().is_some_and(|own| own.txn == record.txn)
}
