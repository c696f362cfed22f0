//! One thread: its event loop, its connections, its shards.
//!
//! ```text
//!   turn:  wait | sockets that are ready: read, parse, dispatch | mailbox: run calls, fill in replies | every
//!          now and then: tick | hand batches to other threads | write replies
//! ```
//! Everything that one turn produces for another thread goes in one batch, and all replies of a connection in one write.
use crate::{
    Config, Listeners, Shared,
    clients::ClientCard,
    conn::Conn,
    exec::Target,
    held::HeldCall,
    letter::Letter,
    mailbox::{Batch, Token},
    now_us,
    owner::{Owner, ramp_config},
    poll::{Event, Poller},
    stats::Stats,
    txn::InHand,
};
use kintsugidb_engine::PointReader;
use kintsugidb_ramp::{
    Coordinator,
    message::{Message, Node},
    participant::{Carried, Executed},
};
use kintsugidb_wire::{Limits, OwnedArgs, Reply};
use rustix::{
    fd::{AsRawFd, OwnedFd},
    io::Errno,
    net,
};
use std::{
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

const BELL: u64 = u64::MAX;
/// Tokens of listeners: from here up to the bell's. Generations of connections stay below.
const LISTENER: u64 = u64::MAX - 64;
const READ_SIZE: usize = 64 * 1024;
const TICK: Duration = Duration::from_millis(10);
/// How long replies may take to be sent when the server stops.
const STOP_TIME: Duration = Duration::from_secs(5);
/// Bytes that a batch may carry before it is handed over within a turn.
const MAX_BATCH: usize = 1 << 20;

pub(crate) struct Worker {
    pub me: usize,
    pub shared: Arc<Shared>,
    pub config: Arc<Config>,
    config_seen: u64,
    pub limits: Limits,
    pub owner: Owner,
    pub now_ms: u64,
    pub coordinator: Coordinator,
    /// Transactions in hand, by request.
    pub transactions: HashMap<u64, InHand>,
    /// Messages for this thread.
    pub queue: VecDeque<(Node, Node, Message)>,
    /// Calls that wait behind one that met a reservation, by thread and connection.
    pub held: HashMap<(usize, Token), VecDeque<HeldCall>>,
    /// Reads of the regions of all shards; there is none if all are this thread's.
    pub outside: Option<PointReader>,
    pub key_shards: Vec<usize>,
    poller: Poller,
    listeners: Listeners,
    was_paused: bool,
    accept_paused: bool,
    next_thread: usize,
    conns: Conns,
    outboxes: Vec<Batch>,
    inbox: Vec<Batch>,
    spare: Vec<Batch>,
    dirty: Vec<Token>,
    ready: Vec<Token>,
    read_buffer: Vec<u8>,
    args: Vec<&'static [u8]>,
    /// Kept for its capacity: the keys of the command in hand.
    pub targets: Vec<Target>,
    next_tick: Instant,
    ticks: u64,
    random: u64,
}

/// Connections by index, with the generation of each place.
#[derive(Default)]
struct Conns {
    places: Vec<(u32, Option<Box<Conn>>)>,
    free: Vec<u32>,
    live: usize,
}

impl Conns {
    fn place(&mut self) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            self.places.len() as u32 - 1
        });
        Token { index, generation: self.places[index as usize].0 }
    }

    fn take(&mut self, token: Token) -> Option<Box<Conn>> {
        let (generation, conn) = self.places.get_mut(token.index as usize)?;
        if *generation == token.generation { conn.take() } else { None }
    }

    fn put(&mut self, conn: Box<Conn>) {
        let index = conn.token.index as usize;
        self.places[index].1 = Some(conn);
    }

    fn remove(&mut self, token: Token) {
        let place = &mut self.places[token.index as usize];
        place.0 = (place.0 + 1) & 0x7fff_ffff;
        place.1 = None;
        self.free.push(token.index);
        self.live -= 1;
    }

    fn tokens(&self) -> Vec<Token> {
        let live = self.places.iter().filter_map(|(_, c)| Some(c.as_ref()?.token));
        live.collect()
    }
}

