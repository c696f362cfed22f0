//! What a client does is what the server's other clients see, in every mode and isolation.
mod support;
use kintsugidb_client::{Client, Error, Mode, Options, Value};
use support::Running;

const MODES: [Mode; 3] = [Mode::OneSided, Mode::Messages, Mode::OneByOne];

fn every_type(c: &mut Client, prefix: &str) {
    let k = |name: &str| format!("{prefix}{name}");
    c.set(k("s"), "one").unwrap();
    assert_eq!(c.get(k("s")).unwrap().as_deref(), Some(&b"one"[..]));
    assert_eq!(c.get(k("absent")).unwrap(), None);
    assert_eq!(c.incr_by(k("n"), 5).unwrap(), 5);
    assert_eq!(c.incr_by(k("n"), -7).unwrap(), -2);

    assert!(c.hset(k("h"), "f", "v").unwrap());
    assert_eq!(c.hget(k("h"), "f").unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(c.hmget(k("h"), ["f", "g"]).unwrap(), [Some(b"v".to_vec()), None]);
    assert_eq!(c.hgetall(k("h")).unwrap(), [(b"f".to_vec(), b"v".to_vec())]);
    assert_eq!((c.hlen(k("h")).unwrap(), c.hdel(k("h"), ["f"]).unwrap()), (1, 1));

    assert_eq!(c.sadd(k("set"), ["a", "b"]).unwrap(), 2);
    assert!(c.sismember(k("set"), "a").unwrap() && !c.sismember(k("set"), "z").unwrap());
    assert_eq!((c.scard(k("set")).unwrap(), c.srem(k("set"), ["a"]).unwrap()), (2, 1));
    assert_eq!(c.smembers(k("set")).unwrap(), [b"b".to_vec()]);

    assert!(c.zadd(k("z"), 1.5, "m").unwrap());
    assert_eq!(c.zscore(k("z"), "m").unwrap(), Some(1.5));
    assert_eq!(c.zrange(k("z"), 0, -1).unwrap(), [(b"m".to_vec(), 1.5)]);
    assert_eq!((c.zcard(k("z")).unwrap(), c.zrem(k("z"), ["m"]).unwrap()), (1, 1));

    assert_eq!((c.rpush(k("l"), ["b", "c"]).unwrap(), c.lpush(k("l"), ["a"]).unwrap()), (2, 3));
    assert_eq!(c.lrange(k("l"), 0, -1).unwrap(), [b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]);
    assert_eq!((c.llen(k("l")).unwrap(), c.lpop(k("l")).unwrap(), c.rpop(k("l")).unwrap()), {
        (3, Some(b"a".to_vec()), Some(b"c".to_vec()))
    });

    assert!(c.expire_ms(k("s"), 100_000).unwrap());
    assert!(c.ttl_ms(k("s")).unwrap().is_some_and(|ms| ms > 50_000));
    assert_eq!(c.del([k("s"), k("n"), k("absent")]).unwrap(), 2);
    assert!(!c.exists(k("s")).unwrap());
    let wrong = c.get(k("set")).unwrap_err();
    assert!(matches!(&wrong, Error::Server(e) if e.starts_with("WRONGTYPE")), "{wrong}");
}

#[test]
fn typed_operations_do_what_redis_says_in_every_mode() {
    for (threads, shards) in [(1, 4), (2, 5)] {
        let server = Running::start(threads, shards, "fast");
        for mode in MODES {
            let mut c = server.client(mode);
            assert_eq!(c.is_one_sided(), mode == Mode::OneSided);
            every_type(&mut c, &format!("{mode:?}:"));
            assert_eq!(c.counters().one_sided > 0, mode == Mode::OneSided, "{:?}", c.counters());
        }
    }
}

#[test]
fn keys_of_several_shards_are_written_and_read_together_in_every_isolation() {
    for isolation in ["fast", "small", "hybrid", "locking", "none"] {
        let server = Running::start(2, 8, isolation);
        for mode in MODES {
            let mut c = server.client(mode);
            let keys: Vec<String> = (0..20).map(|i| format!("{mode:?}-{i}")).collect();
            c.mset(keys.iter().map(|k| (k, format!("value of {k}")))).unwrap();
            let values = c.mget(&keys).unwrap();
            for (k, v) in keys.iter().zip(values) {
                assert_eq!(v, Some(format!("value of {k}").into_bytes()), "{isolation} {mode:?}");
            }
            let mut other = server.resp();
            assert_eq!(other.call(&["EXISTS", &keys[0], &keys[1], &keys[2]]).unwrap(), Value::Int(3));
            assert!(c.counters().transactions > 0, "the client coordinates: {:?}", c.counters());
            assert_eq!(c.del(&keys).unwrap(), 20);
        }
    }
}

#[test]
fn over_tcp_everything_works_by_messages_and_by_emulated_reads() {
    let server = Running::start_on("tcp:127.0.0.1:0", 2, 5, "fast");
    let mut c = server.client(Mode::OneSided);
    assert!(!c.is_one_sided(), "reads by an agent of the server are not one-sided");
    every_type(&mut c, "messages:");
    let options = Options { emulated: true, ..Options::default() };
    let mut c = Client::connect_with(&server.address, options).unwrap();
    assert!(c.is_one_sided());
    every_type(&mut c, "emulated:");
    let keys: Vec<String> = (0..40).map(|i| format!("key {i}")).collect();
    c.mset(keys.iter().map(|k| (k, format!("value of {k}")))).unwrap();
    for _ in 0..3 {
        let values = c.mget(&keys).unwrap();
        assert!(keys.iter().zip(values).all(|(k, v)| v == Some(format!("value of {k}").into_bytes())));
    }
    assert_eq!(c.get("key 7").unwrap().as_deref(), Some(&b"value of key 7"[..]));
    assert!(c.counters().one_sided > 3, "{:?}", c.counters());
}

#[test]
fn items_of_small_and_large_collections_are_fetched_without_a_message() {
    let server = Running::start_on("tcp:127.0.0.1:0", 2, 5, "fast");
    let mut writer = server.client(Mode::Messages);
    for (size, n) in [("small", 3), ("large", 400)] {
        for i in 0..n {
            let name = i.to_string();
            assert!(writer.hset(format!("h{size}"), &name, format!("{size} {i}")).unwrap());
            assert_eq!(writer.sadd(format!("s{size}"), [&name]).unwrap(), 1);
            assert!(writer.zadd(format!("z{size}"), f64::from(i), &name).unwrap());
        }
    }
    let options = Options { emulated: true, ..Options::default() };
    let mut c = Client::connect_with(&server.address, options).unwrap();
    let mut reads = 0;
    for _ in 0..2 {
        for (size, n) in [("small", 3u64), ("large", 400)] {
            let [h, s, z] = ["h", "s", "z"].map(|t| format!("{t}{size}"));
            let value = Some(format!("{size} 2").into_bytes());
            assert_eq!(c.hget(&h, "2").unwrap(), value);
            assert_eq!(c.hmget(&h, ["2", "absent", "0"]).unwrap()[..2], [value.clone(), None]);
            assert!(c.sismember(&s, "1").unwrap() && !c.sismember(&s, "absent").unwrap());
            assert_eq!((c.zscore(&z, "1").unwrap(), c.zscore(&z, "absent").unwrap()), (Some(1.0), None));
            assert_eq!((c.hlen(&h).unwrap(), c.scard(&s).unwrap(), c.zcard(&z).unwrap()), (n, n, n));
            assert!(c.exists(&h).unwrap());
            let both = c.transaction().hget(&h, "2").command(&["SISMEMBER", &s, "9"]).get("none").exec();
            let member = Value::Int(i64::from(size == "large"));
            assert_eq!(both.unwrap().unwrap(), [value.map_or(Value::Null, Value::Bulk), member, Value::Null]);
            reads += 11;
        }
    }
    let all = c.counters();
    assert_eq!((all.one_sided, all.commands + all.messages_sent, all.fallbacks), (reads, 0, 0), "{all:?}");
}

#[test]
fn a_transaction_mixes_types_reads_and_writes_and_honours_watches() {
    let server = Running::start(2, 8, "fast");
    for mode in MODES {
        let mut c = server.client(mode);
        let k = |name: &str| format!("{mode:?}:{name}");
        let done = c
            .transaction()
            .set(k("a"), "1")
            .hset(k("h"), "f", "2")
            .sadd(k("s"), ["x", "y"])
            .zadd(k("z"), 3.0, "m")
            .rpush(k("l"), ["p"])
            .incr_by(k("n"), 4)
            .exec()
            .unwrap()
            .expect("nothing was watched");
        assert_eq!(done[0], Value::Simple("OK".into()));
        assert_eq!(done[1..], [1, 2, 1, 1, 4].map(Value::Int));
        let read = c.transaction().get(k("a")).hget(k("h"), "f").smembers(k("s")).exec().unwrap().unwrap();
        assert_eq!(read[0], Value::Bulk(b"1".to_vec()));
        assert_eq!(read[1], Value::Bulk(b"2".to_vec()));
        assert_eq!(read[2].elements().map(<[_]>::len), Some(2));

        // A move between shards, evaluated by the client.
        let moved =
            c.transaction().command(&["RENAME", &k("a"), &k("b")]).get(k("b")).exec().unwrap().unwrap();
        assert_eq!(moved[1], Value::Bulk(b"1".to_vec()));
        assert_eq!(c.get(k("a")).unwrap(), None);

        c.watch([k("b"), k("n")]).unwrap();
        server.resp().call(&["SET", &k("b"), "changed"]).unwrap();
        // Commands in between, also over several shards, are none of the transaction.
        c.mset((0..9).map(|i| (format!("{mode:?}-other-{i}"), "x"))).unwrap();
        assert_eq!(c.mget((0..9).map(|i| format!("{mode:?}-other-{i}"))).unwrap().len(), 9);
        assert_eq!(c.get(k("h2")).unwrap(), None);
        assert_eq!(c.transaction().set(k("n"), "0").exec().unwrap(), None, "a watched key changed");
        assert_eq!(
            c.transaction().set(k("n"), "0").set(k("b"), "1").exec().unwrap().map(|r| r.len()),
            Some(2)
        );
    }
    let mut c = server.client(Mode::OneSided);
    assert!(matches!(c.command(&["MULTI"]), Err(Error::NotHere(_))));
    assert!(c.transaction().command(&["KEYS", "*"]).exec().is_err());
}

#[test]
fn large_values_and_many_keys_pass_through_the_rings() {
    let server = Running::start(2, 4, "fast");
    let mut c = server.client(Mode::Messages);
    let large = vec![7u8; 3 << 20];
    c.set("large", &large).unwrap();
    assert_eq!(c.get("large").unwrap().as_ref(), Some(&large));
    c.mset((0..5000).map(|i| (format!("k{i}"), vec![b'x'; 200]))).unwrap();
    let all = c.mget((0..5000).map(|i| format!("k{i}"))).unwrap();
    assert!(all.iter().all(|v| v.as_ref().is_some_and(|v| v.len() == 200)));
    let mut c = server.client(Mode::OneSided);
    assert_eq!(c.get("large").unwrap().as_ref(), Some(&large));
}

#[cfg(feature = "async")]
#[test]
fn futures_complete_in_order_on_any_executor() {
    use std::{
        future::Future,
        pin::pin,
        sync::Arc,
        task::{Context, Poll, Wake, Waker},
    };
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut future = pin!(future);
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(out) => return out,
                Poll::Pending => std::thread::park(),
            }
        }
    }
    let server = Running::start(2, 4, "fast");
    let client = kintsugidb_client::AsyncClient::new(server.client(Mode::OneSided)).unwrap();
    let written = client.mset([("a", "1"), ("b", "2")]);
    let both = client.run(|c| c.transaction().incr_by("a", 1).incr_by("b", 1).exec());
    let read = client.mget(["a", "b"]);
    block_on(async move {
        written.await.unwrap();
        assert_eq!(both.await.unwrap(), Some(vec![Value::Int(2), Value::Int(3)]));
        assert_eq!(read.await.unwrap(), [Some(b"2".to_vec()), Some(b"3".to_vec())]);
        assert_eq!(client.get("a").await.unwrap(), Some(b"2".to_vec()));
    });
}

/// A reply that does not fit the socket at once, of a connection that the server has stopped polling: the rest follows when there is room.
#[test]
fn large_replies_come_whole_to_who_reads_late() {
    let server = Running::start_on("tcp:127.0.0.1:0", 2, 4, "fast");
    let mut client = server.client(Mode::Messages);
    let value = vec![b'x'; 8 << 20];
    for key in ["a", "b", "c", "d"] {
        client.set(key, &value).unwrap();
    }
    for _ in 0..20 {
        for key in ["a", "b", "c", "d"] {
            assert!(client.get(key).unwrap().as_deref() == Some(&value[..]));
        }
    }
}
