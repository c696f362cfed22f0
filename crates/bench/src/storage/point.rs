//! One measured point: a system, a size, a depth.
use super::process::Target;
use crate::{Error, Result, table};
use hdrhistogram::Histogram;
use kintsugidb_fabric::ConnectOptions;
use kintsugidb_storage::engine::Kind;
use kintsugidb_storage::replay::{Backend, Distant, Local, drive};
use kintsugidb_storage::{Channel, IoError, Volume};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The seed of the test file's pattern.
pub const SEED: u64 = 5;

/// What is measured.
#[derive(Clone)]
pub enum System<'a> {
    /// An engine on the file, in this process.
    Local(Kind, Arc<Volume>),
    /// A target, over a fabric, so many connections; its volume `data`, or `dummy` with nothing behind it.
    /// `pattern`: its bytes are those of the test pattern, and some of them are checked.
    Remote { target: &'a Target, fabric: String, volume: &'static str, connections: usize, pattern: bool },
}

/// How it went.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub iops: f64,
    /// Microseconds of CPU a read: this process.
    pub client_us: f64,
    /// Microseconds of CPU a read: the target.
    pub server_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub seconds: f64,
}

fn failed(why: IoError) -> Error {
    Error::Reply(why.to_string())
}

fn cpu_seconds() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

impl System<'_> {
    pub fn backend(&self, bytes: u32, depth: usize) -> Result<Box<dyn Backend>> {
        match self {
            System::Local(kind, volume) => {
                let local = Local::new(*kind, volume.clone(), bytes, depth);
                Ok(Box::new(local.map_err(|e| Error::Io("the local engine".into(), e.into()))?))
            }
            System::Remote { target, fabric, volume, connections, pattern } => {
                let address = target.address(fabric)?;
                let mut channels = Vec::new();
                for _ in 0..*connections {
                    let mut channel =
                        Channel::connect(&address, &ConnectOptions::default()).map_err(failed)?;
                    let info = channel.open(volume, Duration::from_secs(10)).map_err(failed)?;
                    channels.push((channel, info.handle));
                }
                let check = pattern.then_some(SEED);
                Ok(Box::new(Distant::new(channels, depth, check)))
            }
        }
    }

    fn server_cpu(&self) -> f64 {
        match self {
            System::Local(..) => 0.0,
            System::Remote { target, .. } => target.process.cpu_seconds(),
        }
    }

    /// Reads what `next` says.
    pub fn run(&self, bytes: u32, depth: usize, next: impl FnMut() -> Option<(u64, u32)>) -> Result<Outcome> {
        let mut backend = self.backend(bytes, depth)?;
        self.run_on(&mut *backend, depth, next)
    }

    fn run_on(
        &self,
        backend: &mut dyn Backend,
        depth: usize,
        next: impl FnMut() -> Option<(u64, u32)>,
    ) -> Result<Outcome> {
        let mut times = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)
            .map_err(|e| Error::Reply(e.to_string()))?;
        let (cpu, server, begun) = (cpu_seconds(), self.server_cpu(), Instant::now());
        let count = drive(backend, depth, Duration::ZERO, next, |took| {
            times.saturating_record(took.as_nanos() as u64)
        })
        .map_err(failed)?;
        let seconds = begun.elapsed().as_secs_f64();
        let reads = count.max(1) as f64;
        let us = |q: f64| times.value_at_quantile(q) as f64 / 1e3;
        Ok(Outcome {
            iops: reads / seconds,
            client_us: (cpu_seconds() - cpu) * 1e6 / reads,
            server_us: (self.server_cpu() - server) * 1e6 / reads,
            p50_us: us(0.5),
            p99_us: us(0.99),
            p999_us: us(0.999),
            seconds,
        })
    }

    /// Random reads of one size for so many seconds, after a short warm-up.
    pub fn random(
        &self,
        bytes: u32,
        depth: usize,
        seconds: f64,
        file_bytes: u64,
        seed: u64,
    ) -> Result<Outcome> {
        let mut backend = self.backend(bytes, depth)?;
        let mut x = seed;
        let mut offset = move || {
            x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            (z ^ (z >> 31)) % (file_bytes / u64::from(bytes)) * u64::from(bytes)
        };
        for limit in [0.1, seconds] {
            let begun = Instant::now();
            let mut count = 0u32;
            let mut over = false;
            let next = || {
                count += 1;
                over |= count.is_multiple_of(16) && begun.elapsed().as_secs_f64() >= limit;
                (!over).then(|| (offset(), bytes))
            };
            let outcome = self.run_on(&mut *backend, depth, next)?;
            if limit == seconds {
                return Ok(outcome);
            }
        }
        Err(Error::Reply("nothing was measured".into()))
    }
}

/// The medians of some rounds, each figure for itself.
pub fn median(rounds: &[Outcome]) -> Outcome {
    let of = |f: fn(&Outcome) -> f64| table::median(rounds.iter().map(f).collect());
    Outcome {
        iops: of(|o| o.iops),
        client_us: of(|o| o.client_us),
        server_us: of(|o| o.server_us),
        p50_us: of(|o| o.p50_us),
        p99_us: of(|o| o.p99_us),
        p999_us: of(|o| o.p999_us),
        seconds: of(|o| o.seconds),
    }
}
