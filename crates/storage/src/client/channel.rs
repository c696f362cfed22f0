//! One connection to a target, driven by one thread: requests go in, finished ones come out. No thread, no time-out, no retry of its own.
//!
//! Over a fabric that maps memory, blocks come into the connection's data area and are looked at there ([`Block`]); a place is given back
//! when its block is dropped. **A place whose request is under way is never given to anybody else**: also not when nobody waits for the
//! request any more, until the target's reply has come. When the connection dies, the whole area goes with it, so that a target that
//! was stopped and goes on writes into memory that nobody looks at.

use super::buddy::Buddy;
use crate::limits;
use crate::protocol::{self, AREA_REGION, Info, Kind, Reply, Segment, Status, VolumeInfo};
use kintsugidb_fabric::{self as fabric, Address, ConnectOptions, Connection, Mapping};
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What can go wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoError {
    /// The target refused or failed it.
    #[error("{status}{}", if *.errno == 0 { String::new() } else { format!(" (errno {errno})") })]
    Target {
        /// How.
        status: Status,
        /// The target's errno, or 0.
        errno: u32,
        /// The segment that failed.
        segment: u16,
    },
    /// The connection ended before the reply; a write may or may not have happened.
    #[error("the connection to the target was lost{}", if *.unknown { "; the write may or may not have happened" } else { "" })]
    Lost {
        /// Whether it may have had an effect.
        unknown: bool,
    },
    /// No reply in time; a write may or may not have happened.
    #[error("no reply within {limit_ms} ms")]
    TimedOut {
        /// The limit, in milliseconds.
        limit_ms: u64,
    },
    /// Nobody waits for it any more.
    #[error("cancelled")]
    Cancelled,
    /// The request is larger than the target takes.
    #[error("the request is larger than the target takes")]
    TooMuch,
    /// The target said something that makes no sense.
    #[error("the target broke the protocol: {0}")]
    Protocol(&'static str),
    /// The target cannot be reached.
    #[error("{0}")]
    Connect(String),
}

impl IoError {
    fn from_reply(reply: &Reply) -> IoError {
        match reply.status {
            Status::Cancelled => IoError::Cancelled,
            status => IoError::Target { status, errno: reply.errno, segment: reply.segment },
        }
    }
}

impl From<IoError> for std::io::Error {
    fn from(why: IoError) -> std::io::Error {
        use std::io::ErrorKind;
        let kind = match &why {
            IoError::Target { status: Status::NoSuchVolume, .. } => ErrorKind::NotFound,
            IoError::Target { status: Status::ReadOnly, .. } => ErrorKind::PermissionDenied,
            IoError::Target { status: Status::Short, .. } => ErrorKind::UnexpectedEof,
            IoError::TimedOut { .. } => ErrorKind::TimedOut,
            IoError::Lost { .. } => ErrorKind::ConnectionReset,
            _ => ErrorKind::Other,
        };
        std::io::Error::new(kind, why)
    }
}

/// The data area and who has which place of it.
struct Area {
    memory: Arc<Mapping>,
    places: Mutex<Buddy>,
}

impl Area {
    fn take(self: &Arc<Self>, bytes: u64) -> Option<Held> {
        let at = self.places.lock().unwrap_or_else(PoisonError::into_inner).take(bytes)?;
        Some(Held { area: self.clone(), at, bytes })
    }
}

/// A place that is in use until this is dropped.
struct Held {
    area: Arc<Area>,
    at: u64,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.area.places.lock().unwrap_or_else(PoisonError::into_inner).give(self.at, self.bytes);
    }
}

enum Content {
    Place(Held),
    Message(Vec<u8>, usize),
    Nothing,
}

/// What a request has read: all its segments, one after another.
pub struct Block {
    content: Content,
    bytes: usize,
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Block({} bytes)", self.bytes)
    }
}

impl Block {
    /// Bytes that were read.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Copies bytes out of it, from `offset` on. `false`: it is not so long.
    #[must_use]
    pub fn copy_to(&self, offset: usize, into: &mut [u8]) -> bool {
        if offset.checked_add(into.len()).is_none_or(|end| end > self.bytes) {
            return false;
        }
        match &self.content {
            Content::Place(held) => held.area.memory.load_bytes(held.at + offset as u64, into).is_ok(),
            Content::Message(message, start) => {
                into.copy_from_slice(&message[start + offset..][..into.len()]);
                true
            }
            Content::Nothing => into.is_empty(),
        }
    }

