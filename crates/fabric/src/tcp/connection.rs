//! The data path over TCP.

use super::agent::Seat;
use super::stream::Stream;
use super::{ANSWER, Kind, REQUEST, length, word};
use crate::local::Local;
use crate::words::{append, copy_in};
use crate::{
    Access, Buffer, Capabilities, Completion, Connection, Error, Fabric, Failure, OneSided, RemoteRegion,
    Span, Written, limits,
};
use rustix::event::epoll;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Bytes of messages that wait to be sent, before the sender is told to wait.
const UNSENT: usize = 256 << 10;

/// An operation that the agent has been asked for.
struct Asked {
    number: u64,
    token: u64,
    region: u32,
    /// Where a read's bytes go.
    into: Option<Span>,
    buffer: u64,
    deadline: Instant,
}

/// The socket to the target's agent.
struct Desk {
    stream: Stream,
    asked: VecDeque<Asked>,
    last: u64,
    timer: OwnedFd,
    host: String,
}

pub(crate) struct Tcp {
    fabric: Fabric,
    messages: Stream,
    desk: Option<Desk>,
    /// Our agent's place for the peer.
    _seat: Option<Seat>,
    epoll: OwnedFd,
    wants_out: [bool; 2],
    regions: Vec<RemoteRegion>,
    local: Local,
    done: VecDeque<Completion>,
    operation: Duration,
    broken: bool,
}

impl Tcp {
    /// `desk`: the socket to the agent, and where that is, for people.
    pub fn new(
        fabric: Fabric,
        messages: Stream,
        desk: Option<(Stream, String)>,
        seat: Option<Seat>,
        regions: Vec<RemoteRegion>,
        operation: Duration,
    ) -> Result<Tcp, Error> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Error::system("epoll_create"))?;
        let add = |fd: BorrowedFd<'_>| {
            let data = epoll::EventData::new_u64(0);
            epoll::add(&epoll, fd, data, epoll::EventFlags::IN).map_err(Error::system("epoll_ctl"))
        };
        add(messages.fd())?;
        let desk = match desk {
            None => None,
            Some((stream, host)) => {
                let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
                let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)
                    .map_err(Error::system("timerfd_create"))?;
                add(stream.fd())?;
                add(timer.as_fd())?;
                Some(Desk { stream, asked: VecDeque::new(), last: 0, timer, host })
            }
        };
        Ok(Tcp {
            fabric,
            messages,
            desk,
            _seat: seat,
            epoll,
            wants_out: [false; 2],
            regions,
            local: Local::default(),
            done: VecDeque::new(),
            operation,
            broken: false,
        })
    }

    fn dead(&self) -> bool {
        self.broken || self.messages.ended
    }

    fn ask(&mut self, kind: Kind, region: u32, offset: u64, span: Span, token: u64) -> Result<(), Error> {
        if self.dead() {
            return Err(Error::PeerDead);
        }
        let access = if kind == Kind::Write { Access::ReadWrite } else { Access::Read };
        let (at, words) = self.local.check(&self.regions, region, offset, span, access)?;
        let desk = self.desk.as_mut().ok_or(Error::PeerDead)?;
        if desk.asked.len() + self.done.len() >= limits::OUTSTANDING || desk.stream.unsent() > UNSENT {
            return Err(Error::Full);
        }
        let data = if kind == Kind::Write { span.bytes as usize } else { 0 };
        desk.last += 1;
        let out = desk.stream.out();
        out.extend(((REQUEST + data) as u32).to_le_bytes());
        out.extend([kind as u8, 0, 0, 0]);
        for field in [desk.last, self.regions[at].key, offset, span.bytes] {
            out.extend(field.to_le_bytes());
        }
        append(&words[..data / 8], data, out);
        desk.asked.push_back(Asked {
            number: desk.last,
            token,
            region,
            into: (kind == Kind::Read).then_some(span),
            buffer: span.buffer,
            deadline: Instant::now() + self.operation,
        });
        desk.stream.flush()
    }

    /// Moves on the operations: sends requests, takes answers, notices what is late and what is lost. `look`: at the socket, even if
    /// no answer is awaited.
    fn attend(&mut self, look: bool) -> Result<(), Error> {
        let Some(desk) = &mut self.desk else { return Ok(()) };
        desk.stream.flush()?;
        if desk.asked.is_empty() && !look && !desk.stream.ended {
            return Ok(());
        }
        loop {
            while let Some(used) =
                desk.take_answer(&self.local, &mut self.done).inspect_err(|_| self.broken = true)?
            {
                desk.stream.consume(used);
            }
            if !desk.stream.fill()? {
                break;
            }
        }
        if desk.stream.ended || self.messages.ended {
            let lost =
                desk.asked.drain(..).map(|a| Completion { token: a.token, result: Err(Failure::PeerDead) });
            self.done.extend(lost);
            self.desk = None;
            return Ok(());
        }
        let now = if desk.asked.is_empty() { return Ok(()) } else { Instant::now() };
        while desk.asked.front().is_some_and(|asked| asked.deadline <= now) {
            let Some(asked) = desk.asked.pop_front() else { break };
            let agent = format!("the agent of region {} at {}", asked.region, desk.host).into();
            let limit_ms = self.operation.as_millis() as u64;
            let result = Err(Failure::TimedOut { agent, limit_ms });
            self.done.push_back(Completion { token: asked.token, result });
        }
        Ok(())
    }

    /// The first message that has come in wholly.
    fn take_message(&mut self, into: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        let input = self.messages.input();
        let Some(length) = length(input) else { return Ok(None) };
        if length > limits::MESSAGE_BYTES {
            self.broken = true;
            return Err(Error::Protocol("a message larger than any"));
        }
        let Some(body) = input.get(4..4 + length) else { return Ok(None) };
        into.extend_from_slice(body);
        self.messages.consume(4 + length);
        Ok(Some(length))
    }

    fn has_message(&self) -> bool {
        length(self.messages.input()).is_some_and(|length| self.messages.input().len() - 4 >= length)
    }

    /// Listens for room to send exactly where something waits.
    fn listen_for_room(&mut self) -> Result<(), Error> {
        let streams = [Some(&self.messages), self.desk.as_ref().map(|desk| &desk.stream)];
        for (stream, wants) in streams.into_iter().zip(&mut self.wants_out) {
            let Some(stream) = stream else { continue };
            let want = stream.unsent() > 0;
            if want != *wants && !stream.ended {
                *wants = want;
                let flags = if want { epoll::EventFlags::IN | stream.room() } else { epoll::EventFlags::IN };
                epoll::modify(&self.epoll, stream.fd(), epoll::EventData::new_u64(0), flags)
                    .map_err(Error::system("epoll_ctl"))?;
            }
        }
        Ok(())
    }
}

