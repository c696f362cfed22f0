//! The cluster: shards, clients, the network between them, and time.
use super::{Options, Rng, STEP_US, client::Client, config, history::History, trace::Line, work::Keys};
use crate::{
    Config, EPOCH_US, Participant, ShardId,
    message::{Body, Message, Node, Outbox},
};
use kintsugidb_engine::Shard;

const SHARDS: u16 = 3;

struct Flight {
    from: Node,
    to: Node,
    message: Message,
}

pub(super) struct World {
    options: Options,
    rng: Rng,
    config: Config,
    pub history: History,
    skew: Vec<i64>,
    net: Vec<Flight>,
    pub(super) clients: Vec<Client>,
    next_client: u16,
    keys: Keys,
    loss: usize,
    repeat: usize,
    death: usize,
    lazy: usize,
}

impl World {
    pub fn new(options: Options) -> Self {
        let mut rng = Rng::new(options.seed);
        let config = config(&options, &mut rng);
        let region = kintsugidb_engine::Config { reserve_bytes: 1 << 30, ..Default::default() };
        let shard = |id| {
            let shard = Shard::create(1, region.clone()).expect("address space for a small region");
            Participant::new(id, shard, config.clone())
        };
        let shards = (0..SHARDS).map(shard).collect();
        let keys = Keys::new(&mut rng, SHARDS, 3);
        let n = rng.pick(&[3, 4]);
        let clients = (0..n).map(|id| Client::new(id, SHARDS, config.clone(), &mut rng)).collect();
        let mut skew: Vec<_> = (0..SHARDS).map(|_| rng.pick(&[0, 0, 40, -60, 200])).collect();
        // These two live on one thread.
        skew[1] = skew[0];
        Self {
            options,
            history: History::new(options.isolation, shards, options.trace),
            skew,
            net: Vec::new(),
            clients,
            next_client: n,
            keys,
            loss: rng.pick(&[0, 50, 150]),
            repeat: rng.pick(&[0, 50, 150]),
            death: rng.pick(&[0, 2, 6]),
            lazy: rng.pick(&[300, 600, 900]),
            rng,
            config,
        }
    }

    fn now_us(&self, skew: i64) -> u64 {
        EPOCH_US + (self.history.step + 1000).saturating_add_signed(skew) * STEP_US
    }

    /// The time at the thread that has shards and clients.
    pub(super) fn local_now(&self) -> u64 {
        self.now_us(self.skew[0])
    }

    pub fn run(&mut self) -> Result<(), String> {
        for _ in 0..self.options.steps {
            self.history.step += 1;
            if self.rng.chance(self.death) {
                self.kill();
            }
            if !self.net.is_empty() && self.rng.chance(self.lazy) {
                self.deliver(false)?;
            }
            let c = self.rng.below(self.clients.len());
            if self.clients[c].busy.is_none() && self.rng.chance(300) {
                self.begin(c);
            }
            self.tick()?;
        }
        // Nothing is lost from here on, and nothing new begins: everything has to come to its end.
        let mut left = 14_000;
        while self.clients.iter().any(|c| c.busy.is_some())
            || !self.net.is_empty()
            || self.history.shards.iter().any(|s| s.census().open > 0 || s.census().queued > 0)
        {
            self.history.step += 1;
            left -= 1;
            if left == 0 {
                let open: Vec<_> = self.history.shards.iter().map(Participant::census).collect();
                let busy: Vec<_> = self.clients.iter().filter_map(|c| Some(c.busy.as_ref()?.1)).collect();
                return Err(format!("termination: operations {busy:?} do not end; shards {open:?}"));
            }
            if !self.net.is_empty() {
                self.deliver(true)?;
            }
            self.tick()?;
        }
        self.baseline()
    }

    /// Windows and horizons pass: nothing must be left.
    fn baseline(&mut self) -> Result<(), String> {
        for _ in 0..400 {
            self.history.step += 20;
            for s in 0..self.history.shards.len() {
                self.tick_shard(s)?;
            }
            while !self.net.is_empty() {
                self.deliver(true)?;
            }
        }
        self.history.at_baseline()
    }

    fn kill(&mut self) {
        let c = self.rng.below(self.clients.len());
        self.history.trace(|| format!("client {} dies", self.clients[c].id));
        self.history.stats.deaths += 1;
        let id = self.next_client;
        self.next_client += 1;
        self.clients[c] = Client::new(id, SHARDS, self.config.clone(), &mut self.rng);
    }

