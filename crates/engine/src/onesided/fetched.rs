//! A point read of one key in a region that is not mapped: a state machine that asks for ranges of bytes and is fed what they held.
//!
//! ```text
//!   string, packed    root cell                                             by a known address one round trip, else 2 or 3
//!   big collection    root cell (the header)
//!                     the items, side by side: cells, by known addresses or by the sub-table's index | COUNT and MODIFIED
//!   of a transaction  beside the items: its record, unless it was seen to be over when this version was read before
//!   in the end        the witness: change word | link | flushes               with the last of the above where ranges are read in order
//! ```
//! **An answer of several reads is one version's answer.** Nothing else is believed than what holds from the moment *m* when the root
//! lookup ended to the witness, which is read after everything else:
//!
//! - The header is of the same generation, without a successor, and the region was not flushed: it was the key's current cell all the time.
//!   Its change word is what it was at *m*, and even. It only grows, so the owner changed no item between *m* and the witness. (A header that
//!   another command puts in its place, of the same table, has a change word of its own; but the store of the link to it comes first.)
//! - So each item that was found between them was so at *m*, and so was each that was missing; COUNT and MODIFIED, too.
//!   They are read after the change word was: words of one range have no order.
//! - Items by known addresses need no index: a cell of that generation that has no successor is the item's, as long as the table is the
//!   header's; tables are dropped after their header has gone.
//! - A cell that a transaction wrote may be a step on its owner's way through it, until its record says that it is done. The witness is read after the
//!   record: what is still so then was no step.
//!
//! - Of a transaction that was committed everywhere before this read began nothing can be missed, here or in its other keys: its record is not read.
//!
//! A packed collection is one cell, and its checksum tells whether it is whole.
//!
//! Bounds: a cell is at most [`MAX_CELL`](kintsugidb_arena::remote::MAX_CELL) bytes, a call at most [`MAX_NAMES`] items, a lookup at most so many
//! attempts. What is beyond them, and bytes that no owner writes, are a message's: [`Stop::GiveUp`].
#[cfg(test)]
mod fetcher;
#[cfg(test)]
mod tests;

use super::part::{Item, Part, Root, score_of};
use super::{Cache, Point};
use crate::{Error, Result, fingerprint_with, packed, shard};
use kintsugidb_arena::{
    Kind, Ref, Table,
    remote::{self, Lookup, Outcome, Range, Record, TRIES, Witness, ask_record, feed_record},
};
use kintsugidb_wire::Reply;

/// Items that are read of one key; more are the owner's to send.
pub const MAX_NAMES: usize = 1024;

/// Why a read did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Something changed meanwhile: another attempt may succeed.
    Changed,
    /// It is not to be had this way, or the owner wants to be asked.
    GiveUp,
}

/// A read of one key.
#[derive(Debug)]
pub struct KeyRead<'a> {
    region: u64,
    seed: u64,
    key: &'a [u8],
    part: Part<'a>,
    now_ms: u64,
    root: Lookup<'a>,
    found: Option<Found>,
    header: Header,
    items: Vec<ItemRead<'a>>,
    record: RecordRead,
}

/// The root cell, if there is one, and how to see whether it still holds.
#[derive(Debug)]
struct Found {
    item: Option<Box<remote::Item>>,
    witness: Witness,
}

/// The words COUNT and MODIFIED of a big collection.
#[derive(Clone, Copy, Debug)]
enum Header {
    Unread,
    Asked(Range),
    Known([u64; 2]),
}

#[derive(Debug)]
struct ItemRead<'a> {
    table: Table,
    name: &'a [u8],
    lookup: Lookup<'a>,
    found: Option<Option<Box<remote::Item>>>,
}

#[derive(Debug)]
enum RecordRead {
    Nothing,
    Asked { at: Ref, bytes: u64, tries: usize },
    Known(Option<Record>),
}