impl Desk {
    /// Takes the first answer that has come in wholly; how long it was.
    fn take_answer(
        &mut self,
        local: &Local,
        done: &mut VecDeque<Completion>,
    ) -> Result<Option<usize>, Error> {
        let input = self.stream.input();
        let Some(length) = length(input) else { return Ok(None) };
        if !(ANSWER..=ANSWER + limits::TRANSFER_BYTES as usize).contains(&length) {
            return Err(Error::Protocol("an answer of impossible length"));
        }
        let Some(frame) = input.get(..length) else { return Ok(None) };
        let number = word(frame, 8);
        if number == 0 || number > self.last {
            return Err(Error::Protocol("an answer to nothing"));
        }
        // Answers come in the order of the requests; those of operations that have ended otherwise are passed over.
        let Some(at) = self.asked.iter().position(|asked| asked.number == number) else {
            return Ok(Some(length));
        };
        if at != 0 {
            return Err(Error::Protocol("an answer out of turn"));
        }
        let Some(asked) = self.asked.pop_front() else { return Ok(Some(length)) };
        let data = &frame[ANSWER..];
        let expected = if frame[4] == 0 { asked.into.map_or(0, |span| span.bytes) } else { 0 };
        if data.len() as u64 != expected {
            return Err(Error::Protocol("an answer of another length than asked"));
        }
        let result = match (frame[4], asked.into) {
            (0, Some(span)) => {
                // The buffer is registered, or the operation would have been cancelled.
                copy_in(local.buffer(span.buffer)?.memory().range(span.offset, span.bytes)?, data);
                Ok(())
            }
            (0, None) => Ok(()),
            (1, _) => Err(Failure::OutOfBounds),
            (2, _) => Err(Failure::Denied),
            _ => return Err(Error::Protocol("an unknown status")),
        };
        done.push_back(Completion { token: asked.token, result });
        Ok(Some(length))
    }
}

