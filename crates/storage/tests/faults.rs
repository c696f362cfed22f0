//! Real processes that are killed, stopped and cut off: every request ends in the right bytes or in an error, in time.
//!
//! A target is this test program again, told by its environment to serve.

use kintsugidb_fabric::{Address, ConnectOptions};
use kintsugidb_storage::{
    CacheOptions, CachedFile, Channel, IoError, Remote, RemoteOptions, Target, TargetOptions, pattern,
};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SEED: u64 = 11;
const BYTES: u64 = 8 << 20;
const ROLE: &str = "KINTSUGI_STORAGE_TEST_ROLE";
const LONG: Duration = Duration::from_secs(60);

/// Not a test: what the child processes of the tests below run.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let mut parts = role.split('|');
    let (kind, address, dir) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    match kind {
        "target" => {
            let dir = Path::new(dir);
            let volumes = [
                format!("data={}", dir.join("data").display()),
                format!("scratch={},rw", dir.join("scratch").display()),
            ];
            let target = Target::start(TargetOptions {
                volumes: volumes.iter().map(|v| v.parse().unwrap()).collect(),
                listen: vec![address.parse().unwrap()],
                ..TargetOptions::default()
            })
            .unwrap();
            println!("\nready {}", target.addresses()[0]);
            // Until the parent goes away or kills it.
            let _ = std::io::stdin().read(&mut [0]);
            std::process::exit(0);
        }
        "client" => {
            let mut channel =
                Channel::connect(&address.parse().unwrap(), &ConnectOptions::default()).unwrap();
            let volume = channel.open("data", LONG).unwrap().handle;
            let (mut finished, mut token) = (Vec::new(), 0);
            println!("\nready {address}");
            loop {
                while channel.read(volume, &[(token % 64 * 65536, 65536)], token).unwrap().is_ok() {
                    token += 1;
                }
                channel.poll(&mut finished).unwrap();
                finished.clear();
            }
        }
        other => panic!("no role {other}"),
    }
}

struct Process {
    child: Child,
    address: Address,
}

