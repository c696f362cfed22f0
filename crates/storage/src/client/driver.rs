//! What a remote does with one channel at a time: opens volumes, sends requests, ends them in time, connects again. No thread, no clock
//! and no sleep of its own, so that a simulation can drive it.
//!
//! A request is in one place at a time: *queued* (not sent on the present connection), *opening* (its volume is being opened), or *sent*.
//! Its token is never used again. An entry of *sent* without a command is a request that nobody waits for, whose place is still the
//! target's.

use super::channel::{Channel, Finished, NoRoom};
use super::error::IoError;
use super::request::{Answer, Command, Work};
use crate::protocol::VolumeInfo;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(50);
/// Between two looks at deadlines and abandoned requests.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// Limits of time.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Patience {
    /// What a request may take: only to be told, a command has its deadline.
    pub request: Duration,
    /// How long to try to reach the target again before requests fail.
    pub reconnect: Duration,
}

/// Makes connections.
pub(crate) type Connector = Box<dyn FnMut() -> Result<Channel, IoError> + Send>;

/// A volume, on the present connection.
enum Handle {
    Opening(Vec<Command>),
    Open(VolumeInfo),
}

/// What was sent and not answered.
enum Sent {
    Opening(Arc<str>, Instant),
    /// Without a command: its time is over, or nobody waits for it.
    Request(Option<Command>, Instant),
}

/// The driver.
pub(crate) struct Driver {
    patience: Patience,
    connector: Connector,
    pub channel: Option<Channel>,
    handles: BTreeMap<Arc<str>, Handle>,
    queue: VecDeque<Command>,
    /// In the order in which they were sent, so that the same events make the same run.
    sent: BTreeMap<u64, Sent>,
    next: u64,
    heard: Instant,
    looked: Instant,
    /// Since when there is no connection, and the last reason.
    lost: Option<(Instant, IoError)>,
    retry: Instant,
    /// A request waits for room in the channel.
    pub no_room: bool,
    reconnections: u64,
    finished: Vec<Finished>,
    #[cfg(test)]
    pub(crate) sabotage: Option<crate::simulation::Sabotage>,
}

impl Driver {
    /// With a first channel.
    pub fn new(patience: Patience, connector: Connector, channel: Channel, now: Instant) -> Driver {
        Driver {
            patience,
            connector,
            channel: Some(channel),
            handles: BTreeMap::new(),
            queue: VecDeque::new(),
            sent: BTreeMap::new(),
            next: 0,
            heard: now,
            looked: now,
            lost: None,
            retry: now,
            no_room: false,
            reconnections: 0,
            finished: Vec::new(),
            #[cfg(test)]
            sabotage: None,
        }
    }

    /// Requests that are with the target, whether anybody waits for them or not.
    #[cfg(test)]
    pub fn under_way(&self) -> usize {
        self.sent.len() + self.queue.len()
    }

    /// Takes commands over.
    pub fn take(&mut self, commands: impl IntoIterator<Item = Command>) {
        self.queue.extend(commands);
    }

    /// How often the connection was made again.
    pub fn reconnections(&self) -> u64 {
        self.reconnections
    }

    /// How soon it has something to do although nothing comes. `None`: never.
    pub fn patience(&self) -> Option<Duration> {
        match (self.no_room, self.queue.is_empty(), self.sent.is_empty()) {
            // A block that is dropped makes room without ringing.
            (true, ..) => Some(Duration::from_millis(1)),
            (_, true, true) => None,
            _ => Some(LOOK),
        }
    }

    /// Does what there is to do. Whether anything came.
    pub fn turn(&mut self, now: Instant) -> bool {
        if self.channel.is_none() {
            self.reconnect(now);
        }
        self.issue(now);
        let heard = self.hear(now);
        if now.saturating_duration_since(self.looked) >= LOOK {
            self.looked = now;
            self.look(now);
        }
        heard
    }

