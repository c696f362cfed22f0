//! One connection: frames out and in, and the state that lives as long as it.
use crate::{
    Counters, Error, Mode, Options, Result, Transport,
    fault::Faults,
    lease::{Lease, coarse_ns},
    remote::{Ask, How, Read, Remote},
};
use kintsugidb_arena::{Reader, Ref};
use kintsugidb_engine::{PointReader, fingerprint};
use kintsugidb_fabric::{ConnectOptions, Connection, Error as FabricError};
use kintsugidb_ramp::{
    Coordinator, EPOCH_US, NODE_BITS, Outcome, Request, Session, ShardId, TxnId,
    message::{Body, Message, Node, Outbox},
    wire::frame::{self, Frame, Frames, Welcome},
};
use kintsugidb_wire::Proto;
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// How long the oldest of two sleeps may be while a transaction waits to try again.
const TICK: Duration = Duration::from_micros(500);

/// A connection to a server.
pub(crate) struct Link {
    transport: Arc<dyn Transport>,
    pub faults: Faults,
    connection: Box<dyn Connection>,
    frames: Frames,
    received: Vec<u8>,
    out: Vec<u8>,
    spin: Duration,
    timeout: Duration,
    /// Replies as RESP, and where the first that was not taken begins.
    pub replies: Vec<u8>,
    pub replies_at: usize,
    /// Messages to transactions: request, shard, message.
    pub messages: VecDeque<(u64, ShardId, Message)>,
    pub welcome: Welcome,
    pub coordinator: Coordinator,
    pub session: Session,
    /// Reads of the regions, if they are mapped.
    pub point: Option<PointReader>,
    /// Reads of the regions over the fabric, if they are not mapped and it does that.
    pub remote: Option<Remote>,
    pub lease: Lease,
    /// What is known of transactions that the session carries proofs of.
    pub unstable: Vec<Unstable>,
    /// The server's time, and when it was that.
    time: (u64, Duration),
}

/// A transaction that was read from and is not known to be stable.
pub(crate) struct Unstable {
    pub txn: TxnId,
    /// Its record, where it was met one-sidedly.
    pub at: Option<(usize, Ref)>,
    /// What is said of its siblings.
    pub siblings: Vec<u64>,
}

impl Link {
    /// Connects and waits for the server's welcome.
    pub fn open(transport: &Arc<dyn Transport>, options: &Options, faults: Faults) -> Result<Self> {
        let how = ConnectOptions {
            user: options.user.clone().into_bytes(),
            password: options.password.clone().into_bytes(),
            handshake: options.timeout,
            ..ConnectOptions::default()
        };
        let tick = coarse_ns();
        let mut connection = transport.connect(&how).map_err(Error::Connect)?;
        let (mut frames, mut received) = (Frames::default(), Vec::new());
        let end = transport.now() + options.timeout;
        let welcome = loop {
            let mut met = None;
            if let Some(body) = frames.next()? {
                met = Some(Frame::read(body, fingerprint)?);
            }
            match met {
                Some(Frame::Welcome(welcome)) => break welcome,
                Some(Frame::Refused(why)) => return Err(Error::Refused(why)),
                Some(_) => return Err(Error::Protocol("the server did not begin with a welcome".into())),
                None => {}
            }
            received.clear();
            if connection.receive(&mut received)?.is_some() {
                frames.add(&received);
            } else {
                let left = end.saturating_sub(transport.now());
                if left.is_zero() {
                    return Err(Error::TimedOut(options.timeout.as_millis() as u64));
                }
                connection.wait(left)?;
            }
        };
        let mut coordinator = Coordinator::new(welcome.coordinator, welcome.shards, welcome.config());
        coordinator.begin_after(welcome.clock.max(clock_of(welcome.now_us)));
        let point = if options.mode == Mode::OneSided { map(&*connection, &welcome) } else { None };
        let remote = if options.mode == Mode::OneSided && point.is_none() {
            let Welcome { shards, seed, isolation, .. } = welcome;
            let how = How {
                transport: transport.clone(),
                siblings: isolation.recorded_siblings(),
                emulated: options.emulated,
                timeout: options.timeout,
                faults,
            };
            Remote::new(&mut *connection, shards, seed, how)
        } else {
            None
        };
        let mut lease = Lease::default();
        lease.renew(tick);
        Ok(Self {
            transport: transport.clone(),
            faults,
            connection,
            frames,
            received,
            out: Vec::new(),
            spin: options.spin,
            timeout: options.timeout,
            replies: Vec::new(),
            replies_at: 0,
            messages: VecDeque::new(),
            time: (welcome.now_us, transport.now()),
            welcome,
            coordinator,
            session: Session::default(),
            point,
            remote,
            lease,
            unstable: Vec::new(),
        })
    }

