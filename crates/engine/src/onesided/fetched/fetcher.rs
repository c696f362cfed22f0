//! For tests: one key, fetched word by word, with something else between any two words.
use super::{Cache, KeyRead, Point, Range, Stop};
use crate::Shard;
use kintsugidb_arena::DEFAULT_SEED;
use kintsugidb_wire::{Proto, Reply};
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) type Memory = std::sync::Arc<dyn AsRef<[AtomicU64]> + Send + Sync>;

pub(super) struct Random(pub u64);

impl Random {
    pub fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// A rule that is broken on purpose.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Broken {
    Nothing,
    /// The witness is not asked for.
    Witness,
    /// It is not asked for what a transaction wrote, if it is in one cell.
    Step,
}

/// Who reads by fetching words.
pub(super) struct Fetcher {
    pub memory: Memory,
    pub cache: Cache,
    random: Random,
    pub broken: Broken,
    now_ms: u64,
    /// Ranges and bytes that the last answer took, and round trips.
    pub reads: usize,
    bytes: u64,
    pub rounds: usize,
}

impl Fetcher {
    pub fn new(shard: &Shard, seed: u64) -> Self {
        Self::of(shard.reader().memory(), seed)
    }

    pub fn of(memory: Memory, seed: u64) -> Self {
        let bytes = 8 * (*memory).as_ref().len() as u64;
        let cache = Cache::new(bytes, 300);
        let (reads, bytes, rounds) = (0, 0, 0);
        let random = Random(seed * 2 + 1);
        Self { memory, cache, random, broken: Broken::Nothing, now_ms: 1000, reads, bytes, rounds }
    }

    /// One range, its words in any order; `between` runs before each of them.
    fn fetch(&mut self, range: Range, between: &mut dyn FnMut()) -> Vec<u64> {
        self.reads += 1;
        self.bytes += range.bytes;
        let mut order: Vec<usize> = (0..range.bytes as usize / 8).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, self.random.below(i as u64 + 1) as usize);
        }
        let mut words = vec![0; order.len()];
        for i in order {
            between();
            words[i] = (*self.memory).as_ref()[range.offset as usize / 8 + i].load(Ordering::Relaxed);
        }
        words
    }

    /// Lists in any order, ranges of a list one after the other; or the lists of several keys.
    fn fetch_lists(&mut self, lists: &[Vec<Range>], between: &mut dyn FnMut()) -> Vec<Vec<u64>> {
        self.rounds += usize::from(!lists.is_empty());
        let mut fed: Vec<Vec<u64>> = lists.iter().map(|_| Vec::new()).collect();
        let mut at = vec![0; lists.len()];
        loop {
            let open: Vec<usize> = (0..lists.len()).filter(|i| at[*i] < lists[*i].len()).collect();
            if open.is_empty() {
                return fed;
            }
            let i = open[self.random.below(open.len() as u64) as usize];
            let words = self.fetch(lists[i][at[i]], between);
            fed[i].extend(words);
            at[i] += 1;
        }
    }

    /// One attempt at a call on one key.
    pub fn attempt(
        &mut self,
        point: Point,
        args: &[&[u8]],
        between: &mut dyn FnMut(),
    ) -> std::result::Result<Vec<u8>, Stop> {
        (self.reads, self.bytes, self.rounds) = (0, 0, 0);
        let part = point.part(args).ok_or(Stop::GiveUp)?;
        let mut key = KeyRead::new(&self.cache, DEFAULT_SEED, args[1], part, self.now_ms);
        for _ in 0..200 {
            let mut lists = key.ask()?;
            let n = lists.len();
            let last = key.may_end();
            let step = key.was_in_transaction() && self.broken != Broken::Step;
            let hear = last && (key.is_of_several_cells() || step) && self.broken != Broken::Witness;
            let witness = key.witness().filter(|_| hear);
            let mut fed = self.fetch_lists(&lists, between);
            if let Some(w) = witness {
                lists.push(w.ask());
                self.rounds -= usize::from(n > 0);
                fed.extend(self.fetch_lists(&[w.ask()], between));
            }
            let heard = witness.map(|w| w.holds(&fed[n]));
            let mut fed = fed.into_iter().take(n);
            if n > 0 {
                key.feed(&mut fed, &mut self.cache)?;
            }
            if last && key.has_ended() {
                let half = key.record().is_some_and(|r| r.under_way);
                if heard == Some(false) || half {
                    return Err(Stop::Changed);
                }
                let mut out = Reply::new(Proto::Resp2);
                point.reply(&[key], &mut out);
                return Ok(out.into_bytes());
            }
        }
        panic!("it does not end");
    }

    pub fn ask(&mut self, line: &str, between: &mut dyn FnMut()) -> std::result::Result<Vec<u8>, Stop> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let point = Point::of(line.split(' ').next().unwrap()).unwrap();
        self.attempt(point, &args, between)
    }
}
