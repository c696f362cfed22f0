//! The checker: what clients were answered, against the oracle's history of every item.
use super::{
    client::Record,
    history::History,
    oracle::{Change, Item, Oracle, joined},
};
use crate::{Outcome, coordinator::plan::keys_of};
use kintsugidb_engine::{Class, Version, resolve};
use std::collections::{BTreeMap, BTreeSet};

/// What one operation saw: each item once, absent ones included.
type Observed = BTreeMap<Item, Option<Vec<u8>>>;

/// Versions that an observation may be of: lowest and highest, and whose it is if only one comes into question.
struct Candidates {
    lowest: Version,
    highest: Version,
    op: Option<usize>,
    /// It had not been committed at its shard when the reader had it already.
    early: bool,
}

pub(super) fn check(history: &History) -> Result<(), String> {
    if let Some(torn) = history.torn() {
        return Err(torn);
    }
    let oracle = Oracle::replay(history)?;
    oracle.compare(history)?;
    let seen = history.records.iter().map(|r| observe(r, &oracle)).collect::<Result<Vec<_>, _>>()?;
    for (r, seen) in history.records.iter().zip(&seen) {
        atomic(r, seen, &oracle)?;
        watches(history, r, &oracle)?;
    }
    real_time(history, &seen, &oracle)?;
    sessions(history, &seen, &oracle)
}

fn shown(item: &Item) -> String {
    format!("{}/{}", item.0.escape_ascii(), item.1.escape_ascii())
}

fn candidates(
    r: &Record,
    item: &Item,
    value: &Option<Vec<u8>>,
    oracle: &Oracle,
) -> Result<Candidates, String> {
    let changes = oracle.items.get(item).map_or(&[][..], Vec::as_slice);
    let until = r.ended.unwrap_or(u64::MAX);
    let of: Vec<&Change> = changes.iter().filter(|c| c.value == *value && c.known <= until).collect();
    let first = if value.is_none() { Some(Version::default()) } else { of.first().map(|c| c.version) };
    let Some(lowest) = first else {
        return Err(format!(
            "phantom: {:?} read {} = {:?}, which it never was",
            r.lines,
            shown(item),
            value.as_ref().map(|v| v.escape_ascii().to_string())
        ));
    };
    let highest = of.last().map_or(lowest, |c| c.version);
    let op = if of.len() == 1 && value.is_some() { Some(of[0].op) } else { None };
    let early = value.is_some() && of.iter().all(|c| c.step > until);
    Ok(Candidates { lowest, highest, op, early })
}

/// What an operation read of keys that it had not written before.
fn observe(r: &Record, oracle: &Oracle) -> Result<Observed, String> {
    let mut seen = Observed::new();
    let Some(Outcome::Replies(replies)) = &r.outcome else { return Ok(seen) };
    let mut written: BTreeSet<&[u8]> = BTreeSet::new();
    for (line, reply) in r.lines.iter().zip(replies) {
        let args: Vec<&[u8]> = line.iter().map(|w| w.as_bytes()).collect();
        let Ok(command) = resolve(&args) else { continue };
        let keys = keys_of(command, &args);
        if command.class_of(&args) != Class::Read {
            written.extend(keys);
            continue;
        }
        if keys.iter().any(|k| written.contains(k)) || reply.first() == Some(&b'-') {
            continue;
        }
        for (item, value) in parsed(command.name, &args, reply, oracle) {
            if let Some(before) = seen.insert(item.clone(), value.clone())
                && before != value
            {
                return Err(format!("fracture: {:?} read {} twice, differently", r.lines, shown(&item)));
            }
        }
    }
    Ok(seen)
}

