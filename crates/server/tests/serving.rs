//! The server over loopback, with several threads: order, isolation of connections, malformed bytes, limits.
use kintsugidb_server::{Config, Listeners, Server};
use kintsugidb_wire::{Client, Value};
use std::time::Duration;

struct Running {
    server: Option<Server>,
    port: u16,
}

impl Running {
    fn start(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config { threads: 2, ..Config::default() };
        change(&mut config);
        let server = Server::start(config, Listeners::tcp("127.0.0.1:0").unwrap()).unwrap();
        let port = server.tcp_port().unwrap();
        Self { server: Some(server), port }
    }

    fn client(&self) -> Client {
        let c = Client::connect(("127.0.0.1", self.port)).unwrap();
        c.set_timeout(Some(Duration::from_secs(20))).unwrap();
        c
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(s) = self.server.take() {
            s.stop();
            let clean = s.join();
            assert!(clean || std::thread::panicking(), "a thread of the server panicked");
        }
    }
}

fn ok() -> Value {
    Value::Simple("OK".into())
}

fn bulk(s: impl AsRef<[u8]>) -> Value {
    Value::Bulk(s.as_ref().to_vec())
}

fn call(c: &mut Client, line: &str) -> Value {
    c.call(&line.split(' ').collect::<Vec<_>>()).unwrap()
}

#[test]
fn pipelined_replies_come_in_the_order_of_requests_whoever_owns_the_keys() {
    let s = Running::start(|_| {});
    for _ in 0..2 {
        let mut c = s.client();
        for i in 0..2000 {
            c.push(&["SET", &format!("key{i}"), &i.to_string()]);
            c.push(&["GET", &format!("key{i}")]);
            if i % 3 == 0 {
                c.push(&["ECHO", &format!("echo{i}")]);
            }
            if i % 500 == 0 {
                c.push(&["DBSIZE"]);
            }
        }
        c.flush().unwrap();
        for i in 0..2000 {
            assert_eq!(c.receive().unwrap(), ok(), "SET {i}");
            assert_eq!(c.receive().unwrap(), bulk(i.to_string()), "GET {i}");
            if i % 3 == 0 {
                assert_eq!(c.receive().unwrap(), bulk(format!("echo{i}")));
            }
            if i % 500 == 0 {
                assert!(c.receive().unwrap().int().unwrap() > i, "DBSIZE sees what was set before it");
            }
        }
    }
}

#[test]
fn a_write_on_one_thread_is_seen_by_a_connection_of_another() {
    let s = Running::start(|_| {});
    let (mut a, mut b) = (s.client(), s.client());
    for i in 0..200 {
        assert_eq!(a.call(&["SET", &format!("k{i}"), "x"]).unwrap(), ok());
        assert_eq!(b.call(&["GET", &format!("k{i}")]).unwrap(), bulk("x"));
    }
    assert_eq!(call(&mut b, "DBSIZE"), Value::Int(200));
    assert_eq!(call(&mut b, "FLUSHALL"), ok());
    assert_eq!(call(&mut a, "DBSIZE"), Value::Int(0));
}

