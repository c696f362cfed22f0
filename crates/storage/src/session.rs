//! The target's side of one connection, without I/O: messages in, jobs out; completions in, replies out.
//!
//! ```text
//!   message ──▶ parse ─▶ allowed? in range? places sound? room? ──▶ jobs, one a segment ──▶ engine
//!                 │ no                                                                        │
//!                 ▼                                                                           ▼
//!               reply with a status  ◀────────────────── all segments of it done ◀────────  done
//! ```
//! What is refused is refused before anything is allocated or submitted. A request lives in a slot; a job's token names the slot and the
//! segment, and the target adds the connection. A session outlives its connection until its last job is back.

use crate::engine::{Job, Op};
use crate::memory::{Area, Heap, Place};
use crate::protocol::{Kind, Listed, Malformed, REPLY_HEADER, Reply, Request, Segment, Status, VolumeInfo};
use crate::volume::Volume;
use crate::{ALIGNMENT, limits};
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::Arc;

/// A volume that a user may open.
#[derive(Clone, Debug)]
pub struct Permission {
    /// The volume.
    pub volume: Arc<Volume>,
    /// Whether this user may write it; the volume must be writable, too.
    pub writable: bool,
}

/// What is to be sent: a message, perhaps in a buffer that the disk has written.
pub enum Outgoing {
    /// A reply without blocks.
    Plain(Vec<u8>),
    /// A reply whose header stands right before its blocks in a buffer: from which byte to which.
    Blocks(Arc<Heap>, std::ops::Range<usize>),
    /// A reply to be seen after these parts (place, bytes) of mirrored memory have been written to the client's.
    Placed {
        /// The reply.
        reply: Vec<u8>,
        /// What has been read; no two of them meet.
        parts: Vec<(u64, u64)>,
    },
}

/// Memory of an inline request. The blocks begin at a page, so that they can come directly from the disk.
struct Scratch {
    memory: Arc<Heap>,
}

struct Pending {
    request: u64,
    kind: Kind,
    /// Bytes of each segment, as asked, and its place.
    asked: Vec<(u32, u64)>,
    /// How each segment ended; `None` while under way.
    ended: Vec<Option<Result<u64, Errno>>>,
    left: usize,
    cancelled: bool,
    scratch: Option<Scratch>,
    inline_bytes: u64,
}

/// One connection's state.
pub struct Session {
    permissions: Arc<HashMap<String, Permission>>,
    area: Option<Arc<dyn Area>>,
    /// The area is not the client's memory, but stands for it.
    mirrored: bool,
    open: Vec<Permission>,
    slots: Vec<Option<Pending>>,
    free: Vec<usize>,
    ids: HashMap<u64, usize>,
    inline_bytes: u64,
    /// Memory of requests that are over, for the next ones.
    spare: Vec<Heap>,
    spare_bytes: usize,
}

const SEGMENT_BITS: u32 = 12;
const _: () = assert!(limits::SEGMENTS < 1 << SEGMENT_BITS && limits::OUTSTANDING < 1 << 20);

impl Session {
    /// A session of a user with these permissions; `area`: the memory shared with the client, if the fabric maps it.
    pub fn new(permissions: Arc<HashMap<String, Permission>>, area: Option<Arc<dyn Area>>) -> Session {
        Session {
            permissions,
            area,
            mirrored: false,
            open: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            ids: HashMap::new(),
            inline_bytes: 0,
            spare: Vec::new(),
            spare_bytes: 0,
        }
    }

    /// A session whose area has to be written to the client's memory: see [`Outgoing::Placed`].
    pub fn mirrored(permissions: Arc<HashMap<String, Permission>>, area: Option<Arc<dyn Area>>) -> Session {
        Session { mirrored: true, ..Session::new(permissions, area) }
    }

    /// The memory shared with the client, or that stands for the client's.
    pub fn area(&self) -> Option<&Arc<dyn Area>> {
        self.area.as_ref()
    }

    /// Requests under way.
    pub fn outstanding(&self) -> usize {
        self.ids.len()
    }

