//! Clients that lie, or say nothing that makes sense: they are sent away, and nobody else notices.
mod support;
use kintsugidb_client::Mode;
use kintsugidb_ramp::{
    message::{Body, Message, Node, Proof},
    wire::frame::{put_resp, put_welcome},
};
use support::{Running, raw::Raw, until};

/// What a client does that it must not.
type Lie = fn(&mut Raw);

const MSET: [&[u8]; 9] = [b"mset", b"a", b"1", b"b", b"2", b"c", b"3", b"d", b"4"];

fn message(body: Body) -> Message {
    Message { clock: 0, proofs: None, body }
}

#[test]
fn a_client_that_lies_is_sent_away_and_nobody_else_notices() {
    let server = Running::start(2, 4, "fast");
    let mut honest = server.client(Mode::OneSided);
    honest.mset([("a", "0"), ("b", "0"), ("c", "0"), ("d", "0")]).unwrap();
    let lies: [(&str, Lie); 9] = [
        ("malformed", |r| r.link.send(b"\x05\0\0\0hello").unwrap()),
        ("too long", |r| r.link.send(&[0xff; 64]).unwrap()),
        ("no client sends", |r| {
            let mut bytes = Vec::new();
            put_welcome(&mut bytes, &r.welcome.clone());
            r.link.send(&bytes).unwrap();
        }),
        ("ahead", |r| {
            let mut bytes = Vec::new();
            put_resp(&mut bytes, u64::MAX, &[], b"*1\r\n$4\r\nPING\r\n");
            r.link.send(&bytes).unwrap();
        }),
        ("ahead", |r| {
            let mut out = r.honest(&MSET, 0);
            out[0].1.clock = u64::MAX - 5;
            r.say(&out);
        }),
        ("ahead", |r| {
            let out = r.honest(&MSET, 3_600_000_000);
            r.say(&out);
        }),
        ("somebody else's", |r| {
            r.welcome.coordinator ^= 2;
            let out = r.honest(&MSET, 0);
            r.say(&out);
        }),
        ("no such shard", |r| {
            let mut out = r.honest(&MSET, 0);
            out[0].0 = Node::Shard(400);
            r.say(&out);
        }),
        ("ahead", |r| {
            let txn = match &r.honest(&MSET, 0)[0].1.body {
                Body::Prepare { info, .. } => info.id,
                other => panic!("{other:?}"),
            };
            r.say(&vec![(Node::Shard(0), message(Body::Commit(Proof { txn, c: u64::MAX })))]);
        }),
    ];
    for (i, (reason, lie)) in lies.into_iter().enumerate() {
        let mut raw = Raw::open(&server);
        lie(&mut raw);
        let why = raw.sent_away();
        assert!(why.contains(reason), "lie {i}: {why}");
        assert_eq!(honest.incr_by("counter", 1).unwrap(), i as i64 + 1);
        honest
            .mset([("a", i.to_string()), ("b", i.to_string()), ("c", i.to_string()), ("d", i.to_string())])
            .unwrap();
        let values = honest.mget(["a", "b", "c", "d"]).unwrap();
        assert!(values.iter().all(|v| v.as_deref() == Some(i.to_string().as_bytes())), "{values:?}");
    }
    until("they are gone", || support::info(&mut honest, "transactions_open") == 0);
}

#[test]
fn what_a_silent_client_has_reserved_is_given_back_when_it_goes() {
    let server = Running::start(2, 4, "fast");
    let mut honest = server.client(Mode::Messages);
    honest.mset([("a", "1"), ("b", "1"), ("c", "1"), ("d", "1")]).unwrap();
    let mut raw = Raw::open(&server);
    // A move between shards reserves both keys, then looks at them: the client never goes on.
    let (from, to) = (
        "a",
        ["b", "c", "d"]
            .into_iter()
            .find(|k| kintsugidb_ramp::shard_of(k.as_bytes(), 4) != kintsugidb_ramp::shard_of(b"a", 4)),
    );
    let out = raw.honest(&[b"rename", from.as_bytes(), to.unwrap().as_bytes()], 0);
    assert!(out.iter().all(|(_, m)| matches!(m.body, Body::Reserve(..))));
    raw.say(&out);
    until("it is reserved", || support::info(&mut honest, "transactions_open") > 0);
    assert_eq!(honest.get("a").unwrap().as_deref(), Some(&b"1"[..]), "readers do not wait");
    assert_eq!(support::info(&mut honest, "native_orphans"), 0);
    drop(raw);
    until("it is given back", || support::info(&mut honest, "native_orphans") == 1);
    honest.set("a", "2").unwrap();
    until("nothing is left", || support::info(&mut honest, "transactions_open") == 0);
}
