//! A thread's mail: what it hands to others, and what it does with what others hand to it.
use crate::{
    held::HeldCall,
    letter::Letter,
    mailbox::Batch,
    slices::recycle,
    worker::{MAX_BATCH, Worker},
};
use kintsugidb_ramp::participant::{Carried, Executed};
use kintsugidb_wire::{OwnedArgs, Reply};
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Worker {
    /// What is to be handed to another thread at the end of this turn.
    pub fn outbox(&mut self, thread: usize) -> &mut Batch {
        if self.outboxes[thread].weight() > MAX_BATCH {
            self.hand_over(thread);
        }
        &mut self.outboxes[thread]
    }

    /// Sends a letter to a thread; to itself, too.
    pub fn post(&mut self, thread: usize, letter: Letter) {
        self.outbox(thread).letters.push(letter);
    }

    pub fn read_mail(&mut self) {
        let mut inbox = std::mem::take(&mut self.inbox);
        self.shared.mailboxes[self.me].receive(&mut inbox);
        self.has_worked |= !inbox.is_empty();
        for mut batch in inbox.drain(..) {
            self.serve_calls(&batch);
            self.queue.extend(batch.messages.drain(..));
            for (token, shard, seen) in batch.seen.drain(..) {
                self.with_conn(token, |_, conn| seen.iter().for_each(|s| conn.session.saw(shard, s)));
            }
            self.fill_replies(&batch);
            for letter in batch.letters.drain(..) {
                self.open(batch.from, letter);
            }
            batch.clear();
            batch.from = self.me;
            if self.spare.len() < 2 * self.outboxes.len() {
                self.spare.push(batch);
            }
        }
        self.inbox = inbox;
    }

    pub fn serve_calls(&mut self, batch: &Batch) {
        if batch.calls.is_empty() {
            return;
        }
        let mut args: Vec<&[u8]> = recycle(std::mem::take(&mut self.args));
        let mut out = Reply::default();
        let (mut first, mut byte) = (0, 0);
        let mut seen = Vec::new();
        for call in &batch.calls {
            args.clear();
            for &end in &batch.ends[first..call.args_end] {
                args.push(&batch.bytes[byte..end]);
                byte = end;
            }
            first = call.args_end;
            let held = || HeldCall {
                seq: call.seq,
                shard: call.shard,
                proto: call.proto,
                command: call.command,
                args: OwnedArgs::new(&args),
                clock: call.clock,
                proofs: call.proofs.clone(),
            };
            if self.is_held(batch.from, call.token) {
                self.hold(batch.from, call.token, held());
                continue;
            }
            out.truncate(0);
            out.set_proto(call.proto);
            let carried = Carried { clock: call.clock, proofs: call.proofs.as_deref() };
            let run = catch_unwind(AssertUnwindSafe(|| {
                self.owner.execute_for(call.shard, call.command, &args, carried, &mut out, &mut seen)
            }));
            self.route_owned(call.shard);
            match run {
                Ok(Executed::Done) => {
                    let clock = self.owner.parts[self.owner.place(call.shard)].clock();
                    let outbox = self.outbox(batch.from);
                    if !seen.is_empty() {
                        outbox.seen.push((call.token, call.shard as u16, std::mem::take(&mut seen)));
                    }
                    outbox.reply(call.token, call.seq, clock, out.bytes(), false);
                }
                Ok(Executed::MustWait) => self.let_wait(batch.from, call.token, held()),
                Err(_) => {
                    self.stats().panics.add(1);
                    out.truncate(0);
                    out.error("ERR internal error, the connection is closed");
                    self.outbox(batch.from).reply(call.token, call.seq, 0, out.bytes(), true);
                }
            }
        }
        self.stats().served.add(batch.calls.len() as u64);
        self.args = recycle(args);
    }

    pub fn fill_replies(&mut self, batch: &Batch) {
        let mut start = 0;
        let mut i = 0;
        while let Some(first) = batch.replies.get(i) {
            let token = first.token;
            let n = batch.replies[i..].iter().take_while(|r| r.token == token).count();
            let replies = &batch.replies[i..i + n];
            i += n;
            let from = start;
            start = replies.last().map_or(start, |r| r.end);
            self.with_conn(token, |w, conn| {
                let mut at = from;
                for r in replies {
                    conn.fill(r.seq, &batch.reply_bytes[at..r.end]);
                    conn.session.see(r.clock);
                    at = r.end;
                    conn.calls[batch.from] -= 1;
                    conn.closing |= r.fatal;
                }
                w.go_on(conn);
            });
        }
    }

    pub fn hand_over(&mut self, thread: usize) {
        if !self.outboxes[thread].is_empty() {
            let fresh = self.spare.pop().unwrap_or_else(|| Batch { from: self.me, ..Batch::default() });
            let batch = std::mem::replace(&mut self.outboxes[thread], fresh);
            self.shared.mailboxes[thread].send(batch);
        }
    }

    pub fn hand_over_all(&mut self) {
        for thread in 0..self.outboxes.len() {
            self.hand_over(thread);
        }
    }
}
