//! Files and devices that change while they are read: what is gone is missing or an error, and never zeros or something else's bytes.

use kintsugidb_fabric::{Address, ConnectOptions};
use kintsugidb_storage::engine::Kind;
use kintsugidb_storage::protocol::Status;
use kintsugidb_storage::{
    Channel, IoError, Remote, RemoteFile, RemoteOptions, Target, TargetOptions, pattern,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
const SEED: u64 = 23;
const BYTES: u64 = 4 << 20;
const ENGINES: [Kind; 3] = [Kind::Uring, Kind::Static(4), Kind::Dynamic];

struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("kiov-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&dir).unwrap();
        pattern::make_file(&dir.join("data"), SEED, BYTES).unwrap();
        Dir(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn target(path: &Path, engine: Kind) -> Target {
    // A Unix socket's path is short.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("kiov-{}-{}.sock", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    Target::start(TargetOptions {
        volumes: vec![format!("data={}", path.display()).parse().unwrap()],
        listen: vec![Address::Shm(std::env::temp_dir().join(name)), "tcp:127.0.0.1:0".parse().unwrap()],
        engine,
        ..TargetOptions::default()
    })
    .unwrap()
}

/// What a reader has met.
#[derive(Debug, Default)]
struct Met {
    whole: u64,
    short: u64,
    errors: u64,
}

/// Reads at random places until told to stop. A byte that comes is right; `fails`: which errors may come instead.
fn read_on(file: &RemoteFile, stop: &AtomicBool, seed: u64, fails: impl Fn(&IoError) -> bool) -> Met {
    let (mut met, mut x) = (Met::default(), seed);
    while !stop.load(Ordering::Relaxed) {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let bytes = [512, 4096, 5000, 65536][(x >> 40) as usize % 4];
        let offset = (x >> 20) % (BYTES - bytes) / 512 * 512;
        match file.read(offset, bytes as u32).wait() {
            Ok(block) => {
                assert_eq!(pattern::check(SEED, offset, &block.to_vec()), Ok(()), "{offset} {bytes}");
                if block.len() as u64 == bytes { met.whole += 1 } else { met.short += 1 }
            }
            Err(why) if fails(&why) => met.errors += 1,
            Err(why) => panic!("{why}"),
        }
    }
    met
}

/// Lets readers over every fabric read while `change` happens, and for a while after it; what they met.
fn while_reading(target: &Target, fails: fn(&IoError) -> bool, change: impl FnOnce()) -> Vec<Met> {
    let files: Vec<RemoteFile> = target
        .addresses()
        .iter()
        .map(|at| {
            let options = RemoteOptions { request: LONG, ..RemoteOptions::new(at.clone()) };
            Remote::connect(options).unwrap().open("data").unwrap()
        })
        .collect();
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = files
            .iter()
            .enumerate()
            .map(|(n, file)| scope.spawn(move || read_on(file, stop, n as u64 + 1, fails)))
            .collect();
        std::thread::sleep(Duration::from_millis(30));
        change();
        std::thread::sleep(Duration::from_millis(100));
        stop.store(true, Ordering::Relaxed);
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    })
}

#[test]
fn a_file_that_is_cut_under_load_gives_what_is_left_of_it() {
    for engine in ENGINES {
        let dir = Dir::new();
        let target = target(&dir.0.join("data"), engine);
        let met = while_reading(
            &target,
            |_| false,
            || {
                let file = std::fs::OpenOptions::new().write(true).open(dir.0.join("data")).unwrap();
                file.set_len(BYTES / 2 + 100).unwrap();
            },
        );
        assert!(met.iter().all(|met| met.whole > 0 && met.short > 0), "{engine}: {met:?}");
    }
}

#[test]
fn a_file_that_is_removed_under_load_is_read_on() {
    for engine in ENGINES {
        let dir = Dir::new();
        let target = target(&dir.0.join("data"), engine);
        let met = while_reading(&target, |_| false, || std::fs::remove_file(dir.0.join("data")).unwrap());
        assert!(met.iter().all(|met| met.whole > 0 && met.short == 0), "{engine}: {met:?}");
    }
}

