//! Real clients over a simulated network to real owners, under the checker of `kintsugidb_ramp::sim`.
//!
//! ```text
//!   players   Client: one-sided reads, transactions ──► fabric::sim: delay, torn and overtaking reads, cuts ──► server: Participants, Shards
//!      │  one of them runs at a time, by the seed                                                              │
//!      └── what was asked and answered, when ─────────► checker ◄────── what was committed, at which version
//! ```
//! A client blocks, so each has a thread; but only one thread runs at a time, and which one is drawn from the seed whenever the running
//! one waits, or might have been interrupted. Time is the network's. So a seed is a run that can be had again.
//!
//! What the network does: see [`kintsugidb_fabric::sim`]. A connection that is cut loses what was under way; its client connects again and
//! is somebody else for the checker, and what it had asked may have been done or not. The server here is the protocol's part of the real one
//! (frames, owners, coordinators for RESP), without its event loop and its judgement of what clients claim; between two of its steps the
//! network's time may pass, within one not: tearing between two stores of an owner is what the models of `kintsugidb-arena` are for.
mod net;
mod player;
mod server;
mod turns;

use crate::{Counters, Fault, fault::Faults};
use kintsugidb_fabric::sim::{Config as Weather, Network};
use kintsugidb_ramp::{
    Config, EPOCH_US, Isolation,
    PreparedVersions::{Hidden, Invalidated, Shown},
    sim::{Doing, Failure, History, Keys, Rng},
};
use server::Server;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Everything that happens follows from it.
    pub seed: u64,
    /// The algorithm.
    pub isolation: Isolation,
    /// A rule to break.
    pub fault: Option<Fault>,
    /// Operations, of all clients together.
    pub operations: u32,
    /// Print one line per event.
    pub trace: bool,
}

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Operations that clients began.
    pub operations: u64,
    /// What the clients have counted, all of them together.
    pub clients: Counters,
    /// Parts of transactions that shards have committed.
    pub committed: u64,
}

/// Runs one seed.
///
/// # Errors
/// A rule was broken, or something did not end.
pub fn run(options: Options) -> Result<Stats, Failure> {
    let failed = |what| Failure { seed: options.seed, what };
    let world = Arc::new(Mutex::new(World::new(options)));
    let mut players = lock(&world).players(&world, options);
    let mut rounds = 0u64;
    while !players.is_empty() {
        lock(&world).step().map_err(failed)?;
        let which = lock(&world).rng.below(players.len());
        if !players[which].run() {
            let counters = players.swap_remove(which).end().map_err(failed)?;
            lock(&world).clients.add(counters);
        }
        rounds += 1;
        if rounds > 20_000_000 {
            return Err(failed("termination: operations do not end".into()));
        }
    }
    let mut world = lock(&world);
    world.rest().and_then(|()| world.history.check()).map_err(failed)?;
    let (operations, committed) = (world.history.records.len() as u64, world.history.stats.committed);
    Ok(Stats { operations, clients: world.clients, committed })
}

const SHARDS: u16 = 3;

type Shared = Arc<Mutex<World>>;

fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Everything but the clients.
struct World {
    network: Network,
    server: Server,
    history: History,
    rng: Rng,
    keys: Keys,
    /// Operations that may still begin.
    left: u32,
    /// Rounds in which nothing has happened; the longer, the faster time passes.
    idle: u32,
    /// Sum of what clients have counted that have ended.
    clients: Counters,
    /// Numbers for the checker: a client that has lost its connection is somebody else.
    next_identity: u16,
}

