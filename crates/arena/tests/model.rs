//! The owner's side against a plain map, and the reader's side against the owner's.
#![cfg(not(loom))]

use kintsugidb_arena::{Arena, Config, Error, Get, Kind, NewCell, Ref, Table, hash, read_many};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn small(max_bytes: u64) -> Arena {
    let config = Config { reserve_bytes: 1 << 26, max_bytes, grace_ms: 5, initial_keys: 0, shard: 7 };
    Arena::create_heap(config).unwrap()
}

#[derive(Clone, Debug)]
enum Op {
    Publish { table: usize, key: u16, size: usize, ts: u64, expire: bool, seq: bool, words: bool },
    Remove { table: usize, key: u16 },
    NewTable { capacity: usize },
    DropTable { table: usize },
    Txn { tid: u64, siblings: usize },
    FreeTxn,
    Tick { by: u64 },
    Flush,
    Many { table: usize, from: u16, count: u16 },
    Few { table: usize, keep: u16 },
}

fn ops() -> impl Strategy<Value = Op> {
    let size = prop_oneof![8 => 0usize..100, 2 => 100usize..3000, 1 => 15_000usize..17_000, 1 => 60_000usize..140_000];
    prop_oneof![
        40 => (0usize..4, 0u16..300, size, any::<u64>(), any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(table, key, size, ts, expire, seq, words)| Op::Publish { table, key, size, ts, expire, seq, words }),
        20 => (0usize..4, 0u16..300).prop_map(|(table, key)| Op::Remove { table, key }),
        3 => (0usize..200).prop_map(|capacity| Op::NewTable { capacity }),
        2 => (1usize..4).prop_map(|table| Op::DropTable { table }),
        2 => (any::<u64>(), 0usize..20).prop_map(|(tid, siblings)| Op::Txn { tid, siblings }),
        1 => Just(Op::FreeTxn),
        5 => (0u64..10).prop_map(|by| Op::Tick { by }),
        1 => Just(Op::Flush),
        3 => (0usize..4, 0u16..2000, 100u16..1500).prop_map(|(table, from, count)| Op::Many { table, from, count }),
        2 => (0usize..4, 0u16..30).prop_map(|(table, keep)| Op::Few { table, keep }),
    ]
}

#[derive(Clone, PartialEq, Debug)]
struct Version {
    value: Vec<u8>,
    ts: u64,
    expire: u64,
    seq: u32,
    words: [u64; 4],
}

fn key_bytes(key: u16) -> Vec<u8> {
    match key % 7 {
        0 => key.to_le_bytes().to_vec(),
        1 => format!("key:{key}").into_bytes(),
        2 => [b"a rather longer key ".repeat(20), key.to_le_bytes().to_vec()].concat(),
        _ => format!("{key:016}").into_bytes(),
    }
}

fn publish(arena: &mut Arena, t: Table, key: &[u8], v: &Version) -> Result<Ref, Error> {
    let (a, b) = v.value.split_at(v.value.len() / 3);
    let cell = NewCell {
        kind: Kind::String,
        key,
        value: &[a, &[], b],
        ts: v.ts,
        seq: v.seq,
        expire_at_ms: v.expire,
        txn: None,
        words: (v.words != [0; 4]).then_some(v.words),
    };
    arena.publish(t, hash(key), &cell)
}

