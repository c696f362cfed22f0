//! Waiting for sockets: a thin layer over epoll, edge-triggered.
use rustix::{
    event::{
        EventfdFlags, Timespec,
        epoll::{self, EventData, EventFlags},
        eventfd,
    },
    fd::{AsFd, OwnedFd},
    io,
};
use std::time::Duration;

/// What happened to a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub token: u64,
    pub readable: bool,
    /// The peer will send no more, or is gone: reading will say so.
    pub ended: bool,
}

pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

const READ: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

impl Poller {
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, events: Vec::with_capacity(256) })
    }

    /// Reports when there is something to read.
    pub fn add(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        epoll::add(&self.epoll, fd, EventData::new_u64(token), READ)
    }

    /// Reports as long as there is something to read (a listener).
    pub fn add_level(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        epoll::add(&self.epoll, fd, EventData::new_u64(token), EventFlags::IN)
    }

    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        epoll::delete(&self.epoll, fd)
    }

    /// Reports also, or no longer, when there is room to write.
    pub fn set_writing(&self, fd: impl AsFd, token: u64, writing: bool) -> io::Result<()> {
        let flags = if writing { READ.union(EventFlags::OUT) } else { READ };
        epoll::modify(&self.epoll, fd, EventData::new_u64(token), flags)
    }

    /// Waits until something happens or the time has passed.
    pub fn wait(&mut self, timeout: Duration, out: &mut Vec<Event>) -> io::Result<()> {
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) | Err(io::Errno::INTR) => {}
            Err(e) => return Err(e),
        }
        out.clear();
        out.extend(self.events.iter().map(|e| {
            let flags = e.flags;
            Event {
                token: e.data.u64(),
                readable: flags
                    .intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR),
                ended: flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR),
            }
        }));
        Ok(())
    }
}

/// What another thread pulls to wake a sleeping one.
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub fn ring(&self) {
        // The only way to fail is a counter that is full: it rings already.
        let _ = io::write(&self.0, &1u64.to_ne_bytes());
    }

    pub fn silence(&self) {
        let _ = io::read(&self.0, &mut [0u8; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}
