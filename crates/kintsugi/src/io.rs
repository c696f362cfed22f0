//! `kintsugi io`: lists, describes, copies, checks, trims and replays volumes of a target.

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use kintsugidb_fabric::{Address, ConnectOptions};
use kintsugidb_storage::trace::Trace;
use kintsugidb_storage::{Remote, RemoteFile, RemoteOptions, limits, replay};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Flags of `kintsugi io`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Lists the volumes that the user may open.
    List(Target),
    /// Says how long a volume is, and whether it may be written.
    Stat(Volume),
    /// Copies between a file and a volume: FROM and TO are a path, or `:` for the volume.
    Copy {
        #[command(flatten)]
        volume: Volume,
        /// A path, or `:` for the volume.
        from: String,
        /// A path, or `:` for the volume.
        to: String,
    },
    /// Reads a whole volume, and prints its CRC-32C; with a file, says where they differ.
    Verify {
        #[command(flatten)]
        volume: Volume,
        /// A file to compare with.
        #[arg(long)]
        file: Option<PathBuf>,
    },
    /// Says that a range of a volume holds nothing of value: its space is given back, and it reads as zeros.
    Trim {
        #[command(flatten)]
        volume: Volume,
        /// The range's first byte.
        #[arg(long)]
        offset: u64,
        /// Bytes of the range.
        #[arg(long)]
        bytes: u64,
    },
    /// Replays the reads of a trace (spec/trace.md) on a volume.
    Replay {
        #[command(flatten)]
        volume: Volume,
        /// The trace, as CSV or binary.
        trace: PathBuf,
        /// Bytes of a block: reads are of whole blocks.
        #[arg(long, default_value_t = 16384)]
        block: u32,
        /// Threads, each with connections of its own; they take the reads in turn.
        #[arg(long, default_value_t = 1)]
        threads: usize,
        /// Connections of each thread.
        #[arg(long, default_value_t = 1)]
        connections: usize,
        /// Reads under way on each thread.
        #[arg(long, default_value_t = 32)]
        depth: usize,
        /// Microseconds to think after each read.
        #[arg(long, default_value_t = 0)]
        think: u64,
    },
    /// Makes a trace of what `strace -f -ttt -y -e trace=pread64,pwrite64` wrote.
    Trace {
        /// strace's output.
        strace: PathBuf,
        /// The trace; with the suffix .csv as CSV, else in the binary form.
        out: PathBuf,
        /// Only files whose path ends so.
        #[arg(long)]
        only: Option<String>,
    },
}

#[derive(Debug, Args)]
struct Target {
    /// Where the target listens: shm:/path/to.sock, tcp:host:port, verbs:host:port, rdma:host:port.
    #[arg(long, value_name = "ADDRESS")]
    fabric: Address,
    /// The user.
    #[arg(long, default_value = "default")]
    user: String,
    /// A file with the password; its last line break does not count.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Seconds that a request may take, and to connect.
    #[arg(long, default_value_t = 10)]
    timeout: u64,
}

#[derive(Debug, Args)]
struct Volume {
    #[command(flatten)]
    target: Target,
    /// The volume's name.
    #[arg(long)]
    volume: String,
}

impl Target {
    fn connect_options(&self) -> Result<ConnectOptions, String> {
        let (user, handshake) = (self.user.clone().into_bytes(), Duration::from_secs(self.timeout));
        let mut options = ConnectOptions { user, handshake, ..ConnectOptions::default() };
        if let Some(path) = &self.password_file {
            let text = std::fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))?;
            options.password = text.trim_end_matches(['\r', '\n']).as_bytes().to_vec();
        }
        Ok(options)
    }

    fn connect(&self) -> Result<Arc<Remote>, String> {
        let mut options = RemoteOptions::new(self.fabric.clone());
        options.connect = self.connect_options()?;
        options.request = Duration::from_secs(self.timeout);
        Remote::connect(options).map_err(|why| why.to_string())
    }
}

impl Volume {
    fn open(&self) -> Result<RemoteFile, String> {
        self.target.connect()?.open(&self.volume).map_err(|why| format!("volume {}: {why}", self.volume))
    }
}

