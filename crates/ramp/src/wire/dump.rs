//! Whole values as bytes.
//!
//! ```text
//!   dump     type u8 (1 string, 2 list, 3 hash, 4 set, 5 sorted set) | content | expiry: option u64
//!   content  string: bytes   list, set: count, each bytes   hash: count, each bytes bytes   sorted set: count, each bytes f64
//! ```
use super::{Cursor, Result, WireError, put_bytes, put_len, put_u64, unknown};
use kintsugidb_engine::{Dump, Value};

pub(super) fn put(out: &mut Vec<u8>, dump: &Dump) {
    match &dump.value {
        Value::String(s) => {
            out.push(1);
            put_bytes(out, s);
        }
        Value::List(l) => {
            out.push(2);
            put_len(out, l.len());
            l.iter().for_each(|e| put_bytes(out, e));
        }
        Value::Hash(h) => {
            out.push(3);
            put_len(out, h.len());
            for (field, value) in h {
                put_bytes(out, field);
                put_bytes(out, value);
            }
        }
        Value::Set(s) => {
            out.push(4);
            put_len(out, s.len());
            s.iter().for_each(|m| put_bytes(out, m));
        }
        Value::Zset(z) => {
            out.push(5);
            put_len(out, z.len());
            for (member, score) in z {
                put_bytes(out, member);
                put_u64(out, score.to_bits());
            }
        }
    }
    put_option(out, dump.expire_at_ms.as_ref(), |out, at| put_u64(out, *at));
}

pub(super) fn put_option<T>(out: &mut Vec<u8>, value: Option<&T>, put: impl FnOnce(&mut Vec<u8>, &T)) {
    out.push(value.is_some().into());
    if let Some(value) = value {
        put(out, value);
    }
}

impl Cursor<'_> {
    pub(super) fn dump(&mut self) -> Result<Dump> {
        let value = match self.u8()? {
            1 => Value::String(self.bytes()?.to_vec()),
            2 => Value::List(self.list(4, |c| Ok(c.bytes()?.to_vec()))?.into()),
            3 => Value::Hash(
                self.list(8, |c| Ok((c.bytes()?.to_vec(), c.bytes()?.to_vec())))?.into_iter().collect(),
            ),
            4 => Value::Set(self.list(4, |c| Ok(c.bytes()?.to_vec()))?.into_iter().collect()),
            5 => Value::Zset(self.list(12, Self::scored)?.into_iter().collect()),
            n => return Err(unknown("type", n)),
        };
        // No key holds an empty collection.
        if value.is_empty() && !matches!(value, Value::String(_)) {
            return Err(WireError::Value);
        }
        Ok(Dump { value, expire_at_ms: self.option(Self::u64)? })
    }

    fn scored(&mut self) -> Result<(Vec<u8>, f64)> {
        let member = self.bytes()?.to_vec();
        let score = f64::from_bits(self.u64()?);
        if score.is_nan() { Err(WireError::Value) } else { Ok((member, score)) }
    }
}
