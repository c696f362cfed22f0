//! Message rings in drawn schedules: `make shuttle`. Where the models of `loom.rs` go through every order of three messages through two places, these send some
//! dozens of all lengths through a ring that they go round several times.
//!
//! Each also runs without each of the safeguards that it is there for, and must then fail within as many schedules. (Shuttle's memory is sequentially consistent:
//! orderings and fences are for `loom.rs`.)
#![cfg(shuttle)]

use kintsugidb_fabric::ring::{Receiver, Sender, Stores, Unsent};
use kintsugidb_fabric::{Safeguard, each_is_needed};
use shuttle::{
    Runner,
    rand::{Rng, thread_rng},
    scheduler::{PctScheduler, RandomScheduler},
    sync::{Arc, atomic::AtomicU64},
};

/// Schedules drawn of each sort.
const SCHEDULES: usize = 1000;
const WORDS: u64 = 128;
const MESSAGES: u64 = 24;

/// A message of a length that its number tells.
fn body(number: u64) -> Vec<u8> {
    (0..number * 37 % 200 + 1).map(|i| (number * 7 + i) as u8).collect()
}

fn messages() {
    let words = |n: u64| (0..n).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    let there = Arc::new((words(WORDS), AtomicU64::new(0)));
    let here = there.clone();
    let sender = shuttle::thread::spawn(move || {
        let mut sender = Sender::new(WORDS);
        let mut next = 0;
        while next < MESSAGES {
            match sender.push(&mut Stores(&there.0), &there.1, &body(next), thread_rng().gen_bool(0.2)) {
                Ok(()) => next += 1,
                Err(full) => {
                    assert_eq!(full, Unsent::Full);
                    shuttle::thread::yield_now();
                }
            }
        }
    });
    let (mut receiver, mut next, mut out) = (Receiver::new(WORDS), 0, Vec::new());
    while next < MESSAGES {
        out.clear();
        match receiver.pop(&here.0, &mut out).expect("nobody lies here") {
            Some(_) => {
                assert_eq!(out, body(next), "message {next}");
                next += 1;
            }
            None => shuttle::thread::yield_now(),
        }
        receiver.give_credit(&here.1, thread_rng().gen_bool(0.3) || next == MESSAGES);
    }
    sender.join().unwrap();
}

#[test]
fn messages_of_all_lengths_arrive_whole_and_in_order_round_after_round() {
    let check = || {
        let config = || {
            let mut config = shuttle::Config::new();
            config.max_steps = shuttle::MaxSteps::FailAfter(1_000_000);
            config.failure_persistence = shuttle::FailurePersistence::None;
            config
        };
        Runner::new(RandomScheduler::new(SCHEDULES), config()).run(messages);
        Runner::new(PctScheduler::new(3, SCHEDULES), config()).run(messages);
    };
    each_is_needed(&[Safeguard::ClearFirst], check);
}
