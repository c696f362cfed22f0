//! I/O traces: what a program read and wrote, to be replayed. The formats are specified in `spec/trace.md`.
//!
//! ```text
//!   CSV      time_us,op,volume,offset,bytes          one access a line, under this header
//!   binary   "KTRC" version count volumes… | Δtime  op+volume  offset − end of the last  bytes | …      numbers as varints
//! ```
//! The binary form is for long traces: an access that goes on where the last one ended takes five bytes or so.

use crate::limits;
use std::fmt::Write as _;

/// What an access did.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// It read.
    Read,
    /// It wrote.
    Write,
}

/// One access.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Microseconds since the trace began.
    pub time_us: u64,
    /// What it did.
    pub op: Op,
    /// Which of the trace's volumes.
    pub volume: u32,
    /// From which byte on.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u32,
}

/// A trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Names of the volumes.
    pub volumes: Vec<String>,
    /// What was done, in order of time.
    pub accesses: Vec<Access>,
}

/// Why something is no trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line or record {at}: {what}")]
pub struct TraceError {
    /// The line (from 1), or the record (from 0).
    pub at: u64,
    /// What is wrong.
    pub what: &'static str,
}

fn wrong(at: usize, what: &'static str) -> TraceError {
    TraceError { at: at as u64, what }
}

const HEADER: &str = "time_us,op,volume,offset,bytes";
const MAGIC: &[u8; 4] = b"KTRC";
const VERSION: u8 = 1;

impl Trace {
    /// The number of a volume, which is made if it is new. `None`: there are too many, or the name cannot stand in a trace.
    pub fn volume(&mut self, name: &str) -> Option<u32> {
        if let Some(at) = self.volumes.iter().position(|v| v == name) {
            return Some(at as u32);
        }
        let usable =
            !name.is_empty() && name.len() <= limits::NAME_BYTES && !name.contains([',', '\n', '\r']);
        if !usable || self.volumes.len() >= limits::OPEN_VOLUMES {
            return None;
        }
        self.volumes.push(name.to_owned());
        Some(self.volumes.len() as u32 - 1)
    }

    /// As CSV.
    pub fn to_csv(&self) -> String {
        let mut out = format!("{HEADER}\n");
        for a in &self.accesses {
            let op = if a.op == Op::Read { "read" } else { "write" };
            let volume = self.volumes.get(a.volume as usize).map_or("", String::as_str);
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{},{op},{volume},{},{}", a.time_us, a.offset, a.bytes);
        }
        out
    }

