use super::*;
use proptest::prelude::*;

fn request() -> impl Strategy<Value = (Kind, bool, u32, u64, Vec<Segment>, Vec<u8>)> {
    let kinds = [Kind::Open, Kind::Read, Kind::Write, Kind::Flush, Kind::Trim, Kind::Cancel, Kind::List];
    let segment = (any::<u64>(), 0u32..5000, any::<u64>());
    (0usize..7, any::<bool>(), any::<u32>(), any::<u64>(), proptest::collection::vec(segment, 1..20))
        .prop_map(move |(kind, inline, volume, id, list)| {
            let kind = kinds[kind];
            let mut segments: Vec<Segment> = list
                .into_iter()
                .map(|(offset, bytes, place)| Segment {
                    offset,
                    bytes,
                    place: if inline { 0 } else { place },
                })
                .collect();
            let rest = match kind {
                Kind::Open => b"name".to_vec(),
                Kind::Write if inline => vec![7; segments.iter().map(|s| s.bytes as usize).sum()],
                _ => Vec::new(),
            };
            match kind {
                Kind::Open | Kind::Flush | Kind::List => segments.clear(),
                Kind::Cancel | Kind::Trim => segments.truncate(1),
                Kind::Read | Kind::Write => {}
            }
            (kind, inline, volume, id, segments, rest)
        })
}

proptest! {
    #[test]
    fn lists_survive_and_any_beginning_of_one_is_no_list_or_a_shorter_one(
        list in proptest::collection::vec(("[a-zé/]{1,20}", any::<u64>(), any::<bool>()), 0..5), cut in 0usize..200,
    ) {
        let list: Vec<Listed> =
            list.into_iter().map(|(name, bytes, writable)| Listed { name, bytes, writable }).collect();
        let mut bytes = Vec::new();
        list.iter().for_each(|one| one.encode(&mut bytes));
        prop_assert_eq!(Listed::parse(&bytes), Some(list.clone()));
        let part = Listed::parse(&bytes[..cut.min(bytes.len())]);
        prop_assert!(part.is_none_or(|part| list.starts_with(&part)));
    }

    #[test]
    fn requests_survive_the_way_to_bytes_and_back((kind, inline, volume, id, segments, rest) in request()) {
        let request = Request { kind, inline, volume, id, segments, rest: &rest };
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        prop_assert_eq!(Request::parse(&bytes), Ok(request));
        // One byte less or more is another message.
        if !rest.is_empty() || kind != Kind::Open {
            bytes.push(0);
            prop_assert!(Request::parse(&bytes).is_err() || kind == Kind::Open);
        }
    }

    #[test]
    fn garbage_is_an_error_and_nothing_else(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0u8..8) {
        let _ = (Reply::parse(&bytes), VolumeInfo::parse(&bytes), Info::parse(&bytes), Request::parse(&bytes));
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        if let Ok(request) = Request::parse(&bytes) {
            let mut again = Vec::new();
            request.encode(&mut again);
            prop_assert_eq!(again, bytes);
        }
    }
}

#[test]
fn replies_survive_too() {
    for status in Status::ALL {
        let reply = Reply { kind: Kind::Read, status, segment: 3, errno: 5, id: u64::MAX, bytes: 9 };
        let mut bytes = reply.header().to_vec();
        bytes.push(1);
        assert_eq!(Reply::parse(&bytes), Ok((reply, &[1u8][..])));
    }
    let volume = VolumeInfo { handle: 3, bytes: 1 << 40, writable: true };
    assert_eq!(VolumeInfo::parse(&volume.encode()), Some(volume));
    let info = Info { area_bytes: 1, request_bytes: 2, outstanding: 3, segments: 4 };
    assert_eq!(Info::parse(&info.encode()), Some(info));
}

#[test]
fn a_huge_request_is_refused_by_its_header() {
    let mut bytes = Vec::new();
    let half = Segment { offset: 0, bytes: u32::MAX, place: 0 };
    encode(&mut bytes, Kind::Read, true, 0, 7, &[half, half]);
    assert_eq!(Request::parse(&bytes), Err(Malformed::Request(7, Status::TooMuch)));
}