impl Worker {
    pub fn new(me: usize, shared: Arc<Shared>, listeners: Listeners, seed: u64) -> std::io::Result<Self> {
        let config = shared.config();
        let poller = Poller::new()?;
        poller.add(&shared.mailboxes[me].bell, BELL)?;
        let threads = shared.threads();
        let mut w = Self {
            me,
            owner: Owner::new(me, threads, &config, seed).map_err(std::io::Error::other)?,
            coordinator: Coordinator::new(me as u16, config.shards as u16, ramp_config(&config, threads)),
            transactions: HashMap::new(),
            queue: VecDeque::new(),
            held: HashMap::new(),
            outside: None,
            key_shards: Vec::new(),
            was_paused: false,
            limits: Limits::default(),
            config_seen: u64::MAX,
            now_ms: now_us() / 1000,
            poller,
            listeners,
            accept_paused: true,
            next_thread: 0,
            conns: Conns::default(),
            outboxes: (0..threads).map(|_| Batch { from: me, ..Batch::default() }).collect(),
            inbox: Vec::new(),
            spare: Vec::new(),
            dirty: Vec::new(),
            ready: Vec::new(),
            read_buffer: Vec::with_capacity(READ_SIZE),
            args: Vec::new(),
            targets: Vec::new(),
            next_tick: Instant::now(),
            ticks: 0,
            random: seed ^ (me as u64) << 32 | 1,
            config,
            shared,
        };
        w.look_at_config();
        w.offer_readers();
        w.set_accepting(true)?;
        Ok(w)
    }

    pub fn stats(&self) -> &Stats {
        &self.shared.stats[self.me]
    }

    /// A random number, not for secrets.
    pub fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    pub fn thread_of(&self, shard: usize) -> usize {
        shard % self.outboxes.len()
    }

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

    /// Runs until the server stops.
    pub fn run(mut self) {
        let mut events = Vec::new();
        let mut stop_at: Option<Instant> = None;
        let mut finished = false;
        loop {
            if let Err(e) = self.wait(&mut events, stop_at.is_some()) {
                eprintln!("kintsugi: thread {}: waiting for sockets failed: {e}", self.me);
                return;
            }
            self.set_now();
            self.look_at_config();
            for token in std::mem::take(&mut self.ready) {
                self.with_conn(token, |w, conn| {
                    conn.ready = false;
                    w.work(conn);
                });
            }
            for e in &events {
                self.event(*e);
            }
            self.work_off();
            self.read_mail();
            self.work_off();
            self.tick_transactions();
            let now = Instant::now();
            if now >= self.next_tick {
                self.next_tick = now + TICK;
                self.tick();
            }
            self.hand_over_all();
            self.flush();
            if stop_at.is_none() && self.shared.stopping.load(Ordering::SeqCst) {
                stop_at = Some(now + STOP_TIME);
                let _ = self.set_accepting(false);
                for token in self.conns.tokens() {
                    self.with_conn(token, |_, conn| conn.closing = true);
                }
                self.flush();
            }
            if let Some(at) = stop_at {
                if !finished && (self.conns.live == 0 || now >= at) {
                    finished = true;
                    self.shared.finished.fetch_add(1, Ordering::SeqCst);
                }
                if self.shared.finished.load(Ordering::SeqCst) == self.shared.threads() {
                    return;
                }
            }
        }
    }

    fn set_now(&mut self) {
        let now_us = now_us();
        self.now_ms = now_us / 1000;
        self.owner.set_now(now_us);
    }

    fn wait(&mut self, events: &mut Vec<Event>, stopping: bool) -> rustix::io::Result<()> {
        let mailbox = &self.shared.mailboxes[self.me];
        let rest = self.next_tick.saturating_duration_since(Instant::now());
        let rest = if stopping { rest.min(Duration::from_millis(1)) } else { rest };
        // Transactions that were refused try again soon.
        let rest = if self.transactions.is_empty() { rest } else { rest.min(Duration::from_micros(500)) };
        let busy = !self.ready.is_empty() || !mailbox.may_sleep();
        self.poller.wait(if busy { Duration::ZERO } else { rest }, events)?;
        mailbox.awake();
        Ok(())
    }

    fn look_at_config(&mut self) {
        let changes = self.shared.config_changes.load(Ordering::Acquire);
        if changes != self.config_seen {
            self.config_seen = changes;
            self.config = self.shared.config();
            self.limits.max_bulk = self.config.max_bulk.0 as usize;
            self.limits.max_request = self.config.query_limit.0 as usize;
            self.owner.set_memory_limit(self.config.memory_per_shard());
        }
    }

    fn event(&mut self, e: Event) {
        match e.token {
            BELL => self.shared.mailboxes[self.me].bell.silence(),
            LISTENER.. => self.accept((e.token - LISTENER) as usize),
            token => self.with_conn(Token::from_u64(token), |w, conn| {
                conn.ended |= e.ended;
                if e.readable {
                    conn.readable = true;
                    w.work(conn);
                }
                // Writing is tried for every connection touched in a turn.
            }),
        }
    }

