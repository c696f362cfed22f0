"""Client processes: each records what it saw, and all start and stop together."""

import multiprocessing
import queue
import time
import traceback
from typing import NamedTuple

from resp import Connection

FORK = multiprocessing.get_context("fork")


class Where(NamedTuple):
    """Where the server is, for a client process."""

    host: str
    port: int
    unix_path: str

    @classmethod
    def of(cls, server):
        return cls(server.host, server.port, server.unix_path)

    def connect(self, client, timeout=30):
        """Every third client comes by the Unix socket."""
        if client % 3 == 0:
            return Connection.unix(self.unix_path, timeout)
        return Connection.tcp(self.host, self.port, timeout)


def run(body, count, *arguments):
    """Run `body(client, *arguments)` in `count` processes, numbered from 1; their results in order.

    A client that fails gives its traceback, as a string, instead of a result."""
    results = FORK.Queue()
    processes = [FORK.Process(target=_process, args=(results, body, client, arguments), daemon=True) for client in range(1, count + 1)]
    for process in processes:
        process.start()
    collected = {}
    try:
        while len(collected) < count:
            client, result = results.get(timeout=300)
            collected[client] = result
    except queue.Empty:
        pass
    for process in processes:
        if process.is_alive() and process.pid and len(collected) < count:
            process.kill()
        process.join(10)
    return [collected.get(client, "the client never came back") for client in range(1, count + 1)]


def _process(results, body, client, arguments):
    try:
        result = body(client, *arguments)
    except BaseException:  # whatever it was, the parent must see it
        result = traceback.format_exc()
    results.put((client, result))
    results.close()
    results.join_thread()


def now():
    """One clock for all processes of the machine."""
    return time.monotonic_ns()
