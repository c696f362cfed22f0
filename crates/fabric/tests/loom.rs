//! Models of the ring and of the bell under the C++ memory model: `RUSTFLAGS="--cfg model --cfg loom" cargo test -p kintsugidb-fabric --release
//! --test loom`. They run the crate's own code, on a ring of two records.
//!
//! Each model also runs without each of the safeguards that it is there for, and must then fail.
#![cfg(loom)]

use kintsugidb_fabric::ring::{Receiver, Sender, Stores};
use kintsugidb_fabric::{Safeguard, bell, each_is_needed};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
const WORDS: u64 = 16;
const TRIES: usize = 3;

struct Shared {
    ring: Vec<AtomicU64>,
    credit: AtomicU64,
    asleep: AtomicU64,
    rung: AtomicU64,
}

fn shared() -> Arc<Shared> {
    let word = || AtomicU64::new(0);
    let ring = (0..WORDS).map(|_| word()).collect();
    Arc::new(Shared { ring, credit: word(), asleep: word(), rung: word() })
}

/// Who runs on the main thread. The checker varies the main thread's course within its bound of preemptions, so the two reach
/// different corners.
#[derive(Copy, Clone)]
enum Main {
    Sender,
    Receiver,
}

fn race(main: Main, sender: impl FnOnce() + 'static, receiver: impl FnOnce() + 'static) {
    match main {
        Main::Sender => {
            let thread = loom::thread::spawn(receiver);
            sender();
            thread.join().unwrap();
        }
        Main::Receiver => {
            let thread = loom::thread::spawn(sender);
            receiver();
            thread.join().unwrap();
        }
    }
}

/// Runs a model with everything in place, then without each of `safeguards`.
fn model(safeguards: &[Safeguard], f: impl Fn(Main) + Sync + Send + Copy + 'static) {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let check = move || {
        for main in [Main::Sender, Main::Receiver] {
            let mut builder = loom::model::Builder::new();
            builder.preemption_bound = Some(3);
            builder.max_branches = 100_000;
            builder.check(move || f(main));
        }
    };
    each_is_needed(safeguards, check);
}

fn body(number: u64) -> [u8; 8] {
    (0x0101_0101_0101_0101 * number).to_le_bytes()
}

/// What arrives is what was sent, in order and whole; a place is used again only after it was cleared. Three messages through two places.
#[test]
fn messages_arrive_whole_and_in_order() {
    use Safeguard::{AcquireIndicators, ClearFirst, ReleaseCredit, ReleaseIndicators};
    model(&[ReleaseIndicators, AcquireIndicators, ClearFirst, ReleaseCredit], |main| {
        let there = shared();
        let here = there.clone();
        race(
            main,
            move || {
                let mut sender = Sender::new(WORDS);
                let mut next = 1;
                for _ in 0..2 + TRIES {
                    match sender.push(&mut Stores(&there.ring), &there.credit, &body(next), false) {
                        Ok(()) => next += 1,
                        Err(full) => {
                            assert_eq!(full, kintsugidb_fabric::ring::Unsent::Full);
                            loom::thread::yield_now();
                        }
                    }
                    if next == 4 {
                        break;
                    }
                }
            },
            move || {
                let mut receiver = Receiver::new(WORDS);
                let mut next = 1;
                for _ in 0..2 + TRIES {
                    let mut out = Vec::new();
                    match receiver.pop(&here.ring, &mut out).expect("nobody lies here") {
                        Some(_) => {
                            assert_eq!(out, body(next));
                            next += 1;
                        }
                        None => loom::thread::yield_now(),
                    }
                    receiver.give_credit(&here.credit, true);
                }
            },
        );
    });
}

/// Either the sleeper sees the message when it looks once more, or it is rung for.
#[test]
fn a_sleeper_never_misses_a_message() {
    model(&[Safeguard::SenderFence, Safeguard::SleeperFence], |main| {
        let there = shared();
        let (here, after) = (there.clone(), there.clone());
        let slept = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let sleeps = slept.clone();
        race(
            main,
            move || {
                let mut sender = Sender::new(WORDS);
                sender.push(&mut Stores(&there.ring), &there.credit, &body(1), false).unwrap();
                if bell::must_ring(&there.asleep) {
                    there.rung.store(1, Ordering::Relaxed);
                }
            },
            move || {
                let receiver = Receiver::new(WORDS);
                bell::announce(&here.asleep);
                sleeps.store(!receiver.has_news(&here.ring), std::sync::atomic::Ordering::Relaxed);
            },
        );
        let slept = slept.load(std::sync::atomic::Ordering::Relaxed);
        assert!(
            !slept || after.rung.load(Ordering::Relaxed) == 1,
            "asleep for good, with a message in the ring"
        );
    });
}
