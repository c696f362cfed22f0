//! A thread of a target: its connections, its engine, its sleep.

use super::Shared;
use super::service::{Heard, Sent, Service};
use crate::engine::{self, Done, Engine, Faulty, Job};
use crate::limits;
use crate::protocol::{AREA_REGION, Info};
use kintsugidb_fabric::handshake::Hello;
use kintsugidb_fabric::{Access, Export, Fabric, Grant, Listener, Mapping, Peer, Refusal, RefusalCode};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

pub(super) struct Thread {
    shared: Arc<Shared>,
    number: usize,
    listeners: Vec<Box<dyn Listener>>,
    engine: Box<dyn Engine>,
    epoll: OwnedFd,
    connections: Vec<Option<Connected>>,
    jobs: Vec<Job>,
    done: Vec<Done>,
    /// Connections that the engine has done something for.
    answered: Vec<usize>,
    /// The door that the next connection goes through.
    next: usize,
    /// When the listeners were last looked at: handshakes have a limit of time.
    accepted: Instant,
}

/// A connection and how awake it is.
struct Connected {
    service: Service,
    /// Looks that found nothing, one after another.
    fruitless: u32,
    asleep: bool,
}

const DOOR: u64 = 2 << 32;
const LISTENER: u64 = 3 << 32;
/// How often listeners are looked at for handshakes whose time is over.
const HANDSHAKES: Duration = Duration::from_secs(1);
/// Turns between two looks at those that sleep, while others are awake.
const TURNS_BETWEEN_LOOKS: u32 = 32;

impl Thread {
    pub fn new(
        shared: Arc<Shared>,
        number: usize,
        listeners: Vec<Box<dyn Listener>>,
    ) -> Result<Thread, Errno> {
        if shared.options.pin {
            pin_to(number);
        }
        let note = shared.options.note.clone();
        let mut engine = engine::open(shared.options.engine, |text| note(text))?;
        if !shared.options.faults.is_empty() {
            engine = Box::new(Faulty::new(engine, shared.options.faults.clone()));
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let watch = |fd: std::os::fd::BorrowedFd<'_>, data| {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(data), epoll::EventFlags::IN)
        };
        watch(shared.doors[number].bell.as_fd(), DOOR)?;
        for listener in &listeners {
            watch(listener.fd(), LISTENER)?;
        }
        Ok(Thread {
            shared,
            number,
            listeners,
            engine,
            epoll,
            connections: Vec::new(),
            jobs: Vec::new(),
            done: Vec::new(),
            answered: Vec::new(),
            next: 0,
            accepted: Instant::now(),
        })
    }

    pub fn serve(mut self) -> Result<(), Errno> {
        let mut turns = 0u32;
        while !self.shared.stop.load(Ordering::Relaxed) {
            let mut awake = false;
            for at in 0..self.connections.len() {
                awake |= self.listen_to(at);
            }
            self.engine.kick()?;
            let ended = self.reap()?;
            turns += 1;
            if awake || ended > 0 {
                if turns >= TURNS_BETWEEN_LOOKS {
                    turns = 0;
                    self.look_around()?;
                }
                continue;
            }
            turns = 0;
            let limit = if self.listeners.is_empty() { None } else { Some(HANDSHAKES) };
            if self.engine.rest(Some(self.epoll.as_fd()), limit)? {
                self.look_around()?;
            }
            if limit.is_some_and(|limit| self.accepted.elapsed() >= limit) {
                self.accept()?;
            }
        }
        Ok(())
    }

    /// Takes messages of one connection. Whether it is awake afterwards.
    fn listen_to(&mut self, at: usize) -> bool {
        let Some(Some(connected)) = self.connections.get_mut(at) else { return false };
        if connected.asleep || !connected.service.open() {
            return false;
        }
        let heard = connected.service.hear(&mut self.jobs);
        for mut job in self.jobs.drain(..) {
            job.token |= (at as u64) << 32;
            self.engine.submit(job);
        }
        match heard {
            Heard::Messages(0) => {}
            Heard::Messages(_) => {
                connected.fruitless = 0;
                return true;
            }
            Heard::Nonsense => {
                (self.shared.options.note)("a peer does not speak the storage protocol".into());
                self.close(at);
                return false;
            }
            Heard::End => {
                self.close(at);
                return false;
            }
        }
        connected.fruitless += 1;
        if connected.fruitless <= self.shared.options.spin {
            return true;
        }
        connected.fruitless = 0;
        match connected.service.arm() {
            Some(armed) => {
                connected.asleep = armed;
                !armed
            }
            None => {
                self.close(at);
                false
            }
        }
    }

    /// Takes what the engine has done, then sends the replies of all of it.
    fn reap(&mut self) -> Result<usize, Errno> {
        self.engine.complete(&mut self.done)?;
        let count = self.done.len();
        let mut answered = std::mem::take(&mut self.answered);
        for Done { token, result } in self.done.drain(..) {
            let at = (token >> 32) as usize;
            let Some(Some(connected)) = self.connections.get_mut(at) else { continue };
            connected.service.done(token & u64::from(u32::MAX), result);
            if answered.last() != Some(&at) {
                answered.push(at);
            }
        }
        for at in answered.drain(..) {
            let Some(Some(connected)) = self.connections.get_mut(at) else { continue };
            match connected.service.send() {
                Sent::All => {}
                Sent::NotAll => connected.asleep = false,
                Sent::End => self.close(at),
            }
            self.bury(at);
        }
        self.answered = answered;
        Ok(count)
    }

