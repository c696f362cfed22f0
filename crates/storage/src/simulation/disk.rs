//! A disk that takes its time, moves a block in two halves, and fails at some places.

use super::Sabotage;
use crate::engine::{Job, Op};
use crate::pattern;
use rustix::io::Errno;
use std::collections::HashMap;

/// Bytes of the simulated volume. The first half is never written.
pub const BYTES: u64 = 1 << 16;
/// The seed of its pattern.
pub const SEED: u64 = 3;
/// Reads that touch this range fail.
pub const BAD: std::ops::Range<u64> = 20480..20992;

struct Flight {
    half_ns: u64,
    due_ns: u64,
    half_done: bool,
    owner: u64,
    job: Job,
}

/// What ended: whose it was, its token, its result.
pub type Ended = (u64, u64, Result<u64, Errno>);

pub struct Disk {
    content: Vec<u8>,
    flights: Vec<Flight>,
    sabotage: Option<Sabotage>,
    /// How often the first byte of a write has been seen at its offset: writes are made so that no two begin alike.
    pub seen: HashMap<(u64, [u8; 8]), u32>,
}

impl Disk {
    pub fn new(sabotage: Option<Sabotage>) -> Disk {
        let mut content = vec![0; BYTES as usize];
        pattern::fill(SEED, 0, &mut content);
        Disk { content, flights: Vec::new(), sabotage, seen: HashMap::new() }
    }

    pub fn submit(&mut self, owner: u64, job: Job, now_ns: u64, takes_ns: u64) {
        let (half_ns, due_ns) = (now_ns + takes_ns / 2, now_ns + takes_ns);
        self.flights.push(Flight { half_ns, due_ns, half_done: false, owner, job });
    }

    /// Does what is due, in the order of time.
    pub fn advance(&mut self, now_ns: u64, ended: &mut Vec<Ended>) {
        self.flights.sort_by_key(|flight| flight.due_ns);
        for flight in &mut self.flights {
            let middle = flight.job.bytes as usize / 2;
            if !flight.half_done && flight.half_ns <= now_ns {
                flight.half_done = true;
                move_bytes(&mut self.content, &flight.job, 0..middle);
            }
            if flight.due_ns <= now_ns {
                let fails = flight.job.op == Op::Read && touches(&flight.job);
                if !fails {
                    move_bytes(&mut self.content, &flight.job, middle..flight.job.bytes as usize);
                }
                if let (Op::Write, Some(place)) = (flight.job.op, &flight.job.place)
                    && let Some(beginning) = place.to_vec().first_chunk()
                {
                    *self.seen.entry((flight.job.offset, *beginning)).or_default() += 1;
                }
                let lies = self.sabotage == Some(Sabotage::LyingDisk);
                let result = if fails && !lies { Err(Errno::IO) } else { Ok(flight.job.bytes) };
                ended.push((flight.owner, flight.job.token, result));
            }
        }
        self.flights.retain(|flight| flight.due_ns > now_ns);
    }

    /// What was under way when its target died is not done, or no more of it.
    pub fn crash(&mut self) {
        self.flights.clear();
    }
}

fn touches(job: &Job) -> bool {
    job.offset < BAD.end && BAD.start < job.offset + job.bytes
}

fn move_bytes(content: &mut [u8], job: &Job, part: std::ops::Range<usize>) {
    let Some(place) = &job.place else { return };
    let at = job.offset as usize;
    match job.op {
        Op::Read => place.put(part.start, &content[at + part.start..at + part.end]),
        Op::Write => content[at + part.start..at + part.end].copy_from_slice(&place.to_vec()[part]),
        Op::Flush | Op::Trim => {}
    }
}
