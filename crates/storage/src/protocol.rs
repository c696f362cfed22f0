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

use crate::limits;

/// Bytes before the segments of a request.
pub const REQUEST_HEADER: usize = 16;
/// Bytes of a segment.
pub const SEGMENT: usize = 24;
/// Bytes of a reply before what follows it.
pub const REPLY_HEADER: usize = 24;
/// Bytes of a volume's description.
pub const VOLUME: usize = 16;
/// What a target says in its welcome.
pub const INFO: usize = 32;
/// The protocol's version, in the welcome.
pub const VERSION: u32 = 1;
/// The number of the data area in the fabric's region table.
pub const AREA_REGION: u32 = 1;

const INLINE: u8 = 1;
const WRITABLE: u32 = 1;

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

/// What the reply of an open says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    /// The volume's handle on this connection.
    pub handle: u32,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether this user may write it.
    pub writable: bool,
}

impl VolumeInfo {
    /// Its bytes.
    pub fn encode(&self) -> [u8; VOLUME] {
        let mut out = [0; VOLUME];
        out[..4].copy_from_slice(&self.handle.to_le_bytes());
        out[4..8].copy_from_slice(&(if self.writable { WRITABLE } else { 0 }).to_le_bytes());
        out[8..].copy_from_slice(&self.bytes.to_le_bytes());
        out
    }

    /// `None` if it is something else.
    pub fn parse(bytes: &[u8]) -> Option<VolumeInfo> {
        let flags = u32_at(bytes, 4)?;
        (bytes.len() == VOLUME && flags <= WRITABLE).then_some(())?;
        Some(VolumeInfo { handle: u32_at(bytes, 0)?, bytes: u64_at(bytes, 8)?, writable: flags == WRITABLE })
    }
}

/// A volume as a list names it.
///
/// ```text
///   bytes u64 │ flags u32 │ length of the name u16 │ the name, UTF-8
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether this user may write it.
    pub writable: bool,
}

impl Listed {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&(if self.writable { WRITABLE } else { 0 }).to_le_bytes());
        out.extend_from_slice(&(self.name.len() as u16).to_le_bytes());
        out.extend_from_slice(self.name.as_bytes());
    }

    /// All that a reply lists. `None` if it is something else.
    pub fn parse(mut bytes: &[u8]) -> Option<Vec<Listed>> {
        let mut list = Vec::new();
        while !bytes.is_empty() {
            let (length, flags) = (usize::from(u16_at(bytes, 12)?), u32_at(bytes, 8)?);
            let name = std::str::from_utf8(bytes.get(14..14 + length)?).ok()?;
            ((1..=limits::NAME_BYTES).contains(&length) && flags <= WRITABLE).then_some(())?;
            list.push(Listed {
                name: name.to_owned(),
                bytes: u64_at(bytes, 0)?,
                writable: flags == WRITABLE,
            });
            bytes = &bytes[14 + length..];
        }
        Some(list)
    }
}

/// What a target says of itself when a connection is made.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Bytes of the connection's data area; 0: blocks travel inline.
    pub area_bytes: u64,
    /// Bytes of one request.
    pub request_bytes: u64,
    /// Requests under way.
    pub outstanding: u32,
    /// Segments of one request.
    pub segments: u32,
}

