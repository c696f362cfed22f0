//! Reads in batches: the misses of many keys overlap.
//!
//! Three passes: fetch the lines of the index; find the candidate entries and fetch their cells; read. The first two believe nothing:
//! the third reads the cell that the candidate named, and confirms the candidate after that, as the ordinary read does; what is
//! not confirmed, or not the common case, is read from the beginning. A batch may span regions.

use crate::Busy;
use crate::layout::{Table, entry_offset};
use crate::reader::{Answer, Candidate, Line, Reader};

/// One read of a batch.
#[derive(Copy, Clone)]
pub struct Get<'a> {
    /// The region.
    pub reader: &'a Reader,
    /// The table in it.
    pub table: Table,
    /// The key's hash.
    pub hash: u64,
    /// The key.
    pub key: &'a [u8],
}

/// Keys in flight at once; more would push each other out of the line-fill buffers.
const WIDTH: usize = 16;

/// Reads all of them: values appended to `out`, answers to `answers`, in order.
pub fn read_many(gets: &[Get<'_>], out: &mut Vec<u8>, answers: &mut Vec<Result<Answer, Busy>>) {
    answers.reserve(gets.len());
    for group in gets.chunks(WIDTH) {
        let mut lines: [Option<Line<'_>>; WIDTH] = [const { None }; WIDTH];
        for (get, line) in group.iter().zip(&mut lines) {
            *line = get.reader.line(get.table, get.hash);
            if let Some(line) = line {
                get.reader.region.prefetch(line.at);
            }
        }
        let mut found: [Option<Candidate<'_>>; WIDTH] = [None; WIDTH];
        for ((get, line), found) in group.iter().zip(&lines).zip(&mut found) {
            *found = line.as_ref().and_then(|line| line.candidate(get.hash));
            if let Some(Candidate { entry, .. }) = found {
                for line in 0..(*entry & 15).clamp(1, 4) {
                    get.reader.region.prefetch(entry_offset(*entry) + 64 * line);
                }
            }
        }
        for ((get, line), found) in group.iter().zip(&lines).zip(&found) {
            let start = out.len();
            let quick = match (line, found) {
                (Some(line), Some(found)) => get.reader.quick_at::<true>(line, *found, get.key, out),
                _ => None,
            };
            answers.push(match quick {
                Some(quick) => Ok(Answer::Present(quick.seen(get.table, start))),
                None => get.reader.read_slowly(get.table, get.hash, get.key, out),
            });
        }
    }
}

impl Reader {
    /// [`read_many`] of keys of the root table.
    pub fn read_many(
        &self,
        keys: &[(u64, &[u8])],
        out: &mut Vec<u8>,
        answers: &mut Vec<Result<Answer, Busy>>,
    ) {
        let gets: Vec<Get<'_>> =
            keys.iter().map(|&(hash, key)| Get { reader: self, table: Table::ROOT, hash, key }).collect();
        read_many(&gets, out, answers);
    }
}