fn parsed(name: &str, args: &[&[u8]], reply: &[u8], oracle: &Oracle) -> Vec<(Item, Option<Vec<u8>>)> {
    let found = elements(reply);
    let whole = |key: &[u8]| (key.to_vec(), Vec::new());
    let of = |sub: &&[u8]| (args[1].to_vec(), sub.to_vec());
    let of_key = |key: &[u8], mut has: BTreeMap<Vec<u8>, Vec<u8>>| {
        let known = oracle.items.keys().filter(|(k, _)| k == key).map(|(_, sub)| sub.clone());
        let all: BTreeSet<_> = known.chain(has.keys().cloned()).collect();
        all.into_iter().map(|sub| ((key.to_vec(), sub.clone()), has.remove(&sub))).collect::<Vec<_>>()
    };
    let pairs = || {
        let some: Vec<_> = found.iter().flatten().cloned().collect();
        some.chunks_exact(2).map(|p| (p[0].clone(), p[1].clone())).collect::<BTreeMap<_, _>>()
    };
    match name {
        "get" => vec![(whole(args[1]), found.first().cloned().flatten())],
        "mget" => args[1..].iter().zip(found).map(|(k, v)| (whole(k), v)).collect(),
        "lrange" => {
            let list = joined(found.iter().flatten().map(Vec::as_slice));
            vec![(whole(args[1]), (!list.is_empty()).then_some(list))]
        }
        "hget" | "hmget" | "zscore" | "zmscore" => {
            args[2..].iter().zip(found).map(|(f, v)| (of(f), v)).collect()
        }
        "sismember" | "smismember" => {
            let there = |n: i64| (n == 1).then(|| b"1".to_vec());
            args[2..].iter().zip(integers(reply)).map(|(m, n)| (of(m), there(n))).collect()
        }
        "hgetall" | "zrange" => of_key(args[1], pairs()),
        "smembers" => of_key(args[1], found.iter().flatten().map(|m| (m.clone(), b"1".to_vec())).collect()),
        "sunion" => {
            // Every member belongs to one set.
            let members: BTreeSet<_> = found.into_iter().flatten().collect();
            let all = oracle.items.keys().filter(|(k, _)| args[1..].contains(&k.as_slice()));
            all.map(|(k, m)| ((k.clone(), m.clone()), members.contains(m).then(|| b"1".to_vec()))).collect()
        }
        _ => Vec::new(),
    }
}

/// The bulk strings of a RESP2 reply, in order, null ones too.
pub(super) fn elements(reply: &[u8]) -> Vec<Option<Vec<u8>>> {
    let mut all = Vec::new();
    let mut rest = reply;
    while let Some(end) = rest.windows(2).position(|w| w == b"\r\n") {
        let (head, tail) = (&rest[..end], &rest[end + 2..]);
        rest = tail;
        let n: i64 = std::str::from_utf8(&head[1..]).ok().and_then(|s| s.parse().ok()).unwrap_or(0);
        if head[0] == b'$' {
            let len = usize::try_from(n).unwrap_or(0);
            all.push((n >= 0).then(|| rest[..len].to_vec()));
            rest = if n >= 0 { &rest[len + 2..] } else { rest };
        }
    }
    all
}

/// The integers of a reply, in order.
fn integers(reply: &[u8]) -> Vec<i64> {
    let lines = reply.split(|b| *b == b'\n').filter_map(|line| line.strip_prefix(b":"));
    lines.filter_map(|n| std::str::from_utf8(n).ok()?.trim_end().parse().ok()).collect()
}

/// Read Atomic: who saw one write of a transaction saw all of it, or what came after.
fn atomic(r: &Record, seen: &Observed, oracle: &Oracle) -> Result<(), String> {
    let mut found = BTreeMap::new();
    for (item, value) in seen {
        found.insert(item, candidates(r, item, value, oracle)?);
    }
    for (item, c) in &found {
        let Some(op) = c.op else { continue };
        for (other, version) in oracle.by_op.get(&op).into_iter().flatten() {
            if let Some(o) = found.get(other)
                && o.highest < *version
            {
                return Err(format!(
                    "fracture: {:?} read {} of operation {op}, but {} only at {:?}, not {version:?}",
                    r.lines,
                    shown(item),
                    shown(other),
                    o.highest
                ));
            }
        }
    }
    Ok(())
}