/// A loop device, taken away with this.
struct Loop(String);

impl Loop {
    /// `None`, with a line that says why: it takes root and a kernel with loop devices.
    fn over(file: &Path) -> Option<Loop> {
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file).output();
        match made {
            Ok(made) if made.status.success() => {
                Some(Loop(String::from_utf8_lossy(&made.stdout).trim().to_owned()))
            }
            Ok(made) => {
                eprintln!("skipped: no loop device ({})", String::from_utf8_lossy(&made.stderr).trim());
                None
            }
            Err(why) => {
                eprintln!("skipped: losetup: {why}");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_block_device_whose_medium_goes_away_gives_errors() {
    for engine in ENGINES {
        let dir = Dir::new();
        let Some(device) = Loop::over(&dir.0.join("data")) else { return };
        let target = target(Path::new(&device.0), engine);
        let disk_failed = |why: &IoError| matches!(why, IoError::Target { status: Status::Io, errno: 5, .. });
        let met = while_reading(&target, disk_failed, || {
            // What the device stands on is gone but for its beginning.
            let file = std::fs::OpenOptions::new().write(true).open(dir.0.join("data")).unwrap();
            file.set_len(BYTES / 4).unwrap();
        });
        assert!(met.iter().all(|met| met.whole > 0 && met.errors > 0), "{engine}: {met:?}");
    }
}

#[test]
fn a_client_that_fetches_no_replies_holds_up_nobody_else() {
    let dir = Dir::new();
    let target = target(&dir.0.join("data"), Kind::Uring);
    for address in target.addresses() {
        let mut lazy = Channel::connect(address, &ConnectOptions::default()).unwrap();
        let volume = lazy.open("data", LONG).unwrap().handle;
        // As much as it may have under way, and nothing is fetched.
        let mut token = 0;
        while lazy.read(volume, &[(token * 65536 % BYTES, 65536)], token).unwrap().is_ok() {
            token += 1;
        }
        let options = RemoteOptions { request: LONG, ..RemoteOptions::new(address.clone()) };
        let file = Remote::connect(options).unwrap().open("data").unwrap();
        let mut all = vec![0; BYTES as usize];
        file.read_exact_at(0, &mut all).unwrap();
        assert_eq!(pattern::check(SEED, 0, &all), Ok(()));
        // What it asked for is still there.
        let (mut finished, mut seen) = (Vec::new(), 0);
        while seen < token {
            if lazy.poll(&mut finished).unwrap() == 0 {
                assert!(lazy.wait(LONG).unwrap());
            }
            for end in finished.drain(..) {
                let block = end.result.unwrap().to_vec();
                assert_eq!(pattern::check(SEED, end.token * 65536 % BYTES, &block), Ok(()));
                seen += 1;
            }
        }
    }
}

/// More than a socket or a ring takes at once: what is left has to go on although nothing else happens.
#[test]
fn large_reads_come_to_their_end_again_and_again() {
    let dir = Dir::new();
    let target = target(&dir.0.join("data"), Kind::Uring);
    for address in target.addresses() {
        let options = RemoteOptions { request: LONG, ..RemoteOptions::new(address.clone()) };
        let file = Remote::connect(options).unwrap().open("data").unwrap();
        let mut all = vec![0; BYTES as usize];
        for round in 0..60 {
            // Asleep before every other of them.
            if round % 2 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
            file.read_exact_at(0, &mut all).unwrap();
        }
        assert_eq!(pattern::check(SEED, 0, &all), Ok(()));
        // Of many ranges that are no whole words, in one message.
        for _ in 0..20 {
            let ranges: Vec<_> = (0..200u64).map(|i| (i * 20_011, 20_001)).collect();
            assert_eq!(file.read_ranges(ranges).wait().unwrap().len(), 200 * 20_001);
        }
    }
}
