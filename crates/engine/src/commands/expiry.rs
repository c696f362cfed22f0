//! Times of expiry as arguments: `EX 10`, `PXAT 1700000000000` and kin.
use super::parse::{is, parse_int};
use crate::{Error, Result};

/// How an argument gives a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// In seconds, not milliseconds.
    pub(crate) seconds: bool,
    /// Since the Unix epoch, not from now on.
    pub(crate) absolute: bool,
}

impl Unit {
    /// EX, PX, EXAT or PXAT.
    pub(crate) fn of_option(arg: &[u8]) -> Option<Self> {
        let (seconds, absolute) = match () {
            () if is(arg, "ex") => (true, false),
            () if is(arg, "px") => (false, false),
            () if is(arg, "exat") => (true, true),
            () if is(arg, "pxat") => (false, true),
            () => return None,
        };
        Some(Self { seconds, absolute })
    }

    /// The time that `arg` gives, in milliseconds since the Unix epoch; it may have passed. Numbers out of range are
    /// errors of the command of this name.
    pub(crate) fn time(self, arg: &[u8], now_ms: u64, command: &str) -> Result<i64> {
        self.time_of(parse_int(arg)?, now_ms).ok_or_else(|| invalid(command))
    }

    /// The same for options of SET and kin, which refuse zero and less.
    pub(crate) fn future_time(self, arg: &[u8], now_ms: u64, command: &str) -> Result<u64> {
        let n = parse_int(arg)?;
        let at = if n > 0 { self.time_of(n, now_ms) } else { None };
        at.and_then(|at| u64::try_from(at).ok()).ok_or_else(|| invalid(command))
    }

    fn time_of(self, n: i64, now_ms: u64) -> Option<i64> {
        let ms = if self.seconds { n.checked_mul(1000)? } else { n };
        if self.absolute { Some(ms) } else { ms.checked_add(i64::try_from(now_ms).ok()?) }
    }
}

fn invalid(command: &str) -> Error {
    Error::other(format!("ERR invalid expire time in '{command}' command"))
}
