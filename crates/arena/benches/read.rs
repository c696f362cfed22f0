//! GET, MGET and SET of 16-byte keys and 64-byte values against `hashbrown` in the same run.
//!
//! `cargo bench -p kintsugidb-arena --bench read -- [keys...] [names...]` (default: 100000 10000000, and all). Rounds of the two alternate; a line is
//! the median over the rounds, and the ratio is hashbrown's time through ours, so above 1 is faster. Each look-up hashes a key
//! made from a random number and copies the value to a buffer. hashbrown has its default hasher and boxed keys and values.

use hashbrown::HashMap;
use kintsugidb_arena::{Arena, Config, Get, NewCell, Table, hash, read_many};
use std::hint::black_box;
use std::time::Instant;

type Map = HashMap<Box<[u8]>, Box<[u8]>>;

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

fn key(i: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mix(i).to_le_bytes());
    key[8..].copy_from_slice(&i.to_le_bytes());
    key
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        ((u128::from(mix(self.0)) * u128::from(n)) >> 64) as u64
    }
}

/// Nanoseconds per operation.
fn time(operations: u64, mut f: impl FnMut()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_nanos() as f64 / operations as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

struct Pair<'a> {
    name: &'a str,
    per: u64,
    ours: Box<dyn FnMut(&mut Random) + 'a>,
    theirs: Box<dyn FnMut(&mut Random) + 'a>,
}

fn compare(pair: Pair<'_>, rounds: u64, repeat: u64) {
    let Pair { name, per, mut ours, mut theirs } = pair;
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|a| a.starts_with(char::is_uppercase)).collect();
    if !wanted.is_empty() && !wanted.iter().any(|w| name.starts_with(&w[..])) {
        return;
    }
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let mut random = Random(round);
        a.push(time(repeat * per, || (0..repeat).for_each(|_| ours(&mut random))));
        let mut random = Random(round);
        b.push(time(repeat * per, || (0..repeat).for_each(|_| theirs(&mut random))));
    }
    let (a, b) = (median(a), median(b));
    println!("  {name:<28} {a:8.1} ns   hashbrown {b:8.1} ns   {:5.2}", b / a);
}

