//! The world of one run: a network, a target that lives, stops and dies, a client with its requests, and the checks.

use super::Sabotage;
use super::disk::{BAD, BYTES, Disk, SEED};
use crate::client::{Answer, Area, Block, Channel, Command, Driver, IoError, Patience, Request, Work};
use crate::protocol::{Info, Status};
use crate::session::Permission;
use crate::target::service::{Heard, Sent, Service};
use crate::volume::Volume;
use crate::{limits, pattern};
use kintsugidb_fabric::handshake::Hello;
use kintsugidb_fabric::{Accepted, ConnectOptions, Grant, Mapping, Peer, sim};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of the client's area: few, so that places are used again soon.
const AREA: u64 = 1 << 16;
/// What free places hold. No word of the pattern is like it: they are odd.
const POISON: u64 = 0x5050_5050_5050_5050;
const VOLUME: &str = "v";
/// Turns with new requests; then what there is comes to its end.
const TURNS: u32 = 600;
const PATIENCE: Patience =
    Patience { request: Duration::from_millis(120), reconnect: Duration::from_millis(300) };

/// One run.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub seed: u64,
    /// The client hands out its area.
    pub placed: bool,
    pub cut_one_in: u64,
    pub sabotage: Option<Sabotage>,
}

/// What happened in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub right: u64,
    pub written: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub late: u64,
    pub reconnections: u64,
    pub restarts: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.right += other.right;
        self.written += other.written;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.late += other.late;
        self.reconnections += other.reconnections;
        self.restarts += other.restarts;
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % limit.max(1)
    }
    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// What a request of the client's is to end in.
enum Wanted {
    Read(Vec<(u64, u32)>),
    Write,
    Other,
}

struct Asked {
    request: Request,
    wanted: Wanted,
}

type Permissions = Arc<HashMap<String, Permission>>;
/// Offsets and bytes.
type Places = Vec<(u64, u64)>;

/// What the connector of the client and the target share.
struct Door {
    up: AtomicBool,
    arrived: Mutex<Vec<(Accepted, Permissions)>>,
}

pub struct World {
    random: Random,
    network: sim::Network,
    epoch: Instant,
    door: Arc<Door>,
    driver: Driver,
    asked: Vec<Asked>,
    /// Blocks that somebody looks at for a while, with what they were read from.
    held: Vec<(Block, Vec<(u64, u32)>)>,
    /// Free places as they were left, with their poison.
    free: Option<(Arc<Area>, Places)>,
    services: BTreeMap<u64, Service>,
    disk: Disk,
    /// The target takes no turn for so many turns.
    stopped: u32,
    /// It is down for so many.
    down: u32,
    writes: u64,
    tally: Tally,
}

impl World {
    pub fn new(plan: Plan) -> World {
        let config = sim::Config {
            seed: plan.seed,
            delay_ns: (20_000, 4_000_000),
            cut_one_in: plan.cut_one_in,
            ..sim::Config::default()
        };
        let network = sim::Network::new(config);
        let door = Arc::new(Door { up: AtomicBool::new(true), arrived: Mutex::default() });
        let volume = Volume::open(&format!("{VOLUME}=dummy:{BYTES},rw").parse().unwrap()).unwrap();
        let permission = Permission { volume: Arc::new(volume), writable: true };
        let permissions = Arc::new(HashMap::from([(VOLUME.to_owned(), permission)]));
        let (at_door, over) = (door.clone(), network.clone());
        let connector = Box::new(move || -> Result<Channel, IoError> {
            if !at_door.up.load(Ordering::Relaxed) {
                return Err(IoError::Connect("nobody is there".into()));
            }
            let own = plan.placed.then(|| Arc::new(Mapping::buffer(AREA).unwrap()));
            let exports = own.iter().map(Channel::export).collect();
            let options = ConnectOptions { exports, ..ConnectOptions::default() };
            let mut gate = |_: &Hello, _: &Peer| {
                let info = Info {
                    area_bytes: 0,
                    request_bytes: limits::REQUEST_BYTES,
                    outstanding: limits::OUTSTANDING as u32,
                    segments: limits::SEGMENTS as u32,
                };
                Ok(Grant { exports: Vec::new(), info: info.encode() })
            };
            let (connected, accepted) = over.connect(&options, &mut gate).unwrap();
            at_door
                .arrived
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((accepted, permissions.clone()));
            let mut channel = Channel::over(connected, own)?;
            channel.sabotage = plan.sabotage;
            Ok(channel)
        });
        let epoch = Instant::now();
        let channel = connector().unwrap();
        let mut driver = Driver::new(PATIENCE, connector, channel, epoch);
        driver.sabotage = plan.sabotage;
        World {
            random: Random(plan.seed ^ 0xabcd),
            network,
            epoch,
            door,
            driver,
            asked: Vec::new(),
            held: Vec::new(),
            free: None,
            services: BTreeMap::new(),
            disk: Disk::new(plan.sabotage),
            stopped: 0,
            down: 0,
            writes: 0,
            tally: Tally::default(),
        }
    }

