//! Point reads from the regions of other threads' shards, without a message to their owners.
//!
//! A connection reads one-sidedly only where it is in order (PROTOCOL rules 2, 24): nothing that it has asked of that
//! thread is still under way, and it carries no proof for that shard, which its owner might have to act upon first.
//! What was read is noted in the session: the timestamp, and transactions that are not known to be stable.
use crate::{conn::Conn, dispatch::each_key, registry::Entry, worker::Worker};
use kintsugidb_engine::{Counters, PointReader};
use kintsugidb_ramp::{Isolation, ShardId, TxnId, message::Proof};
use kintsugidb_wire::slot;
use std::sync::PoisonError;

impl Worker {
    /// Answers a command from the regions, if it can be and is allowed to be.
    pub fn read_outside(&mut self, conn: &mut Conn, entry: &Entry, args: &[&[u8]]) -> bool {
        let threads = self.shared.threads();
        let (Some(point), Some(reader)) = (entry.point, self.outside.as_mut()) else { return false };
        let shards = &mut self.key_shards;
        let count = self.config.shards;
        shards.clear();
        each_key(entry, args, |key| shards.push(usize::from(slot(key)) % count));
        let Some(&first) = shards.first() else { return false };
        let several = shards.iter().any(|s| *s != first);
        let in_order = shards.iter().all(|s| {
            conn.calls[s % threads] == 0
                && (!conn.session.has_proofs() || conn.session.proofs_for(*s as ShardId).is_none())
        });
        if !in_order || (several && self.config.isolation == Isolation::Locking) {
            return false;
        }
        let at = conn.out.len();
        reader.now_ms = self.now_ms;
        if reader.serve(point, args, shards, &mut conn.out).is_err() {
            return false;
        }
        conn.session.see(reader.clock());
        let from = if several { ShardId::MAX } else { first as ShardId };
        let horizon_us = self.coordinator.config().horizon_us;
        let noted = reader.txns().iter().all(|&(txn, c)| {
            let proof = Proof { txn: TxnId(txn), c };
            conn.session.saw_from_outside(from, proof, count as u16, horizon_us)
        });
        if !noted {
            conn.out.truncate(at);
        }
        noted
    }

    /// Puts what was read one-sidedly so far into the counters.
    pub fn note_outside(&self) {
        if let Some(reader) = &self.outside {
            let Counters { reads, retries, fallbacks, fractures, prepared } = reader.counters();
            let s = self.stats();
            s.one_sided.set(reads);
            s.one_sided_retries.set(retries);
            s.one_sided_fallbacks.set(fallbacks);
            s.fractures.set(fractures);
            s.one_sided_prepared.set(prepared);
        }
    }

    /// Gets the readers of all shards, once all threads have put theirs there.
    pub fn connect_readers(&mut self) {
        if self.shared.threads() > 1 {
            let readers = self.shared.readers.lock().unwrap_or_else(PoisonError::into_inner);
            let all: Vec<_> = readers.iter().flatten().cloned().collect();
            if all.len() == self.config.shards {
                self.outside = Some(PointReader::new(all, self.config.isolation.recorded_siblings()));
            }
        }
    }

    /// Puts the readers of this thread's shards where the other threads find them.
    pub fn offer_readers(&self) {
        let mut readers = self.shared.readers.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing is stored yet.
        let pinned = self.config.fabric.contains("rdma:");
        for p in &self.owner.parts {
            let reader = p.shard.reader();
            if pinned {
                reader.pin();
            }
            readers[usize::from(p.id())] = Some(reader);
        }
    }
}
