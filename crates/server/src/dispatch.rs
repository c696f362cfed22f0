//! The way of one request: which command, which keys, which shard, which thread.
use crate::{
    conn::{Conn, ReplyMode},
    letter::Letter,
    mailbox::CallHead,
    multi::MAX_QUEUED_BYTES,
    registry::{self, Entry},
    txn::{Pending, Queued, Then},
    worker::Worker,
};
use kintsugidb_engine::{Flags, KeySpec, Route};
use kintsugidb_ramp::{Request, participant::Executed};
use kintsugidb_wire::{OwnedArgs, slot};
use std::sync::{Arc, atomic::Ordering};

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// It was taken: answered, sent on, or begun.
    Taken,
    /// It has to wait until the replies before it are there; look at it again then.
    Later,
}

/// Whether it takes pairs of a key and a value (MSET).
fn in_pairs(entry: &Entry) -> bool {
    matches!(entry.command.keys, KeySpec::Range { last: -1, step: 2, .. })
}

/// Calls `f` with each key; false if the arguments do not tell which they are.
pub(crate) fn each_key<'a>(entry: &Entry, args: &[&'a [u8]], mut f: impl FnMut(&'a [u8])) -> bool {
    match entry.command.keys {
        KeySpec::None => false,
        KeySpec::Range { first, last, step } => {
            let last = if last < 0 { args.len() as isize + last } else { last };
            if !args.len().saturating_sub(first).is_multiple_of(step) {
                return false;
            }
            let mut i = first;
            while (i as isize) <= last && i < args.len() {
                f(args[i]);
                i += step;
            }
            first < args.len() && !(in_pairs(entry) && args.len().is_multiple_of(2))
        }
        KeySpec::Count { .. } => {
            let indexes = entry.command.key_indexes(args);
            indexes.iter().for_each(|&i| f(args[i]));
            !indexes.is_empty()
        }
    }
}

impl Worker {
    pub fn shard_of(&self, key: &[u8]) -> usize {
        usize::from(slot(key)) % self.config.shards
    }

    /// Looks at one request; false: not now.
    pub fn request(&mut self, conn: &mut Conn, args: &[&[u8]]) -> bool {
        if conn.reply_mode == ReplyMode::On {
            return self.dispatch(conn, args) == Flow::Taken;
        }
        // CLIENT REPLY: gaps know themselves that nobody wants them; here goes what was answered at once.
        if conn.reply_mode == ReplyMode::SkipNext {
            conn.reply_mode = ReplyMode::Skip;
        }
        let kept = std::mem::take(conn.out.buffer());
        let taken = self.dispatch(conn, args) == Flow::Taken;
        if taken && conn.reply_mode == ReplyMode::Skip {
            conn.reply_mode = ReplyMode::On;
            conn.out.truncate(0);
        } else if conn.reply_mode != ReplyMode::On {
            conn.out.truncate(0);
        }
        let said = std::mem::replace(conn.out.buffer(), kept);
        conn.out.raw(&said);
        taken
    }

    fn dispatch(&mut self, conn: &mut Conn, args: &[&[u8]]) -> Flow {
        let Some(entry) = registry::find(args[0]) else {
            let error = kintsugidb_engine::resolve(args).err();
            return self.refuse(conn, &error.map_or_else(String::new, |e| e.to_string()));
        };
        let command = entry.command;
        if !command.takes(args.len()) {
            return self
                .refuse(conn, &format!("ERR wrong number of arguments for '{}' command", command.name));
        }
        if conn.multi.is_open
            && !matches!(command.name, "exec" | "discard" | "multi" | "watch" | "quit" | "reset")
        {
            return self.queue(conn, entry, args);
        }
        if self.is_paused(entry, conn) {
            return Flow::Later;
        }
        let flow = self.run_command(conn, entry, args);
        if flow == Flow::Taken {
            self.stats().commands.add(1);
            conn.card.last_command.store(entry.index, Ordering::Relaxed);
        }
        flow
    }

    /// Answers with an error, which breaks an open MULTI.
    fn refuse(&mut self, conn: &mut Conn, error: &str) -> Flow {
        conn.multi.is_broken |= conn.multi.is_open;
        conn.out.error(error);
        self.stats().errors.add(1);
        Flow::Taken
    }

    fn queue(&mut self, conn: &mut Conn, entry: &'static Entry, args: &[&[u8]]) -> Flow {
        if entry.command.flags.has(Flags::NO_MULTI) {
            return self.refuse(conn, "ERR Command not allowed inside a transaction");
        }
        if entry.command.flags.has(Flags::DENYOOM) && self.is_full(entry, args) {
            return self.refuse(conn, &kintsugidb_engine::Error::OutOfMemory.to_string());
        }
        conn.multi.bytes += args.iter().map(|a| a.len() + 16).sum::<usize>() + 64;
        if conn.multi.bytes > MAX_QUEUED_BYTES {
            conn.closing = true;
            return self.refuse(conn, "ERR transaction too large");
        }
        conn.multi.commands.push(Queued { entry, args: OwnedArgs::new(args) });
        conn.card.queued.store(conn.multi.commands.len() + 1, Ordering::Relaxed);
        conn.out.simple("QUEUED");
        Flow::Taken
    }

    pub fn is_pause_on(&self) -> bool {
        self.shared.paused_until_ms.load(Ordering::Relaxed) > self.now_ms
    }

