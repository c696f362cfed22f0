//! One connection to a target, driven by one thread: requests go in, finished ones come out. No thread, no time-out, no retry of its own.
//!
//! Over a fabric with one-sided writes, blocks come into the connection's data area and are looked at there ([`Block`]); a place is given
//! back when its block is dropped. Where memory is mapped the target has made the area; elsewhere this side has, and hands it out. **A place whose request is under way is never given to anybody else**: also not when nobody waits for the
//! request any more, until the target's reply has come. When the connection dies, the whole area goes with it, so that a target that
//! was stopped and goes on writes into memory that nobody looks at.

use super::block::{Area, Block, Content, Held};
use super::error::IoError;
use crate::limits;
use crate::protocol::{self, AREA_REGION, Info, Kind, Reply, Segment, Status, VolumeInfo};
use kintsugidb_fabric::{
    self as fabric, Access, Address, ConnectOptions, Connection, Export, Fabric, Mapping,
};
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// The connection. Tokens are the caller's to choose, below 2^63. What is begun may stay here until [`Channel::poll`], [`Channel::wait`] or
/// [`Channel::arm`], so that many requests cost one word to the target.
pub struct Channel {
    link: Box<dyn Connection>,
    area: Option<Arc<Area>>,
    /// The area is mapped at both sides, so that what is written can be left there, too.
    shared: bool,
    info: Info,
    pending: HashMap<u64, Pending>,
    last: u64,
    inline_bytes: u64,
    message: Vec<u8>,
    incarnation: u64,
    ended: Vec<Finished>,
    #[cfg(test)]
    pub(crate) sabotage: Option<crate::simulation::Sabotage>,
}

impl Channel {
    /// Connects to a target.
    ///
    /// # Errors
    /// [`IoError::Connect`], [`IoError::Protocol`].
    pub fn connect(address: &Address, options: &ConnectOptions) -> Result<Channel, IoError> {
        let wrong = |why: fabric::Error| IoError::Connect(format!("{address}: {why}"));
        let mut options = options.clone();
        let own = match address.fabric() {
            Fabric::Rdma => Some(Arc::new(Mapping::buffer(limits::AREA_BYTES).map_err(wrong)?)),
            _ => None,
        };
        options.exports.extend(own.iter().map(Channel::export));
        let connected = fabric::connect(address, &options).map_err(wrong)?;
        Channel::over(connected, own)
    }

    /// How memory of this side's is handed out for blocks to be written there.
    pub(crate) fn export(memory: &Arc<Mapping>) -> Export {
        Export { id: AREA_REGION, access: Access::ReadWrite, memory: memory.clone() }
    }

    /// Over a connection. `own`: the area that was handed out to the target.
    pub(crate) fn over(connected: fabric::Connected, own: Option<Arc<Mapping>>) -> Result<Channel, IoError> {
        let info = Info::parse(&connected.info).ok_or(IoError::Protocol("it is no storage target"))?;
        let (link, incarnation) = (connected.connection, connected.incarnation);
        let mapped = link.direct(AREA_REGION).filter(|m| m.len() == info.area_bytes && m.writable());
        let shared = own.is_none() && mapped.is_some();
        let usable = |m: &Arc<Mapping>| m.len().is_power_of_two() && m.len() >= 4096;
        let area = own.or(mapped).filter(usable).map(Area::new);
        let (pending, message, ended) = (HashMap::new(), Vec::new(), Vec::new());
        Ok(Channel {
            link,
            area,
            shared,
            info,
            pending,
            last: 0,
            inline_bytes: 0,
            message,
            incarnation,
            ended,
            #[cfg(test)]
            sabotage: None,
        })
    }

