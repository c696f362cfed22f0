//! Small collections: a whole collection in the value of one cell, copied when it changes.
//!
//! ```text
//!   +0  count of entries (2 bytes, little-endian), then the entries without a gap:
//!   list   len element
//!   set    len member                     in the order in which they came
//!   hash   len field   len value          in the order in which the fields came
//!   zset   score 8     len member         by (score, member); the score is an IEEE double, little-endian, never NaN or -0
//!   len    LEB128: 7 bits a byte, low bits first, the top bit set on all but the last byte
//! ```
//! Ten fields of a hash cost what their bytes cost and two more each. Finding an entry is a scan of a few cache lines;
//! a change builds the next version in a scratch buffer that the owner publishes as a new cell, so that a reader sees a
//! collection before or after a command and never between. What is read may be any bytes at all (a reader's copy of a cell
//! that is being recycled, before it is checked): a scan ends at the first entry that does not fit.

/// What the entries of a packed collection look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    List,
    Set,
    Hash,
    Zset,
}

/// Bytes before the first entry.
pub(crate) const HEAD: usize = 2;
/// The most entries that the count can tell.
pub(crate) const MAX_ENTRIES: usize = u16::MAX as usize;

/// One entry: where it is, and its parts. `name` is the element, member or field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub start: usize,
    pub end: usize,
    pub name: &'a [u8],
    pub value: &'a [u8],
    pub score: f64,
}

/// The number of entries that a packed collection claims.
#[inline]
pub(crate) fn count(bytes: &[u8]) -> usize {
    bytes.first_chunk::<HEAD>().map_or(0, |c| usize::from(u16::from_le_bytes(*c)))
}

/// An empty packed collection in `buf`.
pub(crate) fn clear(buf: &mut Vec<u8>) {
    buf.clear();
    buf.extend_from_slice(&[0; HEAD]);
}

/// Walks over the entries.
#[derive(Clone)]
pub(crate) struct Entries<'a> {
    bytes: &'a [u8],
    shape: Shape,
    at: usize,
    left: usize,
}

impl<'a> Entries<'a> {
    #[inline]
    pub(crate) fn new(shape: Shape, bytes: &'a [u8]) -> Self {
        Self { bytes, shape, at: HEAD, left: count(bytes) }
    }
}

/// The element at `at` and where it ends.
#[inline]
fn element(bytes: &[u8], mut at: usize) -> Option<(&[u8], usize)> {
    let first = *bytes.get(at)?;
    at += 1;
    let mut len = usize::from(first & 0x7f);
    if first >= 0x80 {
        let mut shift = 7;
        loop {
            let b = *bytes.get(at)?;
            at += 1;
            len |= usize::from(b & 0x7f) << shift;
            if b < 0x80 {
                break;
            }
            shift += 7;
            if shift > 28 {
                return None;
            }
        }
    }
    let end = at.checked_add(len)?;
    Some((bytes.get(at..end)?, end))
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        if self.left == 0 {
            return None;
        }
        let start = self.at;
        let (mut at, mut score) = (start, 0.0);
        if self.shape == Shape::Zset {
            score = f64::from_le_bytes(*self.bytes.get(at..)?.first_chunk()?);
            at += 8;
        }
        let (name, mut end) = element(self.bytes, at)?;
        let mut value: &[u8] = &[];
        if self.shape == Shape::Hash {
            (value, end) = element(self.bytes, end)?;
        }
        self.left -= 1;
        self.at = end;
        Some(Entry { start, end, name, value, score })
    }
}

/// The entry of this name.
#[inline]
pub(crate) fn find<'a>(shape: Shape, bytes: &'a [u8], name: &[u8]) -> Option<Entry<'a>> {
    Entries::new(shape, bytes).find(|e| e.name == name)
}

/// Whether the bytes are so many entries as they claim, and nothing else.
pub(crate) fn is_whole(shape: Shape, bytes: &[u8]) -> bool {
    let mut entries = Entries::new(shape, bytes);
    entries.by_ref().for_each(drop);
    entries.left == 0 && entries.at == bytes.len()
}

/// Bytes of the length and the element.
pub(crate) fn element_bytes(len: usize) -> usize {
    let bits = usize::BITS - (len | 1).leading_zeros();
    bits.div_ceil(7) as usize + len
}

fn write_element(buf: &mut [u8], mut at: usize, element: &[u8]) -> usize {
    let mut len = element.len();
    while len >= 0x80 {
        buf[at] = len as u8 | 0x80;
        at += 1;
        len >>= 7;
    }
    buf[at] = len as u8;
    at += 1;
    buf[at..at + element.len()].copy_from_slice(element);
    at + element.len()
}

