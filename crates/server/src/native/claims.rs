//! What a native client may say. It has proved who it is, and may write whatever keys it likes; it must not be able to keep others
//! from working, nor to break what they rely on.
//!
//! ```text
//!   timestamps   at most a second ahead of the server's clocks; else one message makes all later writes "the future"
//!   names        of transactions carry the client's own coordinator number: nobody prepares, commits or aborts another's
//!   shards       exist, and the receiver is among the participants; each key belongs to the shard it is sent to
//!   work         every key that an operation touches is declared, with a lock that the operation's class needs, and the
//!                written ones are among the siblings: the participant and every reader rely on these lists
//!   commands     on keys, as in MULTI; reads only read
//! ```
//! A *proof* ("T is committed at c") names anybody's transaction and is believed, as far as its timestamps can be: the client has
//! read it from the region, and the owner could not tell a lie from news. A client that lies here makes a transaction, which its own
//! client has prepared, visible before its time; it could as well have overwritten its keys.
use kintsugidb_engine::{Class, Flags, KeySpec, Route};
use kintsugidb_ramp::{
    Isolation, MAX_SHARDS, NODE_BITS, ShardId, TxnId,
    message::{Body, Key, Lock, Message, Op, Proof, Read, Siblings, TxnInfo, What, Work},
    shard_of,
};

/// How far a client's timestamps may be ahead, in microseconds.
pub(super) const AHEAD_US: u64 = 1_000_000;
/// How long one transaction may be tried again with its first name, in microseconds.
const OLDEST_AGE_US: u64 = 600_000_000;
/// Keys that one transaction may write.
const MAX_SIBLINGS: usize = 1 << 20;

/// Why a message was not accepted. The connection is closed.
pub(super) type Why = &'static str;

/// What a client's messages are judged by.
pub(super) struct Claims {
    /// The client's number as a coordinator.
    pub coordinator: u16,
    /// Number of shards.
    pub shards: u16,
    /// The highest timestamp that is believed.
    pub limit: u64,
    /// How transactions are isolated here.
    pub isolation: Isolation,
}

fn node(ts: u64) -> u16 {
    (ts & ((1 << NODE_BITS) - 1)) as u16
}

fn ensure(ok: bool, why: Why) -> Result<(), Why> {
    if ok { Ok(()) } else { Err(why) }
}

impl Claims {
    /// A clock value that the client carries.
    pub fn clock(&self, ts: u64) -> Result<(), Why> {
        ensure(ts <= self.limit, "a clock is too far ahead")
    }

    /// Proofs that the client carries.
    pub fn proofs(&self, proofs: &[Proof]) -> Result<(), Why> {
        proofs.iter().try_for_each(|p| self.proof(p))
    }

    fn proof(&self, p: &Proof) -> Result<(), Why> {
        ensure(p.txn.0 <= self.limit && p.c <= self.limit, "a proof is too far ahead")?;
        ensure(node(p.c) < self.shards, "a commit timestamp is of no shard")
    }

    fn own(&self, txn: TxnId) -> Result<(), Why> {
        ensure(node(txn.0) == MAX_SHARDS + self.coordinator, "a transaction has somebody else's name")?;
        self.clock(txn.0)
    }

    /// One message to a shard.
    pub fn message(&self, shard: ShardId, message: &Message) -> Result<(), Why> {
        ensure(shard < self.shards, "there is no such shard")?;
        self.clock(message.clock)?;
        self.proofs(message.proofs.as_deref().unwrap_or_default())?;
        match &message.body {
            Body::Execute(batch) => self.work(shard, &batch.work),
            Body::Read(read) => self.read(shard, read),
            Body::Reserve(info, work, read) => {
                self.transaction(shard, info, work)?;
                self.read(shard, read)
            }
            Body::Prepare { info, work, .. } => self.transaction(shard, info, work),
            Body::Commit(proof) => {
                self.own(proof.txn)?;
                self.proof(proof)
            }
            Body::Abort(txn) | Body::Stable(txn) => self.own(*txn),
            Body::Apply(info, work) => {
                ensure(self.isolation == Isolation::None, "a write without its protocol")?;
                self.transaction(shard, info, work)
            }
            _ => Err("a message that no coordinator sends"),
        }
    }

