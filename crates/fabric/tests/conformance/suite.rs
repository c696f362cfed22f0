//! What every back end has to do.

use crate::world::{PASSWORD, Pair, READ, REGION_BYTES, WRITE, World, options, try_connect};
use kintsugidb_fabric::{
    Completion, ConnectOptions, Connection, Error, Fabric, OneSided, RefusalCode, Span, Written,
};
use std::sync::atomic::Ordering;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(30);

/// Polls until so many operations have completed; the peer serves meanwhile if it has to.
pub fn complete(connection: &mut dyn Connection, count: usize) -> Vec<Completion> {
    let mut done = Vec::new();
    while done.len() < count {
        if connection.poll(&mut done).unwrap() == 0 {
            connection.wait(LONG).unwrap();
        }
    }
    assert_eq!(done.len(), count, "exactly one completion for each operation");
    done
}

/// Receives one message, sleeping.
pub fn receive(connection: &mut dyn Connection) -> Vec<u8> {
    let mut message = Vec::new();
    while connection.receive(&mut message).unwrap().is_none() {
        connection.wait(LONG).unwrap();
    }
    message
}

fn stored(pair: &Pair, offset: u64, word: u64) {
    pair.memory.store(offset, &[word]);
}

fn loaded(buffer: &kintsugidb_fabric::Buffer, offset: u64) -> u64 {
    buffer.memory().range(offset, 8).unwrap()[0].load(Ordering::Acquire)
}

pub fn reads_see_what_the_owner_stored(world: &World) {
    let mut pair = world.pair();
    assert_eq!(pair.client.info, b"shards: 2");
    let client = &mut pair.client.connection;
    assert_eq!(client.regions().len(), 2);
    assert_eq!(client.capabilities().fabric, world.fabric);
    assert_eq!(client.capabilities().atomicity_bytes, 8);
    let buffer = client.register(8192).unwrap();
    for round in 0..100u64 {
        pair.memory.store(4096, &std::array::from_fn::<u64, 8, _>(|word| round * 8 + word as u64));
        client.read(READ, 4096, buffer.span(64, 64), round).unwrap();
        assert_eq!(complete(&mut **client, 1), [Completion { token: round, result: Ok(()) }]);
        for word in 0..8 {
            assert_eq!(loaded(&buffer, 64 + word * 8), round * 8 + word);
        }
        assert_eq!((loaded(&buffer, 56), loaded(&buffer, 128)), (0, 0), "nothing beside the span");
    }
    if client.capabilities().direct {
        let region = client.direct(READ).unwrap();
        assert!(!region.writable());
        assert_eq!(region.range(4096, 8).unwrap()[0].load(Ordering::Acquire), 99 * 8);
    }
    assert!(client.direct(77).is_none());
}

pub fn what_the_region_table_excludes_is_refused_at_once(world: &World) {
    let mut pair = world.pair();
    let client = &mut pair.client.connection;
    let buffer = client.register(4096).unwrap();
    let span = |offset, bytes| buffer.span(offset, bytes);
    let wrong = |result: Result<(), Error>| result.expect_err("it must be refused");
    let end = REGION_BYTES;
    for offset in [end, end - 8, u64::MAX - 7] {
        assert!(matches!(wrong(client.read(READ, offset, span(0, 16), 1)), Error::OutOfBounds { .. }));
        assert!(matches!(wrong(client.write(span(0, 16), WRITE, offset, 1)), Error::OutOfBounds { .. }));
    }
    for (offset, bytes) in [(4096, 8), (4088, 16), (u64::MAX - 7, 16), (0, 1 << 20)] {
        assert!(matches!(wrong(client.read(READ, 0, span(offset, bytes), 1)), Error::OutOfBounds { .. }));
        assert!(matches!(wrong(client.write(span(offset, bytes), WRITE, 0, 1)), Error::OutOfBounds { .. }));
    }
    assert!(matches!(wrong(client.read(READ, 4, span(0, 8), 1)), Error::Unaligned));
    assert!(matches!(wrong(client.read(READ, 0, span(0, 4), 1)), Error::Unaligned));
    assert!(matches!(wrong(client.read(READ, 0, span(0, 1 << 40), 1)), Error::TooLarge { .. }));
    assert!(matches!(wrong(client.read(9, 0, span(0, 8), 1)), Error::NoSuchRegion(9)));
    assert!(matches!(wrong(client.write(span(0, 8), READ, 0, 1)), Error::Denied { region: READ, .. }));
    let nobody = Span { buffer: 99, offset: 0, bytes: 8 };
    assert!(matches!(wrong(client.read(READ, 0, nobody, 1)), Error::NoSuchBuffer(99)));
    assert!(matches!(client.register(usize::MAX), Err(Error::TooLarge { .. })));
    // The connection is as good as before.
    client.read(READ, 0, span(0, 8), 5).unwrap();
    assert_eq!(complete(&mut **client, 1)[0].token, 5);
}

