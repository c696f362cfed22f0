//! Reads of the regions, without a message.
//!
//! A read is allowed only where the session is in order (PROTOCOL rules 2, 24): it carries no proof for the shard which the owner might
//! have to act upon first. A proof goes as soon as its transaction's record says that everybody has committed it; so a little patience
//! here is a message saved. And a transaction that has written none of the keys cannot be missed in them: its proof stands in the way of
//! reading its own keys only, as far as its siblings are known. They are, of what was read one-sidedly or by asking owners as a coordinator; so that
//! is how single keys are asked for that cannot be read here.
use crate::{
    Client, Error, Result,
    client::parse_one,
    fault::Fault,
    link::{Link, Unstable},
    remote::Ask,
};
use kintsugidb_engine::{Fallback, KeyRead, Part, Point, PointReader};
use kintsugidb_ramp::{Isolation, ShardId, TxnId, message::Proof, shard_of};
use kintsugidb_wire::{Proto, Reply, Value};
use std::time::{Duration, Instant};

/// How long somebody else's commit is waited for before a message is sent instead: less than that message would take where the server
/// has to be woken for it.
const PATIENCE: Duration = Duration::from_micros(200);
/// Looks in a row before the processor is offered to others, whose commit it may be.
const SPINS: u32 = 64;

/// Waiting for what will be so in a moment.
#[derive(Default)]
struct Patience {
    looks: u32,
    since: Option<Instant>,
}

impl Patience {
    /// Waits a little; false once it is enough.
    fn wait(&mut self) -> bool {
        self.looks += 1;
        if self.looks < SPINS {
            std::hint::spin_loop();
            return true;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        std::thread::yield_now();
        since.elapsed() < PATIENCE
    }
}

impl Link {
    /// Whether keys of these shards may be read one-sidedly now.
    #[inline]
    fn may_read(&mut self, shards: &[usize], keys: &[&[u8]]) -> bool {
        !self.session.has_proofs() || self.settle_proofs(shards, keys)
    }

    /// The session carries proofs: whether none of them is of a transaction that may have written one of the keys and that the key's
    /// owner may hold prepared.
    #[cold]
    fn settle_proofs(&mut self, shards: &[usize], keys: &[&[u8]]) -> bool {
        let Some(point) = &self.point else { return false };
        let mut patience = Patience::default();
        loop {
            let session = &mut self.session;
            self.unstable.retain(|u| {
                let stable = u.at.is_some_and(|(shard, record)| point.is_stable(shard, record));
                if stable {
                    session.settle(u.txn);
                }
                !stable
            });
            let (mut blocked, mut hope) = (false, false);
            for shard in shards {
                for proof in session.proofs_for(*shard as ShardId).iter().flat_map(|p| p.iter()) {
                    let known = self.unstable.iter().find(|u| u.txn == proof.txn);
                    if known.is_none_or(|u| keys.iter().any(|k| point.may_have_written(&u.siblings, k))) {
                        blocked = true;
                        hope |= known.is_some_and(|u| u.at.is_some());
                    }
                }
            }
            if !blocked {
                return true;
            }
            if !hope || !patience.wait() {
                return false;
            }
        }
    }

    /// Notes what was read. False if it cannot be noted, and has to be read by a message.
    fn note(&mut self, shards: &[usize]) -> bool {
        let Some(point) = &self.point else { return false };
        self.session.see(point.clock());
        if point.txns().is_empty() {
            return true;
        }
        let first = shards[0];
        let from = if shards.iter().any(|s| *s != first) { ShardId::MAX } else { first as ShardId };
        let horizon_us = self.coordinator.config().horizon_us;
        for (&(txn, c), &(shard, record)) in point.txns().iter().zip(point.records()) {
            let txn = TxnId(txn);
            let proof = Proof { txn, c };
            if !self.session.saw_from_outside(from, proof, self.welcome.shards, horizon_us) {
                return false;
            }
            if !self.unstable.iter().any(|u| u.txn == txn && u.at.is_some()) {
                self.unstable.retain(|u| u.txn != txn);
                let mut siblings = Vec::new();
                // If the record is gone, everybody has committed it.
                if point.siblings_of(shard, record, &mut siblings) {
                    self.unstable.push(Unstable { txn, at: Some((shard, record)), siblings });
                } else {
                    self.session.settle(txn);
                }
            }
        }
        true
    }

    /// Reads keys together over the fabric, if that is allowed and what was read can be believed. `None`: by messages.
    pub(crate) fn read_fetched<'a>(&mut self, asks: &[Ask<'a>]) -> Result<Option<Vec<KeyRead<'a>>>> {
        let Some(&(first, ..)) = asks.first() else { return Ok(None) };
        let several = asks.iter().any(|(shard, ..)| *shard != first);
        let told = asks.iter().all(|(shard, ..)| self.session.proofs_for(*shard as ShardId).is_none());
        let told = told || self.faults.has(Fault::ReadDespiteProofs);
        if !told || (several && self.welcome.isolation == Isolation::Locking) {
            return Ok(None);
        }
        let now_ms = self.now_us() / 1000;
        let Some(read) = self.fetch(asks, now_ms)? else { return Ok(None) };
        self.session.see(read.clock);
        if self.faults.has(Fault::ForgetTransactions) {
            return Ok(Some(read.keys));
        }
        let from = if several { ShardId::MAX } else { first as ShardId };
        let horizon_us = self.coordinator.config().horizon_us;
        let noted = read.txns.iter().all(|&(txn, c)| {
            let proof = Proof { txn: TxnId(txn), c };
            self.session.saw_from_outside(from, proof, self.welcome.shards, horizon_us)
        });
        Ok(noted.then_some(read.keys))
    }

    /// Reads by `f` if that is allowed, and if what it read can be believed. `None`: by a message.
    #[inline]
    fn one_sided<T>(
        &mut self,
        shards: &[usize],
        keys: &[&[u8]],
        mut f: impl FnMut(&mut PointReader) -> std::result::Result<T, Fallback>,
    ) -> Result<Option<T>> {
        if !self.may_read(shards, keys) {
            return Ok(None);
        }
        let Some(point) = &mut self.point else { return Ok(None) };
        point.now_ms = crate::lease::coarse_ns() / 1_000_000;
        let mut patience = Patience::default();
        let read = loop {
            match f(point) {
                Ok(read) => break read,
                // Half of a transaction, most likely, whose other half is on its way.
                Err(Fallback::Changing) if patience.wait() => {}
                Err(_) => return Ok(None),
            }
        };
        if !self.note(shards) {
            return Ok(None);
        }
        self.renew_lease()?;
        Ok(Some(read))
    }
}

