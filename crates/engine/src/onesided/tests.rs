//! Readers against an owner who changes everything, and each command against the one that the owner runs.
use super::*;
use crate::{Expire, ListEnd, Shard, Version, execute, fingerprint};
use kintsugidb_arena::Config;
use kintsugidb_wire::Proto;
use std::sync::{
    Arc, Barrier,
    atomic::{AtomicBool, Ordering},
};

fn shard() -> Shard {
    let mut shard = Shard::create(1, Config { reserve_bytes: 1 << 28, ..Config::default() }).unwrap();
    shard.now_ms = 1000;
    shard
}

fn reader(shards: &[&Shard]) -> PointReader {
    let mut reader = PointReader::new(shards.iter().map(|s| s.reader()).collect::<Vec<_>>(), Siblings::Keys);
    reader.now_ms = 1000;
    reader
}

/// Asks for one key of the first shard.
fn ask(r: &mut PointReader, line: &str, out: &mut Reply) -> std::result::Result<(), Fallback> {
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    r.serve(Point::of(line.split(' ').next().unwrap()).unwrap(), &args, &[0], out)
}

#[test]
fn every_point_read_answers_as_the_owner_does() {
    let mut s = shard();
    for i in 0..400u32 {
        let n = i.to_string();
        s.hash_set(b"bighash", &[(n.as_bytes(), b"value")]).unwrap();
        s.set_add(b"bigset", &[n.as_bytes()]).unwrap();
        s.zset_add(b"bigzset", f64::from(i) / 4.0, n.as_bytes()).unwrap();
        s.list_push(b"biglist", ListEnd::Left, &[n.as_bytes()]).unwrap();
    }
    s.hash_set(b"hash", &[(b"1", b"one"), (b"2", b""), (b"3", b"three")]).unwrap();
    s.set_add(b"set", &[b"1", b"2"]).unwrap();
    s.zset_add(b"zset", 1.5, b"1").unwrap();
    s.list_push(b"list", ListEnd::Left, &[b"1", b"2"]).unwrap();
    s.set_string(b"string", &[b"some", b"thing"], Expire::At(12_345)).unwrap();
    s.set_string(b"expired", &[b"gone"], Expire::At(999)).unwrap();
    let keys = "bighash bigset bigzset biglist hash set zset list string expired absent";
    let commands = "get strlen type ttl pttl expiretime pexpiretime llen hlen scard zcard \
        hget,1 hget,absent hstrlen,1 hexists,1 hexists,absent sismember,1 sismember,absent zscore,1 zscore,absent \
        hmget,1,2,absent smismember,1,absent,2 zmscore,1,absent,2 exists,hash,absent,hash mget,string,absent,set,string";
    let mut r = reader(&[&s]);
    for key in keys.split_whitespace() {
        for command in commands.split_whitespace() {
            let (name, rest) = command.split_once(',').unwrap_or((command, ""));
            let args: Vec<&[u8]> = [name, key]
                .into_iter()
                .chain(rest.split(','))
                .map(str::as_bytes)
                .filter(|a| !a.is_empty())
                .collect();
            let (mut ours, mut owners) = (Reply::new(Proto::Resp2), Reply::new(Proto::Resp2));
            r.serve(Point::of(name).unwrap(), &args, &vec![0; args.len() - 1], &mut ours).unwrap();
            if crate::lookup(name.as_bytes()).is_some() {
                execute(&mut s, &args, &mut owners);
                assert_eq!(
                    String::from_utf8_lossy(ours.bytes()),
                    String::from_utf8_lossy(owners.bytes()),
                    "{command} of {key}"
                );
            }
        }
    }
    assert_eq!(r.counters().fallbacks, 0);
}

