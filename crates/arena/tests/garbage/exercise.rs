//! Everything a reader can be asked, on a region that may hold anything. Shared by the test and the fuzz target.

use kintsugidb_arena::{Arena, Config};
use kintsugidb_arena::{Get, Kind, NewCell, Reader, Ref, Table, hash, read_many};

pub const KEYS: [&[u8]; 5] = [b"", b"k", b"key 1", b"sixteen bytes ok", &[7; 300]];

/// The bytes of a small region with a bit of everything in it.
pub fn sound_image() -> Vec<u8> {
    let config = Config { reserve_bytes: 256 << 10, grace_ms: 1 << 30, initial_keys: 0, ..Config::default() };
    let mut arena = Arena::create_heap(config).expect("room");
    let record = arena.new_txn_record(9, &[1, 2, 3]).expect("room");
    let table = arena.new_table(4).expect("room");
    for round in 0..2u64 {
        for (i, key) in KEYS.iter().enumerate() {
            let cell = NewCell {
                kind: Kind::BigHash,
                key,
                value: &[&[i as u8; 70], key],
                ts: round,
                seq: i as u32 % 2,
                expire_at_ms: i as u64 % 3,
                txn: (i == 1).then_some(record),
                words: (i == 2).then_some([2, table.to_raw(), 3, 4]),
            };
            arena.publish(Table::ROOT, hash(key), &cell).expect("room");
            arena.publish(table, hash(key), &NewCell { kind: Kind::Item, ..cell }).expect("room");
        }
    }
    for i in 0..150u32 {
        let key = i.to_le_bytes();
        arena.publish(Table::ROOT, hash(&key), &NewCell { key: &key, ..NewCell::default() }).expect("room");
    }
    arena.reader().image()
}

/// Asks a reader everything. Whatever it answers, it answers.
pub fn exercise(bytes: &[u8]) {
    let Ok(reader) = Reader::of_bytes(bytes) else { return };
    let mut tables = vec![Table::ROOT, Table::from_raw(0), Table::from_raw(u64::MAX)];
    let mut refs = vec![Ref::from_raw(0), Ref::from_raw(1), Ref::from_raw(u64::MAX)];
    for chunk in bytes.chunks_exact(8).take(1 << 12) {
        let word = u64::from_le_bytes(chunk.try_into().unwrap_or([0; 8]));
        if word != 0 && tables.len() < 8 {
            tables.push(Table::from_raw(word));
        }
        if word != 0 && refs.len() < 64 {
            refs.push(Ref::from_raw(word));
        }
    }
    let (mut out, mut answers, mut siblings) = (Vec::new(), Vec::new(), Vec::new());
    reader.understands();
    reader.epoch();
    for key in KEYS {
        for &table in &tables {
            out.clear();
            reader.len(table);
            let _ = reader.peek(table, hash(key), key);
            let Ok(answer) = reader.read_witnessed(table, hash(key), key, &mut out) else { continue };
            reader.still_current(&answer.witness());
            let Some(seen) = answer.into_seen() else { continue };
            assert!(seen.value.end <= out.len() && out.len() <= bytes.len());
            reader.word(&seen, 1);
            reader.checksum_holds(seen.cell);
            if let Some(change) = reader.seqlock_begin(&seen) {
                reader.seqlock_validate(&seen, change);
            }
            seen.txn.map(|record| reader.txn_record(record, &mut siblings));
            let nested = Table::from_raw(seen.words()[1]);
            let _ = reader.read(nested, hash(key), key, &mut out);
        }
    }
    for r in refs {
        siblings.clear();
        reader.txn_record(r, &mut siblings);
        reader.checksum_holds(r);
    }
    let gets = KEYS.map(|key| Get { reader: &reader, table: Table::ROOT, hash: hash(key), key });
    read_many(&gets, &mut out, &mut answers);
    assert_eq!(answers.len(), KEYS.len());
}