impl Client {
    /// Answers a command from the regions, if it can be: its keys' shards are in `shards`.
    pub(crate) fn read_one_sided(&mut self, point: Point, args: &[&[u8]]) -> Result<Option<Value>> {
        if self.link()?.remote.is_some() {
            let values = self.read_remote(&[(point, args.to_vec())])?;
            return Ok(values.and_then(|mut all| all.pop()));
        }
        let shards = std::mem::take(&mut self.shards);
        let link = self.link()?;
        let several = shards.windows(2).any(|w| w[0] != w[1]);
        let here = link.point.is_some()
            && !shards.is_empty()
            && !(several && link.welcome.isolation == Isolation::Locking);
        let keys = if shards.len() == 1 { args.get(1..2) } else { args.get(1..) }.unwrap_or_default();
        let mut reply = Reply::new(Proto::Resp2);
        let read = if here {
            link.one_sided(&shards, keys, |r| r.serve(point, args, &shards, &mut reply))
        } else {
            Ok(None)
        };
        self.shards = shards;
        self.count(here, matches!(read, Ok(Some(()))));
        match read? {
            Some(()) => parse_one(reply.bytes()).map(Some),
            None => Ok(None),
        }
    }

    /// Answers point reads together over a fabric that reads regions without mapping them.
    pub(crate) fn read_remote(&mut self, calls: &[(Point, Vec<&[u8]>)]) -> Result<Option<Vec<Value>>> {
        let link = self.link()?;
        let mut asks: Vec<Ask<'_>> = Vec::new();
        for (point, args) in calls {
            let Some(part) = point.part(args) else { return Ok(None) };
            let shard = |key| usize::from(shard_of(key, link.welcome.shards));
            asks.extend(point.keys(args).iter().map(|key| (shard(key), *key, part)));
        }
        let read = link.read_fetched(&asks);
        self.count(true, matches!(read, Ok(Some(_))));
        let Some(keys) = read? else { return Ok(None) };
        let mut keys = &keys[..];
        let reply = |(point, args): &(Point, Vec<&[u8]>)| {
            let (these, others) = keys.split_at(point.keys(args).len());
            keys = others;
            let mut reply = Reply::new(Proto::Resp2);
            point.reply(these, &mut reply);
            parse_one(reply.bytes())
        };
        calls.iter().map(reply).collect::<Result<_>>().map(Some)
    }

    fn count(&mut self, here: bool, read: bool) {
        if read {
            self.counters.one_sided += 1;
        } else if here {
            self.counters.fallbacks += 1;
        }
    }

    /// GET, into a buffer of the caller's, which is cleared first; whether the key is there. The fastest way to read.
    ///
    /// # Errors
    /// [`Error::Server`] if the key holds no string, and whatever can happen to a connection.
    #[inline]
    pub fn get_into(&mut self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let read = self.get_one_sided(key, into);
        match read {
            Ok(Some(found)) => {
                self.counters.one_sided += 1;
                found.map_err(|e| Error::Server(e.to_string()))
            }
            Ok(None) => self.get_by_message(key, into),
            Err(e) => {
                // The server is gone: ask the next one.
                self.settle::<()>(Err(e)).ok();
                self.get_by_message(key, into)
            }
        }
    }

    #[inline]
    fn get_one_sided(
        &mut self,
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<Option<std::result::Result<bool, kintsugidb_engine::Error>>> {
        let link = self.link()?;
        let shard = usize::from(shard_of(key, link.welcome.shards));
        if link.point.is_none() {
            if link.remote.is_none() {
                return Ok(None);
            }
            let read = link.read_fetched(&[(shard, key, Part::Root)])?;
            let Some(read) = read.as_deref().and_then(<[_]>::first) else {
                self.counters.fallbacks += 1;
                return Ok(None);
            };
            return Ok(Some(read.string().map(|s| s.map(|b| into.extend_from_slice(b)).is_some())));
        }
        let found = link.one_sided(&[shard], &[key], |r| {
            let found = r.string(shard, key)?;
            Ok(found.map(|bytes| bytes.map(|b| into.extend_from_slice(b)).is_some()))
        });
        if matches!(found, Ok(None)) {
            self.counters.fallbacks += 1;
        }
        found
    }

    #[cold]
    fn get_by_message(&mut self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let again = |c: &mut Self| {
            let sent = c.ask_owner(&[b"get", key]);
            c.settle(sent)
        };
        let value = match again(self) {
            Err(Error::Disconnected) => again(self)?,
            done => done?,
        };
        match value {
            Value::Bulk(b) => {
                into.extend_from_slice(&b);
                Ok(true)
            }
            Value::Null => Ok(false),
            Value::Error(e) => Err(Error::Server(e)),
            other => Err(Error::Unexpected(format!("{other:?}"))),
        }
    }
}
