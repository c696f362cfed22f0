//! The reads themselves: posted, waited for, and handed over as words.
use super::{BUFFER, Remote};
use crate::{Error, Result};
use kintsugidb_arena::remote::Range;
use kintsugidb_fabric::{Connection, Error as FabricError, Failure};
use std::time::Duration;

/// A shard, and ranges of it.
pub(super) type List = (usize, Vec<Range>);

fn bytes_of(ranges: &[Range]) -> u64 {
    ranges.iter().map(|r| r.bytes).sum()
}

impl Remote {
    fn now(&self) -> Duration {
        self.how.transport.now()
    }

    /// Reads lists of ranges of shards: those of one list one after the other, and `then` after all of `asked`. The words of each list.
    pub(super) fn fetch(
        &mut self,
        connection: &mut dyn Connection,
        asked: &[List],
        then: &[List],
    ) -> Result<Vec<Vec<u64>>> {
        let end = self.now() + self.how.timeout;
        let most = connection.capabilities().max_outstanding;
        let mut results = Vec::with_capacity(asked.len() + then.len());
        // As many lists at once as the buffer and the connection take; at least one.
        let (mut asked, mut then) = (asked, then);
        while !asked.is_empty() || !then.is_empty() {
            let (mut bytes, mut ranges) = (0, 0);
            let mut fits = |(_, list): &&List| {
                let first = ranges == 0;
                (bytes, ranges) = (bytes + bytes_of(list), ranges + list.len());
                first || (bytes <= BUFFER as u64 && ranges <= most)
            };
            let now = asked.iter().take_while(&mut fits).count();
            let later = if now == asked.len() { then.iter().take_while(&mut fits).count() } else { 0 };
            self.fetch_some(connection, &asked[..now], &then[..later], end, &mut results)?;
            (asked, then) = (&asked[now..], &then[later..]);
        }
        Ok(results)
    }

    /// The same of as much as can be under way at once.
    fn fetch_some(
        &mut self,
        connection: &mut dyn Connection,
        asked: &[List],
        then: &[List],
        end: Duration,
        results: &mut Vec<Vec<u64>>,
    ) -> Result<()> {
        // All at once where the order is kept; else the first of each list, when they are here the second, and so on.
        let longest = |lists: &[List]| lists.iter().map(|(_, r)| r.len()).max().unwrap_or(0);
        let before = longest(asked);
        let waves = if self.in_order { 1 } else { before + longest(then) };
        let lists = || asked.iter().map(|l| (0, l)).chain(then.iter().map(|l| (before, l)));
        for wave in 0..waves {
            let (mut at, mut under_way) = (0, 0);
            for (first, (shard, ranges)) in lists() {
                for (i, range) in ranges.iter().enumerate() {
                    let span = self.buffer.span(at, range.bytes);
                    at += range.bytes;
                    if !self.in_order && first + i != wave {
                        continue;
                    }
                    while let Err(e) = connection.read(*shard as u32, range.offset, span, 0) {
                        match e {
                            FabricError::Full => under_way -= self.collect(connection, end)?,
                            e => return Err(e.into()),
                        }
                    }
                    under_way += 1;
                }
            }
            while under_way > 0 {
                under_way -= self.collect(connection, end)?;
            }
        }
        let mut at = 0;
        for (_, (_, ranges)) in lists() {
            let bytes = bytes_of(ranges);
            let words = self.buffer.memory().range(at, bytes).map_err(Error::Fabric)?;
            results.push(words.iter().map(|w| w.load(std::sync::atomic::Ordering::Relaxed)).collect());
            at += bytes;
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