pub fn messages_arrive_whole_and_in_order_both_ways(world: &World) {
    let Pair { mut client, mut server, .. } = world.pair();
    let body = |i: usize| -> Vec<u8> { (0..i * 37 % 900).map(|j| (i + j) as u8).collect() };
    let echo = std::thread::spawn(move || {
        for _ in 0..2000 {
            let message = receive(&mut *server.connection);
            while let Err(error) = server.connection.send(&message) {
                assert!(matches!(error, Error::Full), "{error}");
                server.connection.wait(LONG).unwrap();
            }
        }
        server
    });
    let (mut sent, mut received) = (0, 0);
    while received < 2000 {
        while sent < 2000 && sent < received + 20 {
            match client.connection.send(&body(sent)) {
                Ok(()) => sent += 1,
                Err(Error::Full) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(receive(&mut *client.connection), body(received));
        received += 1;
    }
    echo.join().unwrap();
}

pub fn large_messages_arrive_whole(world: &World) {
    let Pair { mut client, mut server, .. } = world.pair();
    let body: Vec<u8> = (0..3_000_001u32).map(|i| (i % 251) as u8).collect();
    let expected = body.clone();
    let receiver = std::thread::spawn(move || {
        for round in 0..3 {
            assert!(receive(&mut *server.connection) == expected, "round {round}");
            assert_eq!(receive(&mut *server.connection), b"small");
        }
        server.connection.send(b"thanks").unwrap();
        server
    });
    let connection = &mut client.connection;
    for message in [&body[..], b"small"].iter().cycle().take(6) {
        while let Err(error) = connection.send(message) {
            assert!(matches!(error, Error::Full), "{error}");
            connection.wait(LONG).unwrap();
            connection.poll(&mut Vec::new()).unwrap();
        }
    }
    assert_eq!(receive(&mut **connection), b"thanks");
    receiver.join().unwrap();
    let limit = connection.capabilities().max_message_bytes;
    assert!(matches!(connection.send(&vec![0; limit + 1]), Err(Error::TooLarge { .. })));
}

pub fn a_slow_receiver_stops_the_sender_and_nothing_is_lost(world: &World) {
    let Pair { mut client, mut server, .. } = world.pair();
    let mut sent = 0u64;
    let full = loop {
        match client.connection.send(&[&sent.to_le_bytes()[..], &[7; 1000]].concat()) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        assert!(sent < 100_000, "somewhere it has to stop");
    };
    assert!(matches!(full, Error::Full), "{full}");
    let receiver = std::thread::spawn(move || {
        for i in 0..2 * sent {
            let message = receive(&mut *server.connection);
            assert_eq!(message[..8], i.to_le_bytes());
            assert_eq!(message[8..], [7; 1000]);
        }
        server
    });
    for i in sent..2 * sent {
        let message = [&i.to_le_bytes()[..], &[7; 1000]].concat();
        while let Err(error) = client.connection.send(&message) {
            assert!(matches!(error, Error::Full), "{error}");
            client.connection.wait(LONG).unwrap();
        }
    }
    // What the sender's side still holds goes on while it polls.
    while !receiver.is_finished() {
        client.connection.poll(&mut Vec::new()).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    receiver.join().unwrap();
}

pub fn a_peer_that_goes_is_noticed_after_its_last_message(world: &World) {
    let Pair { mut client, mut server, .. } = world.pair();
    server.connection.send(b"last words").unwrap();
    // Over a network, what has been sent has to have left the machine's buffers; the other end waits for it.
    while client.connection.arm().unwrap() && !client.connection.wait(LONG).unwrap() {}
    drop(server);
    assert_eq!(receive(&mut *client.connection), b"last words");
    let error = loop {
        match client.connection.receive(&mut Vec::new()) {
            Ok(Some(_)) => panic!("there was one message"),
            Ok(None) => drop(client.connection.wait(LONG)),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::PeerDead), "{error}");
    assert!(matches!(client.connection.send(b"x"), Err(Error::PeerDead)));
    let buffer = client.connection.register(64).unwrap();
    assert!(matches!(client.connection.read(READ, 0, buffer.span(0, 8), 1), Err(Error::PeerDead)));
    let mut done = Vec::new();
    assert!(matches!(client.connection.poll(&mut done), Err(Error::PeerDead)));
}

pub fn a_sleeper_is_woken_by_a_message_and_by_the_end(world: &World) {
    let Pair { mut client, mut server, .. } = world.pair();
    assert!(!client.connection.wait(Duration::from_millis(20)).unwrap(), "there is nothing yet");
    for i in 0..200u32 {
        let sleeper = std::thread::spawn(move || {
            assert_eq!(receive(&mut *client.connection), i.to_le_bytes());
            client
        });
        if i % 4 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        server.connection.send(&i.to_le_bytes()).unwrap();
        client = sleeper.join().unwrap();
    }
    let sleeper = std::thread::spawn(move || {
        let mut message = Vec::new();
        loop {
            match client.connection.receive(&mut message) {
                Ok(_) => drop(client.connection.wait(LONG)),
                Err(error) => return error,
            }
        }
    });
    std::thread::sleep(Duration::from_millis(5));
    drop(server);
    assert!(matches!(sleeper.join().unwrap(), Error::PeerDead));
}

pub fn a_deregistered_buffer_is_refused_and_not_written(world: &World) {
    let mut pair = world.pair();
    stored(&pair, 0, 0xdead);
    let client = &mut pair.client.connection;
    let buffer = client.register(4096).unwrap();
    client.read(READ, 0, buffer.span(0, 8), 1).unwrap();
    client.deregister(&buffer).unwrap();
    let at_return = loaded(&buffer, 0);
    let done = complete(&mut **client, 1);
    assert_eq!(done[0].token, 1);
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!(loaded(&buffer, 0), at_return, "written after it was deregistered");
    assert!(done[0].result.is_err() || at_return == 0xdead);
    assert!(matches!(client.read(READ, 0, buffer.span(0, 8), 2), Err(Error::NoSuchBuffer(_))));
    assert!(matches!(client.deregister(&buffer), Err(Error::NoSuchBuffer(_))));
    let other = client.register(64).unwrap();
    assert_ne!(other.id(), buffer.id(), "numbers are not used twice");
}

pub fn writes_reach_the_region_where_they_are_granted(world: &World) {
    let mut pair = world.pair();
    let client = &mut pair.client.connection;
    let buffer = client.register(4096).unwrap();
    for round in 1..=50u64 {
        let bytes = [round as u8; 256];
        buffer.memory().store_bytes(0, &bytes).unwrap();
        client.write(buffer.span(0, 256), WRITE, 512, round).unwrap();
        if client.capabilities().messages_follow_writes {
            client.send(b"look").unwrap();
            assert_eq!(receive(&mut *pair.server.connection), b"look");
        } else {
            assert_eq!(client.capabilities().written, Written::Visible, "else nobody could know");
        }
        assert_eq!(complete(&mut **client, 1), [Completion { token: round, result: Ok(()) }]);
        let mut seen = [0; 256];
        pair.memory.written(512, &mut seen);
        assert_eq!(seen, bytes);
    }
    let mut around = [1; 8];
    pair.memory.written(504, &mut around);
    assert_eq!(around, [0; 8]);
}

pub fn completions_are_bounded_and_none_is_lost(world: &World) {
    let mut pair = world.pair();
    let client = &mut pair.client.connection;
    let capabilities = client.capabilities();
    let buffer = client.register(8 * 4096).unwrap();
    pair.memory.store(0, &(1..=4096).collect::<Vec<u64>>());
    let mut posted = 0u64;
    let full = loop {
        match client.read(READ, posted % 4096 * 8, buffer.span(posted % 4096 * 8, 8), posted) {
            Ok(()) => posted += 1,
            Err(error) => break error,
        }
        assert!(posted as usize <= capabilities.max_outstanding);
    };
    assert!(matches!(full, Error::Full), "{full}");
    let done = complete(&mut **client, posted as usize);
    let mut tokens: Vec<u64> = done.iter().map(|c| c.token).collect();
    if !capabilities.completes_in_order {
        tokens.sort_unstable();
    }
    assert!(tokens.iter().copied().eq(0..posted));
    assert!(done.iter().all(|c| c.result.is_ok()));
    assert!((0..posted.min(4096)).all(|word| loaded(&buffer, word * 8) == word + 1));
    assert!(matches!(capabilities.one_sided, OneSided::Truly | OneSided::Emulated));
}

pub fn wrong_credentials_are_refused_with_the_reason(world: &World) {
    for (user, password) in [(&b"default"[..], &b"lead"[..]), (b"nobody", PASSWORD), (b"", b"")] {
        let options = ConnectOptions { user: user.to_vec(), password: password.to_vec(), ..options() };
        match try_connect(world, options) {
            Err(Error::Refused(refusal)) => {
                assert_eq!(refusal.code, RefusalCode::Authentication);
                assert_eq!(refusal.reason, "wrong user or password");
            }
            other => panic!("{other:?}"),
        }
    }
    try_connect(world, options()).unwrap();
    let options = ConnectOptions { user: vec![b'x'; 1000], ..options() };
    assert!(matches!(try_connect(world, options), Err(Error::TooLarge { .. })));
}

pub fn a_sleeper_takes_no_cpu(world: &World) {
    let mut pair = world.pair();
    if pair.client.connection.fd().is_none() {
        return;
    }
    let cpu = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    for connection in [&mut pair.client.connection, &mut pair.server.connection] {
        let before = cpu();
        let end = std::time::Instant::now() + Duration::from_millis(400);
        // It may wake without a reason, but not all the time.
        while let Some(left) = end.checked_duration_since(std::time::Instant::now()) {
            connection.wait(left).unwrap();
            assert!(connection.receive(&mut Vec::new()).unwrap().is_none());
        }
        let after = cpu();
        let used = (after.tv_sec - before.tv_sec) * 1_000_000 + (after.tv_nsec - before.tv_nsec) / 1000;
        assert!(used < 100_000, "{used} µs of CPU in 400 ms of sleep");
    }
}

pub fn a_restarted_listener_is_another_incarnation(world: &World) {
    let first = world.pair();
    let second = world.pair();
    if world.fabric == Fabric::Sim {
        return;
    }
    assert_ne!(first.client.incarnation, second.client.incarnation);
    assert_eq!(first.client.id, first.server.id);
}
