//! One chunk of a big list.
use super::CHUNK;

#[derive(Debug)]
pub(super) struct Chunk {
    pub buf: Box<[u8]>,
    pub start: usize,
    pub end: usize,
    pub count: usize,
}

/// Bytes of a length: LEB128.
fn len_bytes(len: usize) -> usize {
    (usize::BITS - (len | 1).leading_zeros()).div_ceil(7) as usize
}

pub(super) fn element_bytes(len: usize) -> usize {
    2 * len_bytes(len) + len
}

impl Chunk {
    pub fn new(bytes: usize, at_end: bool) -> Self {
        let buf = vec![0; bytes.max(CHUNK)].into_boxed_slice();
        let start = if at_end { buf.len() } else { 0 };
        Self { buf, start, end: start, count: 0 }
    }

    pub fn used(&self) -> usize {
        self.end - self.start
    }

    /// Writes an element at the byte offset `at`; there is room.
    pub fn write(&mut self, at: usize, element: &[u8]) {
        let n = len_bytes(element.len());
        let mut len = element.len();
        let total = element_bytes(element.len());
        for i in 0..n {
            let b = (len & 0x7f) as u8 | if i + 1 < n { 0x80 } else { 0 };
            self.buf[at + i] = b;
            self.buf[at + total - 1 - i] = b;
            len >>= 7;
        }
        self.buf[at + n..at + n + element.len()].copy_from_slice(element);
    }

    /// The element at the byte offset `at`, and where the next one is.
    pub fn forward(&self, at: usize) -> (&[u8], usize) {
        let (mut len, mut n) = (0, 0);
        loop {
            let b = self.buf[at + n];
            len |= usize::from(b & 0x7f) << (7 * n);
            n += 1;
            if b < 0x80 {
                break;
            }
        }
        (&self.buf[at + n..at + n + len], at + 2 * n + len)
    }

    /// The element that ends before the byte offset `at`, and where it begins.
    pub fn backward(&self, at: usize) -> (&[u8], usize) {
        let (mut len, mut n) = (0, 0);
        loop {
            let b = self.buf[at - 1 - n];
            len |= usize::from(b & 0x7f) << (7 * n);
            n += 1;
            if b < 0x80 {
                break;
            }
        }
        (&self.buf[at - n - len..at - n], at - 2 * n - len)
    }

    /// The byte offset of the element at `index`, or of the end.
    pub fn offset_of(&self, index: usize) -> usize {
        if index <= self.count / 2 {
            (0..index).fold(self.start, |at, _| self.forward(at).1)
        } else {
            (index..self.count).fold(self.end, |at, _| self.backward(at).1)
        }
    }

    /// Removes `n` elements from `index` on.
    pub fn cut(&mut self, index: usize, n: usize) {
        let from = self.offset_of(index);
        let to = (0..n).fold(from, |at, _| self.forward(at).1);
        if from == self.start {
            self.start = to;
        } else {
            self.buf.copy_within(to..self.end, from);
            self.end -= to - from;
        }
        self.count -= n;
    }

    /// Inserts before the element at `index`; false if there is no room.
    pub fn insert(&mut self, index: usize, element: &[u8]) -> bool {
        let bytes = element_bytes(element.len());
        if self.used() + bytes > self.buf.len() {
            return false;
        }
        let at = self.offset_of(index);
        let at = if self.end + bytes <= self.buf.len() {
            self.buf.copy_within(at..self.end, at + bytes);
            self.end += bytes;
            at
        } else {
            // the room is on both sides: everything to the front, with the gap in its place
            let (start, head, tail) = (self.start, at - self.start, self.end - at);
            self.buf.copy_within(start..at, 0);
            self.buf.copy_within(at..at + tail, head + bytes);
            (self.start, self.end) = (0, head + bytes + tail);
            head
        };
        self.write(at, element);
        self.count += 1;
        true
    }

    pub fn elements(&self) -> impl Iterator<Item = &[u8]> {
        let mut at = self.start;
        (0..self.count).map(move |_| {
            let (e, next) = self.forward(at);
            at = next;
            e
        })
    }
}