    /// Takes a message.
    ///
    /// # Errors
    /// [`Malformed::Header`]: the peer does not speak the protocol; the connection is to be closed.
    pub fn message(
        &mut self,
        bytes: &[u8],
        jobs: &mut Vec<Job>,
        replies: &mut Vec<Outgoing>,
    ) -> Result<(), Malformed> {
        let request = match Request::parse(bytes) {
            Ok(request) => request,
            Err(Malformed::Request(id, status)) => {
                replies.push(refusal(Kind::Read, id, status));
                return Ok(());
            }
            Err(other) => return Err(other),
        };
        let refused = match request.kind {
            Kind::Open => self.open(&request, replies),
            Kind::List => {
                replies.push(self.list(request.id));
                Ok(())
            }
            Kind::Cancel => {
                // It has no reply of its own: the cancelled request has one.
                if let Some(pending) =
                    self.ids.get(&request.segments[0].offset).and_then(|at| self.slots[*at].as_mut())
                {
                    pending.cancelled = true;
                }
                Ok(())
            }
            _ => self.begin(&request, jobs, replies),
        };
        if let Err(status) = refused {
            replies.push(refusal(request.kind, request.id, status));
        }
        Ok(())
    }

    fn open(&mut self, request: &Request<'_>, replies: &mut Vec<Outgoing>) -> Result<(), Status> {
        let name = std::str::from_utf8(request.rest).map_err(|_| Status::NoSuchVolume)?;
        let permission = self.permissions.get(name).ok_or(Status::NoSuchVolume)?;
        let known = self.open.iter().position(|p| Arc::ptr_eq(&p.volume, &permission.volume));
        let handle = known.unwrap_or(self.open.len());
        if handle >= limits::OPEN_VOLUMES {
            return Err(Status::TooMuch);
        }
        let writable = permission.writable && permission.volume.writable();
        let info = VolumeInfo { handle: handle as u32, bytes: permission.volume.len(), writable };
        if known.is_none() {
            self.open.push(permission.clone());
        }
        let reply =
            Reply { kind: Kind::Open, status: Status::Ok, segment: 0, errno: 0, id: request.id, bytes: 0 };
        let mut message = reply.header().to_vec();
        message.extend_from_slice(&info.encode());
        replies.push(Outgoing::Plain(message));
        Ok(())
    }

    /// The volumes that may be opened, by name.
    fn list(&self, id: u64) -> Outgoing {
        let listed = |(name, permission): (&String, &Permission)| {
            let Permission { volume, writable } = permission;
            Listed { name: name.clone(), bytes: volume.len(), writable: *writable && volume.writable() }
        };
        let mut volumes: Vec<Listed> = self.permissions.iter().map(listed).collect();
        volumes.sort_by(|a, b| a.name.cmp(&b.name));
        let mut reply = Reply { kind: Kind::List, status: Status::Ok, segment: 0, errno: 0, id, bytes: 0 }
            .header()
            .to_vec();
        volumes.iter().for_each(|volume| volume.encode(&mut reply));
        Outgoing::Plain(reply)
    }