impl Connection for Tcp {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            fabric: self.fabric,
            one_sided: OneSided::Emulated,
            direct: false,
            atomicity_bytes: 8,
            completes_in_order: true,
            messages_follow_writes: false,
            written: Written::Visible,
            max_message_bytes: limits::MESSAGE_BYTES,
            max_outstanding: limits::OUTSTANDING,
            max_transfer_bytes: limits::TRANSFER_BYTES,
        }
    }

    fn regions(&self) -> &[RemoteRegion] {
        &self.regions
    }

    fn register(&mut self, bytes: usize) -> Result<Buffer, Error> {
        self.local.register(bytes)
    }

    fn deregister(&mut self, buffer: &Buffer) -> Result<(), Error> {
        let id = self.local.deregister(buffer)?.id();
        let Some(desk) = &mut self.desk else { return Ok(()) };
        let (gone, left): (VecDeque<Asked>, _) = desk.asked.drain(..).partition(|asked| asked.buffer == id);
        desk.asked = left;
        self.done.extend(gone.iter().map(|a| Completion { token: a.token, result: Err(Failure::Cancelled) }));
        Ok(())
    }

    fn read(&mut self, region: u32, offset: u64, into: Span, token: u64) -> Result<(), Error> {
        self.ask(Kind::Read, region, offset, into, token)
    }

    fn write(&mut self, from: Span, region: u32, offset: u64, token: u64) -> Result<(), Error> {
        self.ask(Kind::Write, region, offset, from, token)
    }

    fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        self.queue(message)?;
        self.messages.flush()
    }

    fn queue(&mut self, message: &[u8]) -> Result<(), Error> {
        if message.len() > limits::MESSAGE_BYTES {
            return Err(Error::TooLarge { bytes: message.len() as u64, limit: limits::MESSAGE_BYTES as u64 });
        }
        if self.messages.unsent() > UNSENT {
            self.messages.flush()?;
        }
        if self.dead() {
            return Err(Error::PeerDead);
        }
        if self.messages.unsent() > UNSENT {
            return Err(Error::Full);
        }
        self.messages.put(&(message.len() as u32).to_le_bytes(), message)
    }

    fn flush(&mut self) -> Result<bool, Error> {
        self.messages.flush()?;
        Ok(self.messages.unsent() == 0)
    }

    fn receive(&mut self, into: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        if self.broken {
            return Err(Error::PeerDead);
        }
        self.messages.flush()?;
        loop {
            if let Some(bytes) = self.take_message(into)? {
                return Ok(Some(bytes));
            }
            if !self.messages.fill()? {
                return if self.messages.ended { Err(Error::PeerDead) } else { Ok(None) };
            }
        }
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) -> Result<usize, Error> {
        self.messages.flush()?;
        if !self.broken {
            self.attend(false)?;
        }
        if self.done.is_empty() && self.dead() {
            return Err(Error::PeerDead);
        }
        let count = self.done.len();
        completions.extend(self.done.drain(..));
        Ok(count)
    }

    fn arm(&mut self) -> Result<bool, Error> {
        self.messages.flush()?;
        if !self.broken {
            self.attend(true)?;
        }
        if self.dead() || !self.done.is_empty() || self.has_message() {
            return Ok(false);
        }
        self.listen_for_room()?;
        let rests =
            self.messages.rest(true)? && self.desk.as_mut().map_or(Ok(true), |d| d.stream.rest(true))?;
        if !rests {
            return Ok(false);
        }
        if let Some(desk) = &self.desk {
            // Wakes at the first deadline; zero, for none, disarms it.
            let left = desk.asked.front().map_or(Duration::ZERO, |asked| {
                asked.deadline.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1))
            });
            let value = Timespec {
                tv_sec: left.as_secs().min(1 << 30) as i64,
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            let spec = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
            rustix::time::timerfd_settime(&desk.timer, TimerfdTimerFlags::empty(), &spec)
                .map_err(Error::system("timerfd_settime"))?;
        }
        Ok(true)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.as_fd())
    }
}