#[test]
fn a_scan_over_all_shards_sees_every_key_and_ends() {
    let s = Running::start(|_| {});
    let mut c = s.client();
    let want: std::collections::BTreeSet<String> = (0..500).map(|i| format!("k{i}")).collect();
    for k in &want {
        c.push(&["SET", k, "v"]);
    }
    c.receive_many(want.len()).unwrap();
    let (mut cursor, mut seen) = ("0".to_owned(), std::collections::BTreeSet::new());
    for _ in 0..10_000 {
        let reply = c.call(&["SCAN", &cursor, "COUNT", "7"]).unwrap();
        let [next, keys] = reply.elements().unwrap() else { panic!("{reply:?}") };
        cursor = String::from_utf8(next.bytes().unwrap().to_vec()).unwrap();
        seen.extend(
            keys.elements().unwrap().iter().map(|k| String::from_utf8(k.bytes().unwrap().to_vec()).unwrap()),
        );
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(cursor, "0");
    assert_eq!(seen, want);
}

#[test]
fn bytes_that_are_no_request_are_answered_and_end_their_connection_only() {
    let s = Running::start(|_| {});
    let mut good = s.client();
    for bytes in [&b"*1\r\nfoo\r\n"[..], b"*x\r\n", b"*1\r\n$-3\r\n", b"set \"a\r\n"] {
        let mut bad = s.client();
        bad.push_raw(b"*1\r\n$4\r\nPING\r\n");
        bad.push_raw(bytes);
        bad.push_raw(b"*1\r\n$4\r\nPING\r\n");
        bad.flush().unwrap();
        assert_eq!(bad.receive().unwrap(), Value::Simple("PONG".into()));
        let error = bad.receive().unwrap();
        assert!(error.error().unwrap().starts_with("ERR Protocol error"), "{error:?}");
        assert!(bad.receive().is_err(), "the connection is closed");
        assert_eq!(call(&mut good, "PING"), Value::Simple("PONG".into()));
    }
}

#[test]
fn a_value_larger_than_any_buffer_comes_back_whole() {
    let s = Running::start(|_| {});
    let mut c = s.client();
    for n in [70_000, 5_000_000] {
        let value: Vec<u8> = (0..n).map(|i: usize| ((i * 31) >> 3) as u8).collect();
        for key in ["a", "b", "c"] {
            assert_eq!(c.call(&[&b"SET"[..], key.as_bytes(), &value]).unwrap(), ok());
            assert_eq!(c.call(&["GET", key]).unwrap(), bulk(&value));
        }
    }
}

#[test]
fn a_client_that_does_not_read_holds_up_only_itself() {
    let s = Running::start(|c| c.output_soft = kintsugidb_server::config::Bytes(1 << 16));
    let mut slow = s.client();
    let value = vec![b'x'; 100_000];
    for k in ["a", "b"] {
        slow.call(&[&b"SET"[..], k.as_bytes(), &value]).unwrap();
    }
    for _ in 0..500 {
        slow.push(&["GET", "a"]);
        slow.push(&["GET", "b"]);
    }
    slow.flush().unwrap();
    let mut other = s.client();
    assert_eq!(call(&mut other, "PING"), Value::Simple("PONG".into()));
    std::thread::sleep(Duration::from_millis(100));
    let list = call(&mut other, "CLIENT LIST");
    let list = String::from_utf8(list.bytes().unwrap().to_vec()).unwrap();
    for line in list.lines() {
        let waiting = line.split(' ').find_map(|f| f.strip_prefix("omem=")).unwrap();
        assert!(waiting.parse::<usize>().unwrap() < 1_000_000, "replies pile up: {line}");
    }
    for _ in 0..1000 {
        assert_eq!(slow.receive().unwrap(), bulk(&value));
    }
}

#[test]
fn queued_commands_run_at_exec_and_errors_while_queueing_abort_it() {
    let s = Running::start(|_| {});
    let mut c = s.client();
    assert_eq!(call(&mut c, "MULTI"), ok());
    assert_eq!(call(&mut c, "SET {t}a 1"), Value::Simple("QUEUED".into()));
    assert_eq!(call(&mut c, "GET {t}a"), Value::Simple("QUEUED".into()));
    assert_eq!(call(&mut c, "PING"), Value::Simple("QUEUED".into()));
    let pong = Value::Simple("PONG".into());
    assert_eq!(call(&mut c, "EXEC"), Value::Array(vec![ok(), bulk("1"), pong]));

    call(&mut c, "MULTI");
    call(&mut c, "SET {t}a 2");
    assert!(call(&mut c, "NOSUCH").error().unwrap().starts_with("ERR unknown command"));
    let aborted = "EXECABORT Transaction discarded because of previous errors.";
    assert_eq!(call(&mut c, "EXEC").error(), Some(aborted));
    assert_eq!(call(&mut c, "GET {t}a"), bulk("1"));
    assert_eq!(call(&mut c, "EXEC").error(), Some("ERR EXEC without MULTI"));

    call(&mut c, "MULTI");
    call(&mut c, "SET {t}a 3");
    assert_eq!(call(&mut c, "DISCARD"), ok());
    assert_eq!(call(&mut c, "GET {t}a"), bulk("1"));
}

#[test]
fn hello_changes_the_protocol_of_this_connection_only() {
    let s = Running::start(|_| {});
    let (mut three, mut two) = (s.client(), s.client());
    assert!(matches!(call(&mut three, "HELLO 3"), Value::Map(_)));
    assert!(matches!(call(&mut three, "CONFIG GET port"), Value::Map(_)));
    assert!(matches!(call(&mut two, "CONFIG GET port"), Value::Array(_)));
    assert_eq!(call(&mut two, "HELLO 4").error(), Some("NOPROTO unsupported protocol version"));
    three.push_raw(b"*2\r\n$3\r\nGET\r\n$4\r\nnone\r\n");
    three.flush().unwrap();
    assert_eq!(three.receive().unwrap(), Value::Null);
}

#[test]
fn a_killed_client_is_gone_and_the_killer_stays() {
    let s = Running::start(|_| {});
    let (mut a, mut b) = (s.client(), s.client());
    let id = call(&mut b, "CLIENT ID").int().unwrap();
    assert_eq!(call(&mut a, &format!("CLIENT KILL ID {id}")), Value::Int(1));
    b.push(&["PING"]);
    assert!(b.flush().and_then(|()| b.receive()).is_err());
    assert_eq!(call(&mut a, "PING"), Value::Simple("PONG".into()));
}

#[test]
fn connections_beyond_the_limit_are_turned_away() {
    let s = Running::start(|c| c.maxclients = 2);
    let (mut a, mut b) = (s.client(), s.client());
    call(&mut a, "PING");
    call(&mut b, "PING");
    let mut c = s.client();
    assert_eq!(c.receive().unwrap().error(), Some("ERR max number of clients reached"));
}

#[test]
fn replies_under_way_are_sent_before_the_server_stops() {
    let mut s = Running::start(|_| {});
    let mut c = s.client();
    for i in 0..1000 {
        c.push(&["SET", &format!("k{i}"), "v"]);
    }
    c.receive_many(1000).unwrap();
    let server = s.server.take().unwrap();
    server.stop();
    assert!(server.join());
    assert!(c.call(&["PING"]).is_err());
}

#[test]
fn requests_in_single_bytes_are_requests() {
    let s = Running::start(|_| {});
    let mut c = s.client();
    for byte in b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nvw\r\nGET k\r\n" {
        c.push_raw(&[*byte]);
        c.flush().unwrap();
    }
    assert_eq!(c.receive().unwrap(), ok());
    assert_eq!(c.receive().unwrap(), bulk("vw"));
}

