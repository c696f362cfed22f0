//! Readers on their own threads while the owner recycles cells as fast as it can, and grows, shrinks and drops tables.
//!
//! The value of version n of key k is a pattern made from (k, n) and as long as n says, and its timestamp is n. The owner announces n
//! in `begun` before it publishes and in `done` after. So a reader who notes `done` before and `begun` after knows the range that
//! a linearizable register may answer, and whether what it got is whole.
//!
//! The short form runs always; `--ignored` runs the long one.
#![cfg(not(loom))]

use kintsugidb_arena::{Arena, Config, Get, Kind, NewCell, Table, hash, read_many};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Version numbers of a key: `done` ≤ what a reader may see ≤ `begun`. Odd versions are present, even ones absent.
#[derive(Default)]
struct Register {
    begun: AtomicU64,
    done: AtomicU64,
}

fn key(k: usize) -> Vec<u8> {
    if k % 5 == 4 {
        format!("a key that is longer than the others, {k:08}").into_bytes()
    } else {
        format!("k{k}").into_bytes()
    }
}

fn value(k: usize, n: u64) -> Vec<u8> {
    let length = (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize + if n % 64 == 1 { 700 } else { 0 };
    let mut state = n ^ (k as u64) << 48;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(k as u64 | 1);
            (state >> 56) as u8
        })
        .collect()
}

/// Panics with what is wrong about an answer for key `k`.
fn judge(k: usize, low: u64, high: u64, last: &mut u64, seen: Option<(u64, &[u8])>) {
    match seen {
        Some((n, bytes)) => {
            assert_eq!(bytes, value(k, n), "key {k}, version {n}: torn or foreign");
            assert!(n & 1 == 1 && (low..=high).contains(&n), "key {k}: {n} is not in {low}..={high}");
            assert!(n >= *last, "key {k}: {n} after {last}, backwards");
            *last = n;
        }
        None => {
            // Some even version must have been current meanwhile.
            let even = low.next_multiple_of(2).max(*last);
            assert!(even <= high, "key {k}: missed, though {low}..={high} were present and {last} seen");
            *last = even.next_multiple_of(2).min(high);
        }
    }
}

struct Plan {
    keys: usize,
    operations: u64,
    grace_ms: u64,
    readers: usize,
    churn: bool,
}

