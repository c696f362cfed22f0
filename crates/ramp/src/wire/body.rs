//! The bodies of messages as bytes.
//!
//! ```text
//!   info   id u64 | age u64 | participants u32, each u16, ascending | siblings: 0 count, each u64, ascending | 1 two u64 | 2
//!   work   keys u32, each: bytes, lock u8 | ops | watches u32, each: bytes, state | proto u8
//!   op     index u32 | 1 args | 2 bytes (dump) | 3 bytes, option dump (put) | 4 bytes (watch)
//!   read   attempt u32 | round u32 | ops | keys u32, each bytes | all keys | snapshot u64 | with: proofs | proto u8
//!   found  1 bytes (reply) | 2 option dump | 3 state            seen   info | c u64 | stable u8
//! ```
//! A field of one byte counts its cases from 0 in the order of their declaration; the kinds of bodies are numbered in [`put`].
use super::dump::{put as put_dump, put_option};
use super::{Cursor, Result, WireError, put_bytes, put_len, put_proofs, put_u16, put_u32, put_u64, unknown};
use crate::message::{
    Batch, Body, Found, Key, Lock, Op, Proof, Read, ReadAnswer, Refusal, Seen, Siblings, Standing, TxnInfo,
    Watch, WatchState, What, Work,
};
use kintsugidb_engine::{Version, lookup};
use kintsugidb_wire::{OwnedArgs, Proto};
use std::sync::Arc;

pub(super) fn put(out: &mut Vec<u8>, body: &Body) {
    match body {
        Body::Execute(batch) => {
            out.push(1);
            put_work(out, &batch.work);
        }
        Body::Executed { replies, seen, refused } => {
            out.push(2);
            put_option(out, replies.as_ref(), put_answers);
            put_seen(out, seen);
            put_option(out, refused.as_ref(), |out, r| out.push(*r as u8));
        }
        Body::Read(read) => {
            out.push(3);
            put_read(out, read);
        }
        Body::ReadReply { attempt, round, snapshot, answers, seen } => {
            out.push(4);
            put_u32(out, *attempt);
            put_u32(out, *round);
            put_u64(out, *snapshot);
            put_option(out, answers.as_ref(), put_answers);
            put_seen(out, seen);
        }
        Body::Reserve(info, work, read) => {
            out.push(5);
            put_info(out, info);
            put_work(out, work);
            put_read(out, read);
        }
        Body::Prepare { info, work, reserved } => {
            out.push(6);
            put_info(out, info);
            put_work(out, work);
            out.push((*reserved).into());
        }
        Body::Prepared { txn, p } => {
            out.push(7);
            put_u64(out, txn.0);
            put_u64(out, *p);
        }
        Body::Refused { txn, why } => {
            out.push(8);
            put_u64(out, txn.0);
            out.push(*why as u8);
        }
        Body::Commit(Proof { txn, c }) => {
            out.push(9);
            put_u64(out, txn.0);
            put_u64(out, *c);
        }
        Body::Committed { txn, replies, seen } => {
            out.push(10);
            put_u64(out, txn.0);
            put_option(out, replies.as_deref(), put_answers);
            put_seen(out, seen);
        }
        Body::Abort(txn) => {
            out.push(11);
            put_u64(out, txn.0);
        }
        Body::Stable(txn) => {
            out.push(12);
            put_u64(out, txn.0);
        }
        Body::Ask { info, committed } => {
            out.push(13);
            put_info(out, info);
            put_option(out, committed.as_ref(), |out, c| put_u64(out, *c));
        }
        Body::Answer { txn, standing } => {
            out.push(14);
            put_u64(out, txn.0);
            let (kind, ts) = match standing {
                Standing::Committed(c) => (0, *c),
                Standing::Prepared(p) => (1, *p),
                Standing::Aborted => (2, 0),
            };
            out.push(kind);
            put_u64(out, ts);
        }
        Body::Apply(info, work) => {
            out.push(15);
            put_info(out, info);
            put_work(out, work);
        }
    }
}

fn put_info(out: &mut Vec<u8>, info: &TxnInfo) {
    put_u64(out, info.id.0);
    put_u64(out, info.age);
    put_len(out, info.participants.len());
    info.participants.iter().for_each(|s| put_u16(out, *s));
    match &info.siblings {
        Siblings::Keys(keys) => {
            out.push(0);
            put_fingerprints(out, keys);
        }
        Siblings::Bloom(words) => {
            out.push(1);
            words.iter().for_each(|w| put_u64(out, *w));
        }
        Siblings::Unsaid => out.push(2),
    }
}

