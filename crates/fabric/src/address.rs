//! Where to connect to or to listen: `shm:/path/to.sock`, `tcp:host:port`, `verbs:host:port`, `rdma:host:port`, `sim:name`.

use crate::Error;
use std::{fmt, path::PathBuf, str::FromStr};

/// A back end.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Fabric {
    /// Memory mapped by both sides, on one host.
    Shm = 1,
    /// Framed messages over TCP.
    Tcp = 2,
    /// ibverbs, reliable connection, send and receive.
    Verbs = 3,
    /// ibverbs, reliable connection, RDMA reads and writes.
    Rdma = 4,
    /// The deterministic simulation.
    Sim = 5,
}

impl Fabric {
    /// All of them.
    pub const ALL: [Fabric; 5] = [Fabric::Shm, Fabric::Tcp, Fabric::Verbs, Fabric::Rdma, Fabric::Sim];

    /// The name, as in an address.
    pub fn name(self) -> &'static str {
        match self {
            Fabric::Shm => "shm",
            Fabric::Tcp => "tcp",
            Fabric::Verbs => "verbs",
            Fabric::Rdma => "rdma",
            Fabric::Sim => "sim",
        }
    }

    /// The fabric of a number in a handshake.
    pub fn from_number(number: u8) -> Option<Fabric> {
        Fabric::ALL.into_iter().find(|f| *f as u8 == number)
    }
}

impl fmt::Display for Fabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a listener is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A Unix socket's path.
    Shm(PathBuf),
    /// Host and port.
    Tcp(String),
    /// Host and port of the set-up's TCP socket.
    Verbs(String),
    /// Host and port of the set-up's TCP socket.
    Rdma(String),
    /// A name within a simulated network.
    Sim(String),
}

impl Address {
    /// Which back end it is for.
    pub fn fabric(&self) -> Fabric {
        match self {
            Address::Shm(_) => Fabric::Shm,
            Address::Tcp(_) => Fabric::Tcp,
            Address::Verbs(_) => Fabric::Verbs,
            Address::Rdma(_) => Fabric::Rdma,
            Address::Sim(_) => Fabric::Sim,
        }
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Address, Error> {
        let wrong = |why| Error::Address { address: text.chars().take(200).collect(), why };
        let (fabric, rest) = text.split_once(':').ok_or(wrong("it has no `fabric:` in front"))?;
        let host_port = || match rest.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(rest.to_owned()),
            _ => Err(wrong("a host and a port are needed, as in tcp:127.0.0.1:7400")),
        };
        match fabric {
            "shm" if rest.is_empty() => Err(wrong("a path is needed, as in shm:/run/kintsugi.sock")),
            "shm" => Ok(Address::Shm(rest.into())),
            "tcp" => Ok(Address::Tcp(host_port()?)),
            "verbs" => Ok(Address::Verbs(host_port()?)),
            "rdma" => Ok(Address::Rdma(host_port()?)),
            "sim" => Ok(Address::Sim(rest.to_owned())),
            _ => Err(wrong("the fabric is none of shm, tcp, verbs, rdma, sim")),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Shm(path) => write!(f, "shm:{}", path.display()),
            Address::Tcp(at) | Address::Verbs(at) | Address::Rdma(at) | Address::Sim(at) => {
                write!(f, "{}:{at}", self.fabric())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_to_text_and_back() {
        for text in ["shm:/a/b.sock", "tcp:127.0.0.1:7400", "verbs:[::1]:1", "rdma:host:65535", "sim:a"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["", "shm", "shm:", "tcp:7400", "tcp::7400", "tcp:host:70000", "ftp:host:1"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
