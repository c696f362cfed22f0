//! From what the shards answered to the replies of the commands.
use super::{Coordinator, Outcome, Phase, REPLIES_FORGOTTEN, Request, Transaction};
use crate::{
    Session,
    coordinator::plan::Merge,
    message::{Found, Watch},
};
use kintsugidb_engine::{Call, Command, Shard};
use kintsugidb_wire::{Proto, Reply};

/// Runs a command at a shard and returns its reply, an error reply included.
pub(crate) fn run(shard: &mut Shard, command: &Command, args: &[&[u8]], proto: Proto) -> Vec<u8> {
    let mut out = Reply::new(proto);
    if let Err(e) = (command.run)(&mut Call { shard, args, out: &mut out }) {
        out.truncate(0);
        out.error(&e.to_string());
    }
    out.into_bytes()
}

impl Transaction {
    /// Puts the replies together.
    pub(super) fn finish(&mut self, co: &mut Coordinator, session: &mut Session, now_us: u64) -> Outcome {
        self.phase = Phase::Done;
        let mut watching = false;
        let mut replies = Vec::with_capacity(self.requests.len());
        for (i, request) in self.requests.iter().enumerate() {
            if let Request::Watch(key) = request {
                watching = true;
                let Some(Some(Found::Watch(state))) = self.found.get(i) else { continue };
                let key: Box<[u8]> = key.as_slice().into();
                session.watch(co.shard_of(&key), Watch { key, state: *state });
                replies.push(b"+OK\r\n".to_vec());
            } else if let Some(evaluated) = self.evaluated.get_mut(i) {
                replies.push(std::mem::take(evaluated));
            } else {
                match self.merged(co, i, now_us) {
                    Some(r) => replies.push(r),
                    None => return self.error(session, REPLIES_FORGOTTEN),
                }
            }
        }
        if !watching {
            session.unwatch();
        }
        Outcome::Replies(replies)
    }

    fn reply(&self, op: u32) -> Option<&[u8]> {
        match self.found.get(op as usize)? {
            Some(Found::Reply(r)) => Some(r),
            _ => None,
        }
    }

    fn merged(&self, co: &mut Coordinator, i: usize, now_us: u64) -> Option<Vec<u8>> {
        let mut out = Reply::new(self.proto);
        match &self.plan.merges[i] {
            Merge::Ready(bytes) => out.raw(bytes),
            Merge::Nothing => out.ok(),
            Merge::One(op) => out.raw(self.reply(*op)?),
            Merge::Ok(ops) | Merge::Sum(ops) | Merge::Array(ops) => {
                let replies = ops.clone().map(|op| self.reply(op)).collect::<Option<Vec<_>>>()?;
                if let Some(error) = replies.iter().find(|r| r.first() == Some(&b'-')) {
                    out.raw(error);
                } else {
                    match &self.plan.merges[i] {
                        Merge::Sum(_) => out.int(replies.iter().filter_map(|r| integer(r)).sum()),
                        Merge::Array(_) => {
                            out.array(replies.len());
                            // Each is an array of one: "*1\r\n" and the element.
                            replies.iter().for_each(|r| out.raw(r.get(4..).unwrap_or_default()));
                        }
                        _ => out.ok(),
                    }
                }
            }
            Merge::Copies(ops) => {
                let Request::Command(command, args) = &self.requests[i] else { return None };
                let args = args.to_vec();
                let keys = super::plan::keys_of(command, &args);
                let scratch = co.scratch(now_us);
                for (op, key) in ops.clone().zip(keys) {
                    let Some(Some(Found::Dump(dump))) = self.found.get(op as usize) else { return None };
                    if let Some(d) = dump
                        && let Err(e) = scratch.restore(key, d.clone())
                    {
                        out.error(&e.to_string());
                        return Some(out.into_bytes());
                    }
                }
                out.raw(&run(scratch, command, &args, self.proto));
            }
        }
        Some(out.into_bytes())
    }
}

fn integer(reply: &[u8]) -> Option<i64> {
    std::str::from_utf8(reply.strip_prefix(b":")?.strip_suffix(b"\r\n")?).ok()?.parse().ok()
}
