//! What both fabrics share: a queue pair with its completions, the socket that tells of the peer's end, and sleeping.

use crate::ibv::{
    Channel, Device, Domain, Ended, Endpoint, Pair, Piece, Queue, Reach, Read, SUCCESS, Sizes, Work, refused,
    unanswered,
};
use crate::{Completion, Error, Fabric, Failure, limits};
use rustix::event::epoll;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Fruitless polls between two looks at whether the peer still lives.
const LOOK_AT_SOCKET: u32 = 512;
/// Completions fetched at once.
const BATCH: usize = 32;

/// What a connection that is closed waits for its last messages to arrive.
const LINGER: Duration = Duration::from_millis(200);

/// The end of a connection from this side. A queue pair that is destroyed takes along what has not arrived, so that is waited for.
pub(super) fn linger(link: &mut Link, mut progress: impl FnMut(&mut Link) -> Result<(), Error>) {
    let end = Instant::now() + LINGER;
    while !link.dead && !link.quiet() && Instant::now() < end {
        if progress(link).is_err() {
            break;
        }
        std::thread::yield_now();
    }
    super::socket::shut(link.socket());
}

/// What was posted, in the order in which it completes; numbered, since reads that are posted together complete together.
struct Posted {
    number: u64,
    what: What,
}

enum What {
    Message,
    OneSided { token: u64, buffer: u64, cancelled: bool },
}

/// A queue pair and what belongs to it.
pub(super) struct Link {
    pub fabric: Fabric,
    pair: Pair,
    sends: Arc<Queue>,
    receives: Arc<Queue>,
    channel: Arc<Channel>,
    pub domain: Arc<Domain>,
    socket: OwnedFd,
    epoll: OwnedFd,
    posted: VecDeque<Posted>,
    /// The last number given.
    number: u64,
    /// Reads that stand in `posted` and go to the adapter together, before anything else does.
    gathered: Vec<Read>,
    /// How many of what is posted are messages.
    messages: usize,
    /// One-sided operations that have ended and not been fetched.
    pub done: VecDeque<Completion>,
    /// Receives that have completed: number and bytes.
    pub arrived: VecDeque<(u64, u32)>,
    /// A sleep is announced.
    armed: bool,
    /// Whether `sends` and `receives` will make the channel readable, and have not yet.
    awaited: [bool; 2],
    fruitless: u32,
    pub dead: bool,
    /// The peer has hung up, as against: this side has ended the connection.
    gone: bool,
}