    /// A copy of all of it.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = vec![0; self.bytes];
        let whole = self.copy_to(0, &mut out);
        debug_assert!(whole);
        out
    }
}

/// A request that has ended.
#[derive(Debug)]
pub struct Finished {
    /// What the caller named it.
    pub token: u64,
    /// What was read (nothing, for other requests). Shorter than asked only at the end of the volume.
    pub result: Result<Block, IoError>,
}

struct Pending {
    token: u64,
    kind: Kind,
    asked: u64,
    /// Bytes of each segment but the last, to find the length of a short read.
    segments: Vec<u32>,
    held: Option<Held>,
    inline_bytes: u64,
}

/// A request that is not to be begun now: there is no room. Fetch what has finished, and try again.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// Tokens of the channel's own requests have this bit; the caller's must not.
const OPEN: u64 = 1 << 63;

/// The connection. Tokens are the caller's to choose, below 2^63.
pub struct Channel {
    link: Box<dyn Connection>,
    area: Option<Arc<Area>>,
    info: Info,
    pending: HashMap<u64, Pending>,
    last: u64,
    inline_bytes: u64,
    message: Vec<u8>,
    incarnation: u64,
    ended: Vec<Finished>,
}

impl Channel {
    /// Connects to a target.
    ///
    /// # Errors
    /// [`IoError::Connect`], [`IoError::Protocol`].
    pub fn connect(address: &Address, options: &ConnectOptions) -> Result<Channel, IoError> {
        let connected =
            fabric::connect(address, options).map_err(|why| IoError::Connect(format!("{address}: {why}")))?;
        let info = Info::parse(&connected.info).ok_or(IoError::Protocol("it is no storage target"))?;
        let link = connected.connection;
        let mapped = link.direct(AREA_REGION).filter(|m| {
            info.area_bytes.is_power_of_two()
                && info.area_bytes >= 4096
                && m.len() == info.area_bytes
                && m.writable()
        });
        let area =
            mapped.map(|memory| Arc::new(Area { places: Mutex::new(Buddy::new(memory.len())), memory }));
        let (pending, message, ended) = (HashMap::new(), Vec::new(), Vec::new());
        let incarnation = connected.incarnation;
        Ok(Channel { link, area, info, pending, last: 0, inline_bytes: 0, message, incarnation, ended })
    }

    /// Which life of the target it is.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Whether blocks come without travelling in messages.
    pub fn one_sided(&self) -> bool {
        self.area.is_some()
    }

    /// Bytes of the largest request.
    pub fn request_bytes(&self) -> u64 {
        self.info.request_bytes.min(limits::REQUEST_BYTES)
    }

    /// Requests under way.
    pub fn outstanding(&self) -> usize {
        self.pending.len()
    }

    /// Begins to open a volume; see [`Channel::opened`].
    fn begin_open(&mut self, name: &str) -> Result<u64, IoError> {
        self.last += 1;
        let mut bytes = Vec::new();
        protocol::encode(&mut bytes, Kind::Open, false, 0, self.last, &[]);
        bytes.extend_from_slice(name.as_bytes());
        self.link.send(&bytes).map_err(lost)?;
        let pending = Pending {
            token: self.last | OPEN,
            kind: Kind::Open,
            asked: 0,
            segments: Vec::new(),
            held: None,
            inline_bytes: 0,
        };
        self.pending.insert(self.last, pending);
        Ok(self.last | OPEN)
    }

    /// Opens a volume, and waits for it. To be called when nothing is under way.
    ///
    /// # Errors
    /// [`IoError`].
    pub fn open(&mut self, name: &str, limit: Duration) -> Result<VolumeInfo, IoError> {
        let deadline = Instant::now() + limit;
        let id = self.begin_open(name)?;
        let mut finished = Vec::new();
        loop {
            self.poll(&mut finished)?;
            if let Some(at) = finished.iter().position(|f| f.token == id) {
                let block = finished.swap_remove(at).result?.to_vec();
                self.ended.extend(finished);
                return VolumeInfo::parse(&block).ok_or(IoError::Protocol("a volume without a description"));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(IoError::TimedOut { limit_ms: limit.as_millis() as u64 });
            }
            self.link.wait(left).map_err(lost)?;
        }
    }

    /// Begins to read ranges (offset, bytes) of a volume.
    ///
    /// # Errors
    /// [`IoError`]; `Ok(Err(NoRoom))`: not now.
    pub fn read(
        &mut self,
        volume: u32,
        ranges: &[(u64, u32)],
        token: u64,
    ) -> Result<Result<(), NoRoom>, IoError> {
        let total: u64 = ranges.iter().map(|(_, bytes)| u64::from(*bytes)).sum();
        let place = match self.begin(ranges.len(), total, 0)? {
            Ok(place) => place,
            Err(no) => return Ok(Err(no)),
        };
        self.request(Kind::Read, volume, ranges, None, place, token)
    }

