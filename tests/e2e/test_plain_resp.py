"""What a client gets, byte by byte: the five structures, pipelining, inline commands, errors."""

import os

import pytest
from resp import Error, encode
from slots import shard, spread


def test_strings_answer_as_redis_does(connection):
    assert connection("SET", "k", "v") == "OK"
    assert connection("GET", "k") == b"v"
    assert connection("GET", "absent") is None
    assert connection("SET", "k", "w", "NX") is None
    assert connection("SET", "k", "w", "XX", "GET") == b"v"
    assert connection("APPEND", "k", "xyz") == 4
    assert connection("GETRANGE", "k", 1, -1) == b"xyz"
    assert connection("INCRBY", "n", 41) == 41
    assert connection("INCR", "n") == 42
    assert connection("INCRBYFLOAT", "n", "0.5") == b"42.5"
    assert connection("STRLEN", "k") == 4
    assert connection("TYPE", "k") == "string"


def test_lists_answer_as_redis_does(connection):
    assert connection("RPUSH", "l", "a", "b", "c", "d") == 4
    assert connection("LPUSH", "l", "z") == 5
    assert connection("LRANGE", "l", 0, -1) == [b"z", b"a", b"b", b"c", b"d"]
    assert connection("LINDEX", "l", -1) == b"d"
    assert connection("LSET", "l", 1, "A") == "OK"
    assert connection("LREM", "l", 0, "c") == 1
    assert connection("LINSERT", "l", "BEFORE", "b", "before") == 5
    assert connection("LTRIM", "l", 1, 3) == "OK"
    assert connection("LRANGE", "l", 0, -1) == [b"A", b"before", b"b"]
    assert connection("LPOP", "l") == b"A"
    assert connection("RPOP", "l", 5) == [b"b", b"before"]
    assert connection("EXISTS", "l") == 0


def test_hashes_answer_as_redis_does(connection):
    assert connection("HSET", "h", "f", "1", "g", "2") == 2
    assert connection("HSET", "h", "f", "3") == 0
    assert connection("HGET", "h", "f") == b"3"
    assert connection("HMGET", "h", "f", "absent", "g") == [b"3", None, b"2"]
    assert connection("HINCRBY", "h", "g", 40) == 42
    assert connection("HLEN", "h") == 2
    assert sorted(connection("HKEYS", "h")) == [b"f", b"g"]
    flat = connection("HGETALL", "h")
    assert dict(zip(flat[::2], flat[1::2])) == {b"f": b"3", b"g": b"42"}
    assert connection("HDEL", "h", "f", "g", "absent") == 2
    assert connection("EXISTS", "h") == 0


def test_sets_answer_as_redis_does(connection):
    assert connection("SADD", "s", "a", "b", "a") == 2
    assert connection("SISMEMBER", "s", "a") == 1
    assert connection("SMISMEMBER", "s", "a", "x") == [1, 0]
    assert connection("SCARD", "s") == 2
    assert sorted(connection("SMEMBERS", "s")) == [b"a", b"b"]
    assert connection("SREM", "s", "a", "x") == 1
    assert connection("SPOP", "s") == b"b"
    assert connection("SMEMBERS", "s") == []


def test_sorted_sets_answer_as_redis_does(connection):
    assert connection("ZADD", "z", 1, "a", 2, "b", "3.5", "c") == 3
    assert connection("ZADD", "z", "GT", "CH", 5, "a", 1, "b") == 1
    assert connection("ZSCORE", "z", "c") == b"3.5"
    assert connection("ZRANGE", "z", 0, -1, "WITHSCORES") == [b"b", b"2", b"c", b"3.5", b"a", b"5"]
    assert connection("ZRANGEBYSCORE", "z", "(2", "+inf") == [b"c", b"a"]
    assert connection("ZRANK", "z", "a") == 2
    assert connection("ZINCRBY", "z", 10, "b") == b"12"
    assert connection("ZPOPMIN", "z") == [b"c", b"3.5"]
    assert connection("ZCARD", "z") == 2


