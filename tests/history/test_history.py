"""Recorded histories of real clients against real servers, for every isolation: none may break a guarantee.

    pytest -c tests/pytest.ini tests/history --seconds 60 --seed 12345

Half of each time runs with small collections (even seed), half with big ones (odd seed).
"""

import pytest
from workloads import ISOLATIONS, WORKLOADS, fresh_seed, told


@pytest.fixture(scope="module", params=ISOLATIONS)
def isolated(request, start, kind):
    """One server for each isolation, with more threads than small machines have cores: more interleavings.

    Redis, when that is tested, knows only one isolation."""
    if kind == "redis" and request.param != "fast":
        pytest.skip("redis has one isolation")
    with start(isolation=request.param, threads=3) as server:
        yield request.param, server


@pytest.mark.parametrize("name", WORKLOADS)
def test_no_history_breaks_a_guarantee(isolated, name, request):
    isolation, server = isolated
    seconds = request.config.getoption("--seconds") / 2
    seed = request.config.getoption("--seed") or fresh_seed()
    for this_seed in (seed & ~1, seed | 1):
        operations, violations = WORKLOADS[name](server, this_seed, seconds)
        print(told(name, isolation, this_seed, operations, violations))
        assert not violations, told(name, isolation, this_seed, operations, violations)
        assert operations > 50
    assert server.alive(), server.log()


@pytest.mark.parametrize("name", ["strings", "hashes", "mixed", "groups"])
def test_canary_without_isolation_fractures_are_found(start, kind, name, request):
    """The same clients and the same checker must see what `--isolation none` lets happen."""
    if kind == "redis":
        pytest.skip("redis has no such thing as no isolation")
    seconds = request.config.getoption("--seconds")
    with start(isolation="none", threads=3) as server:
        found = set()
        for _ in range(5):
            _, violations = WORKLOADS[name](server, fresh_seed(), seconds / 2)
            found |= {violation.kind for violation in violations}
            if "fracture" in found:
                return
        pytest.fail(f"the checker is blind: with no isolation it found only {found}")