#[test]
fn half_of_a_transaction_is_noticed() {
    let (mut a, mut b) = (shard(), shard());
    let siblings = [fingerprint(b"x"), fingerprint(b"y")];
    for s in [&mut a, &mut b] {
        s.begin_write(Version { ts: 1, seq: 0 });
    }
    a.set_string(b"x", &[b"old"], Expire::Clear).unwrap();
    b.set_string(b"y", &[b"old"], Expire::Clear).unwrap();
    let mut r = reader(&[&a, &b]);
    let keys: [(usize, &[u8]); 2] = [(0, b"x"), (1, b"y")];
    let mut out = Reply::default();

    a.begin_txn(Version { ts: 5, seq: 0 }, 77, &siblings);
    a.set_string(b"x", &[b"new"], Expire::Clear).unwrap();
    assert_eq!(r.mget(&keys[..1], &mut out), Err(Fallback::Changing), "the owner's turn is not over");
    let first = a.end_txn().unwrap();
    assert_eq!(r.mget(&keys, &mut out), Err(Fallback::Changing));
    assert_eq!(r.counters().fractures, 2);
    assert!(out.is_empty());
    let mut lax = PointReader::new([a.reader(), b.reader()], Siblings::Ignored);
    assert_eq!(lax.mget(&keys, &mut out), Ok(()), "without isolation nobody looks");
    assert_eq!(out.bytes(), b"*2\r\n$3\r\nnew\r\n$3\r\nold\r\n", "the canary: this is what half looks like");
    out.truncate(0);

    b.begin_txn(Version { ts: 5, seq: 0 }, 77, &siblings);
    b.delete(b"y");
    let second = b.end_txn().unwrap();
    assert_eq!(r.mget(&keys, &mut out), Ok(()));
    assert_eq!(out.bytes(), b"*2\r\n$3\r\nnew\r\n$-1\r\n");
    assert_eq!((r.clock(), r.txns()), (5, &[(77, 5), (77, 5)][..]));
    assert_eq!((b.len(), b.type_of(b"y")), (0, None), "a tombstone is no key");

    a.forget_txns(&[first]);
    b.forget_txns(&[second]);
    out.truncate(0);
    assert_eq!(r.mget(&keys, &mut out), Ok(()));
    assert!(r.txns().is_empty());
}

/// The values of an array reply of bulk strings.
fn bulks(reply: &[u8]) -> Vec<Option<String>> {
    let text = std::str::from_utf8(reply).unwrap();
    let mut lines = text.split("\r\n").skip(1);
    let mut values = Vec::new();
    while let Some(line) = lines.next() {
        match line.as_bytes() {
            b"$-1" => values.push(None),
            [b'$', ..] => values.push(lines.next().map(str::to_owned)),
            [b':', n @ ..] => values.push(Some(String::from_utf8_lossy(n).into_owned())),
            _ => {}
        }
    }
    values
}

fn one_turn(s: &mut Shard, n: u64, siblings: &[u64]) {
    let version = Version { ts: 10 + n, seq: 0 };
    let text = n.to_string().repeat(1 + n as usize % 40);
    let v = text.as_bytes();
    let round = n % 700;
    s.begin_write(version);
    s.set_string(b"string", &[v], Expire::Clear).unwrap();
    if round == 0 {
        for key in [&b"hash"[..], b"set", b"zset", b"list"] {
            s.delete(key);
        }
    }
    // from packed to big as the round goes on; f0 to f2 always alike, members in pairs, the list's length even
    let filler = format!("filler{round}");
    s.hash_set(b"hash", &[(b"f0", v), (filler.as_bytes(), v), (b"f1", v), (b"f2", v)]).unwrap();
    let (a, b) = (format!("a{}", round % 50), format!("b{}", round % 50));
    let pair: [&[u8]; 2] = [a.as_bytes(), b.as_bytes()];
    if n.is_multiple_of(2) {
        s.set_add(b"set", &[pair[0], filler.as_bytes(), pair[1]]).unwrap();
    } else {
        s.set_remove(b"set", &pair).unwrap();
    }
    let score = n as f64;
    s.zset_add_all(b"zset", &[(score, b"m0"), (score, filler.as_bytes()), (score, b"m1")], &mut |_| {})
        .unwrap();
    s.list_push(b"list", ListEnd::Right, &[v, v]).unwrap();
    if n.is_multiple_of(3) {
        s.list_pop(b"list", ListEnd::Left, 2, &mut |_| {}).unwrap();
    }
    // within the shard
    s.begin_txn(version, n, siblings);
    s.set_string(b"t0", &[v], Expire::Clear).unwrap();
    s.set_string(b"t1", &[v], Expire::Clear).unwrap();
    let (from, to) = if n.is_multiple_of(2) { (b"r0", b"r1") } else { (b"r1", b"r0") };
    if n == 0 {
        s.set_string(from, &[b"here"], Expire::Clear).unwrap();
    }
    assert!(s.rename(from, to).unwrap());
}

