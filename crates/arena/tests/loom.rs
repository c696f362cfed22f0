//! Models of the owner against readers under the C++ memory model: `RUSTFLAGS="--cfg model --cfg loom" cargo test -p kintsugidb-arena --release
//! --test loom`. They run the crate's own code, on a region of a few cells and buckets of three entries.
//!
//! Each model also runs without each of the safeguards that it is there for, and must then fail.
#![cfg(loom)]

use kintsugidb_arena::{Arena, Config, Kind, NewCell, Reader, Safeguard, Table, each_is_needed, hash};
use std::sync::Mutex;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn arena() -> Arena {
    Arena::create(Config { reserve_bytes: 4096, max_bytes: 0, grace_ms: 0, initial_keys: 0, shard: 0 })
        .unwrap()
}

fn put(arena: &mut Arena, key: &[u8], version: u64) {
    let half = version.to_le_bytes();
    let cell = NewCell { key, value: &[&half, &half], ts: version, ..NewCell::default() };
    arena.publish(Table::ROOT, hash(key), &cell).unwrap();
}

/// `Some(None)` = absent; `None` = busy. Panics if the value is torn or foreign.
fn get(reader: &Reader, key: &[u8]) -> Option<Option<u64>> {
    let mut out = Vec::new();
    let seen = reader.read(Table::ROOT, hash(key), key, &mut out).ok()?;
    Some(seen.map(|seen| {
        let (a, b) = out[seen.value].split_at(8);
        assert_eq!((a, b), (&seen.ts.to_le_bytes()[..], &seen.ts.to_le_bytes()[..]), "torn or foreign");
        seen.ts
    }))
}

/// Who runs on the main thread. The checker begins with the main thread's course and varies it from there within its bound of
/// preemptions, so the two reach different corners.
#[derive(Copy, Clone)]
enum Main {
    Owner,
    Reader,
}

fn race(
    main: Main,
    arena: Arena,
    owner: impl FnOnce(Arena) -> Arena + 'static,
    reads: impl FnOnce() + 'static,
) {
    match main {
        Main::Reader => {
            let thread = loom::thread::spawn(move || owner(arena));
            reads();
            drop(thread.join());
        }
        Main::Owner => {
            let thread = loom::thread::spawn(reads);
            let arena = owner(arena);
            thread.join().unwrap();
            drop(arena);
        }
    }
}

/// Runs a model with everything in place, then without each of `safeguards`.
fn model(safeguards: &[Safeguard], f: impl Fn(Main) + Sync + Send + Copy + 'static) {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let check = move || {
        for main in [Main::Owner, Main::Reader] {
            let mut builder = loom::model::Builder::new();
            builder.preemption_bound = Some(2);
            builder.max_branches = 100_000;
            builder.check(move || f(main));
        }
    };
    each_is_needed(safeguards, check);
}

#[test]
fn replaced_and_recycled_cells_are_never_torn_and_versions_never_go_back() {
    use Safeguard::*;
    model(&[ConfirmEntry, SecondLook, ReaderFence, WriterFence], |main| {
        if matches!(main, Main::Owner) {
            return; // The other order finds it all, in a tenth of the time.
        }
        let mut arena = arena();
        put(&mut arena, b"k", 1);
        let reader = arena.reader();
        let owner = move |mut arena: Arena| {
            for version in 2..=3 {
                put(&mut arena, b"k", version);
            }
            arena
        };
        let reads = move || {
            let first = get(&reader, b"k");
            assert_ne!(first, Some(None), "missed");
            let second = get(&reader, b"k");
            assert!(
                second.is_none() || first.is_none() || second >= first,
                "backwards: {first:?}, {second:?}"
            );
        };
        race(main, arena, owner, reads);
    });
}

#[test]
fn a_place_that_becomes_another_keys_is_never_taken_for_the_first() {
    model(&[], |main| {
        let mut arena = arena();
        put(&mut arena, b"k", 1);
        put(&mut arena, b"j", 1);
        let reader = arena.reader();
        let owner = move |mut arena: Arena| {
            put(&mut arena, b"k", 2);
            put(&mut arena, b"j", 3);
            put(&mut arena, b"k", 4);
            arena
        };
        let reads = move || {
            assert!(matches!(get(&reader, b"k"), None | Some(Some(1 | 2 | 4))), "missed or foreign");
        };
        race(main, arena, owner, reads);
    });
}

