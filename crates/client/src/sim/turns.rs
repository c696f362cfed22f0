//! Threads of which one runs at a time.
use std::sync::mpsc::{Receiver, Sender, channel};

/// The side of who gives turns.
pub(super) struct Giver {
    go: Sender<()>,
    back: Receiver<()>,
}

/// The side of who gets them.
pub(super) struct Turn {
    go: Receiver<()>,
    back: Sender<()>,
}

/// Both sides.
pub(super) fn turns() -> (Giver, Turn) {
    let ((go, gone), (back, came)) = (channel(), channel());
    (Giver { go, back: came }, Turn { go: gone, back })
}

impl Giver {
    /// Lets the other side run until it passes; false if it has ended.
    pub fn give(&self) -> bool {
        self.go.send(()).is_ok() && self.back.recv().is_ok()
    }
}

/// How a thread ends whose turns are over.
pub(super) struct Over;

impl Turn {
    /// Waits for the first turn.
    pub fn begin(&self) {
        if self.go.recv().is_err() {
            std::panic::resume_unwind(Box::new(Over));
        }
    }

    /// Lets others run.
    pub fn pass(&self) {
        if self.back.send(()).is_err() || self.go.recv().is_err() {
            std::panic::resume_unwind(Box::new(Over));
        }
    }
}
