//! Any bytes as a trace; what is one survives the way to bytes and back.
#![no_main]
use kintsugidb_storage::trace::Trace;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(trace) = Trace::parse(bytes) {
        assert_eq!(Trace::parse(&trace.to_binary()).as_ref(), Ok(&trace));
    }
    let _ = Trace::from_strace(&String::from_utf8_lossy(bytes), None);
});
