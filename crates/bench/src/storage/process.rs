//! Child processes that serve: their start, their addresses, their CPU time.
use crate::{Error, Result};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A child process. It ends when dropped.
pub struct Process {
    child: Child,
}

impl Process {
    pub fn new(child: Child) -> Process {
        Process { child }
    }

    /// CPU time of all of its threads, also of those that have ended, in seconds; in steps of a clock tick.
    pub fn cpu_seconds(&self) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // The name in brackets can hold anything; user and system time are fields 14 and 15.
        let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).filter_map(|f| f.parse::<u64>().ok()).sum();
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running `kintsugi target`.
pub struct Target {
    pub process: Process,
    addresses: Vec<String>,
}

impl Target {
    /// Exports a file as `data`, and nothing as `dummy`.
    pub fn start(
        file: &Path,
        bytes: u64,
        cached: bool,
        engine: &str,
        pin: bool,
        socket: &Path,
    ) -> Result<Target> {
        let program = std::env::current_exe().map_err(|e| Error::Io("this program".into(), e))?;
        let mut command = Command::new(program);
        command.arg("target").args(["--engine", engine, "--fabric", "tcp:127.0.0.1:0"]);
        command.arg("--fabric").arg(format!("shm:{}", socket.display()));
        let cached = if cached { ",cached" } else { "" };
        command.arg("--volume").arg(format!("data={}{cached}", file.display()));
        command.arg("--volume").arg(format!("dummy=dummy:{bytes}"));
        if pin {
            command.arg("--pin");
        }
        let io = |e| Error::Io("kintsugi target".into(), e);
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(io)?;
        let out = child.stdout.take();
        let process = Process::new(child);
        let mut addresses = Vec::new();
        for line in out.into_iter().flat_map(|o| BufReader::new(o).lines()) {
            let line = line.map_err(io)?;
            if line == "ready" {
                return Ok(Target { process, addresses });
            }
            addresses.extend(line.strip_prefix("listening on ").map(str::to_owned));
        }
        Err(Error::Reply(format!("kintsugi target --engine {engine} ended at once")))
    }

    /// Where it listens with this fabric.
    pub fn address(&self, fabric: &str) -> Result<kintsugidb_fabric::Address> {
        let found = self.addresses.iter().find(|a| a.starts_with(&format!("{fabric}:")));
        let text = found.ok_or_else(|| Error::Reply(format!("the target has no fabric {fabric}")))?;
        text.parse().map_err(|e| Error::Reply(format!("{text}: {e}")))
    }
}

/// A directory that goes when this is dropped.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new(within: &Path) -> Result<Directory> {
        let path = within.join(format!("kintsugi-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|e| Error::Io(path.display().to_string(), e))?;
        Ok(Directory(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
