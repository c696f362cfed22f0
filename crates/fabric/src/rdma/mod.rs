//! The fabrics over ibverbs, reliable connections both: `rdma` (one-sided: rings written by RDMA writes, regions read by RDMA reads)
//! and `verbs` (two-sided: messages sent and received, one-sided accesses emulated by an agent).
//!
//! ```text
//!   TCP socket     HELLO + blob ──▶            ◀── WELCOME + blob, keys of the regions        ready (one byte) ──▶
//!                  then nothing: the end of the stream is the peer's death
//!
//!   blob of rdma   queue pair │ inbox: address, key, bytes of the ring                    the ring is as in `ring`
//!   blob of verbs  queue pair of the messages │ of the listening side's agent │ of the connecting side's, if it hands out regions
//!
//!   inbox          ┌ page: credit (word 0) ┬ ring ┐      registered for the peer to write, and nothing else
//!                  └───────────────────────┴──────┘
//! ```
//! **A protection domain per connection.** A remote key is 32 bits and easily guessed; but it opens memory only for queue pairs of its own domain.
//! So every connection has a domain, in which the regions that it was granted are registered anew, for reading only or also for writing,
//! and its rings. A region's pages are thereby locked in memory, all of them, and once more counted for each connection; memory
//! windows would be the lighter way, and can come where a device is measured that needs it.
//!
//! **Sleeping.** A flag "I sleep" as in `shm` cannot work here: the flag and the message cross on the wire, and neither side ever knows that both
//! have landed. So each message is a write *with immediate*: it is found by polling the ring, and it also leaves a completion, which wakes a
//! sleeper that has armed its queue. The receiver keeps as many receives posted as records and credits can be under way, so no
//! write waits for one, nor a one-sided read behind it.
//!
//! **Ends.** A dead process's sockets are closed by its kernel: the end of the stream. A dead machine answers nothing: retries are exceeded within
//! four seconds of the next access, or TCP's keep-alive ends the stream. Either way the queue pair is put into its error state, all that
//! was posted comes back as flushed, and each operation has its completion. A refused access (wrong key, no right) is answered
//! [`crate::Failure::Denied`] and ends the connection, as reliable connections do.
//!
//! **Holes.** Memory that is registered must not have its pages given back (`MADV_REMOVE`, hole punching): the adapter goes on with the old ones.

mod blob;
mod link;
mod messages;
mod onesided;
mod posts;
mod rings;
mod setup;
mod socket;

pub(crate) use setup::{Listener, connect};
