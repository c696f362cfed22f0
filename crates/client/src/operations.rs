//! Typed operations: one for each everyday command. Everything else goes through [`Client::command`].
use crate::{Client, Error, Result};
use kintsugidb_wire::Value;

fn unexpected<T>(value: &Value) -> Result<T> {
    let mut text = format!("{value:?}");
    text.truncate(text.char_indices().nth(100).map_or(text.len(), |(i, _)| i));
    Err(Error::Unexpected(text))
}

fn optional(value: Value) -> Result<Option<Vec<u8>>> {
    match value {
        Value::Null => Ok(None),
        Value::Bulk(b) => Ok(Some(b)),
        Value::Simple(s) => Ok(Some(s.into_bytes())),
        other => unexpected(&other),
    }
}

fn int(value: &Value) -> Result<i64> {
    value.int().map_or_else(|| unexpected(value), Ok)
}

fn list(value: Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(v) | Value::Set(v) => Ok(v),
        other => unexpected(&other),
    }
}

fn bytes(value: Value) -> Result<Vec<u8>> {
    match optional(value)? {
        Some(b) => Ok(b),
        None => unexpected(&Value::Null),
    }
}

fn float(value: &Value) -> Result<f64> {
    match value {
        Value::Double(d) => Ok(*d),
        other => {
            let text = other.bytes().and_then(|b| std::str::from_utf8(b).ok());
            text.and_then(|t| t.parse().ok()).map_or_else(|| unexpected(other), Ok)
        }
    }
}

fn all<'a>(name: &'a str, key: &'a [u8], rest: &'a [Vec<u8>]) -> Vec<&'a [u8]> {
    let mut args = vec![name.as_bytes(), key];
    args.extend(rest.iter().map(Vec::as_slice));
    args
}

fn owned<M: AsRef<[u8]>>(items: impl IntoIterator<Item = M>) -> Vec<Vec<u8>> {
    items.into_iter().map(|m| m.as_ref().to_vec()).collect()
}

/// Strings and keys. Errors are those of [`Client::command`].
impl Client {
    /// GET: the value of a key, if it is there.
    pub fn get(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key.as_ref(), &mut value)?.then_some(value))
    }

    /// SET.
    pub fn set(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.command(&[b"SET", key.as_ref(), value.as_ref()]).map(drop)
    }

    /// MGET: the values of keys of any shards, as they were together.
    pub fn mget<K: AsRef<[u8]>>(
        &mut self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let mut args = vec![b"MGET".to_vec()];
        args.extend(owned(keys));
        list(self.command(&args)?)?.into_iter().map(optional).collect()
    }

    /// MSET: keys of any shards, visible together.
    pub fn mset<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<()> {
        let mut args = vec![b"MSET".to_vec()];
        for (k, v) in pairs {
            args.extend([k.as_ref().to_vec(), v.as_ref().to_vec()]);
        }
        self.command(&args).map(drop)
    }

    /// DEL: how many of the keys were there.
    pub fn del<K: AsRef<[u8]>>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<u64> {
        let mut args = vec![b"DEL".to_vec()];
        args.extend(owned(keys));
        Ok(int(&self.command(&args)?)? as u64)
    }

    /// EXISTS of one key.
    pub fn exists(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(int(&self.command(&[b"EXISTS", key.as_ref()])?)? > 0)
    }

    /// INCRBY: the new value.
    pub fn incr_by(&mut self, key: impl AsRef<[u8]>, by: i64) -> Result<i64> {
        int(&self.command(&[b"INCRBY", key.as_ref(), by.to_string().as_bytes()])?)
    }

    /// PEXPIRE: in how many milliseconds the key goes; whether it was there.
    pub fn expire_ms(&mut self, key: impl AsRef<[u8]>, in_ms: u64) -> Result<bool> {
        Ok(int(&self.command(&[b"PEXPIRE", key.as_ref(), in_ms.to_string().as_bytes()])?)? > 0)
    }

    /// PTTL: milliseconds until the key goes; `None` if it has no end, or is not there.
    pub fn ttl_ms(&mut self, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        Ok(u64::try_from(int(&self.command(&[b"PTTL", key.as_ref()])?)?).ok())
    }
}

/// Hashes. Errors are those of [`Client::command`].
impl Client {
    /// HGET.
    pub fn hget(&mut self, key: impl AsRef<[u8]>, field: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        optional(self.command(&[b"HGET", key.as_ref(), field.as_ref()])?)
    }

    /// HSET of one field; whether it is new.
    pub fn hset(
        &mut self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool> {
        Ok(int(&self.command(&[b"HSET", key.as_ref(), field.as_ref(), value.as_ref()])?)? > 0)
    }

    /// HMGET.
    pub fn hmget<F: AsRef<[u8]>>(
        &mut self,
        key: impl AsRef<[u8]>,
        fields: impl IntoIterator<Item = F>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        list(self.command(&all("HMGET", key.as_ref(), &owned(fields)))?)?.into_iter().map(optional).collect()
    }

    /// HDEL: how many of the fields were there.
    pub fn hdel<F: AsRef<[u8]>>(
        &mut self,
        key: impl AsRef<[u8]>,
        fields: impl IntoIterator<Item = F>,
    ) -> Result<u64> {
        Ok(int(&self.command(&all("HDEL", key.as_ref(), &owned(fields)))?)? as u64)
    }

    /// HGETALL.
    pub fn hgetall(&mut self, key: impl AsRef<[u8]>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut items = match self.command(&[b"HGETALL", key.as_ref()])? {
            Value::Map(pairs) => pairs.into_iter().flat_map(|(k, v)| [k, v]).collect(),
            other => list(other)?,
        }
        .into_iter();
        let mut pairs = Vec::new();
        while let (Some(field), Some(value)) = (items.next(), items.next()) {
            pairs.push((bytes(field)?, bytes(value)?));
        }
        Ok(pairs)
    }

    /// HLEN.
    pub fn hlen(&mut self, key: impl AsRef<[u8]>) -> Result<u64> {
        Ok(int(&self.command(&[b"HLEN", key.as_ref()])?)? as u64)
    }
}

/// Sets. Errors are those of [`Client::command`].
impl Client {
    /// SADD: how many of the members are new.
    pub fn sadd<M: AsRef<[u8]>>(
        &mut self,
        key: impl AsRef<[u8]>,
        members: impl IntoIterator<Item = M>,
    ) -> Result<u64> {
        Ok(int(&self.command(&all("SADD", key.as_ref(), &owned(members)))?)? as u64)
    }

