//! What readers of the region are told of transactions that are prepared here ([`PreparedVersions`]).
//!
//! A transaction's commands run at commit, so what they make of a key is known before only where it does not depend on what the key
//! holds then: after a plain SET (or a part of an MSET), a DEL, a removal. Of other keys nothing is shown; their readers ask.
//!
//! A version is shown before anybody can know that its transaction is committed, since the answer to PREPARE leaves after it; and until the
//! transaction has been committed here, so that whoever knows of it finds it one way or the other.
use super::Participant;
use crate::{
    TxnId,
    config::PreparedVersions,
    message::{Lock, Op, What, Work},
};
use kintsugidb_engine::{Class, Shard};

impl Participant {
    /// Whether readers may find versions here that are not committed here yet.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn shows_prepared(&self) -> bool {
        self.config.prepared == PreparedVersions::Shown
    }

    /// A transaction is prepared, and nobody has been told yet.
    pub(super) fn announce(&mut self, txn: TxnId, work: &Work) {
        match self.config.prepared {
            PreparedVersions::Hidden => {}
            PreparedVersions::Shown => work.ops.iter().for_each(|op| show(&mut self.shard, txn, op)),
            PreparedVersions::Invalidated => {
                for (key, _) in written(work) {
                    self.shard.invalidate(&key.bytes, true);
                }
            }
        }
    }

    /// It is committed or aborted here, and not pending any more.
    pub(super) fn retract(&mut self, txn: TxnId, work: &Work) {
        if self.config.prepared == PreparedVersions::Hidden {
            return;
        }
        for (key, _) in written(work) {
            match self.config.prepared {
                PreparedVersions::Hidden => {}
                PreparedVersions::Shown => self.shard.hide_prepared(txn.0, &key.bytes),
                PreparedVersions::Invalidated => {
                    let others = self.has_pending(key.fingerprint);
                    self.shard.invalidate(&key.bytes, others);
                }
            }
        }
    }

    /// A key has been written by somebody else than the transactions that are pending on it: its new version has no mark.
    pub(super) fn mark_again(&mut self, key: &[u8], fingerprint: u64) {
        if self.config.prepared == PreparedVersions::Invalidated && self.has_pending(fingerprint) {
            self.shard.invalidate(key, true);
        }
    }
}

fn written(work: &Work) -> impl Iterator<Item = &(crate::message::Key, Lock)> {
    work.keys.iter().filter(|(_, lock)| *lock != Lock::Shared)
}

/// Shows what an operation makes of its keys, or takes back what those before it have made of them, if that depends on what is there.
fn show(shard: &mut Shard, txn: TxnId, op: &Op) {
    let tid = txn.0;
    match &op.what {
        What::Put(key, None) => shard.show_prepared(tid, key, None),
        What::Command(command, args) if command.class != Class::Read => {
            let args = args.to_vec();
            match (command.name, &args[..]) {
                ("set", [_, key, value]) => shard.show_prepared(tid, key, Some(value)),
                ("mset", [_, pairs @ ..]) => {
                    for pair in pairs.chunks_exact(2) {
                        shard.show_prepared(tid, pair[0], Some(pair[1]));
                    }
                }
                ("del" | "unlink", [_, keys @ ..]) => {
                    for key in keys {
                        shard.show_prepared(tid, key, None);
                    }
                }
                _ => hide(shard, tid, &op.what),
            }
        }
        What::Put(..) => hide(shard, tid, &op.what),
        What::Command(..) | What::Dump(_) | What::Watch(_) => {}
    }
}

fn hide(shard: &mut Shard, tid: u64, what: &What) {
    for key in what.keys() {
        shard.hide_prepared(tid, key);
    }
}