    /// Begins to write bytes to a volume.
    ///
    /// # Errors
    /// As [`Channel::read`].
    pub fn write(
        &mut self,
        volume: u32,
        offset: u64,
        bytes: &[u8],
        token: u64,
    ) -> Result<Result<(), NoRoom>, IoError> {
        let total = bytes.len() as u64;
        let place = match self.begin(1, total, total)? {
            Ok(place) => place,
            Err(no) => return Ok(Err(no)),
        };
        if let (Some(held), Some(area)) = (&place, &self.area) {
            area.memory
                .store_bytes(held.at, bytes)
                .map_err(|_| IoError::Protocol("the data area cannot be written"))?;
        }
        let length = u32::try_from(total).map_err(|_| IoError::TooMuch)?;
        self.request(Kind::Write, volume, &[(offset, length)], Some(bytes), place, token)
    }

    /// Begins to bring to the medium what was written.
    ///
    /// # Errors
    /// As [`Channel::read`].
    pub fn flush(&mut self, volume: u32, token: u64) -> Result<Result<(), NoRoom>, IoError> {
        match self.begin(0, 0, 0)? {
            Ok(_) => self.request(Kind::Flush, volume, &[], None, None, token),
            Err(no) => Ok(Err(no)),
        }
    }

    /// Begins to say that a range holds nothing of value.
    ///
    /// # Errors
    /// As [`Channel::read`].
    pub fn trim(
        &mut self,
        volume: u32,
        offset: u64,
        bytes: u32,
        token: u64,
    ) -> Result<Result<(), NoRoom>, IoError> {
        match self.begin(1, 0, 0)? {
            Ok(_) => self.request(Kind::Trim, volume, &[(offset, bytes)], None, None, token),
            Err(no) => Ok(Err(no)),
        }
    }

    /// Room for a request: the outer error is final, the inner one says not now.
    fn begin(
        &mut self,
        segments: usize,
        bytes: u64,
        _out: u64,
    ) -> Result<Result<Option<Held>, NoRoom>, IoError> {
        if bytes > self.request_bytes() || segments > (self.info.segments as usize).min(limits::SEGMENTS) {
            return Err(IoError::TooMuch);
        }
        if self.pending.len() >= (self.info.outstanding as usize).min(limits::OUTSTANDING) {
            return Ok(Err(NoRoom));
        }
        if bytes == 0 {
            return Ok(Ok(None));
        }
        match &self.area {
            Some(area) => Ok(area.take(bytes).map(Some).ok_or(NoRoom)),
            None if self.inline_bytes + bytes > limits::INLINE_BYTES => Ok(Err(NoRoom)),
            None => Ok(Ok(None)),
        }
    }

    fn request(
        &mut self,
        kind: Kind,
        volume: u32,
        ranges: &[(u64, u32)],
        content: Option<&[u8]>,
        held: Option<Held>,
        token: u64,
    ) -> Result<Result<(), NoRoom>, IoError> {
        let transfer = matches!(kind, Kind::Read | Kind::Write);
        let inline = transfer && self.area.is_none();
        let mut place = held.as_ref().map_or(0, |h| h.at);
        let mut segments = Vec::with_capacity(ranges.len());
        let mut asked = 0;
        for (offset, bytes) in ranges {
            segments.push(Segment { offset: *offset, bytes: *bytes, place: if inline { 0 } else { place } });
            place += u64::from(*bytes);
            asked += u64::from(*bytes);
        }
        let id = self.last + 1;
        let mut message = std::mem::take(&mut self.message);
        message.clear();
        protocol::encode(&mut message, kind, inline, volume, id, &segments);
        if let (true, Some(content)) = (inline, content) {
            message.extend_from_slice(content);
        }
        let sent = self.link.send(&message);
        self.message = message;
        match sent {
            Ok(()) => {}
            Err(fabric::Error::Full) => return Ok(Err(NoRoom)),
            Err(why) => return Err(lost(why)),
        }
        self.last = id;
        let inline_bytes = if inline { asked } else { 0 };
        self.inline_bytes += inline_bytes;
        let segments = if ranges.len() > 1 { ranges.iter().map(|r| r.1).collect() } else { Vec::new() };
        self.pending.insert(id, Pending { token, kind, asked, segments, held, inline_bytes });
        Ok(Ok(()))
    }

