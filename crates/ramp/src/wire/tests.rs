//! What is encoded reads back the same, and nothing that is read can do harm.
use super::frame::{self, Frame, Frames, MAX_FRAME, TooLong, Welcome};
use super::{WireError, decode, encode};
use crate::message::*;
use crate::{Isolation, TxnId};
use kintsugidb_engine::{Dump, Value, Version, fingerprint, lookup};
use kintsugidb_wire::{OwnedArgs, Proto};
use proptest::prelude::*;
use std::sync::Arc;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..12)
}

fn dump() -> impl Strategy<Value = Dump> {
    let some = || proptest::collection::btree_map(bytes(), bytes(), 1..5);
    let value = prop_oneof![
        bytes().prop_map(Value::String),
        proptest::collection::vec(bytes(), 1..5).prop_map(|l| Value::List(l.into())),
        some().prop_map(Value::Hash),
        some().prop_map(|m| Value::Set(m.into_keys().collect())),
        proptest::collection::btree_map(bytes(), -1e300..1e300, 1..5).prop_map(Value::Zset),
    ];
    (value, any::<Option<u64>>()).prop_map(|(value, expire_at_ms)| Dump { value, expire_at_ms })
}

fn state() -> impl Strategy<Value = WatchState> {
    any::<(u64, u32, u64)>().prop_map(|(ts, seq, births)| WatchState { version: Version { ts, seq }, births })
}

fn info() -> impl Strategy<Value = Arc<TxnInfo>> {
    let siblings = prop_oneof![
        proptest::collection::btree_set(any::<u64>(), 0..5)
            .prop_map(|s| Siblings::Keys(s.into_iter().collect())),
        any::<[u64; 2]>().prop_map(Siblings::Bloom),
        any::<()>().prop_map(|()| Siblings::Unsaid),
    ];
    (any::<(u64, u64)>(), proptest::collection::btree_set(any::<u16>(), 0..4), siblings).prop_map(
        |((id, age), shards, siblings)| {
            Arc::new(TxnInfo { id: TxnId(id), age, participants: shards.into_iter().collect(), siblings })
        },
    )
}

fn key() -> impl Strategy<Value = Key> {
    bytes().prop_map(|b| Key { fingerprint: fingerprint(&b), bytes: b.into() })
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let what = prop_oneof![
        (bytes(), bytes()).prop_map(|(k, v)| {
            let set = lookup(b"set").expect("SET is a command");
            What::Command(set, OwnedArgs::new(&[&b"set"[..], &k, &v]))
        }),
        bytes().prop_map(|k| What::Dump(k.into())),
        (bytes(), proptest::option::of(dump())).prop_map(|(k, d)| What::Put(k.into(), d)),
        bytes().prop_map(|k| What::Watch(k.into())),
    ];
    proptest::collection::vec((any::<u32>(), what).prop_map(|(index, what)| Op { index, what }), 0..4)
}

fn proto() -> impl Strategy<Value = Proto> {
    prop_oneof![Just(Proto::Resp2), Just(Proto::Resp3)]
}

fn work() -> impl Strategy<Value = Work> {
    let lock = prop_oneof![Just(Lock::Blind), Just(Lock::Shared), Just(Lock::Exclusive)];
    let watch = (bytes(), state()).prop_map(|(k, state)| Watch { key: k.into(), state });
    (proptest::collection::vec((key(), lock), 0..4), ops(), proptest::collection::vec(watch, 0..3), proto())
        .prop_map(|(keys, ops, watches, proto)| Work { keys, ops, watches, proto })
}

fn proofs() -> impl Strategy<Value = Vec<Proof>> {
    let proof = any::<(u64, u64)>().prop_map(|(txn, c)| Proof { txn: TxnId(txn), c });
    proptest::collection::vec(proof, 0..4)
}

fn read() -> impl Strategy<Value = Read> {
    let keys = proptest::collection::vec(key(), 0..4);
    let all = proptest::collection::btree_set(any::<u64>(), 0..4);
    (any::<(u32, u32, u64)>(), ops(), keys, all, proofs(), proto()).prop_map(
        |((attempt, round, snapshot), ops, keys, all, with, proto)| Read {
            attempt,
            round,
            ops,
            keys,
            all_keys: all.into_iter().collect::<Vec<_>>().into(),
            snapshot,
            with,
            proto,
        },
    )
}

