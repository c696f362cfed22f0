//! One participant, step by step: traces that once broke a rule.
use kintsugidb_engine::{Shard, fingerprint, resolve};
use kintsugidb_ramp::{
    Config, EPOCH_US, Participant, TxnId,
    message::{
        Batch, Body, Key, Lock, Message, Node, Op, Outbox, Proof, Refusal, Siblings, TxnInfo, Watch, What,
        Work,
    },
};
use kintsugidb_wire::OwnedArgs;
use std::sync::Arc;

const NOW_US: u64 = EPOCH_US + 1_000_000;
const CLIENT: Node = Node::Coordinator { id: 0, request: 1 };

fn participant() -> Participant {
    Participant::new(0, Shard::new(1), Config::default())
}

fn tell(p: &mut Participant, body: Body) -> Vec<Body> {
    let mut out = Outbox::new();
    p.handle(CLIENT, Message { clock: 0, proofs: None, body }, NOW_US, &mut out);
    out.into_iter().map(|(_, m)| m.body).collect()
}

fn key(name: &str) -> Key {
    Key { bytes: name.as_bytes().into(), fingerprint: fingerprint(name.as_bytes()) }
}

fn work(line: &str, lock: Lock) -> Work {
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let command = resolve(&args).expect("a command");
    let what = What::Command(command, OwnedArgs::new(&args));
    let name = line.split(' ').nth(1).expect("a key");
    Work { keys: vec![(key(name), lock)], ops: vec![Op { index: 0, what }], ..Work::default() }
}

/// A transaction of shards 0 and 1.
fn prepare(age: u64, line: &str, lock: Lock) -> (TxnId, Body) {
    let work = work(line, lock);
    let siblings = Siblings::Keys(work.keys.iter().map(|(k, _)| k.fingerprint).collect());
    // Far above the clocks here: no horizon in the way.
    let id = TxnId(u64::MAX / 2 + age);
    let info = TxnInfo { id, age, participants: [0, 1].into(), siblings };
    (id, Body::Prepare { info: Arc::new(info), work: Arc::new(work), reserved: false })
}

#[test]
fn exec_in_one_shard_does_not_pass_a_pending_write_of_a_watched_key() {
    let mut p = participant();
    let state = p.watch_state(b"x");
    let (txn, message) = prepare(1, "SET x 1", Lock::Blind);
    let prepared = tell(&mut p, message);
    let [Body::Prepared { p: ts, .. }] = prepared[..] else { panic!("{prepared:?}") };
    let mut exec = work("SET y 1", Lock::Blind);
    exec.keys.push((key("x"), Lock::Shared));
    exec.watches.push(Watch { key: (*b"x").into(), state });
    assert!(
        tell(&mut p, Body::Execute(Arc::new(Batch { work: exec }))).is_empty(),
        "x may yet be written before y is, in the order of versions"
    );
    let done = tell(&mut p, Body::Commit(Proof { txn, c: ts }));
    assert!(
        done.iter().any(|b| matches!(b, Body::Executed { refused: Some(Refusal::Changed), .. })),
        "it was, so EXEC answers nil: {done:?}"
    );
}

#[test]
fn what_is_watched_and_written_is_reserved() {
    assert_eq!(Lock::Blind.and(Lock::Shared), Lock::Exclusive);
    assert_eq!(Lock::Shared.and(Lock::Exclusive), Lock::Exclusive);
    assert_eq!(Lock::Blind.and(Lock::Blind), Lock::Blind);
}

#[test]
fn the_younger_of_two_that_want_a_key_is_refused_and_the_older_waits() {
    let mut p = participant();
    let (holder, message) = prepare(5, "INCR x", Lock::Exclusive);
    assert!(matches!(tell(&mut p, message)[..], [Body::Prepared { .. }]));
    let (_, younger) = prepare(6, "INCR x", Lock::Exclusive);
    assert!(matches!(tell(&mut p, younger)[..], [Body::Refused { why: Refusal::Die, .. }]));
    let (_, older) = prepare(4, "INCR x", Lock::Exclusive);
    assert!(tell(&mut p, older).is_empty(), "the older waits");
    let freed = tell(&mut p, Body::Abort(holder));
    assert!(matches!(freed[..], [Body::Prepared { .. }]), "and gets it: {freed:?}");
}

#[test]
fn a_repeated_prepare_gets_the_same_answer_and_a_late_one_after_an_abort_none() {
    let mut p = participant();
    let (txn, message) = prepare(1, "SET x 1", Lock::Blind);
    let (one, two) = (tell(&mut p, message.clone()), tell(&mut p, message.clone()));
    let ([Body::Prepared { p: a, .. }], [Body::Prepared { p: b, .. }]) = (&one[..], &two[..]) else {
        panic!("{one:?} {two:?}")
    };
    assert_eq!(a, b, "whoever computes c computes the same");
    tell(&mut p, Body::Abort(txn));
    assert!(matches!(tell(&mut p, message)[..], [Body::Refused { why: Refusal::Aborted, .. }]));
    assert_eq!(p.shard.type_of(b"x"), None);
}

#[test]
fn a_full_queue_says_so_and_forgets_nothing() {
    let config = Config { max_queue: 1, ..Config::default() };
    let mut p = Participant::new(0, Shard::new(1), config);
    let (holder, message) = prepare(1, "INCR x", Lock::Exclusive);
    tell(&mut p, message);
    let one = || Body::Execute(Arc::new(Batch { work: work("INCR x", Lock::Exclusive) }));
    assert!(tell(&mut p, one()).is_empty(), "the first waits");
    assert!(matches!(tell(&mut p, one())[..], [Body::Executed { refused: Some(Refusal::Busy), .. }]));
    let freed = tell(&mut p, Body::Abort(holder));
    assert!(matches!(freed[..], [Body::Executed { refused: None, .. }]), "and is not lost: {freed:?}");
}
