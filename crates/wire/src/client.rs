//! A small blocking client: for tests, the demonstration and measurements. Requests can be pipelined.
use crate::Value;
use std::{
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection to a server.
pub struct Client {
    stream: Stream,
    out: Vec<u8>,
    input: Vec<u8>,
    at: usize,
}

impl Client {
    /// Connects over TCP.
    pub fn connect(addr: impl ToSocketAddrs) -> io::Result<Self> {
        let s = TcpStream::connect(addr)?;
        s.set_nodelay(true)?;
        Ok(Self::over(Stream::Tcp(s)))
    }

    /// Connects to a Unix socket.
    pub fn connect_unix(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self::over(Stream::Unix(UnixStream::connect(path)?)))
    }

    /// Uses a Unix socket that is connected already.
    pub fn over_unix(stream: UnixStream) -> Self {
        Self::over(Stream::Unix(stream))
    }

    fn over(stream: Stream) -> Self {
        Self { stream, out: Vec::new(), input: Vec::new(), at: 0 }
    }

    /// How long to wait for a reply before giving up with an error.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match &self.stream {
            Stream::Tcp(s) => s.set_read_timeout(timeout),
            Stream::Unix(s) => s.set_read_timeout(timeout),
        }
    }

    /// Adds a request to those to be sent.
    pub fn push<A: AsRef<[u8]>>(&mut self, args: &[A]) {
        encode(args, &mut self.out);
    }

    /// Adds bytes to be sent as they are.
    pub fn push_raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Sends what was added.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.stream {
            Stream::Tcp(s) => s.write_all(&self.out)?,
            Stream::Unix(s) => s.write_all(&self.out)?,
        }
        self.out.clear();
        Ok(())
    }

    /// The next reply.
    pub fn receive(&mut self) -> io::Result<Value> {
        loop {
            let parsed = Value::parse(&self.input[self.at..])
                .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
            if let Some((value, n)) = parsed {
                self.at += n;
                if self.at == self.input.len() {
                    self.input.clear();
                    self.at = 0;
                }
                return Ok(value);
            }
            let mut chunk = [0u8; 16 * 1024];
            let n = match &mut self.stream {
                Stream::Tcp(s) => s.read(&mut chunk)?,
                Stream::Unix(s) => s.read(&mut chunk)?,
            };
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.input.drain(..self.at);
            self.at = 0;
            self.input.extend_from_slice(&chunk[..n]);
        }
    }

    /// Sends one request and waits for its reply.
    pub fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Value> {
        self.push(args);
        self.flush()?;
        self.receive()
    }

    /// Sends all that was added and waits for `n` replies.
    pub fn receive_many(&mut self, n: usize) -> io::Result<Vec<Value>> {
        self.flush()?;
        (0..n).map(|_| self.receive()).collect()
    }
}

/// Appends a request to `out`.
pub fn encode<A: AsRef<[u8]>>(args: &[A], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for a in args {
        let a = a.as_ref();
        out.extend_from_slice(format!("${}\r\n", a.len()).as_bytes());
        out.extend_from_slice(a);
        out.extend_from_slice(b"\r\n");
    }
}
