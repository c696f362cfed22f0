//! The thread that serves one-sided accesses for those who come over TCP.

use super::stream::Stream;
use super::{ANSWER, Kind, REQUEST, Status, length, word};
use crate::words::{append, copy_in};
use crate::{Access, Error, Mapping, limits, memory};
use rustix::event::{EventfdFlags, epoll, eventfd};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// No more requests are taken from a peer that has so many bytes of answers to fetch.
const ANSWERS: usize = 1 << 20;
const NEWS: u64 = 0;

/// A region as one connection may use it.
pub(crate) struct Opened {
    pub key: u64,
    pub access: Access,
    pub memory: Arc<Mapping>,
}

enum Order {
    Serve(u64, Stream, Vec<Opened>),
    Leave(u64),
    Stop,
}

struct Shared {
    orders: Mutex<Vec<Order>>,
    bell: OwnedFd,
}

impl Shared {
    fn order(&self, order: Order) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).push(order);
        // The counter cannot be full: the agent takes it at every turn.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

/// The agent of a listener. Ends with its last user.
pub(crate) struct Agent {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A connection's place at the agent; given up on drop.
pub(crate) struct Seat {
    agent: Arc<Agent>,
    number: u64,
}

impl Agent {
    pub fn start() -> Result<Agent, Error> {
        let bell =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(Error::system("eventfd"))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Error::system("epoll_create"))?;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(NEWS), epoll::EventFlags::IN)
            .map_err(Error::system("epoll_ctl"))?;
        let shared = Arc::new(Shared { orders: Mutex::new(Vec::new()), bell });
        let agent = Desk { shared: shared.clone(), epoll, visitors: HashMap::new() };
        let thread = std::thread::Builder::new().name("fabric-agent".to_owned()).spawn(move || agent.run());
        let thread = thread
            .map_err(|_| Error::System { what: "starting an agent", source: rustix::io::Errno::AGAIN })?;
        Ok(Agent { shared, thread: Some(thread) })
    }

    /// Serves a socket until it ends or the seat is given up. `number` is not zero.
    pub fn serve(self: &Arc<Agent>, number: u64, stream: Stream, regions: Vec<Opened>) -> Seat {
        self.shared.order(Order::Serve(number, stream, regions));
        Seat { agent: self.clone(), number }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.agent.shared.order(Order::Leave(self.number));
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.shared.order(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Visitor {
    stream: Stream,
    regions: Vec<Opened>,
    wants_out: bool,
}

struct Desk {
    shared: Arc<Shared>,
    epoll: OwnedFd,
    visitors: HashMap<u64, Visitor>,
}

impl Desk {
    fn run(mut self) {
        let mut events = Vec::with_capacity(64);
        loop {
            events.clear();
            let waited = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None);
            if !matches!(waited, Ok(_) | Err(rustix::io::Errno::INTR)) {
                return;
            }
            for event in &events {
                match event.data.u64() {
                    NEWS => {
                        if self.take_orders() {
                            return;
                        }
                    }
                    number => self.serve(number),
                }
            }
        }
    }

    /// `true`: stop.
    fn take_orders(&mut self) -> bool {
        let _ = rustix::io::read(&self.shared.bell, &mut [0; 8]);
        let orders = std::mem::take(&mut *self.shared.orders.lock().unwrap_or_else(PoisonError::into_inner));
        for order in orders {
            match order {
                Order::Serve(number, stream, regions) => {
                    let data = epoll::EventData::new_u64(number);
                    if epoll::add(&self.epoll, stream.fd(), data, epoll::EventFlags::IN).is_ok() {
                        self.visitors.insert(number, Visitor { stream, regions, wants_out: false });
                        self.serve(number);
                    }
                }
                Order::Leave(number) => drop(self.visitors.remove(&number)),
                Order::Stop => return true,
            }
        }
        false
    }

    /// Serves what a visitor has asked; one that breaks the protocol is shown out.
    fn serve(&mut self, number: u64) {
        let Some(visitor) = self.visitors.get_mut(&number) else { return };
        let stays = visitor.work().is_ok() && !visitor.stream.ended;
        let wants_out = visitor.stream.unsent() > 0;
        if !stays {
            self.visitors.remove(&number);
        } else if wants_out != visitor.wants_out {
            visitor.wants_out = wants_out;
            // While answers wait, no further requests are taken.
            let flags = if wants_out { visitor.stream.room() } else { epoll::EventFlags::IN };
            let data = epoll::EventData::new_u64(number);
            if epoll::modify(&self.epoll, visitor.stream.fd(), data, flags).is_err() {
                self.visitors.remove(&number);
            }
        }
    }
}

impl Visitor {
    /// Serves until there is nothing to do.
    fn work(&mut self) -> Result<(), Error> {
        loop {
            self.turn()?;
            // While answers wait, no further requests are taken.
            let wants_input = self.stream.unsent() == 0;
            if self.stream.ended || self.stream.rest(wants_input)? {
                return Ok(());
            }
        }
    }

    fn turn(&mut self) -> Result<(), Error> {
        self.stream.flush()?;
        loop {
            while self.stream.unsent() < ANSWERS {
                let Some(used) = self.answer()? else { break };
                self.stream.consume(used);
            }
            self.stream.flush()?;
            if self.stream.unsent() > 0 || !self.stream.fill()? {
                return Ok(());
            }
        }
    }

    /// Answers the first request that has come in wholly; how long it was.
    fn answer(&mut self) -> Result<Option<usize>, Error> {
        let input = self.stream.input();
        let Some(length) = length(input) else { return Ok(None) };
        if !(REQUEST..=REQUEST + limits::TRANSFER_BYTES as usize).contains(&length) {
            return Err(Error::Protocol("a request of impossible length"));
        }
        let Some(frame) = input.get(..length) else { return Ok(None) };
        let (number, key, offset, bytes) =
            (word(frame, 8), word(frame, 16), word(frame, 24), word(frame, 32));
        let kind = match frame[4] {
            1 if length == REQUEST => Kind::Read,
            2 if length as u64 - REQUEST as u64 == bytes => Kind::Write,
            _ => return Err(Error::Protocol("an unknown request")),
        };
        let found = self.regions.iter().find(|r| r.key == key);
        let status = match found {
            None => Status::Denied,
            Some(region) if kind == Kind::Write && region.access != Access::ReadWrite => Status::Denied,
            Some(_) if bytes > limits::TRANSFER_BYTES => Status::OutOfBounds,
            Some(region) if memory::check(offset, bytes, region.memory.len()).is_err() => Status::OutOfBounds,
            Some(_) => Status::Done,
        };
        let mut data = Vec::new();
        if let (Status::Done, Some(region)) = (status, found) {
            let words = region.memory.range(offset, bytes)?;
            match kind {
                Kind::Read => append(words, bytes as usize, &mut data),
                Kind::Write => copy_in(words, &frame[REQUEST..]),
            }
            // What was read is not older than the answer, what was written not younger.
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        }
        let out = self.stream.out();
        out.extend(((ANSWER + data.len()) as u32).to_le_bytes());
        out.extend([status as u8, 0, 0, 0]);
        out.extend(number.to_le_bytes());
        out.extend(&data);
        Ok(Some(length))
    }
}
