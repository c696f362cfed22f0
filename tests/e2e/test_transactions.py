"""MULTI, EXEC and WATCH over keys of different shards."""

import pytest
from resp import Error
from slots import shard, spread

A, B, C = spread("tx", 3)


def exec_of(connection, *commands):
    """MULTI, the commands, EXEC in one write; EXEC's reply."""
    replies = connection.pipeline([("MULTI",), *commands, ("EXEC",)])
    assert replies[0] == "OK"
    assert replies[1:-1] == ["QUEUED"] * len(commands)
    return replies[-1]


def test_the_keys_of_these_tests_live_on_different_shards():
    assert len({shard(A), shard(B), shard(C)}) == 3


def test_exec_answers_every_command_in_order(connection):
    reply = exec_of(
        connection,
        ("SET", A, "1"),
        ("HSET", B, "f", "2"),
        ("RPUSH", C, "x", "y"),
        ("SADD", "s", "m"),
        ("ZADD", "z", "1", "m"),
        ("PING",),
    )
    assert reply == ["OK", 1, 2, 1, 1, "PONG"]
    assert exec_of(connection, ("GET", A), ("HGET", B, "f"), ("LRANGE", C, 0, -1)) == [b"1", b"2", [b"x", b"y"]]


def test_an_empty_transaction_answers_an_empty_array(connection):
    assert exec_of(connection) == []


def test_a_transfer_between_shards(connection):
    connection("MSET", A, 100, B, 0)
    for _ in range(10):
        exec_of(connection, ("DECRBY", A, 7), ("INCRBY", B, 7))
    assert connection("MGET", A, B) == [b"30", b"70"]


def test_commands_of_a_transaction_on_one_key_see_each_other(connection):
    reply = exec_of(connection, ("SET", A, "5"), ("INCR", A), ("APPEND", A, "0"), ("SET", B, "x"), ("INCR", A))
    assert reply == ["OK", 6, 2, "OK", 61]
    assert connection("GET", A) == b"61"


def test_discard_forgets_what_was_queued(connection):
    assert connection.pipeline([("MULTI",), ("SET", A, 1), ("SET", B, 1), ("DISCARD",)])[-1] == "OK"
    assert connection("MGET", A, B) == [None, None]


def test_an_unknown_command_aborts_the_whole_transaction(connection):
    replies = connection.pipeline([("MULTI",), ("SET", A, 1), ("NOSUCH",), ("SET", B, 1), ("EXEC",)])
    assert isinstance(replies[2], Error)
    assert replies[4] == "EXECABORT Transaction discarded because of previous errors."
    assert connection("MGET", A, B) == [None, None]


def test_a_wrong_number_of_arguments_aborts_the_whole_transaction(connection):
    replies = connection.pipeline([("MULTI",), ("SET", A), ("EXEC",)])
    assert replies[1] == "ERR wrong number of arguments for 'set' command"
    assert replies[2].startswith("EXECABORT")


def test_a_command_that_fails_when_run_fails_alone(connection):
    connection("SET", A, "text")
    reply = exec_of(connection, ("INCR", A), ("SET", B, "1"), ("LPUSH", A, "x"), ("INCR", C))
    assert reply == [
        "ERR value is not an integer or out of range",
        "OK",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        1,
    ]
    assert connection("MGET", A, B, C) == [b"text", b"1", b"1"]


def test_multi_cannot_be_nested_nor_watch_be_inside(connection):
    replies = connection.pipeline([("MULTI",), ("MULTI",), ("WATCH", A), ("SET", A, 1), ("EXEC",)])
    assert replies[1] == "ERR MULTI calls can not be nested"
    assert replies[2] == "ERR WATCH inside MULTI is not allowed"


CHANGES = [
    ("SET", A, "other"),
    ("DEL", A),
    ("APPEND", A, "x"),
    ("EXPIRE", A, "100"),
    ("MSET", A, "other", B, "other"),
    ("RENAME", A, C),
    ("FLUSHALL",),
]


@pytest.mark.parametrize("change", CHANGES, ids=[change[0] for change in CHANGES])
def test_exec_answers_nil_when_a_watched_key_changed(server, connection, change):
    connection("SET", A, "mine")
    assert connection("WATCH", A, B) == "OK"
    with server.connect() as other:
        assert not isinstance(other(*change), Error)
    assert exec_of(connection, ("SET", B, "never"), ("SET", C, "never")) is None
    assert b"never" not in connection("MGET", B, C)
    assert exec_of(connection, ("SET", B, "now"), ("SET", C, "now")) == ["OK", "OK"], "the watch is used up"


def test_exec_runs_when_watched_keys_stayed(server, connection):
    connection("SET", A, "mine")
    connection("WATCH", A, B)
    with server.connect() as other:
        other("SET", C, "elsewhere")
        other("GET", A)
    assert exec_of(connection, ("SET", B, "x"), ("SET", C, "y")) == ["OK", "OK"]


def test_a_command_over_shards_neither_checks_nor_ends_a_watch(server, connection):
    keys = spread("between", 6)
    for changed in (False, True):
        connection("SET", A, "mine")
        connection("WATCH", A)
        assert connection("MSET", *[word for key in keys for word in (key, "x")]) == "OK"
        if changed:
            with server.connect() as other:
                other("SET", A, "theirs")
        assert connection("MSET", *[word for key in keys for word in (key, "y")]) == "OK", "no transaction of EXEC"
        assert connection("SUNIONSTORE", keys[0], "no", "such", "sets") == 0
        expected = None if changed else ["OK", "OK"]
        assert exec_of(connection, ("SET", B, "x"), ("SET", C, "x")) == expected


def test_an_absent_key_that_came_and_went_has_changed(server, connection):
    connection("WATCH", A)
    with server.connect() as other:
        other("SET", A, "x")
        other("DEL", A)
    assert exec_of(connection, ("SET", B, "x"), ("SET", C, "x")) is None


def test_unwatch_and_discard_end_a_watch(server, connection):
    for ending in (("UNWATCH",), ("MULTI",)):
        connection("WATCH", A)
        with server.connect() as other:
            other("INCR", A)
        connection(*ending)
        if ending == ("MULTI",):
            connection("DISCARD")
        assert exec_of(connection, ("SET", B, "x"), ("SET", C, "x")) == ["OK", "OK"]


@pytest.mark.parametrize("key,make,change", [
    ("hash", ("HSET", "hash", "f", "1"), ("HSET", "hash", "g", "1")),
    ("set", ("SADD", "set", "a"), ("SREM", "set", "a")),
    ("zset", ("ZADD", "zset", "1", "a"), ("ZINCRBY", "zset", "1", "a")),
    ("list", ("RPUSH", "list", "a"), ("LPUSH", "list", "b")),
])
def test_a_watched_collection_changes_with_any_of_its_items(server, connection, key, make, change):
    connection(*make)
    connection("WATCH", key)
    with server.connect() as other:
        other(*change)
    assert exec_of(connection, ("SET", A, "x"), ("SET", B, "x")) is None


def test_a_key_that_expires_while_watched(connection):
    """As in Redis: a key that was there at WATCH and expired before EXEC has changed."""
    import time

    connection("SET", A, "x", "PX", 30)
    connection("WATCH", A)
    time.sleep(0.06)
    assert connection("GET", A) is None
    assert exec_of(connection, ("SET", B, "x"), ("SET", C, "x")) is None


def test_large_transactions(connection):
    keys = spread("large", 200)
    reply = exec_of(connection, *[("SET", key, number) for number, key in enumerate(keys)])
    assert reply == ["OK"] * 200
    assert connection("MGET", *keys) == [b"%d" % number for number in range(200)]
