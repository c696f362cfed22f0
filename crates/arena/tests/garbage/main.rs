//! A region of arbitrary bytes never crashes a reader, never hangs it, and never makes it allocate without bound. Seeded, so that a
//! failure can be repeated: the seed is in the message. `fuzz/` has the same with coverage guidance.
#![cfg(not(loom))]

mod exercise;

use exercise::{KEYS, exercise, sound_image};
use kintsugidb_arena::{Reader, Table, hash};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

fn runs() -> u64 {
    let default = if cfg!(miri) { 1 } else { 3000 };
    std::env::var("KINTSUGI_GARBAGE_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Runs `f` and names the seed if it panics.
fn seeded(seed: u64, f: impl FnOnce(&mut Random)) {
    struct Name(u64);
    impl Drop for Name {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("seed {}", self.0);
            }
        }
    }
    let name = Name(seed);
    f(&mut Random(seed));
    std::mem::forget(name);
}

#[test]
fn a_sound_image_reads_as_the_region_did() {
    let reader = Reader::of_bytes(&sound_image()).unwrap();
    assert!(reader.understands());
    for key in KEYS {
        let mut out = Vec::new();
        let seen = reader.read(Table::ROOT, hash(key), key, &mut out).unwrap().expect("it was published");
        assert_eq!((seen.ts, seen.value.len()), (1, 70 + key.len()));
        assert!(reader.checksum_holds(seen.cell));
    }
}

#[test]
fn random_bytes_harm_no_reader() {
    for seed in 0..runs() / 10 {
        seeded(seed, |random| {
            let length = random.below(40_000);
            let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
            exercise(&bytes);
        });
    }
}

#[test]
fn a_damaged_image_harms_no_reader() {
    let sound = sound_image();
    let used: Vec<usize> = (0..sound.len() / 8).filter(|i| sound[8 * i..8 * i + 8] != [0; 8]).collect();
    for seed in 0..runs() {
        seeded(seed, |random| {
            let mut bytes = sound.clone();
            for _ in 0..1 + random.below(40) {
                let at = 8 * used[random.below(used.len())];
                let from = 8 * used[random.below(used.len())];
                match random.below(6) {
                    0 => bytes[at + random.below(8)] ^= 1 << random.below(8),
                    1 => bytes[at..at + 8].copy_from_slice(&random.next().to_le_bytes()),
                    2 => bytes.copy_within(from..from + 8, at),
                    3 => bytes[at..at + 8].fill(0xff),
                    4 => bytes[64 + random.below(64)] ^= 1 << random.below(8),
                    // The high half only: lengths, flags, tags.
                    _ => bytes[at + 4..at + 8].copy_from_slice(&(random.next() as u32).to_le_bytes()),
                }
            }
            if random.below(8) == 0 {
                bytes.truncate(random.below(bytes.len()));
            }
            exercise(&bytes);
        });
    }
}

/// Every reference in the image leads back to where it stands: chains, links and tables that go round for ever.
#[test]
fn a_region_that_goes_in_circles_hangs_no_reader() {
    let sound = sound_image();
    for victim in 0..sound.len() / 8 {
        if cfg!(miri) && victim % 4096 != 8 || sound[8 * victim..8 * victim + 8] == [0; 8] {
            continue;
        }
        let mut bytes = sound.clone();
        let here = (victim as u64 / 2) | (2 << 40);
        bytes[8 * victim..8 * victim + 8].copy_from_slice(&here.to_le_bytes());
        exercise(&bytes);
    }
}
