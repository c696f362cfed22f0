//! Transactions all of whose shards belong to the calling thread: prepared and committed in one go, without a message.
//!
//! Nothing is ever pending: the timestamps of all shards are taken, their maximum is the commit timestamp, and every shard commits.
//! Only readers that ask these shards at different moments can see half of it; if there are any, the metadata are
//! kept for the window as for any other transaction.
use super::{KeyState, Participant, State, Txn};
use crate::{
    Isolation, TxnId,
    message::{Key, Lock, Node, Siblings, TxnInfo, Work},
};
use hashbrown::hash_map::Entry;
use kintsugidb_engine::{Call, Class, Command, Version};
use kintsugidb_wire::Reply;
use std::{collections::BTreeMap, sync::Arc};

/// One operation of a transaction within a thread.
#[derive(Clone, Copy)]
pub struct LocalOp<'a> {
    /// Index of the participant in the caller's slice.
    pub at: usize,
    /// The command.
    pub command: &'static Command,
    /// Its arguments; all its keys live at that shard.
    pub args: &'a [&'a [u8]],
    /// Its one key.
    pub key: &'a [u8],
    /// The key's fingerprint.
    pub fingerprint: u64,
}

/// Runs `ops`, reads among them, and commits what they write at the shards of one thread, if nothing is in their way; their
/// replies are appended to `reply` in order.
/// `None`: something is reserved or pending where it matters, so it has to go by messages. Otherwise the commit timestamp.
///
/// `clock` is the session's. Its proofs are not needed: what is written comes after everything that it has seen, and what is read or looked at
/// has nothing pending.
pub fn commit_local(
    shards: &mut [Participant],
    ops: &[LocalOp<'_>],
    clock: u64,
    now_us: u64,
    reply: &mut Reply,
) -> Option<u64> {
    for op in ops {
        let p = &shards[op.at];
        if let Some(k) = p.keys.get(&op.fingerprint)
            && (k.is_reserved() || (!k.pending.is_empty() && op.command.class_of(op.args) != Class::Blind))
        {
            return None;
        }
        let looks = op.command.class_of(op.args) != Class::Blind;
        if p.txns.len() >= p.config.max_txns || (looks && !p.unstable_on(op.fingerprint).is_empty()) {
            return None;
        }
    }
    let mut c = 0;
    for op in ops {
        let p = &mut shards[op.at];
        // The first operation at a shard takes its timestamp; a second one would only take a later one.
        p.set_now(now_us);
        p.clock.see(clock);
        c = c.max(p.clock.next(now_us));
    }
    let first = &shards[ops.first()?.at];
    let writes = ops.iter().filter(|o| o.command.class != Class::Read);
    let kept = first.config.readers_elsewhere
        && first.config.isolation != Isolation::None
        && writes.clone().count() > 1;
    let first_write = writes.clone().next().map(|o| o.at);
    let over_shards = writes.clone().any(|o| Some(o.at) != first_write);
    let info = kept.then(|| info(shards, ops, c));
    let mut records = Vec::new();
    for op in ops {
        let p = &mut shards[op.at];
        p.clock.see(c);
        let info = info.as_ref().filter(|_| op.command.class != Class::Read);
        if let Some(info) = info {
            if over_shards {
                p.shard.heat(op.key);
            }
            p.shard.begin_txn(Version { ts: c, seq: 0 }, c, info.siblings.words());
        } else {
            p.shard.begin_write(Version { ts: c, seq: 0 });
        }
        let start = reply.len();
        if let Err(e) = (op.command.run)(&mut Call { shard: &mut p.shard, args: op.args, out: reply }) {
            reply.truncate(start);
            reply.error(&e.to_string());
        }
        p.mark_again(op.key, op.fingerprint);
        if let Some(info) = info {
            records.extend(p.shard.end_txn().map(|r| (op.at, r)));
            if over_shards {
                p.keep(info, op);
            } else {
                p.shard.commit_seq(true);
            }
        }
    }
    for (at, record) in records {
        shards[at].keep_record(Some(record));
    }
    Some(c)
}

fn info(shards: &[Participant], ops: &[LocalOp<'_>], c: u64) -> Arc<TxnInfo> {
    let ops = || ops.iter().filter(|o| o.command.class != Class::Read);
    let mut participants: Vec<_> = ops().map(|o| shards[o.at].id).collect();
    participants.sort_unstable();
    participants.dedup();
    let mut keys: Vec<_> = ops().map(|o| o.fingerprint).collect();
    keys.sort_unstable();
    keys.dedup();
    let siblings = match shards[0].config.isolation {
        Isolation::Small => Siblings::Unsaid,
        Isolation::Hybrid => Siblings::bloom(&keys),
        _ => Siblings::Keys(keys.into()),
    };
    Arc::new(TxnInfo { id: TxnId(c), age: c, participants: participants.into(), siblings })
}

impl Participant {
    /// Keeps the metadata of a transaction that has just written a key, for the window.
    fn keep(&mut self, info: &Arc<TxnInfo>, op: &LocalOp<'_>) {
        let seq = self.shard.commit_seq(false);
        let c = info.id.0;
        let key = Key { bytes: op.key.into(), fingerprint: op.fingerprint };
        match self.txns.get_mut(&info.id) {
            Some(t) => {
                if let Some(work) = Arc::get_mut(&mut t.work) {
                    work.keys.push((key, Lock::Blind));
                }
            }
            None => {
                let work = Work { keys: vec![(key, Lock::Blind)], ..Work::default() };
                let t = Txn {
                    info: info.clone(),
                    work: Arc::new(work),
                    reply_to: Node::Shard(self.id),
                    state: State::Committed { p: c, c, seq, stable: true, replies: None, record: None },
                    answers: BTreeMap::new(),
                };
                self.txns.insert(info.id, t);
                self.timers.window.push_back((self.now_us + self.config.window_us, info.id));
            }
        }
        match self.keys.entry(op.fingerprint) {
            Entry::Occupied(mut k) => k.get_mut().recent.push(info.id),
            Entry::Vacant(k) => {
                k.insert(KeyState { recent: vec![info.id], ..KeyState::default() });
            }
        }
    }
}
