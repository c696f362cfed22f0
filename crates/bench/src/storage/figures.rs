//! The figures: which points, and what is said about them.
use super::point::{Outcome, SEED, System, median};
use super::process::{Directory, Target};
use super::{StorageArgs, peers, tpch};
use crate::figure::{Figure, Series};
use crate::{Error, Result, table};
use kintsugidb_fabric::ConnectOptions;
use kintsugidb_storage::engine::Kind;
use kintsugidb_storage::{
    CacheOptions, CachedFile, Remote, RemoteOptions, Volume, VolumeOptions, pattern, replay,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Which experiment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    B1,
    B2,
    B3,
    B4,
    B5,
    B6,
}

struct Bench<'a> {
    args: &'a StorageArgs,
    directory: Directory,
    file: PathBuf,
    bytes: u64,
    /// Position, system, figures: one row a point.
    detail: Vec<Vec<String>>,
}

const DETAIL: [&str; 8] =
    ["point", "system", "reads/s", "client CPU us", "server CPU us", "p50 us", "p99 us", "p99.9 us"];

/// Runs one experiment, and publishes it.
pub(crate) fn run(which: Which, args: &StorageArgs) -> Result<()> {
    if args.sizes.is_empty()
        || args.depth == 0
        || args.connections == 0
        || args.megabytes == 0
        || args.rounds == 0
    {
        return Err(Error::Reply("sizes, depth, connections, megabytes and rounds cannot be nothing".into()));
    }
    let directory = Directory::new(&args.dir)?;
    let file = directory.0.join("data");
    let file = std::path::absolute(&file).map_err(|e| Error::Io(file.display().to_string(), e))?;
    let bytes = args.megabytes << 20;
    if args.pin {
        crate::process::leave_the_servers_core();
    }
    let mut bench = Bench { args, directory, file, bytes, detail: Vec::new() };
    if !matches!(which, Which::B4 | Which::B6) {
        pattern::make_file(&bench.file, SEED, bytes).map_err(|e| Error::Io("the test file".into(), e))?;
    }
    let figure = match which {
        Which::B1 => bench.local_by_threads()?,
        Which::B2 => bench.fabric_by_connections()?,
        Which::B3 => bench.remote_by_connections()?,
        Which::B4 => bench.replayed()?,
        Which::B5 => bench.by_size()?,
        Which::B6 => bench.replay_by_size()?,
    };
    figure.publish(&args.out)?;
    table::print("each point", &DETAIL, &bench.detail);
    table::csv(&args.out, &format!("{}-detail", figure.id), &DETAIL, &bench.detail)
}

