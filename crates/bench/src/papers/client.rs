//! One client process: `kintsugi bench client`. It connects, says `ready`, waits for a line, runs transactions for its time, and reports.
use super::report::{Report, histogram};
use crate::{
    Error, Result,
    load::key,
    ycsb::{Distribution, Mix, Operation, Workload},
};
use kintsugidb_client::{Client, Mode, Options};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// What a client is told. It is started by the figures, not by people.
#[derive(Debug, clap::Args, Clone)]
pub struct ClientArgs {
    /// Where the server is.
    #[arg(long)]
    address: String,
    /// Read one-sided.
    #[arg(long)]
    one_sided: bool,
    /// A frame for each message, as RAMP(GET,PUT) over sockets.
    #[arg(long)]
    one_by_one: bool,
    /// Shares of read, update, insert, scan and read-modify-write in percent.
    #[arg(long, value_delimiter = ',', num_args = 1)]
    mix: Vec<u32>,
    /// Which records are popular.
    #[arg(long, value_enum)]
    distribution: Distribution,
    /// Operations a transaction.
    #[arg(long)]
    size: usize,
    /// Records at the start.
    #[arg(long)]
    records: u64,
    /// Bytes of a value.
    #[arg(long)]
    value: usize,
    /// Which client this is, of how many.
    #[arg(long)]
    client: u64,
    /// Of how many.
    #[arg(long)]
    clients: u64,
    /// How long.
    #[arg(long)]
    seconds: f64,
    /// For its random numbers.
    #[arg(long)]
    seed: u64,
}

impl From<kintsugidb_client::Error> for Error {
    fn from(e: kintsugidb_client::Error) -> Self {
        Error::Reply(e.to_string())
    }
}

/// Connects to a server.
pub fn connect(address: &str, one_sided: bool, one_by_one: bool) -> Result<Client> {
    let mode = match (one_sided, one_by_one) {
        (true, _) => Mode::OneSided,
        (_, true) => Mode::OneByOne,
        _ => Mode::Messages,
    };
    Ok(Client::connect_with(address, Options { mode, ..Options::default() })?)
}

/// Makes the records, in transactions of one key each.
pub fn fill(address: &str, records: u64, value: usize) -> Result<()> {
    let mut client = connect(address, false, false)?;
    let value = vec![b'v'; value];
    (0..records).try_for_each(|i| client.set(key(i), &value).map_err(Error::from))
}

fn cpu_ns() -> u64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// The process.
pub fn run(args: &ClientArgs) -> Result<()> {
    let &[read, update, insert, scan, read_modify_write] = &args.mix[..] else {
        return Err(Error::Reply("a mix has five shares".into()));
    };
    let mix = Mix { read, update, insert, scan, read_modify_write };
    let mut workload = Workload::new(
        mix,
        args.distribution,
        args.size,
        args.records,
        (args.client, args.clients),
        args.seed,
    );
    let mut client = connect(&args.address, args.one_sided, args.one_by_one)?;
    let mut records = Vec::new();
    let mut value = vec![b'w'; args.value];
    // Warm: caches, rings, the mapping's pages.
    for _ in 0..200 {
        transaction(&mut client, &mut workload, &mut records, &mut value)?;
    }
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).map_err(|e| Error::Io("waiting".into(), e))?;

    let (mut latency, before) = (histogram(), client.counters());
    let (cpu, start, end) = (cpu_ns(), Instant::now(), Duration::from_secs_f64(args.seconds));
    let (mut transactions, mut at) = (0, start);
    while at - start < end {
        transaction(&mut client, &mut workload, &mut records, &mut value)?;
        let now = Instant::now();
        latency.saturating_record((now - at).as_nanos() as u64);
        transactions += 1;
        at = now;
    }
    let after = client.counters();
    let report = Report {
        transactions,
        cpu_ns: cpu_ns() - cpu,
        one_sided: after.one_sided - before.one_sided,
        fallbacks: after.fallbacks - before.fallbacks,
        second_rounds: after.second_rounds - before.second_rounds,
        latency,
    };
    println!("{}", report.line());
    Ok(())
}

fn transaction(
    client: &mut Client,
    workload: &mut Workload,
    records: &mut Vec<u64>,
    value: &mut [u8],
) -> Result<()> {
    let operation = workload.next(records);
    let keys: Vec<String> = records.iter().map(|r| key(*r)).collect();
    if matches!(operation, Operation::Read | Operation::Scan | Operation::ReadModifyWrite) {
        let found = client.mget(&keys)?;
        if found.iter().any(Option::is_none) {
            return Err(Error::Reply(format!("a record that was made is not there: {keys:?}")));
        }
    }
    if matches!(operation, Operation::Update | Operation::Insert | Operation::ReadModifyWrite) {
        // Another value each time, the same for all keys of a transaction.
        if let Some(first) = value.first_mut() {
            *first = first.wrapping_add(1);
        }
        client.mset(keys.iter().map(|k| (k, &*value)))?;
    }
    Ok(())
}