fn compare(arena: &Arena, t: Table, model: &BTreeMap<Vec<u8>, Version>) {
    assert_eq!(arena.len(t), model.len());
    let reader = arena.reader();
    let mut out = Vec::new();
    for (key, v) in model {
        let view = arena.find(t, hash(key), key).expect("a published key is there");
        assert_eq!(
            (view.key(), view.value(), view.ts(), view.expire_at_ms(), view.seq(), view.words()),
            (&key[..], &v.value[..], v.ts, v.expire, v.seq, v.words)
        );
        out.clear();
        let seen =
            reader.read(t, hash(key), key, &mut out).unwrap().expect("a reader finds what the owner has");
        assert_eq!(
            (&out[seen.value.clone()], seen.ts, seen.expire_at_ms, seen.seq, seen.words()),
            (&v.value[..], v.ts, v.expire, v.seq, v.words)
        );
        assert!(reader.still_current(&seen.witness()));
        let peek = reader.peek(t, hash(key), key).unwrap().unwrap();
        assert_eq!((peek.cell, peek.value.len()), (view.cell(), v.value.len()));
    }
    let keys: Vec<_> = model.keys().collect();
    let gets: Vec<_> =
        keys.iter().map(|k| Get { reader: &reader, table: t, hash: hash(k), key: k }).collect();
    let mut answers = Vec::new();
    out.clear();
    read_many(&gets, &mut out, &mut answers);
    for (v, answer) in model.values().zip(answers) {
        assert_eq!(out[answer.unwrap().into_seen().unwrap().value], v.value[..]);
    }
    let mut visited = BTreeSet::new();
    arena.for_each(t, &mut |view| assert!(visited.insert(view.key().to_vec()), "visited twice"));
    assert!(visited.iter().eq(model.keys()));
    for key in (5000..5020).map(key_bytes) {
        assert!(arena.find(t, hash(&key), &key).is_none());
        let answer = reader.read_witnessed(t, hash(&key), &key, &mut out).unwrap();
        assert!(answer.seen().is_none() && reader.still_current(&answer.witness()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn the_arena_is_a_map_and_every_byte_is_accounted_for(ops in prop::collection::vec(ops(), 1..120)) {
        let mut arena = small(0);
        let mut tables = vec![(Table::ROOT, BTreeMap::<Vec<u8>, Version>::new())];
        let mut records = Vec::new();
        let mut now = 0;
        for op in ops {
            match op {
                Op::Publish { table, key, size, ts, expire, seq, words } => {
                    let at = table % tables.len();
                    let value = (0..size).map(|i| (i as u64 ^ ts) as u8).collect();
                    let v = Version {
                        value, ts,
                        expire: if expire { ts | 1 } else { 0 },
                        seq: u32::from(seq) * 9,
                        words: if words { [2, ts | 1, 3, 4] } else { [0; 4] },
                    };
                    let key = key_bytes(key);
                    publish(&mut arena, tables[at].0, &key, &v).unwrap();
                    tables[at].1.insert(key, v);
                }
                Op::Remove { table, key } => {
                    let at = table % tables.len();
                    let key = key_bytes(key);
                    let was = tables[at].1.remove(&key).is_some();
                    prop_assert_eq!(arena.remove(tables[at].0, hash(&key), &key), was);
                }
                Op::NewTable { capacity } => {
                    if tables.len() < 4 {
                        tables.push((arena.new_table(capacity).unwrap(), BTreeMap::new()));
                    }
                }
                Op::DropTable { table } => {
                    if table < tables.len() {
                        let (t, _) = tables.swap_remove(table);
                        arena.drop_table(t);
                        prop_assert_eq!(arena.len(t), 0);
                        let none = Version { value: vec![], ts: 0, expire: 0, seq: 0, words: [0; 4] };
let refused = publish(&mut arena, t, b"k", &none).is_err();
prop_assert!(refused);
                    }
                }
                Op::Txn { tid, siblings } => {
                    let siblings: Vec<u64> = (0..siblings as u64).collect();
                    records.push((arena.new_txn_record(tid, &siblings).unwrap(), tid, siblings));
                }
                Op::FreeTxn => {
                    if let Some((r, _, _)) = records.pop() {
                        arena.free_txn_record(r);
                        arena.free_txn_record(r);
                    }
                }
                Op::Tick { by } => {
                    now += by;
                    arena.tick(now);
                }
                Op::Flush => {
                    arena.flush();
                    tables.truncate(1);
                    tables[0].1.clear();
                }
                Op::Many { table, from, count } => {
                    let at = table % tables.len();
                    for key in (from..from + count).map(key_bytes) {
                        let v = Version { value: key.clone(), ts: 1, expire: 0, seq: 0, words: [0; 4] };
                        publish(&mut arena, tables[at].0, &key, &v).unwrap();
                        tables[at].1.insert(key, v);
                    }
                }
                Op::Few { table, keep } => {
                    let at = table % tables.len();
                    let keys: Vec<_> = tables[at].1.keys().skip(usize::from(keep)).cloned().collect();
                    for key in keys {
                        prop_assert!(arena.remove(tables[at].0, hash(&key), &key));
                        tables[at].1.remove(&key);
                    }
                }
            }
            prop_assert_eq!(arena.check(), Ok(()));
        }
        for (t, model) in &tables {
            compare(&arena, *t, model);
        }
        for (r, tid, siblings) in records {
            let mut out = Vec::new();
            prop_assert_eq!(arena.reader().txn_record(r, &mut out), Some(tid));
            prop_assert_eq!(out, siblings);
            arena.free_txn_record(r);
        }
        // Everything goes, and memory returns to where it began.
        arena.flush();
        for _ in 0..64 {
            now += 10;
            arena.tick(now);
        }
        prop_assert_eq!(arena.check(), Ok(()));
        let memory = arena.memory();
        prop_assert_eq!((memory.used, memory.limbo), (0, 0));
    }

    #[test]
    fn a_scan_returns_what_stays_from_beginning_to_end_exactly_once(
        stay in 0u16..1500, come in 0u16..1500, go in 0u16..1500, every in 1usize..6,
    ) {
        let mut arena = small(0);
        let v = Version { value: vec![1], ts: 1, expire: 0, seq: 0, words: [0; 4] };
        let stays: BTreeSet<_> = (0..stay).map(key_bytes).collect();
        let mut comes: Vec<_> = (2000..2000 + come).map(key_bytes).collect();
        let mut goes: Vec<_> = (4000..4000 + go).map(key_bytes).collect();
        for key in stays.iter().chain(&goes) {
            publish(&mut arena, Table::ROOT, key, &v).unwrap();
        }
        let mut visited = BTreeMap::new();
        let mut cursor = 0;
        loop {
            cursor = arena.scan(Table::ROOT, cursor, &mut |view| *visited.entry(view.key().to_vec()).or_insert(0) += 1);
            prop_assert!(cursor < 1 << 32);
            if cursor == 0 {
                break;
            }
            for _ in 0..every * 3 {
                if let Some(key) = comes.pop() {
                    publish(&mut arena, Table::ROOT, &key, &v).unwrap();
                }
                if let Some(key) = goes.pop() {
                    arena.remove(Table::ROOT, hash(&key), &key);
                }
            }
        }
        for key in &stays {
            prop_assert_eq!(visited.get(key), Some(&1));
        }
        prop_assert!(visited.values().all(|&times| times == 1));
    }
}

#[test]
fn beyond_the_limit_nothing_changes_and_the_error_says_so() {
    let mut arena = small(1 << 20);
    let v = |n: usize| Version { value: vec![7; n], ts: 1, expire: 0, seq: 0, words: [0; 4] };
    let mut keys = 0u16;
    while publish(&mut arena, Table::ROOT, &key_bytes(keys), &v(500)).is_ok() {
        keys += 1;
        arena.check().unwrap();
    }
    assert!(keys > 1000, "{keys}");
    assert!(arena.memory().total() <= 1 << 20);
    assert_eq!(arena.len(Table::ROOT), usize::from(keys));
    // Replacing goes on, for limbo is recycled at once when memory is short.
    for round in 0..3 {
        for key in 0..keys {
            if publish(&mut arena, Table::ROOT, &key_bytes(key), &v(400 + round)).is_err() {
                assert!(arena.remove(Table::ROOT, hash(&key_bytes(0)), &key_bytes(0)) || key > 0);
            }
        }
        arena.check().unwrap();
    }
    arena.set_limit(0);
    publish(&mut arena, Table::ROOT, b"more", &v(100_000)).unwrap();
    arena.check().unwrap();
}

#[test]
fn a_witness_no_longer_holds_after_any_change_of_its_key() {
    let mut arena = small(0);
    let reader = arena.reader();
    let v = Version { value: vec![1], ts: 1, expire: 0, seq: 0, words: [0; 4] };
    let look = |reader: &kintsugidb_arena::Reader| {
        reader.read_witnessed(Table::ROOT, hash(b"k"), b"k", &mut Vec::new()).unwrap().witness()
    };
    let absent = look(&reader);
    publish(&mut arena, Table::ROOT, b"k", &v).unwrap();
    assert!(!reader.still_current(&absent));
    let first = look(&reader);
    assert!(reader.still_current(&first));
    publish(&mut arena, Table::ROOT, b"k", &v).unwrap();
    assert!(!reader.still_current(&first));
    let second = look(&reader);
    arena.remove(Table::ROOT, hash(b"k"), b"k");
    assert!(!reader.still_current(&second));
    let absent = look(&reader);
    assert!(reader.still_current(&absent));
    // Growth moves the key's home: the proof must not outlive it.
    for key in 0..2000 {
        publish(&mut arena, Table::ROOT, &key_bytes(key), &v).unwrap();
    }
    publish(&mut arena, Table::ROOT, b"k", &v).unwrap();
    assert!(!reader.still_current(&absent));
    let third = look(&reader);
    arena.flush();
    assert!(!reader.still_current(&third));
}

#[test]
fn a_big_collection_is_read_whole_or_not_at_all() {
    let mut arena = small(0);
    let reader = arena.reader();
    let table = arena.new_table(64).unwrap();
    let header = NewCell {
        kind: Kind::BigHash,
        key: b"h",
        words: Some([0, table.to_raw(), 0, 0]),
        ts: 1,
        ..NewCell::default()
    };
    let cell = arena.publish(Table::ROOT, hash(b"h"), &header).unwrap();
    let seen = reader.peek(Table::ROOT, hash(b"h"), b"h").unwrap().unwrap();
    assert_eq!((seen.kind, seen.words()[1], seen.cell), (Kind::BigHash, table.to_raw(), cell));
    let change = reader.seqlock_begin(&seen).unwrap();
    assert!(reader.seqlock_validate(&seen, change));
    arena.begin_change(cell);
    assert!(reader.seqlock_begin(&seen).is_none());
    let item = NewCell { kind: Kind::Item, key: b"f", value: &[b"v"], ts: 2, ..NewCell::default() };
    arena.publish(table, hash(b"f"), &item).unwrap();
    arena.set_word(cell, 2, 1);
    arena.end_change(cell);
    assert!(!reader.seqlock_validate(&seen, change));
    let change = reader.seqlock_begin(&seen).unwrap();
    let mut out = Vec::new();
    let field = reader.read(table, hash(b"f"), b"f", &mut out).unwrap().unwrap();
    assert_eq!((&out[field.value], reader.word(&seen, 2), reader.len(table)), (&b"v"[..], 1, Some(1)));
    assert!(reader.seqlock_validate(&seen, change));
    arena.remove(Table::ROOT, hash(b"h"), b"h");
    arena.drop_table(table);
    assert!(!reader.seqlock_validate(&seen, change));
    assert!(reader.read(table, hash(b"f"), b"f", &mut out).is_err());
    arena.check().unwrap();
}

#[test]
fn large_values_come_and_go_and_their_pages_with_them() {
    let mut arena =
        Arena::create(Config { reserve_bytes: 1 << 30, grace_ms: 0, ..Config::default() }).unwrap();
    let before = arena.memory().committed;
    for round in 0..5u8 {
        let value = vec![round; 20 << 20];
        arena
            .publish(
                Table::ROOT,
                hash(b"k"),
                &NewCell { key: b"k", value: &[&value, b"end"], ..NewCell::default() },
            )
            .unwrap();
        let mut out = Vec::new();
        let seen = arena.reader().read(Table::ROOT, hash(b"k"), b"k", &mut out).unwrap().unwrap();
        assert_eq!(seen.value.len(), value.len() + 3);
        assert!(out.starts_with(&value) && out.ends_with(b"end"));
        arena.tick(u64::from(round));
        arena.check().unwrap();
    }
    arena.remove(Table::ROOT, hash(b"k"), b"k");
    arena.tick(100);
    assert_eq!(arena.memory().committed, before);
}

#[test]
fn random_reaches_every_key_about_equally() {
    let mut arena = small(0);
    for key in 0..100 {
        let v = Version { value: vec![], ts: 0, expire: 0, seq: 0, words: [0; 4] };
        publish(&mut arena, Table::ROOT, &key_bytes(key), &v).unwrap();
    }
    let mut counts = BTreeMap::new();
    for r in 0..20_000 {
        *counts.entry(arena.random(Table::ROOT, r).unwrap().key().to_vec()).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 100);
    assert!(counts.values().all(|&n| (100..400).contains(&n)), "{counts:?}");
    for key in 1..100 {
        arena.remove(Table::ROOT, hash(&key_bytes(key)), &key_bytes(key));
    }
    assert_eq!(arena.random(Table::ROOT, 1).unwrap().key(), key_bytes(0));
    arena.remove(Table::ROOT, hash(&key_bytes(0)), &key_bytes(0));
    assert!(arena.random(Table::ROOT, 1).is_none());
}

#[test]
fn an_invalidated_cell_is_read_with_a_word_about_it_and_goes_with_its_mark() {
    let mut arena = small(0);
    let reader = arena.reader();
    let version = |ts| Version { value: vec![1; 40], ts, expire: 0, seq: 0, words: [0; 4] };
    let read = |key: &[u8]| {
        let answer = reader.read_witnessed(Table::ROOT, hash(key), key, &mut Vec::new()).unwrap();
        answer.seen().map(|seen| (seen.ts, seen.invalidated, reader.still_current(&answer.witness())))
    };
    publish(&mut arena, Table::ROOT, b"k", &version(1)).unwrap();
    assert_eq!(read(b"k"), Some((1, false, true)));
    arena.invalidate(hash(b"k"), b"k", true);
    arena.invalidate(hash(b"absent"), b"absent", true);
    assert_eq!(read(b"k"), Some((1, true, false)), "no witness for what the owner is to be asked for");
    assert_eq!((arena.check(), read(b"absent")), (Ok(()), None));
    arena.invalidate(hash(b"k"), b"k", false);
    assert_eq!(read(b"k"), Some((1, false, true)));
    arena.invalidate(hash(b"k"), b"k", true);
    publish(&mut arena, Table::ROOT, b"k", &version(2)).unwrap();
    assert_eq!(read(b"k"), Some((2, false, true)), "a new version has no mark");
    arena.invalidate(hash(b"k"), b"k", true);
    assert!(arena.remove(Table::ROOT, hash(b"k"), b"k"));
    assert_eq!((arena.check(), read(b"k")), (Ok(()), None));
}

#[test]
fn the_table_of_prepared_versions_is_found_by_readers_and_made_again_after_a_flush() {
    let mut arena = small(0);
    let reader = arena.reader();
    assert_eq!((arena.prepared(), reader.prepared()), (None, None));
    let first = arena.prepared_table().unwrap();
    assert_eq!(
        (arena.prepared_table().ok(), arena.prepared(), reader.prepared()),
        (Some(first), Some(first), Some(first))
    );
    arena.flush();
    assert_eq!(arena.prepared(), None);
    assert!(reader.read(first, 1, b"k", &mut Vec::new()).is_err(), "it is gone");
    let second = arena.prepared_table().unwrap();
    assert_eq!(reader.prepared(), Some(second));
    assert_ne!(first, second);
    assert_eq!(arena.check(), Ok(()));
}
