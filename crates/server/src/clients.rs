//! What is known of each connection by all threads: CLIENT LIST and CLIENT KILL.
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

/// One connection's card.
pub(crate) struct ClientCard {
    pub id: u64,
    pub thread: usize,
    pub fd: i32,
    pub addr: String,
    pub laddr: String,
    pub is_unix: bool,
    pub created_ms: u64,
    pub active_ms: AtomicU64,
    pub name: Mutex<String>,
    pub library: Mutex<(String, String)>,
    pub resp: AtomicUsize,
    /// Commands queued by MULTI, plus one; 0 outside.
    pub queued: AtomicUsize,
    pub watching: AtomicUsize,
    pub waiting_bytes: AtomicUsize,
    pub input_bytes: AtomicUsize,
    pub no_evict: AtomicBool,
    /// Index of the last command in the registry.
    pub last_command: AtomicUsize,
    pub kill: AtomicBool,
}

impl ClientCard {
    pub fn name(&self) -> String {
        self.name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_name(&self, name: &str) {
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = name.into();
    }

    /// One line of CLIENT LIST.
    pub fn line(&self, now_ms: u64, command: &str) -> String {
        let age = now_ms.saturating_sub(self.created_ms) / 1000;
        let idle = now_ms.saturating_sub(self.active_ms.load(Relaxed)) / 1000;
        let queued = self.queued.load(Relaxed) as i64 - 1;
        let mut flags = String::new();
        for (set, flag) in [(queued >= 0, 'x'), (self.is_unix, 'U'), (self.no_evict.load(Relaxed), 'e')] {
            if set {
                flags.push(flag);
            }
        }
        if flags.is_empty() {
            flags.push('N');
        }
        let (lib, version) = self.library.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (input, output) = (self.input_bytes.load(Relaxed), self.waiting_bytes.load(Relaxed));
        format!(
            "id={} addr={} laddr={} fd={} name={} age={age} idle={idle} flags={flags} db=0 sub=0 psub=0 ssub=0 \
             multi={queued} watch={} qbuf={input} qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl={output} oll=0 \
             omem={output} tot-mem={} events=r cmd={command} user=default redir=-1 resp={} lib-name={lib} \
             lib-ver={version} thread={}",
            self.id,
            self.addr,
            self.laddr,
            self.fd,
            self.name(),
            self.watching.load(Relaxed),
            input + output,
            self.resp.load(Relaxed),
            self.thread,
        )
    }
}

/// All connections.
#[derive(Default)]
pub(crate) struct Clients {
    next_id: AtomicU64,
    cards: Mutex<BTreeMap<u64, Arc<ClientCard>>>,
}

impl Clients {
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed) + 1
    }

    pub fn add(&self, card: Arc<ClientCard>) {
        self.lock().insert(card.id, card);
    }

    pub fn remove(&self, id: u64) {
        self.lock().remove(&id);
    }

    pub fn len(&self) -> usize {
        self.lock().len()
    }

    pub fn all(&self) -> Vec<Arc<ClientCard>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<ClientCard>>> {
        self.cards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
