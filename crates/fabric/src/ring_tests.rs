use super::*;

const WORDS: u64 = 128;

struct Ring {
    words: Vec<AtomicU64>,
    credit: AtomicU64,
    sender: Sender,
    receiver: Receiver,
}

impl Ring {
    fn new() -> Ring {
        let words = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        Ring { words, credit: AtomicU64::new(0), sender: Sender::new(WORDS), receiver: Receiver::new(WORDS) }
    }
    fn push(&mut self, body: &[u8]) -> Result<(), Unsent<std::convert::Infallible>> {
        self.sender.push(&mut Stores(&self.words), &self.credit, body, false)
    }
    fn pop(&mut self) -> Result<Option<Vec<u8>>, Broken> {
        let mut out = Vec::new();
        let popped = self.receiver.pop(&self.words, &mut out)?;
        if let Some(credit) = self.receiver.credit(popped.is_none()) {
            self.credit.store(credit, Ordering::Release);
        }
        Ok(popped.map(|piece| {
            assert_eq!(piece.bytes, out.len());
            out
        }))
    }
}

#[test]
fn messages_of_all_sizes_go_round_the_ring_and_leave_it_clean() {
    let mut ring = Ring::new();
    for round in 0..if cfg!(miri) { 60 } else { 1000usize } {
        let body: Vec<u8> =
            (0..round * 7 % (piece_bytes(WORDS) + 1)).map(|i| (i + round) as u8 | 1).collect();
        ring.push(&body).unwrap();
        assert_eq!(ring.pop().unwrap(), Some(body));
        assert_eq!(ring.pop().unwrap(), None);
        assert!(ring.words.iter().all(|w| w.load(Ordering::Relaxed) == 0), "cleared after use");
    }
    let piece = vec![0; piece_bytes(WORDS) + 1];
    assert_eq!(ring.push(&piece), Err(Unsent::TooLarge));
}

#[test]
fn a_full_ring_refuses_and_loses_nothing() {
    let mut ring = Ring::new();
    let (mut sent, mut received) = (0u64, 0u64);
    for _ in 0..200 {
        while ring.push(&sent.to_le_bytes()).is_ok() {
            sent += 1;
        }
        assert!(sent - received <= WORDS / LINE);
        for _ in 0..3 {
            if let Some(body) = ring.pop().unwrap() {
                assert_eq!(body, received.to_le_bytes());
                received += 1;
            }
        }
    }
    assert!(received > 500, "{received}");
}

#[test]
fn what_a_lying_peer_writes_is_an_error_and_nothing_else() {
    for header in [u64::MAX, 1 << 31, SKIP | 8, SIZE, 1 << 40, piece_bytes(WORDS) as u64 + 1] {
        let mut ring = Ring::new();
        ring.words[0].store(header, Ordering::Relaxed);
        ring.words[1].store(indicator(FIRST, 1, header), Ordering::Release);
        assert_eq!(ring.pop(), Err(Broken::Size), "{header:#x}");
    }
    // A size that was torn or changed after its indicator, and a record of another turn.
    for (header, number) in [(8, 1), (16, 2)] {
        let mut ring = Ring::new();
        ring.words[0].store(16, Ordering::Relaxed);
        ring.words[1].store(indicator(FIRST, number, header), Ordering::Release);
        assert_eq!(ring.pop(), Err(Broken::Header));
    }
    let mut ring = Ring::new();
    ring.push(b"12345678").unwrap();
    ring.words[3].store(77, Ordering::Release);
    assert_eq!(ring.pop(), Err(Broken::Indicator));
    for credit in [8, 4, u64::MAX] {
        let mut ring = Ring::new();
        ring.credit.store(credit, Ordering::Release);
        let broken = (0..100).find_map(|_| ring.push(&[0; 200]).err());
        assert_eq!(broken, Some(if credit == 8 { Unsent::Full } else { Unsent::Broken(Broken::Credit) }));
    }
}

#[test]
fn half_a_record_is_not_a_message() {
    let mut ring = Ring::new();
    ring.push(b"0123456789abcdef").unwrap();
    let last = ring.words[4].swap(0, Ordering::Relaxed);
    assert_eq!(ring.pop(), Ok(None));
    ring.words[4].store(last, Ordering::Release);
    assert_eq!(ring.pop().unwrap().unwrap(), b"0123456789abcdef");
}

#[cfg(not(miri))]
mod garbage {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arbitrary_words_never_panic(words in proptest::collection::vec(any::<u64>(), WORDS as usize), size in 0u64..200) {
            let mut ring = Ring::new();
            for (to, word) in ring.words.iter().zip(words) {
                to.store(word, Ordering::Relaxed);
            }
            let _ = ring.pop();
            // The same with a first indicator that fits.
            let mut ring2 = Ring::new();
            std::mem::swap(&mut ring2.words, &mut ring.words);
            ring2.words[0].store(size, Ordering::Relaxed);
            ring2.words[1].store(indicator(FIRST, 1, size), Ordering::Relaxed);
            let _ = ring2.pop();
        }
    }
}