fn look(r: &mut PointReader, out: &mut Reply, ok: &mut u64) {
    let mut check =
        |r: &mut PointReader,
         read: &dyn Fn(&mut PointReader, &mut Reply) -> std::result::Result<(), Fallback>| {
            out.truncate(0);
            if read(r, out).is_ok() {
                *ok += 1;
                bulks(out.bytes())
            } else {
                Vec::new()
            }
        };
    let alike = |values: Vec<Option<String>>, what: &str| {
        assert!(values.windows(2).all(|w| w[0] == w[1]), "half of {what}: {values:?}");
    };
    let string = check(r, &|r, out| r.mget(&[(0, b"string")], out));
    if let Some(Some(text)) = string.first() {
        let n = (1..=text.len()).find(|k| text.len() % k == 0 && text[..*k].repeat(text.len() / k) == *text);
        assert!(n.is_some_and(|k| text[..k].parse::<u64>().is_ok()), "torn: {text}");
    }
    alike(check(r, &|r, out| ask(r, "hmget hash f0 f1 f2", out)), "an HSET");
    for i in 0..50 {
        alike(check(r, &|r, out| ask(r, &format!("smismember set a{i} b{i}"), out)), "an SADD");
    }
    alike(check(r, &|r, out| ask(r, "zmscore zset m0 m1", out)), "a ZADD");
    alike(check(r, &|r, out| r.mget(&[(0, b"t0"), (0, b"t1")], out)), "an MSET within a shard");
    alike(check(r, &|r, out| r.mget(&[(0, b"across"), (1, b"across")], out)), "an MSET across shards");
    out.truncate(0);
    if ask(r, "llen list", out).is_ok() {
        let n: u64 = std::str::from_utf8(&out.bytes()[1..out.len() - 2]).unwrap().parse().unwrap();
        assert!(n.is_multiple_of(2), "half of a push");
    }
    out.truncate(0);
    if r.exists(&[(0, b"r0"), (0, b"r1")], out).is_ok() {
        assert_eq!(out.bytes(), b":1\r\n", "half of a RENAME");
    }
}

