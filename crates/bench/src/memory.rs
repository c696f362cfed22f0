//! Bytes a key and bytes an element, against redis-server: `used_memory` before and after, and the same of resident memory.
use crate::{
    Error, MemoryArgs, Result,
    load::{self, encode},
    process::Server,
    table,
};
use std::io::{Read, Write};

/// What is stored.
struct Shape {
    name: &'static str,
    /// Divisor of the difference: keys or elements.
    count: u64,
    /// Command `i`.
    command: fn(u64, &MemoryArgs) -> Vec<Vec<u8>>,
}

fn bytes(parts: &[&str]) -> Vec<Vec<u8>> {
    parts.iter().map(|p| p.as_bytes().to_vec()).collect()
}

fn shapes(m: &MemoryArgs) -> Vec<Shape> {
    let keys = m.common.keys;
    let n = m.elements;
    let small = (keys / 10).max(1);
    vec![
        Shape {
            name: "string, 16 B key, 16 B value",
            count: keys,
            command: |i, _| bytes(&["SET", &load::key(i), &"v".repeat(16)]),
        },
        Shape {
            name: "string, 16 B key, 64 B value",
            count: keys,
            command: |i, _| bytes(&["SET", &load::key(i), &"v".repeat(64)]),
        },
        Shape {
            name: "the same with expiry",
            count: keys,
            command: |i, _| bytes(&["SET", &load::key(i), &"v".repeat(64), "EX", "100000"]),
        },
        Shape {
            name: "string, 16 B key, 1 KiB value",
            count: small,
            command: |i, _| bytes(&["SET", &load::key(i), &"v".repeat(1024)]),
        },
        Shape {
            name: "hash of 10 fields (8 B, 16 B), a field",
            count: small * 10,
            command: |i, _| {
                bytes(&["HSET", &load::key(i / 10), &format!("field:{:02}", i % 10), &"v".repeat(16)])
            },
        },
        Shape {
            name: "set of 10 members (16 B), a member",
            count: small * 10,
            command: |i, _| bytes(&["SADD", &load::key(i / 10), &format!("member:{i:09}")]),
        },
        Shape {
            name: "list of 10 (16 B), an element",
            count: small * 10,
            command: |i, _| bytes(&["RPUSH", &load::key(i / 10), &format!("element:{i:08}")]),
        },
        Shape {
            name: "sorted set of 10 (16 B), a member",
            count: small * 10,
            command: |i, _| bytes(&["ZADD", &load::key(i / 10), &i.to_string(), &format!("member:{i:09}")]),
        },
        Shape {
            name: "large hash (16 B, 16 B), a field",
            count: n,
            command: |i, _| bytes(&["HSET", "big", &format!("field:{i:010}"), &"v".repeat(16)]),
        },
        Shape {
            name: "large set (16 B), a member",
            count: n,
            command: |i, _| bytes(&["SADD", "big", &format!("member:{i:09}")]),
        },
        Shape {
            name: "large list (16 B), an element",
            count: n,
            command: |i, _| bytes(&["RPUSH", "big", &format!("element:{i:08}")]),
        },
        Shape {
            name: "large sorted set (16 B), a member",
            count: n,
            command: |i, _| bytes(&["ZADD", "big", &i.to_string(), &format!("member:{i:09}")]),
        },
    ]
}

/// `used_memory` as the server reports it.
fn used(s: &mut std::net::TcpStream) -> Result<u64> {
    let io = |e| Error::Io("INFO".into(), e);
    s.write_all(b"INFO memory\r\n").map_err(io)?;
    let mut text = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let n = s.read(&mut chunk).map_err(io)?;
        text.extend_from_slice(&chunk[..n]);
        let t = String::from_utf8_lossy(&text);
        if let Some(line) = t.lines().find_map(|l| l.strip_prefix("used_memory:"))
            && t.ends_with("\r\n")
            && let Ok(bytes) = line.trim().parse()
        {
            std::thread::sleep(std::time::Duration::from_millis(20));
            s.set_nonblocking(true).map_err(io)?;
            while matches!(s.read(&mut chunk), Ok(n) if n > 0) {}
            s.set_nonblocking(false).map_err(io)?;
            return Ok(bytes);
        }
        if n == 0 {
            return Err(Error::Reply(format!("INFO memory: {t}")));
        }
    }
}

fn measure(server: &Server, shape: &Shape, m: &MemoryArgs) -> Result<(f64, f64)> {
    let mut s = load::connect(server)?;
    let (before, rss) = (used(&mut s)?, server.resident());
    let all: Vec<u64> = (0..shape.count).collect();
    let mut reply = vec![0u8; 64 * 16];
    for chunk in all.chunks(64) {
        let mut request = Vec::new();
        for &i in chunk {
            let args = (shape.command)(i, m);
            encode(&mut request, &args.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
        s.write_all(&request).map_err(|e| Error::Io("writing".into(), e))?;
        let mut lines = 0;
        while lines < chunk.len() {
            let n = s.read(&mut reply).map_err(|e| Error::Io("reading".into(), e))?;
            if n == 0 || reply[..n].contains(&b'-') {
                return Err(Error::Reply(String::from_utf8_lossy(&reply[..n]).into_owned()));
            }
            lines += reply[..n].iter().filter(|&&b| b == b'\n').count();
        }
    }
    // What was superseded while loading goes after its grace time.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let after = used(&mut s)?;
    let n = shape.count as f64;
    Ok((after.saturating_sub(before) as f64 / n, server.resident().saturating_sub(rss) as f64 / n))
}

/// The figure. Every shape gets fresh servers, so that nothing one left behind helps or hurts the next.
pub fn run(m: &MemoryArgs) -> Result<()> {
    let header = ["shape", "redis", "kintsugi", "ratio", "redis RSS", "kintsugi RSS", "ratio RSS"];
    let mut rows = Vec::new();
    for shape in shapes(m) {
        let (redis, redis_rss) = measure(&Server::redis()?, &shape, m)?;
        let (ours, ours_rss) = measure(&Server::kintsugi(&m.common, "fast")?, &shape, m)?;
        rows.push(vec![
            shape.name.to_owned(),
            format!("{redis:.1}"),
            format!("{ours:.1}"),
            format!("{:.2}", ours / redis),
            format!("{redis_rss:.1}"),
            format!("{ours_rss:.1}"),
            format!("{:.2}", ours_rss / redis_rss),
        ]);
    }
    table::print("Bytes a key or an element: used_memory, and resident memory", &header, &rows);
    table::csv(
        &m.common.out,
        "memory",
        &header,
        &rows.iter().map(|r| r.iter().map(|c| c.replace(',', ";")).collect()).collect::<Vec<_>>(),
    )
}
