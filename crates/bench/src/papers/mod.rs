//! The figures of *RAMP Transactions over RDMA* (figures 4 to 7), measured here: the same transactions, several client processes,
//! each way of access in turn.
//!
//! | figure | what | the paper's systems | here |
//! | --- | --- | --- | --- |
//! | a1 (4) | 95 % reads, 8 operations a transaction | Ethernet, IPoIB, verbs, RDMA | `tcp`, `shm`; `verbs`, `rdma` where there is a device; GET* beside it |
//! | a2 (5) | transaction size | S2PL, RAMP(GET,PUT) over IPoIB; RAMP(GET+,PUT+), RAMP(GET*,PUT+) over RDMA | the first two over `tcp`, the others over `shm` |
//! | a3 (6) | read share, size 8 | the same four | the same |
//! | a4 (7) | the same under YCSB: 1000 records of 1 KB, uniform | the same four | the same, and the core workloads A to F |
//!
//! The paper has 4 servers and 8 clients on 6 machines of one InfiniBand network. Here one server process has 4 shards, and clients and server
//! share a machine and its cores: rates say how the systems compare, and the CPU time of clients and server together,
//! which is given beside them, is what does not depend on who got the cores. With `--connect`, figure a1 has its server on another machine.
mod client;
mod drive;
mod report;

use crate::{
    Error, Result,
    figure::{Figure, Series},
    ycsb::{self, Distribution, Mix},
};
use drive::{Measured, Setting, System};
use std::path::PathBuf;

pub use client::ClientArgs;
pub(crate) use client::run as run_client;

/// What the figures of the paper take.
#[derive(Debug, clap::Args, Clone)]
pub struct PaperArgs {
    /// The server's binary (default: this program).
    #[arg(long)]
    server: Option<PathBuf>,
    /// Fabrics to measure; those that cannot be had here are left out, with a line that says why.
    #[arg(long, value_delimiter = ',', default_value = "tcp,shm")]
    fabrics: Vec<String>,
    /// Addresses of a server that runs already, on another machine perhaps, instead of servers started for the figure (a1 only; its
    /// CPU time is not counted then): tcp:HOST:PORT,rdma:HOST:PORT.
    #[arg(long, value_delimiter = ',', conflicts_with = "fabrics")]
    connect: Vec<String>,
    /// Operations of a transaction (a1 only: the others have their own).
    #[arg(long, default_value_t = 8)]
    size: usize,
    /// Client processes.
    #[arg(long, default_value_t = 8)]
    clients: u64,
    /// Shards ("servers" in the paper).
    #[arg(long, default_value_t = 4)]
    shards: u16,
    /// Threads of the server.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Records.
    #[arg(long, default_value_t = 1000)]
    records: u64,
    /// Bytes of a value (default: 8 for the micro-benchmark, 1000 under YCSB).
    #[arg(long)]
    value: Option<usize>,
    /// Seconds a round.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Rounds of each system at each position; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Directory for CSV and SVG.
    #[arg(long, default_value = "results")]
    out: PathBuf,
}

/// Which of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    A1,
    A2,
    A3,
    A4,
}

/// A position of a figure: its label, and what the clients do there.
struct Position {
    label: String,
    setting: Setting,
}

/// Measures one figure and publishes it.
pub(crate) fn run(which: Which, args: &PaperArgs) -> Result<()> {
    let ycsb = which == Which::A4;
    let value = args.value.unwrap_or(if ycsb { 1000 } else { 8 });
    let setting = |mix, distribution, size| Setting { mix, distribution, size, value, records: args.records };
    let reads = |percent: u32, size| setting(Mix::reads(percent), Distribution::Uniform, size);
    let at = |label: String, setting| Position { label, setting };
    if which != Which::A1 && !args.connect.is_empty() {
        return Err(Error::Reply(
            "--connect: figures a2 to a4 need servers of several settings, and start them".into(),
        ));
    }
    let systems = match which {
        Which::A1 if !args.connect.is_empty() => {
            args.connect.iter().filter_map(|address| address.split(':').next()).flat_map(bars).collect()
        }
        Which::A1 => args.fabrics.iter().flat_map(|f| bars(f)).collect(),
        _ => compared(&args.fabrics),
    };
    let positions: Vec<Position> = match which {
        Which::A1 => vec![at(format!("95 % reads, size {}", args.size), reads(95, args.size))],
        Which::A2 => [1, 2, 4, 8, 16, 32].map(|n| at(n.to_string(), reads(95, n))).into(),
        Which::A3 => [0, 25, 50, 75, 95, 100].map(|r| at(format!("{r} %"), reads(r, 8))).into(),
        Which::A4 => {
            let shares = [0, 50, 95, 100].map(|r| at(format!("{r} % reads"), reads(r, 8)));
            let core = ['A', 'B', 'C', 'D', 'E', 'F'].into_iter().filter_map(|letter| {
                let (mix, distribution) = ycsb::core(letter)?;
                Some(at(format!("YCSB {letter}"), setting(mix, distribution, 8)))
            });
            shares.into_iter().chain(core).collect()
        }
    };
    let measured = drive::measure(args, &systems, &positions.iter().map(|p| p.setting).collect::<Vec<_>>())?;
    if measured.is_empty() {
        return Err(Error::Reply("none of the fabrics can be had here".into()));
    }
    publish(which, args, &positions, &measured)
}