/// COUNT and MODIFIED stand side by side, before the table.
const _: () = assert!(shard::COUNT + 1 == shard::MODIFIED);

impl<'a> KeyRead<'a> {
    /// Begins to read a key whose hash has this seed, from what is known of its region. Expiry is judged by `now_ms`.
    pub fn new(cache: &Cache, seed: u64, key: &'a [u8], part: Part<'a>, now_ms: u64) -> Self {
        let root = cache.look_up(Table::ROOT, fingerprint_with(seed, key), key);
        let region = cache.region();
        let (header, record) = (Header::Unread, RecordRead::Nothing);
        Self { region, seed, key, part, now_ms, root, found: None, header, items: Vec::new(), record }
    }

    /// What to read next: lists of ranges. Those of a list one after the other; the lists in any order. None: it has come to its end.
    ///
    /// # Errors
    /// [`Stop::GiveUp`] if a record is said to be where there can be none.
    pub fn ask(&self) -> std::result::Result<Vec<Vec<Range>>, Stop> {
        if self.found.is_none() {
            return Ok(vec![self.root.ask().to_vec()]);
        }
        let open = self.items.iter().filter(|i| i.found.is_none());
        let mut lists: Vec<_> = open.map(|i| i.lookup.ask().to_vec()).collect();
        if let Header::Asked(range) = self.header {
            lists.push(vec![range]);
        }
        if let RecordRead::Asked { at, bytes, .. } = self.record {
            lists.push(ask_record(self.region, at, bytes).ok_or(Stop::GiveUp)?.to_vec());
        }
        Ok(lists)
    }

    /// Whether what is asked for now may be the last before the witness, and the witness is known.
    pub fn may_end(&self) -> bool {
        self.witness().is_some() && self.items.iter().all(|i| i.found.is_some() || i.lookup.may_end())
    }

    /// Whether nothing but the witness is left to be read.
    pub fn has_ended(&self) -> bool {
        self.found.is_some()
            && self.items.iter().all(|i| i.found.is_some())
            && !matches!(self.header, Header::Asked(_))
            && !matches!(self.record, RecordRead::Asked { .. })
    }

