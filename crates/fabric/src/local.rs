//! The local buffers of a connection.

use crate::{Access, Buffer, Error, Mapping, RemoteRegion, Span, limits, memory};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Registered buffers, by their numbers. Numbers are not used twice.
#[derive(Default)]
pub(crate) struct Local {
    buffers: Vec<Buffer>,
    last: u64,
}

impl Local {
    pub fn register(&mut self, bytes: usize) -> Result<Buffer, Error> {
        if bytes > limits::BUFFER_BYTES {
            return Err(Error::TooLarge { bytes: bytes as u64, limit: limits::BUFFER_BYTES as u64 });
        }
        self.last += 1;
        let buffer = Buffer::new(self.last, Arc::new(Mapping::buffer(bytes as u64)?));
        self.buffers.push(buffer.clone());
        Ok(buffer)
    }

    pub fn deregister(&mut self, buffer: &Buffer) -> Result<Buffer, Error> {
        let at = self
            .buffers
            .iter()
            .position(|b| b.id() == buffer.id() && Arc::ptr_eq(b.memory(), buffer.memory()));
        Ok(self.buffers.swap_remove(at.ok_or(Error::NoSuchBuffer(buffer.id()))?))
    }

    pub fn buffer(&self, id: u64) -> Result<&Buffer, Error> {
        self.buffers.iter().find(|b| b.id() == id).ok_or(Error::NoSuchBuffer(id))
    }

    /// What every back end checks before it posts: which of the regions, and the words of the span.
    ///
    /// # Errors
    /// Everything that the region table and the buffers show to be impossible.
    pub fn check(
        &self,
        regions: &[RemoteRegion],
        region: u32,
        offset: u64,
        span: Span,
        access: Access,
    ) -> Result<(usize, &[AtomicU64]), Error> {
        let at = regions.iter().position(|r| r.id == region).ok_or(Error::NoSuchRegion(region))?;
        if access == Access::ReadWrite && regions[at].access != Access::ReadWrite {
            return Err(Error::Denied { region, granted: regions[at].access });
        }
        if span.bytes > limits::TRANSFER_BYTES {
            return Err(Error::TooLarge { bytes: span.bytes, limit: limits::TRANSFER_BYTES });
        }
        memory::check(offset, span.bytes, regions[at].length)?;
        Ok((at, self.buffer(span.buffer)?.memory().range(span.offset, span.bytes)?))
    }
}
