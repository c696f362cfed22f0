//! The shard against the plain reference, over random sequences of operations.
use super::*;
use crate::{Error, Result, Type, model};
use kintsugidb_arena::Config;
use proptest::prelude::*;

/// One operation: what it is, on which key, with two numbers that stand for whatever arguments it needs.
#[derive(Clone, Copy, Debug)]
struct Op {
    code: u8,
    key: u8,
    a: u16,
    b: u16,
}

fn ops(most: usize) -> impl Strategy<Value = Vec<Op>> {
    let op = (0u8..40, 0u8..6, any::<u16>(), any::<u16>());
    prop::collection::vec(op.prop_map(|(code, key, a, b)| Op { code, key, a, b }), 0..most)
}

fn name(n: u16) -> Vec<u8> {
    let mut name = format!("name{}", n % 200).into_bytes();
    if n.is_multiple_of(97) {
        name.resize(100, b'.');
    }
    name
}

fn text(n: u16) -> Vec<u8> {
    let len = match n % 50 {
        0 => usize::from(n) * 3,
        k => usize::from(k),
    };
    vec![b'a' + (n % 26) as u8; len]
}

/// Runs an operation on either form of a shard and puts what it answered into words.
macro_rules! run {
    ($shard:expr, $op:expr) => {{
        let (s, Op { code, key, a, b }) = ($shard, $op);
        let k = &[b'k', key][..];
        let to = &[b'k', (b % 6) as u8][..];
        let (n, t) = (name(a), text(b));
        let (n, t) = (&n[..], &t[..]);
        let score = f64::from(b % 30) / 2.0;
        let names: Vec<Vec<u8>> = (0..b % 40).map(|i| name(a.wrapping_add(i * 7))).collect();
        let refs: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let pairs: Vec<(&[u8], &[u8])> = refs.iter().map(|r| (*r, t)).collect();
        let mut seen: Vec<Vec<u8>> = Vec::new();
        let end = if b.is_multiple_of(2) { ListEnd::Left } else { ListEnd::Right };
        let (index, count) = (usize::from(a % 40), usize::from(b % 30));
        let index = if a.is_multiple_of(3) { usize::from(a % 400) } else { index };
        let answer: Result<String> = (|| {
            Ok(match code {
                0 => format!("{:?}", s.string(k)?.map(<[u8]>::to_vec)),
                1 => format!("{:?}", s.set_string(k, &[n, t], Expire::Clear)?),
                2 => format!("{:?}", s.set_string(k, &[t], Expire::Keep)?),
                3 => format!("{:?}", s.set_string(k, &[t], Expire::At(s.now_ms + u64::from(a % 300)))?),
                4 | 5 => format!("{:?}", s.delete(k)),
                6 => format!("{:?}", s.set_expire_at(k, Some(s.now_ms + u64::from(a % 300)))?),
                7 => format!("{:?} {:?}", s.set_expire_at(k, None)?, s.expire_at(k)),
                8 => format!("{:?}", s.rename(k, to)?),
                9 if a.is_multiple_of(10) => format!("{:?}", s.flush()),
                10 => match s.dump(k) {
                    Some(d) => format!("{:?}", s.restore(to, d)?),
                    None => String::new(),
                },
                11 | 12 => format!("{:?}", s.hash_set(k, &[(n, t)])?),
                13 if !pairs.is_empty() => format!("{:?}", s.hash_set(k, &pairs)?),
                14 => format!("{:?}", s.hash_remove(k, &refs)?),
                15 => format!("{:?} {:?}", s.hash_len(k)?, s.hash_get(k, n)?.map(<[u8]>::to_vec)),
                16 if !refs.is_empty() => format!("{:?}", s.set_add(k, &refs)?),
                17 => format!("{:?}", s.set_add(k, &[n])?),
                18 => format!("{:?}", s.set_remove(k, &refs)?),
                19 => format!("{:?} {:?}", s.set_len(k)?, s.set_contains(k, n)?),
                20..=22 => format!("{:?}", s.zset_add(k, score, n)?),
                23 => format!("{:?}", s.zset_remove(k, &refs)?),
                24 => format!("{:?} {:?} {:?}", s.zset_len(k)?, s.zset_score(k, n)?, s.zset_rank(k, n)?),
                25 => format!(
                    "{} {}",
                    s.zset_rank_of_score(k, ScoreBound::Before(score))?,
                    s.zset_rank_of_score(k, ScoreBound::After(score))?
                ),
                26 | 27 => {
                    s.zset_range(k, index, count, code == 27, &mut |m, s| {
                        seen.push(format!("{m:?}{s}").into())
                    })?;
                    format!("{seen:?}")
                }
                28 if !refs.is_empty() => format!("{:?}", s.list_push(k, end, &refs)?),
                29 => format!("{:?}", s.list_push(k, end, &[t])?),
                30 => format!("{:?} {seen:?}", s.list_pop(k, end, count, &mut |e| seen.push(e.to_vec()))?),
                31 => format!("{:?}", s.list_set(k, index, t)?),
                32 => format!("{:?}", s.list_insert(k, index, t)?),
                33 => format!("{:?}", s.list_remove_range(k, index, count)?),
                34 => format!("{:?}", s.list_remove_equal(k, i64::from(b % 7) - 3, n)?),
                35 => {
                    s.list_range(k, index, count, &mut |e| seen.push(e.to_vec()))?;
                    format!("{seen:?} {:?} {:?}", s.list_len(k)?, s.list_get(k, index)?.map(<[u8]>::to_vec))
                }
                36 => {
                    s.now_ms += u64::from(a % 100);
                    String::new()
                }
                37 => format!("{:?} {:?}", s.type_of(k), s.expire_at(k)),
                38 => format!("{:?}", s.restore(k, crate::Dump { value: zset(a, b), expire_at_ms: None })?),
                39 => {
                    s.restore(k, crate::Dump { value: level_zset(a, b), expire_at_ms: None })?;
                    let bounds = [LexBound::First, LexBound::Last, LexBound::Before(n), LexBound::After(n)];
                    let ranks: Result<Vec<_>> =
                        bounds.into_iter().map(|b| s.zset_rank_of_lex(k, b)).collect();
                    format!("{:?}", ranks?)
                }
                _ => String::new(),
            })
        })();
        answer.unwrap_or_else(|error| error.to_string())
    }};
}

