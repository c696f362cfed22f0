//! Volumes of a target as objects, so that whatever reads through [`object_store`] (Parquet readers, query engines) can sit on remote I/O.
//!
//! An object is a volume, under the volume's name. Ranges are read with one request each, many of them together. A list names the volumes
//! that the user may open, those whose names are paths of this crate (no empty parts, no characters that it would encode).
//!
//! The store is read-only, for writable volumes, too: who puts an object gives it a new length and a new content at once, and nobody ever sees half of it;
//! a volume has the length that the target gave it, and is written block by block. [`crate::RemoteFile`] does that. [`Recording`] puts a recorder before any store: what is read through
//! it becomes a [`Trace`].

use crate::client::{IoError, Remote, RemoteFile};
use crate::protocol::Status;
use crate::trace::{Access, Op, Trace};
use ::object_store::path::Path;
use ::object_store::{
    Attributes, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

const STORE: &str = "kintsugi target";
/// Bytes of a request, when much is read in order.
const PIECE: u64 = 1 << 20;

/// The volumes of a target.
pub struct TargetStore {
    remote: Arc<Remote>,
    open: Mutex<HashMap<String, RemoteFile>>,
}

impl TargetStore {
    /// Over a connection.
    pub fn new(remote: Arc<Remote>) -> TargetStore {
        TargetStore { remote, open: Mutex::default() }
    }

    /// Opens a volume once. (The first time it waits for the target, on the calling thread.)
    fn file(&self, location: &Path) -> Result<RemoteFile> {
        let name = location.as_ref();
        if let Some(file) = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Ok(file.clone());
        }
        let file = self.remote.open(name).map_err(|why| wrong(location, why))?;
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), file.clone());
        Ok(file)
    }
}

fn wrong(location: &Path, why: IoError) -> Error {
    match why {
        IoError::Target { status: Status::NoSuchVolume, .. } => {
            Error::NotFound { path: location.to_string(), source: why.into() }
        }
        why => Error::Generic { store: STORE, source: why.into() },
    }
}

fn meta(location: &Path, file: &RemoteFile) -> ObjectMeta {
    let (last_modified, size) = (Default::default(), file.len());
    ObjectMeta { location: location.clone(), last_modified, size, e_tag: None, version: None }
}

fn range_of(wanted: Option<&GetRange>, length: u64) -> Result<Range<u64>> {
    let range = match wanted {
        None => 0..length,
        Some(GetRange::Bounded(range)) => range.start..range.end.min(length),
        Some(GetRange::Offset(start)) => *start..length,
        Some(GetRange::Suffix(bytes)) => length.saturating_sub(*bytes)..length,
    };
    if range.start > range.end || (range.start == length && length > 0 && wanted.is_some()) {
        let why = format!("the range begins at {}, the volume has {length} bytes", range.start);
        return Err(Error::Generic { store: STORE, source: why.into() });
    }
    Ok(range)
}

impl std::fmt::Display for TargetStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(STORE)
    }
}

impl std::fmt::Debug for TargetStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TargetStore")
    }
}

#[async_trait]
impl ObjectStore for TargetStore {
    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(Error::NotImplemented)
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(Error::NotImplemented)
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let file = self.file(location)?;
        let meta = meta(location, &file);
        options.check_preconditions(&meta)?;
        let range = range_of(options.range.as_ref(), meta.size)?;
        let wanted = if options.head { range.start..range.start } else { range.clone() };
        let pieces: Vec<Range<u64>> = (wanted.start..wanted.end)
            .step_by(PIECE as usize)
            .map(|at| at..(at + PIECE).min(wanted.end))
            .collect();
        let location = location.clone();
        let payload = stream::iter(pieces)
            .map(move |piece| {
                let (request, location) =
                    (file.read(piece.start, (piece.end - piece.start) as u32), location.clone());
                async move { whole(request.await, piece.end - piece.start, &location) }
            })
            .buffered(4)
            .boxed();
        Ok(GetResult {
            payload: GetResultPayload::Stream(payload),
            meta,
            range,
            attributes: Attributes::default(),
        })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let file = self.file(location)?;
        let mut out = Vec::with_capacity(ranges.len());
        let mut under_way = Vec::with_capacity(ranges.len());
        for range in ranges {
            let range = range_of(Some(&GetRange::Bounded(range.clone())), file.len())?;
            let pieces: Vec<_> = (range.start..range.end)
                .step_by(PIECE as usize)
                .map(|at| {
                    let bytes = PIECE.min(range.end - at);
                    (file.read(at, bytes as u32), bytes)
                })
                .collect();
            under_way.push(pieces);
        }
        for pieces in under_way {
            let mut bytes = Vec::new();
            for (request, length) in pieces {
                bytes.extend_from_slice(&whole(request.await, length, location)?);
            }
            out.push(bytes.into());
        }
        Ok(out)
    }

    async fn delete(&self, _: &Path) -> Result<()> {
        Err(Error::NotImplemented)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (request, prefix) = (self.remote.begin_list(), prefix.cloned());
        let within = move |one: &ObjectMeta| prefix.as_ref().is_none_or(|p| one.location.prefix_matches(p));
        stream::once(request)
            .flat_map(move |block| {
                let listed: Vec<Result<ObjectMeta>> = match objects(block) {
                    Ok(objects) => objects.into_iter().filter(&within).map(Ok).collect(),
                    Err(why) => vec![Err(why)],
                };
                stream::iter(listed)
            })
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut result = ListResult { common_prefixes: Vec::new(), objects: Vec::new() };
        let root = Path::default();
        let prefix = prefix.unwrap_or(&root);
        for object in objects(self.remote.begin_list().await)? {
            let Some(mut rest) = object.location.prefix_match(prefix) else { continue };
            match (rest.next(), rest.next()) {
                (None, _) => {}
                (Some(_), None) => {
                    drop(rest);
                    result.objects.push(object);
                }
                (Some(first), Some(_)) => {
                    let common = prefix.child(first);
                    if result.common_prefixes.last() != Some(&common) {
                        result.common_prefixes.push(common);
                    }
                }
            }
        }
        Ok(result)
    }

    async fn copy(&self, _: &Path, _: &Path) -> Result<()> {
        Err(Error::NotImplemented)
    }

    async fn copy_if_not_exists(&self, _: &Path, _: &Path) -> Result<()> {
        Err(Error::NotImplemented)
    }
}

