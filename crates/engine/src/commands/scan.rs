//! What HSCAN, SSCAN and ZSCAN share: the loop over steps and the shape of their reply.
use super::keyspace::{ScanOptions, cursor};
use crate::{Result, Shard};
use kintsugidb_wire::Reply;

/// Where the steps of a scan put the elements that they find.
pub(crate) struct Found<'a> {
    options: ScanOptions<'a>,
    reply: Reply,
    values: usize,
    seen: usize,
}

impl Found<'_> {
    /// An element; `write` writes it, with what belongs to it, as `values` values, if it matches.
    pub(crate) fn element(&mut self, name: &[u8], values: usize, write: impl FnOnce(&mut Reply)) {
        self.seen += 1;
        if self.options.fits(name) {
            self.values += values;
            write(&mut self.reply);
        }
    }
}

/// A whole call `…SCAN key cursor [option …]`: steps from the cursor until COUNT elements were seen or the scan is over.
/// `exists` says whether there is such a key, or that it has another type.
pub(crate) fn collection<'a>(
    shard: &Shard,
    args: &[&'a [u8]],
    out: &mut Reply,
    exists: impl FnOnce(&Shard) -> Result<bool>,
    step: impl Fn(&Shard, u64, &mut Found<'a>) -> Result<u64>,
) -> Result<()> {
    let mut next = cursor(args[2])?;
    if !exists(shard)? {
        out.array(2);
        out.bulk(b"0");
        out.array(0);
        return Ok(());
    }
    let options = ScanOptions::parse(&args[3..], false)?;
    let mut found = Found { options, reply: Reply::new(out.proto()), values: 0, seen: 0 };
    loop {
        next = step(shard, next, &mut found)?;
        if next == 0 || found.seen >= found.options.count {
            break;
        }
    }
    out.array(2);
    out.bulk(next.to_string().as_bytes());
    out.array(found.values);
    out.raw(found.reply.bytes());
    Ok(())
}
