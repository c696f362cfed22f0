//! Transactions over shards and threads, through RESP.
use kintsugidb_server::{Config, Isolation, Listeners, Server};
use kintsugidb_wire::{Client, Value};
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

fn start(isolation: Isolation, threads: usize) -> (Server, u16) {
    let config = Config { threads, isolation, ..Config::default() };
    let server = Server::start(config, Listeners::tcp("127.0.0.1:0").unwrap()).unwrap();
    let port = server.tcp_port().unwrap();
    (server, port)
}

fn client(port: u16) -> Client {
    let c = Client::connect(("127.0.0.1", port)).unwrap();
    c.set_timeout(Some(Duration::from_secs(20))).unwrap();
    c
}

fn stop(server: Server) {
    server.stop();
    assert!(server.join(), "a thread of the server panicked");
}

fn ok() -> Value {
    Value::Simple("OK".into())
}

fn bulk(s: &str) -> Value {
    Value::Bulk(s.as_bytes().to_vec())
}

fn call(c: &mut Client, line: &str) -> Value {
    c.call(&line.split(' ').collect::<Vec<_>>()).unwrap()
}

const ALL: [Isolation; 5] =
    [Isolation::Fast, Isolation::Small, Isolation::Hybrid, Isolation::Locking, Isolation::None];

#[test]
fn commands_over_several_shards_answer_as_over_one() {
    for isolation in ALL {
        for threads in [1, 2, 3] {
            let (server, port) = start(isolation, threads);
            let (mut a, mut b) = (client(port), client(port));
            assert_eq!(call(&mut a, "MSET a 1 b 2 c 3 d 4"), ok());
            let values = Value::Array(vec![bulk("1"), bulk("2"), Value::Null, bulk("4")]);
            assert_eq!(call(&mut a, "MGET a b x d"), values, "{isolation:?} {threads}");
            assert_eq!(call(&mut b, "MGET a b x d"), values, "{isolation:?} {threads}");
            assert_eq!(call(&mut b, "EXISTS a b c x a"), Value::Int(4));
            assert_eq!(call(&mut b, "RENAME a e"), ok());
            assert_eq!(call(&mut a, "MGET a e"), Value::Array(vec![Value::Null, bulk("1")]));
            assert_eq!(call(&mut a, "COPY e f"), Value::Int(1));
            assert_eq!(call(&mut b, "MSETNX f 9 g 9"), Value::Int(0));
            assert_eq!(call(&mut a, "DEL b c d e f g"), Value::Int(5));
            assert_eq!(call(&mut b, "DBSIZE"), Value::Int(0));
            assert_eq!(call(&mut b, "RENAME a b").error(), Some("ERR no such key"));
            stop(server);
        }
    }
}

#[test]
fn exec_over_shards_runs_all_and_answers_in_order() {
    for isolation in ALL {
        for threads in [1, 2] {
            let (server, port) = start(isolation, threads);
            let mut c = client(port);
            for line in ["MULTI", "SET a 1", "INCR a", "SET b 5", "PING", "GET b", "INCRBY c 7"] {
                call(&mut c, line);
            }
            let pong = Value::Simple("PONG".into());
            let want = Value::Array(vec![ok(), Value::Int(2), ok(), pong, bulk("5"), Value::Int(7)]);
            assert_eq!(call(&mut c, "EXEC"), want, "{isolation:?} {threads}");
            for line in ["MULTI", "SET a 9", "FLUSHALL", "SET b 6", "DBSIZE"] {
                call(&mut c, line);
            }
            assert_eq!(call(&mut c, "EXEC"), Value::Array(vec![ok(), ok(), ok(), Value::Int(1)]));
            stop(server);
        }
    }
}

#[test]
fn exec_fails_when_a_watched_key_of_any_shard_has_changed() {
    for threads in [1, 2] {
        let (server, port) = start(Isolation::Fast, threads);
        let (mut a, mut b) = (client(port), client(port));
        for key in ["k1", "k2", "k3", "k4"] {
            assert_eq!(call(&mut a, "WATCH k1 k2 k3 k4"), ok());
            call(&mut b, &format!("SET {key} x"));
            call(&mut a, "MULTI");
            call(&mut a, "SET y 1");
            assert_eq!(call(&mut a, "EXEC"), Value::Null, "{key} was changed");
            assert_eq!(call(&mut a, "GET y"), Value::Null);
        }
        call(&mut a, "WATCH k1 k2");
        call(&mut a, "MULTI");
        call(&mut a, "SET y 1");
        assert_eq!(call(&mut a, "EXEC"), Value::Array(vec![ok()]));
        call(&mut a, "WATCH k1");
        call(&mut b, "SET k1 z");
        call(&mut a, "UNWATCH");
        call(&mut a, "MULTI");
        call(&mut a, "PING");
        assert!(matches!(call(&mut a, "EXEC"), Value::Array(_)));
        stop(server);
    }
}

