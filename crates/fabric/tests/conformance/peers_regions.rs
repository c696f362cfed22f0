//! Regions that the connecting side hands out: the listening side reads and writes them as the other way round.

use crate::processes::LONG;
use crate::suite::{complete, receive};
use crate::world::{Pair, READ, REGION_BYTES, WRITE, World, accept, gate, options};
use kintsugidb_fabric::{
    Access, Completion, ConnectOptions, Connection, Error, Export, Fabric, Failure, ListenOptions, Mapping,
    OneSided, RefusalCode, Written, connect, listen,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn bytes_at<const N: usize>(memory: &Mapping, offset: u64) -> [u8; N] {
    let mut bytes = [1; N];
    memory.load_bytes(offset, &mut bytes).unwrap();
    bytes
}

/// The reader's side of what [`World::exports`] has made: reads see stores, writes arrive, before the messages behind them.
fn use_regions(user: &mut dyn Connection, owner: &mut dyn Connection, read: &Mapping, write: &Mapping) {
    assert_eq!(user.regions().iter().map(|r| r.id).collect::<Vec<_>>(), [READ, WRITE]);
    let buffer = user.register(8192).unwrap();
    for round in 1..=50u64 {
        read.range(4096, 8).unwrap()[0].store(round, Ordering::Release);
        user.read(READ, 4096, buffer.span(64, 64), round).unwrap();
        assert_eq!(complete(user, 1), [Completion { token: round, result: Ok(()) }]);
        assert_eq!(buffer.memory().range(64, 8).unwrap()[0].load(Ordering::Acquire), round);
        buffer.memory().store_bytes(4096, &[round as u8; 256]).unwrap();
        user.write(buffer.span(4096, 256), WRITE, 512, round).unwrap();
        if user.capabilities().messages_follow_writes {
            user.send(b"look").unwrap();
            assert_eq!(receive(owner), b"look");
        } else {
            assert_eq!(user.capabilities().written, Written::Visible, "else nobody could know");
        }
        assert_eq!(complete(user, 1), [Completion { token: round, result: Ok(()) }]);
        assert_eq!(bytes_at(write, 512), [round as u8; 256]);
    }
    assert_eq!((bytes_at(write, 504), bytes_at(write, 768)), ([0; 8], [0; 8]));
    if user.capabilities().direct {
        assert!(!user.direct(READ).unwrap().writable() && user.direct(WRITE).unwrap().writable());
    }
}

pub fn the_listening_side_reads_and_writes_what_it_was_handed(world: &World) {
    let Pair { mut client, mut server, memory, .. } = world.pair_the_other_way(Vec::new());
    assert!(client.connection.regions().is_empty());
    use_regions(&mut *server.connection, &mut *client.connection, &memory.read, &memory.write);
}

pub fn both_sides_hand_out_regions_at_once(world: &World) {
    let (exports, read, write) = World::exports();
    let mut pair = world.pair_the_other_way(exports);
    use_regions(
        &mut *pair.server.connection,
        &mut *pair.client.connection,
        &pair.memory.read,
        &pair.memory.write,
    );
    use_regions(&mut *pair.client.connection, &mut *pair.server.connection, &read, &write);
}

pub fn what_their_table_excludes_is_refused_at_once(world: &World) {
    let mut pair = world.pair_the_other_way(Vec::new());
    let server = &mut pair.server.connection;
    let buffer = server.register(4096).unwrap();
    let wrong = |result: Result<(), Error>| result.expect_err("it must be refused");
    for offset in [REGION_BYTES, REGION_BYTES - 8, u64::MAX - 7] {
        assert!(matches!(wrong(server.read(READ, offset, buffer.span(0, 16), 1)), Error::OutOfBounds { .. }));
        assert!(matches!(
            wrong(server.write(buffer.span(0, 16), WRITE, offset, 1)),
            Error::OutOfBounds { .. }
        ));
    }
    assert!(matches!(wrong(server.write(buffer.span(0, 8), READ, 0, 1)), Error::Denied { region: READ, .. }));
    assert!(matches!(wrong(server.read(9, 0, buffer.span(0, 8), 1)), Error::NoSuchRegion(9)));
    // A buffer that was taken back is not written, whichever side.
    pair.memory.read.range(0, 8).unwrap()[0].store(7, Ordering::Release);
    server.read(READ, 0, buffer.span(0, 8), 2).unwrap();
    server.deregister(&buffer).unwrap();
    let at_return = bytes_at::<8>(buffer.memory(), 0);
    let done = complete(&mut **server, 1);
    std::thread::sleep(std::time::Duration::from_millis(10));
    assert_eq!(bytes_at(buffer.memory(), 0), at_return, "written after it was deregistered");
    assert!(done[0].result.is_err() || at_return[0] == 7);
}

pub fn a_listener_that_takes_none_refuses_who_has_some(world: &World) {
    if world.fabric == Fabric::Sim {
        return;
    }
    let mut listener = listen(&world.address(), &ListenOptions::default()).unwrap();
    let address = listener.address();
    let (exports, read, _) = World::exports();
    let client = std::thread::spawn(move || connect(&address, &ConnectOptions { exports, ..options() }));
    while !client.is_finished() {
        assert!(listener.accept(&mut gate(Vec::new())).unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    match client.join().unwrap() {
        Err(Error::Refused(refusal)) => assert_eq!(refusal.code, RefusalCode::Permission, "{refusal}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(Arc::strong_count(&read), 1, "nobody holds it any more");
    // Nor does anybody hand out for writing what it cannot write itself.
    let memory = Arc::new(Mapping::map(read.descriptor(false).unwrap(), REGION_BYTES, false).unwrap());
    let exports = vec![Export { id: 1, access: Access::ReadWrite, memory }];
    let refused = connect(&listener.address(), &ConnectOptions { exports, ..options() });
    assert!(refused.is_err(), "{refused:?}");
}

/// Hands out regions and does nothing, until it is killed.
pub fn exporter(address: &kintsugidb_fabric::Address) {
    let (exports, ..) = World::exports();
    let mut connection = connect(address, &ConnectOptions { exports, ..options() }).unwrap().connection;
    while connection.receive(&mut Vec::new()).is_ok() {
        let _ = connection.wait(LONG);
    }
}

pub fn a_killed_process_ends_what_is_under_way_on_its_regions(world: &World) {
    if world.fabric == Fabric::Sim {
        return;
    }
    let mut listener = world.listen();
    let client = world.start("exporter", &listener.address().to_string());
    let mut server = accept(&mut *listener, Vec::new()).connection;
    let buffer = server.register(4096).unwrap();
    server.write(buffer.span(0, 4096), WRITE, 0, 0).unwrap();
    assert_eq!(complete(&mut *server, 1)[0].result, Ok(()));
    client.signal(rustix::process::Signal::STOP);
    for token in 0..10 {
        server.write(buffer.span(0, 4096), WRITE, 0, token).unwrap();
    }
    client.signal(rustix::process::Signal::KILL);
    let done = complete(&mut *server, 10);
    let truly = server.capabilities().one_sided == OneSided::Truly;
    // An agent may not have been allowed its time on a busy machine.
    let ended = |result: &Result<(), Failure>| match result {
        Ok(()) => truly,
        Err(failure) => matches!(failure, Failure::PeerDead | Failure::TimedOut { .. }),
    };
    assert!(done.iter().all(|c| ended(&c.result)), "{done:?}");
    let error = loop {
        match server.receive(&mut Vec::new()) {
            Ok(_) => server.wait(LONG).map(drop).unwrap_or_default(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::PeerDead), "{error}");
}
