//! Native connections of a thread: letting them in, polling them, taking what they say, ending them.
use super::{
    Io, MAX_OPEN, Native, Open,
    claims::{AHEAD_US, Claims, Why, needs_memory},
};
use crate::{
    conn::Conn,
    letter::Letter,
    mailbox::Token,
    worker::{LISTENER, Worker},
};
use kintsugidb_engine::fingerprint;
use kintsugidb_fabric::{
    Accepted, Access, Error, Export, Grant, Mapping, Peer, Refusal as Turned, RefusalCode, handshake,
};
use kintsugidb_ramp::{
    Hlc, ShardId,
    message::{Body, Message, Node, Refusal, Work},
    wire::frame::{self, Frame, Welcome},
};
use rustix::fd::AsRawFd as _;
use std::{
    sync::{Arc, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

/// Messages taken from one connection in one turn.
const MESSAGES_A_TURN: usize = 64;
/// Transactions that one connection has read from and that its session carries.
const MAX_PROOFS: usize = 8192;

impl Worker {
    /// Whether a user may come in. The one user there is has no password, as over RESP.
    fn admit(&self, hello: &handshake::Hello) -> Result<Grant, Turned> {
        let turned = |code, reason: &str| Err(Turned { code, reason: reason.to_owned() });
        if !(hello.user.is_empty() || hello.user == b"default") {
            return turned(
                RefusalCode::Authentication,
                "WRONGPASS invalid username-password pair or user is disabled.",
            );
        }
        if hello.role != handshake::Role::Client {
            return turned(RefusalCode::Permission, "only clients may connect here");
        }
        if self.shared.clients.len() >= self.config.maxclients {
            return turned(RefusalCode::Busy, "max number of clients reached");
        }
        Ok(Grant { exports: self.exports().unwrap_or_default(), info: Vec::new() })
    }

    /// The regions of all shards, for reading.
    fn exports(&self) -> Option<Vec<Export>> {
        let readers = self.shared.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut exports = self.shared.exports.lock().unwrap_or_else(PoisonError::into_inner);
        if exports.len() < readers.len() {
            exports.clear();
            for (id, reader) in readers.iter().enumerate() {
                let reader = reader.as_ref()?;
                let file = reader.file()?.0.try_clone_to_owned().ok()?;
                let memory = Arc::new(Mapping::kept(reader.memory(), Some(file)).ok()?);
                exports.push(Export { id: id as u32, access: Access::Read, memory });
            }
        }
        Some(exports.clone())
    }

    /// Takes in what has come to a fabric's listener.
    pub fn accept_native(&mut self, listener: usize) {
        for _ in 0..64 {
            let mut fabrics = std::mem::take(&mut self.listeners.fabrics);
            let accepted = match fabrics.get_mut(listener) {
                Some(l) => l.accept(&mut |hello: &handshake::Hello, _: &Peer| self.admit(hello)),
                None => Ok(None),
            };
            self.listeners.fabrics = fabrics;
            match accepted {
                Ok(Some(accepted)) => {
                    self.stats().connections.add(1);
                    let thread = self.next_thread;
                    self.next_thread = (thread + 1) % self.outboxes.len();
                    self.post(thread, Letter::Native(Box::new(accepted)));
                }
                Ok(None) => return,
                Err(e) => {
                    eprintln!("kintsugi: a native connection could not be accepted: {e}");
                    return;
                }
            }
        }
    }

    /// Moves handshakes on that take too long. About once a second.
    pub fn tick_fabrics(&mut self) {
        for listener in 0..self.listeners.fabrics.len() {
            self.accept_native(listener);
        }
    }

    /// The event token of a fabric's listener.
    pub fn fabric_token(&self, i: usize) -> u64 {
        LISTENER + (self.listeners.tcp.len() + usize::from(self.listeners.unix.is_some()) + i) as u64
    }

    /// A native connection that was let in becomes this thread's.
    pub fn add_native(&mut self, accepted: Accepted) {
        let Accepted { connection, peer, .. } = accepted;
        let Some((number, clock)) = self.shared.numbers.take(self.me) else {
            let mut native = Native::new(connection, 0);
            frame::put_refused(&mut native.out, "ERR max number of native clients reached");
            let _ = native.flush(&mut Vec::new(), &Default::default());
            self.stats().rejected.add(1);
            return;
        };
        let fd = connection.fd().map_or(-1, |fd| fd.as_raw_fd());
        let name = connection.capabilities().fabric.name();
        let addr = match (peer.address, peer.process) {
            (Some(at), _) => at.to_string(),
            (None, Some((process, _))) => format!("{name}:{process}"),
            (None, None) => name.to_owned(),
        };
        let card = self.new_card(fd, addr, name.to_owned(), name == "shm");
        let token = self.conns.place();
        let polled = connection.fd().is_some_and(|fd| self.poller.add_level(fd, token.to_u64()).is_ok());
        if !polled {
            self.conns.free.push(token.index);
            self.shared.numbers.give_back(number, clock);
            return;
        }
        let config = self.coordinator.config();
        let mut native = Native::new(connection, number);
        native.last = clock;
        frame::put_welcome(
            &mut native.out,
            &Welcome {
                coordinator: number,
                shards: self.config.shards as u16,
                threads: self.shared.threads() as u16,
                seed: kintsugidb_arena::hash_seed(),
                incarnation: self.shared.incarnation,
                clock,
                now_us: self.owner.now_us,
                isolation: config.isolation,
                window_us: config.window_us,
                horizon_us: config.horizon_us,
                reserved_timeout_us: config.reserved_timeout_us,
            },
        );
        self.shared.clients.add(card.clone());
        self.conns.live += 1;
        self.natives.by_number.insert(number, token);
        self.conns.put(Box::new(Conn::new(Io::Native(Box::new(native)), token, self.outboxes.len(), card)));
        self.with_conn(token, Self::work);
    }

    /// Polls the rings of awake connections; arms those that have been silent for long enough.
    pub fn poll_natives(&mut self) {
        if self.natives.awake.is_empty() {
            return;
        }
        let spin = Duration::from_micros(self.config.fabric_spin_us);
        let now = Instant::now();
        for token in std::mem::take(&mut self.natives.awake) {
            self.with_conn(token, |w, conn| {
                w.work(conn);
                let Some(native) = conn.native() else { return };
                let silent = now.saturating_duration_since(native.active) >= spin;
                // While it may not go on, its requests stay in the ring: what holds them up wakes it.
                let asleep = silent && !matches!(native.link.arm(), Ok(false)) && native.rests();
                native.awake = !asleep;
                native.watched = asleep && native.unsent;
                if !asleep {
                    w.natives.awake.push(token);
                }
            });
        }
    }

    /// Takes what a native connection says, and works on it as far as the connection may go.
    pub fn work_native(&mut self, conn: &mut Conn) {
        let soft = self.config.output_soft.0 as usize;
        for _ in 0..MESSAGES_A_TURN {
            if !conn.may_go_on(soft) {
                break;
            }
            let token = conn.token;
            let Some(native) = conn.native() else { return };
            if !native.awake {
                native.awake = true;
                self.natives.awake.push(token);
            }
            let mut received = std::mem::take(&mut native.received);
            received.clear();
            let got = native.link.receive(&mut received);
            if let Ok(Some(n)) = got {
                native.frames.add(&received);
                native.active = Instant::now();
                self.has_worked = true;
                self.stats().bytes_in.add(n as u64);
            }
            if received.capacity() <= 1 << 20 {
                native.received = received;
            }
            match got {
                Ok(Some(_)) => {
                    conn.card.active_ms.store(self.now_ms, Ordering::Relaxed);
                    if let Err(why) = self.take_frames(conn) {
                        self.stats().protocol_errors.add(1);
                        if let Some(native) = conn.native() {
                            frame::put_refused(&mut native.out, why);
                        }
                        conn.closing = true;
                        return;
                    }
                }
                Ok(None) => {
                    conn.readable = false;
                    break;
                }
                Err(e) => {
                    if !matches!(e, Error::PeerDead) {
                        self.stats().protocol_errors.add(1);
                    }
                    conn.readable = false;
                    conn.ended = true;
                    conn.closing = true;
                    return;
                }
            }
        }
    }

    fn claims(&self, number: u16) -> Claims {
        let clocks = self.owner.parts.iter().map(|p| p.clock()).max().unwrap_or(0);
        let ahead = Hlc::shard(0).peek(self.owner.now_us + AHEAD_US);
        let behind = Hlc::shard(0).peek(self.owner.now_us);
        Claims {
            coordinator: number,
            shards: self.config.shards as u16,
            limit: ahead.max(clocks.saturating_add(ahead - behind)),
            isolation: self.config.isolation,
        }
    }

    fn take_frames(&mut self, conn: &mut Conn) -> Result<(), Why> {
        let Some(native) = conn.native() else { return Ok(()) };
        let mut frames = std::mem::take(&mut native.frames);
        let claims = self.claims(native.coordinator);
        let mut taken = Ok(());
        while taken.is_ok() {
            taken = match frames.next() {
                Ok(None) => break,
                Err(_) => Err("a frame is too long"),
                Ok(Some(body)) => match Frame::read(body, fingerprint) {
                    Ok(frame) => self.take_frame(conn, &claims, frame),
                    Err(_) => Err("a frame is malformed"),
                },
            };
        }
        if let Some(native) = conn.native() {
            native.frames = frames;
        }
        taken
    }

    fn take_frame(&mut self, conn: &mut Conn, claims: &Claims, frame: Frame<'_>) -> Result<(), Why> {
        match frame {
            Frame::Resp { clock, proofs, bytes } => {
                claims.clock(clock)?;
                claims.proofs(&proofs)?;
                conn.session.see(clock);
                if !conn.session.carry(&proofs, claims.shards, MAX_PROOFS) {
                    return Err("too many proofs");
                }
                conn.input.extend_from_slice(bytes);
                let input = std::mem::take(&mut conn.input);
                let mut at = conn.at;
                self.parse(conn, &input, &mut at);
                conn.input = input;
                conn.at = at;
                conn.trim_input();
                Ok(())
            }
            Frame::Ramp(messages) => {
                self.stats().native_messages.add(messages.len() as u64);
                messages.into_iter().try_for_each(|(request, shard, message)| {
                    claims.message(shard, &message)?;
                    self.take_message(conn, request, shard, message)
                })
            }
            Frame::Welcome(_) | Frame::Refused(_) => Err("a frame that no client sends"),
        }
    }

    /// Passes a message of a transaction on to its shard.
    fn take_message(
        &mut self,
        conn: &mut Conn,
        request: u64,
        shard: ShardId,
        message: Message,
    ) -> Result<(), Why> {
        let Some(native) = conn.native() else { return Ok(()) };
        let full = |work: &Work| {
            self.config.maxmemory.0 > 0
                && needs_memory(work)
                && self.shared.full_shards[usize::from(shard)].load(Ordering::Relaxed)
        };
        let refused = match &message.body {
            Body::Execute(batch) if full(&batch.work) => {
                Some(Body::Executed { replies: None, seen: Vec::new(), refused: Some(Refusal::Full) })
            }
            Body::Prepare { info, work, .. } | Body::Reserve(info, work, _) if full(work) => {
                Some(Body::Refused { txn: info.id, why: Refusal::Full })
            }
            _ => None,
        };
        if let Some(body) = refused {
            native.answers.push((request, shard, Message { clock: 0, proofs: None, body }));
            return Ok(());
        }
        match &message.body {
            Body::Reserve(info, ..) | Body::Prepare { info, .. } => {
                native.last = native.last.max(info.id.0);
                let prepared = matches!(message.body, Body::Prepare { .. });
                if native.open.len() >= MAX_OPEN && !native.open.contains_key(&info.id) {
                    return Err("too many transactions in hand");
                }
                let open = native.open.entry(info.id);
                let participants = || info.participants.clone();
                open.or_insert_with(|| Open { participants: participants(), prepared }).prepared |= prepared;
            }
            Body::Apply(info, _) => native.last = native.last.max(info.id.0),
            Body::Abort(txn) | Body::Stable(txn) => {
                native.open.remove(txn);
            }
            _ => {}
        }
        let from = Node::Coordinator { id: native.coordinator, request };
        self.send(from, Node::Shard(shard), message);
        Ok(())
    }

    /// An owner has answered a native client's transaction.
    pub fn answer_native(&mut self, number: u16, request: u64, from: Node, message: Message) {
        let (Node::Shard(shard), Some(&token)) = (from, self.natives.by_number.get(&number)) else { return };
        self.with_conn(token, |_, conn| {
            if let Some(native) = conn.native() {
                native.answers.push((request, shard, message));
            }
        });
    }

    /// A connection has ended: what was a native one's is given back.
    pub fn end_native(&mut self, token: Token, io: Io) {
        let Io::Native(native) = io else { return };
        if self.natives.by_number.get(&native.coordinator) == Some(&token) {
            self.natives.by_number.remove(&native.coordinator);
        }
        for (txn, open) in native.open.iter().filter(|(_, open)| !open.prepared) {
            self.stats().native_orphans.add(1);
            for shard in open.participants.iter().copied() {
                let from = Node::Coordinator { id: native.coordinator, request: 0 };
                self.send(
                    from,
                    Node::Shard(shard),
                    Message { clock: 0, proofs: None, body: Body::Abort(*txn) },
                );
            }
        }
        self.shared.numbers.give_back(native.coordinator, native.last);
    }
}
