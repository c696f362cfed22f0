//! Lookups word by word, with the owner at work between any two words: what is found must have been there meanwhile.
use super::lookup::Stage;
use super::*;
use crate::layout::{Shape, Table, cell, current_link};
use crate::{Arena, Config, NewCell, hash};

struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

const KEYS: usize = 6;

/// An owner who changes a few keys, and grows its index, and remembers every value that each key has had.
struct World {
    arena: Arena,
    random: Random,
    now_ms: u64,
    ts: u64,
    history: Vec<Vec<Option<Vec<u8>>>>,
    others: u64,
    fresh: Vec<u64>,
    /// The canary: ranges are read in the opposite order.
    backwards: bool,
}

fn name(key: usize) -> Vec<u8> {
    format!("key-{key}").into_bytes()
}

impl World {
    fn new(seed: u64) -> World {
        let config = Config { reserve_bytes: 1 << 24, grace_ms: 0, initial_keys: 4, ..Config::default() };
        World {
            arena: Arena::create_heap(config).unwrap(),
            random: Random(seed * 2 + 1),
            now_ms: 1,
            ts: 1,
            history: vec![vec![None]; KEYS],
            others: 0,
            fresh: Vec::new(),
            backwards: false,
        }
    }

    /// One act of the owner.
    fn act(&mut self) {
        let key = self.random.next(KEYS as u64) as usize;
        self.ts += 1;
        match self.random.next(12) {
            0..6 => {
                let value = self.ts.to_le_bytes().repeat(1 + self.random.next(4) as usize);
                let kind = if self.random.next(4) == 0 { u64::from(u32::MAX) } else { 0 };
                let cell = NewCell {
                    expire_at_ms: kind,
                    key: &name(key),
                    value: &[&value],
                    ts: self.ts,
                    words: (self.random.next(3) == 0).then_some([2 * self.ts, 0, 0, self.ts]),
                    ..NewCell::default()
                };
                self.arena.publish(Table::ROOT, hash(&name(key)), &cell).unwrap();
                self.history[key].push(Some(value));
            }
            6 => {
                if self.arena.remove(Table::ROOT, hash(&name(key)), &name(key)) {
                    self.history[key].push(None);
                }
            }
            7..9 => {
                let other = format!("other-{}", self.others);
                self.others += 1;
                self.fresh.push(self.others - 1);
                let cell =
                    NewCell { key: other.as_bytes(), value: &[b"x"], ts: self.ts, ..NewCell::default() };
                self.arena.publish(Table::ROOT, hash(other.as_bytes()), &cell).unwrap();
            }
            9 if self.fresh.len() > 40 => {
                for other in self.fresh.drain(..) {
                    let other = format!("other-{other}");
                    self.arena.remove(Table::ROOT, hash(other.as_bytes()), other.as_bytes());
                }
            }
            _ => {
                self.now_ms += 1;
                self.arena.tick(self.now_ms);
            }
        }
    }

    /// Reads ranges one after the other, each in any order, while the owner acts once in `pause` words.
    fn read(&mut self, ranges: &[Range], pause: u64) -> Vec<u64> {
        if self.backwards && ranges.len() > 1 {
            let mut parts: Vec<_> = ranges.iter().rev().map(|r| self.read(&[*r], pause)).collect();
            parts.reverse();
            return parts.concat();
        }
        let mut all = Vec::new();
        for range in ranges {
            let mut order: Vec<u64> = (0..range.bytes / 8).collect();
            for i in (1..order.len()).rev() {
                order.swap(i, self.random.next(i as u64 + 1) as usize);
            }
            let mut words = vec![0; order.len()];
            for i in order {
                if self.random.next(pause) == 0 {
                    self.act();
                }
                let reader = self.arena.reader();
                words[i as usize] =
                    reader.region.words(range.offset + 8 * i, 1)[0].load(crate::sync::Ordering::Relaxed);
            }
            all.extend(words);
        }
        all
    }
}

#[derive(Default)]
struct Cache {
    descriptor: Option<Descriptor>,
    addresses: Vec<Option<Address>>,
    /// Witnesses that held, and that did not.
    held: u64,
    changed: u64,
}

