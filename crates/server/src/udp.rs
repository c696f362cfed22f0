//! The UDP listener: the datagrams of `spec/wire.md`, answered by the owners of the keys.
//!
//! ```text
//!   socket --- up to 64 datagrams ---> commands, pipelined ---> a connection like any other ---> owners
//!          <-- answers --------------- replies, in order   <---
//! ```
//! One thread, one connection inside the process (a pair of Unix sockets). So a datagram is isolated, ordered, held behind
//! reservations and refused for want of memory exactly as a Redis client's command is, by the same code. It costs two
//! more hops between threads than a reader of its own would; what UDP saves is the client's side.
//!
//! Every operation is one command on one key, so each is atomic and linearizable. SET is `SET … GET` and DEL is `GETDEL`
//! because these refuse other types, as the protocol does.
//! A batch is sent whole before its replies are read; both directions of a batch fit in a socket's buffer (asserted
//! below), so neither side waits for the other to read.
use crate::{Shared, letter::Letter, mailbox::Batch};
use kintsugidb_wire::{
    Client, Value,
    datagram::{
        DATAGRAM_MAX, ITEM_MAX, Op, Parsed, Request, Status, ZRANGE_MAX, key_of_score, parse, score_of_key,
        write_answer, write_record,
    },
    format_double,
};
use std::{
    io,
    net::{SocketAddr, UdpSocket},
    os::unix::net::UnixStream,
    sync::atomic::Ordering::SeqCst,
    time::{Duration, Instant},
};

/// Datagrams taken at once.
const BATCH: usize = 64;
/// Commands of a batch are datagrams and some 100 bytes of framing each; a socket's buffer has 208 KiB.
const _: () = assert!(BATCH * (DATAGRAM_MAX + 200) < 128 << 10);
/// How often the thread looks whether the server stops.
const LOOK: Duration = Duration::from_millis(100);

/// The numbers of STATS that this listener has, in the protocol's order.
#[derive(Default)]
struct Counters {
    received: u64,
    answered: u64,
    dropped: u64,
    done: u64,
    missed: u64,
    refused: u64,
}

/// An answer that is owed.
enum Owed {
    /// Known at once.
    Now(u8, u16, Status),
    Stats(u16),
    /// Comes with the connection's next reply.
    Reply(Op, u16),
}

/// Answers datagrams until the server stops.
pub(crate) fn run(shared: &Shared, socket: &UdpSocket) {
    let mut gate = Gate { shared, socket, counters: Counters::default(), started: Instant::now() };
    let mut client = None;
    while !shared.stopping.load(SeqCst) {
        let turn = match &mut client {
            Some(client) => gate.turn(client),
            empty => gate.connect().map(|c| *empty = Some(c)),
        };
        if let Err(e) = turn
            && !shared.stopping.load(SeqCst)
        {
            eprintln!("kintsugi: the UDP listener begins again: {e}");
            // What was in hand may have been done or not; nobody can say, so nobody is answered.
            client = None;
            std::thread::sleep(LOOK);
        }
    }
}

struct Gate<'a> {
    shared: &'a Shared,
    socket: &'a UdpSocket,
    counters: Counters,
    started: Instant,
}

