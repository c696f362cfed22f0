//! Whether what a lookup found is still so: a second look that fetches words, not cells.
//!
//! ```text
//!   present   the change word, if what it counts matters | link | flushes
//!   absent    control word | array again | frontier
//! ```
//! Read one after the other, like all ranges. The link of a current cell names its generation: seen again, the cell has been current since it was
//! found, unless the region was flushed; so has been the content of a big collection whose header named the same change just before. The change word of one generation only
//! grows.
use super::{FLUSHES, Item, Range, w0_of, word};
use crate::layout::{Array, Ref, Table, cell, current_link, table};

/// What a lookup found, to be asked later whether it is still so.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Witness {
    /// A cell, current and in that generation.
    Present {
        /// The cell.
        cell: Ref,
        /// How often the region had been flushed when it was found.
        flushes: u64,
        /// The change word, if what it counts matters.
        change: Option<u64>,
    },
    /// No cell with the key.
    Absent(Absence),
}

/// A bucket, as it was when the key was not in it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Absence {
    pub(super) table: Table,
    /// The descriptor's word that names the array.
    pub(super) which: usize,
    pub(super) array: Array,
    pub(super) bucket: u64,
    pub(super) control: u64,
}

impl Item {
    /// For the question whether it is still the key's current version.
    pub fn witness(&self) -> Witness {
        Witness::Present { cell: self.address.cell, flushes: self.address.flushes, change: None }
    }

    /// For the question whether what it is the header of has changed, too, since its words were read. `None`: it was being changed then.
    pub fn unchanged(&self) -> Option<Witness> {
        let (cell, flushes, change) = (self.address.cell, self.address.flushes, self.words[0]);
        change.is_multiple_of(2).then_some(Witness::Present { cell, flushes, change: Some(change) })
    }
}

impl Item {
    /// So many of the mutable words, to be read again.
    pub fn words_range(&self, first: usize, count: usize) -> Range {
        let at = self.address.cell.offset() + 8 * (cell::FIXED + first) as u64;
        Range { offset: at, bytes: 8 * count as u64 }
    }
}

impl Witness {
    /// What to read, one after the other.
    pub fn ask(&self) -> Vec<Range> {
        match *self {
            Self::Present { cell: this, change, .. } => {
                let at = |which: usize| word(this.offset() + 8 * which as u64);
                let change = change.map(|_| at(cell::FIXED));
                change.into_iter().chain([at(cell::LINK), FLUSHES]).collect()
            }
            Self::Absent(Absence { table: t, which, array, bucket, .. }) => {
                let field = |which: usize| word(t.offset() + 8 * which as u64);
                let home = word(array.bucket_offset(bucket));
                vec![home, field(which), field(table::W0), field(table::FRONTIER)]
            }
        }
    }

    /// Whether it is still so. `words`: what was asked for.
    pub fn holds(&self, words: &[u64]) -> bool {
        match (*self, words) {
            (Self::Present { cell, flushes, change: None }, &[link, flushed]) => {
                link == current_link(cell.seq()) && flushed == flushes
            }
            (Self::Present { cell, flushes, change: Some(change) }, &[now, link, flushed]) => {
                now == change && link == current_link(cell.seq()) && flushed == flushes
            }
            (Self::Absent(was), &[control, array, w0, frontier]) => {
                // The frontier matters to what is missing only: where an entry stood, it was looked at again.
                let emptied = was.which == table::OLD && frontier > was.bucket;
                control == was.control && array == was.array.0 && w0 == w0_of(was.table) && !emptied
            }
            _ => false,
        }
    }
}
