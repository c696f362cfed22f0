//! How a client works, and what it has done.
use std::time::Duration;

/// How keys are read and transactions are sent; for measurements. Writes of several keys are coordinated by the client in every mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// GET\*, PUT+: one-sided reads where the fabric has them, messages otherwise.
    #[default]
    OneSided,
    /// GET+, PUT+: messages only; those of one round to all shards travel in one frame.
    Messages,
    /// The same with a frame for each message, and no command in one frame with another.
    OneByOne,
}

/// How a client connects and works.
#[derive(Clone, Debug)]
pub struct Options {
    /// The user's name.
    pub user: String,
    /// The password.
    pub password: String,
    /// See [`Mode`].
    pub mode: Mode,
    /// Read one-sidedly also over a fabric that has a thread of the server do it (`tcp`). That is slower than asking; it is for tests
    /// and for measurements.
    pub emulated: bool,
    /// How long an operation waits for an answer, and a connection to be made.
    pub timeout: Duration,
    /// How long an operation polls before it sleeps.
    pub spin: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            user: "default".into(),
            password: String::new(),
            mode: Mode::OneSided,
            emulated: false,
            timeout: Duration::from_secs(10),
            spin: Duration::from_micros(20),
        }
    }
}

/// What a client has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Commands answered from the regions, without a message.
    pub one_sided: u64,
    /// Attempts at that which had to be repeated, because something changed meanwhile.
    pub retries: u64,
    /// Point reads that were left to messages, for whatever reason.
    pub fallbacks: u64,
    /// Links from a superseded version to the next that were followed.
    pub followed: u64,
    /// Half-seen transactions that were detected in one-sided reads.
    pub fractures: u64,
    /// Halves of those that were read, too: from transactions prepared at their shard and not committed there.
    pub prepared: u64,
    /// Commands sent as RESP.
    pub commands: u64,
    /// Transactions coordinated here.
    pub transactions: u64,
    /// Those of them that needed a second round of reading.
    pub second_rounds: u64,
    /// Messages of transactions that were sent.
    pub messages_sent: u64,
    /// Messages of transactions that were received.
    pub messages_received: u64,
    /// Times that a connection was made, the first included.
    pub connects: u64,
}

impl Counters {
    /// Adds what somebody else has done.
    pub fn add(&mut self, other: Self) {
        self.one_sided += other.one_sided;
        self.retries += other.retries;
        self.fallbacks += other.fallbacks;
        self.followed += other.followed;
        self.fractures += other.fractures;
        self.prepared += other.prepared;
        self.commands += other.commands;
        self.transactions += other.transactions;
        self.second_rounds += other.second_rounds;
        self.messages_sent += other.messages_sent;
        self.messages_received += other.messages_received;
        self.connects += other.connects;
    }
}
