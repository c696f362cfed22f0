//! The layer against a device, where there is one (`tests/softroce` makes one).

use super::abi::*;
use super::device::Ended;
use super::*;
use crate::Mapping;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The device; `None`, and a line that says why, where there is none. In the guest there must be one.
fn device() -> Option<Arc<Device>> {
    match Device::open(None) {
        Ok(device) => Some(device),
        Err(missing) if std::env::var_os("SOFTROCE_ROLE").is_none() => {
            eprintln!("skipped: {missing}");
            None
        }
        Err(missing) => panic!("the guest has no device: {missing}"),
    }
}

struct End {
    domain: Arc<Domain>,
    channel: Arc<Channel>,
    sends: Arc<Queue>,
    receives: Arc<Queue>,
    pair: Pair,
}

const SIZES: Sizes = Sizes { sends: 64, receives: 64 };

fn end(device: &Arc<Device>, reach: Reach) -> End {
    let domain = Domain::new(device).unwrap();
    let channel = Channel::new(device).unwrap();
    let sends = Queue::new(&channel, SIZES.sends).unwrap();
    let receives = Queue::new(&channel, SIZES.receives).unwrap();
    let pair = Pair::new(&domain, &sends, &receives, SIZES, 0x12_3456, reach).unwrap();
    End { domain, channel, sends, receives, pair }
}

fn ends(device: &Arc<Device>) -> (End, End) {
    let (a, b) = (end(device, Reach::WritesAndReads), end(device, Reach::WritesAndReads));
    let there = |end: &End| Endpoint::decode(&end.pair.endpoint().encode()).unwrap();
    a.pair.connect(&there(&b)).unwrap();
    b.pair.connect(&there(&a)).unwrap();
    (a, b)
}

fn next(queue: &Queue) -> Ended {
    let end = Instant::now() + Duration::from_secs(60);
    let mut ended = [Ended::default()];
    while queue.poll(&mut ended).unwrap() == 0 {
        assert!(Instant::now() < end, "no completion");
        std::thread::yield_now();
    }
    ended[0]
}

fn memory(end: &End, rights: Rights) -> Registered {
    Registered::new(&end.domain, &Arc::new(Mapping::create(8192).unwrap()), rights).unwrap()
}

fn at(memory: &Registered, offset: u64) -> Remote {
    Remote { address: memory.memory().address() + offset, key: memory.remote_key() }
}

#[test]
fn reads_writes_and_messages_arrive() {
    let Some(device) = device() else { return };
    let (a, b) = ends(&device);
    let (here, there) = (memory(&a, Rights::Local), memory(&b, Rights::RemoteReadWrite));
    here.memory().store_bytes(0, b"Kintsugi").unwrap();
    let piece = |offset, bytes| Piece { memory: &here, offset, bytes };
    a.pair.post(1, Work::Write(piece(0, 8), at(&there, 4096))).unwrap();
    let ended = next(&a.sends);
    assert_eq!((ended.wr_id, ended.status), (1, IBV_WC_SUCCESS));
    assert_eq!(there.memory().words()[512].load(Ordering::Acquire), u64::from_le_bytes(*b"Kintsugi"));
    a.pair.post(2, Work::Read(piece(1024, 4096), at(&there, 4096))).unwrap();
    assert_eq!(next(&a.sends).status, IBV_WC_SUCCESS);
    assert_eq!(here.memory().words()[128].load(Ordering::Acquire), u64::from_le_bytes(*b"Kintsugi"));

    // A message, and a write that tells; the receiver sleeps for the first.
    let inbox = memory(&b, Rights::Local);
    b.pair.post_receive(7, Some(Piece { memory: &inbox, offset: 64, bytes: 64 })).unwrap();
    b.pair.post_receive(8, None).unwrap();
    b.receives.arm().unwrap();
    assert_eq!(b.receives.poll(&mut [Ended::default()]).unwrap(), 0);
    a.pair.post(3, Work::Send(piece(0, 5))).unwrap();
    assert!(crate::net::readable(b.channel.fd(), Duration::from_secs(60)).unwrap(), "the channel wakes");
    assert!(b.channel.event().is_some_and(|event| b.receives.has(event) && !b.sends.has(event)));
    assert!(b.channel.event().is_none());
    let ended = next(&b.receives);
    assert_eq!((ended.wr_id, ended.status, ended.byte_len), (7, IBV_WC_SUCCESS, 5));
    a.pair.post(4, Work::WriteAndTell(piece(0, 8), at(&there, 8))).unwrap();
    assert_eq!(
        (next(&b.receives).wr_id, there.memory().words()[1].load(Ordering::Acquire)),
        (8, u64::from_le_bytes(*b"Kintsugi"))
    );
}