    /// From CSV.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn from_csv(text: &str) -> Result<Trace, TraceError> {
        let mut lines = text.lines().enumerate();
        if lines.next().map(|(_, l)| l.trim()) != Some(HEADER) {
            return Err(wrong(1, "the header is not time_us,op,volume,offset,bytes"));
        }
        let mut trace = Trace::default();
        for (at, line) in lines.filter(|(_, l)| !l.trim().is_empty()) {
            let at = at + 1;
            let fields: Vec<&str> = line.trim().split(',').collect();
            let [time, op, volume, offset, bytes] = fields[..] else {
                return Err(wrong(at, "not five fields"));
            };
            let time_us = time.parse().map_err(|_| wrong(at, "the time is no number"))?;
            let op = match op {
                "read" => Op::Read,
                "write" => Op::Write,
                _ => return Err(wrong(at, "the operation is neither read nor write")),
            };
            let volume = trace.volume(volume).ok_or(wrong(at, "no name of a volume, or too many"))?;
            let offset = offset.parse().map_err(|_| wrong(at, "the offset is no number"))?;
            let bytes = bytes.parse().map_err(|_| wrong(at, "the length is no number"))?;
            trace.push(Access { time_us, op, volume, offset, bytes }).map_err(|what| wrong(at, what))?;
        }
        Ok(trace)
    }

    /// Appends an access.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn push(&mut self, access: Access) -> Result<(), &'static str> {
        if self.accesses.last().is_some_and(|last| last.time_us > access.time_us) {
            return Err("time runs backwards");
        }
        if access.offset.checked_add(u64::from(access.bytes)).is_none_or(|end| end > i64::MAX as u64) {
            return Err("the range ends beyond every volume");
        }
        self.accesses.push(access);
        Ok(())
    }

    /// In the binary form.
    pub fn to_binary(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.push(VERSION);
        put(&mut out, self.volumes.len() as u64);
        for volume in &self.volumes {
            put(&mut out, volume.len() as u64);
            out.extend_from_slice(volume.as_bytes());
        }
        put(&mut out, self.accesses.len() as u64);
        let (mut time, mut end) = (0, 0u64);
        for a in &self.accesses {
            put(&mut out, a.time_us - time);
            put(&mut out, u64::from(a.volume) << 1 | u64::from(a.op == Op::Write));
            let step = a.offset.wrapping_sub(end) as i64;
            put(&mut out, ((step << 1) ^ (step >> 63)) as u64);
            put(&mut out, u64::from(a.bytes));
            (time, end) = (a.time_us, a.offset + u64::from(a.bytes));
        }
        out
    }

    /// From the binary form. Total on garbage: nothing is allocated on the word of a count.
    ///
    /// # Errors
    /// The first record that is wrong.
    pub fn from_binary(bytes: &[u8]) -> Result<Trace, TraceError> {
        let short = wrong(0, "the trace ends too early");
        let rest = bytes.strip_prefix(MAGIC).and_then(|r| r.strip_prefix(&[VERSION]));
        let mut rest = rest.ok_or(wrong(0, "no binary trace of version 1"))?;
        let mut trace = Trace::default();
        for _ in 0..take(&mut rest).ok_or(short.clone())? {
            let length = take(&mut rest).ok_or(short.clone())?;
            let (name, after) =
                rest.split_at_checked(usize::try_from(length).unwrap_or(usize::MAX)).ok_or(short.clone())?;
            let name = std::str::from_utf8(name).map_err(|_| wrong(0, "a volume's name is not UTF-8"))?;
            let before = trace.volumes.len();
            if trace.volume(name) != Some(before as u32) {
                return Err(wrong(0, "a volume's name is wrong or there twice"));
            }
            rest = after;
        }
        let count = take(&mut rest).ok_or(short)?;
        let (mut time, mut end) = (0u64, 0u64);
        for at in 0..count {
            let at = at as usize;
            let mut next = || take(&mut rest).ok_or(wrong(at, "the trace ends too early"));
            time = time.checked_add(next()?).ok_or(wrong(at, "time overflows"))?;
            let kind = next()?;
            let step = next()?;
            let offset = end.wrapping_add(((step >> 1) as i64 ^ -((step & 1) as i64)) as u64);
            let bytes = u32::try_from(next()?).map_err(|_| wrong(at, "an access of more than 4 GiB"))?;
            let volume = u32::try_from(kind >> 1).ok().filter(|v| (*v as usize) < trace.volumes.len());
            let volume = volume.ok_or(wrong(at, "no such volume"))?;
            let op = if kind & 1 == 0 { Op::Read } else { Op::Write };
            trace
                .push(Access { time_us: time, op, volume, offset, bytes })
                .map_err(|what| wrong(at, what))?;
            end = offset + u64::from(bytes);
        }
        if rest.is_empty() {
            Ok(trace)
        } else {
            Err(wrong(count as usize, "something stands behind the trace"))
        }
    }

    /// Either form, told by its beginning.
    ///
    /// # Errors
    /// As the two.
    pub fn parse(bytes: &[u8]) -> Result<Trace, TraceError> {
        if bytes.starts_with(MAGIC) {
            return Trace::from_binary(bytes);
        }
        Trace::from_csv(std::str::from_utf8(bytes).map_err(|_| wrong(1, "neither a binary trace nor text"))?)
    }

    /// From the output of `strace -f -ttt -y -e trace=pread64,pwrite64`. Lines that are something else, calls that failed, and those
    /// that strace cut in two (`unfinished`) without a count are left out; `only` keeps the files whose path ends so.
    pub fn from_strace(text: &str, only: Option<&str>) -> Trace {
        let mut trace = Trace::default();
        let mut first = None;
        let mut found: Vec<(u64, Op, String, u64, u32)> = Vec::new();
        for line in text.lines() {
            let Some((path, access)) = strace_line(line) else { continue };
            if only.is_some_and(|end| !path.ends_with(end)) {
                continue;
            }
            let begun = *first.get_or_insert(access.0);
            found.push((access.0.saturating_sub(begun), access.1, path.to_owned(), access.2, access.3));
        }
        // Lines of several threads can stand out of order by a little.
        found.sort_by_key(|f| f.0);
        for (time_us, op, path, offset, bytes) in found {
            if let Some(volume) = trace.volume(&path) {
                // What cannot be an access is left out like everything else that is not one.
                let _ = trace.push(Access { time_us, op, volume, offset, bytes });
            }
        }
        trace
    }
}

