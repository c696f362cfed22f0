//! Any bytes as a reply: no panic, and never more taken than there was.
#![no_main]
use kintsugidb_wire::Value;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(Some((_, n))) = Value::parse(data) {
        assert!(n <= data.len());
        assert!(matches!(Value::parse(&data[..n]), Ok(Some((_, m))) if m == n));
    }
});
