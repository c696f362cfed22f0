//! A network in one thread and in virtual time: seeded, so that a run can be had again. It does what the worst fabric may do.
//!
//! ```text
//!   read     posted ──▶ some words ──▶ some words ──▶ … ──▶ completed      each step at a time of its own, words in any order,
//!   write    the same, toward the region                                   operations overtake each other
//!   send     ──▶ arrives after a delay, behind the messages sent before it; between 2 operations anything goes
//!   cut      at a random operation: what has not arrived is lost, what is under way fails
//! ```
//! Time moves when somebody polls (a little) or waits (to the next event), never by itself. Between two steps the program that is tested
//! runs, so a read that is torn here is torn between two stores of the owner, at eight bytes, as on real hardware.
//!
//! Nothing here blocks; a pair of connections can be driven by one thread, or by two (then without repeatability).

mod connection;

use crate::handshake::{First, Hello, Welcome};
use crate::local::Local;
use crate::setup::{Accepted, ConnectOptions, Connected, Export, Gate, Peer};
use crate::words::copy_words;
use crate::{Completion, Connection, Error, Fabric, Failure, Mapping, OneSided, RemoteRegion};
use connection::Sim;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How bad the network is.
#[derive(Clone, Debug)]
pub struct Config {
    /// Everything random follows from it.
    pub seed: u64,
    /// Shortest and longest time of a step, in nanoseconds.
    pub delay_ns: (u64, u64),
    /// Steps that an operation is torn into, at most. 1: not torn.
    pub steps: usize,
    /// Whether the words of an operation are taken in random order.
    pub shuffle: bool,
    /// The connection is cut at one of so many operations or messages. 0: never.
    pub cut_one_in: u64,
    /// Whether one-sided accesses go on while the target is stopped.
    pub one_sided: OneSided,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            seed: 1,
            delay_ns: (500, 5000),
            steps: 8,
            shuffle: true,
            cut_one_in: 0,
            one_sided: OneSided::Truly,
        }
    }
}

/// A network. A clone is the same network.
#[derive(Clone)]
pub struct Network(Arc<Mutex<State>>);

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Network(seed {}, at {:?})", self.state().config.seed, self.now())
    }
}

struct State {
    config: Config,
    random: u64,
    now: u64,
    count: u64,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    what: BTreeMap<u64, Event>,
    links: Vec<Link>,
}

enum Event {
    Step { link: usize, side: usize, operation: u64 },
    Arrive { link: usize, side: usize, message: Vec<u8> },
    Cut { link: usize },
    Late { link: usize, side: usize, operation: u64 },
}

#[derive(Default)]
struct Link {
    /// The connecting side, then the listening one.
    sides: [Side; 2],
    cut: bool,
    /// The listening side's agent, if there is one.
    stopped: bool,
    limit_ns: u64,
}

/// What is coming to one side, and what it has under way.
#[derive(Default)]
struct Side {
    operations: BTreeMap<u64, Operation>,
    done: VecDeque<Completion>,
    arrived: VecDeque<Vec<u8>>,
    in_flight: usize,
    last_arrival: u64,
}

impl Side {
    /// Bytes that have been sent and not received.
    fn waiting(&self) -> usize {
        self.in_flight + self.arrived.iter().map(Vec::len).sum::<usize>()
    }
}

struct Operation {
    token: u64,
    region: u32,
    buffer: u64,
    from: (Arc<Mapping>, usize),
    into: (Arc<Mapping>, usize),
    /// Words to be copied yet, the next at the end.
    words: Vec<u32>,
    chunk: usize,
}

