//! Reads of one key, fetched word by word, with the owner at work between any two words: what is answered must have been so meanwhile, as a
//! whole. And in quiet, what the owner answers.
use super::fetcher::{Broken, Fetcher, Random};
use super::*;
use crate::{Limits, Shard, Version, execute, fingerprint, lookup};
use kintsugidb_arena::{Config, DEFAULT_SEED, NewCell};
use kintsugidb_wire::Proto;
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

fn shard(entries: usize) -> Shard {
    let config = Config { reserve_bytes: 1 << 26, grace_ms: 0, initial_keys: 4, ..Config::default() };
    let mut shard = Shard::create(1, config).unwrap();
    let (hash_entries, set_entries, zset_entries, list_entries) = (entries, entries, entries, entries);
    shard.set_limits(Limits { hash_entries, set_entries, zset_entries, list_entries, ..Limits::default() });
    shard.now_ms = 1000;
    shard
}

/// An owner who writes two fields alike, always together, and remembers what they were after each command or transaction.
struct World {
    shard: Shard,
    random: Random,
    ts: u64,
    in_transaction: bool,
    records: Vec<crate::TxnRecord>,
    /// The two fields' value; every state that there was.
    history: Vec<Option<String>>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed * 2 + 1);
        let entries = [0, 1, 4, 12][random.below(4) as usize];
        Self {
            shard: shard(entries),
            random,
            ts: 1,
            in_transaction: false,
            records: Vec::new(),
            history: vec![None],
        }
    }

    fn version(&mut self) -> Version {
        self.ts += 1;
        Version { ts: self.ts, seq: 0 }
    }

    fn now(&mut self, value: Option<String>) {
        if !self.in_transaction {
            self.history.push(value);
        } else {
            // What a transaction leaves is there when it ends.
            let last = self.history.len() - 1;
            self.history[last] = value;
        }
    }

    /// One act of the owner.
    fn act(&mut self) {
        if !self.in_transaction {
            let version = self.version();
            self.shard.begin_write(version);
        }
        let value = "v".repeat(1 + self.random.below(30) as usize) + &self.ts.to_string();
        let v = value.as_bytes();
        match self.random.below(24) {
            0..7 => {
                self.shard.hash_set(b"h", &[(b"f", v), (b"g", v)]).unwrap();
                self.now(Some(value));
            }
            7..9 => {
                self.shard.hash_remove(b"h", &[b"f", b"g"]).unwrap();
                self.now(None);
            }
            9..14 => {
                let other = format!("other-{}", self.random.below(30));
                self.shard.hash_set(b"h", &[(other.as_bytes(), v)]).unwrap();
            }
            14 if !self.in_transaction => {
                self.shard.delete(b"h");
                self.now(None);
            }
            15 if !self.in_transaction && self.random.below(4) == 0 => {
                self.shard.flush();
                self.now(None);
            }
            16..20 if !self.in_transaction => {
                let (version, n) = (self.version(), self.ts);
                self.shard.begin_txn(version, n, &[fingerprint(b"h")]);
                // Until it ends, nobody has seen anything of it.
                let last = self.history.last().cloned().flatten();
                self.history.push(last);
                self.in_transaction = true;
            }
            16..20 => {
                self.records.extend(self.shard.end_txn());
                self.in_transaction = false;
            }
            20 if self.in_transaction => {
                // A step that nobody may see.
                self.shard.delete(b"h");
                self.shard.hash_set(b"h", &[(b"f", b"a step")]).unwrap();
                self.act();
                self.shard.hash_set(b"h", &[(b"f", v), (b"g", v)]).unwrap();
                self.now(Some(value));
            }
            21 if !self.in_transaction => {
                self.shard.bump_epoch();
                self.shard.forget_txns(&std::mem::take(&mut self.records));
            }
            _ => {
                let now = self.shard.now_ms + 1;
                self.shard.now_ms = now;
                self.shard.tick(now);
            }
        }
    }
}

/// What HMGET h f g answered, of fields that are alike.
fn alike(reply: &[u8]) -> Option<Option<String>> {
    let text = String::from_utf8_lossy(reply).into_owned();
    let lines: Vec<&str> = text.split("\r\n").filter(|l| !l.is_empty() && !l.starts_with('*')).collect();
    match lines[..] {
        ["$-1", "$-1"] => Some(None),
        [n, a, m, b] if n == m && a == b => Some(Some(a.to_owned())),
        _ => None,
    }
}

