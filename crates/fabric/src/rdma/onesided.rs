//! The connection of the fabric `rdma`.

use super::messages::Messages;
use super::rings::Rings;
use crate::ibv::{Piece, Registered, Remote, Rights, Work};
use crate::local::Local;
use crate::{
    Access, Buffer, Capabilities, Completion, Connection, Error, OneSided, RemoteRegion, Span, Written,
    limits,
};
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// What a buffer's last operations may take before the connection is given up: more than all retries.
const DRAIN: Duration = Duration::from_secs(10);
pub(super) struct Rdma {
    rings: Rings,
    messages: Messages,
    regions: Vec<RemoteRegion>,
    /// What the peer may access: registered as long as the connection lives.
    _exports: Vec<Registered>,
    local: Local,
    buffers: HashMap<u64, Registered>,
    max_transfer: u64,
}

impl Rdma {
    pub fn new(rings: Rings, regions: Vec<RemoteRegion>, exports: Vec<Registered>) -> Rdma {
        let max_transfer = (rings.link.domain.device().max_message() & !7).min(limits::TRANSFER_BYTES);
        Rdma {
            rings,
            messages: Messages::default(),
            regions,
            _exports: exports,
            local: Local::default(),
            buffers: HashMap::new(),
            max_transfer,
        }
    }

    fn post(
        &mut self,
        region: u32,
        offset: u64,
        span: Span,
        access: Access,
        token: u64,
    ) -> Result<(), Error> {
        if self.rings.link.may_post().is_err() {
            self.rings.progress()?;
        }
        self.rings.link.may_post()?;
        let (at, _) = self.local.check(&self.regions, region, offset, span, access)?;
        if span.bytes > self.max_transfer {
            return Err(Error::TooLarge { bytes: span.bytes, limit: self.max_transfer });
        }
        let memory = self.buffers.get(&span.buffer).ok_or(Error::NoSuchBuffer(span.buffer))?;
        let piece = Piece { memory, offset: span.offset, bytes: span.bytes as u32 };
        let region = &self.regions[at];
        let remote = Remote { address: region.base.wrapping_add(offset), key: region.key as u32 };
        let work = match access {
            Access::Read => Work::Read(piece, remote),
            Access::ReadWrite => Work::Write(piece, remote),
        };
        self.rings.link.post_one_sided(work, token, span.buffer)
    }

    fn progress(&mut self) -> Result<(), Error> {
        self.rings.progress()?;
        if !self.rings.link.dead {
            self.messages.push_backlog(&mut self.rings)?;
        }
        Ok(())
    }
}

impl Connection for Rdma {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            fabric: self.rings.link.fabric,
            one_sided: OneSided::Truly,
            direct: false,
            atomicity_bytes: 8,
            completes_in_order: true,
            messages_follow_writes: true,
            written: Written::Accepted,
            max_message_bytes: limits::MESSAGE_BYTES,
            max_outstanding: limits::OUTSTANDING,
            max_transfer_bytes: self.max_transfer,
        }
    }

    fn regions(&self) -> &[RemoteRegion] {
        &self.regions
    }

    fn register(&mut self, bytes: usize) -> Result<Buffer, Error> {
        let buffer = self.local.register(bytes)?;
        let registered = Registered::new(&self.rings.link.domain, buffer.memory(), Rights::Local);
        match registered {
            Ok(registered) => {
                self.buffers.insert(buffer.id(), registered);
                Ok(buffer)
            }
            Err(error) => {
                self.local.deregister(&buffer)?;
                Err(error.on(self.rings.link.fabric))
            }
        }
    }

    fn deregister(&mut self, buffer: &Buffer) -> Result<(), Error> {
        self.local.deregister(buffer)?;
        // Taking the memory from under the adapter would end the connection; what is under way ends soon, whatever the peer does.
        self.rings.link.cancel(buffer.id());
        let end = Instant::now() + DRAIN;
        while self.rings.link.uses(buffer.id()) {
            self.rings.progress()?;
            if Instant::now() > end {
                self.rings.link.die();
                break;
            }
            std::thread::yield_now();
        }
        self.buffers.remove(&buffer.id());
        Ok(())
    }

    fn read(&mut self, region: u32, offset: u64, into: Span, token: u64) -> Result<(), Error> {
        self.post(region, offset, into, Access::Read, token)
    }

    fn write(&mut self, from: Span, region: u32, offset: u64, token: u64) -> Result<(), Error> {
        self.post(region, offset, from, Access::ReadWrite, token)
    }

    fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        if self.rings.link.dead {
            return Err(Error::PeerDead);
        }
        let sent = self.messages.send(&mut self.rings, message);
        if matches!(sent, Err(Error::Full)) {
            self.rings.link.fruitless()?;
        }
        sent
    }

    fn receive(&mut self, into: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        self.rings.link.disarm()?;
        if let Some(bytes) = self.messages.receive(&mut self.rings, into)? {
            return Ok(Some(bytes));
        }
        self.progress()?;
        if !self.rings.link.dead {
            self.rings.link.fruitless()?;
            if !self.rings.link.dead {
                return Ok(None);
            }
        }
        // What came in before the end.
        self.messages.receive(&mut self.rings, into)?.map_or(Err(Error::PeerDead), |bytes| Ok(Some(bytes)))
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) -> Result<usize, Error> {
        self.rings.link.disarm()?;
        self.progress()?;
        let link = &mut self.rings.link;
        if link.done.is_empty() {
            if link.dead && link.quiet() {
                return Err(Error::PeerDead);
            }
            link.fruitless()?;
            return Ok(0);
        }
        let count = link.done.len();
        completions.extend(link.done.drain(..));
        Ok(count)
    }

    fn arm(&mut self) -> Result<bool, Error> {
        self.rings.link.disarm()?;
        let for_room = self.rings.needs_room() || self.messages.has_backlog();
        self.rings.link.arm(for_room)?;
        self.progress()?;
        let sleep = !self.rings.link.dead && self.rings.link.done.is_empty() && !self.rings.has_news();
        if !sleep {
            self.rings.link.disarm()?;
        }
        Ok(sleep)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.rings.link.fd())
    }
}

impl Drop for Rdma {
    fn drop(&mut self) {
        let _ = self.progress();
        super::link::linger(&mut self.rings.link, |link| link.progress());
    }
}