    /// Takes the words of all ranges of the lists of [`KeyRead::ask`], list by list.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn feed(
        &mut self,
        fed: &mut impl Iterator<Item = Vec<u64>>,
        cache: &mut Cache,
    ) -> std::result::Result<(), Stop> {
        let mut next = || fed.next().unwrap_or_default();
        if self.found.is_none() {
            let outcome = self.root.feed(&next()).map_err(|_| Stop::GiveUp)?;
            return outcome.map_or(Ok(()), |outcome| self.on_root(outcome, cache));
        }
        for item in self.items.iter_mut().filter(|i| i.found.is_none()) {
            // Its table may have been dropped.
            let found = match item.lookup.feed(&next()).map_err(|_| Stop::Changed)? {
                None => continue,
                Some(Outcome::Absent(_)) => None,
                Some(Outcome::Found(found)) if found.kind == Kind::Item => Some(found),
                Some(Outcome::Found(_)) => return Err(Stop::GiveUp),
            };
            cache.learn(item.table, item.name, &item.lookup, found.as_ref().map(|f| f.address));
            item.found = Some(found);
        }
        if matches!(self.header, Header::Asked(_)) {
            self.header = Header::Known(next().try_into().map_err(|_| Stop::GiveUp)?);
        }
        if let RecordRead::Asked { at, bytes, tries } = self.record {
            self.record = match feed_record(at, &next()) {
                Ok(record) => {
                    // Gone, too: it is over for longer than the window.
                    if let Some(root) = self.root().filter(|_| record.as_ref().is_none_or(|r| r.stable)) {
                        cache.settle(self.key, root.ts);
                    }
                    RecordRead::Known(record)
                }
                Err(more) if tries + 1 < TRIES => {
                    RecordRead::Asked { at, bytes: more.max(bytes), tries: tries + 1 }
                }
                Err(_) => return Err(Stop::Changed),
            };
        }
        Ok(())
    }

    /// The root lookup has ended: what else has to be read is known now.
    fn on_root(&mut self, outcome: Outcome, cache: &mut Cache) -> std::result::Result<(), Stop> {
        let item = match outcome {
            Outcome::Found(item) => item,
            Outcome::Absent(witness) => {
                cache.learn(Table::ROOT, self.key, &self.root, None);
                self.found = Some(Found { item: None, witness });
                return Ok(());
            }
        };
        cache.learn(Table::ROOT, self.key, &self.root, Some(item.address));
        if item.invalidated {
            return Err(Stop::GiveUp);
        }
        if let Some(at) = item.txn.filter(|_| !cache.is_settled(self.key, item.ts)) {
            self.record = RecordRead::Asked { at, bytes: 0, tries: 0 };
        }
        let mut witness = item.witness();
        let of = match self.part {
            Part::Root => None,
            Part::Len(of) | Part::Items(of, _) => Some(of).filter(|_| self.is_live(&item)),
        };
        match of.filter(|of| shard::type_of(item.kind) == Some(*of)) {
            None => {}
            Some(_) if shard::is_big(item.kind) => {
                witness = item.unchanged().ok_or(Stop::Changed)?;
                let words = item.words_range(shard::COUNT, 2);
                if words.offset + words.bytes > self.region {
                    return Err(Stop::GiveUp);
                }
                self.header = Header::Asked(words);
                self.ask_items(Table::from_raw(item.words[shard::TABLE]), cache)?;
            }
            Some(of) if !packed::is_whole(shard::shape(of), &item.value) => return Err(Stop::GiveUp),
            Some(_) => {}
        }
        self.found = Some(Found { item: Some(item), witness });
        Ok(())
    }

    /// Takes a version of the key in the place of what was read: a string or a tombstone, whole in its cell.
    pub fn replace(&mut self, item: remote::Item) {
        let witness = item.witness();
        self.found = Some(Found { item: Some(Box::new(item)), witness });
        (self.header, self.record) = (Header::Unread, RecordRead::Nothing);
        self.items.clear();
    }

    fn ask_items(&mut self, table: Table, cache: &Cache) -> std::result::Result<(), Stop> {
        let Part::Items(_, names) = self.part else { return Ok(()) };
        if names.len() > MAX_NAMES {
            return Err(Stop::GiveUp);
        }
        self.items.extend(names.iter().map(|name| {
            let lookup = cache.look_up(table, fingerprint_with(self.seed, name), name);
            ItemRead { table, name, lookup, found: None }
        }));
        Ok(())
    }

    fn is_live(&self, item: &remote::Item) -> bool {
        item.kind != Kind::Tombstone && (item.expire_at_ms == 0 || item.expire_at_ms > self.now_ms)
    }

    /// The root cell, live or not, once it has been found.
    pub fn root(&self) -> Option<&remote::Item> {
        self.found.as_ref()?.item.as_deref()
    }

    fn live(&self) -> Option<&remote::Item> {
        self.root().filter(|item| self.is_live(item))
    }

    /// To be read after everything else, and after all other keys of the shard. Before the root cell is there: the one that it will have, if it is where
    /// it was the last time; it was the right one if it is still the same in the end.
    pub fn witness(&self) -> Option<Witness> {
        self.found.as_ref().map_or_else(|| self.root.expected_witness(), |f| Some(f.witness))
    }

    /// Whether the answer is made of several cells.
    pub fn is_of_several_cells(&self) -> bool {
        !matches!(self.header, Header::Unread)
    }

    /// Whether a transaction of several keys wrote the root cell.
    pub fn was_in_transaction(&self) -> bool {
        !matches!(self.record, RecordRead::Nothing)
    }

    /// The record of the transaction that wrote the root cell, unless that is over.
    pub fn record(&self) -> Option<&Record> {
        match &self.record {
            RecordRead::Known(record) => record.as_ref(),
            RecordRead::Nothing | RecordRead::Asked { .. } => None,
        }
    }

    /// The timestamp of the key's last change; 0: it is absent.
    pub fn ts(&self) -> u64 {
        let modified = match self.header {
            Header::Known([_, modified]) => modified,
            Header::Unread | Header::Asked(_) => 0,
        };
        self.root().map_or(0, |item| {
            let words = if shard::is_big(item.kind) { item.words[shard::MODIFIED] } else { 0 };
            item.ts.max(words).max(modified)
        })
    }

    /// Whether one timestamp says all of what was read: a version of a string, or that nothing is known of the key. A collection may have items newer than
    /// a transaction, and lack others that the transaction writes; and a tombstone may be what is left of a collection.
    pub fn is_one_item(&self) -> bool {
        let kind = self.root().map(|item| item.kind);
        matches!(self.part, Part::Root) && matches!(kind, None | Some(Kind::String))
    }

    /// Attempts that had to be repeated.
    pub fn retries(&self) -> u64 {
        self.lookups().map(|l| l.retries() as u64).sum()
    }

    /// Links that were followed.
    pub fn followed(&self) -> u64 {
        self.lookups().map(|l| l.followed() as u64).sum()
    }

    fn lookups(&self) -> impl Iterator<Item = &Lookup<'a>> {
        std::iter::once(&self.root).chain(self.items.iter().map(|i| &i.lookup))
    }

    /// Whether there is a key.
    pub fn is_there(&self) -> bool {
        self.live().is_some()
    }

    /// The string, if there is one.
    ///
    /// # Errors
    /// [`Error::WrongType`].
    pub fn string(&self) -> Result<Option<&[u8]>> {
        match self.live() {
            None => Ok(None),
            Some(item) if item.kind == Kind::String => Ok(Some(&item.value)),
            Some(_) => Err(Error::WrongType),
        }
    }

    fn show(&self, point: Point, out: &mut Reply) -> Result<()> {
        let live = self.live();
        let (Part::Len(of) | Part::Items(of, _)) = self.part else {
            let root = live.map(|i| Root { kind: i.kind, expire_at_ms: i.expire_at_ms, value: &i.value });
            return point.show_root(root, self.now_ms, out);
        };
        if live.is_some_and(|item| shard::type_of(item.kind) != Some(of)) {
            return Err(Error::WrongType);
        }
        let big = live.is_some_and(|item| shard::is_big(item.kind));
        let value = live.map_or(&[][..], |item| &item.value);
        let Part::Items(_, names) = self.part else {
            out.int(match self.header {
                Header::Known([count, _]) => count,
                Header::Unread | Header::Asked(_) => packed::count(value) as u64,
            } as i64);
            return Ok(());
        };
        if point.is_list() {
            out.array(names.len());
        }
        for (i, name) in names.iter().enumerate() {
            let item: Option<Item<'_>> = if big {
                let found = self.items.get(i).and_then(|item| item.found.as_ref()?.as_deref());
                found.map(|f| (&f.value[..], score_of(&f.value)))
            } else {
                packed::find(shard::shape(of), value, name).map(|e| (e.value, e.score))
            };
            point.show_item(item, out);
        }
        Ok(())
    }
}

impl Point {
    /// The reply of a call, all of whose keys have been read.
    pub fn reply(self, reads: &[KeyRead<'_>], out: &mut Reply) {
        let start = out.len();
        let shown = match self {
            Self::Exists => {
                out.int(reads.iter().filter(|r| r.is_there()).count() as i64);
                Ok(())
            }
            _ => {
                if self == Self::Mget {
                    out.array(reads.len());
                }
                reads.iter().try_for_each(|r| r.show(self, out))
            }
        };
        if let Err(error) = shown {
            out.truncate(start);
            out.error(&error.to_string());
        }
    }
}
