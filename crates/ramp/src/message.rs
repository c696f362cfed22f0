//! What coordinators and participants say to each other.
//!
//! ```text
//!   coordinator -> shard    Execute   Read   Reserve  Prepare   Commit     Abort  Stable
//!   shard -> coordinator    Executed  ReadReply       Prepared  Committed  (none) (none)    or Refused
//!   shard -> shard          Ask -> Answer
//! ```
//! Every message carries its sender's clock, and proofs of commit from the connection on whose behalf it is sent (rule 2).
//! Within a process they travel as they are; everything that is shared or large is behind an `Arc`.
use crate::{ShardId, TxnId};
use kintsugidb_engine::{Command, Dump, Version, bloom_bits};
use kintsugidb_wire::{OwnedArgs, Proto};
use std::sync::Arc;

/// Who sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Node {
    /// A shard.
    Shard(ShardId),
    /// A request in hand at a coordinator.
    Coordinator {
        /// The coordinator: usually a thread.
        id: u16,
        /// Its request; the reply names it again.
        request: u64,
    },
}

/// Messages to be sent.
pub type Outbox = Vec<(Node, Message)>;

/// One message.
#[derive(Clone, Debug)]
pub struct Message {
    /// The highest timestamp that the sender has issued or seen.
    pub clock: u64,
    /// Transactions that the sender's connection has seen committed and that the receiver may still hold prepared.
    pub proofs: Option<Arc<[Proof]>>,
    /// The rest.
    pub body: Body,
}

/// "This transaction is committed at `c`": whoever holds it prepared may commit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The transaction.
    pub txn: TxnId,
    /// Its commit timestamp.
    pub c: u64,
}

/// What is known of a transaction from its first message on. The same at all participants.
#[derive(Debug, PartialEq, Eq)]
pub struct TxnInfo {
    /// Its name.
    pub id: TxnId,
    /// The name of its first attempt: what wait-die goes by (rule 9).
    pub age: u64,
    /// The shards that take part, ascending.
    pub participants: Box<[ShardId]>,
    /// The keys that it writes.
    pub siblings: Siblings,
}

/// The keys that a transaction writes, as far as its metadata tell.
#[derive(Debug, PartialEq, Eq)]
pub enum Siblings {
    /// Their fingerprints, ascending (RAMP-Fast).
    Keys(Box<[u64]>),
    /// A Bloom filter of them (RAMP-Hybrid).
    Bloom([u64; 2]),
    /// Nothing (RAMP-Small): it may have written any key of its participants.
    Unsaid,
}

impl Siblings {
    /// Whether the transaction may have written the key of this fingerprint.
    pub fn may_hold(&self, fingerprint: u64) -> bool {
        match self {
            Self::Keys(keys) => keys.binary_search(&fingerprint).is_ok(),
            Self::Bloom(words) => {
                bloom_bits(fingerprint).iter().all(|&b| words[b / 64] & (1 << (b % 64)) != 0)
            }
            Self::Unsaid => true,
        }
    }

    /// The words that go into a transaction record in the region.
    pub fn words(&self) -> &[u64] {
        match self {
            Self::Keys(keys) => keys,
            Self::Bloom(words) => words,
            Self::Unsaid => &[],
        }
    }

    /// A Bloom filter of these fingerprints.
    pub fn bloom(fingerprints: &[u64]) -> Self {
        let mut words = NO_KEYS;
        for bit in fingerprints.iter().flat_map(|f| bloom_bits(*f)) {
            words[bit / 64] |= 1 << (bit % 64);
        }
        Self::Bloom(words)
    }
}

/// A filter of nothing. The simulator has few keys: so that they meet by chance there, too, three bits of four are set from the start.
const NO_KEYS: [u64; 2] = if cfg!(any(test, feature = "sim")) { [0xeeee_eeee_eeee_eeee; 2] } else { [0; 2] };

/// A transaction that a read met.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What is known of it.
    pub info: Arc<TxnInfo>,
    /// Its commit timestamp.
    pub c: u64,
    /// Whether it is known to be committed at every participant.
    pub stable: bool,
}

/// A key and its fingerprint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The key.
    pub bytes: Box<[u8]>,
    /// Its fingerprint.
    pub fingerprint: u64,
}

/// What a transaction needs of a key that it touches (rule 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lock {
    /// Nothing: it writes blindly.
    Blind,
    /// That nobody else writes it: it is only watched (or, with [`crate::Isolation::Locking`], read).
    Shared,
    /// That nobody else has anything pending on it: it reads what it writes.
    Exclusive,
}

impl Lock {
    /// What two operations on one key need together: written blindly, and watched or read, is written with a look.
    pub fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Exclusive }
    }
}

/// What a transaction does at one shard.
#[derive(Debug, Default)]
pub struct Work {
    /// The keys, each once.
    pub keys: Vec<(Key, Lock)>,
    /// What runs at commit, in this order.
    pub ops: Vec<Op>,
    /// What is checked at prepare.
    pub watches: Vec<Watch>,
    /// The protocol version that replies are written in.
    pub proto: Proto,
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Op {
    /// Its number in the transaction, by which its reply is known.
    pub index: u32,
    /// What it does.
    pub what: What,
}

/// What an operation does.
#[derive(Clone)]
pub enum What {
    /// Runs a command.
    Command(&'static Command, OwnedArgs),
    /// Answers with the whole value of a key.
    Dump(Box<[u8]>),
    /// Replaces the whole value of a key, or removes it.
    Put(Box<[u8]>, Option<Dump>),
    /// Answers with what [`Watch`] remembers of a key.
    Watch(Box<[u8]>),
}

impl What {
    /// The keys that it touches, each once.
    pub fn keys(&self) -> Vec<&[u8]> {
        match self {
            Self::Command(command, args) => crate::coordinator::plan::keys_of(command, &args.to_vec()),
            Self::Dump(key) | Self::Put(key, _) | Self::Watch(key) => vec![key],
        }
    }
}

impl std::fmt::Debug for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Command(_, args) => {
                f.write_str("`")?;
                for (i, a) in args.iter().enumerate() {
                    write!(f, "{}{}", if i > 0 { " " } else { "" }, a.escape_ascii())?;
                }
                f.write_str("`")
            }
            Self::Dump(key) => write!(f, "dump {}", key.escape_ascii()),
            Self::Put(key, dump) => write!(f, "put {} {dump:?}", key.escape_ascii()),
            Self::Watch(key) => write!(f, "watch {}", key.escape_ascii()),
        }
    }
}

