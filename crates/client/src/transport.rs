//! Where a client's connections come from, and what time it is there.
use kintsugidb_fabric::{Address, ConnectOptions, Connection, Error, connect};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// A way to a server. Ordinarily an [`Address`]; a simulated network has its own connections, and its own time.
pub trait Transport: Send + Sync {
    /// Makes a connection.
    ///
    /// # Errors
    /// As [`kintsugidb_fabric::connect`].
    fn connect(&self, options: &ConnectOptions) -> Result<Box<dyn Connection>, Error>;

    /// The time since some moment that stays the same. It never goes back.
    fn now(&self) -> Duration;
}

impl Transport for Address {
    fn connect(&self, options: &ConnectOptions) -> Result<Box<dyn Connection>, Error> {
        Ok(connect(self, options)?.connection)
    }

    fn now(&self) -> Duration {
        let t = clock_gettime(ClockId::Monotonic);
        Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
    }
}