fn answers() -> impl Strategy<Value = Vec<ReadAnswer>> {
    let found = prop_oneof![
        bytes().prop_map(Found::Reply),
        proptest::option::of(dump()).prop_map(Found::Dump),
        state().prop_map(Found::Watch),
    ];
    proptest::collection::vec(
        (any::<u32>(), found).prop_map(|(index, found)| ReadAnswer { index, found }),
        0..4,
    )
}

fn seen() -> impl Strategy<Value = Vec<Seen>> {
    let one = (info(), any::<u64>(), any::<bool>()).prop_map(|(info, c, stable)| Seen { info, c, stable });
    proptest::collection::vec(one, 0..3)
}

fn refusal() -> impl Strategy<Value = Refusal> {
    use Refusal::*;
    prop_oneof![Just(Die), Just(Changed), Just(Horizon), Just(Aborted), Just(Busy), Just(Full)]
}

fn body() -> impl Strategy<Value = Body> {
    let txn = || any::<u64>().prop_map(TxnId);
    prop_oneof![
        work().prop_map(|work| Body::Execute(Arc::new(Batch { work }))),
        (proptest::option::of(answers()), seen(), proptest::option::of(refusal()))
            .prop_map(|(replies, seen, refused)| Body::Executed { replies, seen, refused }),
        read().prop_map(|r| Body::Read(Arc::new(r))),
        (any::<(u32, u32, u64)>(), proptest::option::of(answers()), seen()).prop_map(
            |((attempt, round, snapshot), answers, seen)| Body::ReadReply {
                attempt,
                round,
                snapshot,
                answers,
                seen
            }
        ),
        (info(), work(), read()).prop_map(|(i, w, r)| Body::Reserve(i, Arc::new(w), Arc::new(r))),
        (info(), work(), any::<bool>()).prop_map(|(info, work, reserved)| Body::Prepare {
            info,
            work: Arc::new(work),
            reserved
        }),
        (txn(), any::<u64>()).prop_map(|(txn, p)| Body::Prepared { txn, p }),
        (txn(), refusal()).prop_map(|(txn, why)| Body::Refused { txn, why }),
        (txn(), any::<u64>()).prop_map(|(txn, c)| Body::Commit(Proof { txn, c })),
        (txn(), proptest::option::of(answers()), seen()).prop_map(|(txn, replies, seen)| Body::Committed {
            txn,
            replies: replies.map(Arc::new),
            seen
        }),
        txn().prop_map(Body::Abort),
        txn().prop_map(Body::Stable),
        (info(), any::<Option<u64>>()).prop_map(|(info, committed)| Body::Ask { info, committed }),
        (txn(), any::<u64>(), 0..3).prop_map(|(txn, ts, k)| Body::Answer {
            txn,
            standing: [Standing::Committed(ts), Standing::Prepared(ts), Standing::Aborted][k as usize],
        }),
        (info(), work()).prop_map(|(i, w)| Body::Apply(i, Arc::new(w))),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    (any::<u64>(), proofs(), body()).prop_map(|(clock, proofs, body)| Message {
        clock,
        proofs: if proofs.is_empty() { None } else { Some(proofs.into()) },
        body,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_message_comes_back_as_it_was(message in message()) {
        let mut out = Vec::new();
        encode(&message, &mut out);
        let back = decode(&out, fingerprint).expect("what was encoded decodes");
        prop_assert_eq!(format!("{message:?}"), format!("{back:?}"));
        let mut again = Vec::new();
        encode(&back, &mut again);
        prop_assert_eq!(&out, &again);
        out.push(0);
        prop_assert_eq!(decode(&out, fingerprint).err(), Some(WireError::Rest));
        for cut in 0..out.len() - 1 {
            prop_assert!(decode(&out[..cut], fingerprint).is_err(), "cut at {}", cut);
        }
    }

    #[test]
    fn a_changed_byte_is_an_error_or_another_message(message in message(), at: u16, to: u8) {
        let mut out = Vec::new();
        encode(&message, &mut out);
        let at = usize::from(at) % out.len();
        out[at] = to;
        if let Ok(other) = decode(&out, fingerprint) {
            let mut again = Vec::new();
            encode(&other, &mut again);
            prop_assert!(again.len() <= out.len());
        }
    }

    #[test]
    fn garbage_is_an_error_or_a_message(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes, fingerprint);
        let _ = Frame::read(&bytes, fingerprint);
    }

    #[test]
    fn frames_arrive_whole_however_they_are_cut(
        messages in proptest::collection::vec(message(), 0..4), resp in bytes(), piece in 1usize..40,
    ) {
        let mut stream = Vec::new();
        frame::put_resp(&mut stream, 7, &[Proof { txn: TxnId(1), c: 2 }], &resp);
        frame::put_ramp(&mut stream, messages.iter().map(|m| (9, 3, m)));
        let (mut frames, mut got) = (Frames::default(), 0);
        for piece in stream.chunks(piece) {
            frames.add(piece);
            while let Some(body) = frames.next().expect("short frames") {
                match Frame::read(body, fingerprint).expect("a frame") {
                    Frame::Resp { clock, proofs, bytes } => {
                        prop_assert_eq!((clock, proofs.len(), bytes), (7, 1, &resp[..]));
                    }
                    Frame::Ramp(back) => {
                        prop_assert_eq!(back.len(), messages.len());
                        prop_assert!(back.iter().all(|(request, shard, _)| (*request, *shard) == (9, 3)));
                    }
                    other => prop_assert!(false, "{:?}", other),
                }
                got += 1;
            }
        }
        prop_assert_eq!(got, 2);
    }
}

#[test]
fn a_welcome_comes_back_and_another_version_is_refused() {
    let welcome = Welcome {
        coordinator: 9,
        shards: 16,
        threads: 2,
        seed: 3,
        incarnation: 4,
        clock: 5,
        now_us: 6,
        isolation: Isolation::Hybrid,
        window_us: 7,
        horizon_us: 8,
        reserved_timeout_us: 9,
    };
    let mut out = Vec::new();
    frame::put_welcome(&mut out, &welcome);
    match Frame::read(&out[4..], fingerprint) {
        Ok(Frame::Welcome(back)) => assert_eq!(back, welcome),
        other => panic!("{other:?}"),
    }
    out[5] += 1;
    assert!(matches!(Frame::read(&out[4..], fingerprint), Err(WireError::Unknown { .. })));
}

#[test]
fn a_lying_length_takes_no_memory() {
    let mut frames = Frames::default();
    frames.add(&u32::MAX.to_le_bytes());
    assert_eq!(frames.next(), Err(TooLong(u32::MAX as usize)));
    frames = Frames::default();
    frames.add(&(MAX_FRAME as u32).to_le_bytes());
    assert_eq!(frames.next(), Ok(None));
    // A list that claims four billion elements in a few bytes.
    let mut message = vec![0; 8];
    message.extend_from_slice(&u32::MAX.to_le_bytes());
    message.extend_from_slice(&[0; 64]);
    assert_eq!(decode(&message, fingerprint).err(), Some(WireError::Short));
}

#[test]
fn unordered_lists_and_unknown_commands_are_refused() {
    let info = TxnInfo { id: TxnId(1), age: 1, participants: [2, 1].into(), siblings: Siblings::Unsaid };
    let ask = Message { clock: 0, proofs: None, body: Body::Ask { info: Arc::new(info), committed: None } };
    let mut out = Vec::new();
    encode(&ask, &mut out);
    assert_eq!(decode(&out, fingerprint).err(), Some(WireError::Order));

    let set = lookup(b"set").expect("SET is a command");
    let op = Op { index: 0, what: What::Command(set, OwnedArgs::new(&[&b"set"[..], b"only-a-key"])) };
    let work = Work { ops: vec![op], ..Work::default() };
    let execute = Message { clock: 0, proofs: None, body: Body::Execute(Arc::new(Batch { work })) };
    out.clear();
    encode(&execute, &mut out);
    assert_eq!(decode(&out, fingerprint).err(), Some(WireError::Command));
}