    /// The area that blocks come into.
    #[cfg(test)]
    pub(crate) fn area(&self) -> Option<&Arc<Area>> {
        self.area.as_ref()
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

    /// Begins to open a volume. Its end has a block that is a [`VolumeInfo`].
    pub(super) fn begin_open(&mut self, name: &str, token: u64) -> Result<Result<(), NoRoom>, IoError> {
        self.ask(Kind::Open, name.as_bytes(), token)
    }

    /// Begins to ask which volumes there are. Its end has a block with a [`protocol::Listed`] for each.
    ///
    /// # Errors
    /// As [`Channel::read`].
    pub fn list(&mut self, token: u64) -> Result<Result<(), NoRoom>, IoError> {
        self.ask(Kind::List, &[], token)
    }

    /// Begins what moves no blocks of a volume, and is answered by a message.
    fn ask(&mut self, kind: Kind, rest: &[u8], token: u64) -> Result<Result<(), NoRoom>, IoError> {
        if self.pending.len() >= self.requests() {
            return Ok(Err(NoRoom));
        }
        let mut bytes = Vec::new();
        protocol::encode(&mut bytes, kind, false, 0, self.last + 1, &[]);
        bytes.extend_from_slice(rest);
        let (asked, segments, held, inline_bytes) = (0, Vec::new(), None, 0);
        self.send(&bytes, Pending { token, kind, asked, segments, held, inline_bytes })
    }

    /// Opens a volume, and waits for it.
    ///
    /// # Errors
    /// [`IoError`].
    pub fn open(&mut self, name: &str, limit: Duration) -> Result<VolumeInfo, IoError> {
        let deadline = Instant::now() + limit;
        let id = (self.last + 1) | OPEN;
        if self.begin_open(name, id)?.is_err() {
            return Err(IoError::TooMuch);
        }
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
            self.link.wait(left).map_err(IoError::lost)?;
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
        // Places begin at whole words, and the ranges' lie one behind the other.
        let words =
            ranges.split_last().is_none_or(|(_, others)| others.iter().all(|(_, bytes)| bytes % 8 == 0));
        let area = self.area.clone().filter(|_| words);
        self.transfer(Kind::Read, volume, ranges, area, None, token)
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
        let length = u32::try_from(bytes.len()).map_err(|_| IoError::TooMuch)?;
        let area = self.area.clone().filter(|_| self.shared);
        self.transfer(Kind::Write, volume, &[(offset, length)], area, Some(bytes), token)
    }

    /// Begins to bring to the medium what was written.
    ///
    /// # Errors
    /// As [`Channel::read`].
    pub fn flush(&mut self, volume: u32, token: u64) -> Result<Result<(), NoRoom>, IoError> {
        self.request(Kind::Flush, volume, &[], None, None, token)
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
        self.request(Kind::Trim, volume, &[(offset, bytes)], None, None, token)
    }

    /// Requests that can be under way.
    fn requests(&self) -> usize {
        (self.info.outstanding as usize).min(limits::OUTSTANDING)
    }

    /// Begins a request that moves blocks: through the area, or in its messages. The outer error is final, the inner one says not now.
    fn transfer(
        &mut self,
        kind: Kind,
        volume: u32,
        ranges: &[(u64, u32)],
        area: Option<Arc<Area>>,
        content: Option<&[u8]>,
        token: u64,
    ) -> Result<Result<(), NoRoom>, IoError> {
        let bytes: u64 = ranges.iter().map(|(_, bytes)| u64::from(*bytes)).sum();
        if bytes > self.request_bytes() || ranges.len() > (self.info.segments as usize).min(limits::SEGMENTS)
        {
            return Err(IoError::TooMuch);
        }
        let Some(area) = area.filter(|_| bytes > 0) else {
            if self.inline_bytes + bytes > limits::INLINE_BYTES {
                return Ok(Err(NoRoom));
            }
            return self.request(kind, volume, ranges, content.or(Some(&[])), None, token);
        };
        let Some(held) = area.take(bytes) else { return Ok(Err(NoRoom)) };
        if let Some(content) = content {
            let stored = area.memory.store_bytes(held.at, content);
            stored.map_err(|_| IoError::Protocol("the data area cannot be written"))?;
        }
        self.request(kind, volume, ranges, None, Some(held), token)
    }

    /// `content`: what the message carries, if its blocks travel in messages; nothing for a read.
    fn request(
        &mut self,
        kind: Kind,
        volume: u32,
        ranges: &[(u64, u32)],
        content: Option<&[u8]>,
        held: Option<Held>,
        token: u64,
    ) -> Result<Result<(), NoRoom>, IoError> {
        if self.pending.len() >= self.requests() {
            return Ok(Err(NoRoom));
        }
        let mut place = held.as_ref().map(|h| h.at);
        let mut segments = Vec::with_capacity(ranges.len());
        let mut asked = 0;
        for (offset, bytes) in ranges {
            segments.push(Segment { offset: *offset, bytes: *bytes, place: place.unwrap_or(0) });
            place = place.map(|at| at + u64::from(*bytes));
            asked += u64::from(*bytes);
        }
        let inline = content.is_some();
        let mut message = std::mem::take(&mut self.message);
        message.clear();
        protocol::encode(&mut message, kind, inline, volume, self.last + 1, &segments);
        message.extend_from_slice(content.unwrap_or_default());
        let segments = if ranges.len() > 1 { ranges.iter().map(|r| r.1).collect() } else { Vec::new() };
        let inline_bytes = if inline { asked } else { 0 };
        let sent = self.send(&message, Pending { token, kind, asked, segments, held, inline_bytes });
        self.message = message;
        sent
    }

    /// Sends the request of the next number.
    fn send(&mut self, message: &[u8], pending: Pending) -> Result<Result<(), NoRoom>, IoError> {
        match self.link.queue(message) {
            Ok(()) => {}
            Err(fabric::Error::Full) => return Ok(Err(NoRoom)),
            Err(why) => return Err(IoError::lost(why)),
        }
        self.last += 1;
        self.inline_bytes += pending.inline_bytes;
        self.pending.insert(self.last, pending);
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
                Err(why) => break Err(IoError::lost(why)),
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
        if matches!(pending.kind, Kind::Open | Kind::List) {
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
        self.link.wait(limit).map_err(IoError::lost)
    }

    /// Announces sleep on [`Channel::fd`]. `false`: do not sleep.
    ///
    /// # Errors
    /// [`IoError::Lost`].
    pub fn arm(&mut self) -> Result<bool, IoError> {
        if !self.ended.is_empty() {
            return Ok(false);
        }
        self.link.arm().map_err(IoError::lost)
    }

    /// Readable when an armed channel has something to poll.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.link.fd()
    }

    /// Tells the target that nobody waits for a request any more. Its end still comes.
    pub fn cancel(&mut self, token: u64) {
        let Some(id) = self.pending.iter().find(|(_, p)| p.token == token).map(|(id, _)| *id) else { return };
        #[cfg(test)]
        crate::simulation::on_cancel(
            self.sabotage,
            self.pending.get_mut(&id).map(|pending| &mut pending.held),
        );
        let mut bytes = Vec::new();
        let segment = Segment { offset: id, bytes: 0, place: 0 };
        protocol::encode(&mut bytes, Kind::Cancel, false, 0, 0, &[segment]);
        // Only a hint: if it cannot be sent, the request runs to its end.
        let _ = self.link.send(&bytes);
    }
}
