//! Who is turned away when there are more strangers than places.

use super::*;
use crate::Fabric;
use crate::handshake::{Hello, Role};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

const LONG: Duration = Duration::from_secs(600);

/// A listener, and how to connect to it from an address of this host.
fn waiting() -> (Waiting, impl Fn(u8) -> TcpStream) {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let dial = move |from: u8| {
        let fd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&fd, &SocketAddr::from((Ipv4Addr::new(127, 0, 0, from), 0))).unwrap();
        connect(&fd, &SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
        TcpStream::from(fd)
    };
    (Waiting::new(listener.into(), LONG, 0).unwrap(), dial)
}

/// One turn of a listener: newcomers are admitted, and whoever has said everything is heard.
fn turn(waiting: &mut Waiting) -> Option<Heard> {
    waiting.admit_newcomers().unwrap();
    waiting.next().unwrap()
}

fn hello() -> Vec<u8> {
    let (user, password) = (b"default".to_vec(), Vec::new());
    let regions = Vec::new();
    Hello { fabric: Fabric::Tcp, role: Role::Client, user, password, blob: Vec::new(), regions }
        .encode()
        .unwrap()
}

/// Whether the other side has turned it away.
fn turned_away(socket: &mut TcpStream) -> bool {
    socket.set_nonblocking(true).unwrap();
    !matches!(socket.read(&mut [0; 64]), Err(e) if e.kind() == std::io::ErrorKind::WouldBlock)
}

#[test]
fn who_speaks_comes_in_though_all_places_are_held_in_silence() {
    let (mut waiting, dial) = waiting();
    let mut silent = Vec::new();
    for _ in 0..3 * limits::PENDING {
        silent.push(dial(1));
        assert!(turn(&mut waiting).is_none());
    }
    assert_eq!(waiting.strangers.len(), limits::PENDING);
    // The oldest went, and the newest are still there.
    assert!(silent[..2 * limits::PENDING].iter_mut().all(turned_away));
    assert!(!silent[2 * limits::PENDING..].iter_mut().any(turned_away));
    let mut honest = dial(1);
    honest.write_all(&hello()).unwrap();
    assert!(turn(&mut waiting).is_some());
}

#[test]
fn silence_from_one_address_takes_no_place_from_another() {
    let (mut waiting, dial) = waiting();
    let mut slow = dial(1);
    slow.write_all(&hello()[..10]).unwrap();
    assert!(turn(&mut waiting).is_none());
    let _flood: Vec<_> = (0..2 * limits::PENDING)
        .map(|_| {
            let stranger = dial(2);
            assert!(turn(&mut waiting).is_none());
            stranger
        })
        .collect();
    assert!(!turned_away(&mut slow), "a place was taken from whom it was not owed");
    slow.set_nonblocking(false).unwrap();
    slow.write_all(&hello()[10..]).unwrap();
    assert!(turn(&mut waiting).is_some());
}

#[test]
fn who_has_spoken_keeps_the_place_while_a_crowd_comes_in_at_once() {
    let (mut waiting, dial) = waiting();
    let mut honest = dial(1);
    waiting.admit_newcomers().unwrap();
    honest.write_all(&hello()).unwrap();
    let crowd: Vec<_> = (0..limits::PENDING).map(|_| dial(1)).collect();
    waiting.admit_newcomers().unwrap();
    assert_eq!((waiting.strangers.len(), crowd.len()), (limits::PENDING, limits::PENDING));
    assert!(waiting.next().unwrap().is_some());
}