impl Link {
    pub fn new(
        fabric: Fabric,
        device: &Arc<Device>,
        socket: OwnedFd,
        sizes: Sizes,
        reach: Reach,
    ) -> Result<Link, Error> {
        let failed = |error: crate::ibv::Error| error.on(fabric);
        let domain = Domain::new(device).map_err(failed)?;
        let channel = Channel::new(device).map_err(failed)?;
        let sends = Queue::new(&channel, sizes.sends).map_err(failed)?;
        let receives = Queue::new(&channel, sizes.receives).map_err(failed)?;
        let sequence = crate::net::secret()? as u32;
        let pair = Pair::new(&domain, &sends, &receives, sizes, sequence, reach).map_err(failed)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Error::system("epoll_create"))?;
        let end = epoll::EventFlags::RDHUP;
        for (fd, event) in [(channel.fd(), epoll::EventFlags::IN), (socket.as_fd(), end)] {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(0), event)
                .map_err(Error::system("epoll_ctl"))?;
        }
        Ok(Link {
            fabric,
            pair,
            sends,
            receives,
            channel,
            domain,
            socket,
            epoll,
            posted: VecDeque::new(),
            number: 0,
            gathered: Vec::new(),
            messages: 0,
            done: VecDeque::new(),
            arrived: VecDeque::new(),
            armed: false,
            awaited: [false; 2],
            fruitless: 0,
            dead: false,
            gone: false,
        })
    }

    pub fn endpoint(&self) -> Endpoint {
        self.pair.endpoint()
    }

    pub fn connect(&self, peer: &Endpoint) -> Result<(), Error> {
        self.pair.connect(peer).map_err(|error| error.on(self.fabric))
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Messages (and credits) under way.
    pub fn messages(&self) -> usize {
        self.messages
    }

    /// Whether one more one-sided operation can be begun.
    pub fn may_post(&self) -> Result<(), Error> {
        if self.dead {
            Err(Error::PeerDead)
        } else if self.posted.len() - self.messages + self.done.len() >= limits::OUTSTANDING {
            Err(Error::Full)
        } else {
            Ok(())
        }
    }

    fn post(&mut self, work: Work<'_>, what: What) -> Result<(), Error> {
        if self.dead {
            return Err(Error::PeerDead);
        }
        let number = self.number + 1;
        if let Work::Read(into, from) = work {
            let read = Read::new(number, into, from).map_err(|error| error.on(self.fabric))?;
            self.gathered.push(read);
        } else {
            self.post_gathered();
            self.pair.post(number, work).map_err(|error| error.on(self.fabric))?;
        }
        self.number = number;
        self.posted.push_back(Posted { number, what });
        if self.armed && !self.gathered.is_empty() {
            // Nobody may look at it before it wakes.
            self.arm(true)?;
            self.post_gathered();
        }
        Ok(())
    }

    /// For a sender that finds no room: `true` if a sleep was announced that would not have ended when there is room; now it does, and what has
    /// completed must be looked for once more.
    pub fn wakes_for_room(&mut self) -> Result<bool, Error> {
        let news = self.armed && !self.awaited[0];
        if news {
            self.arm(true)?;
            self.progress()?;
        }
        Ok(news)
    }

    /// Posts the reads that have gathered. (An adapter is told of many at the price of one.)
    fn post_gathered(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        if self.pair.post_reads(&self.gathered).is_err() {
            // Those that the adapter has taken may complete without a word, the others never.
            let kept = self.posted.len().saturating_sub(self.gathered.len());
            for lost in self.posted.split_off(kept) {
                self.end(lost.what, Err(Failure::Cancelled));
            }
            self.die();
        }
        self.gathered.clear();
    }

    pub fn post_message(&mut self, work: Work<'_>) -> Result<(), Error> {
        self.post(work, What::Message)?;
        self.messages += 1;
        Ok(())
    }

    /// Begins a read or a write. Reads go to the adapter at the next look at what has completed, if not before.
    pub fn post_one_sided(&mut self, work: Work<'_>, token: u64, buffer: u64) -> Result<(), Error> {
        self.post(work, What::OneSided { token, buffer, cancelled: false })
    }

    pub fn post_receive(&mut self, id: u64, into: Option<Piece<'_>>) -> Result<(), Error> {
        if self.dead {
            return Ok(());
        }
        self.pair.post_receive(id, into).map_err(|error| error.on(self.fabric))
    }

    /// Whether operations under way use a buffer.
    pub fn uses(&self, buffer: u64) -> bool {
        self.posted.iter().any(|p| matches!(p.what, What::OneSided { buffer: b, .. } if b == buffer))
    }

    /// Lets all operations under way on a buffer come back as cancelled.
    pub fn cancel(&mut self, buffer: u64) {
        for posted in &mut self.posted {
            if let What::OneSided { buffer: b, cancelled, .. } = &mut posted.what {
                *cancelled |= *b == buffer;
            }
        }
    }

    /// Nothing is under way any more.
    pub fn quiet(&self) -> bool {
        self.posted.is_empty()
    }

    /// Ends the connection from this side: what is under way comes back.
    pub fn die(&mut self) {
        if !self.dead {
            self.dead = true;
            let _ = self.pair.fail();
        }
    }

    /// Fetches what has completed. Does not block.
    pub fn progress(&mut self) -> Result<(), Error> {
        self.post_gathered();
        let mut ended = [Ended::default(); BATCH];
        loop {
            let count = self.sends.poll(&mut ended).map_err(|error| error.on(self.fabric))?;
            for ended in &ended[..count] {
                self.sent(ended);
            }
            if count < BATCH {
                break;
            }
        }
        loop {
            let count = self.receives.poll(&mut ended).map_err(|error| error.on(self.fabric))?;
            for ended in &ended[..count] {
                if ended.status == SUCCESS {
                    self.arrived.push_back((ended.wr_id, ended.byte_len));
                } else {
                    self.die();
                }
            }
            if count < BATCH {
                return Ok(());
            }
        }
    }

    fn sent(&mut self, ended: &Ended) {
        if ended.status != SUCCESS {
            self.gone |= unanswered(ended);
            self.die();
        }
        let result = match ended.status {
            SUCCESS => Ok(()),
            _ if refused(ended) => Err(Failure::Denied),
            _ if self.gone => Err(Failure::PeerDead),
            _ => Err(Failure::Cancelled),
        };
        if self.posted.back().is_none_or(|last| last.number < ended.wr_id) {
            // A completion of nothing: the driver is at fault, and the connection of no use.
            self.die();
        }
        // What was posted before it, and not to complete by itself, has gone well.
        while let Some(posted) = self.posted.pop_front() {
            if posted.number > ended.wr_id {
                self.posted.push_front(posted);
                break;
            }
            self.end(posted.what, if posted.number < ended.wr_id { Ok(()) } else { result.clone() });
        }
    }

    fn end(&mut self, what: What, result: Result<(), Failure>) {
        match what {
            What::Message => self.messages -= 1,
            What::OneSided { token, cancelled, .. } => {
                let result = if cancelled { Err(Failure::Cancelled) } else { result };
                self.done.push_back(Completion { token, result });
            }
        }
    }

    /// Notices the peer's end. Nothing is said on the socket after the set-up, and nothing is read.
    pub fn look_at_socket(&mut self) -> Result<(), Error> {
        if crate::net::hung_up(self.socket.as_fd())? {
            self.gone = true;
            self.die();
        }
        Ok(())
    }

    /// Now and then, when there was nothing to do: does the peer live?
    pub fn fruitless(&mut self) -> Result<(), Error> {
        self.fruitless += 1;
        if self.fruitless < LOOK_AT_SOCKET {
            return Ok(());
        }
        self.fruitless = 0;
        self.look_at_socket()
    }

    /// Before a sleep. What came before must be looked for after this. `for_room`: also what this side has sent wakes, when it has arrived.
    /// (A pair that fails wakes in any case: its receives complete, as failed.)
    pub fn arm(&mut self, for_room: bool) -> Result<(), Error> {
        self.armed = true;
        let one_sided = self.posted.len() > self.messages;
        let queues = [(&self.sends, for_room || one_sided), (&self.receives, true)];
        for ((queue, wanted), awaited) in queues.into_iter().zip(&mut self.awaited) {
            if wanted && !*awaited {
                queue.arm().map_err(|error| error.on(self.fabric))?;
                *awaited = true;
            }
        }
        Ok(())
    }

    /// After a sleep.
    pub fn disarm(&mut self) -> Result<(), Error> {
        if !self.armed {
            return Ok(());
        }
        self.armed = false;
        let mut woken = false;
        while self.awaited.contains(&true)
            && let Some(event) = self.channel.event()
        {
            woken = true;
            self.awaited[usize::from(self.receives.has(event))] = false;
        }
        // Else it may have been the socket.
        if woken { Ok(()) } else { self.look_at_socket() }
    }
}
