//! The handshake, for all back ends that connect over a socket; bytes in, values out, no I/O.
//!
//! ```text
//!   frame    length of the rest (u32) │ kind (u8) │ fields            all integers little-endian
//!   bytes    length (u16) │ so many bytes
//!
//!   connecting side                                   listening side
//!   HELLO    magic (u64), version (u16), fabric (u8),
//!            role (u8), user, password, blob,
//!            regions                            ──▶   is it allowed? (the listener's Gate)
//!                                               ◀──   WELCOME  version (u16), connection (u64), incarnation (u64),
//!                                                              info, blob, regions
//!                                               or    REFUSED  code (u8), reason
//!   ATTACH   magic (u64), version (u16),
//!            connection (u64), key (u64)        ──▶   another socket of a connection that has been welcomed (tcp's agents)
//!
//!   regions  count (u16), count × { id u32, access u8, length u64, key u64, base u64 }: what the sender of the frame hands out
//! ```
//! `blob` belongs to the back end (where its rings are, its queue pair), `info` to the application. A frame is bounded before it is
//! read, every field before it is copied, and nothing may follow the last field. Versions: a listener answers a HELLO of another version
//! with REFUSED; the frame's beginning up to the version never changes.

use crate::{Access, Error, Fabric, Refusal, RefusalCode, RemoteRegion, limits};

/// `KINTSUGF`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"KINTSUGF");
/// The version that this code speaks.
pub const VERSION: u16 = 2;

const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const REFUSED: u8 = 3;
const ATTACH: u8 = 4;

/// What the connecting side wants to be.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// A client of the data store.
    Client = 1,
    /// Another server of the cluster.
    Server = 2,
    /// A client of a storage target.
    Storage = 3,
}

/// What the connecting side says first.
#[derive(Clone, PartialEq, Eq)]
pub struct Hello {
    /// The fabric that it wants.
    pub fabric: Fabric,
    /// What it wants to be.
    pub role: Role,
    /// Its user's name.
    pub user: Vec<u8>,
    /// The password. To be compared in constant time.
    pub password: Vec<u8>,
    /// The back end's own.
    pub blob: Vec<u8>,
    /// What it hands out to the listening side.
    pub regions: Vec<RemoteRegion>,
}

impl std::fmt::Debug for Hello {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let user = String::from_utf8_lossy(&self.user);
        write!(f, "Hello({} {:?} {user:?}, password not shown)", self.fabric, self.role)
    }
}

/// What an admitted connection is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The connection's number at the listening side.
    pub connection: u64,
    /// Which life of the listening process it is: another number after a restart.
    pub incarnation: u64,
    /// The application's own.
    pub info: Vec<u8>,
    /// The back end's own.
    pub blob: Vec<u8>,
    /// What may be accessed one-sidedly.
    pub regions: Vec<RemoteRegion>,
}

/// Another socket of a connection.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Attach {
    /// Which connection.
    pub connection: u64,
    /// The key that its welcome gave.
    pub key: u64,
}

/// What a listening side can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum First {
    /// A new connection.
    Hello(Hello),
    /// Another socket of one.
    Attach(Attach),
}

struct Writer(Vec<u8>);

impl Writer {
    fn new(kind: u8) -> Writer {
        Writer(vec![0, 0, 0, 0, kind])
    }
    fn bytes(&mut self, bytes: &[u8], limit: usize) -> Result<(), Error> {
        if bytes.len() > limit {
            return Err(Error::TooLarge { bytes: bytes.len() as u64, limit: limit as u64 });
        }
        self.0.extend((bytes.len() as u16).to_le_bytes());
        self.0.extend(bytes);
        Ok(())
    }
    fn regions(&mut self, regions: &[RemoteRegion], limit: usize) -> Result<(), Error> {
        if regions.len() > limit {
            return Err(Error::TooLarge { bytes: regions.len() as u64, limit: limit as u64 });
        }
        self.0.extend((regions.len() as u16).to_le_bytes());
        for region in regions {
            self.0.extend(region.id.to_le_bytes());
            self.0.push(region.access as u8);
            self.0.extend(region.length.to_le_bytes());
            self.0.extend(region.key.to_le_bytes());
            self.0.extend(region.base.to_le_bytes());
        }
        Ok(())
    }
    fn finish(mut self) -> Vec<u8> {
        let length = (self.0.len() - 4) as u32;
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        self.0
    }
}

