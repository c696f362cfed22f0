//! A peer that writes whatever it likes into the rings file.

use super::connection::{Shm, file_bytes};
use crate::{Connection, Error, Mapping};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::sync::atomic::{AtomicU64, Ordering};

const RING: u64 = 1024;

fn pair() -> (Shm, Shm, Mapping) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (a, b) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
    let file = Mapping::create(file_bytes(RING)).unwrap();
    let again = || Mapping::map(file.descriptor(true).unwrap(), file_bytes(RING), true).unwrap();
    let side = |socket, listening| Shm::new(socket, again(), RING, listening, Vec::new(), Vec::new());
    (side(a, true), side(b, false), file)
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Everything that a connection does, a few times. What is wrong is an error, and an error is the end.
fn live(connection: &mut Shm) -> Result<(), Error> {
    let mut message = Vec::new();
    for _ in 0..4 {
        match connection.send(&[7; 100]) {
            Ok(()) | Err(Error::Full) => {}
            Err(error) => return Err(error),
        }
        connection.receive(&mut message)?;
        assert!(message.len() <= 1 << 20, "more than was ever sent");
        connection.poll(&mut Vec::new())?;
        connection.arm()?;
    }
    Ok(())
}

#[test]
fn a_peer_that_scribbles_over_the_rings_ends_its_connection_and_nothing_else() {
    let mut ended = 0;
    for seed in 1..=300 {
        let (mut victim, mut honest, file) = pair();
        let mut random = Random(seed * 0x9e37_79b9);
        let words: &[AtomicU64] = file.words();
        for _ in 0..200 {
            let _ = honest.send(&[1; 30]);
            let at = (random.next() % words.len() as u64) as usize;
            let value = match random.next() % 4 {
                0 => random.next(),
                1 => random.next() % 4096,
                2 => 1 << (random.next() % 64),
                _ => words[at].load(Ordering::Relaxed).wrapping_add(8),
            };
            words[at].store(value, Ordering::Release);
            match live(&mut victim) {
                Ok(()) => {}
                Err(Error::Protocol(_)) => {
                    assert!(matches!(victim.send(b"x"), Err(Error::PeerDead)), "an error is final");
                    assert!(matches!(victim.poll(&mut Vec::new()), Err(Error::PeerDead)));
                    ended += 1;
                    break;
                }
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
    }
    assert!(ended > 250, "{ended} of 300 were noticed");
}

#[test]
fn a_bell_that_is_rung_without_end_costs_no_more_than_a_look() {
    let (mut victim, mut other, file) = pair();
    for _ in 0..10_000 {
        // The flag that makes the victim ring, set before each of its messages, and nobody listens to the bells.
        file.words()[8].store(1, Ordering::Relaxed);
        match victim.send(b"m") {
            Ok(()) => {}
            Err(Error::Full) => while other.receive(&mut Vec::new()).unwrap().is_some() {},
            Err(error) => panic!("{error}"),
        }
    }
}
