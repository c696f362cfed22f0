//! A server within the test's process, with a fabric.
#![allow(dead_code)]
pub mod raw;

use kintsugidb_client::{Client, Mode, Options};
use kintsugidb_server::{Config, Listeners, Server};
use std::sync::atomic::{AtomicU32, Ordering};

/// A running server; stopped when it goes out of scope.
pub struct Running {
    server: Option<Server>,
    pub address: String,
    pub tcp: String,
}

/// A path for a socket that no other test uses.
pub fn path(name: &str) -> std::path::PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("kintsugi-{name}-{}-{n}.sock", std::process::id()))
}

impl Running {
    /// A server of so many threads and shards.
    pub fn start(threads: usize, shards: usize, isolation: &str) -> Self {
        Self::start_on(&format!("shm:{}", path("client").display()), threads, shards, isolation)
    }

    /// The same at this address; port 0 is any.
    pub fn start_on(fabric: &str, threads: usize, shards: usize, isolation: &str) -> Self {
        Self::start_with(fabric, threads, shards, &[("isolation", isolation)])
    }

    /// The same with these settings.
    pub fn start_with(fabric: &str, threads: usize, shards: usize, settings: &[(&str, &str)]) -> Self {
        let mut config = Config { threads, shards, fabric: fabric.to_owned(), port: 0, ..Config::default() };
        for (name, value) in settings {
            config.set(name, value).unwrap();
        }
        let mut listeners = Listeners::tcp("127.0.0.1:0").unwrap();
        listeners.bind_fabrics(&config.fabric).unwrap();
        let address = listeners.fabrics[0].address().to_string();
        let server = Server::start(config, listeners).unwrap();
        let tcp = format!("127.0.0.1:{}", server.tcp_port().unwrap());
        Self { server: Some(server), address, tcp }
    }

    /// A client in this mode.
    pub fn client(&self, mode: Mode) -> Client {
        Client::connect_with(&self.address, Options { mode, ..Options::default() }).unwrap()
    }

    /// A RESP connection.
    pub fn resp(&self) -> kintsugidb_wire::Client {
        kintsugidb_wire::Client::connect(&self.tcp).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
            assert!(server.join() || std::thread::panicking(), "a thread of the server panicked");
        }
    }
}

/// One line of INFO.
pub fn info(client: &mut Client, name: &str) -> u64 {
    let value = client.command(&["INFO", "kintsugi"]).unwrap();
    let text = String::from_utf8(value.bytes().unwrap().to_vec()).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':')).expect(name);
    line.trim().parse().unwrap()
}

/// Waits until a condition holds.
pub fn until(what: &str, mut f: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if f() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("in vain: {what}");
}
