//! What the clients do: random commands over a few keys of all five types, every written value used once.
use super::Rng;
use crate::coordinator::shard_of;
use kintsugidb_engine::lookup;

/// A command line.
pub type Line = Vec<String>;

/// The keys of one run, by type, spread over the shards.
#[derive(Debug)]
pub struct Keys {
    /// Of strings.
    pub strings: Vec<String>,
    lists: Vec<String>,
    hashes: Vec<String>,
    sets: Vec<String>,
    zsets: Vec<String>,
    /// The first so many strings are in shards of their own.
    apart: usize,
    token: u64,
    tokens: Vec<(String, String)>,
}

/// What a client does next.
#[derive(Clone, Debug)]
pub enum Doing {
    /// A command, or several as a transaction.
    Commands(Vec<Line>),
    /// WATCH of a key.
    Watch(String),
}

const SUBS: [&str; 3] = ["f", "g", "k"];

impl Keys {
    /// Keys over so many shards, so many of them strings.
    pub fn new(rng: &mut Rng, shards: u16, strings: usize) -> Self {
        let named = |prefix: &str, shard: u16, which: u16| {
            (0..)
                .map(|i| format!("{prefix}{i}"))
                .filter(|k| shard_of(k.as_bytes(), shards) == shard)
                .nth(which.into())
                .unwrap_or_default()
        };
        let mut some = |prefix: &str, n: usize| {
            let first = rng.below(shards.into()) as u16;
            (0..n as u16).map(|i| named(prefix, (first + i) % shards, i / shards)).collect::<Vec<_>>()
        };
        let has = |name: &str| lookup(name.as_bytes()).is_some();
        Self {
            strings: some("x", strings),
            lists: some("l", 2),
            hashes: if has("hset") && has("hgetall") { some("h", 2) } else { Vec::new() },
            sets: if has("sadd") && has("smembers") { some("s", 2) } else { Vec::new() },
            zsets: if has("zadd") && has("zrange") { some("z", 1) } else { Vec::new() },
            apart: strings.min(shards.into()),
            token: 0,
            tokens: Vec::new(),
        }
    }

    fn token(&mut self) -> String {
        self.token += 1;
        format!("v{}.", self.token)
    }

    fn pick(rng: &mut Rng, keys: &[String]) -> String {
        keys[rng.below(keys.len())].clone()
    }

    fn any(&self, rng: &mut Rng) -> String {
        let all = [&self.strings, &self.lists, &self.hashes, &self.sets, &self.zsets];
        let all: Vec<_> = all.into_iter().filter(|k| !k.is_empty()).collect();
        let kind = rng.below(all.len());
        Self::pick(rng, all[kind])
    }

    /// A command that writes without looking.
    pub fn blind(&mut self, rng: &mut Rng) -> Line {
        let token = self.token();
        match rng.below(16) {
            0..=4 => line(&["SET", &Self::pick(rng, &self.strings), &token]),
            5 => line(&["DEL", &self.any(rng)]),
            6..=8 if !self.hashes.is_empty() => {
                line(&["HSET", &Self::pick(rng, &self.hashes), rng.pick(&SUBS), &token])
            }
            9 if !self.hashes.is_empty() => line(&["HDEL", &Self::pick(rng, &self.hashes), rng.pick(&SUBS)]),
            10 | 11 if !self.sets.is_empty() => {
                let set = Self::pick(rng, &self.sets);
                self.tokens.push((set.clone(), token.clone()));
                line(&["SADD", &set, &token])
            }
            12 if !self.tokens.is_empty() => {
                let back = self.tokens.len().min(6);
                let (set, token) = self.tokens[self.tokens.len() - 1 - rng.below(back)].clone();
                line(&["SREM", &set, &token])
            }
            13 | 14 if !self.zsets.is_empty() => {
                line(&["ZADD", &Self::pick(rng, &self.zsets), &self.token.to_string(), rng.pick(&SUBS)])
            }
            15 if !self.zsets.is_empty() => line(&["ZREM", &Self::pick(rng, &self.zsets), rng.pick(&SUBS)]),
            _ => line(&["SET", &Self::pick(rng, &self.strings), &token]),
        }
    }

    /// A command that looks before it writes.
    pub fn rmw(&mut self, rng: &mut Rng) -> Line {
        let token = self.token();
        match rng.below(8) {
            0..=3 => line(&["APPEND", &Self::pick(rng, &self.strings), &token]),
            4 | 5 => line(&["RPUSH", &Self::pick(rng, &self.lists), &token]),
            6 => line(&["LPOP", &Self::pick(rng, &self.lists)]),
            _ if !self.hashes.is_empty() => {
                line(&["HSETNX", &Self::pick(rng, &self.hashes), rng.pick(&SUBS), &token])
            }
            _ => line(&["APPEND", &Self::pick(rng, &self.strings), &token]),
        }
    }

    /// A command that reads one key.
    pub fn read(&mut self, rng: &mut Rng) -> Line {
        match rng.below(8) {
            0..=2 => line(&["GET", &Self::pick(rng, &self.strings)]),
            3 => line(&["LRANGE", &Self::pick(rng, &self.lists), "0", "-1"]),
            4 if !self.hashes.is_empty() => line(&["HGETALL", &Self::pick(rng, &self.hashes)]),
            5 if !self.hashes.is_empty() => line(&["HGET", &Self::pick(rng, &self.hashes), rng.pick(&SUBS)]),
            6 if !self.sets.is_empty() => line(&["SMEMBERS", &Self::pick(rng, &self.sets)]),
            7 if !self.zsets.is_empty() => {
                line(&["ZRANGE", &Self::pick(rng, &self.zsets), "0", "-1", "WITHSCORES"])
            }
            _ => line(&["GET", &Self::pick(rng, &self.strings)]),
        }
    }

