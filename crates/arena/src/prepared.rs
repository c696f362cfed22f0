//! What readers are told of transactions that are prepared and not committed: their versions, or that they are under way.
//!
//! Two ways, of which the layers above choose. A **table of prepared versions**, named in the superblock: an ordinary table, whose keys
//! name a transaction and a key, so that who knows of a transaction from one of its other keys finds the rest of it. Or the **invalidation** of "RAMP over RDMA" (algorithm 1): a mark in the current cell, set at prepare, at which a reader asks the
//! owner.
use crate::Error;
use crate::cell::shape_at;
use crate::index;
use crate::layout::{INVALIDATED, Table, cell, current_link, entry_offset, superblock};
use crate::owner::Arena;
use crate::sync::Ordering;

impl Arena {
    /// The table of prepared versions. `None`: there is none yet, or none any more since a flush.
    pub fn prepared(&self) -> Option<Table> {
        let raw = self.region.load(superblock::PREPARED_AT, Ordering::Relaxed);
        (raw != 0).then(|| Table::from_raw(raw)).filter(|t| self.descriptor(*t).is_some())
    }

    /// The same, made if there is none.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn prepared_table(&mut self) -> Result<Table, Error> {
        if let Some(table) = self.prepared() {
            return Ok(table);
        }
        let table = self.new_table(1)?;
        self.region.store(superblock::PREPARED_AT, table.to_raw(), Ordering::Release);
        Ok(table)
    }

    /// Marks the current cell of a key of the root table, or takes the mark away. A version that replaces it has none; an
    /// absent key cannot be marked.
    pub fn invalidate(&mut self, hash: u64, key: &[u8], marked: bool) {
        let Some(d) = self.descriptor(Table::ROOT) else { return };
        if let Some(slot) = index::find(&self.region, d.home(&self.region, hash), hash, key) {
            let at = entry_offset(slot.entry);
            let link = if marked { INVALIDATED } else { current_link(shape_at(&self.region, at).seq()) };
            self.region.store(at + 8 * cell::LINK as u64, link, Ordering::Release);
        }
    }
}
