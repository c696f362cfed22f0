//! One-sided reads and message round trips over each fabric, between two processes of one host; TCP over loopback is the baseline, in the
//! same run.
//!
//! `cargo bench -p kintsugidb-fabric --bench fabric [-- rounds]`. A line is the median and the 99th percentile of one operation, and the CPU
//! time of both processes together for each. `polling`: nobody sleeps; `sleeping`: both sides sleep between messages.

use kintsugidb_fabric::handshake::Hello;
use kintsugidb_fabric::{
    Access, Address, ConnectOptions, Connection, Error, Export, Grant, ListenOptions, Mapping, Peer, connect,
    listen,
};
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const REGION: u32 = 1;
const REGION_BYTES: u64 = 64 << 20;
const SECOND: Duration = Duration::from_secs(1);
const SLEEP: &[u8] = b"sleep from now on";

/// Echoes messages until the peer goes.
fn target(address: &Address) -> Result<(), Error> {
    let region = Arc::new(Mapping::create(REGION_BYTES)?);
    region.words().iter().for_each(|word| word.store(1, Ordering::Relaxed));
    region.seal_future_writes()?;
    let mut listener = listen(address, &ListenOptions::default())?;
    println!("{}", listener.address());
    let mut gate = |_: &Hello, _: &Peer| {
        let exports = vec![Export { id: REGION, access: Access::Read, memory: region.clone() }];
        Ok(Grant { exports, info: Vec::new() })
    };
    let mut connection = loop {
        match listener.accept(&mut gate)? {
            Some(accepted) => break accepted.connection,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let (mut message, mut sleeping) = (Vec::new(), true);
    loop {
        message.clear();
        match connection.receive(&mut message) {
            Ok(Some(_)) => {
                sleeping ^= message == SLEEP;
                connection.send(&message)?;
            }
            Ok(None) if sleeping => drop(connection.wait(SECOND)),
            Ok(None) => std::hint::spin_loop(),
            Err(_) => return Ok(()),
        }
    }
}

/// CPU time of a process so far, in nanoseconds, at the clock's ticks of 10 ms.
fn cpu_ns(pid: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) * 1e7
}

/// Times `rounds` operations in groups of `group`.
fn measure(
    fabric: &str,
    what: &str,
    pid: &str,
    rounds: usize,
    group: usize,
    mut operation: impl FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    for _ in 0..rounds / 10 + 1 {
        operation()?;
    }
    let (own, peer) = (cpu_ns("self"), cpu_ns(pid));
    let mut times = Vec::with_capacity(rounds / group + 1);
    for _ in 0..(rounds / group).max(1) {
        let start = Instant::now();
        for _ in 0..group {
            operation()?;
        }
        times.push(start.elapsed().as_nanos() as f64 / group as f64);
    }
    let count = (times.len() * group) as f64;
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let (own, peer) = ((cpu_ns("self") - own) / count, (cpu_ns(pid) - peer) / count);
    println!("{fabric:<5} {what:<34} {:>9.0} {:>9.0} {own:>9.0} {peer:>9.0}", at(0.5), at(0.99));
    Ok(())
}

fn round_trip(
    connection: &mut dyn Connection,
    message: &[u8],
    into: &mut Vec<u8>,
    sleeping: bool,
) -> Result<(), Error> {
    connection.send(message)?;
    into.clear();
    while connection.receive(into)?.is_none() {
        if sleeping {
            connection.wait(SECOND)?;
        } else {
            std::hint::spin_loop();
        }
    }
    Ok(())
}

/// The second process; it ends with this.
struct Target(Child);

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(address: &str, rounds: usize) -> Result<(), Error> {
    let fabric = address.split(':').next().unwrap_or(address);
    let own = std::env::current_exe().expect("the path of this program");
    let mut child = Target(
        Command::new(own)
            .args(["--target", address])
            .stdout(Stdio::piped())
            .spawn()
            .expect("a second process"),
    );
    let mut line = String::new();
    let out = child.0.stdout.take().expect("piped");
    BufReader::new(out).read_line(&mut line).expect("the target's address");
    let pid = child.0.id().to_string();
    let mut connection = connect(&line.trim().parse()?, &ConnectOptions::default())?.connection;
    let buffer = connection.register(4096)?;
    let mut done = Vec::new();
    let mut at = 0u64;
    let mut next = move || {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (at >> 33) * 64 % (8 << 20)
    };
    let few = if connection.capabilities().direct { rounds * 10 } else { rounds };
    let connection = &mut *connection;
    measure(fabric, "one-sided read of 64 B", &pid, few, 10, || {
        connection.read(REGION, next(), buffer.span(0, 64), 1)?;
        done.clear();
        while connection.poll(&mut done)? == 0 {}
        Ok(())
    })?;
    if let Some(region) = connection.direct(REGION) {
        measure(fabric, "the same in mapped memory", &pid, rounds * 100, 100, || {
            for word in region.range(next(), 64)? {
                black_box(word.load(Ordering::Acquire));
            }
            Ok(())
        })?;
    }
    let mut into = Vec::new();
    measure(fabric, "round trip of 64 B, sleeping", &pid, rounds, 1, || {
        round_trip(connection, &[1; 64], &mut into, true)
    })?;
    round_trip(connection, SLEEP, &mut into, true)?;
    measure(fabric, "round trip of 64 B, polling", &pid, rounds, 1, || {
        round_trip(connection, &[1; 64], &mut into, false)
    })?;
    measure(fabric, "round trip of 4 KiB, polling", &pid, rounds, 1, || {
        round_trip(connection, &[1; 4096], &mut into, false)
    })?;
    Ok(())
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if let [role, address] = &arguments[..]
        && role == "--target"
    {
        return target(&address.parse()?);
    }
    let rounds = arguments.first().and_then(|a| a.parse().ok()).unwrap_or(100_000);
    println!("                                          median ns    p99 ns    CPU ns: own  target's");
    let path = std::env::temp_dir().join(format!("kintsugi-bench-{}.sock", std::process::id()));
    run("tcp:127.0.0.1:0", rounds)?;
    run(&format!("shm:{}", path.display()), rounds)
}
