//! LCS: the longest common subsequence of two strings, by the usual table of prefixes.
//!
//! `best[i][j]` is the length for the first `i` bytes of one string and the first `j` of the other. Walking back from the
//! far corner gives the subsequence from its end, and with IDX the runs of it that are contiguous in both strings.
use super::parse::{MAX_STRING, TWO_KEYS, commands, is, parse_int};
use crate::{Call, Command, Error, Result};

pub(crate) static TABLE: &[Command] = commands! { String:
    "lcs" -3 (READONLY) TWO_KEYS Gather Read "7.0.0" "O(N*M) where N and M are the lengths of the strings"
        "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]"
        "Returns the longest common subsequence of two strings." => lcs;
};

/// A contiguous run of the subsequence: where it begins in each string, and its length.
#[derive(Clone, Copy)]
struct Run {
    a: usize,
    b: usize,
    len: usize,
}

fn lcs(c: &mut Call<'_>) -> Result<()> {
    let not_strings = |_| Error::other("ERR The specified keys must contain string values");
    let a = c.shard.string(c.args[1]).map_err(not_strings)?.unwrap_or_default();
    let b = c.shard.string(c.args[2]).map_err(not_strings)?.unwrap_or_default();
    let (mut only_len, mut idx, mut with_len, mut min) = (false, false, false, 0);
    let mut args = &c.args[3..];
    while let [option, rest @ ..] = args {
        args = rest;
        match rest {
            _ if is(option, "idx") => idx = true,
            _ if is(option, "len") => only_len = true,
            _ if is(option, "withmatchlen") => with_len = true,
            [n, rest @ ..] if is(option, "minmatchlen") => {
                min = parse_int(n)?.max(0) as usize;
                args = rest;
            }
            _ => return Err(Error::Syntax),
        }
    }
    if idx && only_len {
        return Err(Error::other("ERR If you want both the length and indexes, please just use IDX."));
    }
    let too_long = a.len() >= u32::MAX as usize || b.len() >= u32::MAX as usize;
    if too_long {
        return Err(Error::other("ERR String too long for LCS"));
    }
    let width = b.len() + 1;
    if (a.len() + 1).checked_mul(width).is_none_or(|n| n > MAX_STRING / 4) {
        return Err(Error::other(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ));
    }
    let mut best = vec![0u32; (a.len() + 1) * width];
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            best[i * width + j] = if a[i - 1] == b[j - 1] {
                best[(i - 1) * width + j - 1] + 1
            } else {
                best[(i - 1) * width + j].max(best[i * width + j - 1])
            };
        }
    }
    let total = i64::from(best[best.len() - 1]);
    if only_len {
        c.out.int(total);
        return Ok(());
    }
    let (common, runs) = walk_back(a, b, &best);
    if !idx {
        c.out.bulk(&common);
        return Ok(());
    }
    let runs: Vec<Run> = runs.into_iter().filter(|r| r.len >= min).collect();
    c.out.map(2);
    c.out.bulk(b"matches");
    c.out.array(runs.len());
    for r in runs {
        c.out.array(if with_len { 3 } else { 2 });
        for at in [r.a, r.b] {
            c.out.array(2);
            c.out.int(at as i64);
            c.out.int((at + r.len - 1) as i64);
        }
        if with_len {
            c.out.int(r.len as i64);
        }
    }
    c.out.bulk(b"len");
    c.out.int(total);
    Ok(())
}

/// The subsequence, and its runs from the last to the first.
fn walk_back(a: &[u8], b: &[u8], best: &[u32]) -> (Vec<u8>, Vec<Run>) {
    let width = b.len() + 1;
    let (mut i, mut j) = (a.len(), b.len());
    let mut common = Vec::with_capacity(best[best.len() - 1] as usize);
    let mut runs: Vec<Run> = Vec::new();
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            (i, j) = (i - 1, j - 1);
            common.push(a[i]);
            match runs.last_mut() {
                Some(r) if r.a == i + 1 && r.b == j + 1 => *r = Run { a: i, b: j, len: r.len + 1 },
                _ => runs.push(Run { a: i, b: j, len: 1 }),
            }
        } else if best[(i - 1) * width + j] > best[i * width + j - 1] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    common.reverse();
    (common, runs)
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::Probe;

    #[test]
    fn the_subsequence_its_length_and_its_runs_are_redis_own() {
        Probe::new().expect(
            "mset a ohmytext b mynewtext => +OK
             lcs a b => $6 mytext
             lcs a b len => :6
             lcs a b idx => *4 $7 matches *2 *2 *2 :4 :7 *2 :5 :8 *2 *2 :2 :3 *2 :0 :1 $3 len :6
             lcs a b idx minmatchlen 4 withmatchlen => *4 $7 matches *1 *3 *2 :4 :7 *2 :5 :8 :4 $3 len :6
             lcs a none => $0 
             lcs a b idx len => -ERR If you want both the length and indexes, please just use IDX.
             lcs a b what => -ERR syntax error
             rpush l x => :1
             lcs a l => -ERR The specified keys must contain string values",
        );
    }
}
