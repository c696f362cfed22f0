//! Commands over every shard: DBSIZE, KEYS, FLUSHALL, RANDOMKEY; the cursor of SCAN; the figures of INFO.
//!
//! Each thread runs the command on its shards and sends one part; the connection's thread merges the parts.
//! A cursor of SCAN is `shard's own cursor * shards + shard`: when a shard is through, the next one's begins at 0, and after the last comes 0.
use crate::{owner::Owner, registry::Entry};
use kintsugidb_engine::Error;
use kintsugidb_ramp::Session;
use kintsugidb_wire::{Proto, Reply, Value};

/// How the parts are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllKind {
    /// Integers are added.
    Sum,
    /// All say OK.
    Ok,
    /// Arrays are put one after the other.
    Concat,
    /// One of the keys, by the number of keys where it comes from.
    RandomKey,
    /// Figures for INFO.
    Figures,
    /// One shard's reply.
    Scan,
}

impl AllKind {
    /// That of the command of this name.
    pub fn of(name: &str) -> Self {
        match name {
            "dbsize" => Self::Sum,
            "keys" => Self::Concat,
            "randomkey" => Self::RandomKey,
            "info" => Self::Figures,
            "scan" => Self::Scan,
            _ => Self::Ok,
        }
    }
}

/// What some shards answered.
#[derive(Debug, Default)]
pub(crate) struct AllPart {
    pub error: Option<Vec<u8>>,
    pub sum: i64,
    pub count: usize,
    pub bytes: Vec<u8>,
    pub figures: Vec<ShardFigures>,
}

/// Figures of one shard.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShardFigures {
    pub keys: u64,
    pub expires: u64,
    pub used_bytes: u64,
}

impl AllPart {
    /// Adds another part to this one; `random` decides between keys.
    pub fn merge(&mut self, kind: AllKind, other: Self, random: u64) {
        if self.error.is_some() {
            return;
        }
        self.error = self.error.take().or(other.error);
        self.figures.extend(other.figures);
        if kind == AllKind::RandomKey {
            let total = self.sum + other.sum;
            if other.sum > 0 && (random % total.max(1) as u64) < other.sum as u64 {
                self.bytes = other.bytes;
            }
        } else {
            self.bytes.extend_from_slice(&other.bytes);
        }
        self.sum += other.sum;
        self.count += other.count;
    }

    /// Writes the reply.
    pub fn write(&self, kind: AllKind, out: &mut Reply) {
        if let Some(e) = &self.error {
            return out.raw(e);
        }
        match kind {
            AllKind::Sum => out.int(self.sum),
            AllKind::Ok | AllKind::Figures => out.ok(),
            AllKind::Concat => {
                out.array(self.count);
                out.raw(&self.bytes);
            }
            AllKind::RandomKey if self.bytes.is_empty() => out.null(),
            AllKind::RandomKey | AllKind::Scan => out.raw(&self.bytes),
        }
    }
}

/// Runs a command on all shards of `owner` and merges what they say.
pub(crate) fn run_all(owner: &mut Owner, entry: &Entry, args: &[&[u8]]) -> AllPart {
    let kind = entry.all;
    let mut all = AllPart::default();
    for place in 0..owner.parts.len() {
        let p = &mut owner.parts[place];
        let (shard, keys, random) = (usize::from(p.id()), p.shard.len(), p.shard.random());
        let part = match kind {
            AllKind::Figures => {
                let m = p.shard.memory();
                let figures = ShardFigures {
                    keys: keys as u64,
                    expires: p.shard.expiring() as u64,
                    used_bytes: m.used as u64,
                };
                AllPart { figures: vec![figures], ..AllPart::default() }
            }
            AllKind::Scan => scan(owner, entry, shard, args),
            _ => run_one(owner, entry, shard, keys, args),
        };
        all.merge(kind, part, random);
    }
    all
}

