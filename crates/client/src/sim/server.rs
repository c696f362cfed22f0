//! The server's side: owners, and what stands between them and connections.
use kintsugidb_engine::{Limits, Shard, fingerprint, resolve};
use kintsugidb_fabric::{
    Access, ConnectOptions, Connection, Error, Export, Grant, Mapping, Peer, handshake::Hello, sim::Network,
};
use kintsugidb_ramp::{
    Config, Coordinator, MAX_COORDINATORS, Outcome, Participant, Request, Session, ShardId, Transaction,
    message::{Message, Node, Outbox},
    sim::{History, Rng},
    wire::frame::{self, Frame, Frames, Welcome},
};
use kintsugidb_wire::{OwnedArgs, Proto, Value};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// The number of the coordinator that runs what comes as RESP.
const FRONT: u16 = 0;

struct Conn {
    link: Box<dyn Connection>,
    coordinator: u16,
    frames: Frames,
    out: Vec<u8>,
    /// The operations that the messages under way belong to, in order.
    operations: VecDeque<usize>,
    session: Session,
}

/// A command that came as RESP.
struct InHand {
    transaction: Transaction,
    conn: u64,
    session: Session,
    operation: usize,
}

pub(super) struct Server {
    config: Config,
    exports: Vec<Export>,
    conns: BTreeMap<u64, Conn>,
    /// What waits for each shard.
    queues: Vec<VecDeque<(Node, Message)>>,
    front: Coordinator,
    in_hand: BTreeMap<u64, InHand>,
    skew: Vec<i64>,
    /// The thread of each shard does nothing before this.
    asleep_until_us: Vec<u64>,
    /// In a thousand things that a shard does, how often it is interrupted before the next.
    sleepy: usize,
    next_coordinator: u16,
}

impl Server {
    /// A server without connections, and its shards' owners.
    pub fn new(config: &Config, shards: u16, rng: &mut Rng) -> (Self, Vec<Participant>) {
        let region = kintsugidb_engine::Config { reserve_bytes: 1 << 30, grace_ms: 1, ..Default::default() };
        // From how many entries on a collection is a table.
        let entries = rng.pick(&[0, 1, 2, 128]);
        let limits = Limits {
            hash_entries: entries,
            set_entries: entries,
            zset_entries: entries,
            ..Limits::default()
        };
        let owner = |id| {
            let mut shard = Shard::create(1, region.clone()).expect("address space for a small region");
            shard.set_limits(limits);
            Participant::new(id, shard, config.clone())
        };
        let owners: Vec<Participant> = (0..shards).map(owner).collect();
        let export = |p: &Participant| {
            let memory = Mapping::kept(p.shard.reader().memory(), None).expect("a region is aligned");
            Export { id: p.id().into(), access: Access::Read, memory: Arc::new(memory) }
        };
        let server = Self {
            exports: owners.iter().map(export).collect(),
            conns: BTreeMap::new(),
            queues: owners.iter().map(|_| VecDeque::new()).collect(),
            front: Coordinator::new(FRONT, shards, config.clone()),
            in_hand: BTreeMap::new(),
            skew: owners.iter().map(|_| rng.pick(&[0, 0, 40, -60, 200])).collect(),
            asleep_until_us: vec![0; owners.len()],
            sleepy: rng.pick(&[0, 50, 400]),
            next_coordinator: FRONT + 1,
            config: config.clone(),
        };
        (server, owners)
    }

    /// Lets a client in: its side of the connection, and the connection's number.
    pub fn connect(
        &mut self,
        network: &Network,
        options: &ConnectOptions,
        now_us: u64,
    ) -> Result<(Box<dyn Connection>, u64), Error> {
        let mut gate = |_: &Hello, _: &Peer| Ok(Grant { exports: self.exports.clone(), info: Vec::new() });
        let (connected, accepted) = network.connect(options, &mut gate)?;
        let coordinator = self.next_coordinator;
        assert!(coordinator < MAX_COORDINATORS, "a run with so many connections");
        self.next_coordinator += 1;
        let mut out = Vec::new();
        frame::put_welcome(
            &mut out,
            &Welcome {
                coordinator,
                shards: self.queues.len() as u16,
                threads: 1,
                seed: kintsugidb_arena::hash_seed(),
                incarnation: 1,
                clock: 0,
                now_us,
                isolation: self.config.isolation,
                window_us: self.config.window_us,
                horizon_us: self.config.horizon_us,
                reserved_timeout_us: self.config.reserved_timeout_us,
            },
        );
        let (link, frames, operations, session) =
            (accepted.connection, Default::default(), Default::default(), Default::default());
        self.conns.insert(accepted.id, Conn { link, coordinator, frames, out, operations, session });
        Ok((connected.connection, accepted.id))
    }