fn put_fingerprints(out: &mut Vec<u8>, all: &[u64]) {
    put_len(out, all.len());
    all.iter().for_each(|f| put_u64(out, *f));
}

fn put_work(out: &mut Vec<u8>, work: &Work) {
    put_len(out, work.keys.len());
    for (key, lock) in &work.keys {
        put_bytes(out, &key.bytes);
        out.push(*lock as u8);
    }
    put_ops(out, &work.ops);
    put_len(out, work.watches.len());
    for w in &work.watches {
        put_bytes(out, &w.key);
        put_state(out, &w.state);
    }
    put_proto(out, work.proto);
}

fn put_state(out: &mut Vec<u8>, state: &WatchState) {
    put_u64(out, state.version.ts);
    put_u32(out, state.version.seq);
    put_u64(out, state.births);
}

fn put_proto(out: &mut Vec<u8>, proto: Proto) {
    out.push(if proto == Proto::Resp3 { 1 } else { 0 });
}

fn put_ops(out: &mut Vec<u8>, ops: &[Op]) {
    put_len(out, ops.len());
    for op in ops {
        put_u32(out, op.index);
        match &op.what {
            What::Command(_, args) => {
                out.push(1);
                put_len(out, args.len());
                args.iter().for_each(|a| put_bytes(out, a));
            }
            What::Dump(key) => {
                out.push(2);
                put_bytes(out, key);
            }
            What::Put(key, dump) => {
                out.push(3);
                put_bytes(out, key);
                put_option(out, dump.as_ref(), put_dump);
            }
            What::Watch(key) => {
                out.push(4);
                put_bytes(out, key);
            }
        }
    }
}

fn put_read(out: &mut Vec<u8>, read: &Read) {
    put_u32(out, read.attempt);
    put_u32(out, read.round);
    put_ops(out, &read.ops);
    put_len(out, read.keys.len());
    read.keys.iter().for_each(|k| put_bytes(out, &k.bytes));
    put_fingerprints(out, &read.all_keys);
    put_u64(out, read.snapshot);
    put_proofs(out, &read.with);
    put_proto(out, read.proto);
}

fn put_answers(out: &mut Vec<u8>, answers: &Vec<ReadAnswer>) {
    put_len(out, answers.len());
    for a in answers {
        put_u32(out, a.index);
        match &a.found {
            Found::Reply(bytes) => {
                out.push(1);
                put_bytes(out, bytes);
            }
            Found::Dump(dump) => {
                out.push(2);
                put_option(out, dump.as_ref(), put_dump);
            }
            Found::Watch(state) => {
                out.push(3);
                put_state(out, state);
            }
        }
    }
}

fn put_seen(out: &mut Vec<u8>, seen: &[Seen]) {
    put_len(out, seen.len());
    for s in seen {
        put_info(out, &s.info);
        put_u64(out, s.c);
        out.push(s.stable.into());
    }
}

