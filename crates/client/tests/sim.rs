//! Real clients over the simulated network, under the checker: a bounded number of seeds for each algorithm, and the canaries.
//! Many more seeds: `cargo run --release -p kintsugidb-client --features sim --example simulate-client -- --seeds 5000`.
use kintsugidb_client::{
    Counters, Fault,
    sim::{Options, run},
};
use kintsugidb_ramp::Isolation;

fn options(seed: u64, isolation: Isolation, fault: Option<Fault>) -> Options {
    Options { seed, isolation, fault, operations: 150, trace: false }
}

/// All seeds are clean; what the clients counted.
fn clean(isolation: Isolation, seeds: u64) -> Counters {
    let mut all = Counters::default();
    for seed in 0..seeds {
        match run(options(seed, isolation, None)) {
            Ok(stats) => all.add(stats.clients),
            Err(e) => panic!("{}: {e}", isolation.name()),
        }
    }
    // Otherwise nothing was tested.
    assert!(all.one_sided > 10 * seeds && all.retries > seeds, "{all:?}");
    assert!(all.fallbacks > 0 && all.followed > 0 && all.connects > 4 * seeds, "{all:?}");
    all
}

/// The first seed that notices.
fn caught(isolation: Isolation, fault: Option<Fault>, seeds: u64) -> Option<u64> {
    (0..seeds).find(|seed| run(options(*seed, isolation, fault)).is_err())
}

#[test]
fn torn_late_and_cut_reads_show_no_half_transaction_fast() {
    let all = clean(Isolation::Fast, 60);
    assert!(all.fractures > 0, "no half of a transaction was there to be seen");
    assert!(all.prepared > 0, "no other half was there to be found");
}

#[test]
fn torn_late_and_cut_reads_show_no_half_transaction_small() {
    clean(Isolation::Small, 30);
}

#[test]
fn torn_late_and_cut_reads_show_no_half_transaction_hybrid() {
    clean(Isolation::Hybrid, 30);
}

#[test]
fn torn_late_and_cut_reads_show_no_half_transaction_locking() {
    clean(Isolation::Locking, 30);
}

#[test]
fn the_checker_sees_what_no_isolation_does() {
    assert!(
        caught(Isolation::None, None, 60).is_some(),
        "without isolation there are fractures, or the checker is blind"
    );
}

#[test]
fn the_checker_notices_each_rule_that_is_broken() {
    for (name, fault) in Fault::ALL {
        assert!(caught(Isolation::Fast, Some(fault), 400).is_some(), "nobody noticed {name}");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let one = run(options(7, Isolation::Fast, None)).expect("a clean seed");
    let two = run(options(7, Isolation::Fast, None)).expect("a clean seed");
    assert_eq!(one, two);
}