    /// SREM: how many of the members were there.
    pub fn srem<M: AsRef<[u8]>>(
        &mut self,
        key: impl AsRef<[u8]>,
        members: impl IntoIterator<Item = M>,
    ) -> Result<u64> {
        Ok(int(&self.command(&all("SREM", key.as_ref(), &owned(members)))?)? as u64)
    }

    /// SISMEMBER.
    pub fn sismember(&mut self, key: impl AsRef<[u8]>, member: impl AsRef<[u8]>) -> Result<bool> {
        Ok(int(&self.command(&[b"SISMEMBER", key.as_ref(), member.as_ref()])?)? > 0)
    }

    /// SMEMBERS, in no order.
    pub fn smembers(&mut self, key: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>> {
        list(self.command(&[b"SMEMBERS", key.as_ref()])?)?.into_iter().map(bytes).collect()
    }

    /// SCARD.
    pub fn scard(&mut self, key: impl AsRef<[u8]>) -> Result<u64> {
        Ok(int(&self.command(&[b"SCARD", key.as_ref()])?)? as u64)
    }
}

/// Sorted sets. Errors are those of [`Client::command`].
impl Client {
    /// ZADD of one member; whether it is new.
    pub fn zadd(&mut self, key: impl AsRef<[u8]>, score: f64, member: impl AsRef<[u8]>) -> Result<bool> {
        Ok(int(&self.command(&[b"ZADD", key.as_ref(), score.to_string().as_bytes(), member.as_ref()])?)? > 0)
    }

    /// ZSCORE.
    pub fn zscore(&mut self, key: impl AsRef<[u8]>, member: impl AsRef<[u8]>) -> Result<Option<f64>> {
        match self.command(&[b"ZSCORE", key.as_ref(), member.as_ref()])? {
            Value::Null => Ok(None),
            score => float(&score).map(Some),
        }
    }

    /// ZREM: how many of the members were there.
    pub fn zrem<M: AsRef<[u8]>>(
        &mut self,
        key: impl AsRef<[u8]>,
        members: impl IntoIterator<Item = M>,
    ) -> Result<u64> {
        Ok(int(&self.command(&all("ZREM", key.as_ref(), &owned(members)))?)? as u64)
    }

    /// ZRANGE by rank, with scores.
    pub fn zrange(&mut self, key: impl AsRef<[u8]>, from: i64, to: i64) -> Result<Vec<(Vec<u8>, f64)>> {
        let (from, to) = (from.to_string(), to.to_string());
        let args: [&[u8]; 5] = [b"ZRANGE", key.as_ref(), from.as_bytes(), to.as_bytes(), b"WITHSCORES"];
        let mut items = list(self.command(&args)?)?.into_iter();
        let mut found = Vec::new();
        while let (Some(member), Some(score)) = (items.next(), items.next()) {
            found.push((bytes(member)?, float(&score)?));
        }
        Ok(found)
    }

    /// ZCARD.
    pub fn zcard(&mut self, key: impl AsRef<[u8]>) -> Result<u64> {
        Ok(int(&self.command(&[b"ZCARD", key.as_ref()])?)? as u64)
    }
}

/// Lists. Errors are those of [`Client::command`].
impl Client {
    /// RPUSH: the new length.
    pub fn rpush<M: AsRef<[u8]>>(
        &mut self,
        key: impl AsRef<[u8]>,
        all_of: impl IntoIterator<Item = M>,
    ) -> Result<u64> {
        Ok(int(&self.command(&all("RPUSH", key.as_ref(), &owned(all_of)))?)? as u64)
    }

    /// LPUSH: the new length.
    pub fn lpush<M: AsRef<[u8]>>(
        &mut self,
        key: impl AsRef<[u8]>,
        all_of: impl IntoIterator<Item = M>,
    ) -> Result<u64> {
        Ok(int(&self.command(&all("LPUSH", key.as_ref(), &owned(all_of)))?)? as u64)
    }

    /// LPOP.
    pub fn lpop(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        optional(self.command(&[b"LPOP", key.as_ref()])?)
    }

    /// RPOP.
    pub fn rpop(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        optional(self.command(&[b"RPOP", key.as_ref()])?)
    }

    /// LRANGE.
    pub fn lrange(&mut self, key: impl AsRef<[u8]>, from: i64, to: i64) -> Result<Vec<Vec<u8>>> {
        let (from, to) = (from.to_string(), to.to_string());
        list(self.command(&[b"LRANGE", key.as_ref(), from.as_bytes(), to.as_bytes()])?)?
            .into_iter()
            .map(bytes)
            .collect()
    }

    /// LLEN.
    pub fn llen(&mut self, key: impl AsRef<[u8]>) -> Result<u64> {
        Ok(int(&self.command(&[b"LLEN", key.as_ref()])?)? as u64)
    }
}