    /// Looks at everything that has a descriptor, and at those that sleep.
    fn look_around(&mut self) -> Result<(), Errno> {
        const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut events = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; 64];
        let events = match epoll::wait(&self.epoll, &mut events[..], Some(&AT_ONCE)) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(why) => return Err(why),
        };
        let mut visitors = false;
        for event in events.iter() {
            match event.data.u64() {
                DOOR => {
                    let mut bells = [0; 8];
                    // Empties the bell; it is not blocking.
                    let _ = rustix::io::read(&self.shared.doors[self.number].bell, &mut bells);
                    let mut door =
                        self.shared.doors[self.number].arrived.lock().unwrap_or_else(PoisonError::into_inner);
                    let arrived = std::mem::take(&mut *door);
                    drop(door);
                    for service in arrived {
                        self.take_in(service)?;
                    }
                }
                LISTENER => visitors = true,
                at => {
                    if let Some(Some(connected)) = self.connections.get_mut(at as usize) {
                        connected.asleep = false;
                    }
                }
            }
        }
        if visitors { self.accept() } else { Ok(()) }
    }

    fn accept(&mut self) -> Result<(), Errno> {
        self.accepted = Instant::now();
        let shared = self.shared.clone();
        let mut area = None;
        for listener in &mut self.listeners {
            loop {
                let mut gate = |hello: &Hello, _: &Peer| admit(&shared, hello, &mut area);
                match listener.accept(&mut gate) {
                    Ok(Some(accepted)) => {
                        // Over shared memory the area that was made last is this connection's: admission and acceptance are one call.
                        let mapped = accepted.connection.capabilities().fabric == Fabric::Shm;
                        let shared_area = area.take().filter(|_| mapped);
                        let Some(permissions) = shared.users.permissions(&accepted.user) else { continue };
                        let service = match Service::new(accepted.connection, permissions, shared_area) {
                            Ok(service) => service,
                            Err(why) => {
                                (shared.options.note)(format!("a connection is not served: {why}"));
                                continue;
                            }
                        };
                        let door = &shared.doors[self.next % shared.doors.len()];
                        self.next += 1;
                        shared.connections.fetch_add(1, Ordering::Relaxed);
                        door.arrived.lock().unwrap_or_else(PoisonError::into_inner).push(service);
                        door.ring();
                    }
                    Ok(None) => break,
                    Err(why) => {
                        (shared.options.note)(format!("{} does not accept: {why}", listener.address()));
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn take_in(&mut self, service: Service) -> Result<(), Errno> {
        let at = self.connections.iter().position(Option::is_none).unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        if let Some(fd) = service.fd() {
            epoll::add(&self.epoll, fd, epoll::EventData::new_u64(at as u64), epoll::EventFlags::IN)?;
        }
        if let Some(area) = service.area() {
            self.engine.adopt(area);
        }
        self.connections[at] = Some(Connected { service, fruitless: 0, asleep: false });
        Ok(())
    }

    fn close(&mut self, at: usize) {
        if let Some(Some(Connected { service, .. })) = self.connections.get_mut(at)
            && service.open()
        {
            if let Some(fd) = service.fd() {
                // The peer may hold the same socket, so that closing ours would not take it out.
                let _ = epoll::delete(&self.epoll, fd);
            }
            service.close();
            self.shared.connections.fetch_sub(1, Ordering::Relaxed);
        }
        self.bury(at);
    }

    /// Forgets a closed connection once nothing of it is under way.
    fn bury(&mut self, at: usize) {
        let Some(slot) = self.connections.get_mut(at) else { return };
        if slot.as_ref().is_some_and(|connected| connected.service.over()) {
            if let Some(area) = slot.as_ref().and_then(|connected| connected.service.area()) {
                self.engine.forget(area);
            }
            *slot = None;
        }
    }
}

fn admit(shared: &Shared, hello: &Hello, area: &mut Option<Arc<Mapping>>) -> Result<Grant, Refusal> {
    *area = None;
    shared.users.admit(&hello.user, &hello.password)?;
    if shared.connections.load(Ordering::Relaxed) >= shared.options.connections {
        return Err(Refusal { code: RefusalCode::Busy, reason: "too many connections".into() });
    }
    let mut exports = Vec::new();
    let mut area_bytes = 0;
    if hello.fabric == Fabric::Shm {
        let memory = Mapping::create(shared.options.area_bytes).map_err(|why| Refusal {
            code: RefusalCode::Internal,
            reason: format!("no memory for a data area: {why}"),
        })?;
        let memory = Arc::new(memory);
        *area = Some(memory.clone());
        area_bytes = shared.options.area_bytes;
        exports.push(Export { id: AREA_REGION, access: Access::ReadWrite, memory });
    }
    let info = Info {
        area_bytes,
        request_bytes: limits::REQUEST_BYTES,
        outstanding: limits::OUTSTANDING as u32,
        segments: limits::SEGMENTS as u32,
    };
    Ok(Grant { exports, info: info.encode() })
}

/// Keeps the calling thread on one core. Best effort: it is an optimisation.
fn pin_to(core: usize) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut set = rustix::thread::CpuSet::new();
    set.set(core % cores);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}
