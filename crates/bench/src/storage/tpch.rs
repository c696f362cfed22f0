//! The reads of TPC-H Q3, from a program that does it: tables of [`tpchgen`] in a file, read page by page, each read recorded.
//!
//! ```text
//!   file   customer rows │ orders rows │ lineitem rows        text, each table from a page boundary on, lineitem in order of its key
//!   Q3     scan customer: who is in segment BUILDING ─▶ scan orders: of those, before 1995-03-15 ─▶ for each, its lineitems by an index
//! ```
//! The index of lineitem (first byte of each order's rows) is in memory, as the upper levels of an index are; so the trace is two scans
//! and many small reads that move forward, the locality that the papers speak of. The answer is compared with that of a plain
//! pass over the rows as they were generated, so that what was traced is Q3 and nothing else.
use crate::{Error, Result};
use kintsugidb_storage::trace::{Access, Op, Trace};
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Instant;
use tpchgen::generators::{CustomerGenerator, LineItemGenerator, OrderGenerator};

/// Bytes of a page: the papers' log has 16 KiB.
const PAGE: u64 = 16 << 10;
const SEGMENT: &str = "BUILDING";
const DATE: &str = "1995-03-15";

/// The file's length, and the trace.
pub struct Query {
    pub bytes: u64,
    pub trace: Trace,
    /// Rows of the answer: orders with at least one lineitem that counts.
    pub orders: usize,
}

struct Table {
    start: u64,
    bytes: u64,
}

fn io(e: std::io::Error) -> Error {
    Error::Io("the tables".into(), e)
}

/// Reads pages, and writes down which.
struct Recorder {
    file: std::fs::File,
    trace: Trace,
    begun: Instant,
}

impl Recorder {
    fn page(&mut self, number: u64, into: &mut [u8]) -> Result<()> {
        let access = Access {
            time_us: self.begun.elapsed().as_micros() as u64,
            op: Op::Read,
            volume: 0,
            offset: number * PAGE,
            bytes: PAGE as u32,
        };
        self.trace.push(access).map_err(|what| Error::Reply(what.into()))?;
        self.file.read_exact_at(into, number * PAGE).map_err(io)
    }

    /// The bytes of a range, by whole pages.
    fn range(&mut self, from: u64, to: u64) -> Result<Vec<u8>> {
        let first = from / PAGE;
        let mut pages = vec![0; (to.div_ceil(PAGE).saturating_sub(first) * PAGE) as usize];
        for (at, page) in pages.chunks_exact_mut(PAGE as usize).enumerate() {
            self.page(first + at as u64, page)?;
        }
        Ok(pages[(from - first * PAGE) as usize..][..(to - from) as usize].to_vec())
    }

    fn scan(&mut self, table: &Table, mut row: impl FnMut(&[&str])) -> Result<()> {
        let (mut at, mut rest) = (table.start, Vec::new());
        while at < table.start + table.bytes {
            let to = (at + PAGE).min(table.start + table.bytes);
            rest.extend(self.range(at, to)?);
            at = to;
            let whole = rest.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
            rows(&rest[..whole], &mut row)?;
            rest.drain(..whole);
        }
        Ok(())
    }
}

fn rows(bytes: &[u8], row: &mut impl FnMut(&[&str])) -> Result<()> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::Reply("a row is not text".into()))?;
    for line in text.lines() {
        let fields: Vec<&str> = line.split('|').collect();
        row(&fields);
    }
    Ok(())
}

struct Writer {
    out: std::io::BufWriter<std::fs::File>,
    at: u64,
    line: String,
}

impl Writer {
    fn row(&mut self, row: impl std::fmt::Display) -> Result<u64> {
        self.line.clear();
        // Writing to a String cannot fail.
        let _ = writeln!(self.line, "{row}");
        self.out.write_all(self.line.as_bytes()).map_err(io)?;
        let at = self.at;
        self.at += self.line.len() as u64;
        Ok(at)
    }

    fn end(&mut self, start: u64) -> Result<Table> {
        let bytes = self.at - start;
        let fill = self.at.next_multiple_of(PAGE) - self.at;
        self.out.write_all(&vec![0; fill as usize]).map_err(io)?;
        self.at += fill;
        Ok(Table { start, bytes })
    }
}

/// Makes the tables, runs Q3 on them, and answers what it read.
pub fn query_3(path: &Path, scale: f64) -> Result<Query> {
    let file = std::fs::File::create(path).map_err(io)?;
    let mut out = Writer { out: std::io::BufWriter::new(file), at: 0, line: String::new() };
    // The plain pass goes along with the generation.
    let (mut building, mut wanted, mut expected) = (HashSet::new(), HashSet::new(), HashSet::new());
    for customer in CustomerGenerator::new(scale, 1, 1).iter() {
        if customer.c_mktsegment == SEGMENT {
            building.insert(customer.c_custkey);
        }
        out.row(&customer)?;
    }
    let customers = out.end(0)?;
    let start = out.at;
    for order in OrderGenerator::new(scale, 1, 1).iter() {
        if building.contains(&order.o_custkey) && order.o_orderdate.to_string().as_str() < DATE {
            wanted.insert(order.o_orderkey);
        }
        out.row(&order)?;
    }
    let orders = out.end(start)?;
    let (start, mut index, mut last) = (out.at, HashMap::new(), None);
    for item in LineItemGenerator::new(scale, 1, 1).iter() {
        if wanted.contains(&item.l_orderkey) && item.l_shipdate.to_string().as_str() > DATE {
            expected.insert(item.l_orderkey);
        }
        let at = out.row(&item)?;
        if last != Some(item.l_orderkey) {
            index.insert(item.l_orderkey.to_string(), (at, at));
        }
        last = Some(item.l_orderkey);
        if let Some(range) = index.get_mut(&item.l_orderkey.to_string()) {
            range.1 = out.at;
        }
    }
    out.end(start)?;
    let bytes = out.at;
    out.out.into_inner().map_err(|e| io(e.into_error()))?.sync_all().map_err(io)?;

    let file = std::fs::File::open(path).map_err(io)?;
    let trace = Trace { volumes: vec!["tpch".into()], accesses: Vec::new() };
    let mut recorder = Recorder { file, trace, begun: Instant::now() };
    let mut found = HashSet::new();
    recorder.scan(&customers, |row| {
        if row.get(6) == Some(&SEGMENT) {
            found.insert(row[0].to_owned());
        }
    })?;
    let mut matching = Vec::new();
    recorder.scan(&orders, |row| {
        if let (Some(customer), Some(date)) = (row.get(1), row.get(4))
            && found.contains(*customer)
            && *date < DATE
        {
            matching.push(row[0].to_owned());
        }
    })?;
    let mut answer = HashSet::new();
    for order in &matching {
        let Some((from, to)) = index.get(order) else { continue };
        let items = recorder.range(*from, *to)?;
        rows(&items, &mut |row: &[&str]| {
            if row.get(10).is_some_and(|shipped| *shipped > DATE) {
                answer.insert(row[0].to_owned());
            }
        })?;
    }
    let expected: HashSet<String> = expected.iter().map(ToString::to_string).collect();
    if answer != expected {
        return Err(Error::Reply(format!(
            "Q3 found {} orders, and not the {} right ones",
            answer.len(),
            expected.len()
        )));
    }
    Ok(Query { bytes, trace: recorder.trace, orders: answer.len() })
}
