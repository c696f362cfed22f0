//! Every golden vector of `spec/vectors`, over UDP, against a server with two threads.
use kintsugidb_server::{Config, Listeners, Server};
use kintsugidb_wire::{Client, Value};
use std::{
    collections::HashMap,
    net::UdpSocket,
    path::{Path, PathBuf},
    time::Duration,
};

struct Step {
    line: String,
    send: Vec<u8>,
    answers: Vec<Vec<u8>>,
}

fn unhex(s: &str) -> Vec<u8> {
    (0..s.len()).step_by(2).map(|i| u8::from_str_radix(&s[i..i + 2], 16).unwrap()).collect()
}

/// The steps of a vector file; it has one a line.
fn steps(file: &Path) -> Vec<Step> {
    let text = std::fs::read_to_string(file).unwrap();
    let steps = text.lines().filter_map(|line| {
        let (send, rest) = line.split_once("\"send\": \"")?.1.split_once('"')?;
        let answers = rest.split_once('[')?.1.split_once(']')?.0;
        let answers =
            answers.split(", ").filter(|a| !a.is_empty()).map(|a| unhex(a.trim_matches('"'))).collect();
        Some(Step { line: line.into(), send: unhex(send), answers })
    });
    steps.collect()
}

fn files(traces: bool) -> Vec<PathBuf> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/vectors/v1");
    let all = std::fs::read_dir(directory).unwrap().map(|f| f.unwrap().path());
    let is_trace = |p: &Path| p.file_name().unwrap().to_str().unwrap().starts_with("trace");
    let mut all: Vec<_> =
        all.filter(|p| p.extension().is_some_and(|e| e == "json") && is_trace(p) == traces).collect();
    all.sort();
    all
}

struct Running {
    server: Option<Server>,
    client: Client,
    socket: UdpSocket,
}

impl Running {
    fn start() -> Self {
        let mut listeners = Listeners::tcp("127.0.0.1:0").unwrap();
        listeners.udp = Some(UdpSocket::bind("127.0.0.1:0").unwrap());
        let server = Server::start(Config { threads: 2, ..Config::default() }, listeners).unwrap();
        let client = Client::connect(("127.0.0.1", server.tcp_port().unwrap())).unwrap();
        client.set_timeout(Some(Duration::from_secs(60))).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server.udp_address().unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { server: Some(server), client, socket }
    }

    fn flush(&mut self) {
        assert_eq!(self.client.call(&["FLUSHALL"]).unwrap(), Value::Simple("OK".into()));
    }

    fn receive(&self) -> Vec<u8> {
        let mut buffer = [0; 2048];
        let n = self.socket.recv(&mut buffer).expect("an answer");
        buffer[..n].to_vec()
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

#[test]
fn the_server_answers_every_golden_vector_as_the_reference_does() {
    let mut s = Running::start();
    let (mut answered, mut dropped) = (0, 0);
    for file in files(false) {
        s.flush();
        for step in steps(&file) {
            s.socket.send(&step.send).unwrap();
            if step.answers.is_empty() {
                // Nothing comes back: the next answer is that of what is asked next.
                let ping = [0, 0x10, 0, 0, 0, 0, 0xEF, 0xBE];
                s.socket.send(&ping).unwrap();
                assert_eq!(s.receive(), [0x80, 0, 0, 0, 0, 0, 0xEF, 0xBE], "{}", step.line);
                dropped += 1;
            } else {
                let answer = s.receive();
                assert!(step.answers.contains(&answer), "{answer:02x?}\n{}", step.line);
                answered += 1;
            }
        }
    }
    assert!(answered > 1000 && dropped > 500, "{answered} {dropped}");
}

#[test]
fn traces_with_many_requests_on_the_way_are_answered_as_the_reference_does() {
    const WINDOW: usize = 32;
    let mut s = Running::start();
    for file in files(true) {
        s.flush();
        let mut due: HashMap<[u8; 2], Step> = HashMap::new();
        let mut steps = steps(&file).into_iter();
        loop {
            while due.len() < WINDOW {
                let Some(step) = steps.next() else { break };
                s.socket.send(&step.send).unwrap();
                due.insert([step.send[6], step.send[7]], step);
            }
            if due.is_empty() {
                break;
            }
            let answer = s.receive();
            let step = due.remove(&[answer[6], answer[7]]).expect("an answer to what was asked");
            assert!(step.answers.contains(&answer), "{answer:02x?}\n{}", step.line);
        }
    }
}

#[test]
fn redis_clients_see_what_datagrams_wrote_and_the_counters_count() {
    let mut s = Running::start();
    let ask = |hex: &str| {
        s.socket.send(&unhex(hex)).unwrap();
        s.receive()
    };
    // SET "temp" "21.5"; the page's example
    assert_eq!(ask("021004000400070074656d700000000032312e3500000000"), unhex("8200000000000700"));
    s.socket.send(&unhex("700001")).unwrap();
    let numbers = ask("7010000000000900");
    assert_eq!(numbers[..8], unhex("f000000080000900"));
    let n: Vec<_> = numbers[8..].chunks(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(n[..3], [2, 1, 1], "received, answered, dropped");
    assert_eq!(s.client.call(&["GET", "temp"]).unwrap(), Value::Bulk(b"21.5".to_vec()));
}
