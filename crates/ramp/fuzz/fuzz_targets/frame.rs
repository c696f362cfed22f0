//! Any bytes as a stream of frames, in pieces whose size the first byte gives: no panic, and the same frames as in one piece.
#![no_main]
use kintsugidb_engine::fingerprint;
use kintsugidb_ramp::wire::frame::{Frame, Frames};
use libfuzzer_sys::fuzz_target;

fn frames(data: &[u8], piece: usize) -> Vec<String> {
    let (mut frames, mut found) = (Frames::default(), Vec::new());
    for piece in data.chunks(piece.max(1)) {
        frames.add(piece);
        loop {
            match frames.next() {
                Ok(Some(body)) => found.push(format!("{:?}", Frame::read(body, fingerprint))),
                Ok(None) => break,
                Err(e) => {
                    found.push(e.to_string());
                    return found;
                }
            }
        }
    }
    found
}

fuzz_target!(|data: &[u8]| {
    if let Some((piece, data)) = data.split_first() {
        assert_eq!(frames(data, usize::from(*piece)), frames(data, data.len()));
    }
});
