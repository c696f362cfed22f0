//! One line per event.
use crate::message::{Body, Found, Lock, Message, Node, ReadAnswer, Seen, What, Work};
use std::fmt::{self, Display, Formatter};

pub(super) struct Line<'a>(pub &'a Node, pub &'a Node, pub &'a Message);

fn node(n: &Node) -> String {
    match n {
        Node::Shard(s) => format!("s{s}"),
        Node::Coordinator { id, request } => format!("c{id}#{request}"),
    }
}

fn what(w: &What) -> String {
    match w {
        What::Put(key, None) => format!("put {} nothing", key.escape_ascii()),
        What::Put(key, Some(d)) => format!("put {} {}", key.escape_ascii(), dump(Some(d))),
        other => format!("{other:?}"),
    }
}

fn dump(d: Option<&kintsugidb_engine::Dump>) -> String {
    let items = super::oracle::items_of(d);
    let all: Vec<_> =
        items.iter().map(|(k, v)| format!("{}={}", k.escape_ascii(), v.escape_ascii())).collect();
    format!("{{{}}}", all.join(","))
}

fn work(w: &Work) -> String {
    let mut all: Vec<_> = w.ops.iter().map(|o| what(&o.what)).collect();
    all.extend(w.watches.iter().map(|w| format!("if {}@{:?}", w.key.escape_ascii(), w.state.version.ts)));
    for (k, lock) in &w.keys {
        match lock {
            Lock::Exclusive => all.push(format!("lock {}", k.bytes.escape_ascii())),
            Lock::Shared => all.push(format!("share {}", k.bytes.escape_ascii())),
            Lock::Blind => {}
        }
    }
    all.join("; ")
}

fn answers(all: &[ReadAnswer]) -> String {
    let one = |a: &ReadAnswer| match &a.found {
        Found::Reply(r) => r.escape_ascii().to_string(),
        Found::Dump(d) => dump(d.as_ref()),
        Found::Watch(w) => format!("{}.{}/{}", w.version.ts, w.version.seq, w.births),
    };
    all.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn seen(all: &[Seen]) -> String {
    all.iter().map(|s| format!("{}@{}", s.info.id.0, s.c)).collect::<Vec<_>>().join(" ")
}

impl Display for Line<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(from, to, m) = self;
        write!(f, "{} -> {} [{}] ", node(from), node(to), m.clock)?;
        for p in m.proofs.iter().flat_map(|p| p.iter()) {
            write!(f, "({}@{}) ", p.txn.0, p.c)?;
        }
        match &m.body {
            Body::Execute(b) => write!(f, "execute {}", work(&b.work)),
            Body::Executed { replies, seen: s, refused } => {
                let replies = replies.as_deref().map(answers);
                write!(f, "executed {replies:?} {refused:?} seen {}", seen(s))
            }
            Body::Read(r) => {
                let ops: Vec<_> = r.ops.iter().map(|o| what(&o.what)).collect();
                let with: Vec<_> = r.with.iter().map(|p| format!("{}@{}", p.txn.0, p.c)).collect();
                write!(f, "read {}.{} {} at {} with {with:?}", r.attempt, r.round, ops.join("; "), r.snapshot)
            }
            Body::ReadReply { attempt, round, snapshot, answers: a, seen: s } => {
                let a = a.as_deref().map(answers);
                write!(f, "read-reply {attempt}.{round} at {snapshot} {a:?} seen {}", seen(s))
            }
            Body::Reserve(info, w, r) => {
                write!(f, "reserve {} age {}: {} ({})", info.id.0, info.age, work(w), r.ops.len())
            }
            Body::Prepare { info, work: w, reserved } => {
                let reserved = if *reserved { " (reserved)" } else { "" };
                write!(f, "prepare{reserved} {} age {}: {}", info.id.0, info.age, work(w))
            }
            Body::Prepared { txn, p } => write!(f, "prepared {} p={p}", txn.0),
            Body::Refused { txn, why } => write!(f, "refused {} {why:?}", txn.0),
            Body::Commit(p) => write!(f, "commit {} c={}", p.txn.0, p.c),
            Body::Committed { txn, replies, seen: s } => {
                let replies = replies.as_ref().map(|r| answers(r));
                write!(f, "committed {} {replies:?} seen {}", txn.0, seen(s))
            }
            Body::Abort(txn) => write!(f, "abort {}", txn.0),
            Body::Stable(txn) => write!(f, "stable {}", txn.0),
            Body::Ask { info, committed } => write!(f, "ask {} {committed:?}", info.id.0),
            Body::Answer { txn, standing } => write!(f, "answer {} {standing:?}", txn.0),
            Body::Apply(info, w) => write!(f, "apply {}: {}", info.id.0, work(w)),
        }
    }
}
