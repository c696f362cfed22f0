//! `kintsugi bench`: what Kintsugi costs and gains, each figure beside its baseline in the same run.
//!
//! ```text
//!   redis       MGET, MSET, GET, SET against redis-server, the same client, each server on one core
//!   isolation   RAMP-Fast, Small, Hybrid and locking against none
//!   instructions what the algorithms cost single-key commands (valgrind)
//!   memory      bytes a key, by shape, against redis-server
//!   b1 … b6     the figures on remote I/O: local, fabric alone and remote reads; fio and nbdkit where they are installed
//!   a1 … a4     the figures of RAMP over RDMA: client processes over tcp and shm (verbs, rdma)
//! ```
//! Servers are child processes on loopback, pinned to one core; the client runs on another. Rounds of the compared
//! servers alternate, so that what else the machine does falls on both; the figures are medians. A rate is given a
//! second of wall time and a second of the server's CPU time (from the scheduler's accounting, in nanoseconds).
mod card;
mod compare;
mod figure;
mod instructions;
mod isolation;
mod load;
mod memory;
mod papers;
mod process;
mod storage;
mod table;
mod ycsb;

use clap::{Args, Parser, Subcommand};

/// What stops a benchmark.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server does not start, or a socket fails.
    #[error("{0}: {1}")]
    Io(String, #[source] std::io::Error),
    /// A server answered something else than was asked for.
    #[error("{0}")]
    Reply(String),
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// `kintsugi bench`
#[derive(Debug, Parser)]
#[command(name = "kintsugi bench", about = "Measure Kintsugi beside its baselines")]
pub struct Bench {
    #[command(subcommand)]
    figure: Figure,
}

#[derive(Debug, Subcommand)]
enum Figure {
    /// MGET and MSET of 8 keys, GET and SET, against redis-server.
    Redis(Common),
    /// The isolation algorithms against none: 8 keys a transaction, 95 % reads.
    Isolation(Common),
    /// Instructions of single-key commands with each isolation (valgrind).
    Instructions(Common),
    /// Bytes a key against redis-server.
    Memory(MemoryArgs),
    /// RAMP over fabrics: 95 % reads, 8 operations a transaction (RAMP over RDMA, figure 4).
    A1(papers::PaperArgs),
    /// Transaction size (figure 5).
    A2(papers::PaperArgs),
    /// Read share (figure 6).
    A3(papers::PaperArgs),
    /// YCSB (figure 7), and its core workloads.
    A4(papers::PaperArgs),
    /// Local random reads of 512 B by threads (remote I/O 2020, figure 5).
    B1(storage::StorageArgs),
    /// The fabric alone, by connections (figure 6).
    B2(storage::StorageArgs),
    /// Remote reads of 512 B: dynamic, static, io_uring (figures 7 to 9).
    B3(storage::StorageArgs),
    /// The reads of TPC-H Q3 replayed, local and remote (figures 10 to 13).
    B4(storage::StorageArgs),
    /// Local, fabric alone and remote by size, beside fio and nbdkit (remote I/O 2021, figures 8 to 14).
    B5(storage::StorageArgs),
    /// Replay against random reads (figures 15 to 19).
    B6(storage::StorageArgs),
    /// One client process of the figures above.
    #[command(hide = true)]
    Client(papers::ClientArgs),
}

/// What every figure takes.
#[derive(Debug, Args, Clone)]
pub(crate) struct Common {
    /// The server's binary (default: this program).
    #[arg(long)]
    server: Option<std::path::PathBuf>,
    /// Rounds of each compared server.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds a round.
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,
    /// Keys.
    #[arg(long, default_value_t = 100_000)]
    keys: u64,
    /// Bytes of a value.
    #[arg(long, default_value_t = 64)]
    value: usize,
    /// Keys a transaction.
    #[arg(long, default_value_t = 8)]
    size: usize,
    /// Shards of Kintsugi.
    #[arg(long, default_value_t = 16)]
    shards: u16,
    /// Threads of Kintsugi.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Connections.
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// Directory for the raw rows as CSV.
    #[arg(long, default_value = "results")]
    out: std::path::PathBuf,
}

#[derive(Debug, Args, Clone)]
pub(crate) struct MemoryArgs {
    #[command(flatten)]
    common: Common,
    /// Elements of the large collections.
    #[arg(long, default_value_t = 100_000)]
    elements: u64,
}

/// Runs one figure and prints it.
pub fn run(bench: Bench) -> std::result::Result<(), Error> {
    if let Figure::Client(c) = &bench.figure {
        return papers::run_client(c);
    }
    println!("{}", card::machine());
    match bench.figure {
        Figure::Redis(c) => compare::run(&c),
        Figure::Isolation(c) => isolation::run(&c),
        Figure::Instructions(c) => instructions::run(&c),
        Figure::Memory(m) => memory::run(&m),
        Figure::A1(a) => papers::run(papers::Which::A1, &a),
        Figure::A2(a) => papers::run(papers::Which::A2, &a),
        Figure::A3(a) => papers::run(papers::Which::A3, &a),
        Figure::A4(a) => papers::run(papers::Which::A4, &a),
        Figure::B1(a) => storage::run(storage::Which::B1, &a),
        Figure::B2(a) => storage::run(storage::Which::B2, &a),
        Figure::B3(a) => storage::run(storage::Which::B3, &a),
        Figure::B4(a) => storage::run(storage::Which::B4, &a),
        Figure::B5(a) => storage::run(storage::Which::B5, &a),
        Figure::B6(a) => storage::run(storage::Which::B6, &a),
        Figure::Client(c) => papers::run_client(&c),
    }
}