impl Gate<'_> {
    /// A connection to thread 0, as if it had accepted it.
    fn connect(&self) -> io::Result<Client> {
        self.socket.set_read_timeout(Some(LOOK))?;
        let (ours, theirs) = UnixStream::pair()?;
        theirs.set_nonblocking(true)?;
        let letter = Letter::Connection { fd: theirs.into(), is_unix: true };
        self.shared.mailboxes[0].send(Batch { letters: vec![letter], ..Batch::default() });
        let client = Client::over_unix(ours);
        client.set_timeout(Some(Duration::from_secs(30)))?;
        Ok(client)
    }

    /// One batch.
    fn turn(&mut self, client: &mut Client) -> io::Result<()> {
        let mut owed: Vec<(SocketAddr, Owed)> = Vec::with_capacity(BATCH);
        let mut buffer = [0; DATAGRAM_MAX + 1];
        for i in 0..BATCH {
            let Some((n, from)) = self.receive(&mut buffer, i == 0)? else { break };
            match parse(&buffer[..n]) {
                Parsed::Drop => self.counters.dropped += 1,
                Parsed::Refuse(op, id, status) => {
                    self.counters.received += 1;
                    owed.push((from, Owed::Now(op, id, status)));
                }
                Parsed::Request(request) => {
                    self.counters.received += 1;
                    owed.push((from, ask(&request, client)));
                }
            }
        }
        client.flush()?;
        let mut answer = Vec::with_capacity(DATAGRAM_MAX);
        for (to, owed) in owed {
            answer.clear();
            match owed {
                Owed::Now(op, id, status) => self.write(op, status, id, &[], &mut answer),
                Owed::Stats(id) => {
                    let numbers = self.numbers();
                    self.write(Op::Stats as u8, Status::Ok, id, &numbers, &mut answer);
                }
                Owed::Reply(op, id) => {
                    let (status, value) = tell(op, &client.receive()?);
                    self.write(op as u8, status, id, &value, &mut answer);
                }
            }
            // An answer that cannot be sent is as one that was lost on the way.
            if self.socket.send_to(&answer, to).is_ok() {
                self.counters.answered += 1;
            }
        }
        Ok(())
    }

    /// The next datagram; `None` if there is none now, or within [`LOOK`] if `wait`.
    fn receive(&self, buffer: &mut [u8], wait: bool) -> io::Result<Option<(usize, SocketAddr)>> {
        let got = if wait {
            self.socket.recv_from(buffer)
        } else {
            rustix::net::recvfrom(self.socket, buffer, rustix::net::RecvFlags::DONTWAIT)
                .map_err(io::Error::from)
                .and_then(|(n, _, from)| {
                    let from = from.ok_or(io::ErrorKind::Interrupted)?;
                    Ok((n, SocketAddr::try_from(from)?))
                })
        };
        match got {
            Ok(got) => Ok(Some(got)),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(None),
            // An earlier answer met a closed port, or a signal came.
            Err(e) if matches!(e.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted) => {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    fn write(&mut self, op: u8, status: Status, id: u16, value: &[u8], out: &mut Vec<u8>) {
        match status {
            Status::Ok | Status::Replaced => self.counters.done += 1,
            Status::Miss => self.counters.missed += 1,
            _ => self.counters.refused += 1,
        }
        write_answer(op, status, id, value, out);
    }

    fn numbers(&self) -> [u8; 128] {
        let c = &self.counters;
        let us = self.started.elapsed().as_micros() as u64;
        // 3, 7 to 10: the kernel's, or the appliance's own.
        let all = [c.received, c.answered, c.dropped, 0, c.done, c.missed, c.refused, 0, 0, 0, 0, us];
        let mut out = [0; 128];
        for (bytes, n) in out.chunks_exact_mut(8).zip(all) {
            bytes.copy_from_slice(&n.to_le_bytes());
        }
        out
    }
}

/// Adds the command of a request to those to be sent.
fn ask(r: &Request<'_>, client: &mut Client) -> Owed {
    let (key, sub, value) = (r.key, r.subkey, r.value);
    match r.op {
        Op::Ping => return Owed::Now(r.op as u8, r.id, Status::Ok),
        Op::Stats => return Owed::Stats(r.id),
        Op::Get => client.push(&[b"GET", key]),
        Op::Set => client.push(&[b"SET", key, value, b"GET"]),
        Op::Del => client.push(&[b"GETDEL", key]),
        Op::LPush => client.push(&[b"LPUSH", key, value]),
        Op::RPush => client.push(&[b"RPUSH", key, value]),
        Op::LPop => client.push(&[b"LPOP", key]),
        Op::RPop => client.push(&[b"RPOP", key]),
        Op::HGet => client.push(&[b"HGET", key, sub]),
        Op::HSet => client.push(&[b"HSET", key, sub, value]),
        Op::HDel => client.push(&[b"HDEL", key, sub]),
        Op::SAdd => client.push(&[b"SADD", key, sub]),
        Op::SRem => client.push(&[b"SREM", key, sub]),
        Op::SIsMember => client.push(&[b"SISMEMBER", key, sub]),
        Op::SPop => client.push(&[b"SPOP", key]),
        Op::ZAdd => {
            let score = format_double(score_of_key(r.score_key()).unwrap_or(0.0));
            client.push(&[b"ZADD", key, score.as_bytes(), sub]);
        }
        Op::ZScore => client.push(&[b"ZSCORE", key, sub]),
        Op::ZRem => client.push(&[b"ZREM", key, sub]),
        Op::ZPopMin => client.push(&[b"ZPOPMIN", key]),
        Op::ZRange => {
            let (first, count) = r.span();
            // No count: from `first` to before it is an empty range wherever it lies.
            let last = i64::from(first) + i64::from(count.min(ZRANGE_MAX)) - 1;
            let (first, last) = if last < 0 { (1, 0) } else { (i64::from(first), last) };
            let (first, last) = (first.to_string(), last.to_string());
            client.push(&[b"ZRANGE", key, first.as_bytes(), last.as_bytes(), b"WITHSCORES"]);
        }
    }
    Owed::Reply(r.op, r.id)
}

/// What a command's reply means as an answer: status and value.
fn tell(op: Op, reply: &Value) -> (Status, Vec<u8>) {
    if let Value::Error(why) = reply {
        let status = match why.split(' ').next() {
            Some("WRONGTYPE") => Status::WrongType,
            Some("OOM") => Status::NoMemory,
            _ => Status::Busy,
        };
        return (status, Vec::new());
    }
    let plain = |status| (status, Vec::new());
    match op {
        Op::Ping | Op::Stats | Op::Set | Op::LPush | Op::RPush => plain(Status::Ok),
        Op::Del => plain(if *reply == Value::Null { Status::Miss } else { Status::Ok }),
        Op::HSet | Op::SAdd | Op::ZAdd => {
            plain(if reply.int() == Some(0) { Status::Replaced } else { Status::Ok })
        }
        Op::HDel | Op::SRem | Op::SIsMember | Op::ZRem => {
            plain(if reply.int() == Some(0) { Status::Miss } else { Status::Ok })
        }
        Op::Get | Op::LPop | Op::RPop | Op::HGet | Op::SPop => match reply.bytes() {
            None => plain(Status::Miss),
            // Redis clients may store more than a datagram may carry.
            Some(value) if value.len() > ITEM_MAX => plain(Status::TooLong),
            Some(value) => (Status::Ok, value.to_vec()),
        },
        Op::ZScore => match key_of(reply) {
            None => plain(Status::Miss),
            Some(key) => (Status::Ok, key.to_le_bytes().to_vec()),
        },
        Op::ZPopMin | Op::ZRange => {
            let mut records = Vec::new();
            for pair in reply.elements().unwrap_or_default().chunks_exact(2) {
                let written = key_of(&pair[1])
                    .zip(pair[0].bytes())
                    .and_then(|(key, member)| write_record(key, member, &mut records));
                if written.is_none() {
                    return plain(Status::TooLong);
                }
            }
            if records.is_empty() { plain(Status::Miss) } else { (Status::Ok, records) }
        }
    }
}

/// The score key of a score as replies have it.
fn key_of(score: &Value) -> Option<u64> {
    match score {
        Value::Double(x) => key_of_score(*x),
        other => key_of_score(std::str::from_utf8(other.bytes()?).ok()?.parse().ok()?),
    }
}
