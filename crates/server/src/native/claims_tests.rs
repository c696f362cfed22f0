//! An honest coordinator's messages pass; each lie is found.
use super::*;
use kintsugidb_engine::lookup;
use kintsugidb_ramp::{
    Config, Coordinator, EPOCH_US, Hlc, Request, Session,
    message::{Node, Outbox, Watch, WatchState},
};
use kintsugidb_wire::{OwnedArgs, Proto};
use std::sync::Arc;

const NOW_US: u64 = EPOCH_US + 1_000_000_000;
const SHARDS: u16 = 4;
const NUMBER: u16 = 9;

fn claims() -> Claims {
    let limit = Hlc::shard(0).peek(NOW_US + AHEAD_US);
    Claims { coordinator: NUMBER, shards: SHARDS, limit, isolation: Isolation::Fast }
}

/// What a coordinator sends first for these commands.
fn messages(number: u16, now_us: u64, commands: &[&[&str]]) -> Outbox {
    let mut co = Coordinator::new(number, SHARDS, Config::default());
    let requests = commands.iter().map(|args| {
        let args: Vec<&[u8]> = args.iter().map(|a| a.as_bytes()).collect();
        Request::Command(lookup(args[0]).expect("a command"), OwnedArgs::new(&args))
    });
    let mut out = Outbox::new();
    co.start(&mut Session::default(), requests.collect(), Proto::Resp2, now_us, &mut out);
    assert!(!out.is_empty());
    out
}

fn judge(claims: &Claims, out: &Outbox) -> Result<(), Why> {
    out.iter().try_for_each(|(to, message)| match to {
        Node::Shard(shard) => claims.message(*shard, message),
        Node::Coordinator { .. } => Err("to a coordinator"),
    })
}

const MSET: &[&[&str]] = &[&["mset", "a", "1", "b", "2", "c", "3", "d", "4"]];

#[test]
fn what_an_honest_coordinator_sends_is_accepted() {
    for commands in [
        MSET,
        &[&["mget", "a", "b", "c", "d"]],
        &[
            &["set", "a", "1"],
            &["get", "a"],
            &["incr", "b"],
            &["hset", "h", "f", "v"],
            &["zadd", "z", "nx", "1", "m"],
        ],
        &[&["rename", "a", "b"], &["sunion", "x", "y", "z"]],
        &[&["get", "a"], &["set", "a", "1"], &["del", "b", "c"]],
        &[&["sinterstore", "d", "x", "y"]],
    ] {
        assert_eq!(judge(&claims(), &messages(NUMBER, NOW_US, commands)), Ok(()), "{commands:?}");
    }
}

#[test]
fn names_of_others_and_clocks_ahead_are_refused() {
    assert!(judge(&claims(), &messages(NUMBER + 1, NOW_US, MSET)).is_err(), "another's name");
    assert!(
        judge(&claims(), &messages(NUMBER, NOW_US + 2 * AHEAD_US, MSET)).is_err(),
        "a name of the future"
    );
    let mut out = messages(NUMBER, NOW_US, MSET);
    out[0].1.clock = claims().limit + 1;
    assert!(judge(&claims(), &out).is_err(), "a clock of the future");
    let mut out = messages(NUMBER, NOW_US, MSET);
    let far = Proof { txn: TxnId(1), c: claims().limit + 1 };
    out[0].1.proofs = Some([far].into());
    assert!(judge(&claims(), &out).is_err(), "a proof of the future");
    let own = |ts: u64| TxnId(ts << NODE_BITS | u64::from(MAX_SHARDS + NUMBER));
    for (body, why) in [
        (Body::Abort(TxnId(own(5).0 + 1)), "an abort of another's"),
        (Body::Commit(Proof { txn: own(5), c: u64::MAX }), "a commit in the future"),
        (Body::Commit(Proof { txn: own(5), c: 7 << NODE_BITS | 1023 }), "a commit timestamp of no shard"),
        (Body::Prepared { txn: own(5), p: 1 }, "an owner's message"),
    ] {
        assert!(claims().message(0, &Message { clock: 0, proofs: None, body }).is_err(), "{why}");
    }
}

/// Lets `f` change the work and the description of one PREPARE, then judges it.
fn changed(f: impl FnOnce(&mut TxnInfo, &mut Work)) -> Result<(), Why> {
    let out = messages(NUMBER, NOW_US, MSET);
    let (Node::Shard(shard), message) = &out[0] else { return Err("to a coordinator") };
    let Body::Prepare { info, work, .. } = &message.body else { return Err("no PREPARE") };
    let siblings = match &info.siblings {
        Siblings::Keys(keys) => Siblings::Keys(keys.clone()),
        _ => return Err("no keys"),
    };
    let mut info = TxnInfo { id: info.id, age: info.age, participants: info.participants.clone(), siblings };
    let mut work = Work {
        keys: work.keys.clone(),
        ops: work.ops.clone(),
        watches: work.watches.clone(),
        proto: work.proto,
    };
    f(&mut info, &mut work);
    let body = Body::Prepare { info: Arc::new(info), work: Arc::new(work), reserved: false };
    claims().message(*shard, &Message { clock: 0, proofs: None, body })
}

