//! Native clients against a real server process: what is read is never torn, foreign or fractured, whoever is killed or stopped, and
//! nothing is left over.
//!
//! Writers are processes of their own: this test binary again, told by an environment variable what to do.
use kintsugidb_client::{Client, Mode, Options};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const ROLE: &str = "KINTSUGI_TEST_ROLE";
const ADDRESS: &str = "KINTSUGI_TEST_ADDRESS";

/// A process that ends with its variable. A server has an address over TCP, too.
struct Process(Child, String);

impl Process {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn socket(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("kintsugi-native-{name}-{}.sock", std::process::id()))
}

/// Starts a server and waits until it serves.
fn serve(address: &str) -> Process {
    serve_isolated(address, "fast")
}

fn serve_isolated(address: &str, isolation: &str) -> Process {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kintsugi"))
        .args([
            "serve",
            "--port",
            "0",
            "--threads",
            "2",
            "--shards",
            "8",
            "--isolation",
            isolation,
            "--fabric",
            address,
            "--fabric",
            "tcp:127.0.0.1:0",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut tcp = String::new();
    let ready = lines.any(|l| {
        let l = l.unwrap_or_default();
        if let Some(at) = l.trim().strip_prefix("listening on tcp:") {
            tcp = format!("tcp:{at}");
        }
        l.contains("native clients") && l.contains("tcp:")
    });
    // Keeps the pipe open, so that the server may write to it.
    std::thread::spawn(move || lines.for_each(drop));
    let server = Process(child, tcp);
    assert!(ready, "the server did not start");
    server
}

fn client(address: &str, mode: Mode) -> Client {
    Client::connect_with(address, Options { mode, ..Options::default() }).unwrap()
}

/// This binary again, in a role.
fn child(role: &str, address: &str) -> Process {
    let exe = std::env::current_exe().unwrap();
    let child = Command::new(exe)
        .args(["--exact", "in_a_role", "--nocapture"])
        .env(ROLE, role)
        .env(ADDRESS, address)
        .stdout(Stdio::null())
        .spawn();
    Process(child.unwrap(), String::new())
}

/// A value that tells torn and foreign apart: its words are all the same, and name the key and the write.
fn value(key: usize, tag: u64) -> Vec<u8> {
    let word = (key as u64) << 48 | (tag & 0xffff_ffff_ffff);
    word.to_le_bytes().repeat(25)
}

/// The tag of a value that is whole and of this key.
fn tag(key: usize, value: &[u8]) -> u64 {
    let words: Vec<u64> = value.as_chunks::<8>().0.iter().map(|w| u64::from_le_bytes(*w)).collect();
    assert_eq!(words.len(), 25, "length");
    assert!(words.iter().all(|w| *w == words[0]), "torn: {words:x?}");
    assert_eq!(words[0] >> 48, key as u64, "foreign: {:x}", words[0]);
    words[0] & 0xffff_ffff_ffff
}

const PAIRS: usize = 8;

fn names() -> Vec<String> {
    (0..PAIRS).map(|i| format!("pair:{i}")).collect()
}

/// Writes all keys together, with one tag.
fn write_all(c: &mut Client, tag: u64) {
    c.mset(names().iter().enumerate().map(|(i, k)| (k, value(i, tag)))).unwrap();
}

/// Reads all keys together: the tag of each.
fn tags(c: &mut Client) -> Vec<u64> {
    let values = c.mget(names()).unwrap();
    values.iter().enumerate().map(|(i, v)| tag(i, v.as_ref().expect("written"))).collect()
}

/// The same: their one tag.
fn read_all(c: &mut Client) -> u64 {
    let tags = tags(c);
    assert!(tags.iter().all(|t| *t == tags[0]), "fractured: {tags:x?}");
    tags[0]
}

/// Not a test of its own: what the other processes do.
#[test]
fn in_a_role() {
    let (Ok(role), Ok(address)) = (std::env::var(ROLE), std::env::var(ADDRESS)) else { return };
    let mut c = client(&address, Mode::OneSided);
    let mine = u64::from(std::process::id()) << 24;
    for n in 1u64.. {
        match role.as_str() {
            "writer" => {
                write_all(&mut c, mine | n);
                c.set("single", value(99, mine | n)).unwrap();
            }
            "grower" => {
                let some: Vec<_> = (0..50).map(|i| (format!("new:{mine}:{n}:{i}"), [b'n'; 40])).collect();
                c.mset(some.iter().map(|(k, v)| (k, v))).unwrap();
                if n > 2000 {
                    return;
                }
            }
            "mover" => {
                let (from, to) = (n % PAIRS as u64, (n * 3 + 1) % PAIRS as u64);
                if from != to {
                    let t = c.transaction().incr_by(format!("account:{from}"), -1);
                    t.incr_by(format!("account:{to}"), 1).exec().unwrap();
                }
            }
            other => panic!("no role {other}"),
        }
    }
}

fn info(c: &mut Client, section: &str, name: &str) -> u64 {
    let value = c.command(&["INFO", section]).unwrap();
    let text = String::from_utf8_lossy(value.bytes().unwrap()).into_owned();
    let found = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok());
    found.unwrap_or_else(|| panic!("{name} in {text}"))
}

fn until(what: &str, mut f: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !f() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until no transaction is left over.
fn until_quiet(c: &mut Client) {
    for name in ["transactions_open", "transactions_recent", "reservations_waiting", "hot_keys"] {
        until(name, || info(c, "kintsugi", name) == 0);
    }
}

/// Open files of connections: sockets and rings. (A shard may make itself a region to work in at any time, and keeps it.)
fn files(server: &Process) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.0.id())).unwrap();
    let names = open.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
    names.filter(|n| !n.to_string_lossy().contains("kintsugi-region")).count()
}