impl Cache {
    fn new() -> Self {
        Self { addresses: vec![None; KEYS], ..Self::default() }
    }
}

/// Looks one key up. Answers whether it was found, and panics if that is not what it was meanwhile. `None`: busy.
fn look_up(w: &mut World, cache: &mut Cache, key: usize, pause: u64) -> Option<bool> {
    let region = w.arena.reader().region.len();
    let bytes = name(key);
    let began = w.history[key].len() - 1;
    let mut lookup = match cache.addresses[key] {
        Some(a) => Lookup::by_address(region, Table::ROOT, hash(&bytes), &bytes, cache.descriptor, a),
        None => Lookup::by_index(region, Table::ROOT, hash(&bytes), &bytes, cache.descriptor),
    };
    let outcome = loop {
        let words = w.read(lookup.ask(), pause);
        match lookup.feed(&words) {
            Ok(Some(outcome)) => break outcome,
            Ok(None) => {}
            Err(Busy) => return None,
        }
    };
    cache.descriptor = lookup.descriptor();
    let (found, address, witness) = match outcome {
        Outcome::Found(item) => {
            let words = [[0; 4], [2 * item.ts, 0, 0, item.ts]];
            assert!(words.contains(&item.words), "key {key}: the words of who had the place before");
            let witness = if item.words[0] == 0 { item.witness() } else { item.unchanged().unwrap() };
            (Some(item.value.clone()), Some(item.address), witness)
        }
        Outcome::Absent(witness) => (None, None, witness),
    };
    cache.addresses[key] = address;
    assert!(
        w.history[key][began..].contains(&found),
        "key {key}: {found:?} is not among {:?}",
        &w.history[key][began..]
    );
    let (then, since) = (w.history[key].len(), w.random.next(3));
    (0..since).for_each(|_| w.act());
    let now = w.history[key].len();
    let words = w.read(&witness.ask(), pause);
    if witness.holds(&words) {
        assert_eq!(
            (then, w.history[key][then - 1].as_ref()),
            (now, found.as_ref()),
            "key {key}: a false witness"
        );
        cache.held += 1;
    } else {
        cache.changed += 1;
    }
    Some(found.is_some())
}

#[test]
fn a_lookup_finds_what_the_key_was_while_it_ran() {
    for seed in 0..60 {
        let mut w = World::new(seed);
        let mut cache = Cache::new();
        let (mut found, mut absent, mut busy) = (0, 0, 0);
        for round in 0..400 {
            // From an idle owner to one who acts at every third word.
            let pause = [u64::MAX, 200, 40, 10, 3][round % 5];
            if pause == u64::MAX {
                w.act();
            }
            let key = w.random.next(KEYS as u64) as usize;
            match look_up(&mut w, &mut cache, key, pause) {
                Some(true) => found += 1,
                Some(false) => absent += 1,
                None => {
                    busy += 1;
                    assert!(pause <= 40, "seed {seed}: busy though hardly anything happens");
                }
            }
        }
        assert!(found > 100 && absent > 5, "seed {seed}: {found} found, {absent} absent, {busy} busy");
        assert!(
            cache.held > 100 && cache.changed > 5,
            "seed {seed}: {} held, {} not",
            cache.held,
            cache.changed
        );
    }
}

#[test]
fn ranges_that_are_read_in_another_order_are_noticed() {
    let wrong = (0..60).any(|seed| {
        let run = || {
            let mut w = World::new(seed);
            w.backwards = true;
            let mut cache = Cache::new();
            for round in 0..400 {
                let key = w.random.next(KEYS as u64) as usize;
                look_up(&mut w, &mut cache, key, [40, 10, 3][round % 3]);
            }
        };
        std::panic::catch_unwind(run).is_err()
    });
    assert!(wrong, "the check is blind");
}

