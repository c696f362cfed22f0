//! The reads themselves: posted, waited for, and handed over as words.
use super::{BUFFER, Remote};
use crate::{Error, Result};
use kintsugidb_arena::remote::{EPOCH, FLUSHES, Range};
use kintsugidb_fabric::{Connection, Error as FabricError, Failure};
use std::time::Duration;

/// A shard, and ranges of it, to be read one after the other.
pub(super) type List = (usize, Vec<Range>);

/// Lists of ranges; those of one phase in any order, or at once.
#[derive(Clone, Copy, Default)]
pub(super) struct Questions<'a> {
    /// Before all others.
    pub first: &'a [List],
    pub asked: &'a [List],
    /// After all others.
    pub then: &'a [List],
}

#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Phase {
    First,
    Asked,
    Then,
}

/// The words of a superblock that many lists end with: the epoch and the count of flushes, and what is between them.
const TAIL: Range = Range { offset: EPOCH.offset, bytes: FLUSHES.offset + FLUSHES.bytes - EPOCH.offset };

/// One read.
struct Post {
    shard: usize,
    range: Range,
    /// Where in the buffer.
    at: u64,
    /// It is carried out after those of earlier waves.
    wave: usize,
}

/// What to post for some lists, in what order, and where in the buffer the words of each will be.
struct Plan {
    posts: Vec<Post>,
    waves: usize,
    /// Where a list's words begin, how many bytes they are, and where its last word is, if that is one of a [`TAIL`].
    of_lists: Vec<(u64, u64, Option<u64>)>,
}

impl Plan {
    /// What lists end with that may as well be later is read once for all lists of a shard, when all else has been read.
    fn of(lists: &[(Phase, &List)]) -> Plan {
        let (mut posts, mut of_lists, mut tails) = (Vec::new(), Vec::new(), Vec::<(usize, u64)>::new());
        let (mut at, mut wave) = (0, 0);
        for phase in [Phase::First, Phase::Asked, Phase::Then] {
            let mut longest = 0;
            for (_, (shard, ranges)) in lists.iter().filter(|(p, _)| *p == phase) {
                let own = match ranges.split_last() {
                    Some((last, own)) if phase != Phase::First && [EPOCH, FLUSHES].contains(last) => own,
                    _ => &ranges[..],
                };
                let begin = at;
                for (i, range) in own.iter().enumerate() {
                    posts.push(Post { shard: *shard, range: *range, at, wave: wave + i });
                    at += range.bytes;
                }
                longest = longest.max(own.len());
                of_lists.push((begin, at - begin, ranges[own.len()..].first().map(|r| (*shard, r.offset))));
                if own.len() < ranges.len() && !tails.iter().any(|(s, _)| s == shard) {
                    tails.push((*shard, 0));
                }
            }
            wave += longest;
        }
        for (shard, place) in &mut tails {
            posts.push(Post { shard: *shard, range: TAIL, at, wave });
            *place = at;
            at += TAIL.bytes;
        }
        let place = |(shard, offset): (usize, u64)| {
            let tail = tails.iter().find(|(s, _)| *s == shard).map_or(0, |(_, place)| *place);
            tail + offset - TAIL.offset
        };
        let of_lists = of_lists.into_iter().map(|(at, bytes, last)| (at, bytes, last.map(place))).collect();
        Plan { posts, waves: wave + 1, of_lists }
    }
}

fn bytes_of(ranges: &[Range]) -> u64 {
    ranges.iter().map(|r| r.bytes).sum()
}

impl Remote {
    fn now(&self) -> Duration {
        self.how.transport.now()
    }

    /// The words of each list of some questions.
    pub(super) fn fetch(
        &mut self,
        connection: &mut dyn Connection,
        all: Questions<'_>,
    ) -> Result<Vec<Vec<u64>>> {
        let end = self.now() + self.how.timeout;
        let most = connection.capabilities().max_outstanding;
        let phases = [(Phase::First, all.first), (Phase::Asked, all.asked), (Phase::Then, all.then)];
        let lists: Vec<_> =
            phases.iter().flat_map(|(phase, lists)| lists.iter().map(|l| (*phase, l))).collect();
        let mut results = Vec::with_capacity(lists.len());
        let tails = TAIL.bytes * self.caches.len() as u64;
        // As many lists at once as the buffer and the connection take; at least one.
        let mut rest = &lists[..];
        while !rest.is_empty() {
            let (mut bytes, mut ranges) = (0, 0);
            let fits = |(_, (_, list)): &&(Phase, &List)| {
                let first = ranges == 0;
                (bytes, ranges) = (bytes + bytes_of(list), ranges + list.len());
                first || (bytes + tails <= BUFFER as u64 && ranges <= most)
            };
            let (now, later) = rest.split_at(rest.iter().take_while(fits).count());
            self.fetch_some(connection, now, end, &mut results)?;
            rest = later;
        }
        Ok(results)
    }

