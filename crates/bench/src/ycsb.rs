//! The core workloads of YCSB (Cooper et al., *Benchmarking Cloud Serving Systems with YCSB*, SoCC 2010, section 4), with one more
//! parameter, as in RAMP-over-RDMA's figure 7: how many operations make a transaction.
//!
//! ```text
//!   A   50 % read, 50 % update        zipfian      D   95 % read, 5 % insert        latest
//!   B   95 % read,  5 % update        zipfian      E   95 % scan, 5 % insert        zipfian
//!   C  100 % read                     zipfian      F   50 % read, 50 % read-modify-write   zipfian
//! ```
//! A transaction is all reads or all writes: of `size` different keys. Scans (E) read runs of 1 to 100 neighbouring records; over hashed keys
//! that is a multi-key read of as many names.
//!
//! The zipfian generator is that of Gray et al., *Quickly Generating Billion-Record Synthetic Databases* (SIGMOD 1994), exponent
//! 0.99, its ranks scattered over the records by a hash, so that popular records are not neighbours.
use crate::load::Rng;

/// YCSB's exponent.
const THETA: f64 = 0.99;
/// The longest scan of workload E, in records.
const MAX_SCAN: u64 = 100;

/// Which records are popular.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// A few, anywhere.
    Zipfian,
    /// Those inserted last.
    Latest,
}

/// A mix of operations, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Reads.
    pub read: u32,
    /// Updates of existing records.
    pub update: u32,
    /// New records.
    pub insert: u32,
    /// Runs of records.
    pub scan: u32,
    /// Reads followed by an update of the same records.
    pub read_modify_write: u32,
}

/// One of the core workloads: its mix, and its distribution.
pub fn core(letter: char) -> Option<(Mix, Distribution)> {
    let mix =
        |read, update, insert, scan, read_modify_write| Mix { read, update, insert, scan, read_modify_write };
    Some(match letter.to_ascii_uppercase() {
        'A' => (mix(50, 50, 0, 0, 0), Distribution::Zipfian),
        'B' => (mix(95, 5, 0, 0, 0), Distribution::Zipfian),
        'C' => (mix(100, 0, 0, 0, 0), Distribution::Zipfian),
        'D' => (mix(95, 0, 5, 0, 0), Distribution::Latest),
        'E' => (mix(0, 0, 5, 95, 0), Distribution::Zipfian),
        'F' => (mix(50, 0, 0, 0, 50), Distribution::Zipfian),
        _ => return None,
    })
}

impl Mix {
    /// Reads and updates only.
    pub fn reads(percent: u32) -> Mix {
        Mix { read: percent, update: 100 - percent, insert: 0, scan: 0, read_modify_write: 0 }
    }
}

/// What a transaction does to the records it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads them.
    Read,
    /// Overwrites them.
    Update,
    /// Makes them.
    Insert,
    /// Reads them; they are neighbours.
    Scan,
    /// Reads, then overwrites them.
    ReadModifyWrite,
}

/// A stream of transactions for one client. Clients that insert have their own ranges of new records.
pub struct Workload {
    mix: Mix,
    distribution: Distribution,
    size: usize,
    records: u64,
    /// The next record to insert, and by how much inserts go on: clients take turns.
    next: u64,
    stride: u64,
    zipf: Zipfian,
    rng: Rng,
}

