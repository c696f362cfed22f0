//! What a target says of itself and of its volumes.

use super::{u16_at, u32_at, u64_at};
use crate::limits;

/// Bytes of a volume's description.
pub const VOLUME: usize = 16;
/// Bytes of what a target says in its welcome.
pub const INFO: usize = 32;
/// The protocol's version, in the welcome.
pub const VERSION: u32 = 1;

const WRITABLE: u32 = 1;

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
