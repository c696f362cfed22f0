//! The client: which way a command goes, and what happens when the connection breaks.
use crate::{
    Counters, Error, Mode, Options, Result, Transport, fault::Faults, link::Link, transaction::Transaction,
};
use kintsugidb_engine::{Class, Command, Flags, Point, Route, resolve};
use kintsugidb_fabric::Address;
use kintsugidb_ramp::{Outcome, Request, shard_of};
use kintsugidb_wire::{OwnedArgs, Value, encode};
use std::sync::Arc;

/// A connection to a server, made anew when it breaks.
pub struct Client {
    transport: Arc<dyn Transport>,
    /// What it is called in messages.
    name: String,
    faults: Faults,
    options: Options,
    pub(crate) link: Option<Link>,
    pub(crate) counters: Counters,
    /// The incarnation of the server that the last connection was to.
    incarnation: Option<u64>,
    encoded: Vec<u8>,
    /// A connection was lost while keys were watched: nobody can tell any more whether they have changed.
    watch_lost: bool,
    pub(crate) shards: Vec<usize>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({}, {:?})", self.name, self.options.mode)
    }
}

/// Commands that would change the connection under the client.
fn not_here(command: &Command) -> Option<&'static str> {
    matches!(
        command.name,
        "multi" | "exec" | "discard" | "watch" | "unwatch" | "hello" | "auth" | "reset" | "quit"
    )
    .then_some(command.name)
}

impl Client {
    /// Connects to an address like `shm:/run/kintsugi.sock` or `tcp:127.0.0.1:7400`, as the user without a password.
    ///
    /// # Errors
    /// [`Error::Connect`], [`Error::Refused`], [`Error::TimedOut`].
    pub fn connect(address: &str) -> Result<Self> {
        Self::connect_with(address, Options::default())
    }

