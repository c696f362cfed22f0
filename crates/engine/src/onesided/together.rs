//! Several keys at once: whether what was read of them belongs together, and what can be done if not.
//!
//! Why a prepared version may be taken: whoever read one of T's versions knows that T is committed, at c; what T writes to the key was
//! settled when T was prepared and is the same whenever its owner commits it. And no version of the key between the one that was read and T's can
//! be missed: it would have come with a transaction whose half was read too (then that one is the newest), or nothing that was read knows of it.
//! Where there is no cell at all nobody can tell what the key was last, and when: it may have been removed after T. Then its owner is asked.
//! Of a shard of which several keys were read, all are still current when that is looked at, the replaced ones among them: so T was not committed there then.
use super::{Again, Attempt, Cell, PointReader, WIDTH};
use crate::{fingerprint_with, shard::prepared_name};
use kintsugidb_arena::{Answer, Busy, Get, Kind, Table, read_many};

impl PointReader {
    /// The root cells of several keys at one moment, as far as isolation goes: in `cells`, their values in the buffer.
    pub(super) fn roots(&mut self, keys: &[(usize, &[u8])]) -> Attempt<()> {
        self.cells.clear();
        self.answers.clear();
        self.epochs.clear();
        for &(shard, _) in keys {
            if !self.epochs.iter().any(|e| e.0 == shard) {
                self.epochs.push((shard, self.readers[shard].epoch()));
            }
        }
        for keys in keys.chunks(WIDTH) {
            let mut gets = [(0, 0, &[][..]); WIDTH];
            for (to, &(shard, key)) in gets.iter_mut().zip(keys) {
                *to = (shard, fingerprint_with(self.seed, key), key);
            }
            let gets = gets.map(|(shard, hash, key)| Get {
                reader: &self.readers[shard],
                table: Table::ROOT,
                hash,
                key,
            });
            let gets = &gets[..keys.len()];
            let first = self.answers.len();
            read_many(gets, &mut self.buf, &mut self.answers);
            for ((answer, &(shard, _)), get) in self.answers[first..].iter().zip(keys).zip(gets) {
                let Ok(answer) = answer else { return Err(Again::Changed) };
                let ts = answer.seen().map_or(0, Self::ts_of);
                let is_tombstone = answer.seen().is_some_and(|seen| seen.kind == Kind::Tombstone);
                self.cells.push(Cell { shard, hash: get.hash, ts, is_tombstone, missing: None });
            }
        }
        let mut answers = std::mem::take(&mut self.answers);
        let done = self.believe(keys, &mut answers);
        self.answers = answers;
        done
    }

    /// Whether what was read belongs together, once what is missing of transactions has been found among the prepared versions.
    fn believe(
        &mut self,
        keys: &[(usize, &[u8])],
        answers: &mut [std::result::Result<Answer, Busy>],
    ) -> Attempt<()> {
        let (mut fractured, mut unclear) = (false, false);
        for (i, answer) in answers.iter().flatten().enumerate() {
            let shard = self.cells[i].shard;
            let Some(seen) = answer.seen() else { continue };
            let Some((tid, stable)) = self.note(shard, seen)? else { continue };
            for other in self.cells.iter_mut().filter(|other| other.shard != shard) {
                let missed = other.ts < seen.ts;
                // A collection that lost its last item after the transaction has nothing of what the transaction adds to it.
                let emptied = other.is_tombstone && other.ts > seen.ts && !stable;
                if (missed || emptied) && self.siblings.may_hold(&self.record, other.hash) {
                    other.missing = other.missing.max(Some((seen.ts, tid)));
                    fractured = true;
                    unclear |= emptied;
                }
            }
        }
        let mut all = self.cells.iter().zip(answers.iter().flatten());
        let current = |(c, a): (&Cell, &Answer)| self.readers[c.shard].still_current(&a.witness());
        if answers.len() > self.epochs.len() && !all.all(current) {
            return Err(Again::Changed);
        }
        if fractured {
            self.counters.fractures += 1;
            if unclear {
                return Err(Again::Fractured);
            }
            self.mend(keys, answers)?;
        }
        let forgot = |&(shard, epoch): &(usize, u64)| self.readers[shard].epoch() > epoch + 1;
        if self.epochs.len() > 1 && self.epochs.iter().any(forgot) { Err(Again::Changed) } else { Ok(()) }
    }

    /// Puts the missing versions of transactions, which have to be prepared where they are missing, in the place of those that were read.
    #[cold]
    fn mend(
        &mut self,
        keys: &[(usize, &[u8])],
        answers: &mut [std::result::Result<Answer, Busy>],
    ) -> Attempt<()> {
        for ((cell, (_, key)), answer) in self.cells.iter().zip(keys).zip(answers) {
            let Some((c, tid)) = cell.missing else { continue };
            if !matches!(answer, Ok(Answer::Present(_))) {
                return Err(Again::Fractured);
            }
            let name = prepared_name(tid, key);
            let reader = &self.readers[cell.shard];
            let table = reader.prepared().ok_or(Again::Fractured)?;
            let found = reader.read(table, fingerprint_with(self.seed, &name), &name, &mut self.buf)?;
            let mut seen = found.ok_or(Again::Fractured)?;
            seen.ts = c;
            *answer = Ok(Answer::Present(seen));
            self.counters.prepared += 1;
        }
        Ok(())
    }
}
