//! Reads items of small and of large collections, and says how many of the reads took no message.
//!
//!     collections ADDRESS [--one-sided]
//!
//! With `--one-sided` the status is 1 if any of the reads took one.
use kintsugidb_client::{Client, Error, Options, Value};
use std::process::ExitCode;
use std::time::Duration;

/// Fields, members: enough for a table of its own, with the limits that a server has by itself.
const LARGE: u32 = 300;
/// How often everything is read.
const ROUNDS: u64 = 3;

/// Reads, and those that the regions answered.
struct Seen {
    reads: u64,
    one_sided: u64,
}

fn work(address: &str) -> Result<Seen, Error> {
    // An emulated machine on a busy one takes its time.
    let options = Options { timeout: Duration::from_secs(100), ..Options::default() };
    let key = |name: &str| format!("collections:{}:{name}", std::process::id());
    let mut writer = Client::connect_with(address, options.clone())?;
    for (size, n) in [("small", 3), ("large", LARGE)] {
        for i in 0..n {
            let name = i.to_string();
            writer.hset(key(&format!("hash:{size}")), &name, format!("value {i}"))?;
            writer.sadd(key(&format!("set:{size}")), [&name])?;
            writer.zadd(key(&format!("zset:{size}")), f64::from(i) / 4.0, &name)?;
        }
    }
    // Another client, which has seen nothing that an owner may not know yet.
    let mut reader = Client::connect_with(address, options)?;
    let mut reads = 0;
    for _ in 0..ROUNDS {
        for (size, n) in [("small", 3), ("large", LARGE)] {
            let of = |kind: &str| key(&format!("{kind}:{size}"));
            let (last, absent) = ((n - 1).to_string(), "absent");
            let value = Some(format!("value {last}").into_bytes());
            assert_eq!(reader.hget(of("hash"), &last)?, value);
            assert_eq!(reader.hmget(of("hash"), [&last, absent])?, [value.clone(), None]);
            assert!(reader.sismember(of("set"), &last)?);
            assert!(!reader.sismember(of("set"), absent)?);
            assert_eq!(reader.zscore(of("zset"), &last)?, Some(f64::from(n - 1) / 4.0));
            assert_eq!(reader.hlen(of("hash"))?, u64::from(n));
            let both = reader
                .transaction()
                .hget(of("hash"), &last)
                .command(&["SISMEMBER", &of("set"), &last])
                .exec()?
                .unwrap_or_default();
            assert_eq!(both, [value.map_or(Value::Null, Value::Bulk), Value::Int(1)]);
            reads += 7;
        }
    }
    Ok(Seen { reads, one_sided: reader.counters().one_sided })
}

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let all = words.len();
    words.retain(|word| word != "--one-sided");
    let must = words.len() < all;
    let [address] = &words[..] else {
        eprintln!("usage: collections ADDRESS [--one-sided]");
        return ExitCode::from(2);
    };
    match work(address) {
        Ok(Seen { reads, one_sided }) => {
            println!("{address}: {reads} reads of collections, {one_sided} of them one-sided");
            if must && one_sided != reads { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(error) => {
            eprintln!("{address}: {error}");
            ExitCode::FAILURE
        }
    }
}
