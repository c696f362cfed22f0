//! Strangers and liars: they get nothing, and cost the others nothing.

use crate::world::{PASSWORD, READ, REGION_BYTES, WRITE, World, accept, gate, options, try_connect};
use kintsugidb_fabric::handshake::{Attach, Hello, Role, Welcome};
use kintsugidb_fabric::{
    Accepted, Address, Error, Export, Fabric, ListenOptions, Listener, Refusal, RefusalCode, connect, limits,
    listen,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

trait Socket: Read + Write + Send {}
impl<T: Read + Write + Send> Socket for T {}

fn dial(address: &Address) -> Box<dyn Socket> {
    let limit = Some(Duration::from_secs(30));
    match address {
        Address::Shm(path) => {
            let socket = UnixStream::connect(path).unwrap();
            socket.set_read_timeout(limit).unwrap();
            Box::new(socket)
        }
        Address::Tcp(at) => {
            let socket = TcpStream::connect(at.as_str()).unwrap();
            socket.set_read_timeout(limit).unwrap();
            Box::new(socket)
        }
        other => panic!("no raw socket for {other}"),
    }
}

fn hello(fabric: Fabric, password: &[u8]) -> Hello {
    let (user, password) = (b"default".to_vec(), password.to_vec());
    Hello { fabric, role: Role::Client, user, password, blob: Vec::new(), regions: Vec::new() }
}

/// Serves the listener until the other thread is done; who came in.
fn serve<T: Send>(
    listener: &mut dyn Listener,
    exports: Vec<Export>,
    other: impl FnOnce() -> T + Send,
) -> (T, Vec<Accepted>) {
    let mut gate = gate(exports);
    let mut accepted = Vec::new();
    let result = std::thread::scope(|scope| {
        let other = scope.spawn(other);
        while !other.is_finished() {
            accepted.extend(listener.accept(&mut gate).unwrap());
            std::thread::sleep(Duration::from_millis(1));
        }
        other.join().unwrap()
    });
    (result, accepted)
}

/// What is answered until the other side hangs up.
fn until_the_end(socket: &mut dyn Socket) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset is an end, too.
    let _ = socket.read_to_end(&mut bytes);
    bytes
}

pub fn nonsense_is_answered_with_a_refusal_and_an_end(world: &World) {
    let mut listener = world.listen();
    let address = listener.address();
    let mut version = hello(world.fabric, PASSWORD).encode().unwrap();
    version[13] = 77;
    let huge = (limits::HELLO_BYTES as u32).to_le_bytes().to_vec();
    let other = if world.fabric == Fabric::Shm { Fabric::Tcp } else { Fabric::Shm };
    let other = hello(other, PASSWORD).encode().unwrap();
    let wrong = hello(world.fabric, b"guess").encode().unwrap();
    let ((), accepted) = serve(&mut *listener, Vec::new(), || {
        for (frame, expected) in [
            (b"GET / HTTP/1.1\r\n\r\n".to_vec(), RefusalCode::Malformed),
            (huge, RefusalCode::Malformed),
            (version, RefusalCode::Version),
            (other, RefusalCode::Malformed),
            (wrong, RefusalCode::Authentication),
        ] {
            let mut socket = dial(&address);
            socket.write_all(&frame).unwrap();
            match Welcome::decode(&until_the_end(&mut *socket)) {
                Err(Error::Refused(Refusal { code, .. })) => assert_eq!(code, expected),
                answer => panic!("{frame:?}: {answer:?}"),
            }
        }
    });
    assert!(accepted.is_empty());
}

pub fn strangers_who_say_nothing_are_turned_away_and_do_not_stop_others(world: &World) {
    let options_short = ListenOptions { handshake: Duration::from_millis(100), ..Default::default() };
    let mut listener = listen(&world.address(), &options_short).unwrap();
    let address = listener.address();
    let (connected, _) = serve(&mut *listener, Vec::new(), || {
        let mut silent: Vec<_> = (0..limits::PENDING + 8).map(|_| dial(&address)).collect();
        silent[3].write_all(&hello(world.fabric, PASSWORD).encode().unwrap()[..20]).unwrap();
        for socket in &mut silent {
            let answer = until_the_end(&mut **socket);
            assert!(
                matches!(Welcome::decode(&answer), Err(Error::Refused(r)) if r.code == RefusalCode::Busy)
            );
        }
        // In the listener's short time a busy machine may not manage it at once.
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            match connect(&address, &options()) {
                Err(Error::Refused(_) | Error::PeerDead) if Instant::now() < end => {}
                other => return other,
            }
        }
    });
    connected.unwrap();
}

pub fn nothing_is_served_before_the_password(world: &World) {
    let mut listener = world.listen();
    let address = listener.address();
    let (exports, ..) = World::exports();
    let ((), accepted) = serve(&mut *listener, exports, || {
        // Something that looks like a message or an operation right behind a good hello, and an attachment to nobody.
        let mut eager = hello(world.fabric, PASSWORD).encode().unwrap();
        eager.extend([1; 40]);
        for frame in [eager, Attach { connection: 1, key: 0 }.encode()] {
            let mut socket = dial(&address);
            socket.write_all(&frame).unwrap();
            assert_eq!(until_the_end(&mut *socket), b"");
        }
    });
    assert!(accepted.is_empty());
    try_connect(world, options()).unwrap();
}