    pub fn run(mut self) -> Result<Tally, String> {
        for turn in 0..TURNS {
            self.ask();
            self.turn(turn < TURNS * 3 / 4)?;
        }
        // Long enough for every deadline, retry and delay.
        for _ in 0..TURNS {
            self.held.clear();
            self.turn(false)?;
        }
        match self.asked.len() {
            0 => {}
            count => return Err(format!("{count} requests have not ended")),
        }
        if self.driver.under_way() > 0 {
            return Err(format!("{} requests are under way at the end", self.driver.under_way()));
        }
        if let Some(area) = self.driver.channel.as_ref().and_then(Channel::area) {
            let free: u64 = area.free().iter().map(|(_, bytes)| bytes).sum();
            if free != AREA {
                return Err(format!("{} bytes of the area are taken at the end", AREA - free));
            }
        }
        if self.services.len() > 1 {
            return Err(format!("{} connections are left at the target", self.services.len()));
        }
        self.tally.reconnections = self.driver.reconnections();
        Ok(self.tally)
    }

    fn now_ns(&self) -> u64 {
        self.network.now().as_nanos() as u64
    }

    /// New requests, and some that nobody waits for any more.
    fn ask(&mut self) {
        let now = self.epoch + self.network.now();
        for _ in 0..self.random.below(4) / 2 {
            let (work, wanted) = match self.random.below(8) {
                0 => {
                    // Slots of the second half, each written once and never read: what counts is how often it arrives.
                    self.writes += 1;
                    let offset = BYTES / 2 + self.random.below(BYTES / 2 / 512) * 512;
                    let content = [self.writes.to_le_bytes(); 64].concat();
                    (Work::Write(offset, content), Wanted::Write)
                }
                1 => (Work::Flush, Wanted::Other),
                2 => {
                    let ranges: Vec<_> = (0..1 + self.random.below(6)).map(|_| self.range(700)).collect();
                    (Work::Read(ranges.clone()), Wanted::Read(ranges))
                }
                _ => {
                    let range = self.range(9000);
                    (Work::Read(vec![range]), Wanted::Read(vec![range]))
                }
            };
            let (command, request) = Command::new(&VOLUME.into(), work, now + PATIENCE.request);
            self.driver.take([command]);
            self.asked.push(Asked { request, wanted });
        }
        if !self.asked.is_empty() && self.random.one_in(12) {
            let at = self.random.below(self.asked.len() as u64) as usize;
            self.asked.swap_remove(at);
            self.tally.cancelled += 1;
        }
    }

    /// A range of the half that is not written, often of whole words.
    fn range(&mut self, most: u64) -> (u64, u32) {
        let mut bytes = 1 + self.random.below(most);
        if !self.random.one_in(3) {
            bytes = bytes.next_multiple_of(8);
        }
        (self.random.below(BYTES / 2 - bytes), bytes as u32)
    }

    fn turn(&mut self, trouble: bool) -> Result<(), String> {
        self.poison_is_there()?;
        let now = self.epoch + self.network.now();
        self.driver.turn(now);
        self.poison_what_is_free();
        self.take_answers()?;
        self.look_at_held()?;
        if trouble {
            self.make_trouble();
        }
        self.target_turn();
        let step = self.random.below(2_000_000);
        self.network.advance(Duration::from_nanos(step));
        match self.disk.seen.iter().find(|(_, count)| **count > 1) {
            Some(((offset, _), _)) => Err(format!("a write at {offset} has happened twice")),
            None => Ok(()),
        }
    }

    fn make_trouble(&mut self) {
        if self.random.one_in(150) {
            self.stopped = 1 + self.random.below(150) as u32;
        }
        if self.random.one_in(200) {
            self.down = 1 + self.random.below(100) as u32;
            self.tally.restarts += 1;
            self.services.clear();
            self.disk.crash();
            self.door.up.store(false, Ordering::Relaxed);
        }
    }

