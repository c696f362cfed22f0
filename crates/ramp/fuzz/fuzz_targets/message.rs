//! Any bytes as a message: no panic, and what decodes is encoded again in no more bytes, which decode to the same.
#![no_main]
use kintsugidb_engine::fingerprint;
use kintsugidb_ramp::wire::{decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(message) = decode(data, fingerprint) {
        let mut again = Vec::new();
        encode(&message, &mut again);
        assert!(again.len() <= data.len());
        let back = decode(&again, fingerprint).expect("what was encoded decodes");
        assert_eq!(format!("{message:?}"), format!("{back:?}"));
    }
});
