//! Runs client processes against servers, system by system, round by round.
use super::{
    PaperArgs, client,
    report::{Report, histogram},
};
use crate::{
    Error, Result,
    process::{Fabrics, Server},
    table,
    ycsb::{Distribution, Mix},
};
use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

/// A way of access.
#[derive(Clone, Debug)]
pub struct System {
    /// What it is called.
    pub name: String,
    fabric: String,
    isolation: String,
    /// What readers are told of prepared transactions, as the setting `prepared-versions` has it.
    prepared: &'static str,
    one_sided: bool,
    one_by_one: bool,
}

impl System {
    /// Everything by messages.
    pub fn messages(name: &str, fabric: &str, isolation: &str) -> System {
        System {
            name: name.into(),
            fabric: fabric.into(),
            isolation: isolation.into(),
            prepared: "hidden",
            one_sided: false,
            one_by_one: false,
        }
    }

    /// Everything by messages, a frame for each: what a client over sockets does that sends a request for each item.
    pub fn one_by_one(name: &str, fabric: &str, isolation: &str) -> System {
        System { one_by_one: true, ..System::messages(name, fabric, isolation) }
    }

    /// Reads one-sided, writes by messages.
    pub fn one_sided(name: &str, fabric: &str, isolation: &str) -> System {
        System { one_sided: true, ..System::messages(name, fabric, isolation) }
    }

    /// The same with readers told of what is prepared.
    pub fn telling(self, prepared: &'static str) -> System {
        System { name: format!("{}, {prepared}", self.name), prepared, ..self }
    }
}

/// What the clients do.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub mix: Mix,
    pub distribution: Distribution,
    pub size: usize,
    pub value: usize,
    pub records: u64,
}

/// Medians over the rounds.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Transactions a second, all clients together.
    pub rate: f64,
    /// Transactions a second of CPU time, clients and server.
    pub per_cpu: f64,
    /// Server's CPU microseconds a transaction.
    pub server_us: f64,
    /// Percentiles of the latency in microseconds, over all rounds.
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    /// Share of reads that were to be one-sided and took a message, in percent.
    pub fallbacks: f64,
    /// Second rounds in percent of transactions.
    pub second_rounds: f64,
}

/// Who serves.
enum Served {
    /// A server of our own.
    Here(Server),
    /// Addresses of one that runs already.
    There(Vec<String>),
}

impl Served {
    fn fabric(&self, name: &str) -> Result<&str> {
        let found = match self {
            Served::Here(server) => server.fabric(name),
            Served::There(all) => all.iter().find(|a| a.split(':').next() == Some(name)).map(String::as_str),
        };
        found.ok_or_else(|| Error::Reply(format!("{name} is not served")))
    }

    /// The CPU time that it has used, as far as that can be known.
    fn cpu_seconds(&self) -> Result<f64> {
        match self {
            Served::Here(server) => server.cpu_seconds(),
            Served::There(_) => Ok(0.0),
        }
    }
}

