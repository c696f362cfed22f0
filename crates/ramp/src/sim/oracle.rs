//! Everything that was committed, sorted by version and run again, one after the other, on one fresh shard.
//!
//! What the oracle holds in the end is what the shards must hold: each item has all its writers in one order, the same for
//! all items of a transaction. And a command that looks before it writes must have answered what it answers here.
use super::history::{Applied, History};
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
    /// When somebody could read it at the earliest: where prepared versions are shown, when its transaction was committed anywhere.
    pub known: u64,
    /// What was applied before it.
    pub order: usize,
    /// The operation that wrote it.
    pub op: usize,
    pub value: Option<Vec<u8>>,
    /// Whether it made a difference.
    pub effective: bool,
}

pub(super) struct Oracle {
    pub items: BTreeMap<Item, Vec<Change>>,
    /// The items that each operation wrote, and at which version.
    pub by_op: BTreeMap<usize, Vec<(Item, Version)>>,
    /// The values of each key in order of versions, and when each was made.
    dumps: BTreeMap<Vec<u8>, Vec<(usize, Option<Dump>)>>,
    /// When each transaction was first committed at one of its shards; empty where prepared versions are not shown.
    first: BTreeMap<TxnId, u64>,
    shard: Shard,
    copies: Shard,
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

/// Whether two replies say the same; the order of fields and members means nothing.
fn same(command: &str, one: &[u8], two: &[u8]) -> bool {
    let sorted = |reply| {
        let mut all = super::check::elements(reply);
        all.sort();
        all
    };
    one == two || (matches!(command, "hgetall" | "smembers") && sorted(one) == sorted(two))
}

/// What an operation removed of a key, whether it was there or not: subkeys, or everything.
fn removed<'a>(a: &'a Applied, key: &[u8]) -> Vec<Option<&'a [u8]>> {
    let mut all = Vec::new();
    for op in &a.work.ops {
        match &op.what {
            What::Put(k, _) if **k == *key => all.push(None),
            What::Command(command, args) if args.arg(1) == Some(key) => match command.name {
                "del" => all.push(None),
                "hdel" | "srem" | "zrem" => all.extend(args.iter().skip(2).map(Some)),
                _ => {}
            },
            _ => {}
        }
    }
    all
}

impl Oracle {
    pub fn replay(history: &History) -> Result<Self, String> {
        let mut applied: Vec<&Applied> = history.applied.iter().collect();
        applied.sort_by_key(|a| (a.version, a.order));
        let is_put = |a: &&&Applied| a.work.ops.iter().any(|o| matches!(o.what, What::Put(..)));
        let evaluated: BTreeSet<Option<TxnId>> = applied.iter().filter(is_put).map(|a| a.txn).collect();
        let region = kintsugidb_engine::Config { reserve_bytes: 1 << 30, ..Default::default() };
        let shard = Shard::create(1, region.clone()).map_err(|e| e.to_string())?;
        let copies = Shard::create(1, region).map_err(|e| e.to_string())?;
        let mut first: BTreeMap<TxnId, u64> = BTreeMap::new();
        if history.shows_prepared() {
            for (txn, step) in history.applied.iter().filter_map(|a| Some((a.txn?, a.step))) {
                first.entry(txn).and_modify(|f| *f = step.min(*f)).or_insert(step);
            }
        }
        let (items, by_op, dumps) = Default::default();
        let mut oracle = Self { items, by_op, dumps, first, shard, copies };
        let mut done = BTreeSet::new();
        for a in applied {
            if evaluated.contains(&a.txn) {
                if done.insert(a.txn) {
                    let parts: Vec<_> = history.applied.iter().filter(|o| o.txn == a.txn).collect();
                    oracle.evaluate(history, &parts)?;
                }
            } else {
                oracle.apply(history, a)?;
            }
        }
        Ok(oracle)
    }

    fn before(&self, keys: &[Vec<u8>]) -> Vec<BTreeMap<Vec<u8>, Vec<u8>>> {
        keys.iter().map(|k| items_of(self.shard.dump(k).as_ref())).collect()
    }

