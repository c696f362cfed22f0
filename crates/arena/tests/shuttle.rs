//! The owner against readers in drawn schedules: `make shuttle`. Where the models of `loom.rs` go through every order of a few steps on a region of a few
//! cells, these go through some orders of many steps on a region as it is: tables that grow and shrink, cells that are recycled, sub-tables that are dropped.
//!
//! Each also runs without each of the safeguards that it is there for, and must then fail within as many schedules. (Shuttle's memory is sequentially consistent:
//! orderings and fences are for `loom.rs`.)
#![cfg(shuttle)]

use kintsugidb_arena::{Arena, Config, Kind, NewCell, Reader, Safeguard, Seen, Table, each_is_needed, hash};
use shuttle::{
    Runner,
    rand::{Rng, thread_rng},
    scheduler::{PctScheduler, RandomScheduler},
};
use std::sync::Mutex;

/// Schedules drawn of each sort.
const SCHEDULES: usize = 500;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs a model in drawn schedules with everything in place, then without each of `safeguards`.
fn model(safeguards: &[Safeguard], f: impl Fn() + Sync + Send + Copy + 'static) {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let check = move || {
        let config = || {
            let mut config = shuttle::Config::new();
            config.max_steps = shuttle::MaxSteps::None;
            config.stack_size = 1 << 20;
            config.failure_persistence = shuttle::FailurePersistence::None;
            config
        };
        Runner::new(RandomScheduler::new(SCHEDULES), config()).run(f);
        Runner::new(PctScheduler::new(3, SCHEDULES), config()).run(f);
    };
    each_is_needed(safeguards, check);
}

/// An arena whose replaced cells are recycled at once, or not as long as the test runs.
fn arena(recycles: bool) -> Arena {
    let grace_ms = if recycles { 0 } else { 1000 };
    Arena::create(Config { reserve_bytes: 1 << 17, max_bytes: 0, grace_ms, initial_keys: 0, shard: 0 })
        .unwrap()
}

/// Writes a value of several words, all of them the version.
fn put(arena: &mut Arena, t: Table, key: u64, version: u64) {
    let (key, word) = (key.to_le_bytes(), version.to_le_bytes());
    let cell = NewCell { key: &key, value: &[&word[..]; 6], ts: version, ..NewCell::default() };
    arena.publish(t, hash(&key), &cell).unwrap();
}

/// `Some(None)` = absent; `None` = busy. Panics if the value is torn or foreign.
fn get(reader: &Reader, t: Table, key: u64) -> Option<Option<u64>> {
    let (key, mut out) = (key.to_le_bytes(), Vec::new());
    let seen: Option<Seen> = reader.read(t, hash(&key), &key, &mut out).ok()?;
    Some(seen.map(|seen| {
        assert_eq!(out[seen.value], seen.ts.to_le_bytes().repeat(6), "torn or foreign");
        seen.ts
    }))
}

/// One key, in two places in turn: what leads to a place leads there again when it holds a later version.
#[test]
fn a_cell_that_is_recycled_under_its_reader_is_not_torn() {
    model(&[Safeguard::SecondLook], || {
        let mut arena = arena(true);
        put(&mut arena, Table::ROOT, 0, 1);
        let reader = arena.reader();
        let thread = shuttle::thread::spawn(move || {
            let mut newest = 1;
            for _ in 0..6 {
                let Some(found) = get(&reader, Table::ROOT, 0) else { continue };
                let found = found.expect("the key is always there");
                assert!(found >= newest, "back from {newest} to {found}");
                newest = found;
            }
        });
        (2..12).for_each(|version| put(&mut arena, Table::ROOT, 0, version));
        thread.join().unwrap();
    });
}