/// How many reads were answered; panics if one is wrong.
fn run(seed: u64, broken: Broken) -> (usize, usize) {
    let mut w = World::new(seed);
    let mut fetcher = Fetcher::new(&w.shard, seed + 77);
    fetcher.broken = broken;
    let (mut answered, mut of_transactions) = (0, 0);
    for round in 0..500 {
        w.act();
        let pause = [u64::MAX, 400, 100, 40, 12][round % 5];
        // What a transaction under way will leave is not there yet, but may be by the end.
        let began = w.history.len() - 1 - usize::from(w.in_transaction);
        let mut random = Random(seed + round as u64 * 7 + 1);
        let reply = fetcher.ask("hmget h f g", &mut || {
            if random.below(pause) == 0 {
                w.act();
            }
        });
        let Ok(reply) = reply else { continue };
        let seen = alike(&reply);
        let may = &w.history[began..w.history.len() - usize::from(w.in_transaction)];
        assert!(
            seen.as_ref().is_some_and(|s| may.contains(s)),
            "seed {seed}, round {round}: {:?} is none of {may:?}",
            String::from_utf8_lossy(&reply)
        );
        answered += 1;
        of_transactions += usize::from(!w.records.is_empty());
    }
    (answered, of_transactions)
}

#[test]
fn fields_that_are_written_together_are_fetched_together() {
    for seed in 0..60 {
        let (answered, of_transactions) = run(seed, Broken::Nothing);
        assert!(answered > 100 && of_transactions > 10, "seed {seed}: {answered}, {of_transactions}");
    }
}

#[test]
fn a_rule_that_is_broken_is_noticed() {
    for broken in [Broken::Witness, Broken::Step] {
        let noticed = (0..60).any(|seed| std::panic::catch_unwind(|| run(seed, broken)).is_err());
        assert!(noticed, "the check is blind");
    }
}

/// Every line of the table: the fetched answer beside the owner's.
fn compare(s: &mut Shard, fetcher: &mut Fetcher, args: &[&[u8]]) {
    let name = std::str::from_utf8(args[0]).unwrap();
    let point = Point::of(name).unwrap();
    let ours = fetcher.attempt(point, args, &mut || {}).unwrap();
    let mut owners = Reply::new(Proto::Resp2);
    assert!(lookup(args[0]).is_some());
    execute(s, args, &mut owners);
    let shown = |reply: &[u8]| reply.escape_ascii().to_string();
    assert_eq!(shown(&ours), shown(owners.bytes()), "{name} of {}", args[1].escape_ascii());
}

const COMMANDS: [&str; 20] = [
    "get",
    "strlen",
    "type",
    "ttl",
    "pttl",
    "expiretime",
    "pexpiretime",
    "llen",
    "hlen",
    "scard",
    "zcard",
    "hget",
    "hstrlen",
    "hexists",
    "sismember",
    "zscore",
    "hmget",
    "smismember",
    "zmscore",
    "exists",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    /// In quiet, and with collections on both sides of the limits, also after they have changed.
    #[test]
    fn what_is_fetched_is_what_the_owner_answers(
        entries in prop::sample::select(vec![0usize, 3, 8, 128]),
        items in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..40), prop::collection::vec(any::<u8>(), 0..90), -1e6f64..1e6), 1..24),
        more in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..3), prop::collection::vec(any::<u8>(), 0..9)), 0..24),
        gone in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        asked in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
    ) {
        let mut s = shard(entries);
        let mut fetcher = Fetcher::new(&s, 5);
        let names: Vec<&[u8]> = items.iter().map(|(n, ..)| &n[..]).chain(more.iter().map(|(n, _)| &n[..])).collect();
        let asked: Vec<&[u8]> = asked.iter().map(|i| *i.get(&names)).chain([&b"never"[..]]).collect();
        let mut look = |s: &mut Shard| {
            for key in [&b"hash"[..], b"set", b"zset", b"list", b"string", b"absent"] {
                for command in COMMANDS {
                    let point = Point::of(command).unwrap();
                    let mut args = vec![command.as_bytes(), key];
                    if let Some(Part::Items(..)) = point.part(&[&args[..], &[b"x"]].concat()) {
                        args.extend(if point.is_list() { &asked[..] } else { &asked[..1] });
                    }
                    compare(s, &mut fetcher, &args);
                }
            }
        };
        s.begin_write(Version { ts: 5, seq: 0 });
        for (name, value, score) in &items {
            s.hash_set(b"hash", &[(name, value)]).unwrap();
            s.set_add(b"set", &[name]).unwrap();
            s.zset_add(b"zset", *score, name).unwrap();
            s.list_push(b"list", crate::ListEnd::Right, &[value]).unwrap();
            s.set_string(b"string", &[value], crate::Expire::At(90_000)).unwrap();
        }
        look(&mut s);
        s.begin_write(Version { ts: 6, seq: 0 });
        for (name, value) in &more {
            s.hash_set(b"hash", &[(name, value)]).unwrap();
            s.set_add(b"set", &[name]).unwrap();
        }
        for name in gone.iter().map(|i| *i.get(&names)) {
            s.hash_remove(b"hash", &[name]).unwrap();
            s.set_remove(b"set", &[name]).unwrap();
        }
        look(&mut s);
        s.flush();
        look(&mut s);
    }
}