    /// Runs `f` on a connection, survives its panics, and has the connection flushed at the end of the turn.
    pub fn with_conn(&mut self, token: Token, f: impl FnOnce(&mut Self, &mut Conn)) {
        let Some(mut conn) = self.conns.take(token) else { return };
        if catch_unwind(AssertUnwindSafe(|| f(self, &mut conn))).is_err() {
            self.stats().panics.add(1);
            conn.out.error("ERR internal error, the connection is closed");
            conn.pending = None;
            conn.closing = true;
        }
        if !conn.dirty {
            conn.dirty = true;
            self.dirty.push(token);
        }
        self.conns.put(conn);
    }

    /// Reads and works on requests as far as the connection may go.
    pub fn work(&mut self, conn: &mut Conn) {
        if conn.at < conn.input.len() {
            let input = std::mem::take(&mut conn.input);
            let mut at = conn.at;
            self.parse(conn, &input, &mut at);
            conn.input = input;
            conn.at = at;
            conn.trim_input();
        }
        if conn.readable && conn.may_go_on(self.config.output_soft.0 as usize) {
            self.read(conn);
        }
    }

    fn read(&mut self, conn: &mut Conn) {
        let direct = conn.input.is_empty();
        let mut buffer = if direct {
            std::mem::take(&mut self.read_buffer)
        } else {
            // At most twice what has arrived, whatever length was declared.
            let room = conn
                .parser
                .wants(conn.input.len() - conn.at)
                .clamp(READ_SIZE / 4, conn.input.len().max(READ_SIZE));
            conn.input.reserve(room);
            std::mem::take(&mut conn.input)
        };
        let room = buffer.capacity() - buffer.len();
        let n = net::recv(&conn.fd, rustix::buffer::spare_capacity(&mut buffer), net::RecvFlags::DONTWAIT);
        let mut at = conn.at;
        match n.map(|(n, _)| n) {
            Ok(0) => {
                conn.readable = false;
                conn.ended = true;
                self.parse(conn, &buffer, &mut at);
                // What a barrier holds up is still worked on; otherwise nothing more will come.
                conn.closing |= conn.pending.is_none() && !conn.is_waiting();
            }
            Ok(n) => {
                // A short read has emptied the socket; unless the peer ended, an edge will tell of more.
                if n < room && !conn.ended {
                    conn.readable = false;
                }
                self.stats().bytes_in.add(n as u64);
                conn.card.active_ms.store(self.now_ms, Ordering::Relaxed);
                self.parse(conn, &buffer, &mut at);
                if conn.readable && !conn.ready {
                    conn.ready = true;
                    self.ready.push(conn.token);
                }
            }
            Err(Errno::AGAIN) => conn.readable = false,
            Err(Errno::INTR) => {}
            Err(_) => {
                conn.readable = false;
                conn.ended = true;
                conn.closing = true;
            }
        }
        if direct {
            conn.input.extend_from_slice(&buffer[at..]);
            conn.at = 0;
            buffer.clear();
            self.read_buffer = buffer;
        } else {
            conn.input = buffer;
            conn.at = at;
            conn.trim_input();
        }
        conn.card.input_bytes.store(conn.input.len(), Ordering::Relaxed);
    }

    fn parse(&mut self, conn: &mut Conn, input: &[u8], at: &mut usize) {
        let mut parser = std::mem::take(&mut conn.parser);
        let mut pool = std::mem::take(&mut self.args);
        let soft = self.config.output_soft.0 as usize;
        while conn.may_go_on(soft) {
            match parser.parse(&input[*at..], &self.limits) {
                Ok(Some(n)) => {
                    let mut args = recycle(std::mem::take(&mut pool));
                    args.extend(parser.args(&input[*at..]));
                    let taken = args.is_empty() || self.request(conn, &args);
                    pool = recycle(args);
                    if !taken {
                        break;
                    }
                    *at += n;
                }
                Ok(None) => break,
                Err(e) => {
                    self.stats().protocol_errors.add(1);
                    conn.out.error(&e.to_string());
                    conn.closing = true;
                }
            }
        }
        self.args = pool;
        conn.parser = parser;
    }

