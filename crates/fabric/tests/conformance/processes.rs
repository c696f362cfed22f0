//! What needs another process: one that is stopped, one that is killed, one that counts what it has open.
//!
//! The other process is this test binary again, told by the environment what to be; see [`child`].

use crate::deputy::deputy;
use crate::far::Control;
use crate::suite::{complete, receive};
use crate::world::{READ, REGION_BYTES, WRITE, World, accept, options};
use kintsugidb_fabric::{Address, ConnectOptions, Connected, Connection, Error, Failure, OneSided, connect};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub const LONG: Duration = Duration::from_secs(30);
const ROLE: &str = "KINTSUGI_FABRIC_ROLE";
const WHERE: &str = "KINTSUGI_FABRIC_ADDRESS";

/// Another process of this machine or of the other; it dies with its handle.
pub enum Other {
    Here(Process),
    There(Arc<Control>),
}

impl Other {
    pub fn hear(&self) -> String {
        match self {
            Other::Here(process) => process.hear(),
            Other::There(control) => control.hear(),
        }
    }
    /// Sends it a signal; waits until it has stopped, if it is to stop.
    pub fn signal(&self, signal: Signal) {
        match self {
            Other::Here(process) => process.signal(signal),
            Other::There(control) => control.signal(signal),
        }
    }
}

/// A process of this machine that dies with its handle.
pub struct Process {
    child: Child,
    /// What it says on its standard output, from `say`.
    said: std::sync::mpsc::Receiver<String>,
}

const SAY: &str = "child says: ";

impl Process {
    pub fn here(role: &str, address: &str) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(WHERE, address)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (to, said) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some((_, line)) = line.split_once(SAY) {
                    let _ = to.send(line.to_owned());
                }
            }
        });
        Process { child, said }
    }
    pub fn hear(&self) -> String {
        self.said.recv_timeout(LONG).expect("the other process has something to say")
    }
    pub fn signal(&self, signal: Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
        let stat = format!("/proc/{}/stat", self.child.id());
        while signal == Signal::STOP
            && !std::fs::read_to_string(&stat).unwrap().rsplit(')').next().unwrap().starts_with(" T")
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A test like any other for the harness; in a process that was started with a role, that role.
pub fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let address = std::env::var(WHERE).unwrap();
    match role.as_str() {
        "target" => target(&World::new(World::fabric_named(&address))),
        "deputy" => deputy(&address),
        "chatterer" => chatterer(&address.parse().unwrap(), true),
        // Emulated machines lose packets when there are many, and then repeat them for minutes.
        "chatterer afar" => chatterer(&address.parse().unwrap(), false),
        "exporter" => crate::peers_regions::exporter(&address.parse().unwrap()),
        "leaks" => leaks(&address),
        other => panic!("no role {other}"),
    }
}

pub fn say(what: impl std::fmt::Display) {
    println!("{SAY}{what}");
}