impl Process {
    fn start(kind: &str, address: &str, dir: &Path) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(ROLE, format!("{kind}|{address}|{}", dir.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.map(Result::unwrap).find_map(|l| l.strip_prefix("ready ").map(str::to_owned));
        Process { child, address: ready.expect("the child did not get ready").parse().unwrap() }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops every thread of it, and waits until they stand.
    fn stop(&self) {
        self.signal(rustix::process::Signal::STOP);
        let tasks = format!("/proc/{}/task", self.child.id());
        until("standing still", || {
            std::fs::read_dir(&tasks).unwrap().all(|task| {
                let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap_or_default();
                stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
            })
        });
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    fn mappings(&self) -> usize {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.child.id())).unwrap();
        maps.lines().filter(|l| l.contains("memfd:")).count()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Files(PathBuf);

impl Files {
    fn new() -> Files {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("kiof-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        pattern::make_file(&dir.join("data"), SEED, BYTES).unwrap();
        std::fs::write(dir.join("scratch"), vec![0; 1 << 20]).unwrap();
        Files(dir)
    }

    fn shm(&self) -> String {
        format!("shm:{}", self.0.join("s").display())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options(address: &Address) -> RemoteOptions {
    RemoteOptions { request: LONG, reconnect: LONG, ..RemoteOptions::new(address.clone()) }
}

/// Waits for something that must come, however busy the machine is.
fn until(what: &str, mut true_now: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !true_now() {
        assert!(begun.elapsed() < LONG, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reads at random places until told to stop, and counts; panics on a wrong byte or an error.
fn reader(
    file: kintsugidb_storage::RemoteFile,
    stop: Arc<AtomicBool>,
    seed: u64,
) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let (mut count, mut x) = (0, seed);
        let mut buffer = vec![0; 20_000];
        while !stop.load(Ordering::Relaxed) {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let length = 1 + (x >> 20) as usize % buffer.len();
            let offset = (x >> 35) % (BYTES - length as u64);
            file.read_exact_at(offset, &mut buffer[..length]).unwrap();
            assert_eq!(pattern::check(SEED, offset, &buffer[..length]), Ok(()));
            count += 1;
        }
        count
    })
}

#[test]
fn reads_survive_a_target_that_is_killed_and_started_again() {
    let files = Files::new();
    let mut target = Process::start("target", &files.shm(), &files.0);
    let remote = Remote::connect(options(&target.address)).unwrap();
    let file = remote.open("data").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3).map(|n| reader(file.clone(), stop.clone(), n)).collect();
    for round in 1..=3 {
        target.kill();
        target = Process::start("target", &files.shm(), &files.0);
        until("a reconnection", || remote.reconnections() >= round);
    }
    stop.store(true, Ordering::Relaxed);
    let counts: Vec<u64> = readers.into_iter().map(|r| r.join().unwrap()).collect();
    assert!(counts.iter().all(|c| *c > 0), "{counts:?}");
}

#[test]
fn a_write_under_way_when_the_target_dies_is_not_repeated() {
    let files = Files::new();
    let mut target = Process::start("target", "tcp:127.0.0.1:0", &files.0);
    let remote =
        Remote::connect(RemoteOptions { reconnect: Duration::ZERO, ..options(&target.address) }).unwrap();
    let file = remote.open("scratch").unwrap();
    file.write_at(0, &[1; 4096]).unwrap();
    target.stop();
    let write = file.write(4096, vec![2; 4096]);
    let read = file.read(0, 4096);
    // Both have been sent when nothing is left to send: the third goes behind them.
    std::thread::sleep(Duration::from_millis(100));
    target.kill();
    let lost = write.wait().unwrap_err();
    assert!(matches!(lost, IoError::Lost { unknown: true } | IoError::Connect(_)), "{lost}");
    assert!(read.wait().is_err());
}

#[test]
fn a_stopped_target_costs_a_time_out_and_writes_into_nobodys_buffer() {
    let files = Files::new();
    for address in [files.shm(), "tcp:127.0.0.1:0".into()] {
        let target = Process::start("target", &address, &files.0);
        let patient = Remote::connect(options(&target.address)).unwrap();
        let hasty = Remote::connect(RemoteOptions {
            request: Duration::from_millis(200),
            ..options(&target.address)
        });
        let hasty = hasty.unwrap();
        let file = patient.open("data").unwrap();
        let mut quick = None;
        until("an opening in time", || {
            quick = hasty.open("data").ok();
            quick.is_some()
        });
        let quick = quick.unwrap();
        target.stop();
        let mut buffer = vec![0x55; 4096];
        assert!(matches!(quick.read_at(0, &mut buffer), Err(IoError::TimedOut { .. } | IoError::Connect(_))));
        let waiting = file.read(4096, 4096);
        target.signal(rustix::process::Signal::CONT);
        assert_eq!(pattern::check(SEED, 4096, &waiting.wait().unwrap().to_vec()), Ok(()));
        assert!(buffer.iter().all(|b| *b == 0x55), "a request that was given up has written");
        until("the hasty client's recovery", || quick.read_at(512, &mut buffer).is_ok());
        assert_eq!(pattern::check(SEED, 512, &buffer), Ok(()));
    }
}

/// Hands bytes on between a client and a target, and cuts the first connections after so many.
fn proxy(to: &Address, cuts: Vec<usize>) -> Address {
    let Address::Tcp(to) = to.clone() else { panic!("only over tcp") };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap().to_string());
    std::thread::spawn(move || {
        let mut cuts = cuts.into_iter();
        for client in listener.incoming() {
            let Ok(client) = client else { return };
            let Ok(server) = TcpStream::connect(&to) else { return };
            let (mut up, mut into) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut up, &mut into));
            let left = cuts.next().unwrap_or(usize::MAX);
            std::thread::spawn(move || {
                let (mut from, mut to, mut left, mut chunk) = (server, client, left, [0; 4096]);
                while let Ok(count @ 1..) = from.read(&mut chunk) {
                    let count = count.min(left);
                    left -= count;
                    if to.write_all(&chunk[..count]).is_err() || left == 0 {
                        break;
                    }
                }
                let _ = to.shutdown(std::net::Shutdown::Both);
                let _ = from.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    address
}

#[test]
fn a_connection_cut_within_a_block_costs_a_reconnection_and_no_byte() {
    let files = Files::new();
    let target = Process::start("target", "tcp:127.0.0.1:0", &files.0);
    // The first is cut while it carries the second block or so; the next one, and the one after it, too.
    let address = proxy(&target.address, vec![90_000, 30_000, 200_001]);
    let remote = Remote::connect(options(&address)).unwrap();
    let file = remote.open("data").unwrap();
    let mut all = vec![0; 2 << 20];
    for piece in (0..all.len()).step_by(1 << 18) {
        file.read_exact_at(piece as u64, &mut all[piece..piece + (1 << 18)]).unwrap();
    }
    assert_eq!(pattern::check(SEED, 0, &all), Ok(()));
    assert!(remote.reconnections() >= 1);
}

#[test]
fn killed_clients_leave_nothing_behind_in_the_target() {
    let files = Files::new();
    for address in [files.shm(), "tcp:127.0.0.1:0".into()] {
        let target = Process::start("target", &address, &files.0);
        let address = target.address.to_string();
        let remote = Remote::connect(options(&target.address)).unwrap();
        let file = remote.open("data").unwrap();
        drop(Process::start("client", &address, &files.0));
        let mut buffer = vec![0; 4096];
        file.read_exact_at(0, &mut buffer).unwrap();
        // One client has come and gone, so that everything that is made once has been made.
        let mut level = (0, 0);
        until("rest after the first client", || {
            let now = (target.descriptors(), target.mappings());
            std::mem::replace(&mut level, now) == now
        });
        for _ in 0..4 {
            drop(Process::start("client", &address, &files.0));
        }
        until("the return to as many descriptors and mappings", || {
            file.read_exact_at(4096, &mut buffer).unwrap();
            target.descriptors() <= level.0 && target.mappings() <= level.1
        });
        assert_eq!(pattern::check(SEED, 4096, &buffer), Ok(()));
    }
}

#[test]
fn dropped_requests_give_their_places_back() {
    let files = Files::new();
    let target = Process::start("target", &files.shm(), &files.0);
    let remote = Remote::connect(options(&target.address)).unwrap();
    let file = remote.open("data").unwrap();
    // Far more than the data area holds.
    for round in 0..300 {
        drop(file.read(round % 4 * (1 << 20), 1 << 20));
    }
    let mut buffer = vec![0; 4 << 20];
    file.read_exact_at(0, &mut buffer).unwrap();
    assert_eq!(pattern::check(SEED, 0, &buffer), Ok(()));
    let pending = file.read(0, 4096);
    drop(file);
    drop(remote);
    // It ends, one way or the other, although its connection is gone.
    if let Ok(block) = pending.wait() {
        assert_eq!(block.len(), 4096);
    }
}

#[test]
fn the_cache_answers_again_what_it_has_and_foresees_what_comes() {
    let files = Files::new();
    let target = Process::start("target", &files.shm(), &files.0);
    let remote = Remote::connect(options(&target.address)).unwrap();
    let options = CacheOptions { bytes: 4 << 20, block: 16384, ahead: 8 };
    let cached = CachedFile::new(remote.open("data").unwrap(), options);
    let mut buffer = vec![0; 1000];
    for step in 0..2000u64 {
        assert_eq!(cached.read_at(step * 1000, &mut buffer).unwrap(), 1000);
        assert_eq!(pattern::check(SEED, step * 1000, &buffer), Ok(()));
    }
    let first = cached.statistics();
    assert!(first.ahead > 5 * first.misses, "{first:?}");
    for step in 0..2000u64 {
        cached.read_at(step * 1000, &mut buffer).unwrap();
        assert_eq!(pattern::check(SEED, step * 1000, &buffer), Ok(()));
    }
    let second = cached.statistics();
    assert!(second.misses - first.misses <= 2, "{second:?}");
    assert_eq!(cached.read_at(BYTES - 10, &mut buffer).unwrap(), 10);
    assert_eq!(cached.read_at(BYTES, &mut buffer).unwrap(), 0);
    // What is written through it is seen.
    let scratch = CachedFile::new(remote.open("scratch").unwrap(), options);
    scratch.read_at(0, &mut buffer).unwrap();
    scratch.write_at(100, &[7; 50]).unwrap();
    scratch.read_at(90, &mut buffer[..70]).unwrap();
    assert_eq!((&buffer[..10], &buffer[10..60], &buffer[60..70]), (&[0; 10][..], &[7; 50][..], &[0; 10][..]));
}
