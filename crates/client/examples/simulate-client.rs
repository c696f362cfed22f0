//! Runs real clients over the simulated network on many seeds: `simulate-client --seeds 500 --isolation fast [--canary NAME] [--first SEED]
//! [--operations N] [--trace]`. With a canary it stops at the first seed that catches it. A failing seed runs again with one line per event
//! if `--trace` is given.
use kintsugidb_client::{
    Counters, Fault,
    sim::{Options, run},
};
use kintsugidb_ramp::Isolation;

fn main() -> Result<(), String> {
    let mut args = std::env::args().skip(1);
    let (mut seeds, mut first, mut isolation, mut fault, mut trace) = (100, 0, Isolation::Fast, None, false);
    let mut operations = 150;
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        let number = |v: String| v.parse().map_err(|_| format!("{v} is no number"));
        match arg.as_str() {
            "--seeds" => seeds = number(value()?)?,
            "--first" => first = number(value()?)?,
            "--operations" => operations = number(value()?)? as u32,
            "--isolation" => isolation = Isolation::from_name(&value()?).ok_or("unknown isolation")?,
            "--canary" => {
                let name = value()?;
                fault = Some(Fault::ALL.iter().find(|(n, _)| *n == name).ok_or("unknown canary")?.1);
            }
            "--trace" => trace = true,
            _ => return Err(format!("unknown argument {arg}")),
        }
    }
    let options = |seed, trace| Options { seed, isolation, fault, operations, trace };
    let (mut clients, mut all, mut committed) = (Counters::default(), 0, 0);
    for seed in first..first + seeds {
        match run(options(seed, false)) {
            Ok(stats) => {
                clients.add(stats.clients);
                all += stats.operations;
                committed += stats.committed;
            }
            Err(e) => {
                if trace {
                    let _ = run(options(seed, true));
                }
                return Err(format!("{} of {seeds} seeds: {e}", seed - first + 1));
            }
        }
    }
    println!("{}: {seeds} seeds, {all} operations, {committed} commits; {clients:?}: ok", isolation.name());
    Ok(())
}
