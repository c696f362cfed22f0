//! Every limit of the crate, in one place. A peer's claim is checked against these before anything is allocated for it.

use std::time::Duration;

/// Bytes of a handshake frame before its sender is authenticated.
pub const HELLO_BYTES: usize = 4096;
/// Bytes of a handshake frame from the listening side.
pub const WELCOME_BYTES: usize = 32 << 10;
/// Bytes of a user's name.
pub const USER_BYTES: usize = 256;
/// Bytes of a password.
pub const PASSWORD_BYTES: usize = 1024;
/// Bytes of what a back end adds to a handshake frame (queue pair, ring key …).
pub const BLOB_BYTES: usize = 1024;
/// Bytes of what the application adds to its welcome.
pub const INFO_BYTES: usize = 8 << 10;
/// Bytes of the reason of a refusal.
pub const REASON_BYTES: usize = 256;
/// Regions that one connection can be handed (a Unix socket passes at most 253 descriptors at once).
pub const REGIONS: usize = 240;
/// Regions that the connecting side can hand out.
pub const PEER_REGIONS: usize = 8;
/// Bytes of one region.
pub const REGION_BYTES: u64 = 1 << 46;
/// Handshakes under way at one listener; above that a newcomer takes the place of one that says nothing.
pub const PENDING: usize = 64;
/// What a handshake may take.
pub const HANDSHAKE: Duration = Duration::from_secs(5);
/// Bytes of a ring, one direction.
pub const RING_BYTES: usize = 256 << 10;
/// The smallest and the largest ring that a peer may propose.
pub const RING_BYTES_RANGE: std::ops::RangeInclusive<u64> = 1024..=(64 << 20);
/// Bytes of a message, whatever carries it; larger ones than a ring's quarter travel in pieces.
pub const MESSAGE_BYTES: usize = 64 << 20;
/// One-sided operations under way on one connection, and completions not yet fetched.
pub const OUTSTANDING: usize = 1024;
/// Bytes of a one-sided transfer.
pub const TRANSFER_BYTES: u64 = 16 << 20;
/// Bytes of one local buffer.
pub const BUFFER_BYTES: usize = 1 << 30;
/// How long an emulated operation may take.
pub const OPERATION: Duration = Duration::from_secs(2);
/// Records in a ring of `rdma` that the receiver has not consumed, however small they are.
pub const RDMA_RECORDS: usize = 256;
/// Messages, or pieces of them, under way on a queue pair of `verbs`, in each direction.
pub const VERBS_SLOTS: usize = 32;
/// Bytes of each of them.
pub const VERBS_SLOT_BYTES: usize = 16 << 10;
