//! The other half of a transaction, where it is prepared and not committed.
use super::{Ask, Attempt, Doubt, Questions, Remote};
use kintsugidb_arena::{
    Table,
    remote::{Item, Lookup, Outcome, PREPARED},
};
use kintsugidb_engine::{KeyRead, fingerprint_with, prepared_name};
use kintsugidb_fabric::Connection;

/// The newest transaction whose version of a key was missed: its commit timestamp, and its id.
pub(super) type Missing = Option<(u64, u64)>;

impl Remote {
    /// Puts missing versions of transactions, which have to be prepared where they are missing, in the place of what was read: see
    /// `kintsugidb_engine::PointReader` for why that is right.
    pub(super) fn mend(
        &mut self,
        connection: &mut dyn Connection,
        asks: &[Ask<'_>],
        missing: &[Missing],
        keys: &mut [KeyRead<'_>],
    ) -> Attempt<()> {
        let all = missing.iter().enumerate().filter_map(|(at, m)| Some((at, (*m)?)));
        let (at, missing): (Vec<usize>, Vec<(u64, u64)>) = all.unzip();
        if at.iter().any(|at| keys[*at].root().is_none()) {
            return Ok(Err(Doubt::Fractured));
        }
        let shards: Vec<usize> = at.iter().map(|at| asks[*at].0).collect();
        let names: Vec<Vec<u8>> =
            at.iter().zip(&missing).map(|(at, (_, txn))| prepared_name(*txn, asks[*at].1)).collect();
        let tables: Vec<_> = shards.iter().map(|shard| (*shard, vec![PREPARED])).collect();
        let tables = self.fetch(connection, Questions { asked: &tables, ..Questions::default() })?;
        let mut lookups: Vec<Lookup<'_>> = Vec::with_capacity(at.len());
        for ((shard, name), table) in shards.iter().zip(&names).zip(tables.into_iter().flatten()) {
            if table == 0 {
                return Ok(Err(Doubt::Fractured));
            }
            let (region, hash) = (self.caches[*shard].region(), fingerprint_with(self.seed, name));
            lookups.push(Lookup::by_index(region, Table::from_raw(table), hash, name, None));
        }
        let found = match self.look_up(connection, &shards, &mut lookups)? {
            Ok(found) => found,
            Err(doubt) => return Ok(Err(doubt)),
        };
        for ((at, (c, _)), found) in at.into_iter().zip(missing).zip(found) {
            let Some(found) = found else { return Ok(Err(Doubt::Fractured)) };
            keys[at].replace(Item { ts: c, ..found });
            self.prepared += 1;
        }
        Ok(Ok(()))
    }

    /// Carries lookups out side by side, each at its shard.
    fn look_up(
        &mut self,
        connection: &mut dyn Connection,
        shards: &[usize],
        lookups: &mut [Lookup<'_>],
    ) -> Attempt<Vec<Option<Item>>> {
        let mut ended: Vec<Option<Option<Item>>> = shards.iter().map(|_| None).collect();
        while ended.iter().any(Option::is_none) {
            let open: Vec<usize> = (0..shards.len()).filter(|i| ended[*i].is_none()).collect();
            let asked: Vec<_> = open.iter().map(|i| (shards[*i], lookups[*i].ask().to_vec())).collect();
            let fed = self.fetch(connection, Questions { asked: &asked, ..Questions::default() })?;
            for (i, words) in open.into_iter().zip(fed) {
                match lookups[i].feed(&words) {
                    Ok(None) => {}
                    Ok(Some(Outcome::Found(item))) => ended[i] = Some(Some(*item)),
                    Ok(Some(Outcome::Absent(_))) => ended[i] = Some(None),
                    Err(_) => return Ok(Err(Doubt::Changed)),
                }
            }
        }
        Ok(Ok(ended.into_iter().flatten().collect()))
    }
}