impl Bench<'_> {
    fn volume(&self) -> Result<Arc<Volume>> {
        let (path, direct) = (Some(self.file.clone()), !self.args.cached);
        let options = VolumeOptions { name: "data".into(), path, dummy_bytes: 0, writable: false, direct };
        Volume::open(&options).map(Arc::new).map_err(|e| Error::Reply(e.to_string()))
    }

    fn target(&self, engine: &str, pin: bool) -> Result<Target> {
        let socket = std::env::temp_dir().join(format!(
            "kintsugi-{}-{}.sock",
            std::process::id(),
            engine.replace(':', "-")
        ));
        Target::start(&self.file, self.bytes, self.args.cached, engine, pin, &socket)
    }

    fn row(&mut self, point: &str, system: &str, o: &Outcome) {
        let numbers = [o.iops, o.client_us, o.server_us, o.p50_us, o.p99_us, o.p999_us];
        let mut row = vec![point.to_owned(), system.to_owned()];
        row.extend(
            numbers
                .iter()
                .enumerate()
                .map(|(i, n)| if i == 0 { format!("{n:.0}") } else { format!("{n:.2}") }),
        );
        self.detail.push(row);
    }

    /// Rounds of all systems in turn; medians.
    fn compare(
        &mut self,
        point: &str,
        bytes: u32,
        systems: &[(String, System<'_>, usize)],
    ) -> Result<Vec<Outcome>> {
        let mut rounds: Vec<Vec<Outcome>> = vec![Vec::new(); systems.len()];
        for round in 0..self.args.rounds {
            for (at, (_, system, depth)) in systems.iter().enumerate() {
                let seed = round as u64 * 1000;
                rounds[at].push(system.random(bytes, *depth, self.args.seconds, self.bytes, seed)?);
            }
        }
        let medians: Vec<Outcome> = rounds.iter().map(|r| median(r)).collect();
        for ((name, ..), outcome) in systems.iter().zip(&medians) {
            self.row(point, name, outcome);
        }
        Ok(medians)
    }

    fn how(&self) -> String {
        let cache = if self.args.cached { "from the page cache" } else { "direct I/O" };
        format!(
            "{cache}, {} MiB file, medians of {} rounds of {} s",
            self.bytes >> 20,
            self.args.rounds,
            self.args.seconds
        )
    }

    fn local_by_threads(&mut self) -> Result<Figure> {
        let volume = self.volume()?;
        let mut series = vec![series("static"), series("dynamic"), series("uring")];
        let widths = [1usize, 4, 16, 64];
        for threads in widths {
            let kinds = [Kind::Static(threads), Kind::Dynamic, Kind::Uring];
            let systems: Vec<_> = kinds
                .into_iter()
                .map(|kind| (kind.to_string(), System::Local(kind, volume.clone()), threads))
                .collect();
            for (s, o) in series.iter_mut().zip(self.compare(&threads.to_string(), 512, &systems)?) {
                s.values.push(Some(o.iops));
            }
        }
        Ok(Figure {
            id: "b1",
            title: format!("Local random reads of 512 B; {}", self.how()),
            x: "threads, or reads under way",
            y: "reads/s",
            positions: widths.iter().map(ToString::to_string).collect(),
            series,
            notes: vec!["paper (2020, figure 5; two sockets of 22 cores, ten NVMe drives): levels off at 4.8 M reads/s near 1000 threads".into()],
        })
    }

    fn fabric_by_connections(&mut self) -> Result<Figure> {
        let mut found = Vec::new();
        let connections = [1usize, 2, 4, 8];
        for pin in [false, true] {
            let target = self.target("uring", pin)?;
            if pin {
                crate::process::leave_the_servers_core();
            }
            for fabric in self.args.fabrics.clone() {
                let mut line = series(&format!("{fabric}{}", if pin { ", own cores" } else { "" }));
                for count in connections {
                    let system = remote(&target, &fabric, "dummy", count);
                    let systems = [(line.name.clone(), system, self.args.depth.max(count))];
                    line.values.push(Some(self.compare(&count.to_string(), 512, &systems)?[0].iops));
                }
                found.push(line);
            }
        }
        Ok(Figure {
            id: "b2",
            title: format!("The fabric alone, answers of 512 B with nothing read; medians of {} rounds", self.args.rounds),
            x: "connections",
            y: "answers/s",
            positions: connections.iter().map(ToString::to_string).collect(),
            series: found,
            notes: vec!["paper (2020, figure 6): grows to 11 connections (22 cores of a socket), then falls; about what local reads reach".into()],
        })
    }

    fn remote_by_connections(&mut self) -> Result<Figure> {
        let volume = self.volume()?;
        let engines = ["dynamic".to_owned(), format!("static:{}", self.args.threads), "uring".to_owned()];
        let targets = engines.iter().map(|e| self.target(e, self.args.pin)).collect::<Result<Vec<_>>>()?;
        let fabric = self.args.fabrics[0].clone();
        let connections = [1usize, 2, 4, 8];
        let mut lines: Vec<Series> = engines.iter().map(|e| series(e)).collect();
        lines.push(series("local uring"));
        for count in connections {
            let depth = self.args.depth.max(count);
            let mut systems: Vec<_> = engines
                .iter()
                .zip(&targets)
                .map(|(engine, target)| (engine.clone(), remote(target, &fabric, "data", count), depth))
                .collect();
            systems.push(("local uring".into(), System::Local(Kind::Uring, volume.clone()), depth));
            for (s, o) in lines.iter_mut().zip(self.compare(&count.to_string(), 512, &systems)?) {
                s.values.push(Some(o.iops));
            }
        }
        Ok(Figure {
            id: "b3",
            title: format!(
                "Remote random reads of 512 B over {fabric}, {} under way; {}",
                self.args.depth,
                self.how()
            ),
            x: "connections",
            y: "reads/s",
            positions: connections.iter().map(ToString::to_string).collect(),
            series: lines,
            notes: vec![
                "paper (2020, figures 7 to 9): dynamic 70 K, static 2.3 M, local 4.8 M reads/s".into(),
            ],
        })
    }

    fn by_size(&mut self) -> Result<Figure> {
        let volume = self.volume()?;
        let engines = ["uring".to_owned(), format!("static:{}", self.args.threads), "dynamic".to_owned()];
        let targets = engines.iter().map(|e| self.target(e, self.args.pin)).collect::<Result<Vec<_>>>()?;
        let peers = peers::start(self.args, &self.file, &self.directory.0)?;
        let (depth, connections) = (self.args.depth, self.args.connections);
        let mut systems = vec![("local uring".to_owned(), System::Local(Kind::Uring, volume), depth)];
        for fabric in &self.args.fabrics {
            systems.push((
                format!("{fabric} alone"),
                remote(&targets[0], fabric, "dummy", connections),
                depth,
            ));
            systems.push((
                format!("{fabric} uring"),
                remote(&targets[0], fabric, "data", connections),
                depth,
            ));
        }
        for (engine, target) in engines.iter().zip(&targets).skip(1) {
            let fabric = &self.args.fabrics[0];
            systems.push((format!("{fabric} {engine}"), remote(target, fabric, "data", connections), depth));
        }
        let mut lines: Vec<Series> = systems.iter().map(|(name, ..)| series(name)).collect();
        lines.extend(peers.iter().map(|(name, _)| series(name)));
        let mut notes = vec![
            "paper (2021, table 2), remote / local: 512 B 85 %, 4 KiB 55 %, 16 KiB 55 %, 64 KiB 62 %".into(),
        ];
        for size in self.args.sizes.clone() {
            let point = readable_size(size);
            let outcomes = self.compare(&point, size, &systems)?;
            for (s, o) in lines.iter_mut().zip(&outcomes) {
                s.values.push(Some(o.iops));
            }
            for (at, (name, peer)) in peers.iter().enumerate() {
                let rounds: Result<Vec<_>> =
                    (0..self.args.rounds).map(|_| peer.random(self.args, &self.file, size)).collect();
                let outcome = median(&rounds?);
                self.row(&point, name, &outcome);
                lines[systems.len() + at].values.push(Some(outcome.iops));
            }
            let mut note = format!("here, {point}, remote uring / local uring:");
            for ((name, ..), o) in
                systems.iter().zip(&outcomes).filter(|((name, ..), _)| name.ends_with(" uring")).skip(1)
            {
                note += &format!(
                    " {name} {:.0} % of the reads, {:.2} times the CPU at the target;",
                    o.iops / outcomes[0].iops * 100.0,
                    o.server_us / outcomes[0].client_us
                );
            }
            notes.push(note.trim_end_matches(';').to_owned());
        }
        Ok(Figure {
            id: "b5",
            title: format!("Random reads by size, {depth} under way; {}", self.how()),
            x: "bytes a read",
            y: "reads/s",
            positions: self.args.sizes.iter().map(|s| readable_size(*s)).collect(),
            series: lines,
            notes,
        })
    }

    /// Makes the tables, and the trace of Q3 on them.
    fn query(&mut self) -> Result<tpch::Query> {
        let query = tpch::query_3(&self.file, self.args.scale)?;
        self.bytes = query.bytes;
        println!(
            "TPC-H Q3 at scale {}: {} reads of 16 KiB in {} MiB of tables, {} orders in the answer",
            self.args.scale,
            query.trace.accesses.len(),
            query.bytes >> 20,
            query.orders
        );
        Ok(query)
    }

    fn replayed(&mut self) -> Result<Figure> {
        let query = self.query()?;
        let volume = self.volume()?;
        let target = self.target("uring", self.args.pin)?;
        let mut names = vec!["local".to_owned()];
        names.extend(self.args.fabrics.iter().flat_map(|f| [f.clone(), format!("{f}, cache")]));
        let mut lines: Vec<Series> = names.iter().map(|n| series(n)).collect();
        let sizes = [16384u32, 512];
        for size in sizes {
            let reads = replay::blocks(&query.trace, size, self.bytes);
            let mut seconds: Vec<Vec<f64>> = vec![Vec::new(); names.len()];
            for _ in 0..self.args.rounds {
                let mut at = 0;
                let mut note = |took: f64| {
                    seconds[at].push(took);
                    at += 1;
                };
                note(self.replay(&System::Local(Kind::Uring, volume.clone()), size, &reads)?.seconds);
                for fabric in &self.args.fabrics {
                    note(
                        self.replay(&of_tables(&target, fabric, self.args.connections), size, &reads)?
                            .seconds,
                    );
                    note(cached(&target, fabric, &reads, self.args.threads)?);
                }
            }
            for (line, s) in lines.iter_mut().zip(seconds) {
                line.values.push(Some(table::median(s)));
            }
        }
        Ok(Figure {
            id: "b4",
            title: format!("TPC-H Q3's reads replayed, {} under way; {}", self.args.depth, self.how()),
            x: "bytes a read",
            y: "seconds",
            positions: sizes.iter().map(|s| readable_size(*s)).collect(),
            series: lines,
            notes: vec![
                format!("with cache: {} threads with a blocking read each, 64 KiB blocks, 64 MiB", self.args.threads),
                "paper (2020, figure 10; 2021, figure 15): remote takes longer than local, in 2021 more than twice as long, for want of a cache".into(),
            ],
        })
    }

    fn replay(&self, system: &System<'_>, size: u32, reads: &[(u64, u32)]) -> Result<Outcome> {
        let mut reads = reads.iter().copied();
        system.run(size, self.args.depth, || reads.next())
    }

    fn replay_by_size(&mut self) -> Result<Figure> {
        let query = self.query()?;
        let volume = self.volume()?;
        let target = self.target("uring", self.args.pin)?;
        let fabric = self.args.fabrics[0].clone();
        let connections = [1usize, 4];
        let mut positions = Vec::new();
        let mut lines = vec![
            series("local random"),
            series("local replay"),
            series("remote random"),
            series("remote replay"),
        ];
        for size in [4096u32, 65536] {
            let reads = replay::blocks(&query.trace, size, self.bytes);
            for count in connections {
                let point = format!("{} x{count}", readable_size(size));
                let local = System::Local(Kind::Uring, volume.clone());
                let distant = of_tables(&target, &fabric, count);
                let systems = [
                    ("local random".to_owned(), local.clone(), self.args.depth),
                    ("remote random".to_owned(), distant.clone(), self.args.depth),
                ];
                let random = self.compare(&point, size, &systems)?;
                let mut rounds = [Vec::new(), Vec::new()];
                for _ in 0..self.args.rounds {
                    rounds[0].push(self.replay(&local, size, &reads)?);
                    rounds[1].push(self.replay(&distant, size, &reads)?);
                }
                let replayed = [median(&rounds[0]), median(&rounds[1])];
                self.row(&point, "local replay", &replayed[0]);
                self.row(&point, "remote replay", &replayed[1]);
                let four = [&random[0], &replayed[0], &random[1], &replayed[1]];
                for (line, o) in lines.iter_mut().zip(four) {
                    line.values.push(Some(o.iops));
                }
                positions.push(point);
            }
        }
        Ok(Figure {
            id: "b6",
            title: format!("Replay against random reads over {fabric}, {} under way; {}", self.args.depth, self.how()),
            x: "bytes a read x connections",
            y: "reads/s",
            positions,
            series: lines,
            notes: vec!["paper (2021, figures 16 to 19): locally the replay is far ahead of random reads (its cache), remotely not".into()],
        })
    }
}

fn series(name: &str) -> Series {
    Series { name: name.to_owned(), values: Vec::new() }
}

fn remote<'a>(target: &'a Target, fabric: &str, volume: &'static str, connections: usize) -> System<'a> {
    System::Remote { target, fabric: fabric.to_owned(), volume, connections, pattern: volume == "data" }
}

/// The same, of a file that is not the test pattern.
fn of_tables<'a>(target: &'a Target, fabric: &str, connections: usize) -> System<'a> {
    System::Remote { target, fabric: fabric.to_owned(), volume: "data", connections, pattern: false }
}

