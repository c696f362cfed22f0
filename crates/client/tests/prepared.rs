//! What clients that read the regions see of transactions that are prepared and not committed, in each way of telling them.
mod support;
use kintsugidb_client::{Client, Mode, Options, Value};
use kintsugidb_ramp::{
    ShardId,
    message::{Body, Message, Node, Proof},
    shard_of,
};
use support::{Running, path, raw::Raw, until};

const SHARDS: usize = 4;

/// Two keys of different shards.
const KEYS: [&str; 2] = ["a", "b"];

fn shard(key: &str) -> ShardId {
    shard_of(key.as_bytes(), SHARDS as u16)
}

/// A server on which nobody asks for an orphan's fate, both keys being old.
fn server(prepared: &str) -> (Running, Client) {
    assert_ne!(shard(KEYS[0]), shard(KEYS[1]));
    let fabric = format!("shm:{}", path("prepared").display());
    let settings = [("prepared-versions", prepared), ("orphan-ms", "600000")];
    let server = Running::start_with(&fabric, 2, SHARDS, &settings);
    let mut client = server.client(Mode::OneSided);
    client.mset(KEYS.map(|k| (k, "old"))).unwrap();
    // Everybody has forgotten that they were written together.
    until("it is known to be over", || support::info(&mut client, "transactions_recent") == 0);
    (server, client)
}

/// Has both keys written in one transaction: prepared at both shards. What commits it.
fn prepare(raw: &mut Raw, args: &[&[u8]]) -> Proof {
    let out = raw.honest(args, 0);
    let Body::Prepare { info, .. } = &out[0].1.body else { panic!("{out:?}") };
    raw.say(&out);
    let (mut c, mut answers) = (0, 0);
    while answers < out.len() {
        for (_, body) in raw.hear() {
            let Body::Prepared { p, .. } = body else { panic!("{body:?}") };
            (c, answers) = (c.max(p), answers + 1);
        }
    }
    Proof { txn: info.id, c }
}

fn commit(raw: &mut Raw, proof: Proof, key: &str) {
    let message = Message { clock: proof.c, proofs: None, body: Body::Commit(proof) };
    raw.say(&vec![(Node::Shard(shard(key)), message)]);
    raw.hear();
}

fn mget(client: &mut Client) -> Vec<String> {
    let show = |v: Option<Vec<u8>>| v.map_or("none".into(), |v| String::from_utf8(v).unwrap());
    client.mget(KEYS).unwrap().into_iter().map(show).collect()
}

#[test]
fn shown_the_other_half_is_read_without_a_message() {
    for (args, then) in [
        (vec![&b"mset"[..], b"a", b"new", b"b", b"new"], ["new", "new"]),
        (vec![&b"del"[..], b"a", b"b"], ["none", "none"]),
    ] {
        let (server, mut client) = server("shown");
        let mut raw = Raw::open(&server);
        let proof = prepare(&mut raw, &args);
        let before = client.counters();
        assert_eq!(mget(&mut client), ["old", "old"], "nobody can know yet that it is committed");
        commit(&mut raw, proof, KEYS[0]);
        assert_eq!(mget(&mut client), then);
        let after = client.counters();
        assert_eq!(after.prepared - before.prepared, 1);
        assert_eq!((after.one_sided - before.one_sided, after.fallbacks), (2, before.fallbacks));
        assert_eq!((after.commands, after.messages_sent), (before.commands, before.messages_sent));
        // Whoever has seen it stays behind it: the owner is told, and commits it.
        let b = client.get(KEYS[1]).unwrap().map_or("none".into(), |v| String::from_utf8(v).unwrap());
        assert_eq!(b, then[1]);
        let told = client.counters();
        assert!(told.commands + told.messages_sent > after.commands + after.messages_sent);
        assert_eq!(mget(&mut server.client(Mode::OneSided)), then, "committed for everybody");
    }
}

