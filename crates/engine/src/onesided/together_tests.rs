//! Halves of transactions, and where the other half is found.
use super::*;
use crate::{Expire, Shard, Version, fingerprint};
use kintsugidb_arena::Config;

const T: u64 = 77;
const U: u64 = 78;

fn shard() -> Shard {
    let mut shard = Shard::create(1, Config { reserve_bytes: 1 << 26, ..Config::default() }).unwrap();
    shard.now_ms = 1000;
    shard
}

fn set(s: &mut Shard, ts: u64, key: &[u8], value: &[u8]) {
    s.begin_write(Version { ts, seq: 0 });
    s.set_string(key, &[value], Expire::Clear).unwrap();
}

/// Commits a transaction's part: these keys, each with the same value.
fn commit(s: &mut Shard, tid: u64, c: u64, keys: &[&[u8]], siblings: &[&[u8]], value: &[u8]) {
    let siblings: Vec<u64> = siblings.iter().map(|k| fingerprint(k)).collect();
    s.begin_txn(Version { ts: c, seq: 0 }, tid, &siblings);
    for key in keys {
        s.set_string(key, &[value], Expire::Clear).unwrap();
    }
    s.end_txn().unwrap();
}

fn mget(r: &mut PointReader, keys: &[(usize, &[u8])]) -> Result<String, Fallback> {
    let mut out = Reply::default();
    r.mget(keys, &mut out)?;
    Ok(out.bytes().escape_ascii().to_string().replace("\\r\\n", " "))
}

/// Two shards: x at the first, y and z at the second, all of them old.
fn two() -> (Shard, Shard, PointReader) {
    let (mut a, mut b) = (shard(), shard());
    set(&mut a, 1, b"x", b"old");
    set(&mut b, 1, b"y", b"old");
    set(&mut b, 1, b"z", b"old");
    let r = PointReader::new([a.reader(), b.reader()], Siblings::Keys);
    (a, b, r)
}

const XY: [(usize, &[u8]); 2] = [(0, b"x"), (1, b"y")];
const XYZ: [(usize, &[u8]); 3] = [(0, b"x"), (1, b"y"), (1, b"z")];

#[test]
fn the_other_half_is_found_where_it_is_prepared() {
    let (mut a, mut b, mut r) = two();
    b.show_prepared(T, b"y", Some(b"new"));
    assert_eq!(mget(&mut r, &XY).unwrap(), "*2 $3 old $3 old ", "nobody knows yet that it is committed");
    commit(&mut a, T, 5, &[b"x"], &[b"x", b"y"], b"new");
    assert_eq!(mget(&mut r, &XY).unwrap(), "*2 $3 new $3 new ");
    assert_eq!((r.counters().fractures, r.counters().prepared, r.clock()), (1, 1, 5));
    assert_eq!(r.txns(), [(T, 5)], "its owner has to be told");
    // What it removes is found as well, and of a key that is not there.
    b.show_prepared(T, b"y", None);
    assert_eq!(mget(&mut r, &XY).unwrap(), "*2 $3 new $-1 ");
    b.begin_write(Version { ts: 2, seq: 0 });
    b.delete(b"y");
    b.show_prepared(T, b"y", Some(b"made"));
    assert_eq!(mget(&mut r, &XY), Err(Fallback::Changing), "it may have been removed after T");
    set(&mut b, 3, b"y", b"old");
    assert_eq!(mget(&mut r, &XY).unwrap(), "*2 $3 new $4 made ");
    b.hide_prepared(T, b"y");
    assert_eq!(mget(&mut r, &XY), Err(Fallback::Changing));
}

#[test]
fn a_collection_that_was_emptied_later_does_not_hide_what_a_transaction_adds_to_it() {
    let (mut a, mut b, mut r) = two();
    commit(&mut a, T, 5, &[b"x"], &[b"x", b"h"], b"new");
    b.begin_write(Version { ts: 2, seq: 0 });
    b.hash_set(b"h", &[(b"g", b"v")]).unwrap();
    // T is prepared here: it adds a field. U removes the last other one.
    b.begin_txn(Version { ts: 9, seq: 0 }, U, &[fingerprint(b"h"), fingerprint(b"elsewhere")]);
    b.hash_remove(b"h", &[b"g"]).unwrap();
    b.end_txn().unwrap();
    let keys: [(usize, &[u8]); 2] = [(0, b"x"), (1, b"h")];
    assert_eq!(r.exists(&keys, &mut Reply::default()), Err(Fallback::Changing));
    assert_eq!(r.counters().fractures, 2);
}