impl World {
    fn new(options: Options) -> Self {
        let mut rng = Rng::new(options.seed);
        let (window_us, horizon_us) = rng.pick(&[(4_000, 40_000), (20_000, 100_000)]);
        let prepared = match (rng.pick(&[Shown, Shown, Shown, Hidden, Invalidated]), options.fault) {
            // There is nothing to mend with in the others.
            (_, Some(Fault::MendWithOldest)) => Shown,
            (drawn, _) => drawn,
        };
        let config = Config {
            isolation: options.isolation,
            window_us,
            horizon_us,
            prepared_timeout_us: 2_000,
            stable_timeout_us: 5_000,
            reserved_timeout_us: 8_000,
            resend_us: 2_000,
            backoff_us: 50,
            prepared,
            ..Config::default()
        };
        let weather = Weather {
            seed: options.seed,
            delay_ns: rng.pick(&[(500, 5_000), (200, 30_000), (5_000, 300_000)]),
            steps: rng.pick(&[1, 4, 16]),
            shuffle: rng.chance(800),
            cut_one_in: rng.pick(&[0, 2_000, 300]),
            ..Weather::default()
        };
        let (server, shards) = Server::new(&config, SHARDS, &mut rng);
        let strings = rng.pick(&[4, 6]);
        let keys = Keys::new(&mut rng, SHARDS, strings);
        Self {
            network: Network::new(weather),
            server,
            history: History::new(options.isolation, shards, options.trace),
            rng,
            keys,
            left: options.operations,
            idle: 0,
            clients: Counters::default(),
            next_identity: 0,
        }
    }

    fn players(&mut self, world: &Shared, options: Options) -> Vec<player::Player> {
        let n = self.rng.pick(&[3, 4]);
        let faults = Faults(options.fault);
        (0..n).map(|_| player::Player::start(world.clone(), faults)).collect()
    }

    fn now_us(&self) -> u64 {
        EPOCH_US + 100_000 + self.network.now().as_micros() as u64
    }

    /// The server does something, and time passes.
    fn step(&mut self) -> Result<(), String> {
        self.history.step += 1;
        let now_us = self.now_us();
        if self.server.step(&mut self.history, &mut self.rng, now_us)? {
            self.idle = 0;
        }
        self.idle += 1;
        let longest = 200u64 << (self.idle / 4).min(13);
        let by = self.rng.below(longest as usize) as u64;
        self.network.advance(Duration::from_nanos(by));
        Ok(())
    }

    /// All clients have gone: everything comes to its end, and after windows and horizons nothing is left.
    fn rest(&mut self) -> Result<(), String> {
        for _ in 0..2_000 {
            self.step()?;
            self.network.advance(Duration::from_micros(300));
        }
        self.history.at_baseline()
    }

    /// What a client does next, if anybody still does something.
    fn next(&mut self, may_watch: bool) -> Option<Doing> {
        self.left = self.left.checked_sub(1)?;
        let mut some: Vec<String> = self.keys.strings.clone();
        some.retain(|_| self.rng.chance(600));
        if may_watch && self.rng.chance(60) {
            return Some(Doing::Watch(self.keys.strings[0].clone()));
        }
        let what = self.rng.below(100);
        if what < 35 || some.is_empty() {
            return Some(self.keys.next(&mut self.rng, may_watch));
        }
        if what < 45 {
            return Some(Doing::Commands(vec![self.keys.set_all(&some)]));
        }
        if what < 55 {
            let strings = self.keys.set_all(&some);
            let (a, b) = (self.keys.items(&mut self.rng), self.keys.items(&mut self.rng));
            return Some(Doing::Commands(match self.rng.below(4) {
                0 => vec![a],
                1 => vec![a, b],
                _ => vec![strings, a],
            }));
        }
        // What clients read one-sidedly: strings and items of collections, alone or together.
        let line = |name: &str, keys: &[String]| [&[name.to_owned()], keys].concat();
        Some(Doing::Commands(match (&some[..], what) {
            (_, 80..) => {
                let mut all = vec![self.keys.point(&mut self.rng)];
                if self.rng.chance(400) {
                    all.push(line("MGET", &some));
                    all.push(self.keys.point(&mut self.rng));
                }
                all
            }
            ([_], _) => vec![line("GET", &some)],
            _ if self.rng.chance(600) => vec![line("GET", &some[..1])],
            _ if self.rng.chance(800) => vec![line("MGET", &some)],
            _ => some.chunks(1).map(|key| line("GET", key)).collect(),
        }))
    }
}
