//! A client without a client library, which can say anything.
use super::Running;
use kintsugidb_engine::{fingerprint, lookup};
use kintsugidb_fabric::{ConnectOptions, Connection, connect};
use kintsugidb_ramp::{
    Coordinator, Request, Session, ShardId,
    message::{Body, Node, Outbox},
    wire::frame::{Frame, Frames, Welcome, put_ramp},
};
use kintsugidb_wire::{OwnedArgs, Proto};
use std::time::{Duration, Instant};

/// A connection on which anything can be said.
pub struct Raw {
    pub link: Box<dyn Connection>,
    pub welcome: Welcome,
    frames: Frames,
}

impl Raw {
    pub fn open(server: &Running) -> Self {
        let mut link =
            connect(&server.address.parse().unwrap(), &ConnectOptions::default()).unwrap().connection;
        let (mut frames, mut bytes) = (Frames::default(), Vec::new());
        let end = Instant::now() + Duration::from_secs(20);
        let welcome = loop {
            if let Some(body) = frames.next().unwrap() {
                match Frame::read(body, fingerprint).unwrap() {
                    Frame::Welcome(welcome) => break welcome,
                    other => panic!("{other:?}"),
                }
            }
            assert!(Instant::now() < end, "no welcome");
            bytes.clear();
            if link.receive(&mut bytes).unwrap().is_some() {
                frames.add(&bytes);
            } else {
                link.wait(Duration::from_millis(100)).unwrap();
            }
        };
        Self { link, welcome, frames }
    }

    /// What an honest coordinator of this number would send first.
    pub fn honest(&self, args: &[&[u8]], clock_ahead_us: u64) -> Outbox {
        let mut co = Coordinator::new(self.welcome.coordinator, self.welcome.shards, self.welcome.config());
        co.begin_after(self.welcome.clock);
        let mut out = Outbox::new();
        let requests = vec![Request::Command(lookup(args[0]).unwrap(), OwnedArgs::new(args))];
        let now_us = self.welcome.now_us + clock_ahead_us;
        co.start(&mut Session::default(), requests, Proto::Resp2, now_us, &mut out);
        out
    }

    pub fn say(&mut self, out: &Outbox) {
        let messages = out.iter().map(|(to, m)| match to {
            Node::Shard(s) => (1, *s, m),
            Node::Coordinator { .. } => panic!("to a coordinator"),
        });
        let mut bytes = Vec::new();
        put_ramp(&mut bytes, messages);
        self.link.send(&bytes).unwrap();
    }

    /// What the shards say next: each message, and whose it is.
    pub fn hear(&mut self) -> Vec<(ShardId, Body)> {
        let (mut bytes, mut heard) = (Vec::new(), Vec::new());
        let end = Instant::now() + Duration::from_secs(20);
        while heard.is_empty() {
            assert!(Instant::now() < end, "nobody answers");
            bytes.clear();
            match self.link.receive(&mut bytes).unwrap() {
                Some(_) => self.frames.add(&bytes),
                None => drop(self.link.wait(Duration::from_millis(100))),
            }
            while let Some(body) = self.frames.next().unwrap() {
                if let Frame::Ramp(messages) = Frame::read(body, fingerprint).unwrap() {
                    heard.extend(messages.into_iter().map(|(_, shard, m)| (shard, m.body)));
                }
            }
        }
        heard
    }

    /// The reason for which the server ends the connection.
    pub fn sent_away(mut self) -> String {
        let (mut bytes, mut why) = (Vec::new(), String::new());
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            assert!(Instant::now() < end, "the server does not end the connection");
            bytes.clear();
            match self.link.receive(&mut bytes) {
                Ok(Some(_)) => self.frames.add(&bytes),
                Ok(None) => drop(self.link.wait(Duration::from_millis(100))),
                Err(_) => return why,
            }
            while let Ok(Some(body)) = self.frames.next() {
                if let Ok(Frame::Refused(said)) = Frame::read(body, fingerprint) {
                    why = said;
                }
            }
        }
    }
}