fn zset(a: u16, b: u16) -> crate::Value {
    crate::Value::Zset((0..b % 300).map(|i| (name(a.wrapping_add(i)), f64::from(i % 9))).collect())
}

fn level_zset(a: u16, b: u16) -> crate::Value {
    crate::Value::Zset((0..b % 300).map(|i| (name(a.wrapping_add(i)), 1.5)).collect())
}

fn small_limits() -> Limits {
    Limits {
        hash_entries: 12,
        set_entries: 10,
        zset_entries: 9,
        list_entries: 11,
        bytes: 300,
        ..Limits::default()
    }
}

fn config() -> Config {
    Config { reserve_bytes: 1 << 28, ..Config::default() }
}

fn tag_version(n: usize) -> Version {
    Version { ts: 1000 + n as u64, seq: (n % 3) as u32 }
}

fn every_key(shard: &Shard) -> Vec<(Vec<u8>, Type)> {
    let (mut keys, mut cursor) = (Vec::new(), 0);
    loop {
        cursor = shard.scan(cursor, &mut |k, t| keys.push((k.to_vec(), t)));
        if cursor == 0 {
            break;
        }
    }
    keys.sort_by(|a, b| a.0.cmp(&b.0));
    keys
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn answers_as_the_plain_reference_does(ops in ops(400), small in any::<bool>(), tagged in any::<bool>(), hot in 0u8..6) {
        let mut shard = Shard::create(7, config()).unwrap();
        let mut model = model::Shard::new();
        (shard.now_ms, model.now_ms) = (1000, 1000);
        let mut records = Vec::new();
        for k in 0..hot {
            shard.heat(&[b'k', k]);
        }
        if small {
            shard.set_limits(small_limits());
        }
        for (i, &op) in ops.iter().enumerate() {
            let k = &[b'k', op.key][..];
            let (before, was) = (shard.dump(k), shard.version(k));
            // a flush counts expired keys too, and each form forgets those when it likes
            let dirty = (shard.dirty(), model.dirty());
            let version = tag_version(i);
            if tagged && i % 5 == 0 {
                shard.begin_txn(version, i as u64 + 1, &[op.a.into(), op.b.into()]);
            } else {
                shard.begin_write(version);
            }
            model.begin_write(version);
            prop_assert_eq!(run!(&mut shard, op), run!(&mut model, op), "{:?}", op);
            records.extend(shard.end_txn());
            if op.code != 9 {
                prop_assert_eq!(shard.dirty() - dirty.0, model.dirty() - dirty.1, "{:?}", op);
            }
            let after = shard.dump(k);
            prop_assert!(before == after || after.is_none() || shard.version(k) != was, "{:?}", op);
            prop_assert_eq!(&after, &model.dump(k));
            if i % 50 == 49 {
                let now = model.now_ms;
                shard.tick(now);
                shard.forget_txns(&std::mem::take(&mut records));
            }
        }
        let mut keys = Vec::new();
        model.for_each_key(&mut |k, t| keys.push((k.to_vec(), t)));
        prop_assert_eq!(&every_key(&shard), &keys);
        prop_assert_eq!(shard.random_key().is_some(), !keys.is_empty());
        prop_assert_eq!(shard.arena.check(), Ok(()));
    }

    #[test]
    fn memory_returns_to_where_it_began(ops in ops(300), flush in any::<bool>()) {
        let mut shard = Shard::create(7, config()).unwrap();
        shard.set_limits(small_limits());
        let baseline = shard.memory();
        let mut records = Vec::new();
        for (i, &op) in ops.iter().enumerate() {
            if i % 4 == 0 {
                shard.begin_txn(tag_version(i), i as u64 + 1, &[1, 2]);
            }
            run!(&mut shard, op);
            records.extend(shard.end_txn());
        }
        if flush {
            shard.flush();
        } else {
            for k in 0..6 {
                shard.delete(&[b'k', k]);
            }
        }
        shard.forget_txns(&records);
        for _ in 0..200 {
            let now = shard.now_ms + 100;
            shard.tick(now);
        }
        prop_assert_eq!(shard.len(), 0);
        let memory = shard.memory();
        prop_assert!(memory.heap == 0 && memory.expiry == 0, "{:?}", memory);
        prop_assert!(memory.region <= baseline.region + 1024, "{:?} {:?}", memory, baseline);
        prop_assert_eq!(shard.arena.check(), Ok(()));
    }

    #[test]
    fn a_scratch_shard_does_not_grow(ops in ops(60)) {
        let mut shard = Shard::scratch(7);
        let mut used = Vec::new();
        for _ in 0..12 {
            for &op in &ops {
                run!(&mut shard, op);
            }
            shard.flush();
            used.push(shard.arena.used_bytes());
        }
        prop_assert!(used[2..].iter().all(|bytes| *bytes <= used[..2].iter().max().unwrap() + 65536), "{:?}", used);
    }

    #[test]
    fn what_is_refused_for_want_of_memory_changes_nothing(ops in ops(300), room in 0usize..60_000) {
        let mut shard = Shard::create(7, config()).unwrap();
        shard.set_limits(small_limits());
        shard.set_memory_limit(shard.memory().used + room);
        for (i, &op) in ops.iter().enumerate() {
            shard.begin_write(tag_version(i));
            let before: Vec<_> = (0..6).map(|k| (shard.dump(&[b'k', k]), shard.version(&[b'k', k]))).collect();
            let dirty = shard.dirty();
            if run!(&mut shard, op) == Error::OutOfMemory.to_string() {
                let after: Vec<_> = (0..6).map(|k| (shard.dump(&[b'k', k]), shard.version(&[b'k', k]))).collect();
                prop_assert_eq!(before, after);
                prop_assert_eq!(dirty, shard.dirty());
            }
        }
        prop_assert_eq!(shard.arena.check(), Ok(()));
    }
}