/// One request to the agent and its status; `None`: it hung up.
fn ask(socket: &mut dyn Socket, kind: u8, key: u64, offset: u64, bytes: u64, data: &[u8]) -> Option<u8> {
    let mut frame = ((40 + data.len()) as u32).to_le_bytes().to_vec();
    frame.extend([kind, 0, 0, 0]);
    for field in [1, key, offset, bytes] {
        frame.extend(field.to_le_bytes());
    }
    frame.extend(data);
    socket.write_all(&frame).ok()?;
    let mut answer = [0; 16];
    socket.read_exact(&mut answer).ok()?;
    let length = u32::from_le_bytes(answer[..4].try_into().unwrap()) as usize;
    socket.read_exact(&mut vec![0; length - 16]).ok()?;
    Some(answer[4])
}

/// A client that does not check what the library checks: the agent does.
#[test]
fn the_agent_checks_key_bounds_and_access_of_every_request() {
    const DONE: Option<u8> = Some(0);
    const OUT_OF_BOUNDS: Option<u8> = Some(1);
    const DENIED: Option<u8> = Some(2);
    let mut listener = World::new(Fabric::Tcp).listen();
    let address = listener.address();
    let (exports, read, write) = World::exports();
    let enter = || {
        let mut first = dial(&address);
        first.write_all(&hello(Fabric::Tcp, PASSWORD).encode().unwrap()).unwrap();
        let mut bytes = Vec::new();
        let welcome = loop {
            if let Some((welcome, _)) = Welcome::decode(&bytes).unwrap() {
                break welcome;
            }
            let mut byte = [0];
            first.read_exact(&mut byte).unwrap();
            bytes.extend(byte);
        };
        let key = u64::from_le_bytes(welcome.blob[..8].try_into().unwrap());
        let mut second = dial(&address);
        second.write_all(&Attach { connection: welcome.connection, key: key ^ 1 }.encode()).unwrap();
        assert_eq!(until_the_end(&mut *second), b"", "a wrong key attaches to nothing");
        let mut second = dial(&address);
        second.write_all(&Attach { connection: welcome.connection, key }.encode()).unwrap();
        let key = |id| welcome.regions.iter().find(|r| r.id == id).unwrap().key;
        (first, second, key(READ), key(WRITE))
    };
    let ((), _accepted) = serve(&mut *listener, exports, || {
        let (_first, mut agent, readable, writable) = enter();
        assert_eq!(ask(&mut *agent, 1, readable, 0, 64, b""), DONE);
        assert_eq!(ask(&mut *agent, 2, writable, 8, 8, b"the gold"), DONE);
        assert_eq!(ask(&mut *agent, 2, readable, 0, 8, b"a forger"), DENIED);
        assert_eq!(ask(&mut *agent, 1, readable ^ 1, 0, 8, b""), DENIED);
        for (offset, bytes) in [(REGION_BYTES, 8), (0, REGION_BYTES + 8), (4, 8), (0, 4), (u64::MAX - 7, 16)]
        {
            assert_eq!(ask(&mut *agent, 1, readable, offset, bytes, b""), OUT_OF_BOUNDS, "{offset} {bytes}");
        }
        assert_eq!(ask(&mut *agent, 1, readable, 0, limits::TRANSFER_BYTES + 8, b""), OUT_OF_BOUNDS);
        // Another connection's keys open nothing here.
        let (_other, mut foreign, ..) = enter();
        assert_eq!(ask(&mut *foreign, 1, readable, 0, 8, b""), DENIED);
        for (kind, bytes, data) in [(9, 8, &b""[..]), (2, 16, b"too few!"), (1, 8, b"too much")] {
            let (_first, mut agent, readable, _) = enter();
            assert_eq!(ask(&mut *agent, kind, readable, 0, bytes, data), None, "it hangs up");
        }
        assert_eq!(ask(&mut *agent, 1, readable, 0, 8, b""), DONE, "the others go on");
    });
    let mut bytes = [0; 8];
    write.load_bytes(8, &mut bytes).unwrap();
    assert_eq!(&bytes, b"the gold");
    read.load_bytes(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 8]);
}

/// A message that claims more than any may have ends the connection, before room is made for it.
#[test]
fn a_message_of_impossible_length_ends_the_connection() {
    let mut listener = World::new(Fabric::Tcp).listen();
    let address = listener.address();
    let client = std::thread::spawn(move || {
        let mut socket = dial(&address);
        socket.write_all(&hello(Fabric::Tcp, PASSWORD).encode().unwrap()).unwrap();
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        socket.write_all(&u32::MAX.to_le_bytes()).unwrap();
        until_the_end(&mut *socket);
    });
    let mut server = accept(&mut *listener, Vec::new()).connection;
    let error = loop {
        match server.receive(&mut Vec::new()) {
            Ok(_) => drop(server.wait(Duration::from_secs(30))),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Protocol(_)), "{error}");
    assert!(matches!(server.receive(&mut Vec::new()), Err(Error::PeerDead)));
    drop(server);
    client.join().unwrap();
}