impl Workload {
    /// For client `client` of `clients`, over `records` records that are there from the start.
    pub fn new(
        mix: Mix,
        distribution: Distribution,
        size: usize,
        records: u64,
        (client, clients): (u64, u64),
        seed: u64,
    ) -> Workload {
        Workload {
            mix,
            distribution,
            size: size.max(1),
            records,
            next: records + client,
            stride: clients.max(1),
            zipf: Zipfian::new(records),
            rng: Rng(seed ^ (client + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        }
    }

    /// The next transaction: its records go to `records`, all different.
    pub fn next(&mut self, records: &mut Vec<u64>) -> Operation {
        records.clear();
        let operation = self.operation();
        match operation {
            Operation::Insert => {
                for _ in 0..self.size {
                    records.push(self.next);
                    self.next += self.stride;
                }
            }
            Operation::Scan => {
                let first = self.record();
                let length = 1 + self.rng.next() % MAX_SCAN;
                records.extend((first..first + length).map(|r| r % self.records));
            }
            _ => {
                let wanted = self.size.min(self.records as usize);
                while records.len() < wanted {
                    let record = self.record();
                    if !records.contains(&record) {
                        records.push(record);
                    }
                }
            }
        }
        operation
    }

    fn operation(&mut self) -> Operation {
        let mut at = (self.rng.next() % 100) as u32;
        for (share, operation) in [
            (self.mix.read, Operation::Read),
            (self.mix.update, Operation::Update),
            (self.mix.insert, Operation::Insert),
            (self.mix.scan, Operation::Scan),
        ] {
            if at < share {
                return operation;
            }
            at -= share;
        }
        Operation::ReadModifyWrite
    }

    fn record(&mut self) -> u64 {
        match self.distribution {
            Distribution::Uniform => self.rng.next() % self.records,
            Distribution::Zipfian => scatter(self.zipf.rank(&mut self.rng)) % self.records,
            // What this client has inserted is known to be there; ranks count back from it.
            Distribution::Latest => {
                let own = (self.next - self.records) / self.stride;
                let rank = self.zipf.rank(&mut self.rng);
                if rank < own {
                    self.next - (rank + 1) * self.stride
                } else {
                    self.records - 1 - (rank - own) % self.records
                }
            }
        }
    }
}

/// Ranks 0 .. n, the first ones most often.
struct Zipfian {
    n: u64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipfian {
    fn new(n: u64) -> Zipfian {
        let n = n.max(2);
        let zeta = |n: u64| (1..=n).map(|i| (i as f64).powf(-THETA)).sum::<f64>();
        let total = zeta(n);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - THETA)) / (1.0 - zeta(2) / total);
        Zipfian { n, zeta: total, alpha: 1.0 / (1.0 - THETA), eta }
    }

    fn rank(&self, rng: &mut Rng) -> u64 {
        let u = (rng.next() >> 11) as f64 / (1u64 << 53) as f64;
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(THETA) {
            return 1;
        }
        let rank = (self.n as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64;
        rank.min(self.n - 1)
    }
}

/// Where a rank lies among the records.
fn scatter(rank: u64) -> u64 {
    Rng(rank).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(distribution: Distribution, records: u64, draws: usize) -> Vec<u64> {
        let mut w = Workload::new(Mix::reads(100), distribution, 1, records, (0, 1), 7);
        let (mut counts, mut keys) = (vec![0; records as usize], Vec::new());
        for _ in 0..draws {
            w.next(&mut keys);
            counts[keys[0] as usize] += 1;
        }
        counts
    }

    #[test]
    fn popular_records_are_as_popular_as_zipfs_law_says() {
        let (n, draws) = (1000, 400_000);
        let mut seen = counts(Distribution::Zipfian, n, draws);
        seen.sort_unstable_by(|a, b| b.cmp(a));
        let zeta: f64 = (1..=n).map(|i| (i as f64).powf(-THETA)).sum();
        // Records that share a place (the ranks are hashed) make the first ones a little more popular.
        for rank in [1usize, 2, 10, 50] {
            let expected = draws as f64 / (rank as f64).powf(THETA) / zeta;
            let ratio = seen[rank - 1] as f64 / expected;
            assert!((0.8..1.5).contains(&ratio), "rank {rank}: {} instead of {expected:.0}", seen[rank - 1]);
        }
        let flat = counts(Distribution::Uniform, n, draws);
        assert!(flat.iter().max() < seen.first(), "the canary: uniform is not zipfian");
    }

    #[test]
    fn the_mix_is_what_it_says_and_transactions_name_different_records() {
        for letter in ['A', 'B', 'C', 'D', 'E', 'F'] {
            let (mix, distribution) = core(letter).unwrap();
            let mut w = Workload::new(mix, distribution, 8, 1000, (1, 3), 9);
            let (mut reads, mut keys, draws) = (0, Vec::new(), 20_000);
            for _ in 0..draws {
                let operation = w.next(&mut keys);
                reads += u32::from(matches!(operation, Operation::Read | Operation::Scan));
                let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
                assert_eq!(distinct.len(), keys.len(), "{letter} {operation:?} {keys:?}");
                if operation == Operation::Insert {
                    assert!(keys.iter().all(|k| *k >= 1000 && k % 3 == 1001 % 3), "{keys:?}");
                } else {
                    assert!(
                        keys.iter().all(|k| *k < 1000 || k % 3 == 1001 % 3),
                        "{letter}: {keys:?} is not there"
                    );
                }
            }
            let share = f64::from(reads) / f64::from(draws) * 100.0;
            assert!((share - f64::from(mix.read + mix.scan)).abs() < 1.5, "{letter}: {share} % reads");
        }
    }
}