/// Two readers agree on the order: what one has seen, the other does not miss afterwards.
#[test]
fn a_cached_cell_and_the_index_agree() {
    use Safeguard::*;
    model(&[LinkFirst], |main| {
        let mut arena = arena();
        put(&mut arena, b"k", 1);
        let reader = arena.reader();
        let cached = reader.peek(Table::ROOT, hash(b"k"), b"k").unwrap().unwrap();
        let owner = move |mut arena: Arena| {
            put(&mut arena, b"k", 2);
            arena
        };
        let reads = move || {
            if get(&reader, b"k") == Some(Some(2)) {
                assert!(
                    !reader.still_current(&cached.witness()),
                    "the index has the successor, the cell does not know"
                );
            }
        };
        race(main, arena, owner, reads);
    });
    model(&[LinkRemoved], |main| {
        let mut arena = arena();
        put(&mut arena, b"k", 1);
        let reader = arena.reader();
        let cached = reader.peek(Table::ROOT, hash(b"k"), b"k").unwrap().unwrap();
        let owner = move |mut arena: Arena| {
            arena.remove(Table::ROOT, hash(b"k"), b"k");
            arena
        };
        let reads = move || {
            if get(&reader, b"k") == Some(None) {
                assert!(!reader.still_current(&cached.witness()), "the key is gone, the cell does not know");
            }
        };
        race(main, arena, owner, reads);
    });
}

#[test]
fn an_absent_key_that_is_made_does_not_stay_absent() {
    model(&[Safeguard::CountInsertion], |main| {
        let mut arena = arena();
        put(&mut arena, b"j", 1);
        let reader = arena.reader();
        let owner = move |mut arena: Arena| {
            put(&mut arena, b"k", 2);
            put(&mut arena, b"j", 3);
            arena
        };
        let reads = move || {
            // A double collect of k and j: "k absent and j = 3" never was.
            let mut out = Vec::new();
            let k = reader.read_witnessed(Table::ROOT, hash(b"k"), b"k", &mut out);
            let j = reader.read_witnessed(Table::ROOT, hash(b"j"), b"j", &mut out);
            if let (Ok(k), Ok(j)) = (k, j)
                && reader.still_current(&k.witness())
                && reader.still_current(&j.witness())
            {
                assert!(
                    k.seen().is_some() || j.seen().is_some_and(|j| j.ts == 1),
                    "two turns in one snapshot"
                );
            }
        };
        race(main, arena, owner, reads);
    });
}

#[test]
fn a_recycled_record_is_never_taken_for_the_first() {
    model(&[Safeguard::OddFirst, Safeguard::SecondLook], |main| {
        let mut arena = arena();
        let record = arena.new_txn_record(1, &[1]).unwrap();
        let reader = arena.reader();
        let owner = move |mut arena: Arena| {
            arena.free_txn_record(record);
            arena.tick(0);
            arena.new_txn_record(2, &[2]).unwrap();
            arena
        };
        let reads = move || {
            let mut siblings = Vec::new();
            if let Some(tid) = reader.txn_record(record, &mut siblings) {
                assert_eq!((tid, &siblings[..]), (1, &[1][..]), "another transaction's record");
            }
        };
        race(main, arena, owner, reads);
    });
}

#[test]
fn a_key_that_moves_as_the_index_grows_is_never_missed() {
    use Safeguard::*;
    model(&[InsertBeforeClear, ChangeCounter], |main| {
        let mut arena = arena();
        for key in [b"a", b"b"] {
            put(&mut arena, key, 1);
        }
        let reader = arena.reader();
        let owner = move |mut arena: Arena| {
            put(&mut arena, b"c", 1);
            put(&mut arena, b"d", 1);
            arena
        };
        let reads = move || {
            assert_ne!(get(&reader, b"a"), Some(None), "missed");
        };
        race(main, arena, owner, reads);
    });
}

#[test]
fn a_collection_that_changes_is_read_whole_or_again() {
    model(&[Safeguard::OddChange], |main| {
        let mut arena = arena();
        let table = arena.new_table(1).unwrap();
        let put_item = move |arena: &mut Arena, key: &[u8], version: u64| {
            let half = version.to_le_bytes();
            let cell = NewCell { kind: Kind::Item, key, value: &[&half], ts: version, ..NewCell::default() };
            arena.publish(table, hash(key), &cell).unwrap();
        };
        put_item(&mut arena, b"x", 1);
        put_item(&mut arena, b"y", 1);
        let header = NewCell {
            kind: Kind::BigHash,
            key: b"h",
            words: Some([0, table.to_raw(), 0, 0]),
            ..NewCell::default()
        };
        let cell = arena.publish(Table::ROOT, hash(b"h"), &header).unwrap();
        let reader = arena.reader();
        let seen = reader.peek(Table::ROOT, hash(b"h"), b"h").unwrap().unwrap();
        let owner = move |mut arena: Arena| {
            arena.begin_change(cell);
            put_item(&mut arena, b"x", 2);
            put_item(&mut arena, b"y", 2);
            arena.end_change(cell);
            arena
        };
        let reads = move || {
            if let Some(change) = reader.seqlock_begin(&seen) {
                let x = reader.peek(table, hash(b"x"), b"x");
                let y = reader.peek(table, hash(b"y"), b"y");
                if reader.seqlock_validate(&seen, change)
                    && let (Ok(x), Ok(y)) = (x, y)
                {
                    assert_eq!(x.unwrap().ts, y.unwrap().ts, "half of a change");
                }
            }
        };
        race(main, arena, owner, reads);
    });
}