@pytest.mark.parametrize("members", [3, 5000])
def test_algebra_over_keys_of_different_shards(connection, members):
    """Five thousand members: past every small encoding."""
    a, b, out = spread("alg", 3)
    assert len({shard(a), shard(b), shard(out)}) == 3
    for first in range(0, members, 500):
        connection("SADD", a, *range(first, min(first + 500, members)))
        connection("SADD", b, *range(first + 1, min(first + 500, members) + 1))
    assert connection("SCARD", a) == members
    assert len(connection("SINTER", a, b)) == members - 1
    assert len(connection("SUNION", a, b)) == members + 1
    assert connection("SDIFF", a, b) == [b"0"]
    assert connection("SINTERSTORE", out, a, b) == members - 1
    assert connection("SCARD", out) == members - 1
    assert connection("SMOVE", a, b, 0) == 1
    assert connection("SISMEMBER", b, 0) == 1
    assert connection("ZUNIONSTORE", out, 2, a, b) == members + 1
    assert connection("ZSCORE", out, 1) == b"2"
    assert connection("RENAME", out, a) == "OK"
    assert connection("ZCARD", a) == members + 1
    assert connection("COPY", a, out) == 1
    assert connection("ZCARD", out) == members + 1
    lists = spread("lst", 2)
    connection("RPUSH", lists[0], "x", "y")
    assert connection("LMOVE", lists[0], lists[1], "LEFT", "RIGHT") == b"x"
    assert connection("LRANGE", lists[1], 0, -1) == [b"x"]


def test_multi_key_commands_reach_every_shard(connection):
    keys = spread("m", 32)
    flat = [word for number, key in enumerate(keys) for word in (key, f"v{number}")]
    assert connection("MSET", *flat) == "OK"
    assert connection("MGET", *keys, "absent") == [b"v%d" % n for n in range(32)] + [None]
    assert connection("EXISTS", *keys, keys[0]) == 33
    assert connection("DBSIZE") == 32
    assert connection("TOUCH", *keys[:4]) == 4
    assert connection("MSETNX", keys[0], "x", "fresh", "y") == 0
    assert connection("EXISTS", "fresh") == 0
    assert connection("DEL", *keys[:16]) == 16
    assert connection("UNLINK", *keys) == 16
    assert connection("DBSIZE") == 0


def test_a_pipeline_is_answered_in_order(connection):
    commands = []
    for number in range(5000):
        commands += [("SET", f"p{number % 97}", number), ("GET", f"p{number % 97}"), ("INCR", "count")]
    replies = connection.pipeline(commands)
    for number in range(5000):
        assert replies[3 * number : 3 * number + 3] == ["OK", b"%d" % number, number + 1]


def test_a_pipeline_keeps_its_order_across_shards(connection):
    """A multi-key command waits for other shards; what follows it on the connection must not overtake it."""
    keys = spread("po", 8)
    commands, expected = [], []
    for number in range(300):
        commands.append(("MSET", *[word for key in keys for word in (key, number)]))
        commands.append(("GET", keys[number % 8]))
        commands.append(("MGET", *keys))
        commands.append(("INCR", keys[3]))
        commands.append(("GET", keys[3]))
        value = b"%d" % number
        expected += ["OK", value, [value] * 8, number + 1, b"%d" % (number + 1)]
    assert connection.pipeline(commands) == expected


def test_inline_commands_work_as_from_telnet(connection):
    connection.send(b'SET greeting "hello \\x41\\n world"\r\n')
    assert connection.read() == "OK"
    connection.send(b"GET greeting\r\nPING\n\r\n")
    assert connection.read() == b"hello A\n world"
    assert connection.read() == "PONG"
    connection.send(b"get 'greeting'\r\n")
    assert connection.read() == b"hello A\n world"


def test_keys_and_values_are_any_bytes(connection):
    everything = bytes(range(256))
    keys = [everything + bytes([n]) for n in range(16)] + [b"", b"\r\n", b"{", b"{}a", b"\x00"]
    for key in keys:
        assert connection("SET", key, everything + key) == "OK"
    assert connection("MGET", *keys) == [everything + key for key in keys]
    assert sorted(connection("KEYS", "*")) == sorted(keys)
    assert connection("HSET", b"h\x00", b"\xff\x00", b"\r\n") == 1
    assert connection("HGETALL", b"h\x00") == [b"\xff\x00", b"\r\n"]


