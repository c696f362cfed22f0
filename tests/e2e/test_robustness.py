"""Nothing a client sends takes the server down, grows it without bound, or reaches another's data."""

import random
import threading
import time

import pytest
from resp import Closed, Error, encode
from slots import spread

A, B, C = spread("rb", 3)


def closed_or_error(connection):
    """The server answered with an error or closed; it did not fall silent."""
    try:
        return isinstance(connection.read(), Error)
    except (Closed, ConnectionError):
        return True


MALFORMED = {
    "array length is no number": b"*x\r\n",
    "array length too large": b"*2147483648\r\n",
    "array length beyond 64 bits": b"*99999999999999999999999\r\n",
    "bulk length is no number": b"*1\r\n$x\r\n",
    "bulk length negative": b"*1\r\n$-7\r\n",
    "bulk length too large": b"*1\r\n$1073741824\r\n",
    "bulk length beyond 64 bits": b"*1\r\n$99999999999999999999999\r\n",
    "no dollar": b"*1\r\n:1\r\n",
    "unbalanced quotes": b'SET "a b\r\n',
    "line without end": b"a" * (70 << 10),
    "array header without end": b"*" + b"1" * (70 << 10),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_bytes_are_answered_with_a_protocol_error(server, connection, name):
    with server.connect(timeout=10) as bad:
        bad.send(MALFORMED[name])
        assert closed_or_error(bad)
    assert connection("PING") == "PONG"


def test_the_commands_before_malformed_bytes_are_answered(server):
    with server.connect(timeout=10) as bad:
        bad.send(encode("SET", A, "1") + encode("GET", A) + b"*1\r\n$x\r\n")
        assert bad.read() == "OK"
        assert bad.read() == b"1"
        assert bad.read().startswith("ERR Protocol error")
        with pytest.raises(OSError):
            bad.read()


def test_random_bytes_never_take_the_server_down(server, connection):
    rng = random.Random(7)
    good = encode("SET", A, "x") + encode("MGET", A, B) + encode("MULTI") + encode("INCR", C) + encode("EXEC")
    for round_number in range(300):
        data = bytearray(good * rng.randint(1, 3))
        for _ in range(rng.randint(1, 12)):
            position = rng.randrange(len(data))
            choice = rng.random()
            if choice < 0.5:
                data[position] = rng.randrange(256)
            elif choice < 0.75:
                del data[position : position + rng.randint(1, 9)]
            else:
                data[position:position] = rng.randbytes(rng.randint(1, 9))
            if not data:
                data = bytearray(b"*")
        bad = server.connect(timeout=10)
        try:
            bad.send(bytes(data))
        except OSError:
            pass
        bad.close()
        if round_number % 50 == 0:
            assert connection("PING") == "PONG"


def test_a_declared_length_costs_nothing_until_the_bytes_come(server, connection):
    before = server.resident_bytes()
    held = []
    for _ in range(100):
        liar = server.connect()
        liar.send(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$500000000\r\nx")
        held.append(liar)
        liar = server.connect()
        liar.send(b"*1000000\r\n$1\r\na\r\n")
        held.append(liar)
    assert connection("PING") == "PONG"
    assert server.resident_bytes() < before + (100 << 20)
    for liar in held:
        liar.close()


def test_a_client_that_does_not_read_does_not_grow_the_server_without_bound(server, connection):
    """Replies of 64 KiB each, five gigabytes of them, and nobody to take them."""
    if server.kind == "redis":
        pytest.skip("redis has no limit for normal clients by default")
    connection("SET", A, b"x" * (64 << 10))
    before = server.resident_bytes()
    with server.connect(timeout=2) as deaf:
        request = encode("GET", A) * 1000
        try:
            for _ in range(80):
                deaf.send(request)
        except OSError:
            pass
        time.sleep(0.5)
        assert connection("PING") == "PONG"
        assert server.resident_bytes() < before + (1200 << 20)


def test_a_client_that_dies_inside_a_transaction_leaves_nothing(server, connection):
    connection("MSET", A, "1", B, "1")
    for _ in range(50):
        dying = server.connect()
        dying.send(encode("WATCH", A) + encode("MULTI") + encode("SET", A, "2") + encode("SET", B, "2"))
        dying.close()
    assert connection("MGET", A, B) == [b"1", b"1"]


def test_a_client_that_dies_with_exec_on_the_way_commits_all_or_nothing(server, connection):
    connection("MSET", A, "0", B, "0", C, "0")
    for number in range(1, 200):
        dying = server.connect()
        dying.send(
            encode("MULTI") + encode("SET", A, number) + encode("INCRBY", B, 1) + encode("SET", C, number) + encode("EXEC")
        )
        dying.close()
        a, c = connection("MGET", A, C)
        assert a == c
    assert connection("SET", A, "free") == "OK", "no reservation outlives its client"
    assert connection("INCRBY", B, 1) <= 200
    assert connection.pipeline([("MULTI",), ("INCR", B), ("INCR", C), ("EXEC",)])[-1] is not None


def test_commands_cut_anywhere_are_put_together_again(server, connection):
    data = encode("MSET", A, "a\r\n", B, "") + encode("MGET", A, B, C) + b"PING\r\n"
    with server.connect() as slow:
        for cut in range(1, len(data)):
            slow.send(data[:cut])
            time.sleep(0.0005)
            slow.send(data[cut:])
            assert slow.read() == "OK"
            assert slow.read() == [b"a\r\n", b"", None]
            assert slow.read() == "PONG"


def test_many_connections_at_once(server, connection):
    connections = [server.connect() for _ in range(500)]
    try:
        for number, one in enumerate(connections):
            one.send(encode("SET", f"many:{number}", number) + encode("MGET", f"many:{number}", A))
        for number, one in enumerate(connections):
            assert one.read() == "OK"
            assert one.read() == [b"%d" % number, None]
    finally:
        for one in connections:
            one.close()


def test_connections_come_and_go(server, connection):
    for _ in range(2000):
        with server.connect() as passing:
            passing.send(encode("PING"))
    assert connection("PING") == "PONG"


def test_replies_reach_the_client_that_asked(server, connection):
    """Many clients, each with its own keys and values, all at once."""
    failures = []

    def client(number):
        rng = random.Random(number)
        with server.connect() as own:
            keys = spread(f"own{number}:", 4)
            for step in range(100):
                value = b"%d:%d" % (number, step) + b"." * rng.choice([0, 10, 5000])
                commands = [("MSET", *[w for k in keys for w in (k, value)]), ("MGET", *keys), ("GET", keys[0])]
                if own.pipeline(commands) != ["OK", [value] * 4, value]:
                    failures.append((number, step))
                    return

    threads = [threading.Thread(target=client, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_deep_pipelines_of_many_clients_do_not_lock_each_other_out(server, connection):
    """Each sends ten thousand commands before it reads, transactions among them."""
    clients = [server.connect() for _ in range(8)]
    keys = spread("deep", 8)
    try:
        request = b"".join(
            encode("MSET", *[w for k in keys for w in (k, n)]) + encode("MULTI") + encode("INCR", keys[n % 8])
            + encode("INCR", keys[(n + 3) % 8]) + encode("EXEC")
            for n in range(500)
        )
        for one in clients:
            one.send(request)
        for one in clients:
            for _ in range(500):
                assert one.read() == "OK"
                assert one.read() == "OK"
                assert one.read() == "QUEUED" and one.read() == "QUEUED"
                assert all(isinstance(reply, int) for reply in one.read())
    finally:
        for one in clients:
            one.close()


def test_expensive_arguments_are_refused_or_bounded(server, connection):
    before = server.resident_bytes()
    connection("SADD", "s", "a", "b")
    assert isinstance(connection("SETRANGE", "k", 2**40, "x"), Error)
    assert isinstance(connection("SRANDMEMBER", "s", -(2**63)), Error)
    assert isinstance(connection("LRANGE", "absent", "x", 1), Error)
    assert connection("LRANGE", "absent", -(2**63), 2**63 - 1) == []
    assert connection("GETRANGE", "absent", 0, 2**63 - 1) == b""
    cursor, steps = 0, 0
    while steps == 0 or (cursor != b"0" and steps < 100):
        cursor, _ = connection("SCAN", cursor, "COUNT", 2**62)
        steps += 1
    assert cursor == b"0"
    assert isinstance(connection("EXPIRE", "s", 2**63 - 1), Error)
    assert connection("EXISTS", "s") == 1
    assert server.resident_bytes() < before + (50 << 20)
