//! The order of a big sorted set: an array of (score, member), cut into chunks.
//!
//! ```text
//!   sums    Fenwick tree over the chunks' lengths: rank -> chunk and chunk -> rank in O(log chunks)
//!   chunks  [ (1.0, a) (1.0, b) (2.5, k) … ] [ … ] [ … ]      at most CHUNK entries each, none empty, all in order
//! ```
//! A member is kept as a reference of 8 bytes (`T`) to the cell that holds its bytes, so an entry is 16 bytes and a sorted
//! set costs about 20 bytes a member here, whatever its members' lengths; comparing two members with the same score
//! follows the reference. Any search is a partition point: first of the chunks by their last entries, then in a chunk. A full
//! chunk is halved; at the very end a new one is begun instead, so that ascending inserts leave full chunks behind.

/// The most entries in a chunk.
const CHUNK: usize = 256;

pub(crate) struct Order<T> {
    chunks: Vec<Vec<(f64, T)>>,
    sums: Vec<u32>,
    len: usize,
}

impl<T: Copy> Order<T> {
    pub(crate) fn new() -> Self {
        Self { chunks: Vec::new(), sums: Vec::new(), len: 0 }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of the heap that it takes.
    pub(crate) fn bytes(&self) -> usize {
        let entries: usize = self.chunks.iter().map(Vec::capacity).sum();
        entries * size_of::<(f64, T)>()
            + self.chunks.capacity() * size_of::<Vec<(f64, T)>>()
            + self.sums.capacity() * size_of::<u32>()
    }

    /// The place of the first entry that is not `before`; `before` holds for a prefix of the order.
    fn partition(&self, before: &impl Fn(f64, T) -> bool) -> (usize, usize) {
        let chunk = self.chunks.partition_point(|c| c.last().is_some_and(|&(s, t)| before(s, t)));
        let at = self.chunks.get(chunk).map_or(0, |c| c.partition_point(|&(s, t)| before(s, t)));
        (chunk, at)
    }

    /// Entries for which `before` holds; it holds for a prefix of the order.
    pub(crate) fn rank_of(&self, before: impl Fn(f64, T) -> bool) -> usize {
        let (chunk, at) = self.partition(&before);
        self.entries_before(chunk) + at
    }

    /// Adds an entry before the first one that is not `before`. The change of [`Order::bytes`].
    pub(crate) fn insert(&mut self, score: f64, item: T, before: impl Fn(f64, T) -> bool) -> isize {
        let was = self.shallow_bytes();
        let mut grown = 0isize;
        let (mut chunk, mut at) = self.partition(&before);
        if chunk == self.chunks.len() && chunk > 0 {
            chunk -= 1;
            at = self.chunks[chunk].len();
        }
        if self.chunks.is_empty() {
            self.chunks.push(Vec::new());
            self.rebuild();
        } else if self.chunks[chunk].len() == CHUNK {
            if chunk + 1 == self.chunks.len() && at == CHUNK {
                self.chunks.push(Vec::new());
                (chunk, at) = (chunk + 1, 0);
            } else {
                let full = &mut self.chunks[chunk];
                let upper = full.split_off(CHUNK / 2);
                grown += (upper.capacity() * size_of::<(f64, T)>()) as isize;
                self.chunks.insert(chunk + 1, upper);
                if at > CHUNK / 2 {
                    (chunk, at) = (chunk + 1, at - CHUNK / 2);
                }
            }
            self.rebuild();
        }
        let c = &mut self.chunks[chunk];
        let capacity = c.capacity();
        c.insert(at, (score, item));
        grown += ((c.capacity() - capacity) * size_of::<(f64, T)>()) as isize;
        self.len += 1;
        self.add(chunk, 1);
        grown + self.shallow_bytes() - was
    }

    /// Removes the first entry that is not `before`. The change of [`Order::bytes`].
    pub(crate) fn remove(&mut self, before: impl Fn(f64, T) -> bool) -> isize {
        let was = self.shallow_bytes();
        let mut grown = 0;
        let (chunk, at) = self.partition(&before);
        let Some(c) = self.chunks.get_mut(chunk) else { return 0 };
        c.remove(at);
        self.len -= 1;
        let left = c.len();
        let room = |v: &Vec<(f64, T)>| (v.capacity() * size_of::<(f64, T)>()) as isize;
        if left == 0 {
            grown -= room(&self.chunks.remove(chunk));
            self.rebuild();
        } else if left <= CHUNK / 4 && self.chunks.get(chunk + 1).is_some_and(|n| n.len() + left <= CHUNK / 2)
        {
            let next = self.chunks.remove(chunk + 1);
            let c = &mut self.chunks[chunk];
            grown -= room(&next) + room(c);
            c.extend_from_slice(&next);
            grown += room(c);
            self.rebuild();
        } else {
            self.add(chunk, -1);
        }
        grown + self.shallow_bytes() - was
    }

    /// The entry at a rank.
    #[cfg(test)]
    pub(crate) fn at(&self, rank: usize) -> Option<(f64, T)> {
        self.from(rank).next()
    }

    /// Entries from a rank on, upwards.
    pub(crate) fn from(&self, rank: usize) -> impl Iterator<Item = (f64, T)> {
        let (chunk, at) = self.place(rank);
        let first = self.chunks.get(chunk).and_then(|c| c.get(at..)).unwrap_or_default();
        let rest = self.chunks.get(chunk + 1..).unwrap_or_default();
        first.iter().chain(rest.iter().flatten()).copied()
    }

    /// Entries from a rank on, downwards; from the last one if there are not so many.
    pub(crate) fn down_from(&self, rank: usize) -> impl Iterator<Item = (f64, T)> {
        let (chunk, at) = self.place(rank.min(self.len.saturating_sub(1)));
        let first = self.chunks.get(chunk).and_then(|c| c.get(..=at)).unwrap_or_default();
        let rest = self.chunks.get(..chunk).unwrap_or_default();
        first.iter().rev().chain(rest.iter().rev().flat_map(|c| c.iter().rev())).copied()
    }

    /// Frees up to `n` chunks at the end, without their sums; the bytes freed. Only for what is no longer used.
    pub(crate) fn shrink(&mut self, n: usize) -> usize {
        let before = self.bytes();
        self.sums = Vec::new();
        self.chunks.truncate(self.chunks.len().saturating_sub(n));
        if self.chunks.is_empty() {
            self.chunks = Vec::new();
        }
        before - self.bytes()
    }

    fn shallow_bytes(&self) -> isize {
        (self.chunks.capacity() * size_of::<Vec<(f64, T)>>() + self.sums.capacity() * size_of::<u32>())
            as isize
    }

    /// The chunk and the index of a rank; past the last chunk if there are not so many.
    fn place(&self, rank: usize) -> (usize, usize) {
        if rank >= self.len {
            return (self.chunks.len(), 0);
        }
        let (mut chunk, mut left) = (0, rank);
        let mut step = self.sums.len().next_power_of_two();
        while step > 0 {
            if let Some(&sum) = self.sums.get(chunk + step - 1)
                && sum as usize <= left
            {
                left -= sum as usize;
                chunk += step;
            }
            step /= 2;
        }
        (chunk, left)
    }

    fn entries_before(&self, chunk: usize) -> usize {
        let (mut i, mut sum) = (chunk, 0usize);
        while i > 0 {
            sum += self.sums[i - 1] as usize;
            i &= i - 1;
        }
        sum
    }

    fn add(&mut self, chunk: usize, n: i32) {
        let mut i = chunk + 1;
        while let Some(sum) = self.sums.get_mut(i - 1) {
            *sum = sum.wrapping_add_signed(n);
            i += i & i.wrapping_neg();
        }
    }

    /// Computes the sums again; needed when the number of chunks changes.
    fn rebuild(&mut self) {
        self.sums.clear();
        self.sums.extend(self.chunks.iter().map(|c| c.len() as u32));
        for i in 1..=self.sums.len() {
            let up = i + (i & i.wrapping_neg());
            if up <= self.sums.len() {
                self.sums[up - 1] += self.sums[i - 1];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn before(score: f64, item: u32) -> impl Fn(f64, u32) -> bool {
        move |s, i| (s, i) < (score, item)
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_array(
            ops in prop::collection::vec((any::<bool>(), 0u32..40, 0u32..400), 0..3000),
            ascending in any::<bool>(),
        ) {
            let (mut order, mut plain) = (Order::new(), Vec::<(f64, u32)>::new());
            let mut bytes = order.bytes() as isize;
            for (n, (add, score, item)) in ops.into_iter().enumerate() {
                let add = add || n < 1500;
                let (score, item) = if ascending && add { (n as f64, item) } else { (f64::from(score), item) };
                match (plain.binary_search_by(|e| e.partial_cmp(&(score, item)).unwrap()), add) {
                    (Err(at), true) => {
                        plain.insert(at, (score, item));
                        bytes += order.insert(score, item, before(score, item));
                    }
                    (Ok(at), false) => {
                        plain.remove(at);
                        bytes += order.remove(before(score, item));
                    }
                    _ => {}
                }
                prop_assert_eq!(order.len(), plain.len());
                prop_assert_eq!(order.bytes() as isize, bytes);
                let rank = plain.partition_point(|e| *e < (score, item));
                prop_assert_eq!(order.rank_of(before(score, item)), rank);
                prop_assert_eq!(order.at(rank), plain.get(rank).copied());
            }
            let up: Vec<_> = order.from(plain.len() / 3).collect();
            prop_assert_eq!(&up[..], &plain[plain.len() / 3..]);
            let down: Vec<_> = order.down_from(plain.len() / 3).collect();
            let want: Vec<_> = plain.iter().take(plain.len() / 3 + 1).rev().copied().collect();
            prop_assert_eq!(down, want);
        }
    }
}
