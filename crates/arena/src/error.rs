/// Why the owner could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The limit or the reserve of the region is used up, and nothing is left to recycle.
    #[error("the region's memory is used up")]
    OutOfMemory,
    /// The table has been dropped.
    #[error("no such table")]
    UnknownTable,
    /// A key or a value of 4 GiB or more, or a region that does not fit in the address space.
    #[error("larger than the layout can hold")]
    TooLarge,
    /// A file that was handed over as a region is none, is of another layout, or could shrink under its readers.
    #[error("the file is not a region that can be read safely")]
    Foreign,
    /// The system refused a region.
    #[error("cannot create the region: {0}")]
    System(#[from] std::io::Error),
}

impl From<rustix::io::Errno> for Error {
    fn from(errno: rustix::io::Errno) -> Error {
        Error::System(errno.into())
    }
}

/// A bounded number of tries was not enough: ask the owner.
#[derive(Debug, Copy, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the region changes faster than it can be read")]
pub struct Busy;