impl State {
    /// SplitMix64.
    fn random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % below.max(1)
    }

    fn delay(&mut self) -> u64 {
        let (least, most) = self.config.delay_ns;
        least + self.random(most.saturating_sub(least) + 1)
    }

    fn at(&mut self, time: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((time.max(self.now), self.count)));
        self.what.insert(self.count, event);
    }

    fn chance_of_a_cut(&mut self, link: usize) {
        if self.config.cut_one_in > 0 && self.random(self.config.cut_one_in) == 0 {
            let time = self.now + self.delay();
            self.at(time, Event::Cut { link });
        }
    }

    /// Runs what is due until then.
    fn advance(&mut self, until: u64) {
        while let Some(&Reverse((time, count))) = self.events.peek() {
            if time > until {
                break;
            }
            self.events.pop();
            self.now = self.now.max(time);
            if let Some(event) = self.what.remove(&count) {
                self.happen(event);
            }
        }
        self.now = self.now.max(until);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Step { link, side, operation } => self.step(link, side, operation),
            Event::Arrive { link, side, message } => {
                let side = &mut self.links[link].sides[side];
                side.in_flight -= message.len();
                side.arrived.push_back(message);
            }
            Event::Cut { link } => self.cut(link),
            Event::Late { link, side, operation } => {
                let limit_ms = self.links[link].limit_ns / 1_000_000;
                let of = &mut self.links[link].sides[side];
                if let Some(operation) = of.operations.remove(&operation) {
                    let agent = format!("the agent of region {} at sim:{link}", operation.region).into();
                    let result = Err(Failure::TimedOut { agent, limit_ms });
                    of.done.push_back(Completion { token: operation.token, result });
                }
            }
        }
    }

    fn step(&mut self, link: usize, side: usize, number: u64) {
        let delay = self.delay();
        let emulated = self.config.one_sided == OneSided::Emulated;
        let stopped = side == 0 && emulated && self.links[link].stopped;
        let of = &mut self.links[link].sides[side];
        let Some(operation) = of.operations.get_mut(&number) else { return };
        if !stopped {
            for _ in 0..operation.chunk {
                let Some(word) = operation.words.pop() else { break };
                let word = word as usize;
                let (from, into) = (&operation.from, &operation.into);
                copy_words(&from.0.words()[from.1 + word..][..1], &into.0.words()[into.1 + word..][..1]);
            }
            if operation.words.is_empty() {
                let token = operation.token;
                of.operations.remove(&number);
                of.done.push_back(Completion { token, result: Ok(()) });
                return;
            }
        }
        let time = self.now + delay;
        self.at(time, Event::Step { link, side, operation: number });
    }

    fn cut(&mut self, link: usize) {
        let to = &mut self.links[link];
        to.cut = true;
        for side in &mut to.sides {
            for operation in std::mem::take(&mut side.operations).into_values() {
                side.done.push_back(Completion { token: operation.token, result: Err(Failure::PeerDead) });
            }
        }
        let lost = |event: &Event| matches!(event, Event::Arrive { link: at, .. } if *at == link);
        self.what.retain(|_, event| !lost(event));
    }
}

/// What a side is told of the other's regions.
fn described(exports: &[Export]) -> Result<Vec<RemoteRegion>, Error> {
    exports.iter().map(|export| crate::setup::describe(export, 0)).collect()
}

impl Network {
    /// A new network.
    pub fn new(config: Config) -> Network {
        let random = config.seed;
        let (events, what, links) = (BinaryHeap::new(), BTreeMap::new(), Vec::new());
        Network(Arc::new(Mutex::new(State { config, random, now: 0, count: 0, events, what, links })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Virtual time since the beginning.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.state().now)
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let mut state = self.state();
        let until = state.now.saturating_add(by.as_nanos() as u64);
        state.advance(until);
    }

    /// Cuts a connection, by the number that both of its sides know.
    pub fn cut(&self, id: u64) {
        let mut state = self.state();
        if (1..=state.links.len() as u64).contains(&id) {
            state.cut((id - 1) as usize);
        }
    }

    /// Stops or continues the target of a connection; matters if one-sided accesses are emulated.
    pub fn stop(&self, id: u64, stopped: bool) {
        if let Some(link) =
            id.checked_sub(1).and_then(|at| self.state().links.get_mut(at as usize).map(|_| at))
        {
            self.state().links[link as usize].stopped = stopped;
        }
    }

    /// Connects two sides, with the same handshake as on other fabrics.
    ///
    /// # Errors
    /// [`Error::Refused`] by the gate; [`Error::TooLarge`].
    pub fn connect(
        &self,
        options: &ConnectOptions,
        gate: &mut dyn Gate,
    ) -> Result<(Connected, Accepted), Error> {
        let (user, password) = (options.user.clone(), options.password.clone());
        let (fabric, role, regions) = (Fabric::Sim, options.role, described(&options.exports)?);
        let hello = Hello { fabric, role, user, password, blob: Vec::new(), regions };
        let Some((First::Hello(hello), _)) = First::decode(&hello.encode()?)? else {
            return Err(Error::Protocol("a hello that is none"));
        };
        let grant = gate.admit(&hello, &Peer::default()).map_err(Error::Refused)?;
        let regions = described(&grant.exports)?;
        let mut state = self.state();
        state.links.push(Link { limit_ns: options.operation.as_nanos() as u64, ..Link::default() });
        let link = state.links.len() - 1;
        let (id, incarnation) = (link as u64 + 1, state.config.seed);
        drop(state);
        let welcome = Welcome { connection: id, incarnation, info: grant.info, blob: Vec::new(), regions };
        let Some((welcome, _)) = Welcome::decode(&welcome.encode()?)? else {
            return Err(Error::Protocol("a welcome that is none"));
        };
        let side = |side, regions, mappings| -> Box<dyn Connection> {
            let local = Local::default();
            Box::new(Sim { network: self.clone(), link, side, regions, mappings, local, starved: false })
        };
        let mappings = grant.exports.into_iter().map(|e| e.memory).collect();
        let connected =
            Connected { connection: side(0, welcome.regions, mappings), id, incarnation, info: welcome.info };
        let mappings = options.exports.iter().map(|e| e.memory.clone()).collect();
        let connection = side(1, hello.regions, mappings);
        let accepted = Accepted { connection, id, user: hello.user, role: hello.role, peer: Peer::default() };
        Ok((connected, accepted))
    }
}
