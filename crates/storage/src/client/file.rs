//! A volume as a file.

use super::error::IoError;
use super::remote::Remote;
use super::request::{Request, Work};
use crate::protocol::{Status, VolumeInfo};
use std::collections::VecDeque;
use std::sync::Arc;

/// A volume of a target.
#[derive(Clone)]
pub struct RemoteFile {
    pub(super) remote: Arc<Remote>,
    pub(super) volume: Arc<str>,
    pub(super) info: VolumeInfo,
}

/// Bytes of the pieces that large reads and writes are cut into: many small ones are under way together.
const PIECE: usize = 256 << 10;

impl RemoteFile {
    /// The volume's length in bytes when it was opened.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.info.bytes
    }

    /// Whether it may be written.
    pub fn writable(&self) -> bool {
        self.info.writable
    }

    /// The volume's name.
    pub fn name(&self) -> &str {
        &self.volume
    }

    /// Begins to read; at most [`crate::limits::REQUEST_BYTES`]. The block is shorter only at the volume's end.
    pub fn read(&self, offset: u64, bytes: u32) -> Request {
        self.read_ranges(vec![(offset, bytes)])
    }

    /// Begins to read many ranges (offset, bytes) with one request. All of them must be within the volume, except that the last one
    /// may be cut by its end.
    pub fn read_ranges(&self, ranges: Vec<(u64, u32)>) -> Request {
        self.remote.begin(&self.volume, Work::Read(ranges))
    }

    /// Reads as many bytes as there are, up to the buffer's length.
    ///
    /// # Errors
    /// [`IoError`]; the buffer's content is then undefined.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, IoError> {
        let mut requests = VecDeque::new();
        let mut begun = 0;
        let mut count = 0;
        while count < into.len() {
            while begun < into.len() && requests.len() < 16 {
                let length = PIECE.min(into.len() - begun);
                requests.push_back((self.read(offset + begun as u64, length as u32), length));
                begun += length;
            }
            let Some((request, length)) = requests.pop_front() else { break };
            let block = request.wait()?;
            if !block.copy_to(0, &mut into[count..][..block.len().min(length)]) {
                return Err(IoError::Protocol("a block shorter than itself"));
            }
            count += block.len();
            if block.len() < length {
                break;
            }
        }
        Ok(count)
    }

    /// Fills the buffer.
    ///
    /// # Errors
    /// [`IoError`]; the volume's end is one.
    pub fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        if self.read_at(offset, into)? == into.len() {
            return Ok(());
        }
        Err(IoError::Target { status: Status::Short, errno: 0, segment: 0 })
    }

    /// Begins to write; at most [`crate::limits::REQUEST_BYTES`].
    pub fn write(&self, offset: u64, bytes: Vec<u8>) -> Request {
        self.remote.begin(&self.volume, Work::Write(offset, bytes))
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// [`IoError`]; parts of it may have been written.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        let mut requests = VecDeque::new();
        let mut at = offset;
        for piece in bytes.chunks(PIECE) {
            if requests.len() == 16
                && let Some(request) = requests.pop_front()
            {
                Request::wait(request)?;
            }
            requests.push_back(self.write(at, piece.to_vec()));
            at += piece.len() as u64;
        }
        requests.into_iter().try_for_each(|r| r.wait().map(drop))
    }

    /// Begins to bring to the medium what was written.
    pub fn flush(&self) -> Request {
        self.remote.begin(&self.volume, Work::Flush)
    }

    /// Begins to say that a range holds nothing of value.
    pub fn trim(&self, offset: u64, bytes: u32) -> Request {
        self.remote.begin(&self.volume, Work::Trim(offset, bytes))
    }
}