/// SCAN inside of EXEC: only the shard that the cursor names has something to say.
fn scan(owner: &mut Owner, entry: &Entry, shard: usize, args: &[&[u8]]) -> AllPart {
    let mut part = AllPart::default();
    match split_cursor(args.get(1).copied().unwrap_or_default(), owner.total()) {
        Ok((at, local)) if at == shard => {
            let local = local.to_string();
            let mut args = args.to_vec();
            args[1] = local.as_bytes();
            let mut out = Reply::new(Proto::Resp2);
            owner.execute(shard, entry.command, &args, &mut Session::default(), &mut out);
            part.bytes = out.into_bytes();
        }
        Ok(_) => {}
        Err(e) => part.error = Some(format!("-{e}\r\n").into_bytes()),
    }
    part
}

fn run_one(owner: &mut Owner, entry: &Entry, shard: usize, keys: usize, args: &[&[u8]]) -> AllPart {
    let mut out = Reply::new(Proto::Resp2);
    let mut part = AllPart::default();
    owner.execute(shard, entry.command, args, &mut Session::default(), &mut out);
    let reply = out.bytes();
    if reply.starts_with(b"-") {
        part.error = Some(out.into_bytes());
        return part;
    }
    match entry.all {
        AllKind::Sum => part.sum = Value::parse(reply).ok().flatten().and_then(|(v, _)| v.int()).unwrap_or(0),
        AllKind::Concat => (part.count, part.bytes) = elements(reply),
        AllKind::RandomKey if reply.starts_with(b"$-") => {}
        AllKind::RandomKey => {
            part.sum = keys as i64;
            part.bytes = out.into_bytes();
        }
        AllKind::Ok | AllKind::Figures | AllKind::Scan => {}
    }
    part
}

/// The count and the encoded elements of an encoded array.
fn elements(array: &[u8]) -> (usize, Vec<u8>) {
    let end = array.iter().position(|&b| b == b'\n').unwrap_or(0);
    let count = array.get(1..end.saturating_sub(1)).and_then(|s| std::str::from_utf8(s).ok()?.parse().ok());
    (count.unwrap_or(0), array.get(end + 1..).unwrap_or_default().to_vec())
}

/// Splits a client's cursor into shard and the shard's own.
pub(crate) fn split_cursor(cursor: &[u8], shards: usize) -> Result<(usize, u64), Error> {
    let n: u64 = std::str::from_utf8(cursor)
        .ok()
        .and_then(|s| s.parse().ok())
        .ok_or_else(|| Error::other("ERR invalid cursor"))?;
    Ok(((n % shards as u64) as usize, n / shards as u64))
}

/// Replaces a shard's cursor in the reply to SCAN, which begins at `at`, by the client's.
pub(crate) fn globalise_cursor(out: &mut Reply, at: usize, shard: usize, shards: usize) {
    let Ok(Some((_, head))) = Value::parse(out.bytes().get(at + 4..).unwrap_or_default()) else { return };
    let reply = out.bytes()[at..].to_vec();
    let Ok(Some((cursor, _))) = Value::parse(&reply[4..4 + head]) else { return };
    let Some(local) = cursor.bytes().and_then(|b| std::str::from_utf8(b).ok()?.parse::<u64>().ok()) else {
        return;
    };
    let global = match local {
        0 if shard + 1 == shards => 0,
        0 => shard as u64 + 1,
        n => n * shards as u64 + shard as u64,
    };
    out.truncate(at);
    out.raw(&reply[..4]);
    out.bulk(global.to_string().as_bytes());
    out.raw(&reply[4 + head..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_lead_from_shard_to_shard_and_end() {
        let reply = |local: u64, shard| {
            let mut r = Reply::new(Proto::Resp2);
            r.int(7);
            let at = r.len();
            r.array(2);
            r.bulk(local.to_string().as_bytes());
            r.array(1);
            r.bulk(b"key");
            globalise_cursor(&mut r, at, shard, 16);
            let (v, _) = Value::parse(&r.bytes()[at..]).unwrap().unwrap();
            v.elements().unwrap()[0].bytes().unwrap().to_vec()
        };
        assert_eq!(reply(0, 15), b"0");
        assert_eq!(reply(0, 3), b"4");
        assert_eq!(split_cursor(&reply(5, 3), 16).unwrap(), (3, 5));
    }
}