    fn begin(
        &mut self,
        request: &Request<'_>,
        jobs: &mut Vec<Job>,
        replies: &mut Vec<Outgoing>,
    ) -> Result<(), Status> {
        let permission = self.open.get(request.volume as usize).ok_or(Status::NoSuchVolume)?;
        let volume = permission.volume.clone();
        if request.kind != Kind::Read && !(permission.writable && volume.writable()) {
            return Err(Status::ReadOnly);
        }
        if self.ids.len() >= limits::OUTSTANDING {
            return Err(Status::TooMuch);
        }
        if self.ids.contains_key(&request.id) {
            return Err(Status::Malformed);
        }
        check_ranges(request, volume.len())?;
        let total: u64 = request.segments.iter().map(|s| u64::from(s.bytes)).sum();
        let transfer = matches!(request.kind, Kind::Read | Kind::Write);
        let inline = transfer && request.inline;
        if self.mirrored && request.kind == Kind::Write && !inline {
            // What is to be written is in the client's memory only.
            return Err(Status::BadPlace);
        }
        if transfer && !inline {
            check_places(&request.segments, self.area.as_ref().ok_or(Status::BadPlace)?.bytes() as u64)?;
        }
        if inline && self.inline_bytes + total > limits::INLINE_BYTES {
            return Err(Status::TooMuch);
        }
        let scratch = if inline { Some(self.scratch(total, request.rest)?) } else { None };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let op = match request.kind {
            Kind::Read => Op::Read,
            Kind::Write => Op::Write,
            Kind::Flush => Op::Flush,
            _ => Op::Trim,
        };
        let count = request.segments.len().max(1);
        let mut pending = Pending {
            request: request.id,
            kind: request.kind,
            asked: request.segments.iter().map(|s| (s.bytes, s.place)).collect(),
            ended: vec![None; count],
            left: count,
            cancelled: false,
            scratch: None,
            inline_bytes: if inline { total } else { 0 },
        };
        let mut at = ALIGNMENT as u64;
        for number in 0..count {
            let (offset, asked, place) =
                request.segments.get(number).map_or((0, 0, 0), |s| (s.offset, s.bytes, s.place));
            // A read across the end of the volume gets what is there; its count tells.
            let bytes = match request.kind {
                Kind::Read => u64::from(asked).min(volume.len() - offset),
                _ => u64::from(asked),
            };
            let place = match (&scratch, &self.area) {
                (Some(s), _) => Place::new(s.memory.clone(), at, bytes),
                (None, Some(area)) if transfer => Place::new(area.clone(), place, bytes),
                _ => None,
            };
            at += u64::from(asked);
            if transfer && (place.is_none() || bytes == 0) {
                pending.ended[number] = Some(if place.is_none() { Err(Errno::INVAL) } else { Ok(0) });
                pending.left -= 1;
                continue;
            }
            let token = ((slot as u64) << SEGMENT_BITS) | number as u64;
            jobs.push(Job { token, op, volume: volume.clone(), offset, bytes, place });
        }
        self.inline_bytes += pending.inline_bytes;
        pending.scratch = scratch;
        let ready = pending.left == 0;
        self.slots[slot] = Some(pending);
        self.ids.insert(request.id, slot);
        if ready {
            self.finish(slot, replies);
        }
        Ok(())
    }

    /// Memory for an inline request, with what it brings.
    fn scratch(&mut self, bytes: u64, content: &[u8]) -> Result<Scratch, Status> {
        let needed = ALIGNMENT + bytes as usize;
        let fits = |heap: &Heap| (needed..=2 * needed).contains(&heap.bytes());
        let mut memory = match self.spare.iter().rposition(fits) {
            Some(at) => {
                let heap = self.spare.swap_remove(at);
                self.spare_bytes -= heap.bytes();
                heap
            }
            None => Heap::new(needed).ok_or(Status::NoMemory)?,
        };
        memory.slice()[ALIGNMENT..][..content.len()].copy_from_slice(content);
        Ok(Scratch { memory: Arc::new(memory) })
    }

    /// Takes memory back whose blocks have been sent. It stays this session's, so that what is in it is only what its user may read.
    pub fn recycle(&mut self, memory: Arc<Heap>) {
        let room = limits::SPARE_BYTES - self.spare_bytes;
        if let Some(heap) = Arc::into_inner(memory).filter(|heap| heap.bytes() <= room) {
            self.spare_bytes += heap.bytes();
            self.spare.push(heap);
        }
    }

    /// Takes the end of a job.
    pub fn done(&mut self, token: u64, result: Result<u64, Errno>, replies: &mut Vec<Outgoing>) {
        let (slot, segment) =
            ((token >> SEGMENT_BITS) as usize, (token & ((1 << SEGMENT_BITS) - 1)) as usize);
        let Some(Some(pending)) = self.slots.get_mut(slot) else { return };
        match pending.ended.get_mut(segment) {
            Some(end @ None) => *end = Some(result),
            _ => return,
        }
        pending.left -= 1;
        if pending.left == 0 {
            self.finish(slot, replies);
        }
    }

    fn finish(&mut self, slot: usize, replies: &mut Vec<Outgoing>) {
        let Some(pending) = self.slots[slot].take() else { return };
        self.free.push(slot);
        self.ids.remove(&pending.request);
        self.inline_bytes -= pending.inline_bytes;
        let reply = pending.reply();
        // Blocks of a request that failed or was cancelled go nowhere.
        let good = match reply.status {
            Status::Ok | Status::Short if pending.kind == Kind::Read => pending.good(&reply),
            _ => Vec::new(),
        };
        replies.push(match pending.scratch {
            Some(scratch) if !good.is_empty() => {
                scratch.into_message(&reply, good.iter().map(|(_, bytes)| bytes).sum())
            }
            None if self.mirrored && !good.is_empty() => {
                Outgoing::Placed { reply: reply.header().to_vec(), parts: good }
            }
            _ => Outgoing::Plain(reply.header().to_vec()),
        });
    }
}

