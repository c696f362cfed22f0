//! Answering reads of several keys (PROTOCOL rules 12 to 16).
use super::{Participant, Settled, State};
use crate::{
    Fault,
    coordinator::run,
    message::{Body, Found, Node, Outbox, Read, ReadAnswer, Seen, What},
};
use kintsugidb_engine::{AtSnapshot, Gone, Shard};
use std::collections::BTreeSet;

impl Participant {
    pub(super) fn on_read(&mut self, from: Node, read: &Read, out: &mut Outbox) {
        for proof in &read.with {
            self.commit_prepared(*proof, out);
        }
        let late = read.round > 1 && !self.config.faults.has(Fault::LatestInRoundTwo);
        let found = if late { self.read_at(read) } else { Ok((self.read_now(read), self.met(read))) };
        let snapshot = if read.round == 1 { self.shard.snapshot() } else { read.snapshot };
        let (answers, seen) = match found {
            Ok((answers, seen)) => (Some(answers), seen),
            Err(Gone) => (None, Vec::new()),
        };
        let (attempt, round) = (read.attempt, read.round);
        self.send(from, Body::ReadReply { attempt, round, snapshot, answers, seen }, out);
    }

    fn read_now(&mut self, read: &Read) -> Vec<ReadAnswer> {
        let answer = |op: &crate::message::Op, found| ReadAnswer { index: op.index, found };
        read.ops.iter().map(|op| answer(op, self.run_op(&op.what, read.proto))).collect()
    }

    /// Recent transactions on the keys of a read: those that may have written another key of the reader, and those that its
    /// connection has to carry on.
    fn met(&self, read: &Read) -> Vec<Seen> {
        let mut seen = BTreeSet::new();
        for key in &read.keys {
            let Some(k) = self.keys.get(&key.fingerprint) else { continue };
            let meets = |s: &Seen| {
                let other = |f: &&u64| **f != key.fingerprint && s.info.siblings.may_hold(**f);
                !s.stable || read.all_keys.iter().any(|f| other(&f))
            };
            seen.extend(k.recent.iter().filter(|t| self.seen(**t).is_some_and(|s| meets(&s))));
        }
        seen.into_iter().filter_map(|t| self.seen(t)).collect()
    }

    /// Reads at "snapshot s plus transactions B".
    fn read_at(&mut self, read: &Read) -> Result<(Vec<ReadAnswer>, Vec<Seen>), Gone> {
        for proof in &read.with {
            match (self.txns.get(&proof.txn).map(|t| &t.state), self.outcomes.get(&proof.txn)) {
                (Some(State::Committed { .. }), _) => {}
                // Its versions are forgotten, but the snapshot has it.
                (None, Some(Settled::Committed { seq, .. })) if *seq <= read.snapshot => {}
                _ => return Err(Gone),
            }
        }
        let with: Vec<u64> = read.with.iter().map(|p| p.txn.0).collect();
        let mut answers = Vec::with_capacity(read.ops.len());
        let mut beneath = BTreeSet::new();
        for op in &read.ops {
            let mut at = |key: &[u8]| -> Result<_, Gone> {
                let AtSnapshot { dump, beneath: more } = self.shard.dump_at(key, read.snapshot, &with)?;
                beneath.extend(more);
                Ok(dump)
            };
            let found = match &op.what {
                What::Dump(key) => Found::Dump(at(key)?),
                What::Command(command, args) => {
                    let mut values = Vec::new();
                    for key in op.what.keys() {
                        values.push((key, at(key)?));
                    }
                    let scratch = self.scratch.get_or_insert_with(|| Box::new(Shard::scratch(1)));
                    scratch.flush();
                    scratch.now_ms = self.shard.now_ms;
                    for (key, value) in values {
                        if let Some(d) = value {
                            scratch.restore(key, d).map_err(|_| Gone)?;
                        }
                    }
                    Found::Reply(run(scratch, command, &args.to_vec(), read.proto))
                }
                What::Watch(key) => Found::Watch(self.watch_state(key)),
                What::Put(..) => continue,
            };
            answers.push(ReadAnswer { index: op.index, found });
        }
        let seen = beneath.into_iter().filter_map(|t| self.seen(crate::TxnId(t))).collect();
        Ok((answers, seen))
    }
}