#[test]
fn hidden_the_owner_of_the_other_half_is_asked() {
    let (server, mut client) = server("hidden");
    let mut raw = Raw::open(&server);
    let proof = prepare(&mut raw, &[b"mset", b"a", b"new", b"b", b"new"]);
    commit(&mut raw, proof, KEYS[0]);
    let before = client.counters();
    assert_eq!(mget(&mut client), ["new", "new"]);
    let after = client.counters();
    assert_eq!((after.prepared, after.fallbacks), (0, before.fallbacks + 1));
    assert!(after.messages_sent > before.messages_sent);
}

#[test]
fn invalidated_every_reader_asks_until_it_is_over() {
    let (server, mut client) = server("invalidated");
    let mut raw = Raw::open(&server);
    let read = |client: &mut Client, one_sided: u64| {
        let before = client.counters();
        let value = client.get(KEYS[1]).unwrap().unwrap();
        let after = client.counters();
        assert_eq!(
            (after.one_sided - before.one_sided, after.fallbacks - before.fallbacks),
            (one_sided, 1 - one_sided)
        );
        assert_eq!(after.retries, before.retries, "it has asked at once");
        String::from_utf8(value).unwrap()
    };
    assert_eq!(read(&mut client, 1), "old");
    let proof = prepare(&mut raw, &[b"mset", b"a", b"new", b"b", b"new"]);
    assert_eq!(read(&mut client, 0), "old");
    // A version that somebody else writes meanwhile has the mark as well.
    client.set(KEYS[1], "between").unwrap();
    assert_eq!(read(&mut client, 0), "between");
    commit(&mut raw, proof, KEYS[0]);
    commit(&mut raw, proof, KEYS[1]);
    assert_eq!(mget(&mut client)[0], "new");
    until("everybody knows", || support::info(&mut client, "transactions_open") == 0);
    read(&mut server.client(Mode::OneSided), 1);
    // Refused: the mark goes with it.
    let mut raw = Raw::open(&server);
    let proof = prepare(&mut raw, &[b"mset", b"a", b"never", b"b", b"never"]);
    let abort = || Message { clock: 0, proofs: None, body: Body::Abort(proof.txn) };
    raw.say(&KEYS.iter().map(|k| (Node::Shard(shard(k)), abort())).collect());
    until("it is aborted", || support::info(&mut client, "transactions_open") == 0);
    let mut fresh = server.client(Mode::OneSided);
    assert_ne!(read(&mut fresh, 1), "never");
}

/// A collection that was changed later than a transaction, at its own shard, may still lack what the transaction does to it.
#[test]
fn a_later_change_of_another_field_does_not_hide_a_transaction() {
    assert_ne!(shard(KEYS[0]), shard(KEYS[1]));
    for prepared in ["hidden", "shown"] {
        let settings = [("prepared-versions", prepared), ("orphan-ms", "600000")];
        let server = Running::start_with("tcp:127.0.0.1:0", 2, SHARDS, &settings);
        let mut client = server.client(Mode::Messages);
        for fields in [&["f"][..], &["f", "e", "d"]] {
            client.del(KEYS).unwrap();
            client.set(KEYS[0], "old").unwrap();
            for field in fields {
                client.hset(KEYS[1], field, "old").unwrap();
            }
            until("it is known to be over", || support::info(&mut client, "transactions_recent") == 0);
            let mut raw = Raw::open(&server);
            let proof = prepare(&mut raw, &[b"del", b"a", b"b"]);
            commit(&mut raw, proof, KEYS[0]);
            // Later than the transaction, by the clock of its shard, too.
            std::thread::sleep(std::time::Duration::from_millis(20));
            server.client(Mode::Messages).hset(KEYS[1], "g", "new").unwrap();
            let options = Options { emulated: true, ..Options::default() };
            let mut reader = Client::connect_with(&server.address, options).unwrap();
            let read = reader.transaction().get(KEYS[0]).hget(KEYS[1], "f").hget(KEYS[1], "g").exec();
            let new = Value::Bulk(b"new".to_vec());
            assert_eq!(read.unwrap().unwrap(), [Value::Null, Value::Null, new], "{prepared}");
            assert!(reader.counters().fractures > 0, "{:?}", reader.counters());
        }
    }
}