/// Does it.
pub fn run(options: Options) -> Result<(), String> {
    match options.what {
        What::List(target) => {
            for volume in target.connect()?.list().map_err(|why| why.to_string())? {
                describe(&volume.name, volume.bytes, volume.writable);
            }
            Ok(())
        }
        What::Stat(volume) => {
            let file = volume.open()?;
            describe(file.name(), file.len(), file.writable());
            Ok(())
        }
        What::Copy { volume, from, to } => match (from.as_str(), to.as_str()) {
            (":", ":") => Err("both sides are the volume".into()),
            (":", to) => copy_out(&volume.open()?, Path::new(to)),
            (from, ":") => copy_in(&volume.open()?, Path::new(from)),
            _ => Err("neither side is the volume; name it `:`".into()),
        },
        What::Verify { volume, file } => verify(&volume.open()?, file.as_deref()),
        What::Trim { volume, offset, bytes } => trim(&volume.open()?, offset, bytes),
        What::Replay { volume, trace, block, threads, connections, depth, think } => {
            let plan = Plan {
                block,
                threads: threads.max(1),
                connections: connections.max(1),
                depth: depth.max(1),
                think,
            };
            play(&volume, &trace, &plan)
        }
        What::Trace { strace, out, only } => {
            let text = std::fs::read(&strace).map_err(|why| format!("{}: {why}", strace.display()))?;
            let trace = Trace::from_strace(&String::from_utf8_lossy(&text), only.as_deref());
            let csv = out.extension().is_some_and(|e| e == "csv");
            let bytes = if csv { trace.to_csv().into_bytes() } else { trace.to_binary() };
            std::fs::write(&out, bytes).map_err(|why| format!("{}: {why}", out.display()))?;
            println!("{} accesses of {} files", trace.accesses.len(), trace.volumes.len());
            Ok(())
        }
    }
}

fn describe(name: &str, bytes: u64, writable: bool) {
    println!("{name}: {bytes} bytes, {}", if writable { "writable" } else { "read-only" });
}

/// Bytes that are asked for at once; the file cuts them into requests.
const PIECE: usize = 4 << 20;
const _: () = assert!(PIECE as u64 <= limits::REQUEST_BYTES);

fn progress(bytes: u64) -> ProgressBar {
    let bar = ProgressBar::new(bytes);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}")
    {
        bar.set_style(style);
    }
    bar
}