/// A table that grows past several sizes and is emptied again; a few keys that are there all the time and only get newer.
#[test]
fn keys_are_found_in_their_order_while_the_index_grows_and_cells_are_recycled() {
    const STAY: u64 = 3;
    model(&[Safeguard::InsertBeforeClear], || {
        let mut arena = arena(true);
        (0..STAY).for_each(|key| put(&mut arena, Table::ROOT, key, 1));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let reader = arena.reader();
                shuttle::thread::spawn(move || {
                    let mut newest = [1; STAY as usize];
                    for _ in 0..8 {
                        let key = thread_rng().gen_range(0..STAY);
                        let Some(found) = get(&reader, Table::ROOT, key) else { continue };
                        let found = found.expect("a key that is always there was missed");
                        assert!(found >= newest[key as usize], "key {key} went back to {found}");
                        newest[key as usize] = found;
                    }
                })
            })
            .collect();
        for turn in 2..30 {
            put(&mut arena, Table::ROOT, turn % STAY, turn);
            put(&mut arena, Table::ROOT, 100 + turn, turn);
            if turn % 4 == 0 {
                arena.remove(Table::ROOT, hash(&(98 + turn).to_le_bytes()), &(98 + turn).to_le_bytes());
                arena.tick(turn);
            }
        }
        readers.into_iter().for_each(|r| r.join().unwrap());
        assert_eq!(arena.check(), Ok(()));
    });
}

/// What was absent and what was there belong to one moment, if both still hold afterwards.
#[test]
fn a_double_collect_is_a_snapshot() {
    model(&[Safeguard::CountInsertion, Safeguard::LinkFirst], || {
        let mut arena = arena(thread_rng().gen_bool(0.5));
        put(&mut arena, Table::ROOT, 0, 1);
        let reader = arena.reader();
        let thread = shuttle::thread::spawn(move || {
            for _ in 0..6 {
                let read = |key: u64| {
                    let key = key.to_le_bytes();
                    reader.read_witnessed(Table::ROOT, hash(&key), &key, &mut Vec::new())
                };
                let (a, b) = if thread_rng().gen_bool(0.5) {
                    let a = read(0);
                    (a, read(1))
                } else {
                    let b = read(1);
                    (read(0), b)
                };
                let (Ok(a), Ok(b)) = (a, b) else { continue };
                if reader.still_current(&a.witness()) && reader.still_current(&b.witness()) {
                    // The owner writes 0, then 1: 1 is what 0 is, or one behind.
                    let (a, b) = (a.seen().map_or(0, |s| s.ts), b.seen().map_or(0, |s| s.ts));
                    assert!(b == 0 && a < 4 || a == b || a == b + 1, "{a} and {b} never were together");
                }
            }
        });
        for version in 2..8 {
            put(&mut arena, Table::ROOT, 0, version);
            if version > 2 {
                put(&mut arena, Table::ROOT, 1, version);
            }
        }
        thread.join().unwrap();
    });
}

/// A big collection: a header that names a table, both replaced by others while it is read.
#[test]
fn what_is_read_through_a_dropped_table_does_not_count() {
    model(&[Safeguard::OddChange], || {
        let mut arena = arena(true);
        let make = |arena: &mut Arena, version: u64| {
            let table = arena.new_table(1).unwrap();
            put(arena, table, 0, version);
            put(arena, table, 1, version);
            let words = Some([0, table.to_raw(), 0, 0]);
            let header = NewCell { kind: Kind::BigHash, key: b"h", words, ts: version, ..NewCell::default() };
            (arena.publish(Table::ROOT, hash(b"h"), &header).unwrap(), table)
        };
        let (mut header, mut table) = make(&mut arena, 1);
        let reader = arena.reader();
        let thread = shuttle::thread::spawn(move || {
            for _ in 0..6 {
                let Ok(Some(seen)) = reader.read(Table::ROOT, hash(b"h"), b"h", &mut Vec::new()) else {
                    continue;
                };
                let Some(change) = reader.seqlock_begin(&seen) else { continue };
                let table = Table::from_raw(seen.words()[1]);
                let (Some(a), Some(b)) = (get(&reader, table, 0), get(&reader, table, 1)) else { continue };
                if reader.seqlock_validate(&seen, change) {
                    assert!(a == b && a.is_some(), "{a:?} and {b:?}");
                }
            }
        });
        for version in 2..7 {
            if version % 3 == 0 {
                arena.drop_table(table);
                (header, table) = make(&mut arena, version);
            } else {
                arena.begin_change(header);
                put(&mut arena, table, 0, version);
                put(&mut arena, table, 1, version);
                arena.end_change(header);
            }
        }
        thread.join().unwrap();
    });
}