    fn note(&mut self, a: &Applied, keys: &[Vec<u8>], before: Vec<BTreeMap<Vec<u8>, Vec<u8>>>) {
        for (key, before) in keys.iter().zip(before) {
            let dump = self.shard.dump(key);
            let after = items_of(dump.as_ref());
            if before != after {
                self.dumps.entry(key.clone()).or_default().push((a.order, dump));
            }
            // What was removed although it was not there: somebody may have removed it before, and later.
            let removed = removed(a, key);
            let known = self.items.keys().filter(|(k, _)| k == key).map(|(_, sub)| sub);
            let removed: BTreeSet<_> = known
                .filter(|sub| removed.iter().any(|r| r.is_none_or(|r| r == &sub[..])))
                .cloned()
                .collect();
            let subs: BTreeSet<_> = before.keys().chain(after.keys()).chain(&removed).cloned().collect();
            for sub in subs {
                let value = after.get(&sub).cloned();
                let effective = before.get(&sub) != value.as_ref();
                if effective || (value.is_none() && removed.contains(&sub)) {
                    let item = (key.clone(), sub);
                    let (version, step, order) = (a.version, a.step, a.order);
                    let known = a.txn.and_then(|txn| self.first.get(&txn).copied()).unwrap_or(step);
                    let change = Change { version, step, known, order, op: a.op, value, effective };
                    self.items.entry(item.clone()).or_default().push(change);
                    self.by_op.entry(a.op).or_default().push((item, a.version));
                }
            }
        }
    }

    fn apply(&mut self, history: &History, a: &Applied) -> Result<(), String> {
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
                && !same(command.name, answered, &reply)
                && history.isolation() != crate::Isolation::None
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

    /// A transaction that was evaluated on copies: what it wrote back must be what its commands make of the values that its
    /// keys had then. (Read-modify-writes that sort below something pending may come later and sort before it.)
    fn evaluate(&mut self, history: &History, parts: &[&Applied]) -> Result<(), String> {
        let record = &history.records[parts[0].op];
        let copies = &mut self.copies;
        copies.flush();
        for (a, key) in parts.iter().flat_map(|a| a.work.keys.iter().map(move |(k, _)| (a, &k.bytes))) {
            let then =
                self.dumps.get(&**key).and_then(|all| all.iter().rev().find(|(order, _)| *order <= a.order));
            if let Some((_, Some(d))) = then {
                copies.restore(key, d.clone()).map_err(|e| e.to_string())?;
            }
        }
        let mut replies = Vec::new();
        for line in &record.lines {
            let args: Vec<&[u8]> = line.iter().map(|w| w.as_bytes()).collect();
            let command = resolve(&args).map_err(|e| e.to_string())?;
            replies.push(run(copies, command, &args, Proto::Resp2));
        }
        let wrong =
            |what: String| Err(format!("lost update: {:?} at {:?} {what}", record.lines, parts[0].version));
        if let Some(Outcome::Replies(answered)) = &record.outcome
            && *answered != replies
        {
            return wrong("answered otherwise than in order of versions".into());
        }
        for a in parts {
            let keys: Vec<_> = a.work.keys.iter().map(|(k, _)| k.bytes.to_vec()).collect();
            let before = self.before(&keys);
            for op in &a.work.ops {
                let What::Put(key, dump) = &op.what else { continue };
                if *dump != self.copies.dump(key) {
                    let (key, is) = (key.escape_ascii(), items_of(dump.as_ref()));
                    let should = items_of(self.copies.dump(op.what.keys()[0]).as_ref());
                    return wrong(format!("left {key} as {is:?}, in order of versions {should:?}"));
                }
                match dump {
                    Some(d) => self.shard.restore(key, d.clone()).map_err(|e| e.to_string())?,
                    None => {
                        self.shard.delete(key);
                    }
                }
            }
            self.note(a, &keys, before);
        }
        Ok(())
    }

    /// Compares what the shards hold with what they should.
    pub fn compare(&self, history: &History) -> Result<(), String> {
        let keys: BTreeSet<&Vec<u8>> = self.items.keys().map(|(k, _)| k).collect();
        for key in keys {
            let shard = crate::shard_of(key, history.shards.len() as u16) as usize;
            let (is, should) = (history.shards[shard].shard.dump(key), self.shard.dump(key));
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