#[test]
fn two_writers_of_equal_sizes_and_a_growing_index_show_nothing_torn_foreign_or_fractured() {
    let address = format!("shm:{}", socket("writers").display());
    let server = serve(&address);
    let mut one_sided = client(&address, Mode::OneSided);
    // The same reads as over RDMA, by an agent of the server.
    let emulated = Options { emulated: true, ..Options::default() };
    let mut remote = Client::connect_with(&server.1, emulated).unwrap();
    assert!(remote.is_one_sided());
    let mut messages = client(&address, Mode::Messages);
    write_all(&mut one_sided, 1);
    one_sided.set("single", value(99, 1)).unwrap();
    let _writers = [child("writer", &address), child("writer", &address), child("grower", &address)];
    until("the writers write", || read_all(&mut messages) != 1);
    let (end, mut seen, mut reads) =
        (Instant::now() + Duration::from_millis(1500), std::collections::HashSet::new(), 0u64);
    while Instant::now() < end || seen.len() < 20 {
        assert!(reads < 100_000_000, "the writers are stuck");
        seen.insert(read_all(&mut one_sided));
        for _ in 0..20 {
            tag(99, &one_sided.get("single").unwrap().expect("written"));
        }
        if reads.is_multiple_of(16) {
            read_all(&mut messages);
            read_all(&mut remote);
            tag(99, &remote.get("single").unwrap().expect("written"));
        }
        reads += 1;
    }
    let counters = one_sided.counters();
    assert!(counters.one_sided > reads, "{counters:?}");
    assert!(remote.counters().one_sided > 0, "{:?}", remote.counters());
}

/// The check's canary: without isolation it has to fail.
#[test]
fn without_isolation_the_same_reads_are_fractured() {
    let address = format!("shm:{}", socket("none").display());
    let _server = serve_isolated(&address, "none");
    for mode in [Mode::OneSided, Mode::Messages] {
        let mut c = client(&address, mode);
        write_all(&mut c, 1);
        let _writers = [child("writer", &address), child("writer", &address)];
        let end = Instant::now() + Duration::from_secs(60);
        let fractured = |tags: Vec<u64>| tags.iter().any(|t| *t != tags[0]);
        while !fractured(tags(&mut c)) {
            assert!(Instant::now() < end, "{mode:?}: the check is blind");
        }
    }
}