    fn begin(&mut self, c: usize) {
        let may_watch = self.clients[c].session.watches().is_empty();
        let doing = self.keys.next(&mut self.rng, may_watch);
        let number = self.history.records.len();
        self.history.stats.ops += 1;
        self.history.trace(|| format!("client {} begins {number}: {doing:?}", self.clients[c].id));
        if self.rng.chance(250) && self.locally(c, &doing) {
            self.history.stats.local += 1;
            return self.history.trace(|| format!("client {} has done {number} locally", self.clients[c].id));
        }
        let now = self.now_us(self.clients[c].skew);
        let mut out = Outbox::new();
        let record = self.clients[c].begin(doing, number, self.history.step, now, &mut out);
        self.history.records.push(record);
        self.sent(c, out);
    }

    /// Messages of a client go out.
    fn sent(&mut self, c: usize, out: Outbox) {
        let client = &self.clients[c];
        let Some((t, number)) = &client.busy else {
            let from = Node::Coordinator { id: client.id, request: 0 };
            return self.net.extend(out.into_iter().map(|(to, message)| Flight { from, to, message }));
        };
        let (number, from) = (*number, Node::Coordinator { id: client.id, request: t.request() });
        self.history.sent(from, number, &out);
        self.net.extend(out.into_iter().map(|(to, message)| Flight { from, to, message }));
    }

    fn tick(&mut self) -> Result<(), String> {
        let s = self.rng.below(self.history.shards.len());
        self.tick_shard(s)?;
        let c = self.rng.below(self.clients.len());
        let now = self.now_us(self.clients[c].skew);
        let mut out = Outbox::new();
        let client = &mut self.clients[c];
        let Some((t, number)) = &mut client.busy else { return Ok(()) };
        let number = *number;
        let outcome = t.on_tick(&mut client.coordinator, &mut client.session, now, &mut out);
        self.sent(c, out);
        self.ended(c, number, outcome);
        Ok(())
    }

    fn ended(&mut self, c: usize, number: usize, outcome: Option<crate::Outcome>) {
        let Some(outcome) = outcome else { return };
        self.history.trace(|| format!("client {} ends {number}: {}", self.clients[c].id, shown(&outcome)));
        let step = self.history.step;
        self.clients[c].end(&mut self.history.records[number], outcome, step);
    }

    fn tick_shard(&mut self, s: usize) -> Result<(), String> {
        let now = self.now_us(self.skew[s]);
        let mut out = Outbox::new();
        self.history.shards[s].tick(now, &mut out);
        self.answered(s, out)
    }

    fn deliver(&mut self, safely: bool) -> Result<(), String> {
        let i = if self.rng.chance(700) { self.rng.below(self.net.len()) } else { 0 };
        let once = matches!(self.net[i].message.body, Body::Execute(_) | Body::Executed { .. });
        if !safely && !once && self.rng.chance(self.loss) {
            let lost = self.net.remove(i);
            self.history.trace(|| format!("lost {}", Line(&lost.from, &lost.to, &lost.message)));
            return Ok(());
        }
        let flight = if !safely && !once && self.rng.chance(self.repeat) {
            let f = &self.net[i];
            Flight { from: f.from, to: f.to, message: f.message.clone() }
        } else {
            self.net.remove(i)
        };
        self.history.trace(|| Line(&flight.from, &flight.to, &flight.message).to_string());
        match flight.to {
            Node::Shard(s) => {
                let now = self.now_us(self.skew[s as usize]);
                let mut out = Outbox::new();
                self.history.shards[s as usize].handle(flight.from, flight.message, now, &mut out);
                self.answered(s as usize, out)
            }
            Node::Coordinator { id, request } => {
                let Node::Shard(from) = flight.from else { return Ok(()) };
                let Some(c) = self.clients.iter().position(|c| c.id == id) else { return Ok(()) };
                let now = self.now_us(self.clients[c].skew);
                let client = &mut self.clients[c];
                let Some((t, number)) = &mut client.busy else { return Ok(()) };
                if t.request() != request {
                    return Ok(());
                }
                let (number, mut out) = (*number, Outbox::new());
                let (co, session) = (&mut client.coordinator, &mut client.session);
                let outcome = t.on_message(co, session, from, flight.message, now, &mut out);
                self.sent(c, out);
                self.ended(c, number, outcome);
                Ok(())
            }
        }
    }

    /// A shard did something: what it logged, and its messages.
    pub(super) fn answered(&mut self, s: usize, out: Outbox) -> Result<(), String> {
        let shard = s as ShardId;
        self.history.answered(shard, &out)?;
        let from = Node::Shard(shard);
        self.net.extend(out.into_iter().map(|(to, message)| Flight { from, to, message }));
        Ok(())
    }
}

fn shown(outcome: &crate::Outcome) -> String {
    match outcome {
        crate::Outcome::Replies(all) => {
            all.iter().map(|r| r.escape_ascii().to_string()).collect::<Vec<_>>().join(" | ")
        }
        other => format!("{other:?}"),
    }
}
