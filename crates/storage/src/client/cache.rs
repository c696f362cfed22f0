//! A block cache with read-ahead before a [`RemoteFile`].
//!
//! The papers' remote side had no cache, and paid for it when a query's reads were replayed (remote-io-and-queries-2021, section 4.4: reads
//! of one page again and again went over the wire each time). Blocks are kept by [`quick_cache`] (S3-FIFO), and one that several threads
//! miss is fetched once. Whoever reads block after block finds the next ones under way: the window doubles with each step, up to a limit.
//!
//! The cache is this process's own: what others write to the volume is not seen in blocks that are cached. Writes through the same
//! [`CachedFile`] are.

use super::error::IoError;
use super::file::RemoteFile;
use super::request::Request;
use quick_cache::sync::{Cache, GuardResult};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How much to cache.
#[derive(Copy, Clone, Debug)]
pub struct CacheOptions {
    /// Bytes of all blocks.
    pub bytes: u64,
    /// Bytes of a block; a power of two of at least 512.
    pub block: u32,
    /// Blocks that are fetched ahead, at most. 0: none.
    pub ahead: u32,
}

impl Default for CacheOptions {
    fn default() -> Self {
        CacheOptions { bytes: 64 << 20, block: 64 << 10, ahead: 16 }
    }
}

#[derive(Default)]
struct Ahead {
    last: u64,
    window: u64,
    /// Under way.
    requests: HashMap<u64, Request>,
}

/// What the cache has done.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheStatistics {
    /// Blocks that were there.
    pub hits: u64,
    /// Blocks that were under way when they were wanted.
    pub ahead: u64,
    /// Blocks that had to be asked for.
    pub misses: u64,
}

/// A remote file with a cache.
pub struct CachedFile {
    file: RemoteFile,
    options: CacheOptions,
    blocks: Cache<u64, Arc<[u8]>>,
    ahead: Mutex<Ahead>,
    hits: AtomicU64,
    misses: AtomicU64,
    foreseen: AtomicU64,
}

impl CachedFile {
    /// Puts a cache before a file.
    pub fn new(file: RemoteFile, mut options: CacheOptions) -> CachedFile {
        options.block = options.block.next_power_of_two().clamp(512, 1 << 20);
        let blocks = Cache::new((options.bytes / u64::from(options.block)).max(1) as usize);
        CachedFile {
            file,
            options,
            blocks,
            ahead: Mutex::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            foreseen: AtomicU64::new(0),
        }
    }

    /// The file behind it.
    pub fn file(&self) -> &RemoteFile {
        &self.file
    }

    /// What it has done so far.
    pub fn statistics(&self) -> CacheStatistics {
        CacheStatistics {
            hits: self.hits.load(Ordering::Relaxed),
            ahead: self.foreseen.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }

    /// Reads as many bytes as there are, up to the buffer's length.
    ///
    /// # Errors
    /// [`IoError`].
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, IoError> {
        let size = u64::from(self.options.block);
        let mut count = 0;
        while count < into.len() {
            let at = offset + count as u64;
            if at >= self.file.len() {
                break;
            }
            let block = self.block(at / size)?;
            let skip = (at % size) as usize;
            let length = block.len().saturating_sub(skip).min(into.len() - count);
            if length == 0 {
                break;
            }
            into[count..count + length].copy_from_slice(&block[skip..skip + length]);
            count += length;
        }
        Ok(count)
    }

    /// Writes, and forgets the blocks that it touches.
    ///
    /// # Errors
    /// [`IoError`].
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        let written = self.file.write_at(offset, bytes);
        let size = u64::from(self.options.block);
        let last = (offset + bytes.len() as u64).div_ceil(size);
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        for number in offset / size..last {
            self.blocks.remove(&number);
            ahead.requests.remove(&number);
        }
        written
    }

    fn block(&self, number: u64) -> Result<Arc<[u8]>, IoError> {
        let found = match self.blocks.get_value_or_guard(&number, None) {
            GuardResult::Value(block) => {
                self.hits.fetch_add(1, Ordering::Relaxed);
                block
            }
            GuardResult::Guard(guard) => {
                let under_way =
                    self.ahead.lock().unwrap_or_else(PoisonError::into_inner).requests.remove(&number);
                let counter = if under_way.is_some() { &self.foreseen } else { &self.misses };
                counter.fetch_add(1, Ordering::Relaxed);
                let request = under_way.unwrap_or_else(|| self.ask(number));
                self.look_ahead(number);
                let block: Arc<[u8]> = request.wait()?.to_vec().into();
                // Nobody else fills it meanwhile; a write may have taken the guard's place away, and then it is not kept.
                let _ = guard.insert(block.clone());
                return Ok(block);
            }
            // There is no time limit.
            GuardResult::Timeout => self.ask(number).wait()?.to_vec().into(),
        };
        self.look_ahead(number);
        Ok(found)
    }

    fn ask(&self, number: u64) -> Request {
        self.file.read(number * u64::from(self.options.block), self.options.block)
    }

    fn look_ahead(&self, number: u64) {
        let limit = u64::from(self.options.ahead);
        if limit == 0 {
            return;
        }
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if number == ahead.last {
            return;
        }
        let next = number == ahead.last + 1;
        ahead.last = number;
        ahead.window = if next { (ahead.window * 2).clamp(1, limit) } else { 0 };
        let blocks = self.file.len().div_ceil(u64::from(self.options.block));
        for foreseen in (number + 1..=number + ahead.window).take_while(|n| *n < blocks) {
            if ahead.requests.len() as u64 >= 2 * limit {
                // Left over from a path that was not taken.
                ahead.requests.retain(|n, _| *n > number && *n <= number + limit);
            }
            if !ahead.requests.contains_key(&foreseen) && self.blocks.peek(&foreseen).is_none() {
                let request = self.ask(foreseen);
                ahead.requests.insert(foreseen, request);
            }
        }
    }
}