#[test]
fn readers_never_see_half_of_anything() {
    let (mut a, mut b) = (shard(), shard());
    let stop = AtomicBool::new(false);
    let start = Arc::new(Barrier::new(3));
    let siblings = ["t0", "t1", "r0", "r1", "across"].map(|k| fingerprint(k.as_bytes()));
    one_turn(&mut a, 0, &siblings);
    a.end_txn();
    let readers = [reader(&[&a, &b]), reader(&[&a, &b])];
    std::thread::scope(|scope| {
        let threads = readers.map(|mut r| {
            let (stop, start) = (&stop, start.clone());
            scope.spawn(move || {
                let (mut out, mut ok) = (Reply::default(), 0);
                start.wait();
                while !stop.load(Ordering::Relaxed) {
                    look(&mut r, &mut out, &mut ok);
                }
                (ok, r.counters())
            })
        });
        start.wait();
        let (mut old, mut stable) = (Vec::new(), std::collections::VecDeque::new());
        for n in 1..15_000u64 {
            one_turn(&mut a, n, &siblings);
            let text = n.to_string();
            a.set_string(b"across", &[text.as_bytes()], Expire::Clear).unwrap();
            let first = a.end_txn().unwrap();
            b.begin_txn(Version { ts: 10 + n, seq: 0 }, n, &siblings);
            b.set_string(b"across", &[text.as_bytes()], Expire::Clear).unwrap();
            let second = b.end_txn().unwrap();
            old.push((first, second));
            if n.is_multiple_of(64) {
                // what became stable in an epoch is forgotten when the next but one begins
                stable.push_back(std::mem::take(&mut old));
                if stable.len() > 2 {
                    let (firsts, seconds): (Vec<_>, Vec<_>) =
                        stable.pop_front().into_iter().flatten().unzip();
                    a.forget_txns(&firsts);
                    b.forget_txns(&seconds);
                }
                a.bump_epoch();
                b.bump_epoch();
                a.tick(1000 + n / 64);
                b.tick(1000 + n / 64);
            }
        }
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            let (ok, counters) = thread.join().unwrap();
            assert!(ok > 0, "{counters:?}");
        }
    });
}

/// What one transaction does in steps is one step to everybody else.
#[test]
fn readers_never_see_a_transaction_between_its_own_commands() {
    let (mut s, stop) = (shard(), AtomicBool::new(false));
    s.begin_write(Version { ts: 1, seq: 0 });
    for key in [&b"big0"[..], b"big1"] {
        for i in 0..600u32 {
            s.hash_set(key, &[(i.to_string().as_bytes(), b"0")]).unwrap();
        }
    }
    let turn = |s: &mut Shard, n: u64| {
        let text = n.to_string();
        s.begin_txn(Version { ts: 1 + n, seq: 0 }, n, &[]);
        s.delete(b"gone and back");
        s.set_add(b"gone and back", &[text.as_bytes()]).unwrap();
        for key in [&b"big0"[..], b"big1"] {
            s.hash_remove(key, &[b"7"]).unwrap();
            s.hash_set(key, &[(b"7", text.as_bytes())]).unwrap();
        }
        s.end_txn().unwrap()
    };
    let first = turn(&mut s, 1);
    let (mut r, start) = (reader(&[&s]), Barrier::new(2));
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut out = Reply::default();
            let mut answer = |read: &mut dyn FnMut(&mut Reply) -> std::result::Result<(), Fallback>| {
                out.truncate(0);
                read(&mut out).is_ok().then(|| String::from_utf8_lossy(out.bytes()).into_owned())
            };
            start.wait();
            let mut answers = 0;
            while !stop.load(Ordering::Relaxed) {
                let exists = answer(&mut |out| r.exists(&[(0, b"gone and back")], out));
                assert!(exists.is_none_or(|e| e == ":1\r\n"), "a key between its DEL and its SADD");
                let fields =
                    ["hget big0 7", "hget big1 7"].map(|line| answer(&mut |out| ask(&mut r, line, out)));
                answers += fields.iter().flatten().count();
                let [Some(a), Some(b)] = fields.map(|f| f.map(|f| f.split("\r\n").nth(1).map(str::to_owned)))
                else {
                    continue;
                };
                let [a, b] = [a, b].map(|f| f.expect("a field between its HDEL and its HSET").parse::<u64>());
                assert!(b.unwrap() >= a.unwrap(), "the second half was read from before the first");
            }
            answers
        });
        let _stop = Stop(&stop);
        start.wait();
        let mut old = vec![first];
        for n in 2..60_000 {
            if looking.is_finished() {
                break;
            }
            old.push(turn(&mut s, n));
            if n.is_multiple_of(64) {
                s.bump_epoch();
                s.bump_epoch();
                s.forget_txns(&std::mem::take(&mut old));
                s.tick(1000 + n / 64);
            }
        }
        drop(_stop);
        assert!(looking.join().unwrap() > 0, "nothing was answered");
    });
}

/// Tells the other threads to stop, whatever happens to this one.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