/// The first word of a cell and the entry that leads to it can be as they were, and the key that of another who had the place in between.
#[test]
fn a_key_that_is_torn_is_not_another_key() {
    let mut w = World::new(1);
    let key = name(0);
    let cell = NewCell { key: &key, value: &[b"v"], ts: 1, ..NewCell::default() };
    w.arena.publish(Table::ROOT, hash(&key), &cell).unwrap();
    let region = w.arena.reader().region.len();
    let mut lookup = Lookup::by_index(region, Table::ROOT, hash(&key), &key, None);
    let mut torn = 0;
    loop {
        let mut words = w.read(lookup.ask(), u64::MAX);
        if torn == 0 && matches!(lookup.stage, Stage::Candidate { .. }) {
            let at = Shape::short(words[cell::W0]).key_at();
            words[at] ^= 1;
            torn += 1;
        }
        match lookup.feed(&words) {
            Ok(None) => {}
            Ok(Some(Outcome::Found(item))) => break assert_eq!(item.value, b"v"),
            other => panic!("{other:?} of a key that is there"),
        }
    }
    assert_eq!((torn, lookup.retries()), (1, 1));
}

#[test]
fn links_are_followed_from_cached_addresses() {
    let mut w = World::new(5);
    let region = w.arena.reader().region.len();
    let publish = |w: &mut World, value: &[u8]| {
        w.ts += 1;
        let cell = NewCell { key: b"k", value: &[value], ts: w.ts, ..NewCell::default() };
        w.arena.publish(Table::ROOT, hash(b"k"), &cell).unwrap();
    };
    let get = |w: &mut World, from: Option<Address>, descriptor| {
        let mut lookup = match from {
            Some(a) => Lookup::by_address(region, Table::ROOT, hash(b"k"), b"k", descriptor, a),
            None => Lookup::by_index(region, Table::ROOT, hash(b"k"), b"k", descriptor),
        };
        let mut rounds = 0;
        loop {
            rounds += 1;
            let words = w.read(lookup.ask(), u64::MAX);
            match lookup.feed(&words).unwrap() {
                Some(Outcome::Found(item)) => return (item, lookup.descriptor(), lookup.followed(), rounds),
                Some(Outcome::Absent(_)) => panic!("it is there"),
                None => {}
            }
        }
    };
    publish(&mut w, b"one");
    let (one, descriptor, _, rounds) = get(&mut w, None, None);
    assert_eq!((&one.value[..], rounds), (&b"one"[..], 3), "descriptor, bucket, cell");
    let (_, _, _, rounds) = get(&mut w, None, descriptor);
    assert_eq!(rounds, 2, "bucket, cell");
    let (_, _, _, rounds) = get(&mut w, Some(one.address), descriptor);
    assert_eq!(rounds, 1, "the cell alone");
    publish(&mut w, b"two");
    let (two, _, followed, rounds) = get(&mut w, Some(one.address), descriptor);
    assert_eq!((&two.value[..], followed, rounds), (&b"two"[..], 1, 2));
    let large = vec![9; 5000];
    publish(&mut w, &large);
    assert_eq!(get(&mut w, None, descriptor).0.value, large);
    assert_eq!(get(&mut w, Some(two.address), descriptor).0.value, large);
}

/// A flush leaves most cells as they are, to be freed later.
#[test]
#[cfg_attr(miri, ignore = "thousands of cells")]
fn an_address_is_worth_nothing_after_a_flush() {
    let mut w = World::new(3);
    let region = w.arena.reader().region.len();
    let names: Vec<_> = (0..4000).map(|i| format!("many-{i}").into_bytes()).collect();
    for name in &names {
        let cell = NewCell { key: name, value: &[b"v"], ts: 1, ..NewCell::default() };
        w.arena.publish(Table::ROOT, hash(name), &cell).unwrap();
    }
    let end = |w: &mut World, mut lookup: Lookup<'_>| {
        loop {
            let words = w.read(lookup.ask(), u64::MAX);
            if let Some(outcome) = lookup.feed(&words).unwrap() {
                return (outcome, lookup.descriptor());
            }
        }
    };
    let mut found = Vec::new();
    for name in &names {
        match end(&mut w, Lookup::by_index(region, Table::ROOT, hash(name), name, None)) {
            (Outcome::Found(item), descriptor) => found.push((item, descriptor)),
            (other, _) => panic!("{other:?}"),
        }
    }
    w.arena.flush();
    let mut as_before = 0;
    for (name, (item, descriptor)) in names.iter().zip(found) {
        let head = w.read(&[Range { offset: item.address.cell.offset(), bytes: 24 }], u64::MAX);
        as_before += usize::from(head[cell::LINK] == current_link(item.address.cell.seq()));
        let witness = item.witness();
        assert!(!witness.holds(&w.read(&witness.ask(), u64::MAX)), "it was flushed");
        let lookup = Lookup::by_address(region, Table::ROOT, hash(name), name, descriptor, item.address);
        assert!(matches!(end(&mut w, lookup).0, Outcome::Absent(_)), "it was flushed");
    }
    assert!(as_before > 1000, "the cells did not look alive: nothing was tested");
}