fn run(keys: u64) {
    let reserve = keys * 256 + (64 << 20);
    let config = Config { reserve_bytes: reserve, grace_ms: 0, initial_keys: 0, ..Config::default() };
    let mut arena = Arena::create(config).expect("a region");
    let mut map = Map::new();
    let value = [7u8; 64];
    println!("{keys} keys");
    let ours = time(keys, || {
        for i in 0..keys {
            let key = key(i);
            let cell = NewCell { key: &key, value: &[&value], ts: i, ..NewCell::default() };
            arena.publish(Table::ROOT, hash(&key), &cell).expect("room");
        }
    });
    let theirs = time(keys, || {
        for i in 0..keys {
            map.insert(key(i).into(), value.into());
        }
    });
    println!("  {:<28} {ours:8.1} ns   hashbrown {theirs:8.1} ns   {:5.2}", "fill (once)", theirs / ours);
    for now in 1..100_000 {
        arena.tick(now);
    }
    let memory = arena.memory();
    println!(
        "  bytes a key: {:.1} cells, {:.1} index, {:.1} committed",
        memory.used as f64 / keys as f64,
        memory.index as f64 / keys as f64,
        memory.committed as f64 / keys as f64
    );
    let reader = arena.reader();
    let (rounds, repeat) = (9, 200_000);
    let mut out = Vec::new();
    let mut theirs = Vec::new();
    let pair = Pair {
        name: "GET",
        per: 1,
        ours: Box::new(|random| {
            let key = key(random.below(keys));
            out.clear();
            let seen = reader.read(Table::ROOT, hash(&key), &key, &mut out);
            black_box(&seen);
            black_box(&out);
        }),
        theirs: Box::new(|random| {
            theirs.clear();
            theirs.extend_from_slice(&map[&key(random.below(keys))[..]]);
            black_box(&theirs);
        }),
    };
    compare(pair, rounds, repeat);
    let (mut out, mut theirs) = (Vec::new(), Vec::new());
    let pair = Pair {
        name: "GET, each after the last",
        per: 1,
        ours: Box::new(|random| {
            let key = key(random.below(keys));
            out.clear();
            let seen = reader.read(Table::ROOT, hash(&key), &key, &mut out);
            black_box(&seen);
            random.0 ^= u64::from(out[0] & 8);
        }),
        theirs: Box::new(|random| {
            theirs.clear();
            theirs.extend_from_slice(&map[&key(random.below(keys))[..]]);
            random.0 ^= u64::from(theirs[0] & 8);
        }),
    };
    compare(pair, rounds, repeat);
    let (mut out, mut theirs) = (Vec::new(), Vec::new());
    let pair = Pair {
        name: "GET of an absent key",
        per: 1,
        ours: Box::new(|random| {
            let key = key(keys + random.below(keys));
            out.clear();
            let seen = reader.read(Table::ROOT, hash(&key), &key, &mut out);
            black_box(&seen);
        }),
        theirs: Box::new(|random| {
            theirs.clear();
            theirs.extend_from_slice(map.get(&key(keys + random.below(keys))[..]).map_or(&[], |v| v));
            black_box(&theirs);
        }),
    };
    compare(pair, rounds, repeat);
    for batch in [8usize, 32] {
        let (mut out, mut answers) = (Vec::new(), Vec::new());
        let mut theirs = Vec::new();
        let reader = &reader;
        let pair = Pair {
            name: if batch == 8 { "MGET(8), per key" } else { "MGET(32), per key" },
            per: batch as u64,
            ours: Box::new(|random| {
                let mut keys_of = [[0; 16]; 32];
                keys_of[..batch].iter_mut().for_each(|k| *k = key(random.below(keys)));
                let mut gets = [Get { reader, table: Table::ROOT, hash: 0, key: &[] }; 32];
                for (get, key) in gets[..batch].iter_mut().zip(&keys_of) {
                    get.hash = hash(key);
                    get.key = key;
                }
                out.clear();
                answers.clear();
                read_many(&gets[..batch], &mut out, &mut answers);
                black_box((&out, &answers));
            }),
            theirs: Box::new(|random| {
                theirs.clear();
                for _ in 0..batch {
                    theirs.extend_from_slice(&map[&key(random.below(keys))[..]]);
                }
                black_box(&theirs);
            }),
        };
        compare(pair, rounds, repeat / batch as u64);
    }
    let mut theirs = Vec::new();
    let pair = Pair {
        name: "owner's find",
        per: 1,
        ours: Box::new(|random| {
            let key = key(random.below(keys));
            out.clear();
            out.extend_from_slice(arena.find(Table::ROOT, hash(&key), &key).expect("there").value());
            black_box(&out);
        }),
        theirs: Box::new(|random| {
            theirs.clear();
            theirs.extend_from_slice(&map[&key(random.below(keys))[..]]);
            black_box(&theirs);
        }),
    };
    compare(pair, rounds, repeat);
    let pair = Pair {
        name: "SET (replace)",
        per: 1,
        ours: Box::new(|random| {
            let key = key(random.below(keys));
            let cell = NewCell { key: &key, value: &[&value], ts: 1, ..NewCell::default() };
            let done = arena.publish(Table::ROOT, hash(&key), &cell);
            black_box(done.expect("room"));
        }),
        theirs: Box::new(|random| {
            black_box(map.insert(key(random.below(keys)).into(), value.into()));
        }),
    };
    compare(pair, rounds, repeat);
}

fn main() {
    let mut counts: Vec<u64> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    if counts.is_empty() {
        counts = vec![100_000, 10_000_000];
    }
    counts.into_iter().for_each(run);
}
