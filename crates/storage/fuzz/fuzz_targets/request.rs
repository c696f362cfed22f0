//! Any bytes as a message to a target, and as a reply of one.
#![no_main]
use kintsugidb_storage::Session;
use kintsugidb_storage::protocol::{Info, Listed, Reply, Request, VolumeInfo};
use std::sync::Arc;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = (Reply::parse(bytes), Info::parse(bytes), VolumeInfo::parse(bytes), Listed::parse(bytes));
    if let Ok(request) = Request::parse(bytes) {
        let mut again = Vec::new();
        request.encode(&mut again);
        assert_eq!(again, bytes);
    }
    let (mut jobs, mut replies) = (Vec::new(), Vec::new());
    let mut session = Session::new(Arc::default(), None);
    let _ = session.message(bytes, &mut jobs, &mut replies);
    assert!(jobs.is_empty(), "a user without volumes has reached one");
});
