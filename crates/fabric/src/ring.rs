//! Message rings: a queue of messages in the receiver's memory that its peer writes one-sided. One pair per connection.
//!
//! ```text
//!   word       0          1             2 …            2+n           to the next multiple of 8 words
//!          ┌────────┬───────────┬───────────────┬───────────┬╌╌╌╌╌╌╌┐
//!   record │ header │ indicator │ body, n words │ indicator │  zero │   n = ⌈size / 8⌉
//!          └────────┴───────────┴───────────────┴───────────┴╌╌╌╌╌╌╌┘
//!   header     bit 63: more pieces of this message follow    bit 62: nothing here, go on at the ring's beginning
//!              bits 0 … 31: size of the body in bytes
//!   indicator  zero until the words before it are there; then a mix of the header, the record's number and which of the two it is
//! ```
//! The format is that of *ramp-over-rdma*, figure 2, which is HydraDB's: an 8-byte size, an indicator, the body, an indicator. The receiver
//! polls the ninth byte; once it is set the size can be read; the size leads to the second indicator; once that is set the body is
//! there. It clears the record after use, so that the next one starts from zeros. Here an indicator is a whole word, because eight
//! bytes are what every fabric writes whole, and because bodies then stay aligned.
//!
//! **One write per message.** A record never wraps: where the ring's end is too near, a record with bit 62 leads back to the beginning.
//! A message larger than a quarter of the ring goes in pieces. Records begin at cache lines, so that the sender of the next and the
//! clearer of the last do not meet.
//!
//! **Room.** The receiver tells the sender how far it has come: the number of words ever consumed, a *credit*, written one-sided into
//! the sender's memory, when an eighth of the ring has gathered or nothing is left to read. The sender never writes beyond it.
//!
//! **Nothing is trusted.** Each side keeps its positions to itself. A header whose indicator does not fit (torn, replayed, made up), a
//! size beyond the piece limit or the ring's end, or a credit that runs backwards or ahead is [`Broken`], and ends the connection.
//!
//! **Order.** All a ring asks of what carries it ([`Carrier`]): the header and the body are visible before the first and the second
//! indicator, respectively, and the header before the second. Stores with release ordering do that, and a single RDMA write, which
//! adapters place in the order of addresses.

use crate::sync::{AtomicU64, Ordering, Safeguard, kept};
use crate::words::{append, copy_in};

/// Words of a cache line, the unit of records.
pub const LINE: u64 = 8;
/// Words of a record besides its body.
const FRAME: u64 = 3;
/// Words of the smallest ring; in models, room for two records.
const LEAST: u64 = if cfg!(loom) { 16 } else { 128 };
const MORE: u64 = 1 << 63;
pub(crate) const SKIP: u64 = 1 << 62;
const SIZE: u64 = u32::MAX as u64;

/// One record, ready to be written.
#[derive(Copy, Clone, Debug)]
pub struct Record<'a> {
    /// Word 0.
    pub header: u64,
    /// Word 1.
    pub first: u64,
    /// Words 2 …, padded with zeros.
    pub body: &'a [u8],
    /// The word after.
    pub last: u64,
}

/// What brings a record into the peer's ring with one write: stores to shared memory, or an RDMA write.
pub trait Carrier {
    /// What can go wrong.
    type Error;
    /// Writes a record at this word of the peer's ring. It is within the ring.
    ///
    /// # Errors
    /// The carrier's; the record is then taken as not sent, and the sender as it was.
    fn carry(&mut self, at: u64, record: Record<'_>) -> Result<(), Self::Error>;
}

/// The carrier for memory that is mapped: relaxed stores, and the two indicators with release ordering.
pub struct Stores<'a>(pub &'a [AtomicU64]);

impl Carrier for Stores<'_> {
    type Error = std::convert::Infallible;

    #[inline]
    fn carry(&mut self, at: u64, record: Record<'_>) -> Result<(), Self::Error> {
        let words = &self.0[at as usize..];
        let order = if kept(Safeguard::ReleaseIndicators) { Ordering::Release } else { Ordering::Relaxed };
        let body = record.body.len().div_ceil(8);
        words[0].store(record.header, Ordering::Relaxed);
        words[1].store(record.first, order);
        copy_in(&words[2..2 + body], record.body);
        words[2 + body].store(record.last, order);
        Ok(())
    }
}

