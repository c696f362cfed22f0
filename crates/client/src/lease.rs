//! How a client that reads memory without asking knows that the memory is still the server's.
//!
//! The regions of a server that was killed stay mapped, and would go on answering while a new server takes writes. So what was read
//! is believed only if, *after* the read, the server has been seen alive within the current tick of the system's coarse clock (a few
//! milliseconds; reading it costs some nanoseconds); in a new tick the connection is looked at again, which costs a system call. A server that
//! is started at the address of one that did not stop in order waits for longer than that before it serves.
use rustix::time::{ClockId, clock_gettime};

/// The coarse clock's reading, in nanoseconds since the Unix epoch.
#[inline]
pub(crate) fn coarse_ns() -> u64 {
    let t = clock_gettime(ClockId::RealtimeCoarse);
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}

/// When the server was last seen alive.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    tick: u64,
}

impl Lease {
    /// Whether the server has been seen in the tick that shows now.
    #[inline]
    pub fn holds(&self) -> bool {
        self.tick == coarse_ns()
    }

    /// The server was seen alive after the clock had shown `tick`.
    pub fn renew(&mut self, tick: u64) {
        self.tick = tick;
    }
}
