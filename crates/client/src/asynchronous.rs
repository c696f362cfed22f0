//! The asynchronous face: a client on a thread of its own, and futures for what it does. They belong to no executor.
//!
//! One-sided reads take less time than it takes to wake a thread; where they matter, use a [`Client`] for each thread.
use crate::{Client, Error, Result, Value};
use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, mpsc},
    task::{Context, Poll, Waker},
    thread::JoinHandle,
};

type Job = Box<dyn FnOnce(&mut Client) + Send>;

/// A client whose operations are futures. They run in the order in which they were begun, whether or not they are awaited.
pub struct AsyncClient {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

struct State<T> {
    result: Option<Result<T>>,
    waker: Option<Waker>,
}

/// The result of an operation under way.
pub struct Pending<T> {
    state: Arc<Mutex<State<T>>>,
}

/// Completes the future, also if the operation never ends in order.
struct Promise<T>(Arc<Mutex<State<T>>>);

impl<T> Promise<T> {
    fn keep(&self, result: Result<T>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.result.is_none() {
            state.result = Some(result);
        }
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        // After `keep` this changes nothing.
        self.keep(Err(Error::Disconnected));
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl AsyncClient {
    /// Hands a client to a thread of its own.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn new(mut client: Client) -> std::io::Result<Self> {
        let (jobs, todo) = mpsc::channel::<Job>();
        let thread = std::thread::Builder::new().name("kintsugi-client".into()).spawn(move || {
            while let Ok(job) = todo.recv() {
                job(&mut client);
            }
        })?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Runs anything that a [`Client`] can do: a transaction, say.
    pub fn run<T: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Client) -> Result<T> + Send + 'static,
    ) -> Pending<T> {
        let state = Arc::new(Mutex::new(State { result: None, waker: None }));
        let promise = Promise(state.clone());
        if let Some(jobs) = &self.jobs {
            // If the thread is gone the promise is dropped here, and says so.
            let _ = jobs.send(Box::new(move |client| promise.keep(f(client))));
        }
        Pending { state }
    }

    /// [`Client::command`].
    pub fn command<A: AsRef<[u8]>>(&self, args: &[A]) -> Pending<Value> {
        let args: Vec<Vec<u8>> = args.iter().map(|a| a.as_ref().to_vec()).collect();
        self.run(move |c| c.command(&args))
    }

    /// [`Client::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Pending<Option<Vec<u8>>> {
        let key = key.as_ref().to_vec();
        self.run(move |c| c.get(key))
    }

    /// [`Client::set`].
    pub fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Pending<()> {
        let (key, value) = (key.as_ref().to_vec(), value.as_ref().to_vec());
        self.run(move |c| c.set(key, value))
    }

    /// [`Client::mget`].
    pub fn mget<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Pending<Vec<Option<Vec<u8>>>> {
        let keys: Vec<Vec<u8>> = keys.into_iter().map(|k| k.as_ref().to_vec()).collect();
        self.run(move |c| c.mget(keys))
    }

    /// [`Client::mset`].
    pub fn mset<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Pending<()> {
        let pairs: Vec<(Vec<u8>, Vec<u8>)> =
            pairs.into_iter().map(|(k, v)| (k.as_ref().to_vec(), v.as_ref().to_vec())).collect();
        self.run(move |c| c.mset(pairs))
    }
}

impl Drop for AsyncClient {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