impl Cursor<'_> {
    pub(super) fn body(&mut self) -> Result<Body> {
        Ok(match self.u8()? {
            1 => Body::Execute(Arc::new(Batch { work: self.work()? })),
            2 => Body::Executed {
                replies: self.option(Self::answers)?,
                seen: self.seen()?,
                refused: self.option(Self::refusal)?,
            },
            3 => Body::Read(Arc::new(self.read()?)),
            4 => Body::ReadReply {
                attempt: self.u32()?,
                round: self.u32()?,
                snapshot: self.u64()?,
                answers: self.option(Self::answers)?,
                seen: self.seen()?,
            },
            5 => Body::Reserve(self.info()?, Arc::new(self.work()?), Arc::new(self.read()?)),
            6 => Body::Prepare { info: self.info()?, work: Arc::new(self.work()?), reserved: self.bool()? },
            7 => Body::Prepared { txn: self.txn()?, p: self.u64()? },
            8 => Body::Refused { txn: self.txn()?, why: self.refusal()? },
            9 => Body::Commit(self.proof()?),
            10 => Body::Committed {
                txn: self.txn()?,
                replies: self.option(Self::answers)?.map(Arc::new),
                seen: self.seen()?,
            },
            11 => Body::Abort(self.txn()?),
            12 => Body::Stable(self.txn()?),
            13 => Body::Ask { info: self.info()?, committed: self.option(Self::u64)? },
            14 => {
                let txn = self.txn()?;
                let kind = self.u8()?;
                let ts = self.u64()?;
                let standing = match kind {
                    0 => Standing::Committed(ts),
                    1 => Standing::Prepared(ts),
                    2 => Standing::Aborted,
                    n => return Err(unknown("standing", n)),
                };
                Body::Answer { txn, standing }
            }
            15 => Body::Apply(self.info()?, Arc::new(self.work()?)),
            n => return Err(unknown("message", n)),
        })
    }

    fn info(&mut self) -> Result<Arc<TxnInfo>> {
        let (id, age) = (self.txn()?, self.u64()?);
        let participants = self.shards()?.into();
        let siblings = match self.u8()? {
            0 => Siblings::Keys(self.fingerprints()?.into()),
            1 => Siblings::Bloom([self.u64()?, self.u64()?]),
            2 => Siblings::Unsaid,
            n => return Err(unknown("form of siblings", n)),
        };
        Ok(Arc::new(TxnInfo { id, age, participants, siblings }))
    }

    fn key(&mut self) -> Result<Key> {
        let bytes = self.bytes()?;
        Ok(Key { bytes: bytes.into(), fingerprint: (self.fingerprint)(bytes) })
    }

    fn lock(&mut self) -> Result<Lock> {
        match self.u8()? {
            0 => Ok(Lock::Blind),
            1 => Ok(Lock::Shared),
            2 => Ok(Lock::Exclusive),
            n => Err(unknown("lock", n)),
        }
    }

    fn work(&mut self) -> Result<Work> {
        Ok(Work {
            keys: self.list(5, |c| Ok((c.key()?, c.lock()?)))?,
            ops: self.ops()?,
            watches: self.list(24, |c| Ok(Watch { key: c.bytes()?.into(), state: c.state()? }))?,
            proto: self.proto()?,
        })
    }

    fn state(&mut self) -> Result<WatchState> {
        let version = Version { ts: self.u64()?, seq: self.u32()? };
        Ok(WatchState { version, births: self.u64()? })
    }

    fn proto(&mut self) -> Result<Proto> {
        Ok(if self.bool()? { Proto::Resp3 } else { Proto::Resp2 })
    }

    fn ops(&mut self) -> Result<Vec<Op>> {
        self.list(9, |c| Ok(Op { index: c.u32()?, what: c.what()? }))
    }

    fn what(&mut self) -> Result<What> {
        Ok(match self.u8()? {
            1 => {
                let args = self.list(4, Self::bytes)?;
                let name = args.first().ok_or(WireError::Command)?;
                let command = lookup(name).filter(|c| c.takes(args.len())).ok_or(WireError::Command)?;
                What::Command(command, OwnedArgs::new(&args))
            }
            2 => What::Dump(self.bytes()?.into()),
            3 => What::Put(self.bytes()?.into(), self.option(Self::dump)?),
            4 => What::Watch(self.bytes()?.into()),
            n => return Err(unknown("operation", n)),
        })
    }

    fn read(&mut self) -> Result<Read> {
        Ok(Read {
            attempt: self.u32()?,
            round: self.u32()?,
            ops: self.ops()?,
            keys: self.list(4, Self::key)?,
            all_keys: self.fingerprints()?.into(),
            snapshot: self.u64()?,
            with: self.proofs()?,
            proto: self.proto()?,
        })
    }

    fn answers(&mut self) -> Result<Vec<ReadAnswer>> {
        self.list(6, |c| {
            let index = c.u32()?;
            let found = match c.u8()? {
                1 => Found::Reply(c.bytes()?.to_vec()),
                2 => Found::Dump(c.option(Self::dump)?),
                3 => Found::Watch(c.state()?),
                n => return Err(unknown("answer", n)),
            };
            Ok(ReadAnswer { index, found })
        })
    }

    fn seen(&mut self) -> Result<Vec<Seen>> {
        self.list(30, |c| Ok(Seen { info: c.info()?, c: c.u64()?, stable: c.bool()? }))
    }

    fn refusal(&mut self) -> Result<Refusal> {
        Ok(match self.u8()? {
            0 => Refusal::Die,
            1 => Refusal::Changed,
            2 => Refusal::Horizon,
            3 => Refusal::Aborted,
            4 => Refusal::Busy,
            5 => Refusal::Full,
            n => return Err(unknown("refusal", n)),
        })
    }
}
