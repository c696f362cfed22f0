//! What a connection has seen, and takes along (PROTOCOL rule 2).
//!
//! A client that has read y of transaction T at one shard must not find itself before T at another, where T may still be
//! only prepared. So each connection carries the highest timestamp it has met, and proofs of commit of the transactions it
//! has read from that are not known to be committed everywhere; every message on its behalf takes the proofs that concern the
//! receiver. A proof goes when all participants have been told, when the transaction is known to be stable, or, if the
//! table is full, when it is older than the horizon.
use crate::{
    ShardId, TxnId,
    message::{Proof, Seen, Watch},
};
use std::sync::Arc;

/// The state of a connection.
#[derive(Debug, Default)]
pub struct Session {
    clock: u64,
    carried: Vec<Carried>,
    watches: Vec<(ShardId, Watch)>,
}

#[derive(Debug)]
struct Carried {
    proof: Proof,
    /// Participants that have not confirmed a message with this proof.
    left: Vec<ShardId>,
}

impl Session {
    /// The highest timestamp seen.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// Takes note of a timestamp: of every message received, and of everything read one-sidedly.
    pub fn see(&mut self, ts: u64) {
        self.clock = self.clock.max(ts);
    }

    /// Takes note of a transaction that was read from, at `from`.
    pub fn saw(&mut self, from: ShardId, seen: &Seen) {
        let at = self.carried.iter().position(|c| c.proof.txn == seen.info.id);
        match (at, seen.stable) {
            (Some(i), true) => {
                self.carried.swap_remove(i);
            }
            (Some(i), false) => self.told(i, from),
            (None, true) => {}
            (None, false) => {
                let left: Vec<_> = seen.info.participants.iter().copied().filter(|s| *s != from).collect();
                if !left.is_empty() {
                    self.carried.push(Carried { proof: Proof { txn: seen.info.id, c: seen.c }, left });
                }
            }
        }
    }

    /// Takes note of a transaction that was read from one-sidedly at `from`, of which it is known neither whether it is stable nor who took
    /// part: every shard may have. False if there are too many already: read by asking the owner, who knows.
    pub fn saw_from_outside(&mut self, from: ShardId, proof: Proof, shards: u16, horizon_us: u64) -> bool {
        const MOST: usize = 64;
        if let Some(i) = self.carried.iter().position(|c| c.proof.txn == proof.txn) {
            self.told(i, from);
            return true;
        }
        if self.carried.len() >= MOST {
            let clock = self.clock;
            self.carried.retain(|c| TxnId(c.proof.c).age_us(clock) <= horizon_us);
        }
        if self.carried.len() >= MOST {
            return false;
        }
        self.carried.push(Carried { proof, left: (0..shards).filter(|s| *s != from).collect() });
        true
    }

    /// Takes over what another session of the same client carries. False if that would be more than `most`.
    pub fn carry(&mut self, proofs: &[Proof], shards: u16, most: usize) -> bool {
        for proof in proofs {
            if !self.carried.iter().any(|c| c.proof.txn == proof.txn) {
                if self.carried.len() >= most {
                    return false;
                }
                self.carried.push(Carried { proof: *proof, left: (0..shards).collect() });
            }
        }
        true
    }

    /// Everything that it carries, for another session of the same client.
    pub fn proofs(&self) -> Vec<Proof> {
        self.carried.iter().map(|c| c.proof).collect()
    }

    /// A transaction is known to be committed by all its participants: nobody has to be told.
    pub fn settle(&mut self, txn: TxnId) {
        self.carried.retain(|c| c.proof.txn != txn);
    }

    /// Whether there is anything that messages have to carry.
    pub fn has_proofs(&self) -> bool {
        !self.carried.is_empty()
    }

    /// What a message to `shard` has to carry.
    pub fn proofs_for(&self, shard: ShardId) -> Option<Arc<[Proof]>> {
        if self.carried.is_empty() {
            return None;
        }
        let proofs: Vec<_> =
            self.carried.iter().filter(|c| c.left.contains(&shard)).map(|c| c.proof).collect();
        if proofs.is_empty() { None } else { Some(proofs.into()) }
    }

    /// `shard` has received these proofs.
    pub fn confirm(&mut self, shard: ShardId, proofs: &[Proof]) {
        for p in proofs {
            if let Some(i) = self.carried.iter().position(|c| c.proof.txn == p.txn) {
                self.told(i, shard);
            }
        }
    }

    fn told(&mut self, i: usize, shard: ShardId) {
        self.carried[i].left.retain(|s| *s != shard);
        if self.carried[i].left.is_empty() {
            self.carried.swap_remove(i);
        }
    }

    /// Makes room: whether there are at most `limit` proofs, after those beyond the horizon are dropped if need be.
    pub(crate) fn make_room(&mut self, limit: usize, clock: u64, horizon_us: u64) -> bool {
        if self.carried.len() > limit {
            self.carried.retain(|c| TxnId(c.proof.c).age_us(clock) <= horizon_us);
        }
        self.carried.len() <= limit
    }

    /// Adds a watched key. Watching a key twice keeps the first version.
    pub fn watch(&mut self, shard: ShardId, watch: Watch) {
        if !self.watches.iter().any(|(_, w)| w.key == watch.key) {
            self.watches.push((shard, watch));
        }
    }

    /// Whether the key is watched already.
    pub fn is_watched(&self, key: &[u8]) -> bool {
        self.watches.iter().any(|(_, w)| &*w.key == key)
    }

    /// The watched keys and their shards.
    pub fn watches(&self) -> &[(ShardId, Watch)] {
        &self.watches
    }

    /// Puts what is watched aside, for a command of several shards that is none of EXEC.
    pub fn take_watches(&mut self) -> Vec<(ShardId, Watch)> {
        std::mem::take(&mut self.watches)
    }

    /// Puts it back.
    pub fn put_watches(&mut self, watches: Vec<(ShardId, Watch)>) {
        self.watches = watches;
    }

    /// Forgets what is watched: UNWATCH, DISCARD, and every EXEC.
    pub fn unwatch(&mut self) {
        self.watches.clear();
    }
}
