"""Memory is given back: what was replaced, deleted, or only a transaction's metadata."""

import time

import pytest
from slots import spread

MIB = 1 << 20
KEYS = spread("memory:", 8)


def used_memory(connection):
    """`used_memory` of INFO, once it has stopped falling."""
    lowest, still = None, 0
    while still < 10:
        time.sleep(0.1)
        info = connection("INFO", "memory").decode()
        used = next(int(line.split(":")[1]) for line in info.split("\r\n") if line.startswith("used_memory:"))
        if lowest is None or used < lowest:
            lowest, still = used, 0
        else:
            still += 1
    return lowest


def churn(connection, round_number):
    """Commands that leave as many items as they found."""
    value = b"x" * 200
    return {
        "mset": [("MSET", *[word for key in KEYS for word in (key, value)])],
        "strings in MULTI": [("MULTI",), *[("SET", key, value) for key in KEYS], ("EXEC",)],
        "hash fields in MULTI": [("MULTI",), *[("HSET", key, round_number % 50, value) for key in KEYS], ("EXEC",)],
        "members in MULTI": [
            ("MULTI",),
            *[("SADD", key, round_number) for key in KEYS],
            *[("SREM", key, round_number - 20) for key in KEYS],
            ("EXEC",),
        ],
        "scores in MULTI": [("MULTI",), *[("ZADD", key, round_number, round_number % 50) for key in KEYS], ("EXEC",)],
        "queues": [(side, key, *rest) for key in KEYS for side, rest in (("RPUSH", [value]), ("LPOP", []))],
        "deleted and made anew": [("DEL", *KEYS), ("MSET", *[word for key in KEYS for word in (key, value)])],
        "mget": [("MGET", *KEYS)],
        "keys that come and go": [
            ("MSET", f"a{round_number}", value, f"b{round_number}", value),
            ("DEL", f"a{round_number}", f"b{round_number}"),
        ],
    }


@pytest.mark.parametrize("name", list(churn(None, 0)))
def test_what_is_replaced_is_given_back(server, connection, name):
    def rounds(first, count):
        for start in range(first, first + count, 100):
            commands = [command for n in range(start, start + 100) for command in churn(connection, n)[name]]
            connection.pipeline(commands)

    rounds(0, 1000)
    before = used_memory(connection)
    resident = server.resident_bytes()
    rounds(1000, 6000)
    assert used_memory(connection) < before * 1.3 + MIB
    assert server.resident_bytes() < resident + 150 * MIB


def test_flushall_gives_everything_back(server, connection):
    empty = used_memory(connection)
    value = b"x" * 1000
    for first in range(0, 30_000, 500):
        connection.pipeline([("SET", f"k{n}", value) for n in range(first, first + 500)])
    connection.pipeline([("HSET", "h", f"f{n}", value) for n in range(5000)])
    connection.pipeline([("RPUSH", "l", value) for n in range(5000)])
    full = used_memory(connection)
    assert full > empty + 30 * MIB, "the accounting does not see the data"
    connection("FLUSHALL")
    assert used_memory(connection) < empty + 8 * MIB


def test_used_memory_counts_what_is_stored(server, connection):
    before = used_memory(connection)
    for first in range(0, 20_000, 500):
        connection.pipeline([("SET", f"key:{n:012}", b"x" * 64) for n in range(first, first + 500)])
    per_key = (used_memory(connection) - before) / 20_000
    assert 80 < per_key < 400, f"{per_key} bytes for 16 + 64"
