//! One side of a simulated connection.

use super::{Event, Network, Operation, State};
use crate::local::Local;
use crate::{
    Access, Buffer, Capabilities, Completion, Connection, Error, Fabric, Failure, Mapping, OneSided,
    RemoteRegion, Span, Written, limits,
};
use std::cmp::Reverse;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// What a poll takes of virtual time, in nanoseconds.
const POLL_NS: u64 = 50;
/// Bytes of messages on their way, before the sender is told to wait.
const IN_FLIGHT: usize = 256 << 10;

/// One side of a simulated connection.
pub(super) struct Sim {
    pub network: Network,
    pub link: usize,
    pub side: usize,
    pub regions: Vec<RemoteRegion>,
    pub mappings: Vec<Arc<Mapping>>,
    pub local: Local,
    pub starved: bool,
}

impl Sim {
    fn post(
        &mut self,
        region: u32,
        offset: u64,
        span: Span,
        access: Access,
        token: u64,
    ) -> Result<(), Error> {
        let mut state = self.network.state();
        if state.links[self.link].cut {
            return Err(Error::PeerDead);
        }
        let (at, words) = self.local.check(&self.regions, region, offset, span, access)?;
        let own = &state.links[self.link].sides[self.side];
        if own.operations.len() + own.done.len() >= limits::OUTSTANDING {
            return Err(Error::Full);
        }
        let mut words: Vec<u32> = (0..words.len() as u32).rev().collect();
        if state.config.shuffle {
            for i in (1..words.len()).rev() {
                words.swap(i, state.random(i as u64 + 1) as usize);
            }
        }
        let steps = state.config.steps.max(1) as u64;
        let steps = 1 + state.random(steps) as usize;
        let region_side = (self.mappings[at].clone(), (offset / 8) as usize);
        let local_side = (self.local.buffer(span.buffer)?.memory().clone(), (span.offset / 8) as usize);
        let (from, into) =
            if access == Access::Read { (region_side, local_side) } else { (local_side, region_side) };
        let chunk = words.len().div_ceil(steps).max(1);
        state.count += 1;
        let number = state.count;
        let operation = Operation { token, region, buffer: span.buffer, from, into, words, chunk };
        let (link, side) = (self.link, self.side);
        state.links[link].sides[side].operations.insert(number, operation);
        let time = state.now + state.delay();
        state.at(time, Event::Step { link, side, operation: number });
        if state.config.one_sided == OneSided::Emulated {
            let time = state.now + state.links[self.link].limit_ns;
            state.at(time, Event::Late { link, side, operation: number });
        }
        state.chance_of_a_cut(self.link);
        Ok(())
    }

    fn has_news(&self, state: &State) -> bool {
        let link = &state.links[self.link];
        let room = self.starved && link.sides[1 - self.side].waiting() <= IN_FLIGHT;
        link.cut
            || room
            || !link.sides[self.side].arrived.is_empty()
            || !link.sides[self.side].done.is_empty()
    }
}

impl Connection for Sim {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            fabric: Fabric::Sim,
            one_sided: self.network.state().config.one_sided,
            direct: false,
            atomicity_bytes: 8,
            completes_in_order: false,
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
        let mut state = self.network.state();
        let own = &mut state.links[self.link].sides[self.side];
        let gone: Vec<u64> = own.operations.iter().filter(|(_, o)| o.buffer == id).map(|(n, _)| *n).collect();
        for number in gone {
            if let Some(operation) = own.operations.remove(&number) {
                own.done.push_back(Completion { token: operation.token, result: Err(Failure::Cancelled) });
            }
        }
        Ok(())
    }

    fn read(&mut self, region: u32, offset: u64, into: Span, token: u64) -> Result<(), Error> {
        self.post(region, offset, into, Access::Read, token)
    }

    fn write(&mut self, from: Span, region: u32, offset: u64, token: u64) -> Result<(), Error> {
        self.post(region, offset, from, Access::ReadWrite, token)
    }

    fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        if message.len() > limits::MESSAGE_BYTES {
            return Err(Error::TooLarge { bytes: message.len() as u64, limit: limits::MESSAGE_BYTES as u64 });
        }
        let mut state = self.network.state();
        if state.links[self.link].cut {
            return Err(Error::PeerDead);
        }
        let delay = state.delay();
        let (now, link, side) = (state.now, self.link, 1 - self.side);
        let to = &mut state.links[link].sides[side];
        if to.waiting() > IN_FLIGHT {
            self.starved = true;
            let until = now + POLL_NS;
            state.advance(until);
            return Err(Error::Full);
        }
        self.starved = false;
        to.in_flight += message.len();
        to.last_arrival = to.last_arrival.max(now + delay);
        let time = to.last_arrival;
        state.at(time, Event::Arrive { link, side, message: message.to_vec() });
        state.chance_of_a_cut(link);
        Ok(())
    }

    fn receive(&mut self, into: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        let mut state = self.network.state();
        let until = state.now + POLL_NS;
        state.advance(until);
        let link = &mut state.links[self.link];
        match link.sides[self.side].arrived.pop_front() {
            Some(message) => {
                into.extend_from_slice(&message);
                Ok(Some(message.len()))
            }
            None if link.cut => Err(Error::PeerDead),
            None => Ok(None),
        }
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) -> Result<usize, Error> {
        let mut state = self.network.state();
        let until = state.now + POLL_NS;
        state.advance(until);
        let link = &mut state.links[self.link];
        let cut = link.cut;
        let done = &mut link.sides[self.side].done;
        if done.is_empty() {
            return if cut { Err(Error::PeerDead) } else { Ok(0) };
        }
        let count = done.len();
        completions.extend(done.drain(..));
        Ok(count)
    }

    fn arm(&mut self) -> Result<bool, Error> {
        Ok(!self.has_news(&self.network.state()))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Lets time pass until there is something to do, at most so long.
    fn wait(&mut self, limit: Duration) -> Result<bool, Error> {
        let mut state = self.network.state();
        let end = state.now.saturating_add(limit.as_nanos() as u64);
        while !self.has_news(&state) {
            match state.events.peek() {
                Some(&Reverse((time, _))) if time <= end => state.advance(time),
                _ => {
                    state.now = end;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        let mut state = self.network.state();
        // What was sent before the end arrives before it: the other side sees the end a delay after the last message.
        let last = state.links[self.link].sides[1 - self.side].last_arrival;
        let time = last.max(state.now) + 1;
        state.at(time, Event::Cut { link: self.link });
    }
}
