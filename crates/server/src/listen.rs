//! Sockets to listen on.
//!
//! One thread accepts and hands connections out in turn. A listener a thread (SO_REUSEPORT) would leave it to a hash of addresses:
//! a few busy connections often share a thread then while others idle, it does not exist for Unix
//! sockets, and a second server of the same user could take the port without an error. Accepting is rare and cheap.
use crate::Config;
use kintsugidb_fabric::{Address, ListenOptions, Listener as Fabric, listen};
use std::{
    io,
    net::{TcpListener, UdpSocket},
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
};

/// Sockets that listen.
#[derive(Default)]
pub struct Listeners {
    /// TCP.
    pub tcp: Vec<TcpListener>,
    /// A Unix socket and its path.
    pub unix: Option<(UnixListener, PathBuf)>,
    /// Fabrics, for native clients.
    pub fabrics: Vec<Box<dyn Fabric>>,
    /// Where datagrams are answered.
    pub udp: Option<UdpSocket>,
}

/// How long a native client may go on reading the regions of a server that is gone, at most; a new server at the same place waits that
/// long before it takes writes.
const LEASE: std::time::Duration = std::time::Duration::from_millis(20);

impl Listeners {
    /// Listens where the configuration says.
    pub fn bind(config: &Config) -> io::Result<Self> {
        let mut all = Self::default();
        if config.port != 0 {
            for host in config.bind.split_whitespace() {
                all.tcp.push(tcp(host, config.port, config.tcp_backlog)?);
            }
        }
        if !config.unixsocket.is_empty() {
            let path = PathBuf::from(&config.unixsocket);
            // A socket that nobody answers at is left over from a server that did not stop in order.
            if path.exists() && UnixStream::connect(&path).is_err() {
                let _ = std::fs::remove_file(&path);
            }
            let unix = UnixListener::bind(&path)
                .map_err(|e| io::Error::new(e.kind(), format!("cannot listen at {}: {e}", path.display())))?;
            all.unix = Some((unix, path));
        }
        all.bind_fabrics(&config.fabric)?;
        if !config.udp.is_empty() {
            let fail = |e: io::Error| {
                io::Error::new(e.kind(), format!("cannot take datagrams at {}: {e}", config.udp))
            };
            all.udp = Some(UdpSocket::bind(&config.udp).map_err(fail)?);
        }
        Ok(all)
    }

    /// Listens for native clients at these addresses too, as in the setting `fabric`.
    pub fn bind_fabrics(&mut self, addresses: &str) -> io::Result<()> {
        for address in addresses.split_whitespace() {
            let fail =
                |e: kintsugidb_fabric::Error| io::Error::other(format!("cannot listen at {address}: {e}"));
            let at: Address = address.parse().map_err(fail)?;
            if matches!(&at, Address::Shm(path) if path.exists()) {
                std::thread::sleep(LEASE);
            }
            self.fabrics.push(listen(&at, &ListenOptions::default()).map_err(fail)?);
        }
        Ok(())
    }

    /// Listens at an address, any port of it if it ends with `:0`.
    pub fn tcp(address: &str) -> io::Result<Self> {
        Ok(Self { tcp: vec![TcpListener::bind(address)?], ..Self::default() })
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        let tcp = self.tcp.iter().filter_map(|l| Some(l.local_addr().ok()?.to_string()));
        let unix = self.unix.iter().map(|(_, p)| p.display().to_string());
        tcp.chain(unix).chain(self.fabrics.iter().map(|f| f.address().to_string())).collect()
    }

    pub(crate) fn tcp_port(&self) -> u16 {
        self.tcp.iter().find_map(|l| Some(l.local_addr().ok()?.port())).unwrap_or(0)
    }

    pub(crate) fn unix_path(&self) -> Option<PathBuf> {
        self.unix.as_ref().map(|(_, p)| p.clone())
    }
}

fn tcp(host: &str, port: u16, backlog: u32) -> io::Result<TcpListener> {
    use std::net::ToSocketAddrs;
    let fail = |e: io::Error| io::Error::new(e.kind(), format!("cannot listen at {host}:{port}: {e}"));
    let address = (host, port)
        .to_socket_addrs()
        .map_err(fail)?
        .next()
        .ok_or_else(|| fail(io::ErrorKind::NotFound.into()))?;
    let listener = TcpListener::bind(address).map_err(fail)?;
    // The standard library's backlog is 128; calling listen again changes it.
    rustix::net::listen(&listener, backlog.min(65_535) as i32)?;
    Ok(listener)
}

/// Lets this process open as many files as it may, if that is needed for `clients` connections.
pub(crate) fn raise_file_limit(clients: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = clients as u64 + 64;
    if limit.current.is_some_and(|n| n < wanted) {
        let current = limit.maximum.map_or(wanted, |max| max.min(wanted));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum });
    }
}
