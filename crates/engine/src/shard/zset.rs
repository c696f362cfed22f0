//! Sorted sets: packed in their order, or a sub-table of members with a private order beside it.
use super::{
    LexBound, ScoreBound, Shard, ZAdded,
    big::{Found, name_of, score_of},
    order::Order,
    root::{Unpacked, is_big},
};
use crate::{
    Result, Type,
    history::ItemValue,
    packed::{self, Entries, Shape, element_bytes},
};
use kintsugidb_arena::{Ref, hash};

/// Sorted sets. Order: by score, then by member's bytes. Ranks count from 0 in that order.
impl Shard {
    /// Number of members.
    pub fn zset_len(&self, key: &[u8]) -> Result<usize> {
        self.collection_len(key, Type::Zset)
    }

    /// The score of a member.
    pub fn zset_score(&self, key: &[u8], member: &[u8]) -> Result<Option<f64>> {
        let Some(c) = self.typed_root(key, Type::Zset)? else { return Ok(None) };
        if is_big(c.kind()) {
            return Ok(self.arena.find(self.found(&c).table, hash(member), member).map(|i| score_of(&i)));
        }
        Ok(packed::find(Shape::Zset, c.value(), member).map(|e| e.score))
    }

    /// Sets the score (no NaN) of a member.
    pub fn zset_add(&mut self, key: &[u8], score: f64, member: &[u8]) -> Result<ZAdded> {
        let mut did = ZAdded::Same;
        self.zset_add_all(key, &[(score, member)], &mut |d| did = d)?;
        Ok(did)
    }

    /// Sets the scores (no NaN) of several members at once, calling `f` with what each did.
    pub fn zset_add_all(
        &mut self,
        key: &[u8],
        pairs: &[(f64, &[u8])],
        f: &mut dyn FnMut(ZAdded),
    ) -> Result<()> {
        let kept;
        let pairs = if self.history.is_hot(key) {
            let item = |(s, m): (f64, _)| (m, Some(ItemValue::Score(s + 0.0)));
            kept = self.hot_filter(key, Type::Zset, pairs, item)?;
            // what a newer version hides changes nothing
            (kept.len()..pairs.len()).for_each(|_| f(ZAdded::Same));
            &kept[..]
        } else {
            pairs
        };
        let h = hash(key);
        let mut buf = std::mem::take(&mut self.scratch);
        let mut changed = 0;
        let mut note = |did| {
            changed += u64::from(did != ZAdded::Same);
            f(did);
        };
        let result = match self.unpack(h, key, Type::Zset, &mut buf) {
            Ok(Unpacked::Big(big)) => self.zset_add_big(h, key, big, pairs, &mut note),
            Ok(Unpacked::Packed { expire_at_ms }) => {
                self.zset_add_packed(h, key, &mut buf, expire_at_ms, pairs, &mut note)
            }
            Err(error) => Err(error),
        };
        self.scratch = buf;
        if result.is_ok() {
            self.dirty += changed;
        }
        result
    }

    fn zset_add_packed(
        &mut self,
        h: u64,
        key: &[u8],
        buf: &mut Vec<u8>,
        expire_at_ms: Option<u64>,
        pairs: &[(f64, &[u8])],
        f: &mut dyn FnMut(ZAdded),
    ) -> Result<()> {
        let l = self.limits;
        let mut changed = false;
        for (i, &(score, member)) in pairs.iter().enumerate() {
            let score = score + 0.0;
            let old = packed::find(Shape::Zset, buf, member).map(|e| (e.start, e.end, e.score));
            let did = match old {
                Some((_, _, was)) if was == score => {
                    f(ZAdded::Same);
                    continue;
                }
                Some((start, end, _)) => {
                    packed::cut(buf, start, end, 1);
                    ZAdded::Updated
                }
                None => ZAdded::Added,
            };
            changed = true;
            let fits = old.is_some()
                || member.len() <= l.zset_value
                    && buf.len() + 8 + element_bytes(member.len()) <= l.bytes
                    && packed::count(buf) < l.zset_entries.min(packed::MAX_ENTRIES);
            if !fits {
                self.promote(h, key, Type::Zset, buf, expire_at_ms, &mut |shard, draft| {
                    for &(score, member) in &pairs[i..] {
                        f(shard.draft_score(draft, score + 0.0, member)?);
                    }
                    Ok(0)
                })?;
                return Ok(());
            }
            let (at, _) = packed::place(buf, score, member);
            packed::insert(Shape::Zset, buf, at, score, member, &[]);
            f(did);
        }
        if changed { self.repack(h, key, Type::Zset, buf, expire_at_ms) } else { Ok(()) }
    }

    fn zset_add_big(
        &mut self,
        h: u64,
        key: &[u8],
        mut big: Found,
        pairs: &[(f64, &[u8])],
        f: &mut dyn FnMut(ZAdded),
    ) -> Result<()> {
        if pairs.len() > 1 {
            self.room_for(pairs.len(), pairs.iter().map(|(_, m)| m.len() + 32).sum())?;
        }
        let mut count = big.count;
        let (mut open, mut changed) = (false, false);
        let mut result = Ok(());
        for &(score, member) in pairs {
            let score = score + 0.0;
            let old = self.arena.find(big.table, hash(member), member).map(|i| (score_of(&i), i.cell()));
            if old.is_some_and(|(was, _)| was == score) {
                f(ZAdded::Same);
                continue;
            }
            if !open {
                big = self.begin_change(h, key, big);
                open = true;
            }
            if old.is_some() {
                self.unorder(big, member);
            }
            match self.put_item(big.table, member, &score.to_le_bytes()) {
                Ok((cell, _)) => {
                    self.order(big, score, member, cell);
                    changed = true;
                    count += usize::from(old.is_none());
                    f(if old.is_none() { ZAdded::Added } else { ZAdded::Updated });
                }
                Err(error) => {
                    if let Some((was, cell)) = old {
                        self.order(big, was, member, cell);
                    }
                    result = Err(error);
                    break;
                }
            }
        }
        if open && !changed {
            self.cancel_change(big);
        } else if open {
            self.end_change(h, key, big, count);
        }
        result
    }