/// With another thread for an owner: torn within a command, too, and within a transaction's.
#[test]
fn an_owner_in_the_middle_of_a_command_is_not_believed() {
    let (mut s, stop) = (shard(4), AtomicBool::new(false));
    let turn = |s: &mut Shard, n: u64| {
        let text = n.to_string().repeat(1 + n as usize % 20);
        let v = text.as_bytes();
        s.begin_write(Version { ts: 10 * n, seq: 0 });
        match n % 40 {
            0 => drop(s.delete(b"h")),
            30..35 => {
                s.begin_txn(Version { ts: 10 * n + 1, seq: 0 }, n, &[]);
                s.hash_remove(b"h", &[b"f", b"g"]).unwrap();
                s.hash_set(b"h", &[(b"f", v)]).unwrap();
                s.hash_set(b"h", &[(b"g", v)]).unwrap();
                let record = s.end_txn();
                s.bump_epoch();
                s.forget_txns(&record.into_iter().collect::<Vec<_>>());
            }
            k => drop(s.hash_set(b"h", &[(b"f", v), (b"g", v), (format!("o{k}").as_bytes(), v)]).unwrap()),
        }
        s.tick(1000 + n / 64);
    };
    turn(&mut s, 1);
    let mut fetcher = Fetcher::new(&s, 9);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let (mut answered, mut changed) = (0u32, 0u32);
            while !stop.load(Ordering::Relaxed) || answered < 200 {
                match fetcher.ask("hmget h f g", &mut || {}) {
                    Ok(reply) => {
                        answered += 1;
                        assert!(alike(&reply).is_some(), "half of an HSET: {}", reply.escape_ascii());
                    }
                    Err(_) => changed += 1,
                }
            }
            (answered, changed)
        });
        for n in 2..60_000 {
            if reading.is_finished() {
                break;
            }
            turn(&mut s, n);
        }
        stop.store(true, Ordering::Relaxed);
        let (answered, changed) = reading.join().unwrap();
        assert!(answered > 100 && changed > 0, "{answered} answered, {changed} changed");
    });
}

/// Bytes that no owner writes, under a checksum that fits, are nobody's answer and no reason to leave the region.
#[test]
fn lies_are_left_to_messages() {
    for lie in [0u64, 1 << 30, u64::MAX] {
        let mut s = shard(0);
        s.hash_set(b"h", &[(b"f", b"v")]).unwrap();
        let mut fetcher = Fetcher::new(&s, 3);
        assert_eq!(fetcher.ask("hget h f", &mut || {}).unwrap(), b"$1\r\nv\r\n");
        let address = {
            let key = KeyRead::new(&fetcher.cache, DEFAULT_SEED, b"h", Part::Root, 1000);
            key.root.ask()[0]
        };
        // The header's word that names the table, of which the checksum knows nothing.
        let words = address.offset as usize / 8 + 3 + shard::TABLE;
        (*fetcher.memory).as_ref()[words].store(lie, Ordering::Relaxed);
        assert!(fetcher.ask("hget h f", &mut || {}).is_err(), "a table that is none: {lie:#x}");
        assert!(fetcher.rounds < 4, "{} round trips for nothing", fetcher.rounds);
    }
}

