//! Remote I/O in one thread and virtual time: a client's driver and a target's services over [`kintsugidb_fabric::sim`], with a disk that
//! takes its time. The network tears blocks at eight bytes, reorders, delays and cuts; the target dies, stops and goes on; requests are
//! cancelled and time out. Everything follows from a seed.
//!
//! What must hold, and what would break it ([`Sabotage`]: each has to be caught):
//! - Every request ends, in the right bytes or in an error. A reply that overtakes its block shows what was there before (`Hasty`); a disk
//!   that says "done" after an error shows it, too (`LyingDisk`).
//! - No memory is written that no request under way has as its place: free places hold a poison that must stay (`Careless` gives the place
//!   of a cancelled request back before its reply). A block that somebody holds stays as it is.
//! - A write happens at most once (`RepeatsWrites` sends it again after a connection was lost).
//! - At the end nothing is under way and nothing is taken (`Leaky` forgets a place).

mod disk;
mod world;

use crate::client::Held;
use std::cell::Cell;
use world::{Plan, World};

/// What is broken on purpose, so that the checks can be seen to work.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sabotage {
    Hasty,
    LyingDisk,
    Careless,
    RepeatsWrites,
    Leaky,
}

thread_local! {
    /// Services made on this thread send replies before their blocks have been written.
    pub(crate) static HASTY: Cell<bool> = const { Cell::new(false) };
}

/// What a sabotaged channel does when a request is cancelled.
pub(crate) fn on_cancel(sabotage: Option<Sabotage>, held: Option<&mut Option<Held>>) {
    let Some(held) = held else { return };
    match sabotage {
        Some(Sabotage::Careless) => *held = None,
        Some(Sabotage::Leaky) => std::mem::forget(held.take()),
        _ => {}
    }
}

fn run(plan: Plan) -> Result<world::Tally, String> {
    HASTY.set(plan.sabotage == Some(Sabotage::Hasty));
    let outcome = World::new(plan).run();
    HASTY.set(false);
    outcome
}

/// The plans of a seed: blocks in the client's memory and in messages, with and without cuts.
fn plans(seed: u64) -> [Plan; 4] {
    let plan = |placed, cut_one_in| Plan { seed, placed, cut_one_in, sabotage: None };
    [plan(true, 0), plan(true, 150), plan(false, 0), plan(false, 150)]
}

const SEEDS: u64 = 40;

#[test]
fn every_request_ends_in_the_right_bytes_or_an_error() {
    let mut sum = world::Tally::default();
    for seed in 0..SEEDS {
        for plan in plans(seed) {
            match run(plan) {
                Ok(tally) => sum.add(&tally),
                Err(why) => panic!("{plan:?}: {why}"),
            }
        }
    }
    // The run was worth its name.
    println!("{sum:?}");
    let least =
        [sum.right, sum.written, sum.failed, sum.cancelled, sum.late, sum.reconnections, sum.restarts];
    assert!(least.iter().all(|count| *count > SEEDS), "{sum:?}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    for plan in plans(7) {
        assert_eq!(run(plan), run(plan));
    }
}

#[test]
fn what_is_broken_on_purpose_is_caught() {
    for (sabotage, complaint) in [
        (Sabotage::Hasty, "wrong byte"),
        (Sabotage::LyingDisk, "wrong byte"),
        (Sabotage::Careless, ""),
        (Sabotage::RepeatsWrites, "twice"),
        (Sabotage::Leaky, "taken"),
    ] {
        let caught = (0..SEEDS).flat_map(plans).find_map(|plan| {
            let plan = Plan { sabotage: Some(sabotage), ..plan };
            run(plan).err().filter(|why| why.contains(complaint))
        });
        assert!(caught.is_some(), "{sabotage:?} was not caught");
    }
}
