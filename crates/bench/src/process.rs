//! The measured servers: child processes on loopback, pinned to a core, their CPU time read from the scheduler.
use crate::{Common, Error, Result};
use rustix::{process::Pid, thread::CpuSet};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// The core that a server runs on; the client takes the other ones.
const SERVER_CORE: usize = 0;

/// A running server. It ends when dropped.
pub struct Server {
    /// What it is called in tables.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its fabrics: name and address.
    fabrics: Vec<(String, String)>,
    child: Child,
    _directory: tempdir::Directory,
}

/// What a server that native clients reach is like.
pub struct Fabrics {
    /// Which ones.
    pub names: Vec<String>,
    /// Shards.
    pub shards: u16,
    /// Threads.
    pub threads: usize,
}

impl Server {
    /// Starts Debian's `redis-server` without persistence.
    pub fn redis() -> Result<Self> {
        Self::start("redis", |port, _| {
            let mut c = Command::new("redis-server");
            c.args([
                "--port",
                &port.to_string(),
                "--save",
                "",
                "--appendonly",
                "no",
                "--loglevel",
                "warning",
            ]);
            c
        })
    }

    /// Starts `kintsugi serve` with this isolation.
    pub fn kintsugi(c: &Common, isolation: &str) -> Result<Self> {
        let binary = Self::binary(c)?;
        let (shards, threads) = (c.shards.to_string(), c.threads.to_string());
        Self::start(&format!("kintsugi {isolation}"), |port, _| {
            let mut command = Command::new(&binary);
            command.args(["serve", "--port", &port.to_string(), "--shards", &shards, "--threads", &threads]);
            command.args(["--isolation", isolation]);
            command
        })
    }

