//! A bounded number of seeds for each algorithm, and the canaries.
use super::*;

fn options(seed: u64, isolation: Isolation, fault: Option<Fault>) -> Options {
    Options { seed, isolation, fault, steps: 1200, trace: false }
}

fn clean(isolation: Isolation, seeds: u64) {
    for seed in 0..seeds {
        if let Err(e) = run(options(seed, isolation, None)) {
            panic!("{}: {e}", isolation.name());
        }
    }
}

#[test]
fn fast_keeps_its_promises() {
    clean(Isolation::Fast, 60);
}