const _: () = assert!(limits::INFO_BYTES <= u16::MAX as usize);
const REGION: usize = 29;
const HELLO_FIELDS: usize = limits::USER_BYTES + limits::PASSWORD_BYTES + limits::BLOB_BYTES;
const _: () = assert!(HELLO_FIELDS + REGION * limits::PEER_REGIONS + 64 <= limits::HELLO_BYTES);
const _: () =
    assert!(limits::INFO_BYTES + limits::BLOB_BYTES + REGION * limits::REGIONS + 64 <= limits::WELCOME_BYTES);

struct Cursor<'a>(&'a [u8]);

const SHORT: Error = Error::Protocol("a handshake frame ends too early");

impl<'a> Cursor<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (field, rest) = self.0.split_first_chunk::<N>().ok_or(SHORT)?;
        self.0 = rest;
        Ok(*field)
    }
    fn u8(&mut self) -> Result<u8, Error> {
        Ok(u8::from_le_bytes(self.take()?))
    }
    fn u16(&mut self) -> Result<u16, Error> {
        Ok(u16::from_le_bytes(self.take()?))
    }
    fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.take()?))
    }
    fn u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.take()?))
    }
    fn bytes(&mut self, limit: usize) -> Result<&'a [u8], Error> {
        let length = usize::from(self.u16()?);
        if length > limit {
            return Err(Error::Protocol("a handshake field is too long"));
        }
        let (field, rest) = self.0.split_at_checked(length).ok_or(SHORT)?;
        self.0 = rest;
        Ok(field)
    }
    fn regions(&mut self, limit: usize) -> Result<Vec<RemoteRegion>, Error> {
        let count = usize::from(self.u16()?);
        if count > limit {
            return Err(Error::Protocol("too many regions"));
        }
        let mut regions: Vec<RemoteRegion> = Vec::with_capacity(count);
        for _ in 0..count {
            let id = self.u32()?;
            let access = match self.u8()? {
                1 => Access::Read,
                3 => Access::ReadWrite,
                _ => return Err(Error::Protocol("an unknown kind of access")),
            };
            let region =
                RemoteRegion { id, access, length: self.u64()?, key: self.u64()?, base: self.u64()? };
            let sane = region.length.is_multiple_of(8) && region.length <= limits::REGION_BYTES;
            if !sane || regions.iter().any(|r| r.id == id) {
                return Err(Error::Protocol("an impossible region"));
            }
            regions.push(region);
        }
        Ok(regions)
    }
    fn end(&self) -> Result<(), Error> {
        if self.0.is_empty() { Ok(()) } else { Err(Error::Protocol("a handshake frame is too long")) }
    }
    fn magic_and_version(&mut self) -> Result<(), Error> {
        if self.u64()? != MAGIC {
            return Err(Error::Protocol("this is no Kintsugi fabric"));
        }
        let version = self.u16()?;
        if version != VERSION {
            return Err(version_refused(version));
        }
        Ok(())
    }
}

fn version_refused(version: u16) -> Error {
    let reason = format!("version {version} of the handshake; this side speaks {VERSION}");
    Error::Refused(Refusal { code: RefusalCode::Version, reason })
}

/// One frame at the beginning of what has come in: its kind, its fields, its length in all. `None`: more is needed.
fn frame(input: &[u8], limit: usize) -> Result<Option<(u8, Cursor<'_>, usize)>, Error> {
    let Some((length, rest)) = input.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 || length > limit - 4 {
        return Err(Error::Protocol("a handshake frame of impossible length"));
    }
    match rest.get(..length) {
        Some([kind, fields @ ..]) => Ok(Some((*kind, Cursor(fields), 4 + length))),
        _ => Ok(None),
    }
}

impl Hello {
    /// The frame.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for a field beyond its limit.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let mut out = Writer::new(HELLO);
        out.0.extend(MAGIC.to_le_bytes());
        out.0.extend(VERSION.to_le_bytes());
        out.0.extend([self.fabric as u8, self.role as u8]);
        out.bytes(&self.user, limits::USER_BYTES)?;
        out.bytes(&self.password, limits::PASSWORD_BYTES)?;
        out.bytes(&self.blob, limits::BLOB_BYTES)?;
        out.regions(&self.regions, limits::PEER_REGIONS)?;
        Ok(out.finish())
    }
}