/// EXEC went through: nobody had written a watched key in between.
fn watches(history: &History, r: &Record, oracle: &Oracle) -> Result<(), String> {
    if !matches!(r.outcome, Some(Outcome::Replies(_))) {
        return Ok(());
    }
    let number = history.records.iter().position(|o| std::ptr::eq(o, r)).unwrap_or(usize::MAX);
    for (watch, at) in &r.watches {
        let shard = crate::shard_of(&watch.key, history.shards.len() as u16);
        let parts = || history.applied.iter().filter(|a| a.op == number);
        let mine = parts().map(|a| a.version).max();
        // A read-modify-write that sorts below what was pending may come later, and sort before us.
        let here = parts().filter(|a| a.shard == shard).map(|a| a.order).max().unwrap_or(usize::MAX);
        for ((key, sub), changes) in &oracle.items {
            if **key != *watch.key {
                continue;
            }
            // Removed again what was absent all the time: in the order of versions it may have been there.
            let absent = watch.state.version == Version::default();
            let changed = |c: &&Change| c.op != number && c.effective && !(absent && c.value.is_none());
            for c in changes.iter().filter(changed) {
                let other = &history.records[c.op];
                let between = other.began > *at && other.ended.is_some_and(|e| e < r.began);
                let versions = sub.is_empty()
                    && watch.state.version != Version::default()
                    && c.order <= here
                    && mine.is_some_and(|m| watch.state.version < c.version && c.version < m);
                if between || versions {
                    return Err(format!(
                        "watch: {:?} went through, although {} changed at {:?} (watched {:?})",
                        r.lines,
                        key.escape_ascii(),
                        c.version,
                        watch.state
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Each item is linearizable: what ended before something else began is not later than it. A reader that has found the missing half of
/// a transaction among the prepared versions is ahead of who reads that key alone, until its owner has committed it; that binds nobody but the reader
/// ([`sessions`]).
fn real_time(history: &History, seen: &[Observed], oracle: &Oracle) -> Result<(), String> {
    struct Event {
        began: u64,
        ended: u64,
        lowest: Version,
        highest: Version,
        writes: bool,
        op: usize,
    }
    let mut events: BTreeMap<&Item, Vec<Event>> = BTreeMap::new();
    for (op, (r, seen)) in history.records.iter().zip(seen).enumerate() {
        let ended = r.ended.unwrap_or(u64::MAX);
        for (item, value) in seen {
            let c = candidates(r, item, value, oracle)?;
            let ended = if c.early { u64::MAX } else { ended };
            let e = Event { began: r.began, ended, lowest: c.lowest, highest: c.highest, writes: false, op };
            events.entry(item).or_default().push(e);
        }
        for (item, version) in oracle.by_op.get(&op).into_iter().flatten() {
            let e = Event { began: r.began, ended, lowest: *version, highest: *version, writes: true, op };
            events.entry(item).or_default().push(e);
        }
    }
    for (item, events) in &events {
        for a in events {
            for b in events.iter().filter(|b| a.ended < b.began) {
                if b.highest < a.lowest || (b.writes && b.op != a.op && b.highest <= a.lowest) {
                    return Err(format!(
                        "real time: {} at {:?} by {:?}, and later at {:?} by {:?}",
                        shown(item),
                        a.lowest,
                        history.records[a.op].lines,
                        b.highest,
                        history.records[b.op].lines
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Nobody finds himself before a transaction that he has seen, or written, at any of its items (rule 2).
fn sessions(history: &History, seen: &[Observed], oracle: &Oracle) -> Result<(), String> {
    let mut known: BTreeMap<u16, BTreeMap<&Item, Version>> = BTreeMap::new();
    for (op, (r, seen)) in history.records.iter().zip(seen).enumerate() {
        if !matches!(r.outcome, Some(Outcome::Replies(_))) {
            continue;
        }
        let known = known.entry(r.client).or_default();
        let own = oracle.by_op.get(&op).into_iter().flatten();
        for (item, version) in own.clone() {
            if known.get(item).is_some_and(|k| version <= k) {
                return Err(format!(
                    "session: client {} saw {} at {:?}, then {:?} wrote it at {version:?}",
                    r.client,
                    shown(item),
                    known[item],
                    r.lines
                ));
            }
        }
        let mut met: BTreeSet<usize> = BTreeSet::from([op]);
        for (item, value) in seen {
            let c = candidates(r, item, value, oracle)?;
            if known.get(item).is_some_and(|k| c.highest < *k) {
                return Err(format!(
                    "session: client {} knew {} at {:?}, then {:?} read it at {:?}",
                    r.client,
                    shown(item),
                    known[item],
                    r.lines,
                    c.highest
                ));
            }
            met.extend(c.op);
        }
        for (item, version) in met.iter().filter_map(|op| oracle.by_op.get(op)).flatten() {
            let k = known.entry(item).or_default();
            *k = (*k).max(*version);
        }
    }
    Ok(())
}
