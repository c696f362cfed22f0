"""Random commands are answered exactly as redis-server answers them; see differential.py."""

import shutil

import pytest
from differential import Pair, hunt
from server import Server

pytestmark = pytest.mark.skipif(not shutil.which("redis-server"), reason="redis-server is not installed")


@pytest.fixture(scope="module")
def redis():
    with Server("redis") as running:
        yield running


@pytest.fixture(params=["16 shards on 2 threads", "1 shard on 1 thread"])
def kintsugi(start, request):
    shards, threads = (16, 2) if request.param.startswith("16") else (1, 1)
    with start(shards=shards, threads=threads) as running:
        yield running


def test_random_commands_are_answered_as_redis_answers_them(kintsugi, redis, request):
    seed = request.config.getoption("--seed")
    rounds, found = hunt(Pair(kintsugi.connect, redis.connect), 1 if seed is None else seed, rounds=250)
    assert not found, f"{len(found)} differences in {rounds} rounds:\n" + "\n".join(found)


def test_a_wrong_answer_is_found_and_shrunk_to_the_commands_that_show_it():
    """The canary: a redis-server that refuses one command."""
    with Server("redis") as wrong, Server("redis") as right:
        with wrong.connect() as connection:
            assert connection("ACL", "SETUSER", "default", "-scard") == "OK"
        _, found = hunt(Pair(wrong.connect, right.connect), 1, rounds=40)
    assert found and all("SCARD" in report.upper().splitlines()[0] for report in found)
    assert min(report.count("    > ") for report in found) == 1