struct Client {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client {
    fn start(
        args: &PaperArgs,
        system: &System,
        setting: &Setting,
        address: &str,
        n: u64,
        seed: u64,
    ) -> Result<Client> {
        let io = |e| Error::Io("a client".into(), e);
        let program = std::env::current_exe().map_err(io)?;
        let Setting { mix, distribution, size, value, records } = setting;
        let mut command = Command::new(program);
        command.args(["bench", "client", "--address", address, "--client", &n.to_string()]);
        command.args(["--clients", &args.clients.to_string(), "--seconds", &args.seconds.to_string()]);
        command.args([
            "--size",
            &size.to_string(),
            "--value",
            &value.to_string(),
            "--records",
            &records.to_string(),
        ]);
        let shares =
            [mix.read, mix.update, mix.insert, mix.scan, mix.read_modify_write].map(|s| s.to_string());
        command.args(["--mix", &shares.join(","), "--seed", &seed.to_string()]);
        command.args(["--distribution", &format!("{distribution:?}").to_lowercase()]);
        if system.one_sided {
            command.arg("--one-sided");
        }
        if system.one_by_one {
            command.arg("--one-by-one");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(io)?;
        let says = BufReader::new(
            child.stdout.take().ok_or_else(|| Error::Reply("a client without a pipe".into()))?,
        );
        Ok(Client { child, says })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.says.read_line(&mut line).map_err(|e| Error::Io("a client".into(), e))?;
        if line.is_empty() { Err(Error::Reply("a client ended without a word".into())) } else { Ok(line) }
    }

    fn go(&mut self) -> Result<()> {
        let pipe = self.child.stdin.as_mut();
        pipe.map_or(Ok(()), |p| p.write_all(b"go\n")).map_err(|e| Error::Io("a client".into(), e))
    }
}

/// What one round of one system gave.
struct Round {
    rate: f64,
    per_cpu: f64,
    server_us: f64,
    reports: Vec<Report>,
}

fn round(args: &PaperArgs, system: &System, setting: &Setting, server: &Served, seed: u64) -> Result<Round> {
    let address = server.fabric(&system.fabric)?;
    let mut clients = (0..args.clients)
        .map(|n| Client::start(args, system, setting, address, n, seed))
        .collect::<Result<Vec<_>>>()?;
    for c in &mut clients {
        let word = c.line()?;
        if word.trim_end() != "ready" {
            return Err(Error::Reply(format!("a client says {word}")));
        }
    }
    let before = server.cpu_seconds()?;
    clients.iter_mut().try_for_each(Client::go)?;
    let reports = clients.iter_mut().map(|c| Report::parse(&c.line()?)).collect::<Result<Vec<_>>>()?;
    let server_s = server.cpu_seconds()? - before;
    let transactions = reports.iter().map(|r| r.transactions).sum::<u64>() as f64;
    let clients_s = reports.iter().map(|r| r.cpu_ns).sum::<u64>() as f64 / 1e9;
    Ok(Round {
        rate: transactions / args.seconds,
        per_cpu: transactions / (clients_s + server_s).max(f64::MIN_POSITIVE),
        server_us: server_s * 1e6 / transactions.max(1.0),
        reports,
    })
}

fn summary(rounds: &[Round]) -> Measured {
    let mut latency = histogram();
    let (mut transactions, mut one_sided, mut fallbacks, mut second_rounds) = (0, 0, 0, 0);
    for r in rounds.iter().flat_map(|r| &r.reports) {
        // Same bounds, so it cannot fail.
        let _ = latency.add(&r.latency);
        transactions += r.transactions;
        one_sided += r.one_sided;
        fallbacks += r.fallbacks;
        second_rounds += r.second_rounds;
    }
    let median = |of: fn(&Round) -> f64| table::median(rounds.iter().map(of).collect());
    let percent = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 * 100.0 / of as f64 };
    let us = |q| latency.value_at_quantile(q) as f64 / 1e3;
    Measured {
        rate: median(|r| r.rate),
        per_cpu: median(|r| r.per_cpu),
        server_us: median(|r| r.server_us),
        p50_us: us(0.5),
        p99_us: us(0.99),
        p999_us: us(0.999),
        fallbacks: percent(fallbacks, one_sided + fallbacks),
        second_rounds: percent(second_rounds, transactions),
    }
}

fn serve(args: &PaperArgs, system: &System) -> Result<Served> {
    if !args.connect.is_empty() {
        return Ok(Served::There(args.connect.clone()));
    }
    let fabrics = Fabrics { names: vec![system.fabric.clone()], shards: args.shards, threads: args.threads };
    Server::with_fabrics(args.server.as_deref(), &system.isolation, system.prepared, &fabrics)
        .map(Served::Here)
}

/// Every system at every position; systems whose fabric cannot be had are left out.
pub fn measure(
    args: &PaperArgs,
    systems: &[System],
    settings: &[Setting],
) -> Result<Vec<(System, Vec<Measured>)>> {
    let mut running: Vec<(System, Served)> = Vec::new();
    for system in systems {
        match serve(args, system).and_then(|server| {
            client::fill(
                server.fabric(&system.fabric)?,
                args.records,
                settings.first().map_or(8, |s| s.value),
            )?;
            Ok(server)
        }) {
            Ok(server) => running.push((system.clone(), server)),
            Err(e) => println!("left out: {}: {e}", system.name),
        }
    }
    let mut measured: Vec<(System, Vec<Measured>)> =
        running.iter().map(|(s, _)| (s.clone(), Vec::new())).collect();
    let bar = (settings.len() * args.rounds.max(1) * running.len()) as u64;
    let mut done = 0;
    for setting in settings {
        let mut rounds: Vec<Vec<Round>> = running.iter().map(|_| Vec::new()).collect();
        for n in 0..args.rounds.max(1) {
            for ((system, server), into) in running.iter().zip(&mut rounds) {
                into.push(round(args, system, setting, server, n as u64)?);
                done += 1;
                eprint!("\r{done}/{bar} rounds ");
            }
        }
        for (m, rounds) in measured.iter_mut().zip(&rounds) {
            m.1.push(summary(rounds));
        }
    }
    eprintln!();
    Ok(measured)
}

/// Everything that was measured, a row for each system and position.
pub fn details(measured: &[(System, Vec<Measured>)], labels: &[String], out: &Path, id: &str) -> Result<()> {
    let header = [
        "system",
        "workload",
        "tx/s",
        "tx/CPU s",
        "server us/tx",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "fallbacks %",
        "second rounds %",
    ];
    let rows: Vec<Vec<String>> = measured
        .iter()
        .flat_map(|(s, m)| {
            m.iter().zip(labels).map(|(m, label)| {
                vec![
                    s.name.replace(',', " "),
                    label.clone(),
                    format!("{:.0}", m.rate),
                    format!("{:.0}", m.per_cpu),
                    format!("{:.2}", m.server_us),
                    format!("{:.1}", m.p50_us),
                    format!("{:.1}", m.p99_us),
                    format!("{:.1}", m.p999_us),
                    format!("{:.3}", m.fallbacks),
                    format!("{:.3}", m.second_rounds),
                ]
            })
        })
        .collect();
    table::print("everything", &header, &rows);
    table::csv(out, &format!("{id}-details"), &header, &rows)
}
