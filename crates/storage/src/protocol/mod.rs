//! The request protocol: what a client and a target say to each other, as bytes. No I/O, no clock; total on garbage.
//!
//! ```text
//!   request    0     1      2        4         8          16            24 bytes a segment
//!          ┌──────┬───────┬────────┬─────────┬─────────┬──────────────────────────────────────┬╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┐
//!          │ kind │ flags │ count  │ volume  │ id      │ offset u64 │ bytes u32 │ 0 │ place u64│ inline: the blocks│
//!          └──────┴───────┴────────┴─────────┴─────────┴──────────────────────────────────────┴╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┘
//!   reply  ┌──────┬───────┬────────┬─────────┬─────────┬──────────┬╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┐
//!          │ kind │ status│ segment│ errno   │ id      │ bytes u64│ the blocks, or a volume │
//!          └──────┴───────┴────────┴─────────┴─────────┴──────────┴╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┘
//! ```
//! All numbers are little-endian. One message of the fabric is one request or one reply; every request has exactly one reply, in any
//! order, a cancelled one too. `place` is where in the connection's data area a segment's block goes or comes from; without a data
//! area (flag 1, *inline*) blocks travel behind the header in the order of the segments.
//!
//! A reply of status *ok* means all segments, whole. Otherwise it names the first segment that failed and how many bytes of it are
//! good; those before it are whole, those after it undefined. (remote-io-2020, figure 4: address out, block back.)

mod describe;

pub use describe::{INFO, Info, Listed, VERSION, VOLUME, VolumeInfo};

use crate::limits;

/// Bytes before the segments of a request.
pub const REQUEST_HEADER: usize = 16;
/// Bytes of a segment.
pub const SEGMENT: usize = 24;
/// Bytes of a reply before what follows it.
pub const REPLY_HEADER: usize = 24;
/// The number of the data area in the fabric's region table.
pub const AREA_REGION: u32 = 1;

const INLINE: u8 = 1;

/// Kinds of requests.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Opens a volume by its name, which follows the header.
    Open = 1,
    /// Reads.
    Read = 2,
    /// Writes.
    Write = 3,
    /// Brings what was written to the medium.
    Flush = 4,
    /// Says that a range holds nothing of value.
    Trim = 5,
    /// Says that the reply of an earlier request (whose id it carries as its only segment's offset) is not waited for.
    Cancel = 6,
    /// Asks which volumes this user may open; the reply carries a [`Listed`] for each.
    List = 7,
}

impl Kind {
    fn from_number(number: u8) -> Option<Kind> {
        [Kind::Open, Kind::Read, Kind::Write, Kind::Flush, Kind::Trim, Kind::Cancel, Kind::List]
            .into_iter()
            .find(|k| *k as u8 == number)
    }
}

/// How a request ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub enum Status {
    /// All of it was done.
    #[error("done")]
    Ok = 0,
    /// The volume or its file ended before the segment did.
    #[error("the volume ends before the range does")]
    Short = 1,
    /// The disk failed; the number is the target's errno.
    #[error("the target's disk failed")]
    Io = 2,
    /// No such volume for this user.
    #[error("no such volume")]
    NoSuchVolume = 3,
    /// The volume is read-only for this user.
    #[error("the volume is read-only")]
    ReadOnly = 4,
    /// Outside the volume.
    #[error("the range is outside the volume")]
    OutOfRange = 5,
    /// A place outside the data area, not aligned to 8, or overlapping another one.
    #[error("the place is outside the data area, unaligned, or used twice")]
    BadPlace = 6,
    /// More bytes, segments or requests at once than the target allows.
    #[error("more than the target allows")]
    TooMuch = 7,
    /// It made no sense.
    #[error("the request made no sense to the target")]
    Malformed = 8,
    /// It was cancelled before it was done.
    #[error("cancelled")]
    Cancelled = 9,
    /// The target has no memory for it now.
    #[error("the target has no memory for it")]
    NoMemory = 10,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 11] = [
        Status::Ok,
        Status::Short,
        Status::Io,
        Status::NoSuchVolume,
        Status::ReadOnly,
        Status::OutOfRange,
        Status::BadPlace,
        Status::TooMuch,
        Status::Malformed,
        Status::Cancelled,
        Status::NoMemory,
    ];
}

/// A range of a volume, and where its block goes or comes from.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The first byte of the volume.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u32,
    /// Where in the data area; 0 if inline.
    pub place: u64,
}

/// A request, as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What to do.
    pub kind: Kind,
    /// Whether blocks travel in messages.
    pub inline: bool,
    /// The volume's handle.
    pub volume: u32,
    /// The client's name for it.
    pub id: u64,
    /// The ranges.
    pub segments: Vec<Segment>,
    /// A volume's name, or the blocks of an inline write.
    pub rest: &'a [u8],
}

/// Why a message is not one of this protocol.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Too short even for its header. No reply can be addressed.
    #[error("a message of the storage protocol is too short")]
    Header,
    /// The header is there, the rest makes no sense. It has an id, to be answered with the status.
    #[error("a request that makes no sense")]
    Request(u64, Status),
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

