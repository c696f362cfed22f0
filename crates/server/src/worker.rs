//! One thread: its event loop, its connections, its shards.
//!
//! ```text
//!   turn:  wait | sockets that are ready: read, parse, dispatch | mailbox: run calls, fill in replies | every
//!          now and then: tick | hand batches to other threads | write replies
//! ```
//! Everything that one turn produces for another thread goes in one batch, and all replies of a connection in one write.
use crate::{
    Config, Listeners, Shared,
    conn::Conn,
    conns::Conns,
    exec::Target,
    held::HeldCall,
    mailbox::{Batch, Token},
    native::Natives,
    now_us,
    owner::{Owner, ramp_config},
    poll::{Event, Poller},
    stats::Stats,
    txn::InHand,
};
use kintsugidb_arena::LargePage;
use kintsugidb_engine::PointReader;
use kintsugidb_ramp::{
    Coordinator,
    message::{Message, Node},
};
use kintsugidb_wire::Limits;
use std::{
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering, mpsc::Sender},
    time::{Duration, Instant},
};

const BELL: u64 = u64::MAX;
/// Tokens of listeners: from here up to the bell's. Generations of connections stay below.
pub(crate) const LISTENER: u64 = u64::MAX - 64;
pub(crate) const READ_SIZE: usize = 64 * 1024;
const TICK: Duration = Duration::from_millis(10);
/// Turns of polling rings between two looks at the sockets.
const POLLS: u32 = 8;
/// How long replies may take to be sent when the server stops.
const STOP_TIME: Duration = Duration::from_secs(5);
/// Bytes that a batch may carry before it is handed over within a turn.
pub(crate) const MAX_BATCH: usize = 1 << 20;

pub(crate) struct Worker {
    pub me: usize,
    pub shared: Arc<Shared>,
    pub config: Arc<Config>,
    pub config_seen: u64,
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
    pub poller: Poller,
    pub listeners: Listeners,
    pub was_paused: bool,
    pub accept_paused: bool,
    pub next_thread: usize,
    pub conns: Conns,
    pub natives: Natives,
    pub outboxes: Vec<Batch>,
    pub inbox: Vec<Batch>,
    pub spare: Vec<Batch>,
    pub dirty: Vec<Token>,
    pub ready: Vec<Token>,
    pub read_buffer: Vec<u8>,
    pub args: Vec<&'static [u8]>,
    /// Kept for its capacity: the keys of the command in hand.
    pub targets: Vec<Target>,
    pub next_tick: Instant,
    pub ticks: u64,
    /// Turns in which rings were polled.
    pub polls: u32,
    /// Mail or a native connection's message has come since the last turn.
    pub has_worked: bool,
    pub random: u64,
    /// Who makes large pages, if they are wanted.
    pub pages: Option<Sender<LargePage>>,
}

impl Worker {
    pub fn new(
        me: usize,
        shared: Arc<Shared>,
        listeners: Listeners,
        seed: u64,
        pages: Option<Sender<LargePage>>,
    ) -> std::io::Result<Self> {
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
            natives: Natives::default(),
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
            polls: 0,
            has_worked: false,
            random: seed ^ (me as u64) << 32 | 1,
            pages,
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
            self.poll_natives();
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
        if !self.natives.awake.is_empty() && self.ready.is_empty() && !stopping {
            // Rings are polled; sockets get a look now and then. A turn in which nothing came offers the processor to those who
            // might have something to say: where there are fewer cores than pollers, they are who is being waited for.
            self.polls = self.polls.wrapping_add(1);
            if !std::mem::take(&mut self.has_worked) {
                std::thread::yield_now();
            }
            if !self.polls.is_multiple_of(POLLS) {
                events.clear();
                return Ok(());
            }
        }
        let busy = !self.ready.is_empty() || !self.natives.awake.is_empty() || !mailbox.may_sleep();
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

    fn tick(&mut self) {
        self.ticks += 1;
        if self.accept_paused && !self.shared.stopping.load(Ordering::SeqCst) {
            let _ = self.set_accepting(true);
        }
        self.tick_shards();
        if self.ticks.is_multiple_of(100) {
            self.tick_fabrics();
        }
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
            if let Some(pages) = &self.pages
                && let Some(page) = p.shard.next_large_page()
            {
                // Gone if the server stops.
                let _ = pages.send(page);
            }
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