    /// The same of as much as can be under way at once.
    fn fetch_some(
        &mut self,
        connection: &mut dyn Connection,
        lists: &[(Phase, &List)],
        end: Duration,
        results: &mut Vec<Vec<u64>>,
    ) -> Result<()> {
        let plan = Plan::of(lists);
        // All at once where the order is kept; else wave after wave.
        let in_order = self.in_order;
        for wave in 0..if in_order { 1 } else { plan.waves } {
            let mut under_way = 0;
            for post in plan.posts.iter().filter(|p| in_order || p.wave == wave) {
                let span = self.buffer.span(post.at, post.range.bytes);
                while let Err(e) = connection.read(post.shard as u32, post.range.offset, span, 0) {
                    match e {
                        FabricError::Full => under_way -= self.collect(connection, end)?,
                        e => return Err(e.into()),
                    }
                }
                under_way += 1;
            }
            while under_way > 0 {
                under_way -= self.collect(connection, end)?;
            }
        }
        for (at, bytes, tail) in plan.of_lists {
            let mut words = Vec::with_capacity(bytes as usize / 8 + 1);
            for (at, bytes) in [(at, bytes)].into_iter().chain(tail.map(|at| (at, 8))) {
                let read = self.buffer.memory().range(at, bytes).map_err(Error::Fabric)?;
                words.extend(read.iter().map(|w| w.load(std::sync::atomic::Ordering::Relaxed)));
            }
            results.push(words);
        }
        Ok(())
    }

    /// Waits for completions; how many came.
    fn collect(&mut self, connection: &mut dyn Connection, end: Duration) -> Result<usize> {
        let mut polls = 0u32;
        loop {
            self.done.clear();
            let n = connection.poll(&mut self.done)?;
            match self.done.iter().find_map(|c| c.result.as_ref().err()) {
                None => {}
                Some(Failure::PeerDead) => return Err(Error::Disconnected),
                Some(failed) => return Err(Error::Protocol(format!("a one-sided read failed: {failed}"))),
            }
            if n > 0 {
                return Ok(n);
            }
            polls += 1;
            if polls > 200 {
                if self.now() >= end {
                    return Err(Error::TimedOut(self.how.timeout.as_millis() as u64));
                }
                connection.wait(Duration::from_millis(1))?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(offset: u64) -> Range {
        Range { offset, bytes: 8 }
    }

    /// Eight keys of four shards at known addresses, and all that is asked around them: 24 reads, in an order in which each is late enough.
    #[test]
    fn what_ends_many_lists_is_read_once_and_last() {
        let cell = |i: u64| Range { offset: 4096 * (i + 1), bytes: 128 };
        let link = |i: u64| word(4096 * (i + 1) + 16);
        let epochs: Vec<List> = (0..4).map(|shard| (shard, vec![EPOCH])).collect();
        let keys: Vec<List> = (0..8).map(|i| (i as usize % 4, vec![cell(i), FLUSHES])).collect();
        let mut then: Vec<List> = (0..8).map(|i| (i as usize % 4, vec![link(i), FLUSHES])).collect();
        then.extend(epochs.clone());
        let first = epochs.iter().map(|l| (Phase::First, l));
        let lists: Vec<_> = first
            .chain(keys.iter().map(|l| (Phase::Asked, l)))
            .chain(then.iter().map(|l| (Phase::Then, l)))
            .collect();
        let plan = Plan::of(&lists);
        assert_eq!(plan.posts.len(), 4 + 8 + 8 + 4);
        assert!(
            plan.posts.is_sorted_by_key(|p| p.wave),
            "where the order is kept they are posted as they stand"
        );
        let waves = |wanted: &dyn Fn(Range) -> bool| -> Vec<usize> {
            plan.posts.iter().filter(|p| wanted(p.range)).map(|p| p.wave).collect()
        };
        assert_eq!(waves(&|r| r == EPOCH), [0; 4]);
        assert_eq!(waves(&|r| r.bytes == 128), [1; 8]);
        assert_eq!(waves(&|r| r.bytes == 8 && r.offset > 4096), [2; 8]);
        assert_eq!(waves(&|r| r == TAIL), [3; 4]);
        // Each list finds its words: its own, then the one of its shard's tail.
        assert_eq!(plan.of_lists.len(), lists.len());
        for ((_, (shard, ranges)), (at, bytes, last)) in lists.iter().zip(&plan.of_lists) {
            let own = plan.posts.iter().find(|p| p.at == *at && p.range.bytes > 0).unwrap();
            if *bytes > 0 {
                assert_eq!((own.shard, own.range, *bytes), (*shard, ranges[0], ranges[0].bytes));
            }
            let tail = plan.posts.iter().find(|p| p.range == TAIL && p.shard == *shard).unwrap().at;
            let offset = ranges.last().unwrap().offset;
            let expected = (*bytes < bytes_of(ranges)).then_some(tail + offset - TAIL.offset);
            assert_eq!(*last, expected);
        }
        // No two reads into one place.
        let mut ends: Vec<_> = plan.posts.iter().map(|p| (p.at, p.at + p.range.bytes)).collect();
        ends.sort_unstable();
        assert!(ends.windows(2).all(|w| w[0].1 <= w[1].0));
    }

    /// Within a list nothing changes its place, and a list that goes on after the count of flushes reads it where it stands.
    #[test]
    fn a_list_is_read_in_its_order() {
        let list: List = (7, vec![word(64), FLUSHES, word(72), word(80)]);
        let plan = Plan::of(&[(Phase::Asked, &list)]);
        let posted: Vec<_> = plan.posts.iter().map(|p| (p.range, p.wave)).collect();
        assert_eq!(posted, list.1.iter().copied().zip(0..).collect::<Vec<_>>());
        assert_eq!(plan.of_lists, [(0, 32, None)]);
    }
}