#[test]
fn reads_that_are_posted_together_complete_together_until_one_fails() {
    let Some(device) = device() else { return };
    let (a, b) = ends(&device);
    let (here, there) = (memory(&a, Rights::Local), memory(&b, Rights::RemoteRead));
    there.memory().store_bytes(0, b"The vessel").unwrap();
    let read =
        |id, from: Remote| Read::new(id, Piece { memory: &here, offset: 64 * id, bytes: 16 }, from).unwrap();
    a.pair.post_reads(&[]).unwrap();
    let good = |id| read(id, at(&there, 0));
    a.pair.post_reads(&[good(1), good(2), good(3)]).unwrap();
    let ended = next(&a.sends);
    assert_eq!((ended.wr_id, ended.status), (3, IBV_WC_SUCCESS));
    assert_eq!(a.sends.poll(&mut [Ended::default()]).unwrap(), 0, "the others say nothing");
    for id in 1..=3 {
        assert_eq!(here.memory().words()[8 * id].load(Ordering::Acquire), u64::from_le_bytes(*b"The vess"));
    }
    a.pair.post_reads(&[good(4), read(5, at(&there, 8192)), good(6)]).unwrap();
    let ended = [next(&a.sends), next(&a.sends)].map(|e| (e.wr_id, e.status));
    assert_eq!(ended, [(5, IBV_WC_REM_ACCESS_ERR), (6, IBV_WC_WR_FLUSH_ERR)]);
}

/// How an access with this key and these rights ends.
fn refused(
    work: impl Fn(&Registered, &Registered, &Registered) -> (bool, Remote),
    rights: Rights,
) -> Option<u32> {
    let device = device()?;
    let (a, b) = ends(&device);
    let other = end(&device, Reach::WritesAndReads);
    let (here, there, elsewhere) =
        (memory(&a, Rights::Local), memory(&b, rights), memory(&other, Rights::RemoteReadWrite));
    let (write, remote) = work(&here, &there, &elsewhere);
    let piece = Piece { memory: &here, offset: 0, bytes: 64 };
    a.pair.post(1, if write { Work::Write(piece, remote) } else { Work::Read(piece, remote) }).unwrap();
    let status = next(&a.sends).status;
    assert_eq!(there.memory().words()[0].load(Ordering::Acquire), 0);
    // The pair is dead now, and says so of what comes after.
    if status != IBV_WC_SUCCESS && a.pair.post(2, Work::Read(piece, at(&there, 0))).is_ok() {
        assert_eq!(next(&a.sends).status, IBV_WC_WR_FLUSH_ERR);
    }
    Some(status)
}

