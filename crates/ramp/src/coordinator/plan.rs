//! From commands to operations at shards: what is read first, what is written then, and how the replies are put together.
//!
//! A command of several keys that are each handled alone (MSET, DEL, MGET …) becomes one operation a key. A command that reads
//! whole values of several shards is answered from copies. As soon as one command needs the values of several shards to decide
//! what it writes (or reads copies of what was written before it), the whole transaction is *evaluated*: all its keys are reserved,
//! their values fetched, the commands run on a scratch shard, and the changed values written back.
use crate::{
    Config, Isolation, ShardId,
    message::{Key, Lock, Op, Watch, What, Work},
};
use kintsugidb_engine::{Class, Command, Route};
use kintsugidb_wire::{OwnedArgs, Proto, slot};
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// One command of a transaction.
#[derive(Clone)]
pub enum Request {
    /// A command that the front end has answered itself (PING in MULTI): the encoded reply.
    Ready(Vec<u8>),
    /// A command on keys, as [`kintsugidb_engine::resolve`] found it.
    Command(&'static Command, OwnedArgs),
    /// WATCH of one key.
    Watch(Vec<u8>),
}

/// The shard of a key.
pub fn shard_of(key: &[u8], shards: u16) -> ShardId {
    slot(key) % shards
}

/// How the reply of one request comes from the operations' results.
#[derive(Debug)]
pub(crate) enum Merge {
    Ready(Vec<u8>),
    One(u32),
    Ok(Range<u32>),
    Sum(Range<u32>),
    /// Replies of one-element arrays, as one array.
    Array(Range<u32>),
    /// Run the request on copies.
    Copies(Range<u32>),
    Nothing,
}

#[derive(Debug, Default)]
pub(crate) struct Reads {
    pub ops: Vec<Op>,
    pub keys: Vec<Key>,
}

#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub reads: BTreeMap<ShardId, Reads>,
    pub writes: BTreeMap<ShardId, Work>,
    pub merges: Vec<Merge>,
    /// Number of operations.
    pub ops: u32,
    /// All commands run on a scratch shard, under reservations.
    pub evaluate: bool,
    /// Fingerprints of all keys read.
    pub read_keys: Arc<[u64]>,
}

impl Plan {
    /// All shards that it concerns.
    pub fn shards(&self) -> Vec<ShardId> {
        let mut all: Vec<_> = self.reads.keys().chain(self.writes.keys()).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Has a watched key checked, and kept from changing until the end.
    fn add_watch(&mut self, config: &Config, shard: ShardId, watch: Watch, proto: Proto) {
        let work = self.writes.entry(shard).or_default();
        work.proto = proto;
        match work.keys.iter_mut().find(|(k, _)| k.bytes == watch.key) {
            Some((_, lock)) => *lock = lock.and(Lock::Shared),
            None => work.keys.push((key(config, &watch.key), Lock::Shared)),
        }
        work.watches.push(watch);
    }
}

struct Builder<'a> {
    plan: Plan,
    shards: u16,
    config: &'a Config,
    one_shard: bool,
}

fn key(config: &Config, bytes: &[u8]) -> Key {
    Key { bytes: bytes.into(), fingerprint: config.fingerprint(bytes) }
}

/// The keys of a command, each once.
pub(crate) fn keys_of<'a>(command: &Command, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut keys: Vec<_> = command.key_indexes(args).into_iter().map(|i| args[i]).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Plans a transaction that checks what is `watched`. If everything is at one shard, it goes there in the commands' order, and nothing
/// is read apart.
pub(crate) fn plan(
    requests: &[Request],
    watched: &[(ShardId, Watch)],
    shards: u16,
    proto: Proto,
    config: &Config,
) -> Plan {
    let mut b = Builder { plan: Plan::default(), shards, config, one_shard: false };
    let one = b.is_one_shard(requests).filter(|one| watched.iter().all(|(shard, _)| shard == one));
    b.one_shard = one.is_some();
    b.plan.evaluate = one.is_none() && b.must_evaluate(requests);
    for r in requests {
        match r {
            Request::Ready(bytes) => b.plan.merges.push(Merge::Ready(bytes.clone())),
            Request::Watch(k) => b.watch(k),
            Request::Command(c, args) if b.plan.evaluate => b.evaluated(c, args),
            Request::Command(c, args) => match one {
                Some(shard) => b.whole(c, args, shard, false),
                None => b.command(c, args),
            },
        }
    }
    for w in b.plan.writes.values_mut() {
        w.proto = proto;
    }
    let mut fps: Vec<_> = b.plan.reads.values().flat_map(|r| r.keys.iter().map(|k| k.fingerprint)).collect();
    fps.sort_unstable();
    fps.dedup();
    b.plan.read_keys = fps.into();
    for (shard, watch) in watched {
        b.plan.add_watch(config, *shard, watch.clone(), proto);
    }
    b.plan
}

