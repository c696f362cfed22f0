//! Requests under way, from both sides: who waits, and who answers.

use super::block::Block;
use super::error::IoError;
use crate::protocol::VolumeInfo;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// What is to be done.
pub(crate) enum Work {
    Open,
    List,
    Read(Vec<(u64, u32)>),
    Write(u64, Vec<u8>),
    Flush,
    Trim(u64, u32),
}

/// What comes of it.
pub(crate) enum Answer {
    Block(Block),
    Volume(VolumeInfo),
}

#[derive(Default)]
struct State {
    answer: Option<Result<Answer, IoError>>,
    waker: Option<Waker>,
    abandoned: bool,
}

/// Where a request and its answer meet.
#[derive(Default)]
pub(crate) struct Ticket {
    state: Mutex<State>,
    news: Condvar,
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ticket {
    pub fn answer(&self, answer: Result<Answer, IoError>) {
        let mut state = locked(&self.state);
        if state.answer.is_none() && !state.abandoned {
            state.answer = Some(answer);
            let waker = state.waker.take();
            drop(state);
            self.news.notify_all();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    pub fn abandoned(&self) -> bool {
        locked(&self.state).abandoned
    }
}

/// What somebody wants of a volume, and until when.
pub(crate) struct Command {
    pub volume: Arc<str>,
    pub work: Work,
    pub ticket: Arc<Ticket>,
    pub deadline: Instant,
}

impl Command {
    /// A command, and where its answer will be.
    pub fn new(volume: &Arc<str>, work: Work, deadline: Instant) -> (Command, Request) {
        let ticket = Arc::new(Ticket::default());
        (Command { volume: volume.clone(), work, ticket: ticket.clone(), deadline }, Request { ticket })
    }
}

/// A request under way. Dropping it cancels it.
#[must_use = "a request that is dropped is cancelled"]
pub struct Request {
    ticket: Arc<Ticket>,
}

impl Request {
    pub(super) fn answer(self) -> Result<Answer, IoError> {
        let mut state = locked(&self.ticket.state);
        loop {
            if let Some(answer) = state.answer.take() {
                return answer;
            }
            state = self.ticket.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Its end, if it has come.
    #[cfg(test)]
    pub(crate) fn ended(&self) -> Option<Result<Answer, IoError>> {
        locked(&self.ticket.state).answer.take()
    }

    /// Waits for its end. (It ends in time: see [`RemoteOptions::request`].)
    ///
    /// # Errors
    /// [`IoError`].
    pub fn wait(self) -> Result<Block, IoError> {
        block(self.answer())
    }
}

fn block(answer: Result<Answer, IoError>) -> Result<Block, IoError> {
    match answer? {
        Answer::Block(block) => Ok(block),
        Answer::Volume(_) => Err(IoError::Protocol("a volume for a block")),
    }
}

impl Future for Request {
    type Output = Result<Block, IoError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = locked(&self.ticket.state);
        match state.answer.take() {
            Some(answer) => Poll::Ready(block(answer)),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        locked(&self.ticket.state).abandoned = true;
    }
}