    /// A client has sent a message for that operation.
    pub fn sent(&mut self, conn: u64, operation: usize) {
        if let Some(conn) = self.conns.get_mut(&conn) {
            conn.operations.push_back(operation);
        }
    }

    /// Does a few things; whether there was anything to do.
    pub fn step(&mut self, history: &mut History, rng: &mut Rng, now_us: u64) -> Result<bool, String> {
        let mut busy = false;
        let ids: Vec<u64> = self.conns.keys().copied().collect();
        for id in ids {
            if rng.chance(700) {
                busy |= self.take(id, history, now_us)?;
            }
        }
        for _ in 0..1 + rng.below(4) {
            let ready = |s: &usize| !self.queues[*s].is_empty() && self.asleep_until_us[*s] <= now_us;
            let waiting: Vec<usize> = (0..self.queues.len()).filter(ready).collect();
            if waiting.is_empty() {
                break;
            }
            busy = true;
            let shard = rng.pick(&waiting);
            if rng.chance(self.sleepy) {
                self.asleep_until_us[shard] = now_us + rng.pick(&[20, 200, 2_000]);
            }
            let Some((from, message)) = self.queues[shard].pop_front() else { continue };
            let (now_us, mut out) = (now_us.saturating_add_signed(self.skew[shard]), Outbox::new());
            history.shards[shard].handle(from, message, now_us, &mut out);
            self.answered(shard as ShardId, out, history, now_us)?;
        }
        if rng.chance(300) {
            let shard = rng.below(self.queues.len());
            let (now_us, mut out) = (now_us.saturating_add_signed(self.skew[shard]), Outbox::new());
            history.shards[shard].tick(now_us, &mut out);
            history.shards[shard].shard.tick(now_us / 1000);
            busy |= !out.is_empty();
            self.answered(shard as ShardId, out, history, now_us)?;
        }
        let in_hand: Vec<u64> = self.in_hand.keys().copied().collect();
        if !in_hand.is_empty() {
            self.go_on(rng.pick(&in_hand), None, history, now_us);
        }
        self.flush();
        Ok(busy)
    }

