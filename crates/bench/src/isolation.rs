//! What Read Atomic costs: the algorithms against `none`, 95 % MGET and 5 % MSET of 8 keys over 16 shards.
use crate::{
    Common, Result,
    compare::Load,
    load::{self, Batch, Rng, Round},
    process::{self, Server},
    table,
};

const ALGORITHMS: [&str; 5] = ["none", "fast", "small", "hybrid", "locking"];

/// The figure.
pub fn run(c: &Common) -> Result<()> {
    let servers = ALGORITHMS.iter().map(|a| Server::kintsugi(c, a)).collect::<Result<Vec<_>>>()?;
    process::leave_the_servers_core();
    let mut connections = Vec::new();
    for s in &servers {
        load::fill(s, c.keys, c.value)?;
        connections.push((0..c.connections).map(|_| load::connect(s)).collect::<Result<Vec<_>>>()?);
    }
    let mut rows = Vec::new();
    let mut raw = Vec::new();
    for pipeline in [16, 1] {
        let mut rng = Rng(2);
        let batches: Vec<Batch> = (0..640)
            .map(|i| if i % 20 == 19 { Load::Mset } else { Load::Mget }.batch(c, pipeline, &mut rng))
            .collect();
        let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); servers.len()];
        for round in 0..=c.rounds {
            for (i, s) in servers.iter().enumerate() {
                let seconds = if round == 0 { 0.2 } else { c.seconds };
                let r = load::round(s, &mut connections[i], &batches, seconds)?;
                if round > 0 {
                    rounds[i].push(r);
                    raw.push(vec![
                        pipeline.to_string(),
                        ALGORITHMS[i].into(),
                        r.commands.to_string(),
                        r.seconds.to_string(),
                        r.cpu.to_string(),
                    ]);
                }
            }
        }
        let cpu = |i: usize| table::median(rounds[i].iter().map(Round::per_cpu).collect());
        for (i, a) in ALGORITHMS.iter().enumerate() {
            let rate = table::median(rounds[i].iter().map(Round::rate).collect());
            rows.push(vec![
                (*a).into(),
                pipeline.to_string(),
                format!("{:.1}", rate / 1e3),
                format!("{:.1}", cpu(i) / 1e3),
                format!("{:+.1} %", (cpu(0) / cpu(i) - 1.0) * 100.0),
            ]);
        }
    }
    let title = format!(
        "95 % MGET, 5 % MSET of {} keys, {} keys, {} shards on {} thread(s), medians of {} rounds",
        c.size,
        table::thousands(c.keys as f64),
        c.shards,
        c.threads,
        c.rounds
    );
    table::print(&title, &["isolation", "pipeline", "kops/s", "kops per CPU s", "CPU cost over none"], &rows);
    table::csv(&c.out, "isolation", &["pipeline", "isolation", "commands", "seconds", "cpu_seconds"], &raw)
}