impl Info {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(INFO);
        out.extend_from_slice(b"KIO\0");
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.area_bytes.to_le_bytes());
        out.extend_from_slice(&self.request_bytes.to_le_bytes());
        out.extend_from_slice(&self.outstanding.to_le_bytes());
        out.extend_from_slice(&self.segments.to_le_bytes());
        out
    }

    /// `None`: the other side is no target of this version.
    pub fn parse(bytes: &[u8]) -> Option<Info> {
        let known = bytes.len() == INFO && &bytes[..4] == b"KIO\0" && u32_at(bytes, 4) == Some(VERSION);
        known.then_some(())?;
        Some(Info {
            area_bytes: u64_at(bytes, 8)?,
            request_bytes: u64_at(bytes, 16)?,
            outstanding: u32_at(bytes, 24)?,
            segments: u32_at(bytes, 28)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request() -> impl Strategy<Value = (Kind, bool, u32, u64, Vec<Segment>, Vec<u8>)> {
        let kinds = [Kind::Open, Kind::Read, Kind::Write, Kind::Flush, Kind::Trim, Kind::Cancel, Kind::List];
        let segment = (any::<u64>(), 0u32..5000, any::<u64>());
        (0usize..7, any::<bool>(), any::<u32>(), any::<u64>(), proptest::collection::vec(segment, 1..20))
            .prop_map(move |(kind, inline, volume, id, list)| {
                let kind = kinds[kind];
                let mut segments: Vec<Segment> = list
                    .into_iter()
                    .map(|(offset, bytes, place)| Segment {
                        offset,
                        bytes,
                        place: if inline { 0 } else { place },
                    })
                    .collect();
                let rest = match kind {
                    Kind::Open => b"name".to_vec(),
                    Kind::Write if inline => vec![7; segments.iter().map(|s| s.bytes as usize).sum()],
                    _ => Vec::new(),
                };
                match kind {
                    Kind::Open | Kind::Flush | Kind::List => segments.clear(),
                    Kind::Cancel | Kind::Trim => segments.truncate(1),
                    Kind::Read | Kind::Write => {}
                }
                (kind, inline, volume, id, segments, rest)
            })
    }

    proptest! {
        #[test]
        fn lists_survive_and_any_beginning_of_one_is_no_list_or_a_shorter_one(
            list in proptest::collection::vec(("[a-zé/]{1,20}", any::<u64>(), any::<bool>()), 0..5), cut in 0usize..200,
        ) {
            let list: Vec<Listed> =
                list.into_iter().map(|(name, bytes, writable)| Listed { name, bytes, writable }).collect();
            let mut bytes = Vec::new();
            list.iter().for_each(|one| one.encode(&mut bytes));
            prop_assert_eq!(Listed::parse(&bytes), Some(list.clone()));
            let part = Listed::parse(&bytes[..cut.min(bytes.len())]);
            prop_assert!(part.is_none_or(|part| list.starts_with(&part)));
        }

        #[test]
        fn requests_survive_the_way_to_bytes_and_back((kind, inline, volume, id, segments, rest) in request()) {
            let request = Request { kind, inline, volume, id, segments, rest: &rest };
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            prop_assert_eq!(Request::parse(&bytes), Ok(request));
            // One byte less or more is another message.
            if !rest.is_empty() || kind != Kind::Open {
                bytes.push(0);
                prop_assert!(Request::parse(&bytes).is_err() || kind == Kind::Open);
            }
        }

        #[test]
        fn garbage_is_an_error_and_nothing_else(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0u8..8) {
            let _ = (Reply::parse(&bytes), VolumeInfo::parse(&bytes), Info::parse(&bytes), Request::parse(&bytes));
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            if let Ok(request) = Request::parse(&bytes) {
                let mut again = Vec::new();
                request.encode(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }

    #[test]
    fn replies_survive_too() {
        for status in Status::ALL {
            let reply = Reply { kind: Kind::Read, status, segment: 3, errno: 5, id: u64::MAX, bytes: 9 };
            let mut bytes = reply.header().to_vec();
            bytes.push(1);
            assert_eq!(Reply::parse(&bytes), Ok((reply, &[1u8][..])));
        }
        let volume = VolumeInfo { handle: 3, bytes: 1 << 40, writable: true };
        assert_eq!(VolumeInfo::parse(&volume.encode()), Some(volume));
        let info = Info { area_bytes: 1, request_bytes: 2, outstanding: 3, segments: 4 };
        assert_eq!(Info::parse(&info.encode()), Some(info));
    }

    #[test]
    fn a_huge_request_is_refused_by_its_header() {
        let mut bytes = Vec::new();
        let half = Segment { offset: 0, bytes: u32::MAX, place: 0 };
        encode(&mut bytes, Kind::Read, true, 0, 7, &[half, half]);
        assert_eq!(Request::parse(&bytes), Err(Malformed::Request(7, Status::TooMuch)));
    }
}