impl<'a> Request<'a> {
    /// Parses one message.
    ///
    /// # Errors
    /// [`Malformed`]; nothing is allocated for it.
    pub fn parse(bytes: &'a [u8]) -> Result<Request<'a>, Malformed> {
        let (Some(id), Some(count), Some(volume)) = (u64_at(bytes, 8), u16_at(bytes, 2), u32_at(bytes, 4))
        else {
            return Err(Malformed::Header);
        };
        let wrong = |status| Err(Malformed::Request(id, status));
        let Some(kind) = Kind::from_number(bytes[0]) else { return wrong(Status::Malformed) };
        if bytes[1] & !INLINE != 0 {
            return wrong(Status::Malformed);
        }
        let inline = bytes[1] & INLINE != 0;
        let count = usize::from(count);
        if count > limits::SEGMENTS {
            return wrong(Status::TooMuch);
        }
        let allowed = match kind {
            Kind::Open | Kind::Flush | Kind::List => count == 0,
            Kind::Cancel | Kind::Trim => count == 1,
            Kind::Read | Kind::Write => count >= 1,
        };
        let table = bytes.get(REQUEST_HEADER..REQUEST_HEADER + count * SEGMENT);
        let (true, Some(table)) = (allowed, table) else { return wrong(Status::Malformed) };
        let rest = &bytes[REQUEST_HEADER + count * SEGMENT..];
        let mut segments = Vec::with_capacity(count);
        let mut total = 0u64;
        for entry in table.chunks_exact(SEGMENT) {
            let (Some(offset), Some(bytes), Some(0), Some(place)) =
                (u64_at(entry, 0), u32_at(entry, 8), u32_at(entry, 12), u64_at(entry, 16))
            else {
                return wrong(Status::Malformed);
            };
            if inline && place != 0 {
                return wrong(Status::Malformed);
            }
            total += u64::from(bytes);
            segments.push(Segment { offset, bytes, place });
        }
        let transfer = matches!(kind, Kind::Read | Kind::Write);
        if transfer && total > limits::REQUEST_BYTES {
            return wrong(Status::TooMuch);
        }
        let expected = match kind {
            Kind::Open if rest.is_empty() || rest.len() > limits::NAME_BYTES => {
                return wrong(Status::Malformed);
            }
            Kind::Open => rest.len() as u64,
            Kind::Write if inline => total,
            _ => 0,
        };
        if rest.len() as u64 != expected {
            return wrong(Status::Malformed);
        }
        Ok(Request { kind, inline, volume, id, segments, rest })
    }

    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode(out, self.kind, self.inline, self.volume, self.id, &self.segments);
        out.extend_from_slice(self.rest);
    }
}

/// Appends the header and the segments of a request; the rest is to follow.
pub fn encode(out: &mut Vec<u8>, kind: Kind, inline: bool, volume: u32, id: u64, segments: &[Segment]) {
    out.extend_from_slice(&[kind as u8, if inline { INLINE } else { 0 }]);
    out.extend_from_slice(&(segments.len() as u16).to_le_bytes());
    out.extend_from_slice(&volume.to_le_bytes());
    out.extend_from_slice(&id.to_le_bytes());
    for s in segments {
        out.extend_from_slice(&s.offset.to_le_bytes());
        out.extend_from_slice(&s.bytes.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&s.place.to_le_bytes());
    }
}

/// The fixed part of a reply.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The request's.
    pub kind: Kind,
    /// How it ended.
    pub status: Status,
    /// The segment that failed.
    pub segment: u16,
    /// The target's errno, or 0.
    pub errno: u32,
    /// The request's.
    pub id: u64,
    /// All bytes moved if ok; else those of the segment that failed that are good.
    pub bytes: u64,
}

impl Reply {
    /// Its bytes.
    pub fn header(&self) -> [u8; REPLY_HEADER] {
        let mut out = [0; REPLY_HEADER];
        out[0] = self.kind as u8 | 0x80;
        out[1] = self.status as u8;
        out[2..4].copy_from_slice(&self.segment.to_le_bytes());
        out[4..8].copy_from_slice(&self.errno.to_le_bytes());
        out[8..16].copy_from_slice(&self.id.to_le_bytes());
        out[16..].copy_from_slice(&self.bytes.to_le_bytes());
        out
    }

    /// Parses a message into the fixed part and what follows.
    ///
    /// # Errors
    /// [`Malformed::Header`].
    pub fn parse(bytes: &[u8]) -> Result<(Reply, &[u8]), Malformed> {
        let parse = || {
            let kind = Kind::from_number(bytes.first()? ^ 0x80)?;
            let status = *Status::ALL.get(usize::from(*bytes.get(1)?))?;
            let (segment, errno) = (u16_at(bytes, 2)?, u32_at(bytes, 4)?);
            let reply =
                Reply { kind, status, segment, errno, id: u64_at(bytes, 8)?, bytes: u64_at(bytes, 16)? };
            Some((reply, &bytes[REPLY_HEADER..]))
        };
        parse().ok_or(Malformed::Header)
    }
}

#[cfg(test)]
mod tests;