fn readable_size(bytes: u32) -> String {
    if bytes < 1024 { format!("{bytes} B") } else { format!("{} KiB", bytes / 1024) }
}

/// Replays with blocking reads through one cache, the threads taking the reads in turn; seconds.
fn cached(target: &Target, fabric: &str, reads: &[(u64, u32)], threads: usize) -> Result<f64> {
    let failed = |why: kintsugidb_storage::IoError| Error::Reply(why.to_string());
    let options =
        RemoteOptions { connect: ConnectOptions::default(), ..RemoteOptions::new(target.address(fabric)?) };
    let remote = Remote::connect(options).map_err(failed)?;
    let file = CachedFile::new(remote.open("data").map_err(failed)?, CacheOptions::default());
    let next = std::sync::atomic::AtomicUsize::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let work = || -> std::result::Result<(), kintsugidb_storage::IoError> {
            let mut buffer = vec![0; 64 << 10];
            loop {
                let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some((offset, bytes)) = reads.get(at) else { return Ok(()) };
                file.read_at(*offset, &mut buffer[..*bytes as usize])?;
            }
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().try_for_each(|thread| match thread.join() {
            Ok(done) => done.map_err(failed),
            Err(_) => Err(Error::Reply("a replaying thread ended too early".into())),
        })
    })?;
    Ok(begun.elapsed().as_secs_f64())
}