    /// Puts a member into the order.
    fn order(&mut self, big: Found, score: f64, member: &[u8], cell: Ref) {
        let arena = &self.arena;
        self.bigs.edit_order(big.handle, |o| {
            o.insert(score, cell, |s, r| s < score || s == score && name_of(arena, r) < member)
        });
    }

    /// Takes a member out of the order, if it is there.
    pub(super) fn unorder(&mut self, big: Found, member: &[u8]) {
        let arena = &self.arena;
        if let Some(score) = arena.find(big.table, hash(member), member).map(|i| score_of(&i)) {
            self.bigs.edit_order(big.handle, |o| {
                o.remove(|s, r| s < score || s == score && name_of(arena, r) < member)
            });
        }
    }

    /// Removes members; how many there were.
    pub fn zset_remove(&mut self, key: &[u8], members: &[&[u8]]) -> Result<usize> {
        self.remove_names(key, Type::Zset, members)
    }

    /// Members before a place in the order: `before` holds for a prefix of it. 0 if there is no such key.
    fn zset_before(&self, key: &[u8], before: impl Fn(f64, &[u8]) -> bool) -> Result<usize> {
        let Some(c) = self.typed_root(key, Type::Zset)? else { return Ok(0) };
        if let Some(order) = self.order_of(is_big(c.kind()), || self.found(&c).handle) {
            return Ok(order.rank_of(|s, r| before(s, name_of(&self.arena, r))));
        }
        Ok(Entries::new(Shape::Zset, c.value()).take_while(|e| before(e.score, e.name)).count())
    }

    fn order_of(&self, big: bool, handle: impl Fn() -> usize) -> Option<&Order<Ref>> {
        if big { self.bigs.order(handle()) } else { None }
    }

    /// The rank of a member.
    pub fn zset_rank(&self, key: &[u8], member: &[u8]) -> Result<Option<usize>> {
        let Some(score) = self.zset_score(key, member)? else { return Ok(None) };
        self.zset_before(key, |s, m| s < score || s == score && m < member).map(Some)
    }

    /// Number of members before a bound in score order. A range of scores is the ranks from one bound's to the other's.
    pub fn zset_rank_of_score(&self, key: &[u8], bound: ScoreBound) -> Result<usize> {
        self.zset_before(key, |s, _| bound.is_after(s))
    }

    /// Number of members before a bound in the order of members; meaningful when all scores are equal.
    pub fn zset_rank_of_lex(&self, key: &[u8], bound: LexBound<'_>) -> Result<usize> {
        self.zset_before(key, |_, m| bound.is_after(m))
    }

    /// Calls `f` with up to `count` members and scores: upwards from rank `start`, or downwards from it if `reverse`.
    pub fn zset_range(
        &self,
        key: &[u8],
        start: usize,
        count: usize,
        reverse: bool,
        f: &mut dyn FnMut(&[u8], f64),
    ) -> Result<()> {
        let Some(c) = self.typed_root(key, Type::Zset)? else { return Ok(()) };
        if let Some(order) = self.order_of(is_big(c.kind()), || self.found(&c).handle) {
            let mut visit = |(s, r): (f64, Ref)| f(name_of(&self.arena, r), s);
            if reverse {
                order.down_from(start).take(count).for_each(&mut visit);
            } else {
                order.from(start).take(count).for_each(&mut visit);
            }
        } else if reverse {
            let entries: Vec<_> =
                Entries::new(Shape::Zset, c.value()).take(start.saturating_add(1)).collect();
            entries.iter().rev().take(count).for_each(|e| f(e.name, e.score));
        } else {
            Entries::new(Shape::Zset, c.value()).skip(start).take(count).for_each(|e| f(e.name, e.score));
        }
        Ok(())
    }

    /// One step over the members, in no order; see [`Shard::scan`].
    pub fn zset_scan(&self, key: &[u8], cursor: u64, f: &mut dyn FnMut(&[u8], f64)) -> Result<u64> {
        match self.typed_root(key, Type::Zset)? {
            Some(c) if is_big(c.kind()) => {
                Ok(self.arena.scan(self.found(&c).table, cursor, &mut |i| f(i.key(), score_of(&i))))
            }
            _ => self.zset_range(key, 0, usize::MAX, false, f).map(|()| 0),
        }
    }

    /// A member and its score, drawn by the random number `r`.
    pub fn zset_random(&self, key: &[u8], r: u64) -> Result<Option<(&[u8], f64)>> {
        let Some(c) = self.typed_root(key, Type::Zset)? else { return Ok(None) };
        if is_big(c.kind()) {
            return Ok(self.arena.random(self.found(&c).table, r).map(|i| (i.key(), score_of(&i))));
        }
        let nth = r as usize % packed::count(c.value()).max(1);
        Ok(Entries::new(Shape::Zset, c.value()).nth(nth).map(|e| (e.name, e.score)))
    }
}
