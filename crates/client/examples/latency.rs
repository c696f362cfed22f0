//! How long a GET of 64 bytes takes from another process, and what it costs the server.
//!
//! ```text
//! kintsugi serve --port 0 --fabric shm:/tmp/k.sock &
//! cargo run --release -p kintsugidb-client --example latency -- shm:/tmp/k.sock
//! ```
//! Loads 100,000 keys, then reads them in random order: ten million reads by default, each thousandth run of a thousand timed one by one.
//! The server's CPU time is the difference of what INFO says before and after.
use kintsugidb_client::{Client, Mode, Options};
use std::{hint::black_box, time::Instant};

const KEYS: usize = 100_000;

fn server_cpu(c: &mut Client) -> Result<f64, Box<dyn std::error::Error>> {
    let info = c.command(&["INFO", "cpu"])?;
    let text = String::from_utf8_lossy(info.bytes().unwrap_or_default()).into_owned();
    let field = |name: &str| {
        text.lines().find_map(|l| l.strip_prefix(name)?.trim().parse::<f64>().ok()).unwrap_or(0.0)
    };
    Ok(field("used_cpu_sys:") + field("used_cpu_user:"))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let address = args.next().ok_or("an address, as in shm:/tmp/k.sock")?;
    let reads: usize = args.next().map_or(Ok(10_000_000), |n| n.parse())?;
    let keys: Vec<String> = (0..KEYS).map(|i| format!("key:{i:08}")).collect();
    for (name, mode, reads) in [
        ("written by SET, read one-sided", Mode::OneSided, reads),
        ("written by MSET, read one-sided", Mode::OneSided, reads),
        ("by message", Mode::Messages, reads.min(100_000)),
    ] {
        let mut c = Client::connect_with(&address, Options { mode, ..Options::default() })?;
        if name.starts_with("written by SET") {
            let mapped = if c.is_one_sided() { "regions are mapped" } else { "no region is mapped" };
            println!("{mapped}: {KEYS} keys of 64 B");
            keys.iter().try_for_each(|k| c.set(k, [b'v'; 64]))?;
        } else if name.starts_with("written by MSET") {
            // A version of a transaction refers to its record, which a reader has to look at.
            for some in keys.chunks(1000) {
                c.mset(some.iter().map(|k| (k, [b'v'; 64])))?;
            }
        }
        let mut value = Vec::with_capacity(64);
        for k in &keys {
            assert!(c.get_into(k.as_bytes(), &mut value)? && value.len() == 64);
        }
        let mut random = 88_172_645_463_325_252u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            &keys[(random % KEYS as u64) as usize]
        };
        std::thread::sleep(std::time::Duration::from_millis(300));
        let (cpu, begin) = (server_cpu(&mut c)?, Instant::now());
        let mut times = Vec::new();
        for i in 0..reads {
            // Near, as a key is that a program has just made; else its own cache misses are measured.
            let mut near = [0; 12];
            near.copy_from_slice(next().as_bytes());
            let key = &black_box(near)[..];
            if i / 1000 % 100 == 0 || mode != Mode::OneSided {
                let at = Instant::now();
                c.get_into(key, &mut value)?;
                times.push(at.elapsed().as_nanos() as u64);
            } else {
                c.get_into(key, &mut value)?;
            }
        }
        let (wall, cpu) = (begin.elapsed().as_secs_f64(), server_cpu(&mut c)? - cpu);
        times.sort_unstable();
        let at = |p: f64| times[((times.len() - 1) as f64 * p) as usize];
        println!(
            "{name}: {reads} reads, {:.0} ns each; one by one, the clock's own time included: \
             median {} ns, 99% {} ns; server's CPU {:.1} ns a read\n            {:?}",
            wall / reads as f64 * 1e9,
            at(0.5),
            at(0.99),
            cpu / reads as f64 * 1e9,
            c.counters()
        );
    }
    let mut clock: Vec<_> = (0..10_000).map(|_| Instant::now().elapsed().as_nanos() as u64).collect();
    clock.sort_unstable();
    println!("the clock's own time: median {} ns", clock[clock.len() / 2]);
    println!("idle: {:.2} ms of the server's CPU in a second", idle(&address)? * 1e3);
    for (what, keys, size) in [("SET of one of 1000 keys", 1000, 1), ("MSET of 8 of 1000 keys", 1000, 8)] {
        contended(&address, what, keys, size)?;
    }
    Ok(())
}

/// Seconds of CPU that the server takes in a second in which nobody asks for anything.
fn idle(address: &str) -> Result<f64, Box<dyn std::error::Error>> {
    let mut c = Client::connect(address)?;
    std::thread::sleep(std::time::Duration::from_millis(200));
    let before = server_cpu(&mut c)?;
    std::thread::sleep(std::time::Duration::from_secs(2));
    Ok((server_cpu(&mut c)? - before) / 2.0)
}

/// Reads keys, alone and eight together, while another client writes the same ones without a pause.
fn contended(address: &str, what: &str, keys: u64, size: u64) -> Result<(), Box<dyn std::error::Error>> {
    let stop = std::sync::atomic::AtomicBool::new(false);
    let name = |i: u64| format!("hot:{}", i % keys);
    let mut c = Client::connect(address)?;
    c.mset((0..keys).map(|i| (name(i), [b'v'; 64])))?;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| -> kintsugidb_client::Result<u64> {
            let mut w = Client::connect(address)?;
            let mut n = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                w.mset((0..size).map(|i| (name(n * 7 + i * 13), [b'w'; 64])))?;
                n += 1;
            }
            Ok(n)
        });
        let mut report = |together: u64| -> kintsugidb_client::Result<()> {
            let (before, end) = (c.counters(), Instant::now() + std::time::Duration::from_secs(2));
            let mut n = 0;
            while Instant::now() < end {
                for _ in 0..100 {
                    n += 1;
                    c.mget((0..together).map(|i| name(n * 11 + i * 17)))?;
                }
            }
            let after = c.counters();
            let (read, left) = (after.one_sided - before.one_sided, after.fallbacks - before.fallbacks);
            let share = left as f64 / (read + left) as f64 * 100.0;
            println!(
                "{what}, {together} read together: {read} one-sided, {left} by message ({share:.3} %), {} retries, {} fractures, {} links",
                after.retries - before.retries,
                after.fractures - before.fractures,
                after.followed - before.followed
            );
            Ok(())
        };
        let reported = report(1).and_then(|()| report(8));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let writes = writer.join().expect("the writer does not panic")?;
        println!("    meanwhile {writes} writes");
        Ok(reported?)
    })
}
