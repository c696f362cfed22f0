//! `kintsugi demo`: half-visible writes counted with isolation off, then on.
//!
//! Two servers run one after the other, in their own processes, with the same shards and threads; only `--isolation`
//! differs. Writers give eight keys on different shards one new number, in one MSET or in one MULTI over four types of
//! value; readers read them back in one MGET or MULTI. All numbers of a read must be equal: every transaction writes them
//! all. A read in which they are not saw half of somebody's write. Whatever is printed was counted in this run.
use indicatif::{ProgressBar, ProgressStyle};
use kintsugidb_wire::{Client, Value};
use std::{
    net::{SocketAddr, TcpListener},
    process::{Child, Command, ExitCode, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// The port that Redis clients try first.
const REDIS_PORT: u16 = 6379;
const SHARDS: usize = 16;
const WRITERS: usize = 2;
const READERS: usize = 2;
/// Keys of one MSET or MGET.
const KEYS: usize = 8;

/// What to show, and whether to stay.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Seconds of load for each of the two servers.
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// End when the verdict is printed, instead of leaving the server up.
    #[arg(long)]
    exit: bool,
    /// Port of the server that stays up; by default 6379, or a free one if that is taken.
    #[arg(long)]
    port: Option<u16>,
}

/// What stops the demo.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}: {1}")]
    Io(&'static str, #[source] std::io::Error),
    #[error("the server does not answer on {0}")]
    Silent(SocketAddr),
    #[error("unexpected reply: {0}")]
    Reply(String),
}

type Result<T> = std::result::Result<T, Error>;

/// A server process; killed when dropped.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(port: u16, isolation: &str) -> Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let threads = std::thread::available_parallelism().map_or(2, usize::from).max(2);
        let program = std::env::current_exe().map_err(|e| Error::Io("finding this program", e))?;
        let child = Command::new(program)
            .args(["serve", "--port", &port.to_string(), "--isolation", isolation])
            .args(["--shards", &SHARDS.to_string(), "--threads", &threads.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|e| Error::Io("starting a server", e))?;
        let server = Self { child, address };
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            if let Ok(mut c) = Client::connect(address)
                && c.call(&[b"PING"]).is_ok()
            {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(Error::Silent(address))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What was counted on one server.
#[derive(Default)]
struct Counts {
    writes: AtomicU64,
    reads: AtomicU64,
    fractured: AtomicU64,
    example: Mutex<Option<String>>,
}

/// The two kinds of transaction.
#[derive(Clone, Copy)]
enum Kind {
    /// MSET and MGET of eight strings.
    Strings,
    /// MULTI over a string, a hash, a set's neighbour and a sorted set.
    Structures,
}

/// Eight keys; their slots put them on different shards.
fn keys() -> Vec<Vec<u8>> {
    (0..KEYS).map(|i| format!("demo:{i}").into_bytes()).collect()
}

/// Sends commands in one write and returns their replies.
fn pipeline(c: &mut Client, commands: &[&[&[u8]]]) -> Result<Vec<Value>> {
    commands.iter().for_each(|command| c.push(command));
    c.receive_many(commands.len()).map_err(|e| Error::Io("talking to the server", e))
}

fn write(c: &mut Client, kind: Kind, n: u64) -> Result<()> {
    let n = n.to_string();
    let n = n.as_bytes();
    let replies = match kind {
        Kind::Strings => {
            let keys = keys();
            let mut args: Vec<&[u8]> = vec![b"MSET"];
            keys.iter().for_each(|k| args.extend([&k[..], n]));
            pipeline(c, &[&args])?
        }
        Kind::Structures => pipeline(
            c,
            &[
                &[b"MULTI"],
                &[b"SET", b"order:state", n],
                &[b"HSET", b"customer:orders", b"latest", n],
                &[b"ZADD", b"orders:by-number", n, b"latest"],
                &[b"HSET", b"warehouse:orders", b"latest", n],
                &[b"EXEC"],
            ],
        )?,
    };
    match replies.last() {
        Some(Value::Error(e)) => Err(Error::Reply(e.clone())),
        _ => Ok(()),
    }
}

fn read(c: &mut Client, kind: Kind) -> Result<Vec<String>> {
    let reply = match kind {
        Kind::Strings => {
            let keys = keys();
            let mut args: Vec<&[u8]> = vec![b"MGET"];
            args.extend(keys.iter().map(|k| &k[..]));
            pipeline(c, &[&args])?
        }
        Kind::Structures => pipeline(
            c,
            &[
                &[b"MULTI"],
                &[b"GET", b"order:state"],
                &[b"HGET", b"customer:orders", b"latest"],
                &[b"ZSCORE", b"orders:by-number", b"latest"],
                &[b"HGET", b"warehouse:orders", b"latest"],
                &[b"EXEC"],
            ],
        )?,
    };
    match reply.into_iter().last() {
        Some(Value::Array(values)) => Ok(values.iter().map(text).collect()),
        other => Err(Error::Reply(format!("{other:?}"))),
    }
}

fn text(v: &Value) -> String {
    match v {
        Value::Bulk(b) => String::from_utf8_lossy(b).into_owned(),
        Value::Null => "(nil)".into(),
        other => format!("{other:?}"),
    }
}

/// Runs writers and readers against one server for a time.
fn load(server: &Server, seconds: u64, bar: &ProgressBar) -> Result<Counts> {
    let counts = Counts::default();
    let stop = AtomicBool::new(false);
    let failed: Mutex<Option<Error>> = Mutex::new(None);
    let numbers = AtomicU64::new(1);
    let connect = || Client::connect(server.address).map_err(|e| Error::Io("connecting", e));
    for kind in [Kind::Strings, Kind::Structures] {
        write(&mut connect()?, kind, 0)?;
    }
    let run = |work: &dyn Fn(&mut Client, Kind) -> Result<()>| {
        let result = connect().and_then(|mut c| {
            let mut kinds = [Kind::Strings, Kind::Structures].into_iter().cycle();
            while !stop.load(Relaxed) {
                work(&mut c, kinds.next().unwrap_or(Kind::Strings))?;
            }
            Ok(())
        });
        if let Err(e) = result {
            stop.store(true, Relaxed);
            failed.lock().unwrap_or_else(|p| p.into_inner()).get_or_insert(e);
        }
    };
    std::thread::scope(|s| {
        for _ in 0..WRITERS {
            s.spawn(|| {
                run(&|c, kind| {
                    write(c, kind, numbers.fetch_add(1, Relaxed))?;
                    counts.writes.fetch_add(1, Relaxed);
                    Ok(())
                });
            });
        }
        for _ in 0..READERS {
            s.spawn(|| {
                run(&|c, kind| {
                    let seen = read(c, kind)?;
                    counts.reads.fetch_add(1, Relaxed);
                    if seen.iter().any(|v| *v != seen[0]) {
                        counts.fractured.fetch_add(1, Relaxed);
                        let mut example = counts.example.lock().unwrap_or_else(|p| p.into_inner());
                        example.get_or_insert_with(|| seen.join(" "));
                    }
                    Ok(())
                });
            });
        }
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end && !stop.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
            bar.inc(1);
            bar.set_message(format!(
                "{} reads, {} fractured",
                counts.reads.load(Relaxed),
                counts.fractured.load(Relaxed)
            ));
        }
        stop.store(true, Relaxed);
    });
    match failed.into_inner().unwrap_or_else(|p| p.into_inner()) {
        Some(e) => Err(e),
        None => Ok(counts),
    }
}

/// A port that nobody listens on now.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
    listener.map(|a| a.port()).map_err(|e| Error::Io("looking for a free port", e))
}

/// Runs the demo.
pub fn run(o: &Options) -> Result<ExitCode> {
    println!(
        "{KEYS} keys on {SHARDS} shards. Writers set them all to one number in one MSET, or four keys of three types in one MULTI;"
    );
    println!(
        "readers read them back in one MGET or MULTI. A read with different numbers saw half of a write.\n"
    );
    let style = ProgressStyle::with_template("{prefix:26} {bar:32} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let measure = |isolation: &'static str, port: u16| -> Result<(Server, Counts)> {
        let bar = ProgressBar::new(o.seconds * 10).with_style(style.clone());
        bar.set_prefix(format!("--isolation {isolation}"));
        let server = Server::start(port, isolation)?;
        let counts = load(&server, o.seconds, &bar)?;
        bar.finish();
        Ok((server, counts))
    };
    let (server, off) = measure("none", free_port()?)?;
    drop(server);
    let port = match o.port {
        Some(port) => port,
        None if TcpListener::bind(("127.0.0.1", REDIS_PORT)).is_ok() => REDIS_PORT,
        None => free_port()?,
    };
    let (mut server, on) = measure("fast", port)?;

    println!("\n| isolation        | writes  | reads   | fractured reads |");
    println!("|------------------|---------|---------|-----------------|");
    for (name, c) in [("none", &off), ("fast (RAMP-Fast)", &on)] {
        let (w, r, f) = (c.writes.load(Relaxed), c.reads.load(Relaxed), c.fractured.load(Relaxed));
        println!("| {name:16} | {w:7} | {r:7} | {f:15} |");
    }
    if let Some(example) = off.example.lock().unwrap_or_else(|p| p.into_inner()).as_ref() {
        println!("\nA fractured read of `none`: {example}");
    }
    let (bad_off, bad_on) = (off.fractured.load(Relaxed), on.fractured.load(Relaxed));
    let code = if bad_on > 0 {
        println!("\nVerdict: BROKEN. RAMP-Fast let {bad_on} fractured reads through. Please report this.");
        ExitCode::FAILURE
    } else if bad_off == 0 {
        println!(
            "\nVerdict: nothing shown. No read was fractured even without isolation; try --seconds {}.",
            o.seconds * 4
        );
        ExitCode::SUCCESS
    } else {
        println!(
            "\nVerdict: without isolation {bad_off} reads saw half of a write; with RAMP-Fast none of {} did, and no client held a lock.",
            on.reads.load(Relaxed)
        );
        ExitCode::SUCCESS
    };
    if o.exit || code == ExitCode::FAILURE {
        return Ok(code);
    }
    println!("\nThe server with RAMP-Fast is still up on {}. Try, in another terminal:\n", server.address);
    for line in ["MSET user:1 Ada email:ada@example.org 1", "MGET user:1 email:ada@example.org", "INFO ramp"]
    {
        println!("  redis-cli -p {port} {line}");
    }
    println!("\nCtrl-C ends it.");
    let _ = server.child.wait();
    Ok(code)
}