    fn target_turn(&mut self) {
        let arrived = std::mem::take(&mut *self.door.arrived.lock().unwrap_or_else(PoisonError::into_inner));
        if self.down > 0 {
            self.down -= 1;
            self.door.up.store(self.down == 0, Ordering::Relaxed);
            // Who was on the way in has nobody to talk to.
            return drop(arrived);
        }
        for (accepted, permissions) in arrived {
            let service = Service::new(accepted.connection, permissions, None).unwrap();
            self.services.insert(accepted.id, service);
        }
        let now = self.now_ns();
        let mut ended = Vec::new();
        // The disk goes on while the target's threads are stopped.
        self.disk.advance(now, &mut ended);
        for (owner, token, result) in ended {
            if let Some(service) = self.services.get_mut(&owner) {
                service.done(token, result);
            }
        }
        if self.stopped > 0 {
            self.stopped -= 1;
            return;
        }
        let mut jobs = Vec::new();
        for (id, service) in &mut self.services {
            if service.open() {
                let heard = service.hear(&mut jobs);
                assert!(heard != Heard::Nonsense, "a client of ours makes sense");
                if heard == Heard::End || service.send() == Sent::End {
                    service.close();
                }
            }
            for job in jobs.drain(..) {
                let slow = self.random.one_in(25);
                let takes_ns = self.random.below(if slow { 200_000_000 } else { 3_000_000 });
                self.disk.submit(*id, job, now, takes_ns);
            }
        }
        self.services.retain(|_, service| !service.over());
    }

    fn take_answers(&mut self) -> Result<(), String> {
        let asked = std::mem::take(&mut self.asked);
        for asked in asked {
            match asked.request.ended() {
                None => self.asked.push(asked),
                Some(Ok(Answer::Block(block))) => self.check(block, &asked.wanted)?,
                Some(Ok(Answer::Volume(_))) => return Err("a volume for a block".into()),
                Some(Err(why)) => self.check_error(&why, &asked.wanted)?,
            }
        }
        Ok(())
    }

    fn check(&mut self, block: Block, wanted: &Wanted) -> Result<(), String> {
        match wanted {
            Wanted::Write => self.tally.written += 1,
            Wanted::Other => {}
            Wanted::Read(ranges) => {
                right(&block, ranges)?;
                self.tally.right += 1;
                if self.random.one_in(3) {
                    self.held.push((block, ranges.clone()));
                }
            }
        }
        Ok(())
    }

    fn check_error(&mut self, why: &IoError, wanted: &Wanted) -> Result<(), String> {
        let bad = match wanted {
            Wanted::Read(ranges) => {
                ranges.iter().any(|(at, n)| *at < BAD.end && BAD.start < at + u64::from(*n))
            }
            _ => false,
        };
        let expected = match why {
            IoError::Target { status: Status::Io, errno: 5, .. } => bad,
            IoError::TimedOut { .. } => {
                self.tally.late += 1;
                true
            }
            // Reads are asked again; only what cannot be is told.
            IoError::Lost { .. } => !matches!(wanted, Wanted::Read(_)),
            IoError::Connect(_) => true,
            _ => false,
        };
        self.tally.failed += 1;
        if expected { Ok(()) } else { Err(format!("an error that cannot be: {why}")) }
    }

    /// Blocks that are looked at stay as they are, until they are given back.
    fn look_at_held(&mut self) -> Result<(), String> {
        for (block, ranges) in &self.held {
            right(block, ranges).map_err(|why| format!("a block that is held has changed: {why}"))?;
        }
        if !self.held.is_empty() && self.random.one_in(4) {
            let at = self.random.below(self.held.len() as u64) as usize;
            self.held.swap_remove(at);
        }
        Ok(())
    }

    fn poison_what_is_free(&mut self) {
        let Some(area) = self.driver.channel.as_ref().and_then(Channel::area).cloned() else { return };
        let free = area.free();
        for (at, bytes) in &free {
            for word in area.memory.range(*at, *bytes).unwrap() {
                word.store(POISON, Ordering::Relaxed);
            }
        }
        self.free = Some((area, free));
    }

    fn poison_is_there(&mut self) -> Result<(), String> {
        let Some((area, free)) = self.free.take() else { return Ok(()) };
        for (at, bytes) in free {
            let words = area.memory.range(at, bytes).unwrap();
            if let Some(word) = words.iter().position(|word| word.load(Ordering::Relaxed) != POISON) {
                return Err(format!("a free place was written, at {}", at + 8 * word as u64));
            }
        }
        Ok(())
    }
}

/// Whether a block is what its ranges of the volume hold.
fn right(block: &Block, ranges: &[(u64, u32)]) -> Result<(), String> {
    let bytes = block.to_vec();
    let mut at = 0;
    for (offset, length) in ranges {
        let Some(part) = bytes.get(at..at + *length as usize) else {
            return Err(format!("{} bytes of {ranges:?}", bytes.len()));
        };
        pattern::check(SEED, *offset, part)
            .map_err(|place| format!("a wrong byte at {place} of {ranges:?}"))?;
        at += *length as usize;
    }
    if at == bytes.len() { Ok(()) } else { Err(format!("{} bytes of {ranges:?}", bytes.len())) }
}
