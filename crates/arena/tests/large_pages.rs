//! Large pages are made under readers and the owner, who must not notice.
#![cfg(not(loom))]

use kintsugidb_arena::{Arena, Config, Kind, NewCell, Reader, Table, hash};
use std::sync::atomic::{AtomicBool, Ordering};

const KEYS: u64 = 20_000;

fn write(arena: &mut Arena, k: u64, ts: u64) {
    let (key, value) = (k.to_string(), ts.to_le_bytes().repeat(8));
    let cell =
        NewCell { kind: Kind::String, key: key.as_bytes(), value: &[&value], ts, ..NewCell::default() };
    arena.publish(Table::ROOT, hash(key.as_bytes()), &cell).expect("there is room");
}

#[test]
fn each_part_is_offered_once_when_a_quarter_of_it_is_in_use() {
    let mut arena = Arena::create(Config { reserve_bytes: 1 << 30, ..Config::default() }).expect("a region");
    assert!(arena.next_large_page().is_none(), "an empty region takes a large page");
    let (mut offered, mut most) = (0, 0);
    for k in 0..KEYS {
        write(&mut arena, k, k + 1);
        // Without what lies free between pages in use: at most as much again.
        let committed = arena.memory().committed;
        most = most.max(committed);
        offered += u64::from(arena.next_large_page().is_some());
        let worth = |bytes| (bytes + (3 << 19)) / (2 << 20);
        assert!(
            (worth(committed)..=worth(2 * most)).contains(&offered),
            "{offered} with {committed} bytes in use"
        );
    }
    assert!(offered > 1);
}

#[test]
fn a_region_without_room_for_a_large_page_offers_none() {
    let mut arena = Arena::create(Config { reserve_bytes: 3 << 19, ..Config::default() }).expect("a region");
    (0..5000).for_each(|k| write(&mut arena, k, 1));
    assert!(arena.memory().committed > 1 << 19 && arena.next_large_page().is_none());
}

#[test]
fn readers_of_a_mapping_notice_nothing_while_large_pages_are_made() {
    let mut arena = Arena::create(Config { reserve_bytes: 1 << 30, ..Config::default() }).expect("a region");
    (0..KEYS).for_each(|k| write(&mut arena, k, 1));
    let own = arena.reader();
    let (file, bytes) = own.file().expect("a region in a file");
    let mapped = Reader::map(file, bytes).expect("its own region");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut out = Vec::new();
            let mut last = vec![1; KEYS as usize];
            while !done.load(Ordering::Acquire) {
                for k in 0..KEYS {
                    let key = k.to_string();
                    out.clear();
                    // Busy, if the owner recycles faster than this thread gets to run.
                    let Ok(seen) = mapped.read(Table::ROOT, hash(key.as_bytes()), key.as_bytes(), &mut out)
                    else {
                        continue;
                    };
                    let ts = seen.expect("every key is there").ts;
                    assert_eq!(out, ts.to_le_bytes().repeat(8), "key {k}: torn");
                    assert!(ts >= last[k as usize], "key {k}: backwards");
                    last[k as usize] = ts;
                }
            }
        });
        for ts in 2..20 {
            // Whether the system can is its own affair.
            let made = arena.next_large_page().map(|page| page.make());
            eprintln!("round {ts}: {made:?}");
            (0..KEYS).for_each(|k| write(&mut arena, k, ts));
            arena.tick(ts * 1000);
        }
        done.store(true, Ordering::Release);
    });
    arena.check().expect("the region is as it should be");
}