fn run(plan: Plan) {
    let config =
        Config { reserve_bytes: 1 << 28, max_bytes: 0, grace_ms: plan.grace_ms, initial_keys: 0, shard: 0 };
    let mut arena = Arena::create(config).unwrap();
    let registers: Vec<Register> = (0..plan.keys).map(|_| Register::default()).collect();
    let stop = AtomicBool::new(false);
    let (reads, busy) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for id in 0..plan.readers {
            let reader = arena.reader();
            let (registers, stop, reads, busy) = (&registers, &stop, &reads, &busy);
            scope.spawn(move || {
                let mut random = id as u64 + 1;
                let mut last = vec![0; registers.len()];
                let keys: Vec<_> = (0..registers.len()).map(key).collect();
                let mut out = Vec::new();
                let mut answers = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
                    out.clear();
                    let chosen: Vec<usize> =
                        (0..4).map(|i| ((random >> (16 + 8 * i)) as usize) % registers.len()).collect();
                    let lows: Vec<u64> =
                        chosen.iter().map(|&k| registers[k].done.load(Ordering::Acquire)).collect();
                    if random >> 63 == 0 {
                        let k = chosen[0];
                        match reader.read(Table::ROOT, hash(&keys[k]), &keys[k], &mut out) {
                            Ok(seen) => {
                                let high = registers[k].begun.load(Ordering::Acquire);
                                let seen = seen.as_ref().map(|s| (s.ts, &out[s.value.clone()]));
                                judge(k, lows[0], high, &mut last[k], seen);
                            }
                            Err(_) => drop(busy.fetch_add(1, Ordering::Relaxed)),
                        }
                        reads.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let gets: Vec<_> = chosen
                        .iter()
                        .map(|&k| Get {
                            reader: &reader,
                            table: Table::ROOT,
                            hash: hash(&keys[k]),
                            key: &keys[k],
                        })
                        .collect();
                    answers.clear();
                    read_many(&gets, &mut out, &mut answers);
                    for ((&k, &low), answer) in chosen.iter().zip(&lows).zip(&answers) {
                        match answer {
                            Ok(answer) => {
                                let high = registers[k].begun.load(Ordering::Acquire);
                                let seen = answer.seen().map(|s| (s.ts, &out[s.value.clone()]));
                                judge(k, low, high, &mut last[k], seen);
                            }
                            Err(_) => drop(busy.fetch_add(1, Ordering::Relaxed)),
                        }
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let mut random = 7u64;
        let mut tables = Vec::new();
        for operation in 0..plan.operations {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let k = (random >> 33) as usize % plan.keys;
            let name = key(k);
            let n = registers[k].begun.load(Ordering::Relaxed);
            // One in eight goes away and comes back; the others are replaced by the next odd version.
            let next = if n & 1 == 1 && random >> 61 != 0 { n + 2 } else { n + 1 };
            registers[k].begun.store(next, Ordering::Release);
            if next & 1 == 1 {
                let cell = NewCell { key: &name, value: &[&value(k, next)], ts: next, ..NewCell::default() };
                arena.publish(Table::ROOT, hash(&name), &cell).unwrap();
            } else {
                assert!(arena.remove(Table::ROOT, hash(&name), &name));
            }
            registers[k].done.store(next, Ordering::Release);
            if operation % 64 == 0 {
                arena.tick(operation / 1000);
            }
            if plan.churn {
                churn(&mut arena, operation, &mut tables);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    arena.check().unwrap();
    let (reads, busy) = (reads.into_inner(), busy.into_inner());
    println!("{reads} reads, {busy} of them busy");
    assert!(busy <= reads / 100 + 10, "{busy} of {reads} reads were busy");
}

/// Other keys come and go in waves, so that the index grows and shrinks; sub-tables with the same subkeys as root keys, too.
fn churn(arena: &mut Arena, operation: u64, tables: &mut Vec<Table>) {
    let wave = operation % 20_000;
    let other = format!("other {}", wave % 10_000);
    if wave < 10_000 {
        let cell = NewCell { key: other.as_bytes(), value: &[b"x"], ..NewCell::default() };
        arena.publish(Table::ROOT, hash(other.as_bytes()), &cell).unwrap();
    } else {
        arena.remove(Table::ROOT, hash(other.as_bytes()), other.as_bytes());
    }
    if operation.is_multiple_of(97) {
        if tables.len() == 3 {
            arena.drop_table(tables.remove(0));
        }
        let table = arena.new_table((operation % 200) as usize).unwrap();
        for k in 0..100 {
            let name = key(k);
            let cell =
                NewCell { kind: Kind::Item, key: &name, value: &[b"foreign"], ts: 2, ..NewCell::default() };
            arena.publish(table, hash(&name), &cell).unwrap();
        }
        tables.push(table);
    }
}

#[test]
fn few_hot_keys_are_never_torn_foreign_backwards_or_missed() {
    run(Plan { keys: 4, operations: 400_000, grace_ms: 0, readers: 2, churn: false });
}

#[test]
fn growth_and_recycling_at_once_lose_nothing() {
    run(Plan { keys: 64, operations: 100_000, grace_ms: 0, readers: 2, churn: true });
}

#[test]
#[ignore = "minutes"]
fn hours_of_the_same() {
    for round in 0..20 {
        run(Plan {
            keys: 1 + 7 * round,
            operations: 5_000_000,
            grace_ms: round as u64 % 3,
            readers: 3,
            churn: round % 2 == 1,
        });
    }
}

/// Snapshot reads by double collect: the owner moves one unit between two keys, one store at a time within one turn of its; a
/// reader who finds both still current after having read both must see the sum of some instant between turns.
#[test]
fn a_double_collect_never_sees_two_turns() {
    let config = Config { reserve_bytes: 1 << 26, grace_ms: 0, initial_keys: 0, ..Config::default() };
    let mut arena = Arena::create(config).unwrap();
    let names: Vec<Vec<u8>> = (0..3).map(key).collect();
    let stop = AtomicBool::new(false);
    let valid = AtomicU64::new(0);
    // Turn n writes n to key 0, removes or writes key 1, writes n to key 2, in this order.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let reader = arena.reader();
            let (names, stop, valid) = (&names, &stop, &valid);
            scope.spawn(move || {
                let mut out = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let answers: Vec<_> = names
                        .iter()
                        .rev()
                        .map_while(|name| reader.read_witnessed(Table::ROOT, hash(name), name, &mut out).ok())
                        .collect();
                    out.clear();
                    if answers.len() == 3 && answers.iter().all(|a| reader.still_current(&a.witness())) {
                        let turns: Vec<_> = answers.iter().map(|a| a.seen().map(|s| s.ts)).collect();
                        let (last, middle, first) = (turns[0], turns[1], turns[2]);
                        // Between two stores of one turn: key 0 is at most one ahead of key 2, never behind.
                        let (first, last) = (first.unwrap_or(0), last.unwrap_or(0));
                        assert!(first == last || first == last + 1, "{turns:?}");
                        let expected = |n: u64| if n.is_multiple_of(2) { None } else { Some(n) };
                        assert!(middle == expected(first) || middle == expected(last), "{turns:?}");
                        valid.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for n in 1..200_000u64 {
            for (i, name) in names.iter().enumerate() {
                if i == 1 && n % 2 == 0 {
                    arena.remove(Table::ROOT, hash(name), name);
                } else {
                    let cell = NewCell { key: name, value: &[b"v"], ts: n, ..NewCell::default() };
                    arena.publish(Table::ROOT, hash(name), &cell).unwrap();
                }
            }
            if n % 32 == 0 {
                std::thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("{} valid snapshots", valid.into_inner());
}

/// The canary: a reader that believes the first cell the index shows, without confirming, is caught by the same judge.
#[test]
#[should_panic(expected = "torn or foreign")]
fn the_judge_catches_a_torn_value() {
    let mut bytes = value(1, 9);
    bytes.extend_from_slice(b"x");
    judge(1, 1, 9, &mut 0, Some((9, &bytes)));
}

#[test]
#[should_panic(expected = "backwards")]
fn the_judge_catches_a_step_backwards() {
    judge(1, 1, 9, &mut 7, Some((5, &value(1, 5))));
}

#[test]
#[should_panic(expected = "missed")]
fn the_judge_catches_a_false_miss() {
    judge(1, 5, 5, &mut 5, None);
}