fn op(args: &[&str]) -> Op {
    let args: Vec<&[u8]> = args.iter().map(|a| a.as_bytes()).collect();
    Op { index: 0, what: What::Command(lookup(args[0]).expect("a command"), OwnedArgs::new(&args)) }
}

#[test]
fn work_that_is_not_what_it_says_is_refused() {
    assert_eq!(changed(|_, _| {}), Ok(()));
    let key = |w: &Work| String::from_utf8(w.keys[0].0.bytes.to_vec()).expect("a test's key");
    type Lie = fn(&mut TxnInfo, &mut Work);
    let lies: [(&str, Lie); 9] = [
        ("keys that are not declared", |_, w| w.keys.clear()),
        ("a key declared twice", |_, w| w.keys.push(w.keys[0].clone())),
        ("a lock that only watches", |_, w| w.keys[0].1 = Lock::Shared),
        ("siblings left out", |i, _| i.siblings = Siblings::Keys([].into())),
        ("siblings of another isolation", |i, _| i.siblings = Siblings::Unsaid),
        ("participants without the receiver", |i, _| i.participants = [].into()),
        ("a participant that does not exist", |i, _| {
            i.participants = i.participants.iter().copied().chain([SHARDS]).collect();
        }),
        ("an age above the name", |i, _| i.age = i.id.0 + (1 << NODE_BITS)),
        ("an age from long ago", |i, _| i.age = u64::from(MAX_SHARDS + NUMBER)),
    ];
    for (why, lie) in lies {
        assert!(changed(lie).is_err(), "{why}");
    }
    assert!(changed(|_, w| w.ops[0] = op(&["incr", &key(w)])).is_err(), "a look under a blind lock");
    assert!(changed(|_, w| w.ops[0] = op(&["flushall"])).is_err(), "a command on everything");
    assert!(changed(|_, w| w.ops[0] = op(&["ping"])).is_err(), "a command without keys");
    assert!(
        changed(|_, w| w.ops[0].what = What::Put(key(w).as_bytes().into(), None)).is_err(),
        "a blind put"
    );
    assert!(
        changed(|_, w| w.ops[0].what = What::Dump(key(w).as_bytes().into())).is_err(),
        "a read among writes"
    );
    let watch =
        |w: &mut Work| w.watches.push(Watch { key: w.keys[0].0.bytes.clone(), state: WatchState::default() });
    assert!(changed(|_, w| watch(w)).is_err(), "a watch without a lock");
    let out = messages(NUMBER, NOW_US, MSET);
    assert!(claims().message(SHARDS, &out[0].1).is_err(), "a shard that does not exist");
    let Node::Shard(first) = out[0].0 else { unreachable!("checked above") };
    let other = (first + 1) % SHARDS;
    assert!(claims().message(other, &out[0].1).is_err(), "keys of another shard");
}

#[test]
fn reads_only_read() {
    let out = messages(NUMBER, NOW_US, &[&["mget", "a", "b", "c", "d"]]);
    let (Node::Shard(shard), Message { body: Body::Read(read), .. }) = &out[0] else {
        unreachable!("MGET reads")
    };
    let with_op = |op: Op| Read {
        attempt: 1,
        round: 1,
        ops: vec![op],
        keys: read.keys.clone(),
        all_keys: read.all_keys.clone(),
        snapshot: 0,
        with: Vec::new(),
        proto: Proto::Resp2,
    };
    let key = std::str::from_utf8(&read.keys[0].bytes).expect("a test's key");
    let judge = |read| {
        claims().message(*shard, &Message { clock: 0, proofs: None, body: Body::Read(Arc::new(read)) })
    };
    assert_eq!(judge(with_op(op(&["get", key]))), Ok(()));
    assert!(judge(with_op(op(&["set", key, "1"]))).is_err());
    assert!(judge(with_op(op(&["get", "not declared"]))).is_err());
    assert!(judge(with_op(Op { index: 0, what: What::Put(key.as_bytes().into(), None) })).is_err());
    let mut ahead = with_op(op(&["get", key]));
    ahead.with.push(Proof { txn: TxnId(1), c: u64::MAX });
    assert!(judge(ahead).is_err());
}
