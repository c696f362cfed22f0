//! What a client process tells the one that started it: a line of words.
use crate::{Error, Result};
use hdrhistogram::Histogram;

/// What one client did in one round.
#[derive(Debug, PartialEq)]
pub struct Report {
    /// Transactions.
    pub transactions: u64,
    /// Its CPU time in nanoseconds.
    pub cpu_ns: u64,
    /// Reads that were answered one-sidedly, in whole.
    pub one_sided: u64,
    /// Reads that were to be one-sided and took a message.
    pub fallbacks: u64,
    /// Second rounds of reads.
    pub second_rounds: u64,
    /// Latencies in nanoseconds.
    pub latency: Histogram<u64>,
}

/// An empty histogram: up to a minute, three digits.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds that make sense")
}

impl Report {
    /// As one line.
    pub fn line(&self) -> String {
        let latency: Vec<String> = self
            .latency
            .iter_recorded()
            .map(|v| format!("{}:{}", v.value_iterated_to(), v.count_at_value()))
            .collect();
        format!(
            "{} {} {} {} {} {}",
            self.transactions,
            self.cpu_ns,
            self.one_sided,
            self.fallbacks,
            self.second_rounds,
            latency.join(",")
        )
    }

    /// From its line.
    pub fn parse(line: &str) -> Result<Report> {
        let wrong = || Error::Reply(format!("a client said: {line}"));
        let mut words = line.trim_end().split(' ');
        let mut number = || words.next().and_then(|w| w.parse::<u64>().ok()).ok_or_else(wrong);
        let (transactions, cpu_ns, one_sided, fallbacks, second_rounds) =
            (number()?, number()?, number()?, number()?, number()?);
        let mut latency = histogram();
        for pair in words.next().unwrap_or("").split(',').filter(|p| !p.is_empty()) {
            let (value, count) = pair.split_once(':').ok_or_else(wrong)?;
            let (value, count) = (value.parse().map_err(|_| wrong())?, count.parse().map_err(|_| wrong())?);
            latency.record_n(value, count).map_err(|_| wrong())?;
        }
        Ok(Report { transactions, cpu_ns, one_sided, fallbacks, second_rounds, latency })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_reports_arrives() {
        let mut latency = histogram();
        [250u64, 251, 9_000, 2_000_000_000].iter().for_each(|v| latency.record(*v).unwrap());
        let report =
            Report { transactions: 4, cpu_ns: 99, one_sided: 3, fallbacks: 1, second_rounds: 2, latency };
        let back = Report::parse(&report.line()).unwrap();
        assert_eq!(back.latency.value_at_quantile(0.5), report.latency.value_at_quantile(0.5));
        assert_eq!((back.transactions, back.latency.len(), back.second_rounds), (4, 4, 2));
        assert!(Report::parse("1 2 3").is_err() && Report::parse("1 2 3 4 5 x").is_err());
    }
}
