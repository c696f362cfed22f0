//! `cargo +nightly fuzz run reader` in `crates/arena`: a region of arbitrary bytes never crashes or hangs a reader.
//!
//! The input is either a region itself or, if its first byte is even, a list of changes (16-bit word number, 8-byte word) to a
//! sound one, which gets much further.
#![no_main]

#[path = "../../tests/garbage/exercise.rs"]
mod exercise;

use std::sync::OnceLock;

static SOUND: OnceLock<Vec<u8>> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    if first & 1 == 1 {
        return exercise::exercise(rest);
    }
    let mut bytes = SOUND.get_or_init(exercise::sound_image).clone();
    for change in rest.chunks_exact(10) {
        let at = 8 * usize::from(u16::from_le_bytes([change[0], change[1]]));
        if let Some(word) = bytes.get_mut(at..at + 8) {
            word.copy_from_slice(&change[2..]);
        }
    }
    exercise::exercise(&bytes);
});