#[test]
fn transfers_lose_nothing() {
    let (server, port) = start(Isolation::Fast, 2);
    let mut c = client(port);
    call(&mut c, "MSET a 1000 b 1000 c 1000 d 1000");
    std::thread::scope(|s| {
        for t in 0..4 {
            s.spawn(move || {
                let mut c = client(port);
                let keys = ["a", "b", "c", "d"];
                for i in 0..150 {
                    let (from, to) = (keys[(i + t) % 4], keys[(i * 7 + t + 1) % 4]);
                    for line in ["MULTI", &format!("DECRBY {from} 3"), &format!("INCRBY {to} 3"), "EXEC"] {
                        let reply = call(&mut c, line);
                        assert!(reply.error().is_none(), "{line}: {reply:?}");
                    }
                }
            });
        }
    });
    let sum: i64 = call(&mut c, "MGET a b c d").elements().unwrap().iter().filter_map(Value::int).sum();
    assert_eq!(sum, 4000);
    stop(server);
}

/// Writers give eight keys one number; readers count reads in which the numbers differ.
fn fractures(isolation: Isolation, time: Duration) -> (u64, u64) {
    let (server, port) = start(isolation, 2);
    let keys: Vec<String> = (0..8).map(|i| format!("key{i}")).collect();
    let (stop_it, reads, fractured, number) =
        (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(1));
    std::thread::scope(|s| {
        for w in 0..2 {
            let (keys, stop_it, number) = (&keys, &stop_it, &number);
            s.spawn(move || {
                let mut c = client(port);
                while !stop_it.load(Relaxed) {
                    let n = number.fetch_add(1, Relaxed).to_string();
                    if w == 0 {
                        let mut args = vec!["MSET"];
                        args.extend(keys.iter().flat_map(|k| [k.as_str(), &n]));
                        assert_eq!(c.call(&args).unwrap(), ok());
                    } else {
                        c.push(&["MULTI"]);
                        keys.iter().for_each(|k| c.push(&["SET", k, &n]));
                        c.push(&["EXEC"]);
                        assert!(matches!(c.receive_many(10).unwrap().pop(), Some(Value::Array(_))));
                    }
                }
            });
        }
        for r in 0..2 {
            let (keys, stop_it, reads, fractured) = (&keys, &stop_it, &reads, &fractured);
            s.spawn(move || {
                let mut c = client(port);
                while !stop_it.load(Relaxed) {
                    let values = if r == 0 {
                        let mut args = vec!["MGET"];
                        args.extend(keys.iter().map(String::as_str));
                        c.call(&args).unwrap()
                    } else {
                        c.push(&["MULTI"]);
                        keys.iter().for_each(|k| c.push(&["GET", k]));
                        c.push(&["EXEC"]);
                        c.receive_many(10).unwrap().pop().unwrap()
                    };
                    let values = values.elements().unwrap_or_else(|| panic!("{values:?}"));
                    assert_eq!(values.len(), 8);
                    reads.fetch_add(1, Relaxed);
                    fractured.fetch_add(u64::from(values.iter().any(|v| *v != values[0])), Relaxed);
                }
            });
        }
        std::thread::sleep(time);
        stop_it.store(true, Relaxed);
    });
    stop(server);
    (reads.load(Relaxed), fractured.load(Relaxed))
}

#[test]
fn a_reader_never_sees_half_of_a_transaction() {
    for isolation in [Isolation::Fast, Isolation::Small, Isolation::Hybrid, Isolation::Locking] {
        let (reads, fractured) = fractures(isolation, Duration::from_millis(600));
        assert!(reads > 0, "{isolation:?}: nothing was read");
        assert_eq!(fractured, 0, "{isolation:?}: of {reads} reads");
    }
}

#[test]
fn canary_without_isolation_halves_are_seen() {
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        if fractures(Isolation::None, Duration::from_millis(500)).1 > 0 {
            return;
        }
    }
    panic!("no fracture in a minute: the reader of the other test is blind");
}

#[test]
fn an_increment_waits_for_a_transaction_that_has_reserved_its_key() {
    let (server, port) = start(Isolation::Fast, 2);
    std::thread::scope(|s| {
        for t in 0..4 {
            s.spawn(move || {
                let mut c = client(port);
                for _ in 0..100 {
                    if t % 2 == 0 {
                        for line in ["MULTI", "INCR a", "INCR b", "EXEC"] {
                            c.push(&line.split(' ').collect::<Vec<_>>());
                        }
                        for r in c.receive_many(4).unwrap() {
                            assert!(r.error().is_none(), "{r:?}");
                        }
                    } else {
                        for line in ["INCR a", "GET a", "INCR b", "GET b"] {
                            c.push(&line.split(' ').collect::<Vec<_>>());
                        }
                        let r: Vec<_> = c.receive_many(4).unwrap().iter().map(|r| r.int().unwrap()).collect();
                        assert!(
                            r[1] >= r[0] && r[3] >= r[2],
                            "a pipelined GET overtook the INCR before it: {r:?}"
                        );
                    }
                }
            });
        }
    });
    let mut c = client(port);
    assert_eq!(call(&mut c, "MGET a b"), Value::Array(vec![bulk("400"), bulk("400")]));
    stop(server);
}