/// Time, operation, offset, bytes.
type Traced = (u64, Op, u64, u32);

/// `[pid 1] 1700000000.000001 pread64(3</path>, "..."..., 4096, 8192) = 4096`
fn strace_line(line: &str) -> Option<(&str, Traced)> {
    let (before, op, call) = match line.split_once("pread64(") {
        Some((before, call)) => (before, Op::Read, call),
        None => line.split_once("pwrite64(").map(|(before, call)| (before, Op::Write, call))?,
    };
    let (seconds, fraction) = before.split_whitespace().next_back()?.split_once('.')?;
    let fraction = fraction.get(..6)?.parse::<u64>().ok()?;
    let time_us = seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(fraction)?;
    let (call, result) = call.rsplit_once(") = ")?;
    let bytes = result.split_whitespace().next()?.parse::<u32>().ok()?;
    let (_, after) = call.split_once('<')?;
    let (path, _) = after.split_once(">,")?;
    let offset = call.rsplit_once(", ")?.1.parse::<u64>().ok()?;
    Some((path, (time_us, op, offset, bytes)))
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7F);
        if part << shift >> shift != part {
            return None;
        }
        number |= part << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_trace_survives_both_forms(list in proptest::collection::vec((0u64..1000, any::<bool>(), 0u32..3, 0u64..1 << 50, any::<u32>()), 0..50)) {
            let mut trace = Trace { volumes: vec!["a".into(), "b".into(), "/c d".into()], ..Trace::default() };
            let mut time_us = 0;
            for (step, write, volume, offset, bytes) in list {
                time_us += step;
                let op = if write { Op::Write } else { Op::Read };
                trace.push(Access { time_us, op, volume, offset, bytes }).unwrap();
            }
            prop_assert_eq!(Trace::parse(&trace.to_binary()), Ok(trace.clone()));
            let text = Trace::parse(trace.to_csv().as_bytes()).unwrap();
            prop_assert_eq!(text.to_csv(), trace.to_csv());
        }

        #[test]
        fn garbage_is_an_error_and_nothing_else(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut binary = b"KTRC\x01".to_vec();
            binary.extend_from_slice(&bytes);
            let _ = (Trace::parse(&bytes), Trace::parse(&binary));
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let _ = (Trace::from_csv(&format!("{HEADER}\n{text}")), Trace::from_strace(&text, None));
        }
    }

    #[test]
    fn straces_output_is_understood() {
        let text = "\
12 1700000000.000100 pread64(3</srv/a>, \"x, y) = 3\"..., 4096, 8192) = 4096
[pid 13] 1700000000.000350 pwrite64(4</srv/b c>, \"\"..., 512, 0) = 512
1700000000.000400 pread64(3</srv/a>, 0x7f, 16, 99) = -1 EIO (Input/output error)
1700000000.000400 pread64(3</srv/a>,  <unfinished ...>
1700000000.000500 pread64(3</srv/a>, \"\", 16, 12288) = 0
+++ exited with 0 +++";
        let trace = Trace::from_strace(text, None);
        assert_eq!(trace.volumes, ["/srv/a", "/srv/b c"]);
        let csv = trace.to_csv();
        let lines: Vec<&str> = csv.lines().skip(1).collect();
        assert_eq!(lines, ["0,read,/srv/a,8192,4096", "250,write,/srv/b c,0,512", "400,read,/srv/a,12288,0"]);
        assert_eq!(Trace::from_strace(text, Some("b c")).accesses.len(), 1);
    }
}
