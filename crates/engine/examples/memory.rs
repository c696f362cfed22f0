//! Bytes per key and per element: `cargo run --release -p kintsugidb-engine --example memory`.
//!
//! What is counted is what `used_memory` is made of: live cells, the index and the owner's heap; not what waits to be recycled.
use kintsugidb_engine::{Expire, ListEnd, Shard, Version};

fn main() -> kintsugidb_engine::Result<()> {
    println!("{:<44} {:>12} {:>10}", "", "bytes a key", "an element");
    let name = |i: usize| format!("key:{i:012}");
    for (what, bytes, expire) in [
        ("string, 16 B key, 16 B value", 16, Expire::Clear),
        ("string, 16 B key, 64 B value", 64, Expire::Clear),
        ("string, 16 B key, 64 B value, with expiry", 64, Expire::At(u64::MAX / 2)),
        ("string, 16 B key, 1 KiB value", 1024, Expire::Clear),
    ] {
        show(what, 200_000, 1, |s, i| s.set_string(name(i).as_bytes(), &[&vec![b'v'; bytes]], expire))?;
    }
    for (what, keys, elements) in [("10", 20_000, 10), ("100", 2_000, 100), ("100,000", 2, 100_000)] {
        let each = |i: usize| format!("field:{i:010}");
        show(&format!("hash of {what} fields (16 B, 16 B)"), keys, elements, |s, i| {
            (0..elements).try_for_each(|f| {
                s.hash_set(name(i).as_bytes(), &[(each(f).as_bytes(), &[b'v'; 16])]).map(|_| ())
            })
        })?;
        show(&format!("set of {what} members (16 B)"), keys, elements, |s, i| {
            (0..elements).try_for_each(|f| s.set_add(name(i).as_bytes(), &[each(f).as_bytes()]).map(|_| ()))
        })?;
        show(&format!("sorted set of {what} members (16 B)"), keys, elements, |s, i| {
            (0..elements).try_for_each(|f| {
                s.zset_add(name(i).as_bytes(), (f * 7919 % elements) as f64, each(f).as_bytes()).map(|_| ())
            })
        })?;
        show(&format!("list of {what} elements (16 B)"), keys, elements, |s, i| {
            (0..elements).try_for_each(|f| {
                s.list_push(name(i).as_bytes(), ListEnd::Right, &[each(f).as_bytes()]).map(|_| ())
            })
        })?;
    }
    Ok(())
}

fn show(
    what: &str,
    keys: usize,
    elements: usize,
    mut make: impl FnMut(&mut Shard, usize) -> kintsugidb_engine::Result<()>,
) -> kintsugidb_engine::Result<()> {
    let mut shard = Shard::new(1);
    shard.begin_write(Version { ts: 1, seq: 0 });
    let empty = shard.memory().used;
    for i in 0..keys {
        make(&mut shard, i)?;
    }
    // growth that is under way is finished, and what was replaced is given back
    (1..1000).for_each(|i| shard.tick(i * 10));
    let used = (shard.memory().used - empty) as f64;
    println!("{what:<44} {:>12.1} {:>10.1}", used / keys as f64, used / (keys * elements) as f64);
    Ok(())
}
