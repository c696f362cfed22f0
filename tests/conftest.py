"""Fixtures of all end-to-end tests: a server process per module, and plain connections to it."""

import pytest

from server import Server


def pytest_addoption(parser):
    parser.addoption(
        "--server",
        choices=["kintsugi", "redis"],
        default="kintsugi",
        help="what to test; redis shows whether a surprise is the server's or the test's",
    )
    parser.addoption("--shards", type=int, default=16, help="for every test that does not choose its own number")
    parser.addoption("--seconds", type=float, default=6, help="how long each recorded history runs")
    parser.addoption("--seed", type=int, default=None, help="seed of the recorded histories")


@pytest.fixture(scope="session")
def kind(request):
    return request.config.getoption("--server")


@pytest.fixture(scope="session")
def start(kind, request):
    """A function that starts a server with options: `with start(shards=4) as server`."""
    shards = request.config.getoption("--shards")
    return lambda **options: Server(kind, **{"shards": shards, **options})


@pytest.fixture(scope="module")
def server(start):
    with start() as running:
        yield running


@pytest.fixture
def connection(server):
    """A plain connection to an empty server; afterwards the server must still be well."""
    with server.connect() as fresh:
        fresh("FLUSHALL")
        yield fresh
    assert server.alive(), server.log()