#[test]
fn a_key_gives_only_the_rights_it_was_made_for() {
    if device().is_none() {
        return;
    }
    let denied = Some(IBV_WC_REM_ACCESS_ERR);
    assert_eq!(refused(|_, there, _| (false, at(there, 0)), Rights::RemoteRead), Some(IBV_WC_SUCCESS));
    assert_eq!(refused(|_, there, _| (true, at(there, 0)), Rights::RemoteRead), denied, "read-only memory");
    assert_eq!(refused(|_, there, _| (false, at(there, 0)), Rights::RemoteWrite), denied, "a ring");
    assert_eq!(
        refused(|_, there, _| (false, at(there, 8192 - 32)), Rights::RemoteRead),
        denied,
        "beyond the end"
    );
    assert_eq!(
        refused(|_, _, elsewhere| (false, at(elsewhere, 0)), Rights::RemoteRead),
        denied,
        "another connection's key"
    );
    let made_up = |_: &Registered, there: &Registered, _: &Registered| {
        (false, Remote { key: there.remote_key() ^ 0x5500, ..at(there, 0) })
    };
    assert_eq!(refused(made_up, Rights::RemoteRead), denied, "a made-up key");
}

#[test]
fn memory_that_another_part_of_the_process_writes_can_be_read_by_a_peer() {
    let Some(device) = device() else { return };
    let (a, b) = ends(&device);
    let owner = Arc::new(Mapping::create(8192).unwrap());
    owner.seal_future_writes().unwrap();
    let view = Arc::new(Mapping::kept(owner.clone(), None).unwrap());
    let there = Registered::new(&b.domain, &view, Rights::RemoteRead).unwrap();
    assert!(Registered::new(&b.domain, &view, Rights::RemoteWrite).is_err());
    let here = memory(&a, Rights::Local);
    // Stored after it was registered: what the owner writes is what the adapter reads.
    owner.store_bytes(4096, b"The gold").unwrap();
    a.pair.post(1, Work::Read(Piece { memory: &here, offset: 0, bytes: 8 }, at(&there, 4096))).unwrap();
    assert_eq!(next(&a.sends).status, IBV_WC_SUCCESS);
    assert_eq!(here.memory().words()[0].load(Ordering::Acquire), u64::from_le_bytes(*b"The gold"));
}

#[test]
fn a_region_that_memory_cannot_hold_is_refused_and_says_so() {
    let Some(device) = device() else { return };
    let domain = Domain::new(&device).unwrap();
    let sparse = Arc::new(Mapping::create(1 << 40).unwrap());
    let Err(error) = Registered::new(&domain, &sparse, Rights::RemoteRead) else { panic!("a TiB?") };
    assert!(matches!(error, Error::Missing(Missing::Memory { .. })), "{error}");
}

#[test]
fn work_for_a_pair_that_is_gone_fails_in_time() {
    let Some(device) = device() else { return };
    let (a, b) = ends(&device);
    let (here, there) = (memory(&a, Rights::Local), memory(&b, Rights::RemoteRead));
    let remote = at(&there, 0);
    drop((there, b));
    a.pair.post(1, Work::Read(Piece { memory: &here, offset: 0, bytes: 64 }, remote)).unwrap();
    assert_eq!(next(&a.sends).status, IBV_WC_RETRY_EXC_ERR);
}

#[test]
fn what_is_missing_is_named() {
    if let Err(error) = Device::open(None) {
        let text = error.to_string();
        eprintln!("{text}");
        let names =
            ["libibverbs cannot be loaded", "has no RDMA device", "no driver", "cannot be opened", "no port"];
        assert!(names.iter().any(|name| text.contains(name)), "{text}");
    }
}

#[test]
fn an_endpoint_that_cannot_be_is_not_taken() {
    let good = Endpoint { number: 17, sequence: 5, lid: 0, mtu: 5, reads_in: 16, reads_out: 1, gid: [3; 16] };
    let bytes = good.encode();
    assert_eq!(Endpoint::decode(&bytes), Some(good));
    for (at, byte) in [(3, 1), (7, 1), (10, 0), (10, 6), (11, 0), (12, 0), (13, 1), (15, 9)] {
        let mut bytes = bytes;
        bytes[at] = byte;
        assert_eq!(Endpoint::decode(&bytes), None, "byte {at}");
    }
}