    /// Takes one message of a connection.
    fn take(&mut self, id: u64, history: &mut History, now_us: u64) -> Result<bool, String> {
        let Some(conn) = self.conns.get_mut(&id) else { return Ok(false) };
        let mut received = Vec::new();
        match conn.link.receive(&mut received) {
            Ok(None) => return Ok(false),
            Ok(Some(_)) => {}
            Err(_) => {
                history.trace(|| format!("connection {id} has ended"));
                self.conns.remove(&id);
                return Ok(true);
            }
        }
        let operation = conn.operations.pop_front().ok_or("a message that nobody sent")?;
        conn.frames.add(&received);
        let mut frames = std::mem::take(&mut conn.frames);
        while let Some(body) = frames.next().map_err(|e| e.to_string())? {
            match Frame::read(body, fingerprint).map_err(|e| e.to_string())? {
                Frame::Ramp(messages) => self.transact(id, operation, messages, history),
                Frame::Resp { clock, proofs, bytes } => {
                    let Some(conn) = self.conns.get_mut(&id) else { continue };
                    conn.session.see(clock);
                    conn.session.carry(&proofs, self.queues.len() as u16, usize::MAX);
                    self.command(id, operation, bytes, history, now_us)?;
                }
                other => return Err(format!("a frame that no client sends: {other:?}")),
            }
        }
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.frames = frames;
        }
        Ok(true)
    }

    /// Messages of a client's transactions.
    fn transact(
        &mut self,
        id: u64,
        operation: usize,
        messages: Vec<(u64, ShardId, Message)>,
        history: &mut History,
    ) {
        let Some(coordinator) = self.conns.get(&id).map(|c| c.coordinator) else { return };
        for (request, shard, message) in messages {
            let from = Node::Coordinator { id: coordinator, request };
            let out = vec![(Node::Shard(shard), message)];
            history.sent(from, operation, &out);
            self.post(from, out);
        }
    }

    /// A command that came as RESP.
    fn command(
        &mut self,
        id: u64,
        operation: usize,
        bytes: &[u8],
        history: &mut History,
        now_us: u64,
    ) -> Result<(), String> {
        let Ok(Some((Value::Array(words), _))) = Value::parse(bytes) else {
            return Err("half a request".into());
        };
        let words: Vec<Vec<u8>> =
            words.into_iter().filter_map(|w| if let Value::Bulk(b) = w { Some(b) } else { None }).collect();
        let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let command = resolve(&args).map_err(|e| e.to_string())?;
        let requests = vec![Request::Command(command, OwnedArgs::new(&args))];
        let Some(conn) = self.conns.get_mut(&id) else { return Ok(()) };
        let mut session = std::mem::take(&mut conn.session);
        let mut out = Outbox::new();
        let (transaction, outcome) = self.front.start(&mut session, requests, Proto::Resp2, now_us, &mut out);
        let request = transaction.request();
        let from = Node::Coordinator { id: FRONT, request };
        history.sent(from, operation, &out);
        self.post(from, out);
        self.in_hand.insert(request, InHand { transaction, conn: id, session, operation });
        self.ended(request, outcome);
        Ok(())
    }

    /// A transaction of the front's gets a message, or a look.
    fn go_on(
        &mut self,
        request: u64,
        message: Option<(ShardId, Message)>,
        history: &mut History,
        now_us: u64,
    ) {
        let Some(it) = self.in_hand.get_mut(&request) else { return };
        let (front, mut out) = (&mut self.front, Outbox::new());
        let outcome = match message {
            Some((shard, message)) => {
                it.transaction.on_message(front, &mut it.session, shard, message, now_us, &mut out)
            }
            None => it.transaction.on_tick(front, &mut it.session, now_us, &mut out),
        };
        let from = Node::Coordinator { id: FRONT, request };
        history.sent(from, it.operation, &out);
        self.post(from, out);
        self.ended(request, outcome);
    }

    fn ended(&mut self, request: u64, outcome: Option<Outcome>) {
        let Some(outcome) = outcome else { return };
        let Some(InHand { conn, session, .. }) = self.in_hand.remove(&request) else { return };
        let Some(conn) = self.conns.get_mut(&conn) else { return };
        let reply = match outcome {
            Outcome::Replies(all) => all.concat(),
            Outcome::Nil => b"$-1\r\n".to_vec(),
            Outcome::Error(e) => format!("-{e}\r\n").into_bytes(),
        };
        conn.session = session;
        frame::put_resp(&mut conn.out, conn.session.clock(), &conn.session.proofs(), &reply);
    }

    /// A shard has done something.
    fn answered(
        &mut self,
        shard: ShardId,
        out: Outbox,
        history: &mut History,
        now_us: u64,
    ) -> Result<(), String> {
        history.answered(shard, &out)?;
        let from = Node::Shard(shard);
        for (to, message) in out {
            match to {
                Node::Shard(_) => self.post(from, vec![(to, message)]),
                Node::Coordinator { id: FRONT, request } => {
                    self.go_on(request, Some((shard, message)), history, now_us);
                }
                Node::Coordinator { id, request } => {
                    if let Some(conn) = self.conns.values_mut().find(|c| c.coordinator == id) {
                        frame::put_ramp(&mut conn.out, [(request, shard, &message)]);
                    }
                }
            }
        }
        Ok(())
    }

    fn post(&mut self, from: Node, out: Outbox) {
        for (to, message) in out {
            if let Node::Shard(shard) = to {
                self.queues[usize::from(shard)].push_back((from, message));
            }
        }
    }

    fn flush(&mut self) {
        for conn in self.conns.values_mut().filter(|c| !c.out.is_empty()) {
            let most = conn.link.capabilities().max_message_bytes.min(conn.out.len());
            if conn.link.send(&conn.out[..most]).is_ok() {
                conn.out.drain(..most);
            }
        }
    }
}
