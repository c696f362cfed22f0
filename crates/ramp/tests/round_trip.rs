//! A transaction's way through coordinator and participants, without loss or delay.
use kintsugidb_engine::{Shard, resolve};
use kintsugidb_ramp::{
    Config, Coordinator, EPOCH_US, Isolation, Outcome, Participant, Request, Session,
    message::{Node, Outbox},
};
use kintsugidb_wire::{OwnedArgs, Proto};

struct Cluster {
    shards: Vec<Participant>,
    coordinator: Coordinator,
    session: Session,
    now_us: u64,
}

impl Cluster {
    fn new(isolation: Isolation) -> Self {
        let config = Config { isolation, ..Config::default() };
        let shards = (0..4).map(|i| Participant::new(i, Shard::new(1), config.clone())).collect();
        Self {
            shards,
            coordinator: Coordinator::new(0, 4, config),
            session: Session::default(),
            now_us: EPOCH_US + 1_000_000,
        }
    }

    fn exec(&mut self, commands: &[&str]) -> Outcome {
        let requests = commands.iter().map(|c| request(c)).collect();
        self.run(requests)
    }

    fn watch(&mut self, key: &str) {
        self.run(vec![Request::Watch(key.into())]);
    }

    fn run(&mut self, requests: Vec<Request>) -> Outcome {
        let mut out = Outbox::new();
        let (mut t, done) =
            self.coordinator.start(&mut self.session, requests, Proto::Resp2, self.now_us, &mut out);
        if let Some(done) = done {
            return done;
        }
        let me = Node::Coordinator { id: 0, request: t.request() };
        let mut outcome = None;
        for _ in 0..1000 {
            self.now_us += 10;
            if out.is_empty() {
                if outcome.is_some() {
                    break;
                }
                self.now_us += 1000;
                outcome =
                    t.on_tick(&mut self.coordinator, &mut self.session, self.now_us, &mut out).or(outcome);
                continue;
            }
            for (to, message) in std::mem::take(&mut out) {
                let Node::Shard(to) = to else { panic!("no message goes to a coordinator from here") };
                let mut answers = Outbox::new();
                self.shards[to as usize].handle(me, message, self.now_us, &mut answers);
                for (_, answer) in answers {
                    let done = t.on_message(
                        &mut self.coordinator,
                        &mut self.session,
                        to,
                        answer,
                        self.now_us,
                        &mut out,
                    );
                    outcome = done.or(outcome);
                }
            }
        }
        outcome.expect("a transaction without failures ends")
    }
}

fn request(line: &str) -> Request {
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    Request::Command(resolve(&args).expect("a command"), OwnedArgs::new(&args))
}

fn replies(all: &[&str]) -> Outcome {
    Outcome::Replies(all.iter().map(|r| r.as_bytes().to_vec()).collect())
}

#[test]
fn replies_come_in_the_order_of_the_commands_whatever_the_shards() {
    for (_, isolation) in Isolation::ALL {
        let mut c = Cluster::new(isolation);
        assert_eq!(c.exec(&["MSET a 1 b 2 c 3 d 4"]), replies(&["+OK\r\n"]), "{isolation:?}");
        let four = "*5\r\n$1\r\n4\r\n$1\r\n3\r\n$-1\r\n$1\r\n1\r\n$1\r\n2\r\n";
        assert_eq!(c.exec(&["MGET d c x a b"]), replies(&[four]), "{isolation:?}");
        assert_eq!(c.exec(&["DEL a x d"]), replies(&[":2\r\n"]), "{isolation:?}");
        assert_eq!(
            c.exec(&["INCR b", "GET c", "INCRBY c 5", "GET c", "EXISTS a b c d"]),
            replies(&[":3\r\n", "$1\r\n3\r\n", ":8\r\n", "$1\r\n8\r\n", ":2\r\n"]),
            "{isolation:?}"
        );
    }
}

#[test]
fn commands_over_several_shards_see_and_leave_whole_values() {
    for (_, isolation) in Isolation::ALL {
        let mut c = Cluster::new(isolation);
        c.exec(&["RPUSH from a b", "SET x 1"]);
        assert_eq!(c.exec(&["LMOVE from to LEFT LEFT"]), replies(&["$1\r\na\r\n"]), "{isolation:?}");
        assert_eq!(c.exec(&["RENAME to here"]), replies(&["+OK\r\n"]), "{isolation:?}");
        assert_eq!(
            c.exec(&["RENAME nothing here"]),
            replies(&["-ERR no such key\r\n"]),
            "an error changes nothing with {isolation:?}"
        );
        assert_eq!(
            c.exec(&["LRANGE here 0 -1", "LLEN from", "EXISTS to"]),
            replies(&["*1\r\n$1\r\na\r\n", ":1\r\n", ":0\r\n"]),
            "{isolation:?}"
        );
        assert_eq!(
            c.exec(&["SET x 7", "COPY x y", "INCR y", "GET x"]),
            replies(&["+OK\r\n", ":1\r\n", ":8\r\n", "$1\r\n7\r\n"]),
            "{isolation:?}"
        );
    }
}

#[test]
fn exec_answers_nil_after_a_watched_key_changed_anywhere() {
    for (_, isolation) in Isolation::ALL {
        let mut c = Cluster::new(isolation);
        for key in ["a", "b", "absent"] {
            c.exec(&["SET a 1", "SET b 1", "DEL absent"]);
            c.watch(key);
            let mut other = std::mem::take(&mut c.session);
            c.exec(&[&format!("SET {key} 2")]);
            c.exec(&[&format!("DEL {key}")]);
            std::mem::swap(&mut c.session, &mut other);
            assert_eq!(c.exec(&["SET a 3", "SET b 3", "SET d 3"]), Outcome::Nil, "{isolation:?} {key}");
            c.watch(key);
            assert_ne!(c.exec(&["SET a 3", "SET b 3", "SET d 3"]), Outcome::Nil, "{isolation:?} {key}");
        }
    }
}
