//! What a hostile client can say, and what it costs the target: a status, and no job.

use kintsugidb_storage::engine::Job;
use kintsugidb_storage::protocol::{Kind, Reply, Request, Segment, Status};
use kintsugidb_storage::{Area, Heap, Outgoing, Permission, Session, Volume, limits};
use proptest::prelude::*;
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::Arc;

const AREA: u64 = 1 << 16;
const BYTES: u64 = 1 << 20;

type Permissions = Arc<HashMap<String, Permission>>;

struct World {
    session: Session,
    jobs: Vec<Job>,
    replies: Vec<Outgoing>,
}

impl World {
    /// A session with a data area; volume 0 is writable for its user, volume 1 is not.
    fn new() -> World {
        World::with(Session::new)
    }

    fn with(make: impl Fn(Permissions, Option<Arc<dyn Area>>) -> Session) -> World {
        let dir = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let permission = |name: &str, writable: bool| {
            let path = dir.join(format!("session-{name}"));
            std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(&path)
                .unwrap()
                .set_len(BYTES)
                .unwrap();
            let options = format!("{name}={},rw", path.display()).parse().unwrap();
            let volume = Arc::new(Volume::open(&options).unwrap());
            (name.to_owned(), Permission { volume, writable })
        };
        let permissions: HashMap<_, _> = [permission("a", true), permission("b", false)].into();
        let area: Arc<dyn Area> = Arc::new(Heap::new(AREA as usize).unwrap());
        let mut world =
            World { session: make(Arc::new(permissions), Some(area)), jobs: Vec::new(), replies: Vec::new() };
        for (id, name) in [(1, "a"), (2, "b")] {
            let open = Request {
                kind: Kind::Open,
                inline: false,
                volume: 0,
                id,
                segments: Vec::new(),
                rest: name.as_bytes(),
            };
            assert_eq!(world.say(&open), Some(Status::Ok));
        }
        world
    }

    /// The status of the reply, if there is one at once.
    fn say(&mut self, request: &Request<'_>) -> Option<Status> {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        self.session.message(&bytes, &mut self.jobs, &mut self.replies).unwrap();
        match self.replies.pop()? {
            Outgoing::Plain(bytes) => Some(Reply::parse(&bytes).unwrap().0.status),
            Outgoing::Blocks(..) | Outgoing::Placed { .. } => panic!("blocks without a job"),
        }
    }
}

fn transfer(kind: Kind, volume: u32, id: u64, segments: &[(u64, u32, u64)]) -> Request<'static> {
    let segments = segments.iter().map(|(offset, bytes, place)| Segment {
        offset: *offset,
        bytes: *bytes,
        place: *place,
    });
    Request { kind, inline: false, volume, id, segments: segments.collect(), rest: &[] }
}

#[test]
fn what_is_not_allowed_gets_a_status_and_no_job() {
    let mut world = World::new();
    let read = |segments: &[(u64, u32, u64)]| transfer(Kind::Read, 0, 9, segments);
    let refused = [
        (read(&[(BYTES + 1, 512, 0)]), Status::OutOfRange),
        (read(&[(u64::MAX, 512, 0)]), Status::OutOfRange),
        (read(&[(0, 512, AREA - 504)]), Status::BadPlace),
        (read(&[(0, 512, u64::MAX - 7)]), Status::BadPlace),
        (read(&[(0, 512, 4)]), Status::BadPlace),
        (read(&[(0, 512, 0), (512, 512, 504)]), Status::BadPlace),
        (read(&[(0, u32::MAX, 0)]), Status::TooMuch),
        (transfer(Kind::Read, 7, 9, &[(0, 512, 0)]), Status::NoSuchVolume),
        (transfer(Kind::Write, 1, 9, &[(0, 512, 0)]), Status::ReadOnly),
        (transfer(Kind::Trim, 1, 9, &[(0, 512, 0)]), Status::ReadOnly),
        (transfer(Kind::Write, 0, 9, &[(BYTES - 8, 16, 0)]), Status::OutOfRange),
        (transfer(Kind::Trim, 0, 9, &[(BYTES - 8, 16, 0)]), Status::OutOfRange),
        (
            Request {
                rest: b"c",
                ..Request { kind: Kind::Open, inline: false, volume: 0, id: 9, segments: vec![], rest: b"" }
            },
            Status::NoSuchVolume,
        ),
    ];
    for (request, status) in refused {
        assert_eq!(world.say(&request), Some(status), "{request:?}");
        assert!(world.jobs.is_empty() && world.session.outstanding() == 0);
    }
}

#[test]
fn too_many_requests_and_a_name_in_use_are_refused() {
    let mut world = World::new();
    for id in 0..limits::OUTSTANDING as u64 {
        assert_eq!(world.say(&transfer(Kind::Read, 0, 10 + id, &[(0, 8, 0)])), None);
    }
    assert_eq!(world.jobs.len(), limits::OUTSTANDING);
    assert_eq!(world.say(&transfer(Kind::Read, 0, 9, &[(0, 8, 0)])), Some(Status::TooMuch));
    let jobs = std::mem::take(&mut world.jobs);
    for job in &jobs[1..] {
        world.session.done(job.token, Ok(job.bytes), &mut world.replies);
    }
    assert_eq!(world.replies.len(), limits::OUTSTANDING - 1);
    world.replies.clear();
    assert_eq!(world.say(&transfer(Kind::Read, 0, 10, &[(0, 8, 0)])), Some(Status::Malformed));
    assert_eq!(world.session.outstanding(), 1);
}