/// Why nothing was sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Unsent<E> {
    /// The receiver has to consume something first.
    Full,
    /// The piece is larger than [`piece_bytes`].
    TooLarge,
    /// The receiver's credit is impossible.
    Broken(Broken),
    /// The carrier's error.
    Carrier(E),
}

/// The peer wrote what it must not. The connection is of no use any more.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A header and its indicator do not belong together.
    #[error("a torn or made-up header in the ring")]
    Header,
    /// A size that cannot be.
    #[error("an impossible size in the ring")]
    Size,
    /// The indicator behind the body is wrong.
    #[error("a wrong indicator behind a message in the ring")]
    Indicator,
    /// The credit is not between what was consumed before and what was sent.
    #[error("an impossible credit for the ring")]
    Credit,
}

#[cfg(not(model))]
impl From<Broken> for crate::Error {
    fn from(broken: Broken) -> Self {
        crate::Error::Protocol(match broken {
            Broken::Header => "a torn or made-up header in the ring",
            Broken::Size => "an impossible size in the ring",
            Broken::Indicator => "a wrong indicator behind a message in the ring",
            Broken::Credit => "an impossible credit for the ring",
        })
    }
}

/// Bytes of the largest piece for a ring of so many words.
pub const fn piece_bytes(capacity: u64) -> usize {
    ((capacity / 4 - FRAME) * 8) as usize
}

fn record_words(body: usize) -> u64 {
    (FRAME + body.div_ceil(8) as u64).next_multiple_of(LINE)
}

/// Never zero. Differs between the two of a record, between records, and between headers.
fn indicator(which: u64, number: u64, header: u64) -> u64 {
    let mixed = (header ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 29 ^ which) | 1
}
const FIRST: u64 = 2;
const LAST: u64 = 4;

/// The sending end.
#[derive(Debug)]
pub struct Sender {
    capacity: u64,
    tail: u64,
    credit: u64,
    number: u64,
}

impl Sender {
    /// For an empty ring of so many words: a multiple of [`LINE`], at least 128.
    pub fn new(capacity: u64) -> Sender {
        assert!(capacity >= LEAST && capacity.is_multiple_of(LINE), "a ring of {capacity} words");
        Sender { capacity, tail: 0, credit: 0, number: 1 }
    }

    /// Sends one piece of a message, or a whole one (`more` is false). `credit` is the word that the receiver writes.
    ///
    /// # Errors
    /// [`Unsent`]; nothing of it has been sent then.
    #[inline]
    pub fn push<C: Carrier>(
        &mut self,
        carrier: &mut C,
        credit: &AtomicU64,
        body: &[u8],
        more: bool,
    ) -> Result<(), Unsent<C::Error>> {
        if body.len() > piece_bytes(self.capacity) {
            return Err(Unsent::TooLarge);
        }
        let words = record_words(body.len());
        let mut at = self.tail % self.capacity;
        let skip = if words > self.capacity - at { self.capacity - at } else { 0 };
        if !self.room(skip + words) {
            self.take_credit(credit).map_err(Unsent::Broken)?;
            if !self.room(skip + words) {
                return Err(Unsent::Full);
            }
        }
        if skip != 0 {
            self.put(carrier, at, SKIP, &[], skip)?;
            at = 0;
        }
        self.put(carrier, at, body.len() as u64 | if more { MORE } else { 0 }, body, words)
    }

    fn put<C: Carrier>(
        &mut self,
        carrier: &mut C,
        at: u64,
        header: u64,
        body: &[u8],
        words: u64,
    ) -> Result<(), Unsent<C::Error>> {
        let first = indicator(FIRST, self.number, header);
        let last = indicator(LAST, self.number, header);
        carrier.carry(at, Record { header, first, body, last }).map_err(Unsent::Carrier)?;
        self.tail += words;
        self.number += 1;
        Ok(())
    }

    fn room(&self, words: u64) -> bool {
        words <= self.capacity - (self.tail - self.credit)
    }

    fn take_credit(&mut self, credit: &AtomicU64) -> Result<(), Broken> {
        let seen = credit.load(Ordering::Acquire);
        if seen < self.credit || seen > self.tail || !seen.is_multiple_of(LINE) {
            return Err(Broken::Credit);
        }
        self.credit = seen;
        Ok(())
    }

