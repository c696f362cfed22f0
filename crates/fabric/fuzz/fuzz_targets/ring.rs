//! `cargo +nightly fuzz run ring` in `crates/fabric`: a peer that stores anything anywhere in a ring never crashes the receiver or the sender, and
//! a message that was not meddled with arrives as it was sent.
//!
//! The input is a list of moves of 12 bytes: which one, a word, a value.
#![no_main]

use kintsugidb_fabric::ring::{Receiver, Sender, Stores, piece_bytes};
use std::sync::atomic::{AtomicU64, Ordering};

const WORDS: u64 = 128;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let ring: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
    let credit = AtomicU64::new(0);
    let (mut sender, mut receiver) = (Sender::new(WORDS), Receiver::new(WORDS));
    let (mut sent, mut received, mut honest) = (0u8, 0u8, true);
    let mut out = Vec::new();
    for step in data.chunks_exact(12) {
        let (at, value) =
            (step[1] as usize % WORDS as usize, u64::from_le_bytes(step[4..].try_into().unwrap()));
        match step[0] % 8 {
            0..=2 => {
                let body = vec![sent; value as usize % (piece_bytes(WORDS) + 2)];
                if sender.push(&mut Stores(&ring), &credit, &body, value & 1 << 63 != 0).is_ok() {
                    sent = sent.wrapping_add(1);
                }
            }
            3..=5 => {
                out.clear();
                match receiver.pop(&ring, &mut out) {
                    Ok(Some(piece)) => {
                        assert_eq!(piece.bytes, out.len());
                        assert!(!honest || out.iter().all(|byte| *byte == received));
                        received = received.wrapping_add(1);
                    }
                    Ok(None) => assert!(!honest || sent == received),
                    Err(broken) => {
                        assert!(!honest, "{broken}");
                        return;
                    }
                }
                receiver.give_credit(&credit, value & 1 == 0);
            }
            6 => {
                honest = false;
                ring[at].store(value, Ordering::Relaxed);
            }
            _ => {
                honest = false;
                credit.store(value, Ordering::Relaxed);
            }
        }
    }
});