    /// The transport's time.
    pub fn now(&self) -> Duration {
        self.transport.now()
    }

    /// The server's time, in microseconds since the Unix epoch; monotonic while the connection lasts.
    pub fn now_us(&self) -> u64 {
        self.time.0 + self.now().saturating_sub(self.time.1).as_micros() as u64
    }

    /// Sends a request as RESP. `encoded` is the whole request.
    pub fn send_resp(&mut self, encoded: &[u8]) -> Result<()> {
        self.out.clear();
        frame::put_resp(&mut self.out, self.session.clock(), &self.session.proofs(), encoded);
        self.send_out()
    }

    /// Sends messages of a transaction; what was sent as one frame is `together`.
    pub fn send_messages(
        &mut self,
        request: u64,
        out: &mut Outbox,
        together: bool,
        counters: &mut Counters,
    ) -> Result<()> {
        counters.messages_sent += out.len() as u64;
        let to = |(node, message): &(Node, Message)| match node {
            Node::Shard(shard) => Some((*shard, message.clone())),
            Node::Coordinator { .. } => None,
        };
        let messages: Vec<_> = out.iter().filter_map(to).collect();
        out.clear();
        let step = if together { messages.len().max(1) } else { 1 };
        for some in messages.chunks(step) {
            self.out.clear();
            frame::put_ramp(&mut self.out, some.iter().map(|(shard, m)| (request, *shard, m)));
            self.send_out()?;
        }
        Ok(())
    }

    fn send_out(&mut self) -> Result<()> {
        let most = self.connection.capabilities().max_message_bytes;
        let end = self.now() + self.timeout;
        let out = std::mem::take(&mut self.out);
        let mut at = 0;
        while at < out.len() {
            let piece = &out[at..out.len().min(at + most)];
            match self.connection.send(piece) {
                Ok(()) => at += piece.len(),
                Err(FabricError::Full) => {
                    // The server may be waiting for us to take its replies.
                    self.take()?;
                    let left = end.saturating_sub(self.now());
                    if left.is_zero() {
                        return Err(self.timed_out());
                    }
                    self.connection.wait(left.min(Duration::from_millis(10)))?;
                }
                Err(e) => return Err(e.into()),
            }
        }
        self.out = out;
        Ok(())
    }

    pub fn timed_out(&self) -> Error {
        Error::TimedOut(self.timeout.as_millis() as u64)
    }

    /// Takes in what has come; whether there was anything.
    pub fn take(&mut self) -> Result<bool> {
        let mut any = false;
        loop {
            self.received.clear();
            if self.connection.receive(&mut self.received)?.is_none() {
                return Ok(any);
            }
            any = true;
            self.frames.add(&self.received);
            while let Some(body) = self.frames.next()? {
                match Frame::read(body, fingerprint)? {
                    Frame::Resp { clock, proofs, bytes } => {
                        self.session.see(clock);
                        self.session.carry(&proofs, self.welcome.shards, usize::MAX);
                        self.replies.extend_from_slice(bytes);
                    }
                    Frame::Ramp(messages) => {
                        let now = messages.iter().map(|(_, _, m)| time_of(m.clock)).max().unwrap_or(0);
                        if now > self.now_us() {
                            self.time = (now, self.now());
                        }
                        self.messages.extend(messages);
                    }
                    Frame::Refused(why) => return Err(Error::Refused(why)),
                    Frame::Welcome(_) => return Err(Error::Protocol("a second welcome".into())),
                }
            }
        }
    }

    /// Notes what an owner's answer says of transactions that were read from, before the session does.
    pub fn learn(&mut self, message: &Message) {
        let (Body::Executed { seen, .. } | Body::ReadReply { seen, .. } | Body::Committed { seen, .. }) =
            &message.body
        else {
            return;
        };
        for s in seen.iter().filter(|s| !s.stable) {
            if !self.unstable.iter().any(|u| u.txn == s.info.id) {
                let siblings = s.info.siblings.words().to_vec();
                self.unstable.push(Unstable { txn: s.info.id, at: None, siblings });
            }
        }
    }