    /// Ends all requests.
    pub fn fail_all(&mut self, why: &IoError) {
        let sent = std::mem::take(&mut self.sent).into_values().filter_map(|sent| match sent {
            Sent::Request(command, _) => command,
            Sent::Opening(..) => None,
        });
        let opening = std::mem::take(&mut self.handles).into_values().flat_map(|handle| match handle {
            Handle::Opening(commands) => commands,
            Handle::Open(_) => Vec::new(),
        });
        for command in self.queue.drain(..).chain(sent).chain(opening) {
            command.ticket.answer(Err(why.clone()));
        }
    }

    fn reconnect(&mut self, now: Instant) {
        if now < self.retry || self.queue.is_empty() {
            return;
        }
        match (self.connector)() {
            Ok(channel) => {
                self.channel = Some(channel);
                self.lost = None;
                self.heard = now;
                self.reconnections += 1;
            }
            Err(why) => {
                self.retry = now + RETRY;
                let since = self.lost.as_ref().map_or(now, |(since, _)| *since);
                if now.saturating_duration_since(since) >= self.patience.reconnect {
                    self.fail_all(&why);
                    self.lost = None;
                } else {
                    self.lost = Some((since, why));
                }
            }
        }
    }

    /// The connection is of no use any more. What is safe to be sent again is queued again, in the order of before.
    fn disconnect(&mut self, why: IoError, now: Instant) {
        self.channel = None;
        self.lost = Some((now, why));
        self.retry = now;
        let mut again = Vec::new();
        for sent in std::mem::take(&mut self.sent).into_values() {
            let Sent::Request(Some(command), _) = sent else { continue };
            match command.work {
                #[cfg(test)]
                Work::Write(..) if self.sabotage == Some(crate::simulation::Sabotage::RepeatsWrites) => {
                    again.push(command)
                }
                Work::Read(_) | Work::Open | Work::List => again.push(command),
                Work::Write(..) | Work::Trim(..) => {
                    command.ticket.answer(Err(IoError::Lost { unknown: true }))
                }
                Work::Flush => command.ticket.answer(Err(IoError::Lost { unknown: false })),
            }
        }
        for handle in std::mem::take(&mut self.handles).into_values() {
            if let Handle::Opening(waiting) = handle {
                again.extend(waiting);
            }
        }
        again.into_iter().rev().for_each(|command| self.queue.push_front(command));
    }

    /// Sends what is queued, as far as there is room.
    fn issue(&mut self, now: Instant) {
        self.no_room = false;
        while let Some(command) = self.queue.pop_front() {
            if self.channel.is_none() {
                return self.queue.push_front(command);
            }
            if command.ticket.abandoned() {
                continue;
            }
            match self.begin(command, now) {
                Ok(None) => {}
                Ok(Some(command)) => {
                    self.no_room = true;
                    return self.queue.push_front(command);
                }
                Err((command, why)) => {
                    self.queue.push_front(command);
                    return self.disconnect(why, now);
                }
            }
        }
    }

    /// Sends one. It comes back if there is no room for it, or if the connection is lost.
    fn begin(&mut self, command: Command, now: Instant) -> Result<Option<Command>, (Command, IoError)> {
        let Some(channel) = self.channel.as_mut() else { return Ok(Some(command)) };
        let token = self.next;
        if matches!(command.work, Work::List) {
            return match channel.list(token) {
                Ok(Ok(())) => {
                    self.next += 1;
                    self.sent.insert(token, Sent::Request(Some(command), now));
                    Ok(None)
                }
                Ok(Err(NoRoom)) => Ok(Some(command)),
                Err(why) => Err((command, why)),
            };
        }
        let info = match self.handles.get_mut(&command.volume) {
            // An opening is asked of the target anew: the volume's length may have changed.
            Some(Handle::Open(info)) if !matches!(command.work, Work::Open) => *info,
            Some(Handle::Opening(waiting)) => {
                waiting.push(command);
                return Ok(None);
            }
            _ => {
                let begun = channel.begin_open(&command.volume, token);
                match begun {
                    Ok(Ok(())) => {}
                    Ok(Err(NoRoom)) => return Ok(Some(command)),
                    Err(why) => return Err((command, why)),
                }
                self.next += 1;
                self.sent.insert(token, Sent::Opening(command.volume.clone(), now));
                self.handles.insert(command.volume.clone(), Handle::Opening(vec![command]));
                return Ok(None);
            }
        };
        let begun = match &command.work {
            Work::Open | Work::List => Ok(Ok(())),
            Work::Read(ranges) => channel.read(info.handle, ranges, token),
            Work::Write(offset, bytes) => channel.write(info.handle, *offset, bytes, token),
            Work::Flush => channel.flush(info.handle, token),
            Work::Trim(offset, bytes) => channel.trim(info.handle, *offset, *bytes, token),
        };
        match begun {
            Ok(Ok(())) => {
                self.next += 1;
                self.sent.insert(token, Sent::Request(Some(command), now));
            }
            Ok(Err(NoRoom)) => return Ok(Some(command)),
            Err(IoError::TooMuch) => command.ticket.answer(Err(IoError::TooMuch)),
            Err(why) => return Err((command, why)),
        }
        Ok(None)
    }