#[test]
fn client_reply_modes_leave_out_what_nobody_wants() {
    let s = Running::start(|_| {});
    let mut c = s.client();
    for line in [
        "CLIENT REPLY OFF",
        "SET a 1",
        "SET b 1",
        "SET c 1",
        "CLIENT REPLY ON",
        "CLIENT REPLY SKIP",
        "SET d 1",
        "GET d",
    ] {
        c.push(&line.split(' ').collect::<Vec<_>>());
    }
    c.flush().unwrap();
    assert_eq!(c.receive().unwrap(), ok());
    assert_eq!(c.receive().unwrap(), bulk("1"));
}

fn info(c: &mut Client, field: &str) -> i64 {
    let text = call(c, "INFO");
    let text = String::from_utf8(text.bytes().unwrap().to_vec()).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix(&format!("{field}:")));
    line.unwrap_or_else(|| panic!("INFO has no {field}")).parse().unwrap()
}

#[test]
fn point_reads_of_other_threads_shards_need_no_message() {
    let s = Running::start(|_| {});
    let mut c = s.client();
    for i in 0..100 {
        call(&mut c, &format!("SET k{i} v"));
        call(&mut c, &format!("HSET h{i} f v"));
    }
    std::thread::sleep(Duration::from_millis(50));
    let (sent, read) = (info(&mut c, "calls_sent"), info(&mut c, "one_sided_reads"));
    for i in 0..100 {
        assert_eq!(call(&mut c, &format!("GET k{i}")), bulk("v"));
        assert_eq!(call(&mut c, &format!("HGET h{i} f")), bulk("v"));
    }
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(info(&mut c, "calls_sent"), sent, "a point read went by message");
    assert!(info(&mut c, "one_sided_reads") > read);
}

#[test]
fn the_memory_limit_refuses_writes_and_leaves_reads_and_deletes() {
    let s = Running::start(|c| {
        c.shards = 2;
        c.maxmemory = kintsugidb_server::config::Bytes(8 << 20);
    });
    let mut c = s.client();
    let value = vec![b'x'; 10_000];
    let mut full = None;
    for i in 0..2000 {
        let r = c.call(&[&b"SET"[..], format!("k{i}").as_bytes(), &value]).unwrap();
        if r.error().is_some() {
            assert_eq!(r.error(), Some("OOM command not allowed when used memory > 'maxmemory'."));
            full = Some(i);
            break;
        }
    }
    let full = full.expect("the limit holds");
    assert!(full > 100, "refused after {full} values of 10 kB with 8 MB");
    assert_eq!(call(&mut c, "GET k0"), bulk(&value));
    assert_eq!(call(&mut c, "DEL k0"), Value::Int(1));
    assert_eq!(call(&mut c, "CONFIG SET maxmemory 100mb"), ok());
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(call(&mut c, "SET k0 x"), ok());
}