#[test]
fn packed_lies_are_left_to_messages() {
    let config = Config { reserve_bytes: 1 << 24, ..Config::default() };
    let mut arena = kintsugidb_arena::Arena::create(config).unwrap();
    let mut fetcher = Fetcher::of(arena.reader().memory(), 3);
    let mut hget = |value: &[u8]| {
        let kind = Kind::PackedHash;
        let cell = NewCell { kind, key: b"h", value: &[value], ts: 1, ..NewCell::default() };
        arena.publish(Table::ROOT, fingerprint(b"h"), &cell).unwrap();
        [fetcher.ask("hget h f", &mut || {}), fetcher.ask("hlen h", &mut || {})]
    };
    let [found, count] = hget(b"\x01\x00\x01f\x01v");
    assert_eq!((&found.unwrap()[..], &count.unwrap()[..]), (&b"$1\r\nv\r\n"[..], &b":1\r\n"[..]));
    let lies: [&[u8]; 7] = [
        b"",
        b"\x01",
        b"\x02\x00\x01f\x01v",
        b"\x01\x00\x01f\x01v!",
        b"\x01\x00\x01f\x7fv",
        b"\x01\x00\x01f\xff\xff\xff\xff\xff\xffv",
        b"\xff\xff\x01f\x01v",
    ];
    for lie in lies {
        assert!(hget(lie).iter().all(|r| *r == Err(Stop::GiveUp)), "{}", lie.escape_ascii());
    }
}

/// What the documentation says of the number of reads.
#[test]
fn reads_and_round_trips_are_as_few_as_they_are_said_to_be() {
    let mut s = shard(4);
    s.hash_set(b"small", &[(b"f", b"v")]).unwrap();
    for i in 0..100 {
        s.hash_set(b"large", &[(format!("f{i}").as_bytes(), b"v")]).unwrap();
    }
    let mut fetcher = Fetcher::new(&s, 3);
    let mut cost = |line: &str| {
        fetcher.ask(line, &mut || {}).unwrap();
        (fetcher.rounds, fetcher.reads)
    };
    // Descriptor (5), control and bucket, cell and what confirms it.
    assert_eq!(cost("hget small f"), (3, 5 + 2 + 5));
    assert_eq!(cost("hget small f"), (1, 2), "cell, flushes");
    // The header once more, by its address; then the sub-table beside COUNT and MODIFIED.
    assert_eq!(cost("hget large f7").0, 2 + 1 + 3);
    assert_eq!(cost("hget large f7"), (2, 3 + 1 + 2 + 3), "header | words, item, witness");
    assert_eq!(cost("hget large f8").0, 1 + 2, "the bucket, then the cell and the witness");
    assert_eq!(cost("hmget large f7 f8"), (2, 3 + 1 + 2 * 2 + 3));
    assert_eq!(cost("hlen large"), (2, 3 + 1 + 3));
}

#[test]
fn the_record_of_a_transaction_that_is_over_is_read_once() {
    let mut s = shard(4);
    s.begin_txn(Version { ts: 5, seq: 0 }, 5, &[fingerprint(b"k"), fingerprint(b"elsewhere")]);
    s.set_string(b"k", &[b"old"], crate::Expire::Clear).unwrap();
    let first = s.end_txn().unwrap();
    let mut fetcher = Fetcher::new(&s, 3);
    let mut cost = || {
        fetcher.ask("get k", &mut || {}).unwrap();
        (fetcher.rounds, fetcher.reads)
    };
    cost();
    let with_record = (2, 2 + 2 + 2);
    assert_eq!((cost(), cost()), (with_record, with_record), "it may be missing elsewhere");
    s.mark_stable(first.handle());
    assert_eq!((cost(), cost(), cost()), (with_record, (1, 2), (1, 2)));
    s.forget_txns(&[first]);
    assert_eq!(cost(), (1, 2));
    // Another version is another transaction's.
    s.begin_txn(Version { ts: 6, seq: 0 }, 6, &[fingerprint(b"k"), fingerprint(b"elsewhere")]);
    s.set_string(b"k", &[b"new"], crate::Expire::Clear).unwrap();
    let second = s.end_txn().unwrap();
    cost();
    assert_eq!(cost(), with_record);
    s.forget_txns(&[second]);
    assert_eq!((cost(), cost()), (with_record, (1, 2)), "gone is over");
}
