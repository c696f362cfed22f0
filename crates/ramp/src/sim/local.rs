//! Clients on the thread that owns the shards: commands run at once, transactions by [`commit_local`], no messages.
use super::{client::Record, work::Doing, work::Line, world::World};
use crate::{
    Outcome, ShardId,
    coordinator::plan::keys_of,
    message::{Found, Key, Lock, Op, Outbox, ReadAnswer, What, Work},
    participant::{Executed, LocalOp, commit_local},
    shard_of,
};
use kintsugidb_engine::{Class, Command, Version, fingerprint, resolve};
use kintsugidb_wire::{OwnedArgs, Proto, Reply};
use std::{collections::BTreeMap, sync::Arc};

/// A command, its arguments, and its key.
type Call<'a> = (&'static Command, &'a Vec<&'a [u8]>, &'a [u8]);

/// A command's number, itself, its arguments, its key, and its reply.
type Answered<'a> = (u32, &'static Command, &'a [&'a [u8]], &'a [u8], &'a Vec<u8>);

/// Shards below this belong to the clients' thread.
const MINE: u16 = 2;

impl World {
    /// Does it on the spot, if all keys are here and nothing is in the way.
    pub(super) fn locally(&mut self, c: usize, doing: &Doing) -> bool {
        let Doing::Commands(lines) = doing else { return false };
        if !self.clients[c].session.watches().is_empty() {
            return false;
        }
        let args: Vec<Vec<&[u8]>> = lines.iter().map(|l| l.iter().map(|w| w.as_bytes()).collect()).collect();
        let mut calls = Vec::new();
        for args in &args {
            let Ok(command) = resolve(args) else { return false };
            let keys = keys_of(command, args);
            let [key] = keys[..] else { return false };
            if args.len() > 3 && command.name == "mset"
                || shard_of(key, self.history.shards.len() as u16) >= MINE
            {
                return false;
            }
            calls.push((command, args, key));
        }
        let (number, now) = (self.history.records.len(), self.local_now());
        let replies = match &calls[..] {
            [(command, args, key)] => self.one(c, number, command, args, key, now),
            _ => self.several(c, number, &calls, now),
        };
        let Some(replies) = replies else { return false };
        let (client, began) = (self.clients[c].id, self.history.step);
        let (outcome, watches) = (Some(Outcome::Replies(replies)), Vec::new());
        let lines: Vec<Line> = lines.clone();
        self.history.records.push(Record {
            client,
            lines,
            began,
            ended: Some(began),
            outcome,
            txn: None,
            watches,
        });
        true
    }

    fn one(
        &mut self,
        c: usize,
        number: usize,
        command: &'static Command,
        args: &[&[u8]],
        key: &[u8],
        now_us: u64,
    ) -> Option<Vec<Vec<u8>>> {
        let shard = shard_of(key, self.history.shards.len() as u16);
        let (mut reply, mut out) = (Reply::new(Proto::Resp2), Outbox::new());
        let session = &mut self.clients[c].session;
        let part = &mut self.history.shards[usize::from(shard)];
        let executed = part.execute_one(command, args, session, now_us, &mut reply, &mut out);
        let version = part.wrote.take();
        // Proofs that the session carried may have committed something before.
        let done = self.answered(shard.into(), out).is_ok() && executed == Executed::Done;
        let replies = done.then(|| vec![reply.into_bytes()])?;
        if let Some(version) = version {
            self.record(number, shard, version, &[(0, command, args, key, &replies[0])]);
        }
        Some(replies)
    }

    fn several(&mut self, c: usize, number: usize, calls: &[Call<'_>], now_us: u64) -> Option<Vec<Vec<u8>>> {
        let shards = self.history.shards.len() as u16;
        let ops: Vec<_> = calls
            .iter()
            .map(|(command, args, key)| LocalOp {
                at: shard_of(key, shards).into(),
                command,
                args,
                key,
                fingerprint: fingerprint(key),
            })
            .collect();
        let mut reply = Reply::new(Proto::Resp2);
        let clock = self.clients[c].session.clock();
        let ts = commit_local(&mut self.history.shards[..MINE.into()], &ops, clock, now_us, &mut reply)?;
        self.clients[c].session.see(ts);
        let mut rest = reply.bytes();
        let mut replies = Vec::new();
        for _ in calls {
            let (one, more) = rest.split_at(value_len(rest));
            replies.push(one.to_vec());
            rest = more;
        }
        let mut parts: BTreeMap<ShardId, Vec<_>> = BTreeMap::new();
        for (i, (command, args, key)) in calls.iter().enumerate() {
            if command.class != Class::Read {
                let part = parts.entry(shard_of(key, shards)).or_default();
                part.push((i as u32, *command, &args[..], *key, &replies[i]));
            }
        }
        for (shard, part) in parts {
            self.record(number, shard, Version { ts, seq: 0 }, &part);
        }
        Some(replies)
    }

    /// Tells the checker what was done at a shard.
    fn record(&mut self, number: usize, shard: ShardId, version: Version, part: &[Answered<'_>]) {
        let mut work = Work::default();
        let mut answers = Vec::new();
        for (index, command, args, key, reply) in part {
            let lock = if command.class_of(args) == Class::Rmw { Lock::Exclusive } else { Lock::Blind };
            match work.keys.iter_mut().find(|(k, _)| &*k.bytes == *key) {
                Some((_, had)) => *had = had.and(lock),
                None => {
                    work.keys.push((Key { bytes: (*key).into(), fingerprint: fingerprint(key) }, lock));
                }
            }
            work.ops.push(Op { index: *index, what: What::Command(command, OwnedArgs::new(args)) });
            answers.push(ReadAnswer { index: *index, found: Found::Reply((*reply).clone()) });
        }
        self.history.apply(version, shard, None, number, Arc::new(work));
        if let Some(a) = self.history.applied.last_mut() {
            a.replies = Some(answers);
        }
    }
}

/// Bytes of the first RESP2 value.
fn value_len(bytes: &[u8]) -> usize {
    let Some(end) = bytes.windows(2).position(|w| w == b"\r\n") else { return bytes.len() };
    let n: i64 = std::str::from_utf8(&bytes[1..end]).ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    let head = end + 2;
    match (bytes[0], usize::try_from(n)) {
        (b'$', Ok(n)) => head + n + 2,
        (b'*', Ok(n)) => (0..n).fold(head, |at, _| at + value_len(&bytes[at..])),
        _ => head,
    }
}