/// What a list of volumes says, sorted by path.
fn objects(list: std::result::Result<crate::client::Block, IoError>) -> Result<Vec<ObjectMeta>> {
    let generic = |why: IoError| Error::Generic { store: STORE, source: why.into() };
    let volumes = list.and_then(|block| crate::client::listed(&block)).map_err(generic)?;
    let mut objects: Vec<ObjectMeta> = volumes
        .into_iter()
        .filter_map(|volume| {
            let location = Path::parse(&volume.name).ok().filter(|path| path.as_ref() == volume.name)?;
            let (last_modified, size) = (Default::default(), volume.bytes);
            Some(ObjectMeta { location, last_modified, size, e_tag: None, version: None })
        })
        .collect();
    objects.sort_by(|a, b| a.location.cmp(&b.location));
    Ok(objects)
}

/// A block as bytes; a shorter one than was asked for is an error, because the volume's length was known.
fn whole(
    block: std::result::Result<crate::client::Block, IoError>,
    bytes: u64,
    location: &Path,
) -> Result<Bytes> {
    let block = block.map_err(|why| wrong(location, why))?;
    if block.len() as u64 != bytes {
        let short = IoError::Target { status: Status::Short, errno: 0, segment: 0 };
        return Err(wrong(location, short));
    }
    Ok(block.to_vec().into())
}

/// A store that writes down what is read through it.
#[derive(Debug)]
pub struct Recording<S> {
    store: S,
    begun: Instant,
    trace: Mutex<Trace>,
}

impl<S> Recording<S> {
    /// Before a store.
    pub fn new(store: S) -> Recording<S> {
        Recording { store, begun: Instant::now(), trace: Mutex::default() }
    }

    /// What was read so far.
    pub fn trace(&self) -> Trace {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, location: &Path, ranges: &[Range<u64>]) {
        let mut trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(volume) = trace.volume(location.as_ref()) else { return };
        let now = self.begun.elapsed().as_micros() as u64;
        let time_us = trace.accesses.last().map_or(now, |last| last.time_us.max(now));
        for range in ranges {
            for offset in (range.start..range.end).step_by(PIECE as usize) {
                let bytes = PIECE.min(range.end - offset) as u32;
                // A range that cannot be is the store's to refuse.
                let _ = trace.push(Access { time_us, op: Op::Read, volume, offset, bytes });
            }
        }
    }
}

impl<S: std::fmt::Display> std::fmt::Display for Recording<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, recorded", self.store)
    }
}

#[async_trait]
impl<S: ObjectStore> ObjectStore for Recording<S> {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.store.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let head = options.head;
        let result = self.store.get_opts(location, options).await?;
        if !head {
            self.note(location, std::slice::from_ref(&result.range));
        }
        Ok(result)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let bytes = self.store.get_ranges(location, ranges).await?;
        self.note(location, ranges);
        Ok(bytes)
    }

    async fn delete(&self, location: &Path) -> Result<()> {
        self.store.delete(location).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        self.store.copy(from, to).await
    }

    async fn copy_if_not_exists(&self, from: &Path, to: &Path) -> Result<()> {
        self.store.copy_if_not_exists(from, to).await
    }
}
