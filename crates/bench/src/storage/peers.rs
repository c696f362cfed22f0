//! The peers, where they are installed: fio on the local file, and nbdkit over a Unix socket and over TCP with fio's nbd engine.
use super::StorageArgs;
use super::point::Outcome;
use super::process::Process;
use crate::{Error, Result};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A peer.
pub enum Peer {
    /// fio's io_uring engine on the file.
    Fio,
    /// nbdkit's file plugin; its process, and its address for fio.
    Nbdkit(Process, String),
}

fn installed(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// Those that are there, with their names.
pub fn start(args: &StorageArgs, file: &Path, dir: &Path) -> Result<Vec<(String, Peer)>> {
    let mut peers = Vec::new();
    if args.no_peers || !installed("fio") {
        return Ok(peers);
    }
    peers.push(("fio, local".to_owned(), Peer::Fio));
    let engines = Command::new("fio").arg("--enghelp").output().map_err(|e| Error::Io("fio".into(), e))?;
    let speaks_nbd = String::from_utf8_lossy(&engines.stdout).split_whitespace().any(|e| e == "nbd");
    if !installed("nbdkit") || !speaks_nbd {
        return Ok(peers);
    }
    let socket = dir.join("nbd.sock");
    let serve = |how: &[&str]| -> Result<Process> {
        let mut command = Command::new("nbdkit");
        command.args(["--foreground", "--readonly"]).args(how).arg("file").arg(file);
        if !args.cached {
            // It has no direct I/O: what it reads it is told to drop, so that its reads come from the disk, too.
            command.arg("cache=none");
        }
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Process::new(child.map_err(|e| Error::Io("nbdkit".into(), e))?))
    };
    let path = socket.display().to_string();
    let unix = serve(&["--unix", &path])?;
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .map_err(|e| Error::Io("a port".into(), e))?
        .port();
    let tcp = serve(&["--ipaddr", "127.0.0.1", "--port", &port.to_string()])?;
    let begun = Instant::now();
    let ready = || socket.exists() && std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    while !ready() {
        if begun.elapsed() > Duration::from_secs(10) {
            return Ok(peers);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    peers.push(("nbdkit, unix".to_owned(), Peer::Nbdkit(unix, format!("nbd+unix:///?socket={path}"))));
    peers.push(("nbdkit, tcp".to_owned(), Peer::Nbdkit(tcp, format!("nbd://127.0.0.1:{port}"))));
    Ok(peers)
}

impl Peer {
    /// Random reads of one size.
    pub fn random(&self, args: &StorageArgs, file: &Path, bytes: u32) -> Result<Outcome> {
        let mut command = Command::new("fio");
        command.args([
            "--name=peer",
            "--rw=randread",
            "--output-format=terse",
            "--terse-version=3",
            "--time_based",
        ]);
        command.arg(format!("--bs={bytes}")).arg(format!("--iodepth={}", args.depth));
        command.arg(format!("--runtime={}", args.seconds.ceil().max(1.0)));
        command.arg(format!("--size={}M", args.megabytes));
        match self {
            Peer::Fio => {
                command.arg("--ioengine=io_uring").arg(format!("--filename={}", file.display()));
                command.args(["--readonly", if args.cached { "--direct=0" } else { "--direct=1" }]);
                if args.cached {
                    command.arg("--invalidate=0");
                }
            }
            Peer::Nbdkit(_, uri) => drop(command.arg("--ioengine=nbd").arg(format!("--uri={uri}"))),
        }
        let server = || match self {
            Peer::Fio => 0.0,
            Peer::Nbdkit(process, _) => process.cpu_seconds(),
        };
        let before = server();
        let out = command.output().map_err(|e| Error::Io("fio".into(), e))?;
        let text = String::from_utf8_lossy(&out.stdout);
        let line = text.lines().find(|l| l.starts_with("3;fio")).ok_or_else(|| {
            Error::Reply(format!("fio did not measure: {}", String::from_utf8_lossy(&out.stderr).trim()))
        })?;
        let fields: Vec<&str> = line.split(';').collect();
        let number = |at: usize| {
            fields.get(at).and_then(|f| f.trim_end_matches('%').parse::<f64>().ok()).unwrap_or(0.0)
        };
        let quantile = |name: &str| {
            let found = fields.iter().find_map(|f| f.strip_prefix(name)?.strip_prefix('='));
            found.and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0)
        };
        // Terse version 3: reads a second, and the run's milliseconds; CPU time of user and system in per cent.
        let (iops, seconds) = (number(7), number(8) / 1e3);
        let cpu = (number(87) + number(88)) / 100.0;
        Ok(Outcome {
            iops,
            client_us: cpu * 1e6 / iops.max(1.0),
            server_us: (server() - before) * 1e6 / (iops * seconds).max(1.0),
            p50_us: quantile("50.000000%"),
            p99_us: quantile("99.000000%"),
            p999_us: quantile("99.900000%"),
            seconds,
        })
    }
}
