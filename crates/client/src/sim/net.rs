//! A client's way to the server: connections of the simulated network, at which its turn may end.
use super::{Shared, lock, turns::Turn};
use crate::Transport;
use kintsugidb_fabric::{
    Buffer, Capabilities, Completion, ConnectOptions, Connection, Error, RemoteRegion, Span,
};
use std::{
    os::fd::BorrowedFd,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Of a thousand operations that somebody else's could come before, at how many the turn ends.
const INTERRUPTED: usize = 100;

/// What a client's connections have in common.
#[derive(Clone)]
pub(super) struct Way {
    world: Shared,
    turn: Arc<Mutex<Turn>>,
    /// The number of the operation that the client is at.
    pub operation: Arc<Mutex<usize>>,
}

impl Way {
    pub fn new(world: Shared, turn: Turn) -> Self {
        Self { world, turn: Arc::new(Mutex::new(turn)), operation: Arc::default() }
    }

    /// Lets others run.
    pub fn pass(&self) {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner).pass();
    }

    /// Lets others run, now and then.
    fn pass_sometimes(&self) {
        if lock(&self.world).rng.chance(INTERRUPTED) {
            self.pass();
        }
    }

    /// Something has come: time need not hurry.
    fn came(&self) {
        lock(&self.world).idle = 0;
    }
}

impl Transport for Way {
    fn connect(&self, options: &ConnectOptions) -> Result<Box<dyn Connection>, Error> {
        let mut world = lock(&self.world);
        let now_us = world.now_us();
        let network = world.network.clone();
        let (inner, id) = world.server.connect(&network, options, now_us)?;
        Ok(Box::new(Sim { inner, id, way: self.clone() }))
    }

    fn now(&self) -> Duration {
        lock(&self.world).network.now()
    }
}

/// One connection.
struct Sim {
    inner: Box<dyn Connection>,
    id: u64,
    way: Way,
}

impl Connection for Sim {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn regions(&self) -> &[RemoteRegion] {
        self.inner.regions()
    }

    fn register(&mut self, bytes: usize) -> Result<Buffer, Error> {
        self.inner.register(bytes)
    }

    fn deregister(&mut self, buffer: &Buffer) -> Result<(), Error> {
        self.inner.deregister(buffer)
    }

    fn read(&mut self, region: u32, offset: u64, into: Span, token: u64) -> Result<(), Error> {
        self.way.pass_sometimes();
        self.inner.read(region, offset, into, token)
    }

    fn write(&mut self, from: Span, region: u32, offset: u64, token: u64) -> Result<(), Error> {
        self.inner.write(from, region, offset, token)
    }

    fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        self.way.pass_sometimes();
        self.inner.send(message)?;
        let operation = *self.way.operation.lock().unwrap_or_else(PoisonError::into_inner);
        lock(&self.way.world).server.sent(self.id, operation);
        Ok(())
    }

    fn receive(&mut self, into: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        let got = self.inner.receive(into)?;
        match got {
            Some(_) => self.way.came(),
            None => self.way.pass_sometimes(),
        }
        Ok(got)
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) -> Result<usize, Error> {
        let n = self.inner.poll(completions)?;
        if n > 0 {
            self.way.came()
        } else {
            self.way.pass_sometimes()
        }
        Ok(n)
    }

    fn arm(&mut self) -> Result<bool, Error> {
        self.inner.arm()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn wait(&mut self, limit: Duration) -> Result<bool, Error> {
        let end = self.way.now() + limit;
        while self.inner.arm()? {
            if self.way.now() >= end {
                return Ok(false);
            }
            self.way.pass();
        }
        Ok(true)
    }
}