    fn is_paused(&mut self, entry: &Entry, conn: &Conn) -> bool {
        if !self.is_pause_on() {
            return false;
        }
        let writes_only = self.shared.paused_writes_only.load(Ordering::Relaxed);
        let writes = entry.command.flags.has(Flags::WRITE)
            || entry.command.name == "exec"
                && conn.multi.commands.iter().any(|q| q.entry.command.flags.has(Flags::WRITE));
        entry.command.name != "client" && (!writes_only || writes)
    }

    /// Runs a command outside of MULTI.
    pub fn run_command(&mut self, conn: &mut Conn, entry: &'static Entry, args: &[&[u8]]) -> Flow {
        match entry.command.route {
            Route::Front => match entry.front {
                Some(front) => front(self, conn, args),
                None => {
                    // The engine's own function, which looks at no key: any shard will do.
                    self.run_on(conn, entry, self.me, args)
                }
            },
            Route::All => self.run_on_all(conn, entry, args),
            _ if in_pairs(entry) && args.len().is_multiple_of(2) => {
                self.refuse(conn, &kintsugidb_engine::Error::Arity(entry.command.name.into()).to_string())
            }
            _ => {
                let mut shard = None;
                let mut same = true;
                let shards = self.config.shards;
                let known = each_key(entry, args, |key| {
                    let s = usize::from(slot(key)) % shards;
                    same &= *shard.get_or_insert(s) == s;
                });
                match shard {
                    Some(shard) if known && same => self.run_on(conn, entry, shard, args),
                    Some(_) if known => self.run_multiple(conn, entry, args),
                    // The arguments do not tell the keys: the command itself says what is wrong with them.
                    _ => self.run_on(conn, entry, self.me, args),
                }
            }
        }
    }

    /// Runs a command on the one shard that has all its keys.
    fn run_on(&mut self, conn: &mut Conn, entry: &'static Entry, shard: usize, args: &[&[u8]]) -> Flow {
        let thread = self.thread_of(shard);
        if thread == self.me {
            let done = self.owner.execute(shard, entry.command, args, &mut conn.session, &mut conn.out);
            self.route_owned(shard);
            if done == Executed::MustWait {
                if conn.is_waiting() {
                    return Flow::Later;
                }
                let requests = vec![Request::Command(entry.command, OwnedArgs::new(args))];
                self.start_for(conn, requests, Then::Answer);
            }
        } else if !self.read_outside(conn, entry, args) {
            let seq = conn.gap();
            conn.calls[thread] += 1;
            self.stats().sent.add(1);
            let head = CallHead {
                token: conn.token,
                seq,
                shard,
                proto: conn.out.proto(),
                command: entry.command,
                clock: conn.session.clock(),
                proofs: conn.session.proofs_for(shard as u16),
                args_end: 0,
            };
            // Within a process nothing is lost: what is sent is told.
            if let Some(proofs) = &head.proofs {
                conn.session.confirm(shard as u16, proofs);
            }
            self.outbox(thread).call(head, args);
        }
        Flow::Taken
    }

    fn run_on_all(&mut self, conn: &mut Conn, entry: &'static Entry, args: &[&[u8]]) -> Flow {
        if entry.command.name == "scan" {
            return match crate::all::split_cursor(args[1], self.config.shards) {
                Ok((shard, local)) => {
                    let local = local.to_string();
                    let mut args = args.to_vec();
                    args[1] = local.as_bytes();
                    self.run_on(conn, entry, shard, &args)
                }
                Err(e) => self.refuse(conn, &e.to_string()),
            };
        }
        if conn.is_waiting() {
            return Flow::Later;
        }
        self.start_all(conn, entry, Arc::new(OwnedArgs::new(args)), Then::Answer);
        Flow::Taken
    }

    /// Asks all threads; what they say comes as letters.
    pub fn start_all(&mut self, conn: &mut Conn, entry: &'static Entry, args: Arc<OwnedArgs>, then: Then) {
        let threads = self.shared.threads();
        conn.pending = Some(Pending::All { entry, left: threads, part: Default::default(), then });
        for thread in 0..threads {
            self.post(thread, Letter::All { token: conn.token, entry, args: args.clone() });
        }
    }

    /// Opens a letter of another thread, or of this one.
    pub fn open(&mut self, from: usize, letter: Letter) {
        match letter {
            Letter::Connection { fd, is_unix } => self.add_connection(fd, is_unix),
            Letter::Native(accepted) => self.add_native(*accepted),
            Letter::Kill => self.close_killed(),
            Letter::All { token, entry, args } => {
                let part = crate::all::run_all(&mut self.owner, entry, &args.to_vec());
                self.route_owned(self.me);
                self.post(from, Letter::AllDone { token, part });
            }
            Letter::AllDone { token, part } => {
                let random = self.random();
                self.with_conn(token, |w, conn| {
                    let Some(Pending::All { entry, left, part: all, .. }) = &mut conn.pending else { return };
                    all.merge(entry.all, part, random);
                    *left -= 1;
                    if *left == 0 {
                        if let Some(Pending::All { entry, part, then, .. }) = conn.pending.take() {
                            w.finish_all(conn, entry, &part, then);
                        }
                        w.go_on(conn);
                    }
                });
            }
        }
    }

    /// Whether one of the shards of a command's keys has no memory left, as of the last tick.
    pub fn is_full(&self, entry: &Entry, args: &[&[u8]]) -> bool {
        let mut full = false;
        each_key(entry, args, |key| {
            full |= self.shared.full_shards[self.shard_of(key)].load(Ordering::Relaxed)
        });
        full && self.config.maxmemory.0 > 0
    }
}
