//! A big list: its elements in chunks of about 4 KiB, in the owner's heap.
//!
//! ```text
//!   chunks   [ ..eee ] [ eeeee ] [ eeee ] [ ee... ]     room is left at the outer ends, where pushes go
//!   element  len, bytes, len backwards                   len: LEB128; backwards: the same bytes in reverse order,
//! ```
//! so that a chunk is walked from both ends. A push or a pop at an end touches one chunk; an index is found by walking over
//! chunks from the nearer end, then over the elements of one. A change in the middle moves bytes of one chunk, which is cut in
//! two when it is full; chunks that shrink are joined with a neighbour. An element larger than a chunk has one to itself.
use std::collections::VecDeque;

mod chunk;
use chunk::{Chunk, element_bytes};

/// Bytes of a chunk, unless one element needs more.
const CHUNK: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Chunks {
    chunks: VecDeque<Chunk>,
    len: usize,
    bytes: usize,
}

impl Chunks {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of the heap that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.chunks.capacity() * size_of::<Chunk>()
    }

    fn add_chunk(&mut self, at: usize, chunk: Chunk) {
        self.bytes += chunk.buf.len();
        self.chunks.insert(at, chunk);
    }

    fn drop_chunk(&mut self, at: usize) {
        if let Some(c) = self.chunks.remove(at) {
            self.bytes -= c.buf.len();
        }
    }

    pub(crate) fn push_back(&mut self, element: &[u8]) {
        let bytes = element_bytes(element.len());
        if self.chunks.back().is_none_or(|c| c.end + bytes > c.buf.len()) {
            self.add_chunk(self.chunks.len(), Chunk::new(bytes, false));
        }
        if let Some(c) = self.chunks.back_mut() {
            c.write(c.end, element);
            c.end += bytes;
            c.count += 1;
            self.len += 1;
        }
    }

    pub(crate) fn push_front(&mut self, element: &[u8]) {
        let bytes = element_bytes(element.len());
        if self.chunks.front().is_none_or(|c| c.start < bytes) {
            self.add_chunk(0, Chunk::new(bytes, true));
        }
        if let Some(c) = self.chunks.front_mut() {
            c.start -= bytes;
            c.write(c.start, element);
            c.count += 1;
            self.len += 1;
        }
    }

    /// Takes an element from the right, or from the left, calling `f` with it; whether there was one.
    pub(crate) fn pop(&mut self, left: bool, f: &mut dyn FnMut(&[u8])) -> bool {
        let at = if left { 0 } else { self.chunks.len().wrapping_sub(1) };
        let Some(c) = self.chunks.get_mut(at) else { return false };
        if left {
            let (e, next) = c.forward(c.start);
            f(e);
            c.start = next;
        } else {
            let (e, start) = c.backward(c.end);
            f(e);
            c.end = start;
        }
        c.count -= 1;
        self.len -= 1;
        if c.count == 0 {
            self.drop_chunk(at);
        }
        true
    }

    /// The chunk that holds `index`, and the index in it; for the length, the end of the last chunk.
    fn locate(&self, index: usize) -> (usize, usize) {
        if index < self.len / 2 {
            let mut before = 0;
            for (i, c) in self.chunks.iter().enumerate() {
                if index < before + c.count {
                    return (i, index - before);
                }
                before += c.count;
            }
        }
        let mut before = self.len;
        for (i, c) in self.chunks.iter().enumerate().rev() {
            before -= c.count;
            if index >= before {
                return (i, index - before);
            }
        }
        (0, 0)
    }

    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        if index >= self.len {
            return None;
        }
        let (chunk, at) = self.locate(index);
        let c = &self.chunks[chunk];
        Some(c.forward(c.offset_of(at)).0)
    }

    /// Elements from `start` on.
    pub(crate) fn from(&self, start: usize) -> impl Iterator<Item = &[u8]> {
        let (chunk, at) = self.locate(start.min(self.len));
        self.chunks.iter().skip(chunk).flat_map(Chunk::elements).skip(at)
    }

    /// Inserts before the element at `index`, at most the length.
    pub(crate) fn insert(&mut self, index: usize, element: &[u8]) {
        if index == 0 {
            return self.push_front(element);
        }
        if index >= self.len {
            return self.push_back(element);
        }
        let (mut chunk, mut at) = self.locate(index);
        if !self.chunks[chunk].insert(at, element) {
            let mut alone = Chunk::new(element_bytes(element.len()), false);
            if self.chunks[chunk].used() + element_bytes(element.len()) <= CHUNK + CHUNK / 2
                && self.chunks[chunk].count > 1
            {
                let half = self.chunks[chunk].count / 2;
                self.split(chunk, half);
                if at > half {
                    (chunk, at) = (chunk + 1, at - half);
                }
                if self.chunks[chunk].insert(at, element) {
                    self.len += 1;
                    return;
                }
            }
            alone.insert(0, element);
            let place = if at == 0 {
                chunk
            } else {
                if at < self.chunks[chunk].count {
                    self.split(chunk, at);
                }
                chunk + 1
            };
            self.add_chunk(place, alone);
        }
        self.len += 1;
    }

    /// Cuts a chunk in two before its element `at`, which is neither its first nor past its last.
    fn split(&mut self, chunk: usize, at: usize) {
        let c = &mut self.chunks[chunk];
        let from = c.offset_of(at);
        let bytes = c.end - from;
        let mut upper = Chunk::new(bytes, false);
        upper.buf[..bytes].copy_from_slice(&c.buf[from..c.end]);
        (upper.end, upper.count) = (bytes, c.count - at);
        (c.end, c.count) = (from, at);
        self.add_chunk(chunk + 1, upper);
    }

    /// Replaces the element at `index`, which there is.
    pub(crate) fn set(&mut self, index: usize, element: &[u8]) {
        let (chunk, at) = self.locate(index);
        let c = &mut self.chunks[chunk];
        let from = c.offset_of(at);
        if c.forward(from).0.len() == element.len() {
            c.write(from, element);
        } else {
            self.remove(index, 1);
            self.insert(index, element);
        }
    }

    /// Removes `n` elements from `index` on; there are so many.
    pub(crate) fn remove(&mut self, index: usize, n: usize) {
        let (mut chunk, mut at) = self.locate(index);
        let mut left = n;
        self.len -= n;
        while left > 0 {
            let c = &mut self.chunks[chunk];
            let here = left.min(c.count - at);
            left -= here;
            if here == c.count {
                self.drop_chunk(chunk);
            } else {
                c.cut(at, here);
                chunk += 1;
            }
            at = 0;
        }
        // what is left of the chunks around the cut may fit into one
        for i in [chunk, chunk.wrapping_sub(1)] {
            self.join(i);
        }
    }

    /// Joins a chunk with the one before it if both are small.
    fn join(&mut self, chunk: usize) {
        let Some(before) = chunk.checked_sub(1) else { return };
        let (Some(a), Some(b)) = (self.chunks.get(before), self.chunks.get(chunk)) else { return };
        if a.used() + b.used() > CHUNK / 2 {
            return;
        }
        let mut both = Chunk::new(0, false);
        let (n, m) = (a.used(), b.used());
        // in the middle, so that there is room at both ends
        let start = (CHUNK - n - m) / 2;
        both.buf[start..start + n].copy_from_slice(&a.buf[a.start..a.end]);
        both.buf[start + n..start + n + m].copy_from_slice(&b.buf[b.start..b.end]);
        (both.start, both.end, both.count) = (start, start + n + m, a.count + b.count);
        self.drop_chunk(chunk);
        self.drop_chunk(before);
        self.add_chunk(before, both);
    }

    /// Removes up to `limit` elements equal to `element`, from the left or from the right; how many.
    pub(crate) fn remove_equal(&mut self, element: &[u8], limit: usize, from_right: bool) -> usize {
        let mut at: Vec<usize> =
            self.from(0).enumerate().filter(|(_, e)| *e == element).map(|(i, _)| i).collect();
        if from_right {
            at.drain(..at.len().saturating_sub(limit));
        } else {
            at.truncate(limit);
        }
        for &i in at.iter().rev() {
            self.remove(i, 1);
        }
        at.len()
    }

    /// Frees up to `n` chunks; the bytes freed.
    pub(crate) fn shrink(&mut self, n: usize) -> usize {
        let before = self.bytes();
        for _ in 0..n {
            let Some(c) = self.chunks.pop_back() else {
                self.chunks.shrink_to_fit();
                break;
            };
            self.len -= c.count;
            self.bytes -= c.buf.len();
        }
        before - self.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Op {
        Push(bool, usize),
        Pop(bool),
        Insert(usize, usize),
        Set(usize, usize),
        Remove(usize, usize),
        RemoveEqual(u8, usize, bool),
    }

    fn op() -> impl Strategy<Value = Op> {
        let len = prop_oneof![8 => 0usize..40, 2 => 100usize..400, 1 => 3000usize..9000];
        prop_oneof![
            4 => (any::<bool>(), len.clone()).prop_map(|(l, n)| Op::Push(l, n)),
            2 => any::<bool>().prop_map(Op::Pop),
            3 => (any::<usize>(), len.clone()).prop_map(|(i, n)| Op::Insert(i, n)),
            2 => (any::<usize>(), len).prop_map(|(i, n)| Op::Set(i, n)),
            1 => (any::<usize>(), 0usize..40).prop_map(|(i, n)| Op::Remove(i, n)),
            1 => (any::<u8>(), 0usize..5, any::<bool>()).prop_map(|(b, n, r)| Op::RemoveEqual(b % 8, n, r)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn agrees_with_a_plain_list(ops in prop::collection::vec(op(), 0..600)) {
            let (mut chunks, mut plain) = (Chunks::default(), VecDeque::<Vec<u8>>::new());
            for (n, op) in ops.into_iter().enumerate() {
                let new = |len: usize| vec![(n % 8) as u8; len];
                match op {
                    Op::Push(true, len) => { chunks.push_front(&new(len)); plain.push_front(new(len)); }
                    Op::Push(false, len) => { chunks.push_back(&new(len)); plain.push_back(new(len)); }
                    Op::Pop(left) => {
                        let mut got = None;
                        chunks.pop(left, &mut |e| got = Some(e.to_vec()));
                        prop_assert_eq!(got, if left { plain.pop_front() } else { plain.pop_back() });
                    }
                    Op::Insert(i, len) => {
                        let i = i % (plain.len() + 1);
                        chunks.insert(i, &new(len));
                        plain.insert(i, new(len));
                    }
                    Op::Set(i, len) if !plain.is_empty() => {
                        let i = i % plain.len();
                        chunks.set(i, &new(len));
                        plain[i] = new(len);
                    }
                    Op::Remove(i, m) if !plain.is_empty() => {
                        let i = i % plain.len();
                        let m = m.min(plain.len() - i);
                        chunks.remove(i, m);
                        plain.drain(i..i + m);
                    }
                    Op::RemoveEqual(b, len, right) => {
                        let e = vec![b; len];
                        let mut at: Vec<_> = (0..plain.len()).filter(|&i| plain[i] == e).collect();
                        if right { at.reverse(); }
                        at.truncate(2);
                        at.sort_unstable();
                        for &i in at.iter().rev() { plain.remove(i); }
                        prop_assert_eq!(chunks.remove_equal(&e, 2, right), at.len());
                    }
                    _ => {}
                }
                prop_assert_eq!(chunks.len(), plain.len());
                let i = n.wrapping_mul(7919) % (plain.len() + 1);
                prop_assert_eq!(chunks.get(i), plain.get(i).map(Vec::as_slice));
            }
            prop_assert!(chunks.from(0).eq(plain.iter().map(Vec::as_slice)));
            let n = chunks.chunks.len();
            prop_assert!(n < 3 || chunks.bytes <= 4 * (CHUNK * 2 + plain.iter().map(|e| element_bytes(e.len())).sum::<usize>() + CHUNK * n / 2));
            chunks.shrink(usize::MAX);
            prop_assert_eq!(chunks.bytes(), 0);
        }
    }
}
