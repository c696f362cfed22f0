//! Transactions: commands that are put together, and become visible together.
use crate::{Client, Error, Result, client::parse_one};
use kintsugidb_engine::{Flags, Point, Route, resolve};
use kintsugidb_ramp::{Outcome, Request};
use kintsugidb_wire::{OwnedArgs, Value};

/// Commands of a transaction that is being put together. It runs with [`Transaction::exec`]; dropped, it never was.
///
/// All writes become visible at once; all reads are of one state, read atomically. Reads come before writes, except of keys that the
/// transaction itself has written.
pub struct Transaction<'a> {
    client: &'a mut Client,
    commands: Vec<OwnedArgs>,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(client: &'a mut Client) -> Self {
        Self { client, commands: Vec::new() }
    }

    /// Adds any command on keys.
    #[must_use]
    pub fn command<A: AsRef<[u8]>>(mut self, args: &[A]) -> Self {
        self.commands.push(OwnedArgs::new(args));
        self
    }

    fn with(self, name: &str, args: &[&[u8]]) -> Self {
        let mut all = vec![name.as_bytes()];
        all.extend_from_slice(args);
        self.command(&all)
    }

    /// Adds GET.
    #[must_use]
    pub fn get(self, key: impl AsRef<[u8]>) -> Self {
        self.with("GET", &[key.as_ref()])
    }

    /// Adds SET.
    #[must_use]
    pub fn set(self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.with("SET", &[key.as_ref(), value.as_ref()])
    }

    /// Adds DEL of one key.
    #[must_use]
    pub fn del(self, key: impl AsRef<[u8]>) -> Self {
        self.with("DEL", &[key.as_ref()])
    }

    /// Adds INCRBY.
    #[must_use]
    pub fn incr_by(self, key: impl AsRef<[u8]>, by: i64) -> Self {
        self.with("INCRBY", &[key.as_ref(), by.to_string().as_bytes()])
    }

    /// Adds HGET.
    #[must_use]
    pub fn hget(self, key: impl AsRef<[u8]>, field: impl AsRef<[u8]>) -> Self {
        self.with("HGET", &[key.as_ref(), field.as_ref()])
    }

    /// Adds HSET of one field.
    #[must_use]
    pub fn hset(self, key: impl AsRef<[u8]>, field: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.with("HSET", &[key.as_ref(), field.as_ref(), value.as_ref()])
    }

    /// Adds HDEL of one field.
    #[must_use]
    pub fn hdel(self, key: impl AsRef<[u8]>, field: impl AsRef<[u8]>) -> Self {
        self.with("HDEL", &[key.as_ref(), field.as_ref()])
    }

    /// Adds SADD.
    #[must_use]
    pub fn sadd<M: AsRef<[u8]>>(self, key: impl AsRef<[u8]>, members: impl IntoIterator<Item = M>) -> Self {
        self.many("SADD", key, members)
    }

    /// Adds SREM.
    #[must_use]
    pub fn srem<M: AsRef<[u8]>>(self, key: impl AsRef<[u8]>, members: impl IntoIterator<Item = M>) -> Self {
        self.many("SREM", key, members)
    }

    /// Adds SMEMBERS.
    #[must_use]
    pub fn smembers(self, key: impl AsRef<[u8]>) -> Self {
        self.with("SMEMBERS", &[key.as_ref()])
    }

    /// Adds ZADD of one member.
    #[must_use]
    pub fn zadd(self, key: impl AsRef<[u8]>, score: f64, member: impl AsRef<[u8]>) -> Self {
        self.with("ZADD", &[key.as_ref(), score.to_string().as_bytes(), member.as_ref()])
    }

    /// Adds ZREM.
    #[must_use]
    pub fn zrem<M: AsRef<[u8]>>(self, key: impl AsRef<[u8]>, members: impl IntoIterator<Item = M>) -> Self {
        self.many("ZREM", key, members)
    }

    /// Adds RPUSH.
    #[must_use]
    pub fn rpush<M: AsRef<[u8]>>(self, key: impl AsRef<[u8]>, elements: impl IntoIterator<Item = M>) -> Self {
        self.many("RPUSH", key, elements)
    }

    fn many<M: AsRef<[u8]>>(
        self,
        name: &str,
        key: impl AsRef<[u8]>,
        all: impl IntoIterator<Item = M>,
    ) -> Self {
        let mut args = vec![name.as_bytes().to_vec(), key.as_ref().to_vec()];
        args.extend(all.into_iter().map(|m| m.as_ref().to_vec()));
        self.command(&args)
    }

    /// Runs it: the replies in the order of the commands, or `None` if a watched key had changed (or may have: the
    /// connection was lost since), and nothing was done. An error of
    /// one command is its reply; the others take effect, as in Redis.
    ///
    /// # Errors
    /// [`Error::Server`] if nothing was done (a command is unknown, the limits are reached), and whatever can happen to a connection.
    pub fn exec(self) -> Result<Option<Vec<Value>>> {
        let Self { client, commands } = self;
        let mut requests = Vec::with_capacity(commands.len());
        for args in commands {
            let slices = args.to_vec();
            let command = resolve(&slices)?;
            let on_keys = !matches!(command.route, Route::Front | Route::All)
                && !command.flags.has(Flags::NO_MULTI)
                && !command.key_indexes(&slices).is_empty();
            if !on_keys {
                let why = format!("ERR '{}' is not for a transaction of a native client", command.name);
                return Err(Error::Server(why));
            }
            drop(slices);
            requests.push(Request::Command(command, args));
        }
        if client.take_lost_watch() {
            client.unwatch();
            return Ok(None);
        }
        if let Some(replies) = client.read_together(&requests)? {
            return Ok(Some(replies));
        }
        if requests.is_empty() && !client.is_watching() {
            return Ok(Some(Vec::new()));
        }
        let done = client.coordinate(requests);
        let done = client.settle(done);
        // Watching ends with the transaction, however that ends.
        client.take_lost_watch();
        match done? {
            Outcome::Replies(replies) => {
                replies.iter().map(|r| parse_one(r)).collect::<Result<_>>().map(Some)
            }
            Outcome::Nil => Ok(None),
            Outcome::Error(e) => Err(Error::Server(e.into())),
        }
    }
}