    /// Starts `kintsugi serve` for native clients. Its threads go where the system puts them.
    pub fn with_fabrics(
        binary: Option<&Path>,
        isolation: &str,
        prepared: &str,
        wanted: &Fabrics,
    ) -> Result<Self> {
        let binary = Self::program(binary)?;
        let (shards, threads) = (wanted.shards.to_string(), wanted.threads.to_string());
        let port = || TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).map(|a| a.port());
        let mut fabrics = Vec::new();
        let directory = tempdir::Directory::new().map_err(|e| Error::Io("a directory".into(), e))?;
        for name in &wanted.names {
            let address = match name.as_str() {
                "shm" => format!("shm:{}", directory.path().join("kintsugi.shm").display()),
                _ => format!("{name}:127.0.0.1:{}", port().map_err(|e| Error::Io("a port".into(), e))?),
            };
            fabrics.push((name.clone(), address));
        }
        let mut server = Self::start_in(&format!("kintsugi {isolation}"), directory, |port, _| {
            let mut command = Command::new(&binary);
            command.args(["serve", "--port", &port.to_string(), "--shards", &shards, "--threads", &threads]);
            command.args(["--isolation", isolation, "--prepared-versions", prepared]);
            fabrics.iter().for_each(|(_, address)| {
                command.args(["--fabric", address]);
            });
            command
        })?;
        server.fabrics = fabrics;
        Ok(server)
    }

    /// The address of one of its fabrics.
    pub fn fabric(&self, name: &str) -> Option<&str> {
        self.fabrics.iter().find(|(n, _)| n == name).map(|(_, address)| address.as_str())
    }

    /// Starts `kintsugi serve` under callgrind, whose report goes to the standard error that [`Server::end`] returns.
    pub fn kintsugi_under_callgrind(c: &Common, isolation: &str) -> Result<Self> {
        let binary = Self::binary(c)?;
        let (shards, threads) = (c.shards.to_string(), c.threads.to_string());
        Self::start(&format!("kintsugi {isolation} under callgrind"), |port, _| {
            let mut command = Command::new("valgrind");
            command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(&binary);
            command.args(["serve", "--port", &port.to_string(), "--shards", &shards, "--threads", &threads]);
            // valgrind's own address space is small.
            command.args(["--isolation", isolation, "--region-size", "1gb"]).stderr(Stdio::piped());
            command
        })
    }

    /// Ends the server with SIGTERM and returns its standard error, if that was kept.
    pub fn end(mut self) -> Result<String> {
        let io = |e: std::io::Error| Error::Io(self.name.clone(), e);
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).map_err(|e| io(e.into()))?;
        let mut text = String::new();
        if let Some(mut pipe) = self.child.stderr.take() {
            pipe.read_to_string(&mut text).map_err(io)?;
        }
        self.child.wait().map_err(|e| Error::Io(self.name.clone(), e))?;
        Ok(text)
    }

    fn binary(c: &Common) -> Result<std::path::PathBuf> {
        Self::program(c.server.as_deref())
    }

    fn program(path: Option<&Path>) -> Result<std::path::PathBuf> {
        match path {
            Some(path) => path.canonicalize().map_err(|e| Error::Io(path.display().to_string(), e)),
            None => std::env::current_exe().map_err(|e| Error::Io("this program".into(), e)),
        }
    }

    fn start(name: &str, command: impl Fn(u16, &Path) -> Command) -> Result<Self> {
        let directory = tempdir::Directory::new().map_err(|e| Error::Io(name.to_owned(), e))?;
        let server = Self::start_in(name, directory, command)?;
        server.pin()?;
        Ok(server)
    }

    fn start_in(
        name: &str,
        directory: tempdir::Directory,
        command: impl Fn(u16, &Path) -> Command,
    ) -> Result<Self> {
        let io = |e| Error::Io(name.to_owned(), e);
        let address = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).map_err(io)?;
        let child = command(address.port(), directory.path())
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(io)?;
        let fabrics = Vec::new();
        let mut server = Self { name: name.to_owned(), address, fabrics, child, _directory: directory };
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Ok(mut s) = TcpStream::connect(address) {
                let mut pong = [0; 7];
                if s.write_all(b"PING\r\n").and_then(|()| s.read_exact(&mut pong)).is_ok()
                    && &pong == b"+PONG\r\n"
                {
                    break;
                }
            }
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(Error::Reply(format!("{name} ended at once ({status})")));
            }
            if Instant::now() > deadline {
                return Err(Error::Reply(format!("{name} does not answer on {address}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Keeps every thread of the server on one core.
    fn pin(&self) -> Result<()> {
        let mut one = CpuSet::new();
        one.set(SERVER_CORE);
        for tid in self.threads()? {
            rustix::thread::sched_setaffinity(Pid::from_raw(tid), &one)
                .map_err(|e| Error::Io("pinning".into(), e.into()))?;
        }
        Ok(())
    }

    fn threads(&self) -> Result<Vec<i32>> {
        let path = format!("/proc/{}/task", self.child.id());
        let dir = std::fs::read_dir(&path).map_err(|e| Error::Io(path.clone(), e))?;
        Ok(dir.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).collect())
    }

    /// CPU time that the server has used, in seconds.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let mut ns = 0u64;
        for tid in self.threads()? {
            let path = format!("/proc/{}/task/{tid}/schedstat", self.child.id());
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            ns += text.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(ns as f64 / 1e9)
    }

    /// Resident memory in bytes.
    pub fn resident(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let kb = text
            .lines()
            .find_map(|l| l.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<u64>().ok());
        kb.unwrap_or(0) * 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keeps the calling thread off the servers' core, if there is another.
pub fn leave_the_servers_core() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores > 1 {
        let mut others = CpuSet::new();
        (0..cores.min(CpuSet::MAX_CPU)).filter(|&c| c != SERVER_CORE).for_each(|c| others.set(c));
        let _ = rustix::thread::sched_setaffinity(None, &others);
    }
}

mod tempdir {
    //! A directory of our own that goes when dropped.
    use std::path::{Path, PathBuf};

    pub struct Directory(PathBuf);

    impl Directory {
        pub fn new() -> std::io::Result<Self> {
            use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
            static N: AtomicU32 = AtomicU32::new(0);
            let name = format!("kintsugi-bench-{}-{}", std::process::id(), N.fetch_add(1, Relaxed));
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&path)?;
            Ok(Self(path))
        }

        pub fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