/// The bars of figure 4 for a fabric: messages; where it reads one-sidedly, also GET*, which the paper has in its other figures only.
fn bars(fabric: &str) -> Vec<System> {
    let mut systems = vec![System::messages(fabric, fabric, "fast")];
    if matches!(fabric, "shm" | "rdma") {
        systems.push(System::one_sided(&format!("{fabric}, one-sided reads"), fabric, "fast"));
    }
    systems
}

/// The four systems of figures 5 to 7, GET* with other ways of dealing with what is prepared, and what no isolation at all would give.
fn compared(fabrics: &[String]) -> Vec<System> {
    let fast = fabrics.iter().filter(|f| *f != "tcp");
    let mut systems = vec![
        System::messages("S2PL over tcp", "tcp", "locking"),
        System::one_by_one("RAMP(GET,PUT) over tcp", "tcp", "fast"),
    ];
    for fabric in fast {
        systems.push(System::messages(&format!("RAMP(GET+,PUT+) over {fabric}"), fabric, "fast"));
        let ramp = || System::one_sided(&format!("RAMP(GET*,PUT+) over {fabric}"), fabric, "fast");
        systems.push(ramp());
        // The paper's way: from prepare to commit every reader asks the owner. And the rule 22 of the protocol.
        systems.push(ramp().telling("invalidated"));
        systems.push(ramp().telling("shown"));
        systems.push(System::one_sided(&format!("none, one-sided over {fabric}"), fabric, "none"));
    }
    systems
}

/// The paper's number for a figure, in its words.
fn paper(which: Which) -> &'static str {
    match which {
        Which::A1 => "paper (figure 4), against Ethernet/TCP: IPoIB 1.32x, verbs 2.39x, RDMA 2.53x",
        Which::A2 => "paper (figure 5), against RAMP(GET,PUT), size 4: GET+/PUT+ 2.07x, GET*/PUT+ 2.78x",
        Which::A3 => "paper (figure 6), against RAMP(GET,PUT), 100 % reads: GET+/PUT+ 1.94x, GET*/PUT+ 2.69x",
        Which::A4 => "paper (figure 7), against RAMP(GET,PUT), 100 % reads: GET+/PUT+ 2.06x, GET*/PUT+ 2.67x",
    }
}

fn publish(
    which: Which,
    args: &PaperArgs,
    positions: &[Position],
    measured: &[(System, Vec<Measured>)],
) -> Result<()> {
    let (id, title) = match which {
        Which::A1 => ("a1", "RAMP over fabrics"),
        Which::A2 => ("a2", "Transaction size, 95 % reads"),
        Which::A3 => ("a3", "Read share, size 8"),
        Which::A4 => ("a4", "YCSB, size 8, 1000 records"),
    };
    let x = if which == Which::A2 { "size" } else { "workload" };
    let labels: Vec<String> = positions.iter().map(|p| p.label.clone()).collect();
    let baseline = if which == Which::A1 { "tcp" } else { "RAMP(GET,PUT) over tcp" };
    let base = measured.iter().find(|(s, _)| s.name == baseline).map(|(_, m)| m);
    let mut ratios = Vec::new();
    for (system, m) in measured.iter().filter(|(s, _)| s.name != baseline) {
        let Some(base) = base else { continue };
        let each = |of: fn(&Measured) -> f64| {
            let shown: Vec<String> =
                m.iter().zip(base).map(|(m, b)| format!("{:.2}x", of(m) / of(b))).collect();
            shown.join(" ")
        };
        ratios.push(format!(
            "{} against {baseline}: rate {}; per CPU second {}",
            system.name,
            each(|m| m.rate),
            each(|m| m.per_cpu)
        ));
    }
    let figure = |id, y, of: fn(&Measured) -> f64, notes| Figure {
        id,
        title: format!("{title} ({} clients, {} shards)", args.clients, args.shards),
        x,
        y,
        positions: labels.clone(),
        series: measured
            .iter()
            .map(|(s, m)| Series { name: s.name.clone(), values: m.iter().map(|m| Some(of(m))).collect() })
            .collect(),
        notes,
    };
    let mut notes = vec![paper(which).to_owned()];
    notes.extend(ratios);
    let files: [&'static str; 3] = match id {
        "a1" => ["a1", "a1-per-cpu", "a1-p99"],
        "a2" => ["a2", "a2-per-cpu", "a2-p99"],
        "a3" => ["a3", "a3-per-cpu", "a3-p99"],
        _ => ["a4", "a4-per-cpu", "a4-p99"],
    };
    figure(files[0], "transactions a second", |m| m.rate, notes).publish(&args.out)?;
    let cpu = if args.connect.is_empty() {
        "transactions a second of CPU, clients and server together"
    } else {
        "transactions a second of CPU, clients only"
    };
    figure(files[1], cpu, |m| m.per_cpu, Vec::new()).publish(&args.out)?;
    figure(files[2], "microseconds, 99th percentile", |m| m.p99_us, Vec::new()).publish(&args.out)?;
    drive::details(measured, &labels, &args.out, id)
}
