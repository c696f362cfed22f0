"""Clients that do anything, at once; see storm.py."""

import time

import pytest
from storm import storm


def used_memory(connection):
    info = connection("INFO", "memory")
    return int(info.split(b"used_memory:")[1].split(b"\r\n")[0])


@pytest.mark.parametrize("options", [{"shards": 16, "threads": 2}, {"shards": 4, "threads": 4}],
                         ids=lambda options: "-".join(f"{n}{v}" for n, v in options.items()))
def test_no_client_takes_the_server_down_or_leaves_memory_behind(start, request, options):
    seed = request.config.getoption("--seed")
    seed = time.time_ns() % 10**9 if seed is None else seed
    with start(**options) as server:
        with server.connect() as connection:
            # What the first writes allocate for good is there before the measurement.
            storm(server, seed, 1)
            connection("FLUSHALL")
            time.sleep(1)
            before = used_memory(connection)
            faults = storm(server, seed, request.config.getoption("--seconds"))
            assert not faults, f"seed {seed}\n" + "\n".join(faults)
            connection("FLUSHALL")
            for _ in range(50):
                if (connection("DBSIZE"), used_memory(connection) <= before * 1.25 + (4 << 20)) == (0, True):
                    break
                time.sleep(0.2)
            assert connection("DBSIZE") == 0
            assert used_memory(connection) <= before * 1.25 + (4 << 20), f"seed {seed}: {before} bytes before the storm"