impl Client {
    fn is_watching(&self) -> bool {
        self.link.as_ref().is_some_and(|l| !l.session.watches().is_empty())
    }

    /// A transaction of nothing but point reads, from the regions: where they are mapped, of GETs.
    fn read_together(&mut self, requests: &[Request]) -> Result<Option<Vec<Value>>> {
        if requests.is_empty() || self.is_watching() {
            return Ok(None);
        }
        let mut calls = Vec::with_capacity(requests.len());
        for request in requests {
            let Request::Command(command, args) = request else { return Ok(None) };
            let Some(point) = Point::of(command.name) else { return Ok(None) };
            calls.push((point, args.to_vec()));
        }
        if self.link()?.remote.is_some() {
            let read = self.read_remote(&calls);
            return self.settle(read);
        }
        if calls.iter().any(|(point, _)| *point != Point::Get) {
            return Ok(None);
        }
        let keys = calls.iter().flat_map(|(point, args)| point.keys(args));
        let args: Vec<&[u8]> = std::iter::once(&b"mget"[..]).chain(keys.copied()).collect();
        let shards = self.link()?.welcome.shards;
        self.shards.clear();
        self.shards.extend(args[1..].iter().map(|k| usize::from(kintsugidb_ramp::shard_of(k, shards))));
        let read = self.read_one_sided(Point::Mget, &args);
        match self.settle(read)? {
            // MGET says null to what is no string, GET an error: let the owners say which.
            Some(Value::Array(values)) if values.iter().all(|v| *v != Value::Null) => Ok(Some(values)),
            _ => Ok(None),
        }
    }
}