#[test]
#[cfg_attr(miri, ignore = "a large cell")]
fn what_can_never_be_read_is_given_up_at_once() {
    let mut w = World::new(9);
    let region = w.arena.reader().region.len();
    let large = vec![7; MAX_CELL as usize];
    let cell = NewCell { key: b"k", value: &[&large], ts: 1, ..NewCell::default() };
    w.arena.publish(Table::ROOT, hash(b"k"), &cell).unwrap();
    let table = w.arena.new_table(1).unwrap();
    w.arena.drop_table(table);
    let nowhere = Table::from_raw(Ref::new(region, 2).to_raw());
    for t in [Table::ROOT, table, nowhere] {
        let mut lookup = Lookup::by_index(region, t, hash(b"k"), b"k", None);
        let mut rounds = 0;
        loop {
            rounds += 1;
            assert!(rounds < 5 && lookup.ask().iter().all(|r| r.offset + r.bytes <= region));
            let words = w.read(lookup.ask(), u64::MAX);
            match lookup.feed(&words) {
                Ok(None) => {}
                other => break assert_eq!(other, Err(Busy)),
            }
        }
        assert_eq!(lookup.retries(), 1);
    }
}

#[test]
fn records_of_transactions_are_read_until_they_are_freed() {
    let mut w = World::new(7);
    let region = w.arena.reader().region.len();
    let record = w.arena.new_txn_record(77, &[1, 2, 3]).unwrap();
    let read = |w: &mut World| {
        let mut bytes = 0;
        loop {
            let ask = ask_record(region, record, bytes).unwrap();
            let words = w.read(&ask, u64::MAX);
            match feed_record(record, &words) {
                Ok(found) => return found,
                Err(more) => bytes = more,
            }
        }
    };
    let siblings = vec![1, 2, 3];
    let at = |under_way, stable| Some(Record { txn: 77, siblings: siblings.clone(), under_way, stable });
    assert_eq!(read(&mut w), at(true, false));
    w.arena.end_change(record);
    assert_eq!(read(&mut w), at(false, false));
    w.arena.mark_txn_stable(record);
    assert_eq!(read(&mut w), at(false, true));
    w.arena.free_txn_record(record);
    assert_eq!(read(&mut w), None);
}

#[test]
fn garbage_makes_a_lookup_end_and_never_leave_the_region() {
    let mut random = Random(99);
    for round in 0..3000u64 {
        let region = 1 << 20;
        let cell = Ref::from_raw(random.next(u64::MAX));
        let start = Address { cell, bytes: random.next(4096), mutable: random.next(2) == 1, flushes: 0 };
        let mut lookup = if round % 2 == 0 {
            Lookup::by_index(region, Table::ROOT, hash(b"k"), b"k", None)
        } else {
            Lookup::by_address(region, Table::ROOT, hash(b"k"), b"k", None, start)
        };
        for step in 0.. {
            assert!(step < 2000, "it does not end");
            for range in lookup.ask() {
                assert!(range.offset + range.bytes <= region && range.bytes <= MAX_CELL);
            }
            let asked: u64 = lookup.ask().iter().map(|r| r.bytes / 8).sum();
            let good = Table::ROOT_SEQ | (Kind::Table as u64) << 24;
            let words: Vec<u64> = (0..asked)
                .map(|_| match random.next(4) {
                    0 => 0,
                    1 => good,
                    2 => random.next(region),
                    _ => random.next(u64::MAX),
                })
                .collect();
            match lookup.feed(&words) {
                Ok(Some(Outcome::Found(item))) => assert_eq!(item.value, b"never", "a checksum by chance"),
                Ok(Some(Outcome::Absent(_))) | Err(Busy) => break,
                Ok(None) => {}
            }
        }
    }
}