    fn transaction(&self, shard: ShardId, info: &TxnInfo, work: &Work) -> Result<(), Why> {
        self.own(info.id)?;
        self.own(TxnId(info.age))?;
        let young = TxnId(info.age).age_us(info.id.0) <= OLDEST_AGE_US;
        ensure(info.age <= info.id.0 && young, "a transaction's age is impossible")?;
        ensure(info.participants.iter().all(|s| *s < self.shards), "a participant does not exist")?;
        ensure(info.participants.binary_search(&shard).is_ok(), "the shard is no participant")?;
        let fits = match (&info.siblings, self.isolation) {
            (Siblings::Unsaid, Isolation::Small) | (Siblings::Bloom(_), Isolation::Hybrid) => true,
            (Siblings::Keys(keys), Isolation::Fast | Isolation::Locking | Isolation::None) => {
                keys.len() <= MAX_SIBLINGS
            }
            _ => false,
        };
        ensure(fits, "siblings of another isolation, or too many")?;
        let mut written = work.keys.iter().filter(|(_, lock)| *lock != Lock::Shared);
        ensure(written.all(|(k, _)| info.siblings.may_hold(k.fingerprint)), "a written key is no sibling")?;
        self.work(shard, work)
    }

    fn at(&self, shard: ShardId, key: &[u8]) -> Result<(), Why> {
        ensure(shard_of(key, self.shards) == shard, "a key belongs to another shard")
    }

    fn work(&self, shard: ShardId, work: &Work) -> Result<(), Why> {
        let mut locks: Vec<(&[u8], Lock)> = work.keys.iter().map(|(k, lock)| (&*k.bytes, *lock)).collect();
        locks.sort_unstable();
        ensure(locks.windows(2).all(|w| w[0].0 != w[1].0), "a key is declared twice")?;
        locks.iter().try_for_each(|(key, _)| self.at(shard, key))?;
        let lock = |key: &[u8]| {
            let found = locks.binary_search_by(|(k, _)| (*k).cmp(key));
            found.map(|i| locks[i].1).map_err(|_| "an operation touches a key that is not declared")
        };
        for op in &work.ops {
            match &op.what {
                What::Command(..) => {
                    let (class, keys) = command(op)?;
                    for key in keys {
                        let enough = matches!(
                            (class, lock(key)?),
                            (_, Lock::Exclusive) | (Class::Blind, Lock::Blind) | (Class::Read, Lock::Shared)
                        );
                        ensure(enough, "an operation's lock is too weak")?;
                    }
                }
                What::Put(key, _) => {
                    ensure(lock(key)? == Lock::Exclusive, "an operation's lock is too weak")?
                }
                What::Dump(_) | What::Watch(_) => return Err("a read among the writes"),
            }
        }
        for w in &work.watches {
            ensure(lock(&w.key)? != Lock::Blind, "a watched key is not kept from changing")?;
        }
        Ok(())
    }

    fn read(&self, shard: ShardId, read: &Read) -> Result<(), Why> {
        self.proofs(&read.with)?;
        let mut keys: Vec<&[u8]> = read.keys.iter().map(|k: &Key| &*k.bytes).collect();
        keys.sort_unstable();
        keys.iter().try_for_each(|key| self.at(shard, key))?;
        let declared = |key: &[u8]| {
            ensure(keys.binary_search(&key).is_ok(), "an operation touches a key that is not declared")
        };
        for op in &read.ops {
            match &op.what {
                What::Command(..) => {
                    let (class, keys) = command(op)?;
                    ensure(class == Class::Read, "a write among the reads")?;
                    keys.into_iter().try_for_each(declared)?;
                }
                What::Dump(key) => declared(key)?,
                What::Watch(key) => self.at(shard, key)?,
                What::Put(..) => return Err("a write among the reads"),
            }
        }
        Ok(())
    }
}

/// The class of a command and its keys.
fn command(op: &Op) -> Result<(Class, Vec<&[u8]>), Why> {
    let What::Command(command, args) = &op.what else { return Err("no command") };
    let on_keys = !matches!(command.route, Route::Front | Route::All) && command.keys != KeySpec::None;
    ensure(on_keys && !command.flags.has(Flags::NO_MULTI), "a command that is none of a transaction")?;
    let args = args.to_vec();
    let keys: Vec<_> = command.key_indexes(&args).into_iter().map(|i| args[i]).collect();
    ensure(!keys.is_empty(), "a command without keys")?;
    Ok((command.class_of(&args), keys))
}

/// Whether the work of a message may need memory.
pub(super) fn needs_memory(work: &Work) -> bool {
    work.ops.iter().any(|op| match &op.what {
        What::Command(command, _) => command.flags.has(Flags::DENYOOM),
        What::Put(_, dump) => dump.is_some(),
        _ => false,
    })
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