impl Pending {
    /// Places and bytes that were read: whole segments, and what there is of the one that is short.
    fn good(&self, reply: &Reply) -> Vec<(u64, u64)> {
        let whole = match reply.status {
            Status::Short => usize::from(reply.segment),
            _ => self.asked.len(),
        };
        let mut parts: Vec<(u64, u64)> = Vec::new();
        for (number, (bytes, place)) in self.asked.iter().enumerate().take(whole + 1) {
            let bytes = if number < whole { u64::from(*bytes) } else { reply.bytes };
            match parts.last_mut() {
                // One write does for segments that lie one behind the other.
                Some((from, length)) if *from + *length == *place && length.is_multiple_of(8) => {
                    *length += bytes
                }
                _ if bytes > 0 => parts.push((*place, bytes)),
                _ => {}
            }
        }
        parts
    }

    fn reply(&self) -> Reply {
        let (kind, id) = (self.kind, self.request);
        let mut reply = Reply { kind, status: Status::Ok, segment: 0, errno: 0, id, bytes: 0 };
        if self.cancelled {
            return Reply { status: Status::Cancelled, ..reply };
        }
        for (number, end) in self.ended.iter().enumerate() {
            let asked = self.asked.get(number).map_or(0, |(bytes, _)| u64::from(*bytes));
            let segment = number as u16;
            match end {
                Some(Ok(bytes)) if *bytes >= asked || !matches!(kind, Kind::Read | Kind::Write) => {
                    reply.bytes += bytes
                }
                Some(Ok(bytes)) => return Reply { status: Status::Short, segment, bytes: *bytes, ..reply },
                Some(Err(why)) => {
                    let errno = why.raw_os_error().unsigned_abs();
                    return Reply { status: Status::Io, segment, errno, bytes: 0, ..reply };
                }
                None => {
                    return Reply {
                        status: Status::Io,
                        segment,
                        errno: Errno::IO.raw_os_error().unsigned_abs(),
                        bytes: 0,
                        ..reply
                    };
                }
            }
        }
        reply
    }
}

impl Scratch {
    /// Puts the header before the blocks.
    fn into_message(mut self, reply: &Reply, bytes: u64) -> Outgoing {
        let start = ALIGNMENT - REPLY_HEADER;
        match Arc::get_mut(&mut self.memory) {
            Some(memory) => {
                memory.slice()[start..ALIGNMENT].copy_from_slice(&reply.header());
                Outgoing::Blocks(self.memory, start..ALIGNMENT + bytes as usize)
            }
            // An engine still holds it although it said that it is done: nothing of it can be trusted.
            None => refusal(reply.kind, reply.id, Status::NoMemory),
        }
    }
}

fn refusal(kind: Kind, id: u64, status: Status) -> Outgoing {
    Outgoing::Plain(Reply { kind, status, segment: 0, errno: 0, id, bytes: 0 }.header().to_vec())
}

fn check_ranges(request: &Request<'_>, length: u64) -> Result<(), Status> {
    for s in &request.segments {
        let end = s.offset.checked_add(u64::from(s.bytes)).ok_or(Status::OutOfRange)?;
        if s.offset > length || (request.kind != Kind::Read && end > length) {
            return Err(Status::OutOfRange);
        }
    }
    Ok(())
}

fn check_places(segments: &[Segment], area: u64) -> Result<(), Status> {
    let mut ranges: Vec<(u64, u64)> = Vec::with_capacity(segments.len());
    for s in segments {
        let end = s.place.checked_add(u64::from(s.bytes)).ok_or(Status::BadPlace)?;
        if end > area || !s.place.is_multiple_of(8) {
            return Err(Status::BadPlace);
        }
        ranges.push((s.place, end));
    }
    ranges.sort_unstable();
    match ranges.windows(2).any(|w| w[1].0 < w[0].1) {
        true => Err(Status::BadPlace),
        false => Ok(()),
    }
}
