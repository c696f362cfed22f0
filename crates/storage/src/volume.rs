//! Volumes: files and block devices that a target exports.
//!
//! A volume has two descriptors of the same file: one through the page cache and, where the file system grants it, one with `O_DIRECT`
//! for requests whose offset, length and memory are aligned. Its length is fixed when it is opened: a file that is cut afterwards gives
//! short reads, never zeros.

use crate::memory::Place;
use rustix::fs::{FileType, Mode, OFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// How to open a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeOptions {
    /// Its name for clients.
    pub name: String,
    /// The file or the block device. `None`: there is nothing behind it, reads leave the memory as it is and writes vanish (to measure
    /// the fabric alone).
    pub path: Option<PathBuf>,
    /// Bytes of a volume with nothing behind it.
    pub dummy_bytes: u64,
    /// Whether writes, flush and trim are allowed.
    pub writable: bool,
    /// Whether aligned requests bypass the page cache.
    pub direct: bool,
}

impl std::str::FromStr for VolumeOptions {
    type Err = String;

    /// `name=path[,rw][,cached]`, or `name=dummy:BYTES`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once('=').ok_or("name=path is needed")?;
        if name.is_empty()
            || name.len() > crate::limits::NAME_BYTES
            || name.bytes().any(|b| b < b' ' || b == b',')
        {
            return Err(format!("{name:?} cannot be the name of a volume"));
        }
        let mut parts = rest.split(',');
        let path = parts.next().unwrap_or_default();
        let mut volume =
            VolumeOptions { name: name.into(), path: None, dummy_bytes: 0, writable: false, direct: true };
        match path.strip_prefix("dummy:") {
            Some(bytes) => {
                volume.dummy_bytes = bytes.parse().map_err(|_| format!("{bytes:?} is no number of bytes"))?
            }
            None if path.is_empty() => return Err("a path is needed, as in data=/srv/data.img".into()),
            None => volume.path = Some(path.into()),
        }
        for option in parts {
            match option {
                "rw" => volume.writable = true,
                "ro" => volume.writable = false,
                "cached" => volume.direct = false,
                "direct" => volume.direct = true,
                _ => return Err(format!("{option:?} is none of rw, ro, direct, cached")),
            }
        }
        Ok(volume)
    }
}

/// An open volume.
#[derive(Debug)]
pub struct Volume {
    name: String,
    bytes: u64,
    writable: bool,
    cached: Option<OwnedFd>,
    direct: Option<OwnedFd>,
    alignment: u32,
    number: u64,
}

/// Why a volume cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("volume {name}, {path}: {source}")]
pub struct OpenError {
    name: String,
    path: String,
    source: rustix::io::Errno,
}

static NUMBERS: AtomicU64 = AtomicU64::new(0);

impl Volume {
    /// Opens it.
    ///
    /// # Errors
    /// What the system says, with the volume's name and path.
    pub fn open(options: &VolumeOptions) -> Result<Volume, OpenError> {
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let Some(path) = &options.path else {
            return Ok(Volume {
                name: options.name.clone(),
                bytes: options.dummy_bytes,
                writable: options.writable,
                cached: None,
                direct: None,
                alignment: 1,
                number,
            });
        };
        let wrong =
            |source| OpenError { name: options.name.clone(), path: path.display().to_string(), source };
        let access = if options.writable { OFlags::RDWR } else { OFlags::RDONLY } | OFlags::CLOEXEC;
        let cached = rustix::fs::open(path, access, Mode::empty()).map_err(wrong)?;
        let stat = rustix::fs::fstat(&cached).map_err(wrong)?;
        let bytes = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => u64::try_from(stat.st_size).unwrap_or(0),
            FileType::BlockDevice => {
                rustix::fs::seek(&cached, rustix::fs::SeekFrom::End(0)).map_err(wrong)?
            }
            _ => return Err(wrong(rustix::io::Errno::NOTBLK)),
        };
        let (direct, alignment) = match options.direct {
            true => direct(path, access, &cached),
            false => (None, 1),
        };
        Ok(Volume {
            name: options.name.clone(),
            bytes,
            writable: options.writable,
            cached: Some(cached),
            direct,
            alignment,
            number,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its length when it was opened.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether it may be written.
    pub fn writable(&self) -> bool {
        self.writable
    }

    /// What direct I/O wants offsets, lengths and addresses to be multiples of; 1 where there is none.
    pub fn alignment(&self) -> u32 {
        self.alignment
    }

    /// Different for every volume that this process has opened.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Both descriptors: through the cache, and around it.
    pub(crate) fn descriptors(&self) -> (Option<BorrowedFd<'_>>, Option<BorrowedFd<'_>>) {
        (self.cached.as_ref().map(|f| f.as_fd()), self.direct.as_ref().map(|f| f.as_fd()))
    }

    /// Whether this transfer can go around the page cache.
    pub(crate) fn goes_direct(&self, offset: u64, bytes: u64, place: &Place) -> bool {
        let to = u64::from(self.alignment);
        self.direct.is_some()
            && bytes > 0
            && offset.is_multiple_of(to)
            && bytes.is_multiple_of(to)
            && place.aligned(self.alignment as usize)
    }
}

/// The descriptor around the page cache, if one read through it succeeds, and the smallest alignment that it takes.
fn direct(path: &Path, access: OFlags, cached: &OwnedFd) -> (Option<OwnedFd>, u32) {
    let Ok(fd) = rustix::fs::open(path, access | OFlags::DIRECT, Mode::empty()) else { return (None, 1) };
    let same = match (rustix::fs::fstat(&fd), rustix::fs::fstat(cached)) {
        (Ok(a), Ok(b)) => a.st_dev == b.st_dev && a.st_ino == b.st_ino,
        _ => false,
    };
    let Some(mut probe) = crate::memory::Heap::new(8192) else { return (None, 1) };
    for alignment in [512u32, 4096] {
        // An address that is a multiple of this and of nothing more, so that nothing larger is needed in secret.
        let to = alignment as usize;
        let into = &mut probe.slice()[to % 4096..][..to];
        if same && rustix::io::pread(&fd, into, 0).is_ok() {
            return (Some(fd), alignment);
        }
    }
    (None, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_read_only_unless_said_otherwise() {
        let volume: VolumeOptions = "data=/srv/data".parse().unwrap();
        assert!(!volume.writable && volume.direct);
        let volume: VolumeOptions = "data=/srv/a=b,rw,cached".parse().unwrap();
        assert!(volume.writable && !volume.direct && volume.path == Some("/srv/a=b".into()));
        for wrong in ["", "data", "=x", "a=", "a=b,x", "a=dummy:x", "a,b=c"] {
            assert!(wrong.parse::<VolumeOptions>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_directory_is_no_volume() {
        let dir = std::env::temp_dir();
        assert!(Volume::open(&format!("a={}", dir.display()).parse().unwrap()).is_err());
    }
}
