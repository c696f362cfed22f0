//! A target and channels in one process, over every fabric and engine.

use kintsugidb_fabric::{Address, ConnectOptions};
use kintsugidb_storage::engine::Kind;
use kintsugidb_storage::protocol::{Listed, Status};
use kintsugidb_storage::{Channel, IoError, Target, TargetOptions, pattern};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
const SEED: u64 = 7;
const BYTES: u64 = (1 << 20) + 100;

struct World {
    dir: PathBuf,
    target: Target,
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn world(engine: Kind, faults: &[&str], users: &[&str]) -> World {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("target-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    pattern::make_file(&dir.join("data"), SEED, BYTES).unwrap();
    std::fs::write(dir.join("scratch"), vec![9; 1 << 20]).unwrap();
    let volumes = ["data", "scratch"].map(|name| {
        let options = if name == "scratch" { ",rw" } else { "" };
        format!("{name}={}{options}", dir.join(name).display()).parse().unwrap()
    });
    // A Unix socket's path is short.
    let socket = std::env::temp_dir().join(format!("kio-{}-{number}.sock", std::process::id()));
    let mut listen = vec![Address::Shm(socket), "tcp:127.0.0.1:0".parse().unwrap()];
    if let Ok(host) = std::env::var("SOFTROCE_ADDRESS") {
        listen.extend([Address::Verbs(format!("{host}:0")), Address::Rdma(format!("{host}:0"))]);
    }
    let target = Target::start(TargetOptions {
        volumes: volumes.to_vec(),
        users: users.iter().map(|u| u.parse().unwrap()).collect(),
        listen,
        engine,
        faults: faults.iter().map(|f| f.parse().unwrap()).collect(),
        ..TargetOptions::default()
    })
    .unwrap();
    World { dir, target }
}

fn each_fabric(world: &World, mut with: impl FnMut(Channel)) {
    for address in world.target.addresses() {
        with(Channel::connect(address, &ConnectOptions::default()).unwrap());
    }
}

fn read(channel: &mut Channel, volume: u32, ranges: &[(u64, u32)]) -> Result<Vec<u8>, IoError> {
    channel.read(volume, ranges, 1)?.expect("an idle connection has room");
    wait(channel)
}

fn wait(channel: &mut Channel) -> Result<Vec<u8>, IoError> {
    let mut finished = Vec::new();
    while channel.poll(&mut finished)? == 0 {
        assert!(channel.wait(LONG)?, "nothing came");
    }
    finished.pop().unwrap().result.map(|b| b.to_vec())
}

fn status(result: Result<Vec<u8>, IoError>) -> Status {
    match result {
        Err(IoError::Target { status, .. }) => status,
        other => panic!("expected a refusal, not {:?}", other.map(|b| b.len())),
    }
}

const ENGINES: [Kind; 3] = [Kind::Dynamic, Kind::Static(3), Kind::Uring];

#[test]
fn blocks_of_any_size_and_place_arrive_whole() {
    for engine in ENGINES {
        let world = world(engine, &[], &[]);
        each_fabric(&world, |mut channel| {
            let volume = channel.open("data", LONG).unwrap();
            assert_eq!((volume.bytes, volume.writable), (BYTES, false));
            for (offset, bytes) in [(0, 512), (512, 4096), (4096, 65536), (3, 7), (1000, 5001), (0, 1 << 20)]
            {
                let block = read(&mut channel, volume.handle, &[(offset, bytes)]).unwrap();
                assert_eq!(block.len(), bytes as usize);
                assert_eq!(pattern::check(SEED, offset, &block), Ok(()), "{engine} {offset} {bytes}");
            }
        });
    }
}

#[test]
fn the_end_of_a_volume_is_a_short_read_and_beyond_it_an_error() {
    for engine in ENGINES {
        let world = world(engine, &[], &[]);
        each_fabric(&world, |mut channel| {
            let volume = channel.open("data", LONG).unwrap().handle;
            let block = read(&mut channel, volume, &[(BYTES - 612, 4096)]).unwrap();
            assert_eq!(block.len(), 612);
            assert_eq!(pattern::check(SEED, BYTES - 612, &block), Ok(()));
            assert_eq!(read(&mut channel, volume, &[(BYTES, 512)]).unwrap(), b"");
            for offset in [BYTES + 1, u64::MAX - 3, 1 << 62] {
                assert_eq!(status(read(&mut channel, volume, &[(offset, 512)])), Status::OutOfRange);
            }
            // Cut under load: what is gone is missing, not zero.
            let file = std::fs::OpenOptions::new().write(true).open(world.dir.join("data")).unwrap();
            file.set_len(5000).unwrap();
            let block = read(&mut channel, volume, &[(4096, 4096)]).unwrap();
            assert_eq!((block.len(), pattern::check(SEED, 4096, &block)), (904, Ok(())));
            assert_eq!(read(&mut channel, volume, &[(8192, 4096)]).unwrap(), b"");
            pattern::make_file(&world.dir.join("data"), SEED, BYTES).unwrap();
        });
    }
}

#[test]
fn many_ranges_come_in_one_request_and_many_requests_at_once() {
    for engine in ENGINES {
        let world = world(engine, &[], &[]);
        each_fabric(&world, |mut channel| {
            let volume = channel.open("data", LONG).unwrap().handle;
            // Of whole words, and of any number of bytes.
            for step in [8, 3] {
                let ranges: Vec<(u64, u32)> =
                    (0..100).map(|i| (i * 1237 * 8, 512 + step * i as u32)).collect();
                let block = read(&mut channel, volume, &ranges).unwrap();
                let mut at = 0;
                for (offset, bytes) in &ranges {
                    assert_eq!(pattern::check(SEED, *offset, &block[at..at + *bytes as usize]), Ok(()));
                    at += *bytes as usize;
                }
                assert_eq!(at, block.len());
            }
            // As deep as it goes, until there is no room.
            let (mut begun, mut finished, mut seen) = (0u64, Vec::new(), 0);
            while seen < 2000 {
                while begun < 2000
                    && channel.read(volume, &[(begun % 256 * 4096, 4096)], begun).unwrap().is_ok()
                {
                    begun += 1;
                }
                assert!(channel.outstanding() <= 256);
                if channel.poll(&mut finished).unwrap() == 0 {
                    assert!(channel.wait(LONG).unwrap());
                }
                for f in finished.drain(..) {
                    let block = f.result.unwrap().to_vec();
                    assert_eq!(
                        (block.len(), pattern::check(SEED, f.token % 256 * 4096, &block)),
                        (4096, Ok(()))
                    );
                    seen += 1;
                }
            }
            assert_eq!(channel.outstanding(), 0);
        });
    }
}

#[test]
fn writes_are_read_back_only_where_they_are_allowed() {
    for engine in ENGINES {
        let world = world(engine, &[], &[]);
        each_fabric(&world, |mut channel| {
            let (data, scratch) =
                (channel.open("data", LONG).unwrap(), channel.open("scratch", LONG).unwrap());
            assert!(scratch.writable);
            for (offset, bytes) in [(0u64, 4096usize), (100, 33), (8192, 70_000)] {
                let mut content = vec![0; bytes];
                pattern::fill(1, offset, &mut content);
                channel.write(scratch.handle, offset, &content, 1).unwrap().unwrap();
                wait(&mut channel).unwrap();
                assert_eq!(read(&mut channel, scratch.handle, &[(offset, bytes as u32)]).unwrap(), content);
            }
            channel.flush(scratch.handle, 1).unwrap().unwrap();
            wait(&mut channel).unwrap();
            channel.trim(scratch.handle, 4096, 4096, 1).unwrap().unwrap();
            wait(&mut channel).unwrap();
            assert_eq!(read(&mut channel, scratch.handle, &[(4096, 4096)]).unwrap(), [0; 4096]);
            channel.write(scratch.handle, (1 << 20) - 8, &[1; 16], 1).unwrap().unwrap();
            assert_eq!(status(wait(&mut channel)), Status::OutOfRange);
            channel.write(data.handle, 0, &[1; 512], 1).unwrap().unwrap();
            assert_eq!(status(wait(&mut channel)), Status::ReadOnly);
            channel.trim(data.handle, 0, 512, 1).unwrap().unwrap();
            assert_eq!(status(wait(&mut channel)), Status::ReadOnly);
            assert_eq!(status(read(&mut channel, 77, &[(0, 512)])), Status::NoSuchVolume);
        });
    }
}

#[test]
fn disk_errors_are_errors() {
    for engine in ENGINES {
        let world =
            world(engine, &["read:8192-12288:eio", "read:65536-65537:short=10", "write:0-512:enospc"], &[]);
        each_fabric(&world, |mut channel| {
            let volume = channel.open("data", LONG).unwrap().handle;
            let failed = read(&mut channel, volume, &[(0, 512), (4096, 16384)]);
            assert_eq!(failed, Err(IoError::Target { status: Status::Io, errno: 5, segment: 1 }));
            assert_eq!(read(&mut channel, volume, &[(65536, 512)]).unwrap().len(), 10);
            assert_eq!(read(&mut channel, volume, &[(0, 4096)]).unwrap().len(), 4096);
            let scratch = channel.open("scratch", LONG).unwrap().handle;
            channel.write(scratch, 0, &[1; 512], 1).unwrap().unwrap();
            assert_eq!(
                wait(&mut channel),
                Err(IoError::Target { status: Status::Io, errno: 28, segment: 0 })
            );
        });
    }
}

#[test]
fn users_see_their_volumes_and_no_others() {
    let world = world(Kind::Uring, &[], &["ann:secret:data", "bob:b:scratch=rw,data"]);
    for address in world.target.addresses() {
        let connect = |user: &str, password: &str| {
            let options =
                ConnectOptions { user: user.into(), password: password.into(), ..ConnectOptions::default() };
            Channel::connect(address, &options)
        };
        assert!(connect("ann", "wrong").is_err() && connect("default", "").is_err());
        let mut ann = connect("ann", "secret").unwrap();
        assert!(!ann.open("data", LONG).unwrap().writable);
        let hidden = ann.open("scratch", LONG).unwrap_err();
        assert_eq!(hidden, ann.open("none", LONG).unwrap_err());
        let mut bob = connect("bob", "b").unwrap();
        assert!(bob.open("scratch", LONG).unwrap().writable);
        let listed = |channel: &mut Channel| {
            channel.list(1).unwrap().unwrap();
            Listed::parse(&wait(channel).unwrap()).unwrap()
        };
        let data = Listed { name: "data".into(), bytes: BYTES, writable: false };
        let scratch = Listed { name: "scratch".into(), bytes: 1 << 20, writable: true };
        assert_eq!(listed(&mut ann), std::slice::from_ref(&data));
        assert_eq!(listed(&mut bob), [data, scratch]);
    }
}
