//! Every limit of the crate, in one place. A peer's claim is checked against these before anything is allocated for it.

use std::time::Duration;

/// Segments of one request.
pub const SEGMENTS: usize = 256;
/// Bytes of one request, over all its segments.
pub const REQUEST_BYTES: u64 = 4 << 20;
/// Requests under way on one connection.
pub const OUTSTANDING: usize = 256;
/// Bytes under way on one connection whose blocks travel within messages.
pub const INLINE_BYTES: u64 = 16 << 20;
/// Bytes of memory that one connection keeps for such requests between them.
pub const SPARE_BYTES: usize = 2 << 20;
/// Bytes of the data area of one connection; a power of two.
pub const AREA_BYTES: u64 = 16 << 20;
/// Volumes that one connection has open.
pub const OPEN_VOLUMES: usize = 1024;
/// Bytes of a volume's name.
pub const NAME_BYTES: usize = 255;
/// Connections of one target.
pub const CONNECTIONS: usize = 1024;
/// Messages taken from one connection before the next has its turn.
pub const MESSAGES_PER_TURN: usize = 64;
/// Requests under way in an io_uring, and completions that it has room for.
pub const RING_ENTRIES: u32 = 256;
/// Files that an io_uring has registered, two for a volume.
pub const RING_FILES: u32 = 2048;
/// Data areas that an io_uring has registered.
pub const RING_AREAS: u32 = 1024;
/// Threads of the dynamic engine at one time; requests beyond wait.
pub const DYNAMIC_THREADS: usize = 4096;
/// Threads of the static pool.
pub const POOL_THREADS: usize = 1024;
/// How long a request may take before the client gives up, unless said otherwise.
pub const REQUEST: Duration = Duration::from_secs(10);
/// How long a client tries to reach its target again, unless said otherwise.
pub const RECONNECT: Duration = Duration::from_secs(10);
