//! Everything that was committed, sorted by version and run again, one after the other, on one fresh shard.
//!
//! What the oracle holds in the end is what the shards must hold: each item has all its writers in one order, the same for
//! all items of a transaction. And a command that looks before it writes must have answered what it answers here.
use super::world::{Applied, World};
use crate::{
    Outcome, TxnId,
    coordinator::run,
    message::{Found, Lock, What},
};
use kintsugidb_engine::{Dump, Shard, Value, Version, resolve};
use kintsugidb_wire::Proto;
use std::collections::{BTreeMap, BTreeSet};

/// An item: key and subkey (empty for strings and lists, which are one item).
pub(super) type Item = (Vec<u8>, Vec<u8>);

/// One version of an item.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub version: Version,
    /// When it was applied.
    pub step: u64,
    /// The operation that wrote it.
    pub op: usize,
    pub value: Option<Vec<u8>>,
}

pub(super) struct Oracle {
    pub items: BTreeMap<Item, Vec<Change>>,
    /// The items that each operation wrote, and at which version.
    pub by_op: BTreeMap<usize, Vec<(Item, Version)>>,
    shard: Shard,
}

/// The items of a value.
pub(super) fn items_of(dump: Option<&Dump>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let one = |v: Vec<u8>| BTreeMap::from([(Vec::new(), v)]);
    match dump.map(|d| &d.value) {
        None => BTreeMap::new(),
        Some(Value::String(s)) => one(s.clone()),
        Some(Value::List(l)) => one(joined(l.iter().map(Vec::as_slice))),
        Some(Value::Hash(h)) => h.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        Some(Value::Set(s)) => s.iter().map(|m| (m.clone(), b"1".to_vec())).collect(),
        Some(Value::Zset(z)) => z.iter().map(|(m, s)| (m.clone(), s.to_string().into_bytes())).collect(),
    }
}

/// A list as one value.
pub(super) fn joined<'a>(elements: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    elements.flat_map(|e| [b"[", e, b"]"].concat()).collect()
}

impl Oracle {
    pub fn replay(world: &World) -> Result<Self, String> {
        let mut applied: Vec<&Applied> = world.applied.iter().collect();
        applied.sort_by_key(|a| (a.version, a.step));
        let is_put = |a: &&&Applied| a.work.ops.iter().any(|o| matches!(o.what, What::Put(..)));
        let evaluated: BTreeSet<Option<TxnId>> = applied.iter().filter(is_put).map(|a| a.txn).collect();
        let region = kintsugidb_engine::Config { reserve_bytes: 1 << 30, ..Default::default() };
        let shard = Shard::create(1, region).map_err(|e| e.to_string())?;
        let mut oracle = Self { items: BTreeMap::new(), by_op: BTreeMap::new(), shard };
        let mut done = BTreeSet::new();
        for a in applied {
            if evaluated.contains(&a.txn) {
                if done.insert(a.txn) {
                    oracle.evaluate(world, a)?;
                }
            } else {
                oracle.apply(world, a)?;
            }
        }
        Ok(oracle)
    }

    fn before(&self, keys: &[Vec<u8>]) -> Vec<BTreeMap<Vec<u8>, Vec<u8>>> {
        keys.iter().map(|k| items_of(self.shard.dump(k).as_ref())).collect()
    }

    fn note(&mut self, a: &Applied, keys: &[Vec<u8>], before: Vec<BTreeMap<Vec<u8>, Vec<u8>>>) {
        for (key, before) in keys.iter().zip(before) {
            let after = items_of(self.shard.dump(key).as_ref());
            let subs: BTreeSet<_> = before.keys().chain(after.keys()).cloned().collect();
            for sub in subs {
                let value = after.get(&sub).cloned();
                if before.get(&sub) != value.as_ref() {
                    let item = (key.clone(), sub);
                    let change = Change { version: a.version, step: a.step, op: a.op, value };
                    self.items.entry(item.clone()).or_default().push(change);
                    self.by_op.entry(a.op).or_default().push((item, a.version));
                }
            }
        }
    }

    fn apply(&mut self, world: &World, a: &Applied) -> Result<(), String> {
        let keys: Vec<_> = a.work.keys.iter().map(|(k, _)| k.bytes.to_vec()).collect();
        let before = self.before(&keys);
        for op in &a.work.ops {
            let What::Command(command, args) = &op.what else { continue };
            let reply = run(&mut self.shard, command, &args.to_vec(), Proto::Resp2);
            let reserved =
                op.what.keys().iter().all(|key| {
                    a.work.keys.iter().any(|(k, lock)| &*k.bytes == *key && *lock == Lock::Exclusive)
                });
            let answered = a.replies.iter().flatten().find(|r| r.index == op.index).map(|r| &r.found);
            if let (true, Some(Found::Reply(answered))) = (reserved, answered)
                && *answered != reply
                && world.isolation() != crate::Isolation::None
            {
                return Err(format!(
                    "lost update: {:?} of operation {} at {:?} answered {}, in order of versions it is {}",
                    op.what,
                    a.op,
                    a.version,
                    answered.escape_ascii(),
                    reply.escape_ascii()
                ));
            }
        }
        self.note(a, &keys, before);
        Ok(())
    }

    /// A transaction that was evaluated on copies: its commands, all at once.
    fn evaluate(&mut self, world: &World, a: &Applied) -> Result<(), String> {
        let record = &world.records[a.op];
        let keys: BTreeSet<Vec<u8>> = world
            .applied
            .iter()
            .filter(|o| o.txn == a.txn)
            .flat_map(|o| o.work.keys.iter().map(|(k, _)| k.bytes.to_vec()))
            .collect();
        let keys: Vec<_> = keys.into_iter().collect();
        let before = self.before(&keys);
        let mut replies = Vec::new();
        for line in &record.lines {
            let args: Vec<&[u8]> = line.iter().map(|w| w.as_bytes()).collect();
            let command = resolve(&args).map_err(|e| e.to_string())?;
            replies.push(run(&mut self.shard, command, &args, Proto::Resp2));
        }
        if let Some(Outcome::Replies(answered)) = &record.outcome
            && *answered != replies
        {
            return Err(format!(
                "lost update: {:?} at {:?} answered otherwise than in order of versions",
                record.lines, a.version
            ));
        }
        self.note(a, &keys, before);
        Ok(())
    }

    /// Compares what the shards hold with what they should.
    pub fn compare(&self, world: &World) -> Result<(), String> {
        let keys: BTreeSet<&Vec<u8>> = self.items.keys().map(|(k, _)| k).collect();
        for key in keys {
            let shard = crate::shard_of(key, world.shards.len() as u16) as usize;
            let (is, should) = (world.shards[shard].shard.dump(key), self.shard.dump(key));
            if is != should {
                return Err(format!(
                    "final: {} is {is:?}, in order of versions it is {should:?}",
                    key.escape_ascii()
                ));
            }
        }
        Ok(())
    }
}