    fn read_mail(&mut self) {
        let mut inbox = std::mem::take(&mut self.inbox);
        self.shared.mailboxes[self.me].receive(&mut inbox);
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

    fn serve_calls(&mut self, batch: &Batch) {
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

    fn fill_replies(&mut self, batch: &Batch) {
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

    /// Works on what was held up.
    pub fn go_on(&mut self, conn: &mut Conn) {
        if (conn.at < conn.input.len() || conn.readable) && conn.may_go_on(self.config.output_soft.0 as usize)
        {
            self.work(conn);
        }
        conn.closing |= conn.ended && !conn.readable && conn.pending.is_none() && !conn.is_waiting();
    }

    fn hand_over(&mut self, thread: usize) {
        if !self.outboxes[thread].is_empty() {
            let fresh = self.spare.pop().unwrap_or_else(|| Batch { from: self.me, ..Batch::default() });
            let batch = std::mem::replace(&mut self.outboxes[thread], fresh);
            self.shared.mailboxes[thread].send(batch);
        }
    }

    fn hand_over_all(&mut self) {
        for thread in 0..self.outboxes.len() {
            self.hand_over(thread);
        }
    }

    fn flush(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for token in dirty.drain(..) {
            let Some(mut conn) = self.conns.take(token) else { continue };
            conn.dirty = false;
            let before = conn.waiting_bytes();
            let sent = conn.flush();
            let left = conn.waiting_bytes();
            self.stats().bytes_out.add(before.saturating_sub(left) as u64);
            let all = matches!(sent, Ok(true));
            let done = conn.closing && all && !conn.is_waiting() && conn.pending.is_none();
            let too_much = left as u64 > self.config.output_hard.0;
            if done || sent.is_err() || too_much {
                self.close(conn);
                continue;
            }
            if conn.writing == all {
                conn.writing = !all;
                let _ = self.poller.set_writing(&conn.fd, token.to_u64(), conn.writing);
            }
            conn.card.waiting_bytes.store(left, Ordering::Relaxed);
            // Room was made: go on with requests that were left unread because of their replies.
            let soft = self.config.output_soft.0 as usize;
            if !conn.ready
                && (conn.at < conn.input.len() || conn.readable)
                && before > left
                && before >= soft
                && conn.may_go_on(soft)
            {
                conn.ready = true;
                self.ready.push(token);
            }
            self.conns.put(conn);
        }
        self.dirty = dirty;
    }

    fn close(&mut self, conn: Box<Conn>) {
        self.shared.clients.remove(conn.card.id);
        let token = conn.token;
        drop(conn);
        self.conns.remove(token);
    }

    fn set_accepting(&mut self, on: bool) -> rustix::io::Result<()> {
        if self.accept_paused != on {
            return Ok(());
        }
        self.accept_paused = !on;
        let tcp = self.listeners.tcp.iter().map(|l| rustix::fd::AsFd::as_fd(l));
        let unix = self.listeners.unix.iter().map(|(l, _)| rustix::fd::AsFd::as_fd(l));
        for (i, fd) in tcp.chain(unix).enumerate() {
            if on {
                rustix::io::ioctl_fionbio(fd, true)?;
                self.poller.add_level(fd, LISTENER + i as u64)?;
            } else {
                self.poller.remove(fd)?;
            }
        }
        Ok(())
    }

    fn accept(&mut self, listener: usize) {
        for _ in 0..64 {
            let is_unix = listener >= self.listeners.tcp.len();
            let flags = net::SocketFlags::NONBLOCK | net::SocketFlags::CLOEXEC;
            let accepted = match self.listeners.tcp.get(listener) {
                Some(l) => net::accept_with(l, flags),
                None => match &self.listeners.unix {
                    Some((l, _)) => net::accept_with(l, flags),
                    None => return,
                },
            };
            match accepted {
                Ok(fd) => {
                    if self.shared.clients.len() >= self.config.maxclients {
                        self.stats().rejected.add(1);
                        let _ = net::send(
                            &fd,
                            b"-ERR max number of clients reached\r\n",
                            net::SendFlags::NOSIGNAL,
                        );
                        continue;
                    }
                    self.stats().connections.add(1);
                    let thread = self.next_thread;
                    self.next_thread = (thread + 1) % self.outboxes.len();
                    self.post(thread, Letter::Connection { fd, is_unix });
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(e) => {
                    eprintln!("kintsugi: a connection could not be accepted: {e}");
                    // Most likely no file descriptor is left; the next tick tries again.
                    let _ = self.set_accepting(false);
                    return;
                }
            }
        }
    }

    pub fn add_connection(&mut self, fd: OwnedFd, is_unix: bool) {
        if self.shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let (mut addr, mut laddr) = (String::from("?"), String::from("?"));
        if is_unix {
            addr = self.shared.addresses.last().cloned().unwrap_or_default() + ":0";
            laddr.clone_from(&addr);
        } else {
            if let Ok(a) = net::getpeername(&fd).and_then(|a| a.ok_or(Errno::NOTCONN)) {
                addr = std::net::SocketAddr::try_from(a).map_or(addr, |a| a.to_string());
            }
            if let Ok(a) = net::getsockname(&fd) {
                laddr = std::net::SocketAddr::try_from(a).map_or(laddr, |a| a.to_string());
            }
            let _ = net::sockopt::set_tcp_nodelay(&fd, true);
            if self.config.tcp_keepalive > 0 {
                let idle = Duration::from_secs(self.config.tcp_keepalive);
                let _ = net::sockopt::set_socket_keepalive(&fd, true);
                let _ = net::sockopt::set_tcp_keepidle(&fd, idle);
            }
        }
        let card = Arc::new(ClientCard {
            id: self.shared.clients.next_id(),
            thread: self.me,
            fd: fd.as_raw_fd(),
            addr,
            laddr,
            is_unix,
            created_ms: self.now_ms,
            active_ms: self.now_ms.into(),
            name: Default::default(),
            library: Default::default(),
            resp: 2.into(),
            queued: 0.into(),
            watching: 0.into(),
            waiting_bytes: 0.into(),
            input_bytes: 0.into(),
            no_evict: false.into(),
            last_command: usize::MAX.into(),
            kill: false.into(),
        });
        let token = self.conns.place();
        if self.poller.add(&fd, token.to_u64()).is_err() {
            self.conns.free.push(token.index);
            return;
        }
        self.shared.clients.add(card.clone());
        self.conns.live += 1;
        self.conns.put(Box::new(Conn::new(fd, token, self.outboxes.len(), card)));
        self.with_conn(token, Self::work);
    }

    /// Closes connections that CLIENT KILL marked.
    pub fn close_killed(&mut self) {
        for token in self.conns.tokens() {
            self.close_if(token, |conn| conn.card.kill.load(Ordering::Relaxed));
        }
    }

    fn close_if(&mut self, token: Token, f: impl FnOnce(&Conn) -> bool) {
        if let Some(conn) = self.conns.take(token) {
            if f(&conn) { self.close(conn) } else { self.conns.put(conn) }
        }
    }

    fn tick(&mut self) {
        self.ticks += 1;
        if self.accept_paused && !self.shared.stopping.load(Ordering::SeqCst) {
            let _ = self.set_accepting(true);
        }
        self.tick_shards();
        if self.ticks.is_multiple_of(100) && self.config.timeout > 0 {
            let limit = self.config.timeout * 1000;
            for token in self.conns.tokens() {
                let now = self.now_ms;
                self.close_if(token, |c| {
                    c.pending.is_none()
                        && now.saturating_sub(c.card.active_ms.load(Ordering::Relaxed)) > limit
                });
            }
        }
        let paused = self.is_pause_on();
        if self.was_paused && !paused {
            for token in self.conns.tokens() {
                self.with_conn(token, Self::go_on);
            }
        }
        self.was_paused = paused;
    }

    /// Expiry and other housekeeping of the shards, and what is due of transactions.
    fn tick_shards(&mut self) {
        let now_us = self.owner.now_us;
        let (mut open, mut recent, mut waiting, mut hot) = (0, 0, 0, 0);
        let limit = self.config.memory_per_shard();
        for place in 0..self.owner.parts.len() {
            let p = &mut self.owner.parts[place];
            p.tick(now_us, &mut self.owner.out);
            p.shard.tick(now_us / 1000);
            let census = p.census();
            open += census.open;
            recent += census.recent;
            waiting += census.queued;
            hot += census.hot;
            let shard = usize::from(p.id());
            let full = limit.is_some_and(|l| p.shard.memory().used as u64 >= l);
            self.shared.full_shards[shard].store(full, Ordering::Relaxed);
            self.route_owned(shard);
        }
        self.work_off();
        self.note_outside();
        let s = self.stats();
        s.open.set(open as u64);
        s.recent.set(recent as u64);
        s.waiting.set(waiting as u64);
        s.hot.set(hot as u64);
    }
}

/// An empty vector of slices with another lifetime and the same memory.
fn recycle<'a>(mut v: Vec<&[u8]>) -> Vec<&'a [u8]> {
    v.clear();
    v.into_iter().map(|_| -> &'a [u8] { &[] }).collect()
}