    /// Words ever sent, with what was left out at the ring's end.
    pub fn sent(&self) -> u64 {
        self.tail
    }

    /// Words that the receiver has ever consumed, as it says now.
    ///
    /// # Errors
    /// [`Broken::Credit`].
    pub fn consumed(&mut self, credit: &AtomicU64) -> Result<u64, Broken> {
        self.take_credit(credit)?;
        Ok(self.credit)
    }

    /// Whether the receiver has given more credit than this end has taken note of.
    pub fn has_news(&self, credit: &AtomicU64) -> bool {
        credit.load(Ordering::Acquire) != self.credit
    }
}

/// A piece that was received.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its length in bytes.
    pub bytes: usize,
    /// Whether the message goes on in the next piece.
    pub more: bool,
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver {
    capacity: u64,
    head: u64,
    published: u64,
    number: u64,
}

impl Receiver {
    /// For an empty ring of so many words, as with [`Sender::new`].
    pub fn new(capacity: u64) -> Receiver {
        assert!(capacity >= LEAST && capacity.is_multiple_of(LINE), "a ring of {capacity} words");
        Receiver { capacity, head: 0, published: 0, number: 1 }
    }

    /// Takes the next piece out of the ring and appends it to a buffer; `None` if there is none yet.
    ///
    /// # Errors
    /// [`Broken`].
    #[inline]
    pub fn pop(&mut self, ring: &[AtomicU64], into: &mut Vec<u8>) -> Result<Option<Piece>, Broken> {
        let acquire = if kept(Safeguard::AcquireIndicators) { Ordering::Acquire } else { Ordering::Relaxed };
        loop {
            let at = self.head % self.capacity;
            let record = &ring[at as usize..self.capacity as usize];
            let first = record[1].load(acquire);
            if first == 0 {
                return Ok(None);
            }
            let header = record[0].load(Ordering::Relaxed);
            if first != indicator(FIRST, self.number, header) {
                return Err(Broken::Header);
            }
            let size = (header & SIZE) as usize;
            let words = record_words(size);
            if header & !(MORE | SKIP | SIZE) != 0
                || size > piece_bytes(self.capacity)
                || words > record.len() as u64
                || (header & SKIP != 0 && header != SKIP)
            {
                return Err(Broken::Size);
            }
            let body = size.div_ceil(8);
            let last = record[2 + body].load(acquire);
            if last == 0 {
                return Ok(None);
            }
            if last != indicator(LAST, self.number, header) {
                return Err(Broken::Indicator);
            }
            if header != SKIP {
                append(&record[2..2 + body], size, into);
            }
            if kept(Safeguard::ClearFirst) {
                for word in &record[..3 + body] {
                    word.store(0, Ordering::Relaxed);
                }
            }
            self.number += 1;
            if header == SKIP {
                self.head += self.capacity - at;
                continue;
            }
            self.head += words;
            return Ok(Some(Piece { bytes: size, more: header & MORE != 0 }));
        }
    }

    /// Whether a look at the ring might find something.
    pub fn has_news(&self, ring: &[AtomicU64]) -> bool {
        ring[(self.head % self.capacity) as usize + 1].load(Ordering::Acquire) != 0
    }

    /// The credit that is due to be written to the sender, if any, with release ordering: an eighth of the ring has gathered, or
    /// (`idle`) there is nothing left to do.
    pub fn credit(&mut self, idle: bool) -> Option<u64> {
        let gathered = self.head - self.published;
        if gathered == 0 || (!idle && gathered < self.capacity / 8) {
            return None;
        }
        self.published = self.head;
        Some(self.head)
    }

    /// Writes the credit that is due to where a sender in shared memory reads it. Whether there was any.
    #[inline]
    pub fn give_credit(&mut self, to: &AtomicU64, idle: bool) -> bool {
        // What was taken from the ring was cleared before.
        let order = if kept(Safeguard::ReleaseCredit) { Ordering::Release } else { Ordering::Relaxed };
        match self.credit(idle) {
            Some(credit) => to.store(credit, order),
            None => return false,
        }
        true
    }
}

#[cfg(all(test, not(model)))]
#[path = "ring_tests.rs"]
mod tests;
