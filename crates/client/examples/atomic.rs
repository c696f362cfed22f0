//! Writes eight keys together and reads them together, from several connections at once, and says whether anybody saw half of a write.
//!
//!     atomic ADDRESS [OPERATIONS [CLIENTS [PREFIX]]] [--broken]
//!
//! Every write gives all eight keys one value, which no other write has; so a read that is atomic sees one value, eight times. The status
//! is 1 if a read saw two. Each client ends after so many operations. With `--broken` a write is eight, of a key each, so that there are
//! halves to be seen whatever the server does: it ends at the first read that saw one, and is 1 if none did.
use kintsugidb_client::{Client, Error, Options};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const KEYS: u32 = 8;

#[derive(Default)]
struct Seen {
    writes: u64,
    reads: u64,
    fractured: u64,
    second_rounds: u64,
    one_sided: u64,
}

/// `None` for what was not done and may be tried again.
fn done<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Err(Error::Server(text)) if text.starts_with("TRYAGAIN") => Ok(None),
        other => other.map(Some),
    }
}

/// What all clients are to do.
struct Plan<'a> {
    address: &'a str,
    prefix: &'a str,
    operations: u64,
    broken: bool,
    stop: AtomicBool,
}

fn work(plan: &Plan<'_>, me: u32) -> Result<Seen, Error> {
    let Plan { address, prefix, operations, broken, ref stop } = *plan;
    // An emulated machine on a busy one takes its time.
    let options = Options { timeout: Duration::from_secs(100), ..Options::default() };
    let mut client = Client::connect_with(address, options)?;
    let keys: Vec<String> = (0..KEYS).map(|i| format!("{prefix}:{i}")).collect();
    let mut seen = Seen::default();
    while seen.reads + seen.writes < operations && !stop.load(Ordering::Relaxed) {
        // Every second client writes half of the time.
        if (u64::from(me) + seen.reads + seen.writes).is_multiple_of(2) && me.is_multiple_of(2) {
            let value = format!("{}:{me}:{}", std::process::id(), seen.writes);
            if broken {
                for key in &keys {
                    client.set(key, &value)?;
                }
            } else if done(client.mset(keys.iter().map(|key| (key, &value))))?.is_none() {
                continue;
            }
            seen.writes += 1;
            continue;
        }
        let Some(values) = done(client.mget(&keys))? else { continue };
        seen.reads += 1;
        if values.iter().any(|value| *value != values[0]) {
            seen.fractured += 1;
            stop.store(true, Ordering::Relaxed);
            if seen.fractured == 1 {
                let texts = values.iter().map(|v| v.as_deref().map(String::from_utf8_lossy));
                eprintln!("half of a write: {:?}", texts.collect::<Vec<_>>());
            }
        }
    }
    let counters = client.counters();
    seen.second_rounds = counters.second_rounds;
    seen.one_sided = counters.one_sided;
    Ok(seen)
}

fn main() -> ExitCode {
    let mut broken = false;
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    words.retain(|word| {
        broken |= word == "--broken";
        word != "--broken"
    });
    let number = |at: usize, default: u64| words.get(at).and_then(|w| w.parse().ok()).unwrap_or(default);
    let Some(address) = words.first() else {
        eprintln!("usage: atomic ADDRESS [OPERATIONS [CLIENTS [PREFIX]]] [--broken]");
        return ExitCode::from(2);
    };
    let prefix = words.get(3).map_or("atomic", String::as_str);
    let plan = Plan { address, prefix, operations: number(1, 10_000), broken, stop: AtomicBool::new(false) };
    let clients = number(2, 4) as u32;
    let results: Vec<Result<Seen, Error>> = std::thread::scope(|scope| {
        let plan = &plan;
        let work = |me| scope.spawn(move || work(plan, me));
        let threads: Vec<_> = (0..clients).map(work).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let mut all = Seen::default();
    for result in results {
        match result {
            Ok(seen) => {
                all.writes += seen.writes;
                all.reads += seen.reads;
                all.fractured += seen.fractured;
                all.second_rounds += seen.second_rounds;
                all.one_sided += seen.one_sided;
            }
            Err(error) => {
                eprintln!("{address}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let Seen { writes, reads, fractured, second_rounds, one_sided } = all;
    println!(
        "{address}: {writes} writes and {reads} reads of {KEYS} keys, {fractured} fractured; {second_rounds} second rounds, {one_sided} one-sided"
    );
    let enough = writes > 0 && reads > 0;
    if enough && (fractured > 0) == broken { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
