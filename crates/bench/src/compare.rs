//! MGET and MSET of 8 keys over the shards, GET and SET, against redis-server: the same client, each server on one core.
use crate::{
    Common, Result,
    load::{self, Batch, Rng, Round},
    process::{self, Server},
    table,
};

/// The commands compared.
#[derive(Clone, Copy)]
pub enum Load {
    /// Multi-key read.
    Mget,
    /// Multi-key write.
    Mset,
    /// Single-key read.
    Get,
    /// Single-key write.
    Set,
}

impl Load {
    /// The command.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mget => "MGET",
            Self::Mset => "MSET",
            Self::Get => "GET",
            Self::Set => "SET",
        }
    }

    /// A batch of `pipeline` such commands on random keys.
    pub fn batch(self, c: &Common, pipeline: usize, rng: &mut Rng) -> Batch {
        let value = vec![b'w'; c.value];
        let bulk = format!("${}\r\n", c.value).len() + c.value + 2;
        let mut request = Vec::new();
        let mut reply = 0;
        for _ in 0..pipeline {
            let keys: Vec<String> = (0..c.size).map(|_| load::key(rng.next() % c.keys)).collect();
            let mut args: Vec<&[u8]> = vec![self.name().as_bytes()];
            match self {
                Self::Mget => args.extend(keys.iter().map(|k| k.as_bytes())),
                Self::Mset => args.extend(keys.iter().flat_map(|k| [k.as_bytes(), &value[..]])),
                Self::Get => args.push(keys[0].as_bytes()),
                Self::Set => args.extend([keys[0].as_bytes(), &value[..]]),
            }
            load::encode(&mut request, &args);
            reply += match self {
                Self::Mget => format!("*{}\r\n", c.size).len() + c.size * bulk,
                Self::Get => bulk,
                Self::Mset | Self::Set => 5,
            };
        }
        Batch { request, commands: pipeline, reply }
    }
}

/// The figure.
pub fn run(c: &Common) -> Result<()> {
    let servers = [Server::redis()?, Server::kintsugi(c, "fast")?];
    process::leave_the_servers_core();
    let mut connections = Vec::new();
    for s in &servers {
        load::fill(s, c.keys, c.value)?;
        connections.push((0..c.connections).map(|_| load::connect(s)).collect::<Result<Vec<_>>>()?);
    }
    let header = ["load", "pipeline", "server", "kops/s", "kops per CPU s", "ratio/s", "ratio per CPU s"];
    let mut rows = Vec::new();
    let mut raw = Vec::new();
    for load in [Load::Mget, Load::Mset, Load::Get, Load::Set] {
        for pipeline in [16, 1] {
            let mut rng = Rng(1);
            let batches: Vec<Batch> = (0..512).map(|_| load.batch(c, pipeline, &mut rng)).collect();
            let mut rounds: [Vec<Round>; 2] = Default::default();
            for round in 0..=c.rounds {
                for (i, s) in servers.iter().enumerate() {
                    let seconds = if round == 0 { 0.2 } else { c.seconds };
                    let r = load::round(s, &mut connections[i], &batches, seconds)?;
                    if round > 0 {
                        rounds[i].push(r);
                        raw.push(vec![
                            load.name().into(),
                            pipeline.to_string(),
                            s.name.clone(),
                            r.commands.to_string(),
                            r.seconds.to_string(),
                            r.cpu.to_string(),
                        ]);
                    }
                }
            }
            let rate = |i: usize| table::median(rounds[i].iter().map(Round::rate).collect());
            let cpu = |i: usize| table::median(rounds[i].iter().map(Round::per_cpu).collect());
            for (i, s) in servers.iter().enumerate() {
                rows.push(vec![
                    format!(
                        "{} {}",
                        load.name(),
                        if matches!(load, Load::Mget | Load::Mset) { c.size } else { 1 }
                    ),
                    pipeline.to_string(),
                    s.name.clone(),
                    format!("{:.1}", rate(i) / 1e3),
                    format!("{:.1}", cpu(i) / 1e3),
                    format!("{:.2}", rate(i) / rate(0)),
                    format!("{:.2}", cpu(i) / cpu(0)),
                ]);
            }
        }
    }
    let title = format!(
        "{} keys of 16 B with {} B, {} connections, servers on one core, Kintsugi with {} shards on {} thread(s), medians of {} rounds",
        table::thousands(c.keys as f64),
        c.value,
        c.connections,
        c.shards,
        c.threads,
        c.rounds
    );
    table::print(&title, &header, &rows);
    table::csv(&c.out, "redis", &["load", "pipeline", "server", "commands", "seconds", "cpu_seconds"], &raw)
}
