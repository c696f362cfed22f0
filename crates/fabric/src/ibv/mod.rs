//! A thin layer over libibverbs: some twenty functions of the library, loaded when the first of them is needed.
//!
//! ```text
//!   Device ── Domain (one per connection: a remote key opens nothing for another connection)
//!     │         ├── Registered (memory that the adapter may read or write; its key)
//!     │         └── Pair (queue pair, reliable connection) ── posts work, in order
//!     └── Channel ── Queue (completions; polled, or armed so that the channel's descriptor becomes readable)
//! ```
//! Each object keeps alive what it is made of, so that they come apart in the right order. All `unsafe` of the back ends `verbs` and
//! `rdma` is in this module: the adapter reaches memory only through [`Registered`], which keeps it mapped; what arrives there is read
//! through atomics.
//!
//! Where something is missing, [`Missing`] says what: the library, a device, a driver, a permission, an active port, or memory that
//! may be locked.
//!
//! Source: the manual pages and the header of rdma-core; *InfiniBand Architecture Specification*, volume 1, chapters 9 to 11.

mod abi;
mod device;
mod library;
mod pair;

pub(crate) use device::{Channel, Device, Domain, Ended, Queue, Registered, Rights};
pub(crate) use pair::{ENDPOINT_BYTES, Endpoint, Pair, Piece, Reach, Read, Remote, Sizes, Work};

use rustix::io::Errno;

/// What is missing for RDMA.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Missing {
    #[error(
        "libibverbs cannot be loaded ({0}); on Debian it is in libibverbs1, with its drivers in ibverbs-providers"
    )]
    Library(String),
    #[error("this machine has no RDMA device (/sys/class/infiniband is empty)")]
    Device,
    #[error(
        "there is an RDMA device ({0}), but no driver of libibverbs's for it, or no /dev/infiniband/uverbs* (is ib_uverbs loaded, is ibverbs-providers installed?)"
    )]
    Driver(String),
    #[error(
        "the RDMA device {device} cannot be opened: {source}; /dev/infiniband/uverbs* must be readable and writable"
    )]
    Permission { device: String, source: Errno },
    #[error("no port of an RDMA device is active{0}")]
    Port(String),
    #[error("{bytes} bytes cannot be registered with the RDMA device: {source}; {limit}")]
    Locked { bytes: u64, limit: String, source: Errno },
    #[error(
        "a region of {bytes} bytes must be wholly in memory to be registered with an RDMA device; {needed} more bytes are needed, and {available} can be had (make the region smaller)"
    )]
    Memory { bytes: u64, needed: u64, available: u64 },
}

/// An error of this module.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Missing(#[from] Missing),
    #[error("{what}: {source}")]
    System { what: &'static str, source: Errno },
}

impl Error {
    /// As an error of the crate, for one of its fabrics.
    pub fn on(self, fabric: crate::Fabric) -> crate::Error {
        match self {
            Error::Missing(missing) => crate::Error::Unavailable { fabric, why: missing.to_string() },
            Error::System { what, source } => crate::Error::System { what, source },
        }
    }
}

/// The status of work that has succeeded.
pub(crate) const SUCCESS: u32 = abi::IBV_WC_SUCCESS;

/// Whether the target's adapter refused it.
pub(crate) fn refused(ended: &Ended) -> bool {
    [abi::IBV_WC_REM_ACCESS_ERR, abi::IBV_WC_REM_INV_REQ_ERR, abi::IBV_WC_REM_OP_ERR].contains(&ended.status)
}

/// Whether the target's adapter did not answer.
pub(crate) fn unanswered(ended: &Ended) -> bool {
    [abi::IBV_WC_RETRY_EXC_ERR, abi::IBV_WC_RNR_RETRY_EXC_ERR].contains(&ended.status)
}

/// The error that the last call of this thread left in `errno`.
fn last(what: &'static str) -> Error {
    let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    Error::System { what, source: Errno::from_raw_os_error(code) }
}

/// The error of a function that returns a number of `errno`.
fn code(what: &'static str, code: i32) -> Result<(), Error> {
    match code {
        0 => Ok(()),
        code => Err(Error::System { what, source: Errno::from_raw_os_error(code.saturating_abs().max(1)) }),
    }
}

#[cfg(test)]
mod tests;
