//! `kintsugi target`: exports volumes by remote I/O.

use clap::Args;
use kintsugidb_storage::engine::{FaultPlan, Kind};
use kintsugidb_storage::{Target, TargetOptions, User, VolumeOptions, limits};
use std::path::PathBuf;
use std::sync::Arc;

/// Flags of `kintsugi target`.
#[derive(Debug, Args)]
pub struct Options {
    /// A volume: NAME=PATH[,rw][,cached], of a file or a block device; read-only and around the page cache unless said otherwise.
    /// NAME=dummy:BYTES has nothing behind it, to measure the fabric alone.
    #[arg(long = "volume", required = true, value_name = "NAME=PATH")]
    volumes: Vec<VolumeOptions>,
    /// Where to listen: shm:/path/to.sock, tcp:host:port, verbs:host:port, rdma:host:port.
    #[arg(long = "fabric", required = true, value_name = "ADDRESS")]
    fabrics: Vec<kintsugidb_fabric::Address>,
    /// A user: NAME:PASSWORD[:VOLUME[=rw],…]. Other users of the machine can see it; see --users.
    #[arg(long = "user", value_name = "USER")]
    users: Vec<User>,
    /// A file with one user a line, as in --user; # begins a comment.
    #[arg(long, value_name = "FILE")]
    users_file: Option<PathBuf>,
    /// Allows connections from other hosts without any password.
    #[arg(long)]
    trust_network: bool,
    /// How to do I/O: uring, static[:THREADS], dynamic.
    #[arg(long, default_value_t = Kind::Uring)]
    engine: Kind,
    /// Threads that serve connections.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Bytes of each connection's data area over shared memory; a power of two.
    #[arg(long, default_value_t = limits::AREA_BYTES)]
    area: u64,
    /// Connections at one time.
    #[arg(long, default_value_t = limits::CONNECTIONS)]
    connections: usize,
    /// How often to look at a quiet connection before it falls asleep.
    #[arg(long, default_value_t = 50)]
    spin: u32,
    /// Keeps thread n on core n.
    #[arg(long)]
    pin: bool,
    /// Injects a fault, for drills: read:4096-8192:eio, write:0-512:enospc, read:0-4096:short=100.
    #[arg(long = "fault", value_name = "FAULT")]
    faults: Vec<FaultPlan>,
}

/// Serves until it is told to end (SIGTERM or SIGINT).
pub fn run(options: Options) -> Result<(), String> {
    let mut users = options.users;
    if let Some(path) = &options.users_file {
        let text = std::fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))?;
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
            users.push(line.parse().map_err(|why| format!("{}: {why}", path.display()))?);
        }
    }
    let exposed = options.fabrics.iter().find(|a| !local(a));
    if let (true, false, Some(address)) = (users.is_empty(), options.trust_network, exposed) {
        return Err(format!(
            "{address} can be reached by others; give it users (--user), or say --trust-network"
        ));
    }
    let mut signals =
        signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT])
            .map_err(|why| format!("signals: {why}"))?;
    let target = Target::start(TargetOptions {
        volumes: options.volumes,
        users,
        listen: options.fabrics,
        engine: options.engine,
        threads: options.threads,
        area_bytes: options.area,
        connections: options.connections,
        spin: options.spin,
        pin: options.pin,
        faults: options.faults,
        note: Arc::new(|text| eprintln!("kintsugi: {text}")),
    })
    .map_err(|why| why.to_string())?;
    for address in target.addresses() {
        println!("listening on {address}");
    }
    println!("ready");
    signals.forever().next();
    Ok(())
}

/// Whether only this host can connect.
fn local(address: &kintsugidb_fabric::Address) -> bool {
    use kintsugidb_fabric::Address;
    match address {
        Address::Shm(_) | Address::Sim(_) => true,
        Address::Tcp(at) | Address::Verbs(at) | Address::Rdma(at) => {
            let host = at.rsplit_once(':').map_or(at.as_str(), |(host, _)| host).trim_matches(['[', ']']);
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
    }
}