#[test]
fn a_cancelled_request_has_one_reply_that_says_so() {
    let mut world = World::new();
    assert_eq!(world.say(&transfer(Kind::Read, 0, 5, &[(0, 512, 0)])), None);
    let cancel = Request {
        kind: Kind::Cancel,
        inline: false,
        volume: 0,
        id: 0,
        segments: vec![Segment { offset: 5, bytes: 0, place: 0 }],
        rest: &[],
    };
    assert_eq!(world.say(&cancel), None);
    let token = world.jobs[0].token;
    world.session.done(token, Ok(512), &mut world.replies);
    // A second end of the same job is nobody's.
    world.session.done(token, Ok(512), &mut world.replies);
    let Some(Outgoing::Plain(reply)) = world.replies.pop() else { panic!("no reply") };
    assert_eq!((Reply::parse(&reply).unwrap().0.status, world.replies.len()), (Status::Cancelled, 0));
}

#[test]
fn what_has_been_read_into_a_mirror_and_nothing_else_is_to_be_written_to_the_client() {
    let mut world = World::with(Session::mirrored);
    // Two that lie together, one apart; the answer of each job decides what is good.
    let request = transfer(Kind::Read, 0, 5, &[(0, 512, 4096), (9000, 512, 4608), (4096, 100, 0)]);
    let (whole, apart) = ((4096, 1024), (0, 100));
    for (ends, status, parts) in [
        ([Ok(512), Ok(512), Ok(100)], Status::Ok, vec![whole, apart]),
        ([Ok(512), Ok(512), Ok(60)], Status::Short, vec![whole, (0, 60)]),
        ([Ok(512), Ok(100), Ok(100)], Status::Short, vec![(4096, 612)]),
        ([Ok(0), Ok(512), Ok(100)], Status::Short, vec![]),
        ([Ok(512), Err(Errno::IO), Ok(100)], Status::Io, vec![]),
    ] {
        assert_eq!(world.say(&request), None);
        for (job, end) in std::mem::take(&mut world.jobs).iter().zip(ends) {
            world.session.done(job.token, end, &mut world.replies);
        }
        let (reply, placed) = match world.replies.pop() {
            Some(Outgoing::Placed { reply, parts }) => (reply, parts),
            Some(Outgoing::Plain(reply)) => (reply, Vec::new()),
            _ => panic!("no reply of this kind"),
        };
        assert_eq!((Reply::parse(&reply).unwrap().0.status, placed), (status, parts));
    }
    // What is to be written is not there.
    assert_eq!(world.say(&transfer(Kind::Write, 0, 6, &[(0, 512, 0)])), Some(Status::BadPlace));
    let bytes = [7; 512];
    let mut inline = Request { inline: true, rest: &bytes, ..transfer(Kind::Write, 0, 6, &[(0, 512, 0)]) };
    assert_eq!(world.say(&inline), None);
    world.session.done(world.jobs[0].token, Ok(512), &mut world.replies);
    assert!(matches!(world.replies.pop(), Some(Outgoing::Plain(_))));
    // A read may do without the mirror: blocks of other than whole words cannot lie one behind the other.
    world.jobs.clear();
    (inline.kind, inline.rest) = (Kind::Read, &[]);
    assert_eq!(world.say(&inline), None);
    world.session.done(world.jobs.pop().unwrap().token, Ok(512), &mut world.replies);
    assert!(world.replies.is_empty() || !matches!(world.replies[0], Outgoing::Placed { .. }));
}

proptest! {
    /// Whatever is said, jobs stay within the volume and the area, and every job's end leads to at most one reply.
    #[test]
    fn jobs_stay_within_volume_and_area(list in proptest::collection::vec((0u8..7, any::<bool>(), 0u32..3, 0u64..4,
        proptest::collection::vec((0u64..BYTES + 5000, 0u32..9000, 0u64..AREA + 100), 0..4)), 1..40)) {
        let mut world = World::new();
        for (kind, inline, volume, id, segments) in list {
            let kinds = [Kind::Open, Kind::Read, Kind::Write, Kind::Flush, Kind::Trim, Kind::Cancel, Kind::Read];
            let mut request = transfer(kinds[kind as usize], volume, id, &segments);
            request.inline = inline;
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            let _ = world.session.message(&bytes, &mut world.jobs, &mut world.replies);
        }
        for job in &world.jobs {
            prop_assert!(job.offset + job.bytes <= BYTES);
            prop_assert!(job.place.as_ref().is_none_or(|p| p.bytes() as u64 == job.bytes));
        }
        let (under_way, before) = (world.session.outstanding(), world.replies.len());
        for job in &world.jobs {
            world.session.done(job.token, Ok(job.bytes), &mut world.replies);
        }
        prop_assert_eq!(world.session.outstanding(), 0);
        prop_assert_eq!(world.replies.len() - before, under_way);
    }
}
