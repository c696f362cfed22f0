"""The process: its sockets, its shutdown, its limits, its options."""

import os
import socket
import subprocess
import time

import pytest
from resp import Error
from server import binary
from slots import spread


def test_the_unix_socket_serves_the_same_data(server, connection):
    connection("SET", "k", "v")
    with server.connect_unix() as local:
        assert local("GET", "k") == b"v"


def test_sigterm_ends_it_cleanly(start):
    with start() as server:
        with server.connect() as connection:
            keys = spread("end", 8)
            connection("MSET", *[w for key in keys for w in (key, "v")])
            assert server.terminate() == 0, server.log()
            with pytest.raises(OSError):
                connection("PING")
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", server.port), 2)
        assert not os.path.exists(server.unix_path), "the Unix socket stays behind"


def test_sigterm_ends_it_under_load(start):
    with start() as server:
        busy = [server.connect() for _ in range(20)]
        for one in busy:
            one.send(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n" * 10000)
        assert server.terminate() == 0, server.log()
        for one in busy:
            one.close()


def test_it_says_where_it_listens(start, kind):
    if kind == "redis":
        pytest.skip("Kintsugi's own words")
    with start() as server:
        assert str(server.port) in server.log()
        assert server.unix_path in server.log()


def test_a_port_in_use_is_said_plainly(start, kind):
    if kind == "redis":
        pytest.skip("Kintsugi's own words")
    with start() as server:
        second = subprocess.run(
            [binary(), "serve", "--port", str(server.port)], capture_output=True, timeout=20, check=False, text=True
        )
        assert second.returncode != 0
        assert str(server.port) in second.stderr + second.stdout
        assert "panicked" not in second.stderr


@pytest.mark.parametrize("arguments", [["--isolation", "wrong"], ["--shards", "0"], ["--port", "70000"], ["--nosuch"]])
def test_wrong_options_are_said_plainly(kind, arguments):
    if kind == "redis":
        pytest.skip("Kintsugi's own words")
    run = subprocess.run(
        [binary(), "serve", *arguments], capture_output=True, timeout=20, check=False, text=True
    )
    assert run.returncode != 0
    assert run.stderr and "panicked" not in run.stderr


OOM = "OOM command not allowed when used memory > 'maxmemory'."


@pytest.mark.parametrize("shape", ["strings", "hash", "list", "set", "zset", "multi"])
def test_maxmemory_refuses_writes_and_goes_on_reading(start, shape):
    limit = 64 << 20
    with start(maxmemory=limit, shards=4) as server, server.connect() as connection:
        connection("SET", "before", "v")
        refused = None
        for number in range(40_000):
            value = b"x" * 8000
            command = {
                "strings": ("SET", f"k{number}", value),
                "hash": ("HSET", "h", f"f{number}", value),
                "list": ("RPUSH", "l", value),
                "set": ("SADD", "s", b"%d" % number + value),
                "zset": ("ZADD", "z", number, b"%d" % number + value),
                "multi": ("MSET", f"k{number}", value, f"j{number}", value),
            }[shape]
            reply = connection(*command)
            if isinstance(reply, Error):
                refused = reply
                break
        assert refused == OOM
        assert number * 8000 > limit / 10, "refused long before the limit"
        assert server.resident_bytes() < limit * 2 + (64 << 20)
        assert connection("GET", "before") == b"v"
        # A transaction is refused when a shard is full; that may be a little later, not never.
        for _ in range(2000):
            replies = connection.pipeline([("MULTI",), ("SET", "other", "x"), command, ("EXEC",)])
            if OOM in replies[2:3] + (replies[3] if isinstance(replies[3], list) else []):
                break
            time.sleep(0.001)
        else:
            pytest.fail("never refused in a transaction")
        assert connection.pipeline([("DEL", "before"), ("GET", "before")])[1] is None, "room can be made"
        assert connection("FLUSHALL") == "OK"
        wait_for_space(connection)


def wait_for_space(connection):
    """Space comes back after its grace time; it must come back."""
    give_up = time.monotonic() + 10
    everywhere = [word for key in spread("probe", 4, 4) for word in (key, "x" * 8000)]
    while connection("MSET", *everywhere) != "OK":
        assert time.monotonic() < give_up, "space never comes back"
        time.sleep(0.05)


@pytest.mark.parametrize("options", [
    {"shards": 1, "threads": 1},
    {"shards": 1, "threads": 2},
    {"shards": 16, "threads": 1},
    {"shards": 3, "threads": 2},
    {"shards": 64, "threads": 4},
], ids=str)
def test_any_number_of_shards_and_threads_serves(start, options):
    with start(**options) as server, server.connect() as connection:
        keys = spread("sh", 40, options["shards"])
        assert connection("MSET", *[w for key in keys for w in (key, key)]) == "OK"
        assert connection("MGET", *keys) == [key.encode() for key in keys]
        replies = connection.pipeline([("MULTI",), *[("APPEND", key, "!") for key in keys], ("EXEC",)])
        assert replies[-1] == [len(key) + 1 for key in keys]
        assert connection("DBSIZE") == 40
        assert connection("DEL", *keys) == 40


@pytest.mark.parametrize("isolation", ["fast", "small", "hybrid", "locking", "none"])
def test_every_isolation_serves(start, isolation):
    with start(isolation=isolation) as server, server.connect() as connection:
        a, b = spread("iso", 2)
        assert connection("MSET", a, "1", b, "2") == "OK"
        assert connection.pipeline([("MULTI",), ("INCR", a), ("HSET", "h", "f", "v"), ("DEL", b), ("EXEC",)])[-1] == [2, 1, 1]
        assert connection("MGET", a, b) == [b"2", None]
