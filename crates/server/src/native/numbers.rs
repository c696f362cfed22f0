//! The numbers that native clients coordinate under.
//!
//! A number is used again when its client is gone, but never a transaction's name: the next holder's clock starts above everything
//! that the last one has named. A number tells its thread: number mod threads.
use kintsugidb_ramp::MAX_COORDINATORS;
use std::sync::{Mutex, PoisonError};

#[derive(Clone, Copy, Default)]
struct Number {
    taken: bool,
    last: u64,
}

/// Which numbers are taken. The first, one a thread, are the server's own.
pub(crate) struct Numbers {
    threads: usize,
    numbers: Mutex<Vec<Number>>,
}

impl Numbers {
    pub fn new(threads: usize) -> Self {
        Self { threads, numbers: Mutex::new(vec![Number::default(); usize::from(MAX_COORDINATORS)]) }
    }

    /// A free number of this thread, and the clock that its client has to begin above.
    pub fn take(&self, thread: usize) -> Option<(u16, u64)> {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let free =
            (self.threads + thread..numbers.len()).step_by(self.threads).find(|n| !numbers[*n].taken)?;
        numbers[free].taken = true;
        Some((free as u16, numbers[free].last))
    }

    /// Gives a number back. `last`: the highest name that a transaction had under it.
    pub fn give_back(&self, number: u16, last: u64) {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(n) = numbers.get_mut(usize::from(number)) {
            n.taken = false;
            n.last = n.last.max(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_tells_its_thread_and_its_next_holder_where_to_begin() {
        let numbers = Numbers::new(3);
        let (a, clock) = numbers.take(1).unwrap();
        assert_eq!((usize::from(a) % 3, clock), (1, 0));
        assert!(usize::from(a) >= 3, "the first are the server's");
        assert_ne!(numbers.take(1).unwrap().0, a);
        numbers.give_back(a, 77);
        assert_eq!(numbers.take(1), Some((a, 77)));
        let mut left = 0;
        while numbers.take(2).is_some() {
            left += 1;
        }
        assert!(left > 100 && numbers.take(2).is_none());
    }
}
