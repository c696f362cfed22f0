"""Client libraries as people use them: redis-cli, redis-py (sync and asyncio, RESP2 and RESP3), go-redis."""

import asyncio
import os
import pathlib
import shutil
import subprocess

import pytest
import redis
import redis.asyncio
from slots import spread

A, B, C = spread("cl", 3)
ROOT = pathlib.Path(__file__).resolve().parents[2]


def cli(server, *arguments, stdin=None, unix=False):
    where = ["-s", server.unix_path] if unix else ["-h", server.host, "-p", str(server.port)]
    run = subprocess.run(
        ["redis-cli", *where, *arguments], input=stdin, capture_output=True, text=True, timeout=60, check=False
    )
    return run.stdout


@pytest.fixture(autouse=True)
def empty(connection):
    """Every test starts with an empty server and ends with a healthy one."""


needs_cli = pytest.mark.skipif(not shutil.which("redis-cli"), reason="redis-cli is not installed")


@needs_cli
class TestRedisCli:
    def test_commands_and_their_printing(self, server):
        assert cli(server, "SET", A, "v") == "OK\n"
        assert cli(server, "--no-raw", "MGET", A, B) == '1) "v"\n2) (nil)\n'
        assert cli(server, "--no-raw", "LPUSH", A, "x").startswith("(error) WRONGTYPE")
        assert cli(server, "-3", "--no-raw", "HSET", B, "f", "1") == "(integer) 1\n"
        assert cli(server, "-3", "--no-raw", "HGETALL", B) == '1# "f" => "1"\n'
        assert cli(server, "PING", unix=True) == "PONG\n"

    def test_a_session_with_a_transaction(self, server):
        session = f"MULTI\nSET {A} 1\nSET {B} 2\nEXEC\nMGET {A} {B}\n"
        assert cli(server, stdin=session).split() == ["OK", "QUEUED", "QUEUED", "OK", "OK", "1", "2"]

    def test_mass_insertion_by_pipe(self, server):
        lines = "".join(f"SET pipe:{n} {n}\r\n" for n in range(20000))
        printed = cli(server, "--pipe", stdin=lines)
        assert "errors: 0, replies: 20000" in printed
        assert cli(server, "DBSIZE") == "20000\n"

    def test_scan_bigkeys_and_info(self, server):
        cli(server, stdin="".join(f"SET sc:{n} {n}\n" for n in range(500)))
        assert len(cli(server, "--scan", "--pattern", "sc:*").split()) == 500
        assert "Biggest string found" in cli(server, "--bigkeys")
        info = cli(server, "INFO")
        for field in ("redis_version:", "connected_clients:", "used_memory:", "# Server", "# Keyspace"):
            assert field in info
        assert "maxmemory" in cli(server, "CONFIG", "GET", "maxmemory")
        assert int(cli(server, "COMMAND", "COUNT")) > 100


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(server, request):
    with redis.Redis(host=server.host, port=server.port, protocol=request.param, decode_responses=True) as one:
        yield one