#[test]
fn of_several_that_are_missing_the_newest_counts() {
    let (mut a, mut b, mut r) = two();
    let mut third = shard();
    commit(&mut a, T, 5, &[b"x"], &[b"x", b"y"], b"t");
    commit(&mut third, U, 9, &[b"w"], &[b"w", b"y"], b"u");
    b.show_prepared(T, b"y", Some(b"t"));
    r = PointReader::new([a.reader(), b.reader(), third.reader()], r.siblings);
    let keys: [(usize, &[u8]); 3] = [(0, b"x"), (1, b"y"), (2, b"w")];
    assert_eq!(
        mget(&mut r, &keys),
        Err(Fallback::Changing),
        "T's is not what U leaves, and U's is not shown"
    );
    b.show_prepared(U, b"y", Some(b"u"));
    assert_eq!(mget(&mut r, &keys).unwrap(), "*3 $1 t $1 u $1 u ");
}

#[test]
fn a_key_that_has_been_replaced_since_is_not_mended() {
    let (mut a, mut b, mut r) = two();
    commit(&mut a, T, 5, &[b"x"], &[b"x", b"y"], b"t");
    b.show_prepared(T, b"y", Some(b"t"));
    // Within the shard, and later than T: y and z belong together.
    commit(&mut b, U, 9, &[b"y", b"z"], &[b"y", b"z"], b"u");
    assert_eq!(mget(&mut r, &XYZ).unwrap(), "*3 $1 t $1 u $1 u ");
    assert_eq!(r.counters().prepared, 0);
}

#[test]
fn prepared_versions_outlive_neither_their_transaction_nor_a_flush() {
    let (mut a, mut b, mut r) = two();
    commit(&mut a, T, 5, &[b"x"], &[b"x", b"y"], b"new");
    b.show_prepared(T, b"y", Some(b"new"));
    let before = b.memory().region;
    for i in 0..1000u32 {
        b.show_prepared(U, &i.to_le_bytes(), Some(&[7; 500]));
    }
    for i in 0..1000u32 {
        b.hide_prepared(U, &i.to_le_bytes());
    }
    assert_eq!(mget(&mut r, &XY).unwrap(), "*2 $3 new $3 new ");
    b.tick(2000);
    b.tick(4000);
    assert!(b.memory().region < before + 8192, "{} and {before} before", b.memory().region);
    b.flush();
    assert_eq!(mget(&mut r, &XY), Err(Fallback::Changing));
    b.hide_prepared(T, b"y");
    set(&mut b, 3, b"y", b"old");
    b.show_prepared(T, b"y", Some(b"again"));
    assert_eq!(mget(&mut r, &XY).unwrap(), "*2 $3 new $5 again ");
}

#[test]
fn who_reads_an_invalidated_key_asks() {
    let (_a, mut b, mut r) = two();
    b.invalidate(b"y", true);
    b.invalidate(b"absent", true);
    assert_eq!(mget(&mut r, &XY), Err(Fallback::Invalidated));
    assert_eq!(r.get(1, b"y", &mut Reply::default()), Err(Fallback::Invalidated));
    assert_eq!(mget(&mut r, &[(0, b"x"), (1, b"z")]).unwrap(), "*2 $3 old $3 old ");
    b.invalidate(b"y", false);
    assert_eq!(mget(&mut r, &XY).unwrap(), "*2 $3 old $3 old ");
    b.invalidate(b"y", true);
    set(&mut b, 9, b"y", b"new");
    assert_eq!(mget(&mut r, &XY).unwrap(), "*2 $3 old $3 new ", "a new version has no mark");
    assert_eq!(r.counters().retries, 0, "nobody has tried again");
}