impl Attach {
    /// The frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new(ATTACH);
        out.0.extend(MAGIC.to_le_bytes());
        out.0.extend(VERSION.to_le_bytes());
        out.0.extend(self.connection.to_le_bytes());
        out.0.extend(self.key.to_le_bytes());
        out.finish()
    }
}

impl First {
    /// What a new socket says, and how many bytes that took; `None` if more are needed.
    ///
    /// # Errors
    /// [`Error::Protocol`]; [`Error::Refused`] for another version.
    pub fn decode(input: &[u8]) -> Result<Option<(First, usize)>, Error> {
        let Some((kind, mut fields, used)) = frame(input, limits::HELLO_BYTES)? else { return Ok(None) };
        let first = match kind {
            HELLO => {
                fields.magic_and_version()?;
                let fabric = Fabric::from_number(fields.u8()?).ok_or(Error::Protocol("an unknown fabric"))?;
                let role = match fields.u8()? {
                    1 => Role::Client,
                    2 => Role::Server,
                    3 => Role::Storage,
                    _ => return Err(Error::Protocol("an unknown role")),
                };
                First::Hello(Hello {
                    fabric,
                    role,
                    user: fields.bytes(limits::USER_BYTES)?.to_vec(),
                    password: fields.bytes(limits::PASSWORD_BYTES)?.to_vec(),
                    blob: fields.bytes(limits::BLOB_BYTES)?.to_vec(),
                    regions: fields.regions(limits::PEER_REGIONS)?,
                })
            }
            ATTACH => {
                fields.magic_and_version()?;
                First::Attach(Attach { connection: fields.u64()?, key: fields.u64()? })
            }
            _ => return Err(Error::Protocol("an unknown handshake frame")),
        };
        fields.end()?;
        Ok(Some((first, used)))
    }
}

impl Welcome {
    /// The frame.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for a field beyond its limit.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let mut out = Writer::new(WELCOME);
        out.0.extend(VERSION.to_le_bytes());
        out.0.extend(self.connection.to_le_bytes());
        out.0.extend(self.incarnation.to_le_bytes());
        out.bytes(&self.info, limits::INFO_BYTES)?;
        out.bytes(&self.blob, limits::BLOB_BYTES)?;
        out.regions(&self.regions, limits::REGIONS)?;
        Ok(out.finish())
    }

    /// The answer to a HELLO, and how many bytes that took; `None` if more are needed.
    ///
    /// # Errors
    /// [`Error::Refused`]; [`Error::Protocol`].
    pub fn decode(input: &[u8]) -> Result<Option<(Welcome, usize)>, Error> {
        let Some((kind, mut fields, used)) = frame(input, limits::WELCOME_BYTES)? else { return Ok(None) };
        if kind == REFUSED {
            let code = RefusalCode::from_number(fields.u8()?).ok_or(Error::Protocol("an unknown refusal"))?;
            let reason = String::from_utf8_lossy(fields.bytes(limits::REASON_BYTES)?).into_owned();
            fields.end()?;
            return Err(Error::Refused(Refusal { code, reason }));
        }
        if kind != WELCOME {
            return Err(Error::Protocol("an unknown answer to a greeting"));
        }
        let version = fields.u16()?;
        if version != VERSION {
            return Err(Error::Protocol("welcomed in another version"));
        }
        let welcome = Welcome {
            connection: fields.u64()?,
            incarnation: fields.u64()?,
            info: fields.bytes(limits::INFO_BYTES)?.to_vec(),
            blob: fields.bytes(limits::BLOB_BYTES)?.to_vec(),
            regions: fields.regions(limits::REGIONS)?,
        };
        fields.end()?;
        Ok(Some((welcome, used)))
    }
}

impl Refusal {
    /// The frame. A long reason is cut.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new(REFUSED);
        out.0.push(self.code as u8);
        let mut end = self.reason.len().min(limits::REASON_BYTES);
        while !self.reason.is_char_boundary(end) {
            end -= 1;
        }
        // Cut to the limit above, so it fits.
        let _ = out.bytes(&self.reason.as_bytes()[..end], limits::REASON_BYTES);
        out.finish()
    }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
