//! Clients that lie, or say nothing that makes sense: they are sent away, and nobody else notices.
mod support;
use kintsugidb_client::Mode;
use kintsugidb_engine::{fingerprint, lookup};
use kintsugidb_fabric::{ConnectOptions, Connection, connect};
use kintsugidb_ramp::{
    Coordinator, Request, Session,
    message::{Body, Message, Node, Outbox, Proof},
    wire::frame::{Frame, Frames, Welcome, put_ramp, put_resp, put_welcome},
};
use kintsugidb_wire::{OwnedArgs, Proto};
use std::time::{Duration, Instant};
use support::{Running, until};

/// A connection on which anything can be said.
struct Raw {
    link: Box<dyn Connection>,
    welcome: Welcome,
}

impl Raw {
    fn open(server: &Running) -> Self {
        let mut link =
            connect(&server.address.parse().unwrap(), &ConnectOptions::default()).unwrap().connection;
        let (mut frames, mut bytes) = (Frames::default(), Vec::new());
        let end = Instant::now() + Duration::from_secs(20);
        let welcome = loop {
            if let Some(body) = frames.next().unwrap() {
                match Frame::read(body, fingerprint).unwrap() {
                    Frame::Welcome(welcome) => break welcome,
                    other => panic!("{other:?}"),
                }
            }
            assert!(Instant::now() < end, "no welcome");
            bytes.clear();
            if link.receive(&mut bytes).unwrap().is_some() {
                frames.add(&bytes);
            } else {
                link.wait(Duration::from_millis(100)).unwrap();
            }
        };
        Self { link, welcome }
    }

    /// What an honest coordinator of this number would send first.
    fn honest(&self, args: &[&[u8]], clock_ahead_us: u64) -> Outbox {
        let mut co = Coordinator::new(self.welcome.coordinator, self.welcome.shards, self.welcome.config());
        co.begin_after(self.welcome.clock);
        let mut out = Outbox::new();
        let requests = vec![Request::Command(lookup(args[0]).unwrap(), OwnedArgs::new(args))];
        let now_us = self.welcome.now_us + clock_ahead_us;
        co.start(&mut Session::default(), requests, Proto::Resp2, now_us, &mut out);
        out
    }

    fn say(&mut self, out: &Outbox) {
        let messages = out.iter().map(|(to, m)| match to {
            Node::Shard(s) => (1, *s, m),
            Node::Coordinator { .. } => panic!("to a coordinator"),
        });
        let mut bytes = Vec::new();
        put_ramp(&mut bytes, messages);
        self.link.send(&bytes).unwrap();
    }

    /// The reason for which the server ends the connection.
    fn sent_away(mut self) -> String {
        let (mut frames, mut bytes, mut why) = (Frames::default(), Vec::new(), String::new());
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            assert!(Instant::now() < end, "the server does not end the connection");
            bytes.clear();
            match self.link.receive(&mut bytes) {
                Ok(Some(_)) => frames.add(&bytes),
                Ok(None) => drop(self.link.wait(Duration::from_millis(100))),
                Err(_) => return why,
            }
            while let Ok(Some(body)) = frames.next() {
                if let Ok(Frame::Refused(said)) = Frame::read(body, fingerprint) {
                    why = said;
                }
            }
        }
    }
}

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
