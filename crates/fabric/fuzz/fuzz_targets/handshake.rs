//! `cargo +nightly fuzz run handshake` in `crates/fabric`: no bytes crash the parsers, and what they understand encodes to the same bytes.
#![no_main]

use kintsugidb_fabric::handshake::{First, Welcome};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // As it is, and with a length in front that fits, so that the fields are reached.
    let mut framed = (data.len() as u32).to_le_bytes().to_vec();
    framed.extend(data);
    for bytes in [data, &framed] {
        if let Ok(Some((first, used))) = First::decode(bytes) {
            let again = match &first {
                First::Hello(hello) => hello.encode().expect("within the limits"),
                First::Attach(attach) => attach.encode(),
            };
            assert_eq!(again, bytes[..used]);
        }
        if let Ok(Some((welcome, used))) = Welcome::decode(bytes) {
            assert_eq!(welcome.encode().expect("within the limits"), bytes[..used]);
        }
    }
});