/// Reads all of a volume, piece by piece.
fn each_piece(
    file: &RemoteFile,
    mut with: impl FnMut(u64, &[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let bar = progress(file.len());
    let mut buffer = vec![0; PIECE];
    let mut at = 0;
    while at < file.len() {
        let length = (PIECE as u64).min(file.len() - at) as usize;
        file.read_exact_at(at, &mut buffer[..length]).map_err(|why| format!("at byte {at}: {why}"))?;
        with(at, &buffer[..length])?;
        at += length as u64;
        bar.set_position(at);
    }
    bar.finish_and_clear();
    Ok(())
}

fn copy_out(file: &RemoteFile, to: &Path) -> Result<(), String> {
    let wrong = |why| format!("{}: {why}", to.display());
    let mut out = std::fs::File::create(to).map_err(wrong)?;
    let mut sum = 0;
    each_piece(file, |_, bytes| {
        sum = crc32c::crc32c_append(sum, bytes);
        out.write_all(bytes).map_err(wrong)
    })?;
    out.sync_all().map_err(wrong)?;
    println!("{} bytes, CRC-32C {sum:08x}", file.len());
    Ok(())
}

fn copy_in(file: &RemoteFile, from: &Path) -> Result<(), String> {
    let wrong = |why| format!("{}: {why}", from.display());
    let mut source = std::fs::File::open(from).map_err(wrong)?;
    let bytes = source.metadata().map_err(wrong)?.len();
    if bytes > file.len() {
        return Err(format!("{} has {bytes} bytes, the volume only {}", from.display(), file.len()));
    }
    let bar = progress(bytes);
    let mut buffer = vec![0; PIECE];
    let (mut at, mut sum) = (0, 0);
    loop {
        let length = source.read(&mut buffer).map_err(wrong)?;
        if length == 0 {
            break;
        }
        sum = crc32c::crc32c_append(sum, &buffer[..length]);
        file.write_at(at, &buffer[..length]).map_err(|why| format!("at byte {at}: {why}"))?;
        at += length as u64;
        bar.set_position(at);
    }
    file.flush().wait().map_err(|why| format!("flush: {why}"))?;
    bar.finish_and_clear();
    println!("{at} bytes, CRC-32C {sum:08x}");
    Ok(())
}

fn verify(file: &RemoteFile, other: Option<&Path>) -> Result<(), String> {
    let local = match other {
        Some(path) => {
            let wrong = |why| format!("{}: {why}", path.display());
            let local = std::fs::File::open(path).map_err(wrong)?;
            let bytes = local.metadata().map_err(wrong)?.len();
            if bytes != file.len() {
                return Err(format!("{} has {bytes} bytes, the volume {}", path.display(), file.len()));
            }
            Some(local)
        }
        None => None,
    };
    let mut sum = 0;
    let mut buffer = vec![0; PIECE];
    each_piece(file, |at, bytes| {
        sum = crc32c::crc32c_append(sum, bytes);
        let Some(local) = &local else { return Ok(()) };
        let buffer = &mut buffer[..bytes.len()];
        local.read_exact_at(buffer, at).map_err(|why| format!("the file, at byte {at}: {why}"))?;
        match buffer.iter().zip(bytes).position(|(a, b)| a != b) {
            Some(first) => Err(format!("they differ at byte {}", at + first as u64)),
            None => Ok(()),
        }
    })?;
    println!("{} bytes, CRC-32C {sum:08x}{}", file.len(), if local.is_some() { ", the same" } else { "" });
    Ok(())
}

/// Bytes that one request trims.
const TRIM: u64 = 1 << 30;

fn trim(file: &RemoteFile, offset: u64, bytes: u64) -> Result<(), String> {
    // Said before anything is lost.
    let end = offset.checked_add(bytes).filter(|end| *end <= file.len());
    let end =
        end.ok_or_else(|| format!("the range is outside the volume, which has {} bytes", file.len()))?;
    if !file.writable() {
        return Err("the volume is read-only".into());
    }
    let mut at = offset;
    while at < end {
        let length = TRIM.min(end - at);
        file.trim(at, length as u32).wait().map_err(|why| format!("at byte {at}: {why}"))?;
        at += length;
    }
    file.flush().wait().map_err(|why| format!("flush: {why}"))?;
    println!("{bytes} bytes trimmed");
    Ok(())
}

struct Plan {
    block: u32,
    threads: usize,
    connections: usize,
    depth: usize,
    think: u64,
}

fn play(volume: &Volume, trace: &Path, plan: &Plan) -> Result<(), String> {
    let bytes = std::fs::read(trace).map_err(|why| format!("{}: {why}", trace.display()))?;
    let trace = Trace::parse(&bytes).map_err(|why| format!("{}: {why}", trace.display()))?;
    let reads = replay::blocks(&trace, plan.block, volume.open()?.len());
    let begun = Instant::now();
    let count: u64 = std::thread::scope(|scope| {
        let work = |number: usize| {
            let mut channels = Vec::new();
            for _ in 0..plan.connections {
                let mut channel = kintsugidb_storage::Channel::connect(
                    &volume.target.fabric,
                    &volume.target.connect_options()?,
                )
                .map_err(|why| why.to_string())?;
                let limit = Duration::from_secs(volume.target.timeout);
                let info = channel.open(&volume.volume, limit).map_err(|why| why.to_string())?;
                channels.push((channel, info.handle));
            }
            let mut mine = reads.iter().copied().skip(number).step_by(plan.threads);
            let mut backend = replay::Distant::new(channels, plan.depth, None);
            replay::drive(&mut backend, plan.depth, Duration::from_micros(plan.think), || mine.next(), |_| {})
                .map_err(|why| why.to_string())
        };
        let threads: Vec<_> = (0..plan.threads).map(|number| scope.spawn(move || work(number))).collect();
        threads
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|_| Err("a thread ended too early".into())))
            .sum::<Result<u64, String>>()
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{count} reads of {} bytes in {seconds:.3} s, {:.0} a second",
        plan.block,
        count as f64 / seconds
    );
    Ok(())
}