/// The word that the target stores at an offset of its region.
fn pattern(offset: u64) -> u64 {
    offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// Exports a region and echoes messages, until it is killed.
fn target(world: &World) {
    let (exports, read, _) = World::exports();
    for offset in (0..REGION_BYTES).step_by(8) {
        read.range(offset, 8).unwrap()[0].store(pattern(offset), Ordering::Release);
    }
    let mut listener = world.listen();
    say(listener.address());
    let mut connection = accept(&mut *listener, exports).connection;
    let mut message = Vec::new();
    loop {
        match connection.receive(&mut message) {
            Ok(Some(_)) => connection.send(&message).unwrap(),
            Ok(None) => drop(connection.wait(LONG)),
            Err(_) => return,
        }
        message.clear();
    }
}

fn connect_to_target(world: &World, options: &ConnectOptions) -> (Other, Connected) {
    let target = world.start("target", world.fabric.name());
    let address: Address = target.hear().parse().unwrap();
    let connected = connect(&address, options).unwrap();
    (target, connected)
}

pub fn reads_go_on_while_the_target_is_stopped_or_name_its_agent(world: &World) {
    let options = ConnectOptions { operation: Duration::from_millis(300), ..options() };
    let (target, mut client) = connect_to_target(world, &options);
    let client = &mut client.connection;
    let buffer = client.register(4096).unwrap();
    let read = |client: &mut dyn Connection, offset: u64| {
        buffer.memory().store_bytes(0, &[0; 64]).unwrap();
        client.read(READ, offset, buffer.span(0, 64), offset).unwrap();
        let result = complete(client, 1).remove(0).result;
        let words = buffer.memory().range(0, 64).unwrap();
        let seen = words
            .iter()
            .enumerate()
            .all(|(i, w)| w.load(Ordering::Acquire) == pattern(offset + 8 * i as u64));
        assert_eq!(result.is_ok(), seen, "{result:?}");
        result
    };
    // Time may be short on a busy machine even while nobody is stopped.
    while read(&mut **client, 0).is_err() {}
    target.signal(Signal::STOP);
    match client.capabilities().one_sided {
        OneSided::Truly => {
            for i in 0..5000 {
                assert_eq!(read(&mut **client, i * 64 % REGION_BYTES), Ok(()));
            }
            if let Some(region) = client.direct(READ) {
                assert_eq!(region.range(800, 8).unwrap()[0].load(Ordering::Acquire), pattern(800));
            }
        }
        OneSided::Emulated => {
            let Err(Failure::TimedOut { agent, limit_ms: 300 }) = read(&mut **client, 64) else {
                panic!("a stopped agent cannot answer")
            };
            assert!(agent.starts_with("the agent of region 3 at "), "{agent}");
        }
    }
    client.send(b"are you there?").unwrap();
    target.signal(Signal::CONT);
    assert_eq!(receive(&mut **client), b"are you there?", "messages wait until it goes on");
    // An answer that comes too late is not taken for another.
    while read(&mut **client, 128).is_err() {}
}

pub fn a_killed_target_ends_everything_under_way(world: &World) {
    let (target, mut client) = connect_to_target(world, &options());
    let client = &mut client.connection;
    client.send(b"hello").unwrap();
    assert_eq!(receive(&mut **client), b"hello");
    let buffer = client.register(4096).unwrap();
    target.signal(Signal::STOP);
    for token in 0..10 {
        client.read(READ, 0, buffer.span(0, 8), token).unwrap();
    }
    target.signal(Signal::KILL);
    let done = complete(&mut **client, 10);
    let truly = client.capabilities().one_sided == OneSided::Truly;
    assert!(done.iter().all(|c| truly && c.result.is_ok() || c.result == Err(Failure::PeerDead)), "{done:?}");
    let error = loop {
        match client.receive(&mut Vec::new()) {
            Ok(None) => client.wait(LONG).map(drop).unwrap_or_default(),
            Ok(Some(_)) => panic!("nothing was sent"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::PeerDead), "{error}");
    assert!(matches!(client.read(READ, 0, buffer.span(0, 8), 1), Err(Error::PeerDead)));
}

/// Sends large and small messages and writes as fast as it can, until it is killed.
fn chatterer(address: &Address, flood: bool) {
    let mut connection = connect(address, &options()).unwrap().connection;
    let buffer = connection.register(1 << 16).unwrap();
    say("connected");
    let mut done = Vec::new();
    let (bytes, mut under_way) = (if flood { 1 << 16 } else { 1 << 10 }, 0);
    for i in 0.. {
        let message = vec![i as u8; [0, 10, 3000, 100_000][i % 4]];
        match connection.send(&message) {
            Ok(()) | Err(Error::Full) => {}
            Err(error) => panic!("{error}"),
        }
        if flood || under_way == 0 {
            under_way += usize::from(connection.write(buffer.span(0, bytes), WRITE, 0, 1).is_ok());
        }
        under_way -= connection.poll(&mut done).unwrap();
        done.clear();
    }
}

pub fn a_client_killed_while_it_sends_leaves_whole_messages_and_an_end(world: &World) {
    for round in 0..5 {
        let mut listener = world.listen();
        let role = if world.far { "chatterer afar" } else { "chatterer" };
        let client = world.start(role, &listener.address().to_string());
        let mut server = accept(&mut *listener, World::exports().0).connection;
        client.hear();
        let mut count = 0;
        let error = loop {
            let mut message = Vec::new();
            match server.receive(&mut message) {
                Ok(Some(bytes)) => {
                    assert_eq!(bytes, message.len());
                    assert!([0, 10, 3000, 100_000].contains(&bytes), "{bytes}");
                    assert!(message.windows(2).all(|w| w[0] == w[1]), "a torn message");
                    count += 1;
                    if count == 40 + round * 7 {
                        client.signal(Signal::KILL);
                    }
                }
                Ok(None) => drop(server.wait(LONG)),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::PeerDead), "{error}");
        assert!(count >= 40);
    }
}

/// What this process has open: descriptors, and lines of its map that are ours.
fn open() -> (usize, usize) {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    (descriptors, maps.lines().filter(|line| line.contains("kintsugi-fabric")).count())
}

/// Threads that close things may need a moment.
fn back_to(before: (usize, usize)) {
    for _ in 0..2000 {
        if open() == before {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("descriptors and mappings: {:?}, were {before:?}", open());
}

fn leaks(fabric: &str) {
    let world = World::new(World::fabric_named(fabric));
    let round = |i: usize| {
        // Half of them with regions of both sides.
        let mut pair = match i % 4 {
            0 | 1 => world.pair(),
            _ => world.pair_the_other_way(World::exports().0),
        };
        let buffer = pair.client.connection.register(8192).unwrap();
        pair.client.connection.send(&vec![1; i * 9000]).unwrap();
        pair.client.connection.read(READ, 0, buffer.span(0, 8192), 1).unwrap();
        if i.is_multiple_of(2) {
            complete(&mut *pair.client.connection, 1);
        }
        if i.is_multiple_of(3) {
            drop(pair.server);
            let _ = pair.client.connection.wait(Duration::from_millis(1));
        }
        let _ =
            crate::world::try_connect(&world, ConnectOptions { password: b"wrong".to_vec(), ..options() });
    };
    round(1);
    let before = open();
    (0..20).for_each(round);
    back_to(before);
    // The canary: what is kept is counted.
    let kept = world.pair();
    assert_ne!(open(), before);
    drop(kept);
    back_to(before);
    say("nothing leaked");
}

pub fn nothing_is_left_open_after_connections(world: &World) {
    let mut process = Process::here("leaks", world.fabric.name());
    let said = process.said.recv();
    let status = process.child.wait().unwrap();
    assert!(status.success() && said.as_deref() == Ok("nothing leaked"), "{status}: {said:?}");
}