impl Builder<'_> {
    fn shard(&self, key: &[u8]) -> ShardId {
        shard_of(key, self.shards)
    }

    /// The one shard of all keys, if there is only one.
    fn is_one_shard(&self, requests: &[Request]) -> Option<ShardId> {
        let mut shard = None;
        for r in requests {
            let Request::Command(c, args) = r else {
                if matches!(r, Request::Watch(_)) {
                    return None;
                }
                continue;
            };
            for k in keys_of(c, &args.to_vec()) {
                let s = self.shard(k);
                if *shard.get_or_insert(s) != s {
                    return None;
                }
            }
        }
        Some(shard.unwrap_or(0))
    }

    /// Whether a command needs values of several shards, and not only to answer with them.
    fn must_evaluate(&self, requests: &[Request]) -> bool {
        let mut written: Vec<&[u8]> = Vec::new();
        for r in requests {
            let Request::Command(c, args) = r else { continue };
            let args = args.to_vec();
            let keys = keys_of(c, &args);
            let several = keys.iter().any(|k| self.shard(k) != self.shard(keys[0]));
            let apart = c.route == Route::Split;
            let reads = c.class_of(&args) == Class::Read;
            if several && !apart && (!reads || keys.iter().any(|k| written.contains(k))) {
                return true;
            }
            if !reads {
                written.extend(c.key_indexes(&args).into_iter().map(|i| args[i]));
            }
        }
        false
    }

    fn op(&mut self, what: What) -> Op {
        self.plan.ops += 1;
        Op { index: self.plan.ops - 1, what }
    }

    fn watch(&mut self, k: &[u8]) {
        let op = self.op(What::Watch(k.into()));
        let shard = self.shard(k);
        self.plan.reads.entry(shard).or_default().ops.push(op);
        self.plan.merges.push(Merge::Nothing);
    }

    fn read(&mut self, shard: ShardId, what: What, keys: &[&[u8]]) {
        let op = self.op(what);
        let reads = self.plan.reads.entry(shard).or_default();
        reads.ops.push(op);
        for k in keys {
            if !reads.keys.iter().any(|o| &*o.bytes == *k) {
                reads.keys.push(key(self.config, k));
            }
        }
    }

    fn lock(&mut self, shard: ShardId, k: &[u8], lock: Lock) {
        let locking = self.config.isolation == Isolation::Locking && !self.one_shard;
        let lock = if locking { Lock::Exclusive } else { lock };
        let keys = &mut self.plan.writes.entry(shard).or_default().keys;
        match keys.iter_mut().find(|(o, _)| &*o.bytes == k) {
            Some((_, had)) => *had = had.and(lock),
            None => keys.push((key(self.config, k), lock)),
        }
    }

    /// A command of a transaction that is evaluated: copies of its keys, under locks.
    fn evaluated(&mut self, c: &'static Command, args: &OwnedArgs) {
        let args = args.to_vec();
        let lock = if c.class_of(&args) == Class::Read { Lock::Shared } else { Lock::Exclusive };
        for k in keys_of(c, &args) {
            let shard = self.shard(k);
            self.lock(shard, k, lock);
            if !self.plan.reads.get(&shard).is_some_and(|r| r.keys.iter().any(|o| &*o.bytes == k)) {
                self.read(shard, What::Dump(k.into()), &[k]);
            }
        }
        self.plan.merges.push(Merge::Nothing);
    }

    /// A command all of whose keys live at one shard, run there as it is.
    fn whole(&mut self, c: &'static Command, owned: &OwnedArgs, shard: ShardId, read: bool) {
        let args = owned.to_vec();
        let keys = keys_of(c, &args);
        let first = self.plan.ops;
        let what = What::Command(c, owned.clone());
        if read {
            self.read(shard, what, &keys);
        } else {
            let lock = match c.class_of(&args) {
                Class::Blind => Lock::Blind,
                Class::Rmw => Lock::Exclusive,
                Class::Read => Lock::Shared,
            };
            for k in keys {
                self.lock(shard, k, lock);
            }
            let op = self.op(what);
            self.plan.writes.entry(shard).or_default().ops.push(op);
        }
        self.plan.merges.push(Merge::One(first));
    }

    fn is_written(&self, shard: ShardId, k: &[u8]) -> bool {
        self.plan.writes.get(&shard).is_some_and(|w| w.keys.iter().any(|(o, _)| &*o.bytes == k))
    }

    fn command(&mut self, c: &'static Command, owned: &OwnedArgs) {
        let args = owned.to_vec();
        let keys = keys_of(c, &args);
        let class = c.class_of(&args);
        if c.route == Route::Split && keys.len() > 1 {
            return self.split(c, &args, class);
        }
        let shard = keys.first().map_or(0, |k| self.shard(k));
        if keys.iter().any(|k| self.shard(k) != shard) {
            return self.copies(&keys);
        }
        // A read of what was written before it in the same transaction runs where and when the write does.
        let read = class == Class::Read && !keys.iter().any(|k| self.is_written(shard, k));
        if class == Class::Read && !read {
            for k in &keys {
                self.lock(shard, k, Lock::Exclusive);
            }
        }
        self.whole(c, owned, shard, read);
    }

    fn split(&mut self, c: &'static Command, args: &[&[u8]], class: Class) {
        let first = self.plan.ops;
        let step = match c.keys {
            kintsugidb_engine::KeySpec::Range { step, .. } => step,
            _ => 1,
        };
        for i in c.key_indexes(args) {
            let mut one = vec![args[0]];
            one.extend(args[i..].iter().take(step));
            let k = args[i];
            let shard = self.shard(k);
            let read = class == Class::Read && !self.is_written(shard, k);
            if class == Class::Read && !read {
                self.lock(shard, k, Lock::Exclusive);
            }
            self.whole(c, &OwnedArgs::new(&one), shard, read);
            self.plan.merges.pop();
        }
        let all = first..self.plan.ops;
        self.plan.merges.push(match c.name {
            "mset" => Merge::Ok(all),
            "mget" => Merge::Array(all),
            _ => Merge::Sum(all),
        });
    }

    /// A command that reads values of several shards and writes nothing.
    fn copies(&mut self, keys: &[&[u8]]) {
        let first = self.plan.ops;
        for k in keys {
            let shard = self.shard(k);
            self.read(shard, What::Dump((*k).into()), &[k]);
        }
        self.plan.merges.push(Merge::Copies(first..self.plan.ops));
    }
}