/// A key as WATCH saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The key.
    pub key: Box<[u8]>,
    /// What was remembered.
    pub state: WatchState,
}

/// What WATCH remembers of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WatchState {
    /// The version of its last change.
    pub version: Version,
    /// For an absent key, how often a key like it had been created.
    pub births: u64,
}

/// Commands for one shard that run in one turn of its owner.
#[derive(Debug, Default)]
pub struct Batch {
    /// The keys, the commands, and what is watched.
    pub work: Work,
}

/// The answer to one read of a request.
#[derive(Clone, Debug)]
pub struct ReadAnswer {
    /// The number of the operation.
    pub index: u32,
    /// What it read.
    pub found: Found,
}

/// What a read found.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// A command's reply.
    Reply(Vec<u8>),
    /// A whole value.
    Dump(Option<Dump>),
    /// What WATCH remembers.
    Watch(WatchState),
}

/// Why a transaction was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An older one holds or wants a key (wait-die): try again with the same age.
    Die,
    /// A watched key changed.
    Changed,
    /// Its name is beyond the horizon: whether an earlier copy was prepared is not known (rule 26).
    Horizon,
    /// It was aborted by the termination protocol, or its reservation ran out: try again.
    Aborted,
    /// The shard's limits are reached.
    Busy,
    /// The shard has no memory left for what it writes.
    Full,
}

/// How a transaction stands at a participant (rule 25).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Committed at this timestamp.
    Committed(u64),
    /// Prepared with this answer.
    Prepared(u64),
    /// Refused, aborted, or promised never to be prepared.
    Aborted,
}

/// The kinds of messages.
#[derive(Clone, Debug)]
pub enum Body {
    /// Run these commands in one turn. Not idempotent: sent once.
    Execute(Arc<Batch>),
    /// The replies in the commands' order; `None`: a watched key changed.
    Executed {
        /// The replies.
        replies: Option<Vec<ReadAnswer>>,
        /// Transactions that were read from and are not stable.
        seen: Vec<Seen>,
        /// Why nothing was done.
        refused: Option<Refusal>,
    },
    /// Read in one turn.
    Read(Arc<Read>),
    /// What was read.
    ReadReply {
        /// The attempt of [`Read::attempt`].
        attempt: u32,
        /// 1, or the number of the later round.
        round: u32,
        /// The shard's commit sequence at that moment.
        snapshot: u64,
        /// What was read; `None`: a version that is asked for is gone, begin again.
        answers: Option<Vec<ReadAnswer>>,
        /// Recent transactions on what was read, included in it.
        seen: Vec<Seen>,
    },
    /// Reserve the keys of this work, then read.
    Reserve(Arc<TxnInfo>, Arc<Work>, Arc<Read>),
    /// Get ready to commit. With `reserved`, only if the keys are reserved already.
    Prepare {
        /// The transaction.
        info: Arc<TxnInfo>,
        /// Its part at this shard.
        work: Arc<Work>,
        /// Whether it must have been reserved.
        reserved: bool,
    },
    /// Ready; the commit timestamp must not be below `p`.
    Prepared {
        /// The transaction.
        txn: TxnId,
        /// This shard's lower bound.
        p: u64,
    },
    /// Not ready, and never will be.
    Refused {
        /// The transaction.
        txn: TxnId,
        /// Why.
        why: Refusal,
    },
    /// Commit.
    Commit(Proof),
    /// Done.
    Committed {
        /// The transaction.
        txn: TxnId,
        /// The replies; `None`: they are forgotten.
        replies: Option<Arc<Vec<ReadAnswer>>>,
        /// Transactions that the replies may show and that are not stable.
        seen: Vec<Seen>,
    },
    /// Give up.
    Abort(TxnId),
    /// All participants have committed it.
    Stable(TxnId),
    /// How does this transaction stand with you? If the asker knows, it says so.
    Ask {
        /// The transaction.
        info: Arc<TxnInfo>,
        /// Its commit timestamp, if known.
        committed: Option<u64>,
    },
    /// It stands so.
    Answer {
        /// The transaction.
        txn: TxnId,
        /// How it stands.
        standing: Standing,
    },
    /// Do it at once, without any protocol ([`crate::Isolation::None`]).
    Apply(Arc<TxnInfo>, Arc<Work>),
}

/// A read request for one shard.
#[derive(Debug)]
pub struct Read {
    /// Which attempt of the reader this is; the reply repeats it.
    pub attempt: u32,
    /// 1, or the number of the later round.
    pub round: u32,
    /// What to read.
    pub ops: Vec<Op>,
    /// The keys of `ops` at this shard.
    pub keys: Vec<Key>,
    /// Fingerprints of all keys of the reader, at any shard, ascending.
    pub all_keys: Arc<[u64]>,
    /// In later rounds: read at this commit sequence …
    pub snapshot: u64,
    /// … plus these transactions.
    pub with: Vec<Proof>,
    /// The protocol version that replies are written in.
    pub proto: Proto,
}
