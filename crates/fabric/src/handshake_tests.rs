use super::*;

fn region(id: u32) -> RemoteRegion {
    RemoteRegion { id, access: Access::Read, length: 1 << 30, key: 77, base: 4096 }
}

fn hello() -> Hello {
    let (user, password) = (b"default".to_vec(), b"gold".to_vec());
    let (fabric, role, regions) = (Fabric::Shm, Role::Client, vec![region(2)]);
    Hello { fabric, role, user, password, blob: vec![1, 2, 3], regions }
}

fn welcome() -> Welcome {
    let regions = vec![region(0), region(9)];
    Welcome { connection: 5, incarnation: 6, info: b"shards: 2".to_vec(), blob: vec![0; 8], regions }
}

#[test]
fn the_bytes_of_a_hello_stay_as_they_are() {
    let bytes = Hello { regions: Vec::new(), ..hello() }.encode().unwrap();
    let expected = b"\x23\0\0\0\x01KINTSUGF\x02\0\x01\x01\x07\0default\x04\0gold\x03\0\x01\x02\x03\0\0";
    assert_eq!(bytes[..], expected[..]);
}

#[test]
fn frames_survive_and_every_beginning_of_one_is_only_a_beginning() {
    let frame = hello().encode().unwrap();
    for length in 0..frame.len() {
        assert_eq!(First::decode(&frame[..length]).unwrap(), None);
    }
    assert_eq!(First::decode(&frame).unwrap(), Some((First::Hello(hello()), frame.len())));
    let attach = Attach { connection: 7, key: 8 };
    assert_eq!(First::decode(&attach.encode()).unwrap().unwrap().0, First::Attach(attach));
    let mut frame = welcome().encode().unwrap();
    let length = frame.len();
    frame.push(1);
    assert_eq!(
        Welcome::decode(&frame).unwrap(),
        Some((welcome(), length)),
        "what follows is not the frame's"
    );
    assert_eq!(Welcome::decode(&frame[..length - 1]).unwrap(), None);
}

#[test]
fn a_refusal_arrives_as_one_and_its_reason_is_cut_at_a_character() {
    let refusal = Refusal { code: RefusalCode::Authentication, reason: "é".repeat(1000) };
    match Welcome::decode(&refusal.encode()) {
        Err(Error::Refused(seen)) => {
            assert_eq!((seen.code, seen.reason), (RefusalCode::Authentication, "é".repeat(128)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_version_is_told_so_and_another_protocol_too() {
    let mut frame = hello().encode().unwrap();
    frame[13] = 9;
    assert!(matches!(First::decode(&frame), Err(Error::Refused(r)) if r.code == RefusalCode::Version));
    assert!(matches!(First::decode(b"GET / HTTP/1.1\r\n\r\n"), Err(Error::Protocol(_))));
    frame[5] = b'X';
    assert!(matches!(First::decode(&frame), Err(Error::Protocol(_))));
}

#[test]
fn limits_are_kept_on_both_sides() {
    let long = Hello { user: vec![0; limits::USER_BYTES + 1], ..hello() };
    assert!(matches!(long.encode(), Err(Error::TooLarge { .. })));
    let largest = Hello {
        user: vec![0; limits::USER_BYTES],
        password: vec![0; limits::PASSWORD_BYTES],
        blob: vec![0; limits::BLOB_BYTES],
        regions: (0..limits::PEER_REGIONS as u32).map(region).collect(),
        ..hello()
    };
    let frame = largest.encode().unwrap();
    assert_eq!(First::decode(&frame).unwrap().unwrap().0, First::Hello(largest));
    assert!(
        First::decode(&(limits::HELLO_BYTES as u32).to_le_bytes()).is_err(),
        "refused before it is there"
    );
    assert!(First::decode(&[0; 4]).is_err());
    let regions = (0..=limits::REGIONS as u32).map(region).collect();
    assert!(Welcome { regions, ..welcome() }.encode().is_err());
    let regions = (0..=limits::PEER_REGIONS as u32).map(region).collect();
    assert!(Hello { regions, ..hello() }.encode().is_err());
    let twice = Hello { regions: vec![region(1); 2], ..hello() };
    assert!(matches!(First::decode(&twice.encode().unwrap()), Err(Error::Protocol("an impossible region"))));
    let twice = Welcome { regions: vec![welcome().regions[0].clone(); 2], ..welcome() };
    assert!(matches!(
        Welcome::decode(&twice.encode().unwrap()),
        Err(Error::Protocol("an impossible region"))
    ));
}

#[cfg(not(miri))]
mod garbage {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = First::decode(&bytes);
            let _ = Welcome::decode(&bytes);
        }

        /// Bytes that begin as a frame does, so that the fields are reached.
        #[test]
        fn changed_frames_never_panic_and_what_is_understood_encodes_to_the_same(
            kind in 1u8..5, at in 5usize..200, to in any::<u8>(), cut in 0usize..40,
        ) {
            let frame = match kind {
                1 => hello().encode().unwrap(),
                2 => welcome().encode().unwrap(),
                3 => Refusal { code: RefusalCode::Busy, reason: "later".into() }.encode(),
                _ => Attach { connection: 1, key: 2 }.encode(),
            };
            let mut frame = frame[..frame.len() - cut.min(frame.len() - 6)].to_vec();
            let length = (frame.len() - 4) as u32;
            frame[..4].copy_from_slice(&length.to_le_bytes());
            let at = at % frame.len();
            if at > 4 {
                frame[at] = to;
            }
            if let Ok(Some((first, used))) = First::decode(&frame) {
                let again = match &first { First::Hello(hello) => hello.encode().unwrap(), First::Attach(attach) => attach.encode() };
                prop_assert_eq!(&again[..], &frame[..used]);
            }
            if let Ok(Some((welcome, used))) = Welcome::decode(&frame) {
                prop_assert_eq!(&welcome.encode().unwrap()[..], &frame[..used]);
            }
        }
    }
}