    /// Connects in the way that the options say.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_with(address: &str, options: Options) -> Result<Self> {
        let parsed: Address = address.parse().map_err(Error::Connect)?;
        Self::over(Arc::new(parsed), address, options, Faults::default())
    }

    /// Connects by a way of the caller's, which is called `name` in messages.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_over(transport: Arc<dyn Transport>, name: &str, options: Options) -> Result<Self> {
        Self::over(transport, name, options, Faults::default())
    }

    pub(crate) fn over(
        transport: Arc<dyn Transport>,
        name: &str,
        options: Options,
        faults: Faults,
    ) -> Result<Self> {
        let mut client = Self {
            transport,
            name: name.to_owned(),
            faults,
            options,
            link: None,
            counters: Counters::default(),
            incarnation: None,
            encoded: Vec::new(),
            watch_lost: false,
            shards: Vec::new(),
        };
        client.link()?;
        Ok(client)
    }

    /// The connection, made anew if it broke.
    #[inline]
    pub(crate) fn link(&mut self) -> Result<&mut Link> {
        if self.link.is_none() {
            self.open()?;
        }
        self.link.as_mut().ok_or(Error::Disconnected)
    }

    #[cold]
    fn open(&mut self) -> Result<()> {
        let link = Link::open(&self.transport, &self.options, self.faults)?;
        self.counters.connects += 1;
        self.incarnation = Some(link.welcome.incarnation);
        self.link = Some(link);
        Ok(())
    }

    /// Puts an operation's result right: after a final error the connection is not used any more.
    pub(crate) fn settle<T>(&mut self, result: Result<T>) -> Result<T> {
        if result.as_ref().is_err_and(Error::is_final) {
            self.absorb_counters();
            self.watch_lost |= self.link.take().is_some_and(|l| !l.session.watches().is_empty());
        }
        result
    }

    /// Takes the counts of a connection's readers over, before they go with it.
    fn absorb_counters(&mut self) {
        self.counters = self.counters();
    }

    /// What it has done so far.
    pub fn counters(&self) -> Counters {
        let mut all = self.counters;
        if let Some(point) = self.link.as_ref().and_then(|l| l.point.as_ref()) {
            all.retries += point.counters().retries;
            all.fractures += point.counters().fractures;
            all.prepared += point.counters().prepared;
            all.followed += point.followed();
        }
        if let Some(remote) = self.link.as_ref().and_then(|l| l.remote.as_ref()) {
            all.retries += remote.retries;
            all.fractures += remote.fractures;
            all.prepared += remote.prepared;
            all.followed += remote.followed;
        }
        all
    }

    /// The options that it works by.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Which start of a server it is connected to, or was last.
    pub fn incarnation(&self) -> Option<u64> {
        self.incarnation
    }

    /// Whether it reads the regions itself.
    pub fn is_one_sided(&self) -> bool {
        self.link.as_ref().is_some_and(|l| l.point.is_some() || l.remote.is_some())
    }

    /// Runs any command that Redis clients may send, except those that change the connection.
    ///
    /// # Errors
    /// [`Error::Server`] for an error reply, and whatever can happen to a connection. A command that only reads is repeated on a new
    /// connection if the old one breaks.
    pub fn command<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<Value> {
        let args: Vec<&[u8]> = args.iter().map(AsRef::as_ref).collect();
        let command = resolve(&args)?;
        if let Some(name) = not_here(command) {
            return Err(Error::NotHere(name));
        }
        let done = self.run(command, &args);
        let reads = command.class_of(&args) == Class::Read && !command.flags.has(Flags::WRITE);
        match done {
            Err(Error::Disconnected) if reads => self.run(command, &args),
            done => done,
        }
    }

    fn run(&mut self, command: &'static Command, args: &[&[u8]]) -> Result<Value> {
        let done = self.try_run(command, args);
        match self.settle(done)? {
            Value::Error(e) => Err(Error::Server(e)),
            value => Ok(value),
        }
    }

    fn try_run(&mut self, command: &'static Command, args: &[&[u8]]) -> Result<Value> {
        let several = self.find_shards(command, args)?;
        if let Some(point) = Point::of(command.name)
            && let Some(value) = self.read_one_sided(point, args)?
        {
            return Ok(value);
        }
        if Point::of(command.name).is_some() && !several && !self.shards.is_empty() {
            return self.ask_owner(args);
        }
        if several && !matches!(command.route, Route::All | Route::Front) {
            let requests = vec![Request::Command(command, OwnedArgs::new(args))];
            return match self.coordinate_alone(requests)? {
                Outcome::Replies(mut replies) => parse_one(&replies.pop().unwrap_or_default()),
                Outcome::Nil => Ok(Value::Null),
                Outcome::Error(e) => Ok(Value::Error(e.into())),
            };
        }
        self.send_command(args)
    }

    /// Sends a command on keys of one shard to its owner, whose answer says more than a reply: of whom it was read.
    pub(crate) fn ask_owner(&mut self, args: &[&[u8]]) -> Result<Value> {
        let command = resolve(args)?;
        match self.coordinate_alone(vec![Request::Command(command, OwnedArgs::new(args))])? {
            Outcome::Replies(mut replies) => parse_one(&replies.pop().unwrap_or_default()),
            Outcome::Nil => Ok(Value::Null),
            Outcome::Error(e) => Ok(Value::Error(e.into())),
        }
    }

    /// The shards of a command's keys; whether there are several.
    fn find_shards(&mut self, command: &Command, args: &[&[u8]]) -> Result<bool> {
        let shards = self.link()?.welcome.shards;
        self.shards.clear();
        let keys = command.key_indexes(args);
        self.shards.extend(keys.into_iter().map(|i| usize::from(shard_of(args[i], shards))));
        Ok(self.shards.windows(2).any(|w| w[0] != w[1]))
    }

    /// Sends a command as RESP and waits for the reply.
    pub(crate) fn send_command(&mut self, args: &[&[u8]]) -> Result<Value> {
        let mut encoded = std::mem::take(&mut self.encoded);
        encoded.clear();
        encode(args, &mut encoded);
        let timeout = self.options.timeout;
        self.counters.commands += 1;
        let link = self.link()?;
        link.send_resp(&encoded)?;
        self.encoded = encoded;
        let link = self.link()?;
        let end = link.now() + timeout;
        loop {
            let parsed = Value::parse(&link.replies[link.replies_at..]);
            if let Some((value, n)) = parsed.map_err(|e| Error::Protocol(e.to_string()))? {
                link.replies_at += n;
                if link.replies_at == link.replies.len() {
                    link.replies.clear();
                    link.replies.shrink_to(1 << 20);
                    link.replies_at = 0;
                }
                return Ok(value);
            }
            if !link.wait(end.saturating_sub(link.now()))? {
                return Err(link.timed_out());
            }
        }
    }

    /// Runs a command that is no transaction of the user's: what is watched is for the next one that is.
    fn coordinate_alone(&mut self, requests: Vec<Request>) -> Result<Outcome> {
        let watches = self.link()?.session.take_watches();
        let done = self.coordinate(requests);
        if let Some(link) = &mut self.link {
            link.session.put_watches(watches);
        }
        done
    }

    /// Runs a transaction, as its coordinator.
    pub(crate) fn coordinate(&mut self, requests: Vec<Request>) -> Result<Outcome> {
        let together = self.options.mode != Mode::OneByOne;
        // Before the counters are taken: it may be a new one.
        self.link()?;
        let mut counters = self.counters;
        let done = self.link()?.coordinate(requests, together, &mut counters);
        self.counters = counters;
        done
    }

    /// Begins a transaction.
    pub fn transaction(&mut self) -> Transaction<'_> {
        Transaction::new(self)
    }

    /// Watches keys: the next transaction does nothing if one of them has changed until then, or if the connection was lost meanwhile.
    ///
    /// # Errors
    /// As [`Client::command`].
    pub fn watch<K: AsRef<[u8]>>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<()> {
        let requests: Vec<_> = keys.into_iter().map(|k| Request::Watch(k.as_ref().to_vec())).collect();
        if requests.is_empty() {
            return Ok(());
        }
        let done = self.coordinate(requests);
        match self.settle(done)? {
            Outcome::Error(e) => Err(Error::Server(e.into())),
            _ => Ok(()),
        }
    }

    /// Whether watching came to nothing, once: the connection is another one.
    pub(crate) fn take_lost_watch(&mut self) -> bool {
        std::mem::take(&mut self.watch_lost)
    }

    /// Forgets what is watched.
    pub fn unwatch(&mut self) {
        self.watch_lost = false;
        if let Some(link) = &mut self.link {
            link.session.unwatch();
        }
    }
}

/// A whole reply.
pub(crate) fn parse_one(bytes: &[u8]) -> Result<Value> {
    match Value::parse(bytes) {
        Ok(Some((value, _))) => Ok(value),
        Ok(None) => Err(Error::Protocol("a reply is cut short".into())),
        Err(e) => Err(Error::Protocol(e.to_string())),
    }
}
