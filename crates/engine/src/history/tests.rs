//! Late commits, snapshots plus transactions, and forgetting.
use crate::{Dump, Expire, Gone, ListEnd, Shard, Value, Version};

fn at(ts: u64) -> Version {
    Version { ts, seq: 0 }
}

fn within(s: &mut Shard, ts: u64, tid: u64, f: impl FnOnce(&mut Shard)) {
    s.begin_txn(at(ts), tid, &[]);
    f(s);
    s.end_txn();
}

fn hash(s: &Shard, key: &[u8]) -> Vec<(String, String)> {
    shown(s.dump(key))
}

fn shown(dump: Option<Dump>) -> Vec<(String, String)> {
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    match dump.map(|d| d.value) {
        Some(Value::Hash(h)) => h.iter().map(|(k, v)| (text(k), text(v))).collect(),
        Some(Value::String(v)) => vec![(String::new(), text(&v))],
        Some(Value::List(l)) => l.iter().map(|e| (String::new(), text(e))).collect(),
        _ => Vec::new(),
    }
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect()
}

#[test]
fn a_late_commit_does_not_undo_a_newer_write() {
    let mut s = Shard::new(1);
    s.begin_write(at(1));
    s.hash_set(b"h", &[(b"f", b"1"), (b"g", b"1")]).unwrap();
    s.heat(b"h");
    s.begin_write(at(20));
    s.hash_set(b"h", &[(b"f", b"20")]).unwrap();
    within(&mut s, 10, 7, |s| {
        s.hash_set(b"h", &[(b"f", b"10"), (b"k", b"10")]).unwrap();
        s.hash_remove(b"h", &[b"g"]).unwrap();
    });
    assert_eq!(hash(&s, b"h"), pairs(&[("f", "20"), ("k", "10")]));
}

#[test]
fn a_late_removal_of_the_key_hides_only_what_is_older() {
    let mut s = Shard::new(1);
    s.begin_write(at(1));
    s.hash_set(b"h", &[(b"f", b"1")]).unwrap();
    s.heat(b"h");
    s.begin_write(at(20));
    s.hash_set(b"h", &[(b"g", b"20")]).unwrap();
    within(&mut s, 10, 7, |s| {
        s.delete(b"h");
    });
    assert_eq!(hash(&s, b"h"), pairs(&[("g", "20")]), "the field written after it stays");
    within(&mut s, 5, 8, |s| s.set_string(b"h", &[b"x"], Expire::Clear).unwrap());
    assert_eq!(hash(&s, b"h"), pairs(&[("g", "20")]), "a string below the removal is never seen");
}

#[test]
fn a_snapshot_plus_a_transaction_has_exactly_that_transaction_more() {
    let mut s = Shard::new(1);
    s.begin_write(at(1));
    s.hash_set(b"h", &[(b"f", b"1")]).unwrap();
    s.heat(b"h");
    let before = s.snapshot();
    within(&mut s, 10, 7, |s| {
        s.hash_set(b"h", &[(b"f", b"10")]).unwrap();
    });
    within(&mut s, 20, 8, |s| {
        s.hash_set(b"h", &[(b"g", b"20")]).unwrap();
        s.hash_set(b"h", &[(b"f", b"20")]).unwrap();
    });
    let read = |with: &[u64]| shown(s.dump_at(b"h", before, with).unwrap().dump);
    assert_eq!(read(&[]), pairs(&[("f", "1")]));
    assert_eq!(read(&[7]), pairs(&[("f", "10")]));
    assert_eq!(read(&[8]), pairs(&[("f", "20"), ("g", "20")]));
    assert_eq!(read(&[7, 8]), pairs(&[("f", "20"), ("g", "20")]));
}

#[test]
fn a_list_names_the_transactions_that_it_was_made_from() {
    let mut s = Shard::new(1);
    s.heat(b"l");
    let before = s.snapshot();
    within(&mut s, 10, 7, |s| {
        s.list_push(b"l", ListEnd::Right, &[b"a"]).unwrap();
    });
    within(&mut s, 20, 8, |s| {
        s.list_push(b"l", ListEnd::Right, &[b"b"]).unwrap();
    });
    let read = s.dump_at(b"l", before, &[8]).unwrap();
    assert_eq!(shown(read.dump), pairs(&[("", "a"), ("", "b")]));
    assert_eq!(read.beneath, [7], "whoever reads it has to look for the other half of 7, too");
}

#[test]
fn what_is_forgotten_is_gone_and_not_something_else() {
    let mut s = Shard::new(1);
    s.heat(b"x");
    let old = s.snapshot();
    within(&mut s, 10, 7, |s| s.set_string(b"x", &[b"10"], Expire::Clear).unwrap());
    let seen = s.snapshot();
    s.fold_history(seen, &|_| None);
    assert_eq!(s.dump_at(b"x", old, &[]), Err(Gone));
    assert_eq!(shown(s.dump_at(b"x", seen, &[]).unwrap().dump), pairs(&[("", "10")]));
    assert_eq!(s.history_len(), (1, 0));
    s.cool(b"x");
    assert_eq!(s.history_len(), (0, 0));
}

#[test]
fn nothing_is_forgotten_above_what_may_still_come() {
    let mut s = Shard::new(1);
    s.heat(b"x");
    s.begin_write(at(20));
    s.delete(b"x");
    let seen = s.snapshot();
    s.fold_history(seen, &|_| Some(at(10)));
    within(&mut s, 15, 7, |s| s.set_string(b"x", &[b"15"], Expire::Clear).unwrap());
    assert_eq!(s.type_of(b"x"), None, "the removal at 20 hides what commits at 15");
}

#[test]
fn a_snapshot_older_than_a_transaction_within_the_shard_is_gone_for_cold_keys() {
    let mut s = Shard::new(1);
    let before = s.snapshot();
    within(&mut s, 10, 7, |s| s.set_string(b"x", &[b"10"], Expire::Clear).unwrap());
    s.commit_seq(true);
    assert_eq!(s.dump_at(b"x", before, &[]), Err(Gone), "another key of it may be answered as of before");
}

#[test]
fn a_write_under_a_pending_one_goes_just_above_what_it_read() {
    let mut s = Shard::new(1);
    s.begin_write(at(5));
    s.set_string(b"x", &[b"5"], Expire::Clear).unwrap();
    s.heat(b"x");
    s.begin_write_under(at(9));
    s.set_string(b"x", &[b"6"], Expire::Clear).unwrap();
    assert_eq!(s.written_under(), Some(Version { ts: 5, seq: 1 }));
    within(&mut s, 10, 7, |s| s.set_string(b"x", &[b"10"], Expire::Clear).unwrap());
    assert_eq!(shown(s.dump(b"x")), pairs(&[("", "10")]));
}