@pytest.mark.parametrize("size", [0, 1, 63, 64, 4095, 65536, 1 << 20, 10 << 20])
def test_values_of_every_size_come_back_whole(connection, size):
    value = os.urandom(size)
    a, b = spread("big", 2)
    assert connection("SET", a, value) == "OK"
    assert connection("GET", a) == value
    assert connection("STRLEN", a) == size
    assert connection("MSET", a, value, b, value[::-1]) == "OK"
    assert connection("MGET", a, b) == [value, value[::-1]]
    assert connection("HSET", "bh", "f", value) == 1
    assert connection("HGET", "bh", "f") == value
    assert connection("RPUSH", "bl", value, b"x") == 2
    assert connection("LINDEX", "bl", 0) == value


def test_big_values_replaced_again_and_again_do_not_pile_up(server, connection):
    value = os.urandom(10 << 20)
    for _ in range(3):
        connection("SET", "pile", value)
    before = server.resident_bytes()
    for _ in range(30):
        assert connection("SET", "pile", value) == "OK"
    assert server.resident_bytes() < before + (150 << 20)


ERRORS = [
    (("NOSUCH", "a"), "ERR unknown command 'NOSUCH', with args beginning with: 'a' "),
    (("GET",), "ERR wrong number of arguments for 'get' command"),
    (("MSET", "a"), "ERR wrong number of arguments for 'mset' command"),
    (("MSET", "a", "1", "b"), "ERR wrong number of arguments for 'mset' command"),
    (("LPUSH", "string", "x"), "WRONGTYPE Operation against a key holding the wrong kind of value"),
    (("GET", "list"), "WRONGTYPE Operation against a key holding the wrong kind of value"),
    (("ZADD", "list", 1, "a"), "WRONGTYPE Operation against a key holding the wrong kind of value"),
    (("SINTER", "absent", "string"), "WRONGTYPE Operation against a key holding the wrong kind of value"),
    (("INCR", "string"), "ERR value is not an integer or out of range"),
    (("INCRBY", "number", "9223372036854775807"), "ERR increment or decrement would overflow"),
    (("DECRBY", "number", "-9223372036854775808"), "ERR decrement would overflow"),
    (("INCRBYFLOAT", "string", "1"), "ERR value is not a valid float"),
    (("SET", "a", "b", "NX", "XX"), "ERR syntax error"),
    (("SET", "a", "b", "EX", "0"), "ERR invalid expire time in 'set' command"),
    (("SET", "a", "b", "EX", "x"), "ERR value is not an integer or out of range"),
    (("EXPIRE", "string", "x"), "ERR value is not an integer or out of range"),
    (("SETRANGE", "a", "-1", "b"), "ERR offset is out of range"),
    (("SETRANGE", "a", "536870912", "b"), "ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
    (("LSET", "absent", 0, "x"), "ERR no such key"),
    (("LSET", "list", 10, "x"), "ERR index out of range"),
    (("HINCRBY", "hash", "f", "1"), "ERR hash value is not an integer"),
    (("HSET", "hash", "f"), "ERR wrong number of arguments for 'hset' command"),
    (("ZADD", "z", "x", "a"), "ERR value is not a valid float"),
    (("ZADD", "z", "NX", "XX", 1, "a"), "ERR XX and NX options at the same time are not compatible"),
    (("ZRANGEBYSCORE", "z", "a", "b"), "ERR min or max is not a float"),
    (("ZUNIONSTORE", "z", "0", "a"), "ERR at least 1 input key is needed for 'zunionstore' command"),
    (("RENAME", "absent", "b"), "ERR no such key"),
    (("EXEC",), "ERR EXEC without MULTI"),
    (("DISCARD",), "ERR DISCARD without MULTI"),
    (("SELECT", "99"), "ERR DB index is out of range"),
    (("SELECT", "x"), "ERR value is not an integer or out of range"),
    (("SCAN", "x"), "ERR invalid cursor"),
    (("HELLO", "9"), "NOPROTO unsupported protocol version"),
    (("OBJECT", "NOSUCH"), "ERR unknown subcommand 'NOSUCH'. Try OBJECT HELP."),
    (("CONFIG", "SET", "nosuch", "1"), "ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'"),
]


@pytest.mark.parametrize("command,text", ERRORS, ids=[" ".join(map(str, command)) for command, _ in ERRORS])
def test_errors_have_the_texts_of_redis(connection, command, text):
    connection("SET", "string", "abc")
    connection("SET", "number", "5")
    connection("RPUSH", "list", "a")
    connection("HSET", "hash", "f", "abc")
    reply = connection(*command)
    assert isinstance(reply, Error), reply
    assert reply == text


def test_expiry_takes_keys_away(connection):
    a, b = spread("ttl", 2)
    connection("SET", a, "v", "PX", 60)
    connection("SET", b, "v")
    assert connection("PEXPIRE", b, 60) == 1
    connection("HSET", "h", "f", "v")
    assert connection("EXPIRE", "h", 1000) == 1
    assert 990 <= connection("TTL", "h") <= 1000
    assert connection("PERSIST", "h") == 1
    assert connection("TTL", "h") == -1
    assert connection("TTL", "absent") == -2
    wait_until(lambda: connection("MGET", a, b) == [None, None])
    assert connection("EXISTS", a, b) == 0
    wait_until(lambda: connection("DBSIZE") == 1)


def wait_until(holds, timeout_s=10):
    import time

    give_up = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < give_up, "it never came true"
        time.sleep(0.01)


def test_scan_returns_every_key_that_is_there_throughout(server, connection):
    """Other keys come and go meanwhile, and tables grow; nothing that stays may be missed."""
    stay = {b"stay:%d" % n for n in range(3000)}
    connection.pipeline([("SET", key, "x") for key in stay])
    with server.connect() as writer:
        for round_number in range(3):
            seen, cursor, step = set(), b"0", 0
            while True:
                cursor, keys = connection("SCAN", cursor, "COUNT", 50)
                seen.update(keys)
                names = [f"go:{round_number}:{step}:{n}" for n in range(100)]
                writer.pipeline([("SET", name, "x") for name in names])
                if step % 2:
                    writer("DEL", *names)
                step += 1
                if cursor == b"0":
                    break
                assert step < 20_000, "SCAN does not end"
            assert stay <= seen, f"{len(stay - seen)} keys missed"


def test_scan_of_collections_misses_nothing(connection):
    for first in range(0, 3000, 500):
        numbers = range(first, first + 500)
        connection("HSET", "h", *[word for n in numbers for word in (f"f{n}", n)])
        connection("SADD", "s", *[f"m{n}" for n in numbers])
        connection("ZADD", "z", *[word for n in numbers for word in (n, f"m{n}")])
    for command, key, stride in (("HSCAN", "h", 2), ("SSCAN", "s", 1), ("ZSCAN", "z", 2)):
        seen, cursor = set(), b"0"
        while True:
            cursor, part = connection(command, key, cursor, "COUNT", 37)
            seen.update(part[::stride])
            if cursor == b"0":
                break
        assert len(seen) == 3000, command


def test_flushall_empties_every_shard(connection):
    keys = spread("fl", 64)
    connection("MSET", *[word for key in keys for word in (key, "v")])
    assert connection("FLUSHALL") == "OK"
    assert connection("DBSIZE") == 0
    assert connection("KEYS", "*") == []
    assert connection("RANDOMKEY") is None


def test_resp3_is_spoken_after_hello_3(connection):
    connection("HSET", "h", "f", "v")
    connection("SADD", "s", "m")
    connection("ZADD", "z", "1.5", "m")
    connection.send(encode("HELLO", "3"))
    first = connection.stream.readline()
    assert first.startswith(b"%")
    connection.send(encode("HGETALL", "h"))
    expected = b"%1\r\n$1\r\nf\r\n$1\r\nv\r\n"
    connection.send(encode("PING"))
    seen = b""
    while not seen.endswith(b"+PONG\r\n"):
        seen += connection.stream.readline()
    assert seen.endswith(expected + b"+PONG\r\n")
    for command, expected in [
        (("SMEMBERS", "s"), b"~1\r\n$1\r\nm\r\n"),
        (("ZSCORE", "z", "m"), b",1.5\r\n"),
        (("GET", "absent"), b"_\r\n"),
        (("LPOP", "absent"), b"_\r\n"),
        (("ZRANGE", "z", "0", "-1", "WITHSCORES"), b"*1\r\n*2\r\n$1\r\nm\r\n,1.5\r\n"),
    ]:
        connection.send(encode(*command))
        assert connection.stream.read(len(expected)) == expected, command
