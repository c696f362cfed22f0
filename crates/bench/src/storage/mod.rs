//! The experiments on remote I/O (*remote-io-2020*, *remote-io-and-queries-2021*): what a disaggregated block costs.
//!
//! ```text
//!   b1  local random reads of 512 B, by threads (2020, figure 5)
//!   b2  the fabric alone, by connections, with and without cores of their own (figure 6)
//!   b3  remote reads of 512 B by connections: dynamic, static, io_uring (figures 7 to 9)
//!   b4  the reads of TPC-H Q3 replayed, 16 KiB and 512 B, local and remote, with and without a cache (figures 10 to 13)
//!   b5  local, fabric alone and remote by size, beside fio and nbdkit (2021, figures 8 to 14, table 2)
//!   b6  replay against random reads by size and connections (figures 15 to 19)
//! ```
//! One loop ([`kintsugidb_storage::replay::drive`]) drives all of them. Targets are child processes. Rounds of the compared systems
//! alternate; figures are medians. Each point has its CPU time a read on both sides and its latencies, in `DIR/ID-detail.csv`.

mod figures;
mod peers;
mod point;
mod process;
mod tpch;

pub(crate) use figures::{Which, run};

use clap::Args;
use std::path::PathBuf;

/// What the experiments on remote I/O take.
#[derive(Debug, Args, Clone)]
pub(crate) struct StorageArgs {
    /// Where the file that is read is made, and removed again; on the disk to be measured.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// MiB of that file.
    #[arg(long, default_value_t = 256)]
    megabytes: u64,
    /// Seconds a round.
    #[arg(long, default_value_t = 0.7)]
    seconds: f64,
    /// Rounds of each point.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Fabrics: shm, tcp.
    #[arg(long, value_delimiter = ',', default_value = "shm,tcp")]
    fabrics: Vec<String>,
    /// Bytes of a read.
    #[arg(long, value_delimiter = ',', default_value = "512,4096,16384,65536")]
    sizes: Vec<u32>,
    /// Reads under way, over all connections.
    #[arg(long, default_value_t = 32)]
    depth: usize,
    /// Threads of the static pool.
    #[arg(long, default_value_t = 8)]
    threads: usize,
    /// Connections, where they are not what is varied.
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// Reads through the page cache, which is warm then, instead of around it.
    #[arg(long)]
    cached: bool,
    /// Keeps the client and the target on a core each.
    #[arg(long)]
    pin: bool,
    /// Leaves fio and nbdkit out.
    #[arg(long)]
    no_peers: bool,
    /// Size of the tables for the replays; 1 is the standard's smallest.
    #[arg(long, default_value_t = 0.02)]
    scale: f64,
    /// Directory for tables and plots.
    #[arg(long, default_value = "results")]
    out: PathBuf,
}
