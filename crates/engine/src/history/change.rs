//! One change of a hot key, and what applying it does.
use super::{Dump, Type, Value, Version};
use std::collections::BTreeMap;

/// What an item holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ItemValue {
    /// A hash field's value.
    Bytes(Box<[u8]>),
    /// A set has it.
    Member,
    /// A sorted set's member has this score.
    Score(f64),
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    Item(Box<[u8]>, Type, Option<ItemValue>),
    Whole(Option<Dump>),
    /// The whole value is what the key holds now.
    Current,
    Expire(Option<u64>),
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub version: Version,
    /// The transaction; 0: none.
    pub tid: u64,
    pub seq: u64,
    /// The value was made from the one before, all of it.
    pub derived: bool,
    pub change: Change,
}

impl Entry {
    /// Whether nobody can tell this entry from `next`, so that the latter may take its place.
    pub fn replaced_by(&self, next: &Self) -> bool {
        self.seq == next.seq
            && self.tid == next.tid
            && self.version <= next.version
            && (self.tid == 0 || self.version == next.version)
            && match (&self.change, &next.change) {
                (Change::Item(a, ta, _), Change::Item(b, tb, _)) => a == b && ta == tb,
                (Change::Whole(_), Change::Whole(_)) => true,
                _ => false,
            }
    }
}

fn empty(ty: Type) -> Value {
    match ty {
        Type::String => Value::String(Vec::new()),
        Type::List => Value::List(Default::default()),
        Type::Hash => Value::Hash(Default::default()),
        Type::Set => Value::Set(Default::default()),
        Type::Zset => Value::Zset(Default::default()),
    }
}

fn write_item(value: &mut Value, sub: &[u8], item: Option<&ItemValue>) {
    match (value, item) {
        (Value::Hash(h), Some(ItemValue::Bytes(v))) => {
            h.insert(sub.to_vec(), v.to_vec());
        }
        (Value::Hash(h), None) => {
            h.remove(sub);
        }
        (Value::Set(s), Some(_)) => {
            s.insert(sub.to_vec());
        }
        (Value::Set(s), None) => {
            s.remove(sub);
        }
        (Value::Zset(z), Some(ItemValue::Score(x))) => {
            z.insert(sub.to_vec(), *x);
        }
        (Value::Zset(z), None) => {
            z.remove(sub);
        }
        _ => {}
    }
}

/// Applies a change to a value. An item of another type than the value's: the later type hides the rest.
pub(super) fn apply(value: &mut Option<Dump>, change: &Change) {
    match change {
        Change::Whole(d) => value.clone_from(d),
        Change::Current => {}
        Change::Expire(at) => {
            if let Some(d) = value {
                d.expire_at_ms = *at;
            }
        }
        Change::Item(sub, ty, item) => {
            let fits = value.as_ref().is_some_and(|d| d.value.type_of() == *ty);
            if !fits {
                if item.is_none() {
                    return;
                }
                *value = Some(Dump { value: empty(*ty), expire_at_ms: None });
            }
            if let Some(d) = value {
                write_item(&mut d.value, sub, item.as_ref());
            }
            drop_empty(value);
        }
    }
}

/// Gives items the values that they had.
pub(super) fn revert(value: &mut Option<Dump>, items: &BTreeMap<Box<[u8]>, (Type, Option<ItemValue>)>) {
    for (sub, (ty, item)) in items {
        if item.is_none() && value.is_none() {
            continue;
        }
        let d = value.get_or_insert_with(|| Dump { value: empty(*ty), expire_at_ms: None });
        write_item(&mut d.value, sub, item.as_ref());
    }
    drop_empty(value);
}

fn drop_empty(value: &mut Option<Dump>) {
    if value.as_ref().is_some_and(|d| d.value.is_empty() && d.value.type_of() != Type::String) {
        *value = None;
    }
}