    /// Runs a transaction, as its coordinator. `together`: messages of one round travel in one frame.
    pub fn coordinate(
        &mut self,
        requests: Vec<Request>,
        together: bool,
        counters: &mut Counters,
    ) -> Result<Outcome> {
        let end = self.now() + self.timeout;
        let mut out = Vec::new();
        let now_us = self.now_us();
        let (mut t, mut outcome) =
            self.coordinator.start(&mut self.session, requests, Proto::Resp2, now_us, &mut out);
        let request = t.request();
        counters.transactions += 1;
        let outcome = loop {
            if !out.is_empty() {
                self.send_messages(request, &mut out, together, counters)?;
            }
            if let Some(outcome) = outcome {
                break outcome;
            }
            if self.messages.is_empty() {
                let left = end.saturating_sub(self.now());
                if left.is_zero() {
                    return Err(self.timed_out());
                }
                self.wait(TICK.min(left))?;
            }
            let now_us = self.now_us();
            while let Some((to, shard, message)) = self.messages.pop_front() {
                // Answers to what is over are late or repeated.
                if to == request && outcome.is_none() {
                    counters.messages_received += 1;
                    self.learn(&message);
                    outcome = t.on_message(
                        &mut self.coordinator,
                        &mut self.session,
                        shard,
                        message,
                        now_us,
                        &mut out,
                    );
                }
            }
            if outcome.is_none() && out.is_empty() {
                outcome = t.on_tick(&mut self.coordinator, &mut self.session, now_us, &mut out);
            }
        };
        counters.second_rounds += u64::from(t.had_second_round());
        Ok(outcome)
    }

    /// Waits until something has come, polling first; false if `limit` has passed.
    pub fn wait(&mut self, limit: Duration) -> Result<bool> {
        let begin = self.now();
        loop {
            for _ in 0..32 {
                if self.take()? {
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
            let passed = self.now().saturating_sub(begin);
            if passed >= limit {
                return Ok(false);
            }
            if passed >= self.spin {
                self.connection.wait(limit - passed)?;
            } else {
                // Where there are fewer cores than pollers, the server may be waiting for this one.
                std::thread::yield_now();
            }
        }
    }

    /// Reads keys together over the fabric. `None`: ask the owners.
    pub fn fetch<'a>(&mut self, asks: &[Ask<'a>], now_ms: u64) -> Result<Option<Read<'a>>> {
        match &mut self.remote {
            Some(remote) => remote.read(&mut *self.connection, asks, now_ms),
            None => Ok(None),
        }
    }

    /// Looks whether the server is alive, if that has to be looked at again.
    #[inline]
    pub fn renew_lease(&mut self) -> Result<()> {
        if self.lease.holds() { Ok(()) } else { self.look() }
    }

    #[cold]
    fn look(&mut self) -> Result<()> {
        let tick = coarse_ns();
        // Readable: there is a message, or the end.
        if self.connection.wait(Duration::ZERO)? {
            self.take()?;
        }
        self.lease.renew(tick);
        Ok(())
    }
}

/// Readers of all regions, if the fabric maps them.
fn map(connection: &dyn Connection, welcome: &Welcome) -> Option<PointReader> {
    let readers: Option<Vec<Reader>> = (0..u32::from(welcome.shards))
        .map(|shard| {
            let memory = connection.direct(shard)?;
            let reader = Reader::map(memory.fd()?, memory.len()).ok()?;
            (reader.seed() == welcome.seed).then_some(reader)
        })
        .collect();
    let mut point = PointReader::new(readers?, welcome.isolation.recorded_siblings());
    point.now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
    Some(point)
}

/// The time of day in a timestamp, in microseconds since the Unix epoch.
fn time_of(clock: u64) -> u64 {
    (clock >> (NODE_BITS + 3)) + EPOCH_US
}

/// A timestamp of that time.
fn clock_of(now_us: u64) -> u64 {
    now_us.saturating_sub(EPOCH_US) << (NODE_BITS + 3)
}
