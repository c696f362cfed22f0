"""The Python package over the native client, as its users use it. Built by `make python`."""

import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest
from server import Server

kintsugidb = pytest.importorskip("kintsugidb", reason="the package is not built: make python")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("fabric") / "k.shm"
    with Server(isolation="fast", shards=8, threads=2, fabric=f"shm:{path}"):
        yield f"shm:{path}"


@pytest.fixture(params=["one-sided", "messages"])
def client(request, address):
    client = kintsugidb.Client(address, mode=request.param)
    assert client.is_one_sided == (request.param == "one-sided")
    client.command("FLUSHALL")
    return client


def test_everyday_commands(client):
    client.set("s", "Ada")
    assert client.get("s") == b"Ada" and client.get("absent") is None
    assert client.incr_by("n", 5) == 5
    client.hset("h", {"f": 1, "g": b"\x00\xff"})
    assert client.hmget("h", "f", "g", "x") == [b"1", b"\x00\xff", None]
    assert client.sadd("set", "a", "b") == 2 and client.sismember("set", "a") == 1
    assert client.zadd("z", {"m": 1.5}) == 1 and client.zrange("z", 0, -1) == [b"m"]
    assert client.rpush("l", 1, 2.5) == 2 and client.lrange("l", 0, -1) == [b"1", b"2.5"]
    client.mset({"x": 1, "y": 2})
    assert client.mget("x", "y", "absent") == [b"1", b"2", None]
    assert client.delete("x", "y", "absent") == 2


def test_a_transaction_over_shards_is_seen_whole_or_not_at_all(client, address):
    keys = [f"key:{i}" for i in range(6)]
    stop = threading.Event()

    def write():
        writer = kintsugidb.Client(address)
        n = 0
        while not stop.is_set():
            n += 1
            with writer.transaction() as t:
                for key in keys:
                    t.set(key, n)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        seen, reads, end = set(), 0, time.monotonic() + 60
        while (reads < 2000 or len(seen) < 20) and time.monotonic() < end:
            values = client.mget(*keys)
            assert len(set(values)) == 1, values
            seen.add(values[0])
            reads += 1
        assert len(seen) > 1, "the canary: nothing was written meanwhile"
    finally:
        stop.set()
        thread.join()


def test_replies_errors_and_watches(client, address):
    with client.transaction() as t:
        t.set("s", 1).lpush("s", 2).get("s")
    assert t.replies[0] == b"OK" and isinstance(t.replies[1], kintsugidb.ServerError) and t.replies[2] == b"1"
    with pytest.raises(kintsugidb.ServerError, match="WRONGTYPE"):
        client.lpush("s", 2)
    with pytest.raises(kintsugidb.ServerError, match="unknown command"):
        client.command("NONSENSE")
    client.watch("s")
    kintsugidb.Client(address).set("s", 3)
    with pytest.raises(kintsugidb.WatchError):
        with client.transaction() as t:
            t.set("s", 4)
    assert client.get("s") == b"3"
    with pytest.raises(ZeroDivisionError):
        with client.transaction() as t:
            t.set("s", 1 / 0)
    for wrong in (None, [], True, object()):
        with pytest.raises(TypeError):
            client.set("s", wrong)
    with pytest.raises(TypeError):
        client.command()


def test_reads_take_no_message(address):
    client = kintsugidb.Client(address)
    client.set("k", "v" * 64)
    before = client.counters()
    for _ in range(100):
        assert client.get("k") == b"v" * 64
    after = client.counters()
    assert after["one_sided"] - before["one_sided"] == 100 and after["commands"] == before["commands"]


def test_what_cannot_be_reached_is_an_error():
    with pytest.raises(kintsugidb.Error, match="cannot connect"):
        kintsugidb.Client("shm:/there/is/no/such/socket")
    with pytest.raises(ValueError):
        kintsugidb.Client("shm:/x", mode="sideways")
    with pytest.raises(ValueError):
        kintsugidb.Client("shm:/x", timeout=-1)


def test_the_readme_of_the_package_is_true(address):
    text = (pathlib.Path(__file__).parents[2] / "python/README.md").read_text()
    code = text.split("```python\n")[1].split("```")[0].replace("shm:/run/kintsugi.sock", address)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, timeout=60)
    assert ran.returncode == 0 and int(ran.stdout) >= 1, ran
