//! A client and what it does, for the checker's records.
use super::{
    Shared, lock,
    net::Way,
    turns::{Giver, Over, turns},
};
use crate::{Client, Counters, Error, Mode, Options, Result, fault::Faults};
use kintsugidb_ramp::{
    Outcome,
    message::Watch,
    sim::{Doing, Line, Record},
};
use kintsugidb_wire::Value;
use std::{
    sync::{Arc, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

/// A client's thread.
pub(super) struct Player {
    giver: Giver,
    thread: JoinHandle<Counters>,
}

impl Player {
    pub fn start(world: Shared, faults: Faults) -> Self {
        let (giver, turn) = turns();
        let thread = std::thread::spawn(move || {
            turn.begin();
            play(&world, Way::new(world.clone(), turn), faults)
        });
        Self { giver, thread }
    }

    /// Lets it run for a turn; false if it has ended.
    pub fn run(&self) -> bool {
        self.giver.give()
    }

    /// What it has counted.
    pub fn end(self) -> std::result::Result<Counters, String> {
        let text = |e: &Box<dyn std::any::Any + Send>| match (
            e.downcast_ref::<String>(),
            e.downcast_ref::<&str>(),
        ) {
            (Some(s), _) => s.clone(),
            (_, Some(s)) => (*s).to_owned(),
            _ if e.is::<Over>() => "it was ended".to_owned(),
            _ => "it panicked".to_owned(),
        };
        self.thread.join().map_err(|e| format!("a client: {}", text(&e)))
    }
}

fn play(world: &Shared, way: Way, faults: Faults) -> Counters {
    let options = Options {
        mode: Mode::OneSided,
        spin: Duration::ZERO,
        timeout: Duration::from_millis(500),
        ..Options::default()
    };
    let mut client = loop {
        match Client::over(Arc::new(way.clone()), "sim", options.clone(), faults) {
            Ok(client) => break client,
            Err(_) => way.pass(),
        }
    };
    let (mut connects, mut identity) = (0, 0);
    let mut watched: Vec<(Watch, u64)> = Vec::new();
    loop {
        let (number, doing) = {
            let mut world = lock(world);
            let Some(doing) = world.next(watched.is_empty()) else { break };
            let number = world.history.records.len();
            world.history.step += 1;
            let began = world.history.step;
            world.history.trace(|| format!("client {identity} begins {number}: {doing:?}"));
            let lines = lines_of(&doing);
            let watches = if ends_watching(&doing) { watched.clone() } else { Vec::new() };
            // Whose it is shows in the end: it may need a new connection.
            let (ended, outcome, txn) = (None, None, None);
            world.history.records.push(Record {
                client: u16::MAX,
                lines,
                began,
                ended,
                outcome,
                txn,
                watches,
            });
            (number, doing)
        };
        *way.operation.lock().unwrap_or_else(PoisonError::into_inner) = number;
        let done = perform(&mut client, &doing, !watched.is_empty() && ends_watching(&doing));
        let mut world = lock(world);
        if client.counters().connects != connects {
            connects = client.counters().connects;
            identity = world.next_identity;
            world.next_identity += 1;
        }
        world.history.step += 1;
        world.history.trace(|| format!("client {identity} ends {number}: {done:?}"));
        let step = world.history.step;
        match &doing {
            Doing::Watch(_) if done.is_ok() => {
                let watches = client.link.iter().flat_map(|l| l.session.watches());
                watched.extend(watches.map(|(_, w)| (w.clone(), step)));
            }
            _ if ends_watching(&doing) => watched.clear(),
            _ => {}
        }
        let record = &mut world.history.records[number];
        record.client = identity;
        // What failed has perhaps been done, perhaps not, and perhaps not yet.
        if let Ok(outcome) = done {
            (record.outcome, record.ended) = (Some(outcome), Some(step));
        }
        drop(world);
        way.pass();
    }
    client.counters()
}

fn lines_of(doing: &Doing) -> Vec<Line> {
    match doing {
        Doing::Watch(key) => vec![vec!["WATCH".to_owned(), key.clone()]],
        Doing::Commands(lines) => lines.clone(),
    }
}

/// Whether it is a transaction to who watches something. A read alone is what one watches for.
fn ends_watching(doing: &Doing) -> bool {
    match doing {
        Doing::Watch(_) => false,
        Doing::Commands(lines) => lines.len() > 1 || !matches!(&lines[0][0][..], "GET" | "MGET"),
    }
}

fn perform(client: &mut Client, doing: &Doing, as_transaction: bool) -> Result<Outcome> {
    let refused = |e| match e {
        Error::Server(_) => Ok(Outcome::Error("an error")),
        e => Err(e),
    };
    let lines = match doing {
        Doing::Watch(key) => {
            return client
                .watch([key])
                .map(|()| Outcome::Replies(vec![b"+OK\r\n".to_vec()]))
                .or_else(refused);
        }
        Doing::Commands(lines) => lines,
    };
    if let ([line], false) = (&lines[..], as_transaction) {
        return match client.command(line) {
            Ok(value) => Ok(Outcome::Replies(vec![resp2(&value)])),
            Err(Error::Server(e)) => Ok(Outcome::Replies(vec![format!("-{e}\r\n").into_bytes()])),
            Err(e) => Err(e),
        };
    }
    let mut transaction = client.transaction();
    for line in lines {
        transaction = transaction.command(line);
    }
    match transaction.exec() {
        Ok(Some(values)) => Ok(Outcome::Replies(values.iter().map(resp2).collect())),
        Ok(None) => Ok(Outcome::Nil),
        Err(e) => refused(e),
    }
}

/// A value as a server says it in RESP2.
fn resp2(value: &Value) -> Vec<u8> {
    match value {
        Value::Simple(s) => format!("+{s}\r\n").into_bytes(),
        Value::Error(e) => format!("-{e}\r\n").into_bytes(),
        Value::Int(n) => format!(":{n}\r\n").into_bytes(),
        Value::Bulk(b) => [format!("${}\r\n", b.len()).as_bytes(), b, b"\r\n"].concat(),
        Value::Array(all) => {
            let mut out = format!("*{}\r\n", all.len()).into_bytes();
            out.extend(all.iter().flat_map(resp2));
            out
        }
        _ => b"$-1\r\n".to_vec(),
    }
}
