//! Runs the simulator on many seeds: `simulate --seeds 2000 --isolation fast [--canary NAME] [--first SEED] [--trace]`.
//! With a canary it stops at the first seed that catches it. A failing seed runs again with one line per event if
//! `--trace` is given.
use kintsugidb_ramp::{
    Fault, Isolation,
    sim::{Options, Stats, run},
};

fn main() -> Result<(), String> {
    let mut args = std::env::args().skip(1);
    let (mut seeds, mut first, mut isolation, mut canary, mut trace) = (200, 0, Isolation::Fast, None, false);
    let mut keep_going = false;
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--seeds" => seeds = value()?.parse().map_err(|_| "--seeds needs a number")?,
            "--first" => first = value()?.parse().map_err(|_| "--first needs a number")?,
            "--isolation" => {
                isolation = Isolation::from_name(&value()?).ok_or("unknown isolation")?;
            }
            "--canary" => {
                let name = value()?;
                canary = Some(Fault::ALL.iter().find(|(n, _)| *n == name).ok_or("unknown canary")?.1);
            }
            "--trace" => trace = true,
            "--keep-going" => keep_going = true,
            _ => return Err(format!("unknown argument {arg}")),
        }
    }
    let options = |seed, trace| Options { seed, isolation, fault: canary, steps: 1200, trace };
    let mut all = Stats::default();
    let mut failures = 0u32;
    let mut ran = 0;
    for seed in first..first + seeds {
        ran += 1;
        match run(options(seed, false)) {
            Ok(s) => {
                all.ops += s.ops;
                all.committed += s.committed;
                all.aborted += s.aborted;
                all.rereads += s.rereads;
                all.local += s.local;
                all.deaths += s.deaths;
            }
            Err(e) => {
                failures += 1;
                if trace {
                    let _ = run(options(seed, true));
                }
                println!("{e}");
                if !keep_going {
                    break;
                }
            }
        }
    }
    println!(
        "{}{}: {ran} seeds, {} operations ({} local), {} commits, {} aborts, {} second rounds, {} deaths: {}",
        isolation.name(),
        canary
            .and_then(|c| Fault::ALL.iter().find(|(_, f)| *f == c))
            .map(|(n, _)| format!(" with {n}"))
            .unwrap_or_default(),
        all.ops,
        all.local,
        all.committed,
        all.aborted,
        all.rereads,
        all.deaths,
        if failures == 0 { "ok".to_string() } else { format!("{failures} failed") }
    );
    if failures > 0 { Err("a rule was broken".into()) } else { Ok(()) }
}
