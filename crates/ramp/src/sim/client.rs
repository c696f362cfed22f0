//! A client: a connection with its coordinator, and the records of what it asked and was answered.
use super::{
    Rng,
    work::{Doing, Line},
};
use crate::{
    Config, Coordinator, Outcome, Request, Session, Transaction, TxnId,
    message::{Outbox, Watch},
};
use kintsugidb_engine::resolve;
use kintsugidb_wire::{OwnedArgs, Proto};

/// One operation, from invocation to response.
#[derive(Clone, Debug)]
pub struct Record {
    /// Whose it is.
    pub client: u16,
    /// What was asked.
    pub lines: Vec<Line>,
    /// Step of the invocation.
    pub began: u64,
    /// Step of the response, if there was one.
    pub ended: Option<u64>,
    /// What was answered, if anything was.
    pub outcome: Option<Outcome>,
    /// The transaction that took effect, if it needed one and it is known.
    pub txn: Option<TxnId>,
    /// What EXEC was to check, and when it was watched.
    pub watches: Vec<(Watch, u64)>,
}

pub(super) struct Client {
    pub id: u16,
    pub coordinator: Coordinator,
    pub session: Session,
    pub skew: i64,
    pub busy: Option<(Transaction, usize)>,
    /// When each watched key was watched.
    pub watched: Vec<(Vec<u8>, u64)>,
}

impl Client {
    pub fn new(id: u16, shards: u16, config: Config, rng: &mut Rng) -> Self {
        Self {
            id,
            coordinator: Coordinator::new(id, shards, config),
            session: Session::default(),
            skew: rng.pick(&[0, 40, -40]),
            busy: None,
            watched: Vec::new(),
        }
    }

    /// Begins an operation; its record's number is `number`.
    pub fn begin(&mut self, doing: Doing, number: usize, step: u64, now_us: u64, out: &mut Outbox) -> Record {
        let (requests, lines) = match doing {
            Doing::Watch(key) => {
                (vec![Request::Watch(key.clone().into_bytes())], vec![vec!["WATCH".into(), key]])
            }
            Doing::Commands(lines) => (lines.iter().map(request).collect(), lines),
        };
        let watching = lines[0][0] == "WATCH";
        let watches = self.session.watches().iter().map(|(_, w)| {
            let at = self.watched.iter().find(|(k, _)| **k == *w.key).map_or(step, |(_, at)| *at);
            (w.clone(), at)
        });
        let watches = if watching { Vec::new() } else { watches.collect() };
        let (t, done) = self.coordinator.start(&mut self.session, requests, Proto::Resp2, now_us, out);
        self.busy = Some((t, number));
        let mut record =
            Record { client: self.id, lines, began: step, ended: None, outcome: None, txn: None, watches };
        if let Some(outcome) = done {
            self.end(&mut record, outcome, step);
        }
        record
    }

    /// The operation has ended.
    pub fn end(&mut self, record: &mut Record, outcome: Outcome, step: u64) {
        if record.lines[0][0] == "WATCH" {
            self.watched.push((record.lines[0][1].clone().into_bytes(), step));
        } else {
            self.watched.clear();
        }
        if let Some((t, _)) = self.busy.take() {
            record.txn = t.decided().map(|p| p.txn);
        }
        record.outcome = Some(outcome);
        record.ended = Some(step);
    }
}

fn request(line: &Line) -> Request {
    let args: Vec<&[u8]> = line.iter().map(|w| w.as_bytes()).collect();
    Request::Command(resolve(&args).expect("the workload knows its commands"), OwnedArgs::new(&args))
}