    /// Appends what has finished, without waiting.
    ///
    /// # Errors
    /// [`IoError::Lost`] or [`IoError::Protocol`]: the connection is of no use any more, and nothing under way will finish.
    pub fn poll(&mut self, finished: &mut Vec<Finished>) -> Result<usize, IoError> {
        let before = finished.len();
        finished.append(&mut self.ended);
        let mut message = std::mem::take(&mut self.message);
        let result = loop {
            message.clear();
            match self.link.receive(&mut message) {
                Ok(None) => break Ok(finished.len() - before),
                Ok(Some(_)) => match self.reply(&mut message) {
                    Ok(end) => finished.push(end),
                    Err(why) => break Err(why),
                },
                // What has come before the end is handed out first.
                Err(_) if finished.len() > before => break Ok(finished.len() - before),
                Err(why) => break Err(lost(why)),
            }
        };
        self.message = message;
        result
    }

    fn reply(&mut self, message: &mut Vec<u8>) -> Result<Finished, IoError> {
        let (reply, rest) =
            Reply::parse(message).map_err(|_| IoError::Protocol("a reply that makes no sense"))?;
        let rest = rest.len();
        let pending = self.pending.remove(&reply.id).ok_or(IoError::Protocol("a reply to no request"))?;
        self.inline_bytes -= pending.inline_bytes;
        let token = pending.token;
        if pending.kind == Kind::Open {
            if reply.status != Status::Ok {
                return Ok(Finished { token, result: Err(IoError::from_reply(&reply)) });
            }
            let content = Content::Message(std::mem::take(message), protocol::REPLY_HEADER);
            return Ok(Finished { token, result: Ok(Block { content, bytes: rest }) });
        }
        let bytes = match reply.status {
            Status::Ok if pending.kind == Kind::Read => pending.asked,
            Status::Ok => 0,
            // A short read in the last segment is a shorter read; before it, the rest would be undefined.
            Status::Short if pending.kind == Kind::Read => {
                let at = usize::from(reply.segment);
                if at + 1 < pending.segments.len() {
                    return Ok(Finished { token, result: Err(IoError::from_reply(&reply)) });
                }
                pending.segments[..at.min(pending.segments.len())].iter().map(|b| u64::from(*b)).sum::<u64>()
                    + reply.bytes
            }
            _ => return Ok(Finished { token, result: Err(IoError::from_reply(&reply)) }),
        };
        if bytes > pending.asked
            || (pending.inline_bytes > 0 && pending.kind == Kind::Read && rest as u64 != bytes)
        {
            return Err(IoError::Protocol("a reply of another length than was asked for"));
        }
        let content = match pending.held {
            _ if bytes == 0 => Content::Nothing,
            Some(held) => Content::Place(held),
            None => Content::Message(std::mem::take(message), protocol::REPLY_HEADER),
        };
        Ok(Finished { token, result: Ok(Block { content, bytes: bytes as usize }) })
    }

    /// Sleeps until there is something to poll, at most so long.
    ///
    /// # Errors
    /// [`IoError::Lost`].
    pub fn wait(&mut self, limit: Duration) -> Result<bool, IoError> {
        if !self.ended.is_empty() {
            return Ok(true);
        }
        self.link.wait(limit).map_err(lost)
    }

    /// Announces sleep on [`Channel::fd`]. `false`: do not sleep.
    ///
    /// # Errors
    /// [`IoError::Lost`].
    pub fn arm(&mut self) -> Result<bool, IoError> {
        if !self.ended.is_empty() {
            return Ok(false);
        }
        self.link.arm().map_err(lost)
    }

    /// Readable when an armed channel has something to poll.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.link.fd()
    }

    /// Tells the target that nobody waits for a request any more. Its end still comes.
    pub fn cancel(&mut self, token: u64) {
        let Some(id) = self.pending.iter().find(|(_, p)| p.token == token).map(|(id, _)| *id) else { return };
        let mut bytes = Vec::new();
        let segment = Segment { offset: id, bytes: 0, place: 0 };
        protocol::encode(&mut bytes, Kind::Cancel, false, 0, 0, &[segment]);
        // Only a hint: if it cannot be sent, the request runs to its end.
        let _ = self.link.send(&bytes);
    }
}

fn lost(why: fabric::Error) -> IoError {
    match why {
        fabric::Error::Protocol(what) => IoError::Protocol(what),
        _ => IoError::Lost { unknown: false },
    }
}
