//! The client: requests encoded before the clock starts, written in batches on several connections, replies counted
//! by their bytes. It costs the client almost nothing, so that the servers are what is measured.
use crate::{Error, Result, process::Server};
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

/// A small deterministic generator (splitmix64): the same requests for every server.
pub struct Rng(pub u64);

impl Rng {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// The name of key `i`: 16 bytes.
pub fn key(i: u64) -> String {
    format!("key:{i:012}")
}

/// Appends one request.
pub fn encode(out: &mut Vec<u8>, args: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for a in args {
        out.extend_from_slice(format!("${}\r\n", a.len()).as_bytes());
        out.extend_from_slice(a);
        out.extend_from_slice(b"\r\n");
    }
}

/// A batch of requests that goes out with one write, and the bytes that come back.
pub struct Batch {
    /// The requests.
    pub request: Vec<u8>,
    /// How many commands it holds.
    pub commands: usize,
    /// How many bytes answer it.
    pub reply: usize,
}

/// What a round gave.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Commands answered.
    pub commands: u64,
    /// Wall time.
    pub seconds: f64,
    /// The server's CPU time.
    pub cpu: f64,
}

impl Round {
    /// Commands a second.
    pub fn rate(&self) -> f64 {
        self.commands as f64 / self.seconds
    }

    /// Commands a second of the server's CPU.
    pub fn per_cpu(&self) -> f64 {
        self.commands as f64 / self.cpu
    }
}

/// Opens a connection.
pub fn connect(server: &Server) -> Result<TcpStream> {
    let s = TcpStream::connect(server.address).map_err(|e| Error::Io(server.name.clone(), e))?;
    s.set_nodelay(true).map_err(|e| Error::Io(server.name.clone(), e))?;
    Ok(s)
}

/// Sends one batch and reads its whole reply; an error reply is an error here.
pub fn exchange(s: &mut TcpStream, b: &Batch, buffer: &mut Vec<u8>) -> Result<()> {
    send(s, b)?;
    receive(s, b, buffer)
}

fn send(s: &mut TcpStream, b: &Batch) -> Result<()> {
    s.write_all(&b.request).map_err(|e| Error::Io("writing".into(), e))
}

fn receive(s: &mut TcpStream, b: &Batch, buffer: &mut Vec<u8>) -> Result<()> {
    buffer.resize(b.reply, 0);
    s.read_exact(&mut buffer[..]).map_err(|e| Error::Io("reading".into(), e))?;
    if buffer.first() == Some(&b'-') {
        return Err(Error::Reply(String::from_utf8_lossy(buffer).into_owned()));
    }
    Ok(())
}

/// Sends batches on all connections in turn until the time is over.
pub fn round(
    server: &Server,
    connections: &mut [TcpStream],
    batches: &[Batch],
    seconds: f64,
) -> Result<Round> {
    let mut buffer = Vec::new();
    let mut commands = 0;
    let mut next = 0;
    let cpu = server.cpu_seconds()?;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs_f64(seconds) {
        let first = next;
        for s in connections.iter_mut() {
            send(s, &batches[next % batches.len()])?;
            next += 1;
        }
        for (i, s) in connections.iter_mut().enumerate() {
            let b = &batches[(first + i) % batches.len()];
            receive(s, b, &mut buffer)?;
            commands += b.commands as u64;
        }
    }
    Ok(Round { commands, seconds: start.elapsed().as_secs_f64(), cpu: server.cpu_seconds()? - cpu })
}

/// Fills the server with `keys` strings of `value` bytes.
pub fn fill(server: &Server, keys: u64, value: usize) -> Result<()> {
    let mut s = connect(server)?;
    let value = vec![b'v'; value];
    let mut buffer = Vec::new();
    for chunk in (0..keys).collect::<Vec<_>>().chunks(64) {
        let mut b = Batch { request: Vec::new(), commands: chunk.len(), reply: 5 * chunk.len() };
        for &i in chunk {
            encode(&mut b.request, &[b"SET", key(i).as_bytes(), &value]);
        }
        exchange(&mut s, &b, &mut buffer)?;
    }
    Ok(())
}