#[test]
fn a_client_killed_while_it_writes_leaves_nothing_behind() {
    let address = format!("shm:{}", socket("killed").display());
    let server = serve(&address);
    let mut c = client(&address, Mode::OneSided);
    write_all(&mut c, 1);
    c.mset((0..PAIRS).map(|i| (format!("account:{i}"), "100"))).unwrap();
    until_quiet(&mut c);
    let (clients, open_files) = (info(&mut c, "clients", "connected_clients"), files(&server));
    let mut messages = client(&address, Mode::Messages);
    for round in 0..6u64 {
        let (mut writer, mut mover) = (child("writer", &address), child("mover", &address));
        let last = read_all(&mut c);
        until("the writer writes", || read_all(&mut c) != last);
        // Stopped somewhere in a transaction, nobody has to wait for it.
        writer.signal(Signal::STOP);
        mover.signal(Signal::STOP);
        for _ in 0..50 {
            read_all(&mut c);
            read_all(&mut messages);
        }
        if round % 2 == 0 {
            writer.signal(Signal::CONT);
            mover.signal(Signal::CONT);
            std::thread::sleep(Duration::from_millis(round + 3));
        }
        writer.kill();
        mover.kill();
        until("the accounts are free", || info(&mut c, "kintsugi", "transactions_open") == 0);
        read_all(&mut c);
        let balances = c.mget((0..PAIRS).map(|i| format!("account:{i}"))).unwrap();
        let total: i64 = balances
            .iter()
            .map(|b| String::from_utf8_lossy(b.as_ref().unwrap()).parse::<i64>().unwrap())
            .sum();
        assert_eq!(total, 100 * PAIRS as i64, "half of a transfer: {balances:?}");
    }
    drop(messages);
    until_quiet(&mut c);
    until("the connections are gone", || info(&mut c, "clients", "connected_clients") == clients);
    until("the files are closed", || files(&server) == open_files);
}

#[test]
fn a_client_of_a_server_that_was_killed_reads_from_the_next_one() {
    let address = format!("shm:{}", socket("restart").display());
    let mut server = serve(&address);
    let mut c = client(&address, Mode::OneSided);
    c.set("k", "old").unwrap();
    assert_eq!(c.get("k").unwrap().as_deref(), Some(&b"old"[..]));
    let before = c.incarnation();
    server.kill();
    let _next = serve(&address);
    // The mapping of the first server's memory is still there, and still says "old".
    client(&address, Mode::Messages).set("k", "new").unwrap();
    assert_eq!(c.get("k").unwrap().as_deref(), Some(&b"new"[..]), "a stale mapping was read");
    assert_eq!(c.counters().connects, 2);
    assert_ne!(c.incarnation(), before);
    assert_eq!(c.mget(["k", "other"]).unwrap(), [Some(b"new".to_vec()), None]);
}

#[test]
fn reads_go_on_while_the_server_is_stopped() {
    let address = format!("shm:{}", socket("stopped").display());
    let server = serve(&address);
    let mut c = client(&address, Mode::OneSided);
    c.mset((0..1000).map(|i| (format!("k{i}"), i.to_string()))).unwrap();
    until_quiet(&mut c);
    server.signal(Signal::STOP);
    for i in 0..1000 {
        assert_eq!(c.get(format!("k{i}")).unwrap(), Some(i.to_string().into_bytes()));
    }
    assert_eq!(c.mget(["k1", "k2", "k3", "none"]).unwrap()[3], None);
    server.signal(Signal::CONT);
    c.set("k1", "after").unwrap();
    assert_eq!(c.get("k1").unwrap().as_deref(), Some(&b"after"[..]));
}
