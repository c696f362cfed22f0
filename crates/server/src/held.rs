//! Calls of other threads' connections that have to wait for a reservation.
//!
//! Such a call becomes a transaction of its own, which waits at the participant. Until it ends, further calls of the
//! same connection to this thread are held back behind it, so that they keep their order.
use crate::{mailbox::Token, txn::Who, worker::Worker};
use kintsugidb_engine::Command;
use kintsugidb_ramp::{
    Request, Session,
    message::Proof,
    participant::{Carried, Executed},
};
use kintsugidb_wire::{OwnedArgs, Proto, Reply};
use std::{collections::VecDeque, sync::Arc};

/// One call that waits for those before it.
pub(crate) struct HeldCall {
    pub seq: u64,
    pub shard: usize,
    pub proto: Proto,
    pub command: &'static Command,
    pub args: OwnedArgs,
    pub clock: u64,
    pub proofs: Option<Arc<[Proof]>>,
}

impl Worker {
    /// Whether calls of this connection are held back.
    pub fn is_held(&self, thread: usize, token: Token) -> bool {
        !self.held.is_empty() && self.held.contains_key(&(thread, token))
    }

    /// Holds a call back behind those that wait.
    pub fn hold(&mut self, thread: usize, token: Token, call: HeldCall) {
        self.held.entry((thread, token)).or_default().push_back(call);
    }

    /// Lets a call wait for what is in its way.
    pub fn let_wait(&mut self, thread: usize, token: Token, call: HeldCall) {
        self.held.insert((thread, token), VecDeque::new());
        self.begin_waiting(thread, token, call);
    }

    fn begin_waiting(&mut self, thread: usize, token: Token, call: HeldCall) {
        let mut session = Session::default();
        session.see(call.clock);
        let requests = vec![Request::Command(call.command, call.args)];
        let who = Who::Call { thread, token, seq: call.seq };
        if let Some((session, _)) = self.start(who, session, requests, call.proto) {
            self.outbox(thread).reply(token, call.seq, session.clock(), b"-ERR it could not wait\r\n", false);
            self.release(thread, token);
        }
    }

    /// The call that others waited for has ended: run them until one has to wait itself.
    pub fn release(&mut self, thread: usize, token: Token) {
        loop {
            let Some(calls) = self.held.get_mut(&(thread, token)) else { return };
            let Some(call) = calls.pop_front() else {
                self.held.remove(&(thread, token));
                return;
            };
            let mut reply = Reply::new(call.proto);
            let mut seen = Vec::new();
            let carried = Carried { clock: call.clock, proofs: call.proofs.as_deref() };
            let args = call.args.to_vec();
            let done =
                self.owner.execute_for(call.shard, call.command, &args, carried, &mut reply, &mut seen);
            drop(args);
            self.route_owned(call.shard);
            match done {
                Executed::Done => {
                    let clock = self.owner.parts[self.owner.place(call.shard)].clock();
                    let shard = call.shard as u16;
                    let batch = self.outbox(thread);
                    if !seen.is_empty() {
                        batch.seen.push((token, shard, seen));
                    }
                    batch.reply(token, call.seq, clock, reply.bytes(), false);
                }
                Executed::MustWait => return self.begin_waiting(thread, token, call),
            }
        }
    }
}