    /// Whether anything came.
    fn hear(&mut self, now: Instant) -> bool {
        let Some(channel) = self.channel.as_mut() else { return false };
        let mut finished = std::mem::take(&mut self.finished);
        let polled = channel.poll(&mut finished);
        for Finished { token, result } in finished.drain(..) {
            match self.sent.remove(&token) {
                Some(Sent::Request(Some(command), _)) => command.ticket.answer(result.map(Answer::Block)),
                Some(Sent::Opening(volume, _)) => self.opened(&volume, result),
                Some(Sent::Request(None, _)) | None => {}
            }
        }
        self.finished = finished;
        match polled {
            Ok(0) => false,
            Ok(_) => {
                self.heard = now;
                true
            }
            Err(why) => {
                self.disconnect(why, now);
                true
            }
        }
    }

    /// The end of an opening: those that waited for it go on.
    fn opened(&mut self, volume: &Arc<str>, result: Result<super::Block, IoError>) {
        let Some(Handle::Opening(waiting)) = self.handles.remove(volume) else { return };
        let info = result.and_then(|block| {
            VolumeInfo::parse(&block.to_vec()).ok_or(IoError::Protocol("a volume without a description"))
        });
        match info {
            Ok(info) => {
                self.handles.insert(volume.clone(), Handle::Open(info));
                for command in waiting.into_iter().rev() {
                    match command.work {
                        Work::Open => command.ticket.answer(Ok(Answer::Volume(info))),
                        _ => self.queue.push_front(command),
                    }
                }
            }
            Err(why) => waiting.into_iter().for_each(|command| command.ticket.answer(Err(why.clone()))),
        }
    }

    /// Ends what has taken too long, and cancels what nobody waits for.
    fn look(&mut self, now: Instant) {
        let limit_ms = self.patience.request.as_millis() as u64;
        let over = |command: &Command| {
            let late = command.deadline <= now;
            if late {
                command.ticket.answer(Err(IoError::TimedOut { limit_ms }));
            }
            late || command.ticket.abandoned()
        };
        self.queue.retain(|command| !over(command));
        let mut silent = false;
        for (token, sent) in &mut self.sent {
            let (gone, at) = match sent {
                Sent::Request(Some(command), at) if over(command) => (command.deadline <= now, *at),
                Sent::Opening(volume, at) => {
                    let Some(Handle::Opening(waiting)) = self.handles.get_mut(volume) else { continue };
                    silent |= waiting.iter().any(|command| command.deadline <= now) && self.heard < *at;
                    waiting.retain(|command| !over(command));
                    continue;
                }
                Sent::Request(..) => continue,
            };
            silent |= gone && self.heard < at;
            *sent = Sent::Request(None, at);
            if let Some(channel) = self.channel.as_mut() {
                channel.cancel(*token);
            }
        }
        if silent {
            self.disconnect(IoError::TimedOut { limit_ms }, now);
        }
    }
}
