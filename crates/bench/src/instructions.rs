//! What isolation costs in instructions, single-key commands and those of several keys: the whole server under callgrind, from the socket to the
//! reply. The count per command is the difference of two runs that differ only in how many commands they get, so start
//! and end cancel out.
use crate::{
    Common, Error, Result,
    compare::Load,
    load::{self, Batch, Rng},
    process::Server,
    table,
};

/// Commands of the shorter run, and of the longer one.
const COMMANDS: [usize; 2] = [8_000, 40_000];
const PIPELINE: usize = 16;
/// What is compared. The first is the baseline.
const ALGORITHMS: [&str; 5] = ["none", "fast", "small", "hybrid", "locking"];

/// Instructions of a server's whole life in which it fills its keys and gets this many commands.
fn count(c: &Common, isolation: &str, load: Load, commands: usize) -> Result<f64> {
    let server = Server::kintsugi_under_callgrind(c, isolation)?;
    load::fill(&server, c.keys, c.value)?;
    let mut connection = load::connect(&server)?;
    let mut rng = Rng(3);
    let mut buffer = Vec::new();
    for _ in 0..commands / PIPELINE {
        let batch: Batch = load.batch(c, PIPELINE, &mut rng);
        load::exchange(&mut connection, &batch, &mut buffer)?;
    }
    drop(connection);
    let text = server.end()?;
    let collected = text.lines().find_map(|l| l.split_once("Collected :")?.1.trim().parse::<f64>().ok());
    collected.ok_or_else(|| Error::Reply(format!("callgrind printed no count: {text}")))
}

/// The figure.
pub fn run(c: &Common) -> Result<()> {
    let c = Common { keys: c.keys.min(5_000), ..c.clone() };
    let mut rows = Vec::new();
    for load in [Load::Get, Load::Set, Load::Mget, Load::Mset] {
        let mut baseline = 0.0;
        for isolation in ALGORITHMS {
            let [few, many] = COMMANDS.map(|n| count(&c, isolation, load, n));
            let each = (many? - few?) / (COMMANDS[1] - COMMANDS[0]) as f64;
            if isolation == ALGORITHMS[0] {
                baseline = each;
            }
            rows.push(vec![
                load.name().into(),
                isolation.into(),
                format!("{each:.1}"),
                format!("{:+.2} %", (each / baseline - 1.0) * 100.0),
            ]);
        }
    }
    let header = ["command", "isolation", "instructions a command", "over none"];
    let title = format!(
        "Instructions of single-key commands, pipelined by {PIPELINE}, {} B values, one thread",
        c.value
    );
    table::print(&title, &header, &rows);
    table::csv(&c.out, "instructions", &header, &rows)
}