class TestRedisPy:
    def test_the_five_structures(self, client):
        assert client.set(A, "v", ex=100) is True
        assert client.get(A) == "v" and 90 < client.ttl(A) <= 100
        assert client.rpush("l", "a", "b", "c") == 3
        assert client.lrange("l", 0, -1) == ["a", "b", "c"]
        assert client.hset("h", mapping={"f": "1", "g": "2"}) == 2
        assert client.hgetall("h") == {"f": "1", "g": "2"}
        assert client.hmget("h", "f", "absent") == ["1", None]
        assert client.sadd("s", "a", "b") == 2
        assert client.smembers("s") == {"a", "b"}
        assert client.zadd("z", {"a": 1, "b": 2.5}) == 2
        assert [list(pair) for pair in client.zrange("z", 0, -1, withscores=True)] == [["a", 1.0], ["b", 2.5]]
        assert client.zscore("z", "b") == 2.5
        assert client.type("z") == "zset"

    def test_many_keys_over_shards(self, client):
        keys = spread("py", 20)
        assert client.mset({key: key for key in keys}) is True
        assert client.mget(keys) == keys
        assert client.exists(*keys) == 20
        assert sorted(client.scan_iter("py*", count=3)) == sorted(keys)
        assert client.delete(*keys) == 20

    def test_pipelines_with_and_without_a_transaction(self, client):
        for transaction in (True, False):
            with client.pipeline(transaction=transaction) as pipe:
                pipe.set(A, 1).incr(A).hset(C, "f", "v").mget(A, B).delete(C)
                assert pipe.execute() == [True, 2, 1, ["2", None], 1]

    def test_optimistic_transactions_lose_no_update(self, client):
        def step(pipe):
            value = int(pipe.get(A) or 0)
            pipe.multi()
            pipe.set(A, value + 1)
            pipe.incr(B)

        for _ in range(20):
            client.transaction(step, A)
        assert client.mget(A, B) == ["20", "20"]

    def test_a_changed_watch_raises_watch_error(self, client):
        with client.pipeline() as pipe:
            pipe.watch(A)
            client.set(A, "changed")
            pipe.multi()
            pipe.set(B, "never")
            pipe.set(C, "never")
            with pytest.raises(redis.WatchError):
                pipe.execute()
        assert client.mget(B, C) == [None, None]

    def test_errors_become_the_right_exceptions(self, client):
        client.set(A, "text")
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            client.lpush(A, "x")
        with pytest.raises(redis.ResponseError, match="not an integer"):
            client.incr(A)
        with client.pipeline() as pipe:
            pipe.set(B, 1).incr(A)
            with pytest.raises(redis.ResponseError, match="not an integer"):
                pipe.execute()
        assert client.get(B) == "1"

    def test_the_server_describes_itself(self, client):
        info = client.info()
        assert info["redis_version"] and info["connected_clients"] >= 1
        assert "get" in client.command()
        assert client.client_setname("tester") and client.client_getname() == "tester"
        assert client.client_id() > 0
        assert any(one["name"] == "tester" for one in client.client_list())
        assert client.config_get("maxmemory")["maxmemory"] == "0"
        assert client.echo("x") == "x" and client.ping() is True
        assert client.select(0)

    def test_binary_values(self, server):
        raw = redis.Redis(host=server.host, port=server.port)
        everything = bytes(range(256)) * 4096
        assert raw.set(everything[:300], everything) is True
        assert raw.get(everything[:300]) == everything
        raw.close()

    def test_the_unix_socket(self, server):
        local = redis.Redis(unix_socket_path=server.unix_path)
        assert local.ping() is True
        local.close()


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_asyncio(server, protocol):
    async def one_client(pool, number):
        client = redis.asyncio.Redis(connection_pool=pool)
        keys = spread(f"aio{number}:", 4)
        for step in range(20):
            await client.mset({key: step for key in keys})
            assert await client.mget(keys) == [str(step).encode()] * 4
            async with client.pipeline(transaction=True) as pipe:
                pipe.incr(A)
                pipe.hincrby(B, "f", 1)
                await pipe.execute()

    async def scenario():
        pool = redis.asyncio.ConnectionPool(host=server.host, port=server.port, protocol=protocol)
        await asyncio.gather(*[one_client(pool, number) for number in range(10)])
        client = redis.asyncio.Redis(connection_pool=pool)
        assert await client.get(A) == b"200"
        assert await client.hgetall(B) == {b"f": b"200"}
        await pool.disconnect()

    asyncio.run(scenario())


def test_go_redis(server, tmp_path):
    """The Go client: the program is tests/e2e/go/main.go; it prints `ok` when all it saw was right."""
    go = shutil.which("go")
    if not go:
        pytest.skip("no Go toolchain: install golang-go to test with go-redis")
    source = pathlib.Path(__file__).parent / "go"
    program = ROOT / ".cache" / "go-client"
    program.parent.mkdir(exist_ok=True)
    environment = {"GOTOOLCHAIN": "local", **os.environ}
    build = subprocess.run(
        [go, "build", "-mod=readonly", "-o", str(program), "."],
        cwd=source, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )
    if build.returncode != 0 and any(word in build.stderr for word in ("dial tcp", "no such host", "timeout", "403")):
        pytest.skip(f"go-redis cannot be fetched: {build.stderr[-300:]}")
    assert build.returncode == 0, build.stderr
    run = subprocess.run(
        [str(program), f"{server.host}:{server.port}"], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0 and run.stdout.endswith("ok\n"), run.stdout + run.stderr