/// Replaces the bytes `start..end` by one entry.
pub(crate) fn write(
    shape: Shape,
    buf: &mut Vec<u8>,
    (start, end): (usize, usize),
    score: f64,
    name: &[u8],
    value: &[u8],
) {
    let mut bytes = element_bytes(name.len());
    match shape {
        Shape::Hash => bytes += element_bytes(value.len()),
        Shape::Zset => bytes += 8,
        Shape::List | Shape::Set => {}
    }
    resize_gap(buf, start, end, bytes);
    let mut at = start;
    if shape == Shape::Zset {
        buf[at..at + 8].copy_from_slice(&score.to_le_bytes());
        at += 8;
    }
    at = write_element(buf, at, name);
    if shape == Shape::Hash {
        write_element(buf, at, value);
    }
}

/// Makes the bytes `start..end` `bytes` long, moving what follows.
fn resize_gap(buf: &mut Vec<u8>, start: usize, end: usize, bytes: usize) {
    let old = buf.len();
    let new_end = start + bytes;
    if new_end > end {
        buf.resize(old + (new_end - end), 0);
        buf.copy_within(end..old, new_end);
    } else if new_end < end {
        buf.copy_within(end..old, new_end);
        buf.truncate(old - (end - new_end));
    }
}

/// Adds `n` to the count of entries.
pub(crate) fn add_count(buf: &mut [u8], n: isize) {
    let new = count(buf).saturating_add_signed(n).min(MAX_ENTRIES) as u16;
    buf[..HEAD].copy_from_slice(&new.to_le_bytes());
}

/// Inserts a new entry at the byte offset `at`.
pub(crate) fn insert(shape: Shape, buf: &mut Vec<u8>, at: usize, score: f64, name: &[u8], value: &[u8]) {
    write(shape, buf, (at, at), score, name, value);
    add_count(buf, 1);
}

/// Appends a new entry.
pub(crate) fn push(shape: Shape, buf: &mut Vec<u8>, score: f64, name: &[u8], value: &[u8]) {
    insert(shape, buf, buf.len(), score, name, value);
}

/// Removes `n` entries that fill the bytes `start..end`.
pub(crate) fn cut(buf: &mut Vec<u8>, start: usize, end: usize, n: usize) {
    resize_gap(buf, start, end, 0);
    add_count(buf, -(n as isize));
}

/// The byte offset of the entry at `index`, or of the end.
pub(crate) fn offset_of(shape: Shape, bytes: &[u8], index: usize) -> usize {
    Entries::new(shape, bytes).nth(index).map_or(bytes.len(), |e| e.start)
}

/// Where (score, member) belongs in a sorted set that does not hold the member: byte offset and rank.
pub(crate) fn place(bytes: &[u8], score: f64, member: &[u8]) -> (usize, usize) {
    let mut rank = 0;
    for e in Entries::new(Shape::Zset, bytes) {
        if (e.score, e.name) > (score, member) {
            return (e.start, rank);
        }
        rank += 1;
    }
    (bytes.len(), rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHAPES: [Shape; 4] = [Shape::List, Shape::Set, Shape::Hash, Shape::Zset];

    proptest! {
        #[test]
        fn what_was_written_is_read(names in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20)) {
            for shape in SHAPES {
                let mut buf = Vec::new();
                clear(&mut buf);
                for (i, n) in names.iter().enumerate() {
                    push(shape, &mut buf, i as f64, n, b"value");
                }
                prop_assert_eq!(count(&buf), names.len());
                let read: Vec<_> = Entries::new(shape, &buf).map(|e| e.name.to_vec()).collect();
                prop_assert_eq!(&read, &names);
                let last = Entries::new(shape, &buf).last().map_or(HEAD, |e| e.end);
                prop_assert_eq!(last, buf.len());
                prop_assert!(is_whole(shape, &buf));
                buf.push(0);
                prop_assert!(!is_whole(shape, &buf), "a byte too many");
                buf.truncate(buf.len() - 2);
                prop_assert!(!is_whole(shape, &buf), "a byte too few");
            }
        }

        #[test]
        fn any_bytes_are_safe_to_scan(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for shape in SHAPES {
                let seen = Entries::new(shape, &bytes).map(|e| e.name.len() + e.value.len()).sum::<usize>();
                prop_assert!(seen <= bytes.len());
                let _ = is_whole(shape, &bytes);
            }
        }

        #[test]
        fn an_entry_is_replaced_in_its_place(at in 0usize..5, len in 0usize..400) {
            let mut buf = Vec::new();
            clear(&mut buf);
            for i in 0..5u8 {
                push(Shape::Hash, &mut buf, 0.0, &[i], b"old");
            }
            let e = find(Shape::Hash, &buf, &[at as u8]).map(|e| (e.start, e.end)).unwrap();
            write(Shape::Hash, &mut buf, e, 0.0, &[at as u8], &vec![7; len]);
            let read: Vec<_> = Entries::new(Shape::Hash, &buf).map(|e| (e.name[0], e.value.len())).collect();
            let want: Vec<_> = (0..5u8).map(|i| (i, if usize::from(i) == at { len } else { 3 })).collect();
            prop_assert_eq!(read, want);
        }
    }
}