    /// A command that reads items of a collection.
    pub fn point(&mut self, rng: &mut Rng) -> Line {
        let recent = |set: &String| {
            let of_set = self.tokens.iter().rev().filter(|(s, _)| s == set).take(3);
            of_set.map(|(_, token)| token.clone()).collect::<Vec<_>>()
        };
        let mut subs: Vec<String> = SUBS.map(str::to_owned).to_vec();
        subs.retain(|_| rng.chance(700));
        let (key, mut names, one, many) = match rng.below(5) {
            0..=2 if !self.hashes.is_empty() => (Self::pick(rng, &self.hashes), subs, "HGET", "HMGET"),
            3 if !self.sets.is_empty() => {
                let set = Self::pick(rng, &self.sets);
                let members = recent(&set);
                (set, members, "SISMEMBER", "SMISMEMBER")
            }
            4 if !self.zsets.is_empty() => (Self::pick(rng, &self.zsets), subs, "ZSCORE", "ZMSCORE"),
            _ => return self.read(rng),
        };
        if names.is_empty() {
            return self.read(rng);
        }
        let command = if rng.chance(400) { one } else { many };
        if command == one {
            names.truncate(1);
        }
        [line(&[command, &key]), names].concat()
    }

    /// A command that writes several items of a collection.
    pub fn items(&mut self, rng: &mut Rng) -> Line {
        let n = 1 + rng.below(SUBS.len());
        match rng.below(5) {
            0..=2 if !self.hashes.is_empty() => {
                let pairs: Vec<_> = SUBS[..n].iter().flat_map(|f| [(*f).to_owned(), self.token()]).collect();
                [line(&["HSET", &Self::pick(rng, &self.hashes)]), pairs].concat()
            }
            3 if !self.sets.is_empty() => {
                let set = Self::pick(rng, &self.sets);
                let members: Vec<_> = (0..n).map(|_| self.token()).collect();
                self.tokens.extend(members.iter().map(|m| (set.clone(), m.clone())));
                [line(&["SADD", &set]), members].concat()
            }
            4 if !self.zsets.is_empty() => {
                let scores: Vec<_> = SUBS[..n]
                    .iter()
                    .flat_map(|m| {
                        self.token += 1;
                        [self.token.to_string(), (*m).to_owned()]
                    })
                    .collect();
                [line(&["ZADD", &Self::pick(rng, &self.zsets)]), scores].concat()
            }
            _ => self.blind(rng),
        }
    }

    /// A command that needs the values of two keys, of different shards, to decide what it writes. (Of one shard's, the checker would have
    /// to know that what it read may be changed later at an earlier version: PROTOCOL rule 6.)
    fn moving(&mut self, rng: &mut Rng) -> Line {
        let (a, b) = (self.strings[0].clone(), self.strings[1 + rng.below(self.apart - 1)].clone());
        let (a, b) = if rng.chance(500) { (a, b) } else { (b, a) };
        match rng.below(4) {
            0 => line(&["COPY", &a, &b, "REPLACE"]),
            1 => line(&["RENAME", &a, &b]),
            2 => {
                let (a, b) = (self.token(), self.token());
                line(&["MSETNX", &self.strings[0], &a, &self.strings[1], &b])
            }
            _ => line(&["LMOVE", &self.lists[0], &self.lists[1], "LEFT", "RIGHT"]),
        }
    }

    fn several(&mut self, rng: &mut Rng, n: usize, of: fn(&mut Self, &mut Rng) -> Line) -> Vec<Line> {
        (0..n).map(|_| of(self, rng)).collect()
    }

    /// MSET of these keys to new values.
    pub fn set_all(&mut self, keys: &[String]) -> Line {
        let pairs = keys.iter().flat_map(|k| [k.clone(), self.token()]);
        [line(&["MSET"]), pairs.collect()].concat()
    }

    /// What somebody does next; WATCH only if he may.
    pub fn next(&mut self, rng: &mut Rng, may_watch: bool) -> Doing {
        let one = |line| Doing::Commands(vec![line]);
        match rng.below(100) {
            0..=13 => one(self.read(rng)),
            14..=27 => one(self.blind(rng)),
            28..=42 => one(self.rmw(rng)),
            43..=50 => {
                let mut l = line(&["MGET"]);
                l.extend(self.strings.clone());
                one(l)
            }
            51..=66 => {
                let n = 2 + rng.below(3);
                Doing::Commands(self.several(rng, n, Self::read))
            }
            67..=72 => {
                let mut some = self.strings.clone();
                some.retain(|_| rng.chance(700));
                if some.is_empty() { one(self.blind(rng)) } else { one(self.set_all(&some)) }
            }
            73..=84 => {
                let n = 2 + rng.below(2);
                Doing::Commands(self.several(rng, n, Self::blind))
            }
            85..=90 => {
                let mut all = self.several(rng, 2, Self::rmw);
                if rng.chance(300) {
                    all.push(self.read(rng));
                }
                if rng.chance(300) {
                    all.push(self.blind(rng));
                }
                Doing::Commands(all)
            }
            91..=93 => one(self.moving(rng)),
            94 if lookup(b"sunion").is_some() && self.sets.len() > 1 => {
                one(line(&["SUNION", &self.sets[0], &self.sets[1]]))
            }
            _ if may_watch => Doing::Watch(self.any(rng)),
            _ => {
                let mut all = self.several(rng, 2, Self::blind);
                all.insert(0, self.read(rng));
                Doing::Commands(all)
            }
        }
    }
}

fn line(words: &[&str]) -> Line {
    words.iter().map(|w| (*w).to_string()).collect()
}
