"""Workload: transactions that write and read registers of all structures over several shards.

Clients write unique numbers to a random choice of hot keys, each on another shard, and read random choices:
by MSET and MGET where all are strings, by MULTI otherwise, by single commands now and then, one at a time or
several in one pipeline. Now and then a client closes its connection with a transaction on the way.
"""

import itertools
import random
import time

from checker import INFINITY, Op, Violation, check
from clients import Where, now, run
from resp import Error, encode
from slots import shard
from structures import Malformed, Writer, decode, prefill, read_command, structure_of

CLIENTS = 6
SHAPES = {
    "strings": ("string",),
    "hashes": ("hash", "hashall"),
    "sets": ("set",),
    "sorted-sets": ("zset", "zrange"),
    "lists": ("list",),
    "mixed": ("string", "hash", "hashall", "zset", "zrange", "set", "list"),
}
KEYS = 8
FILLER = 700
OPERATIONS_PER_CLIENT = 6000


def hot_keys(shape, shards):
    """KEYS keys, each on another shard while there are any left, the structures in turn."""
    kinds = SHAPES[shape]
    chosen, used = [], set()
    while len(chosen) < KEYS:
        kind = kinds[len(chosen) % len(kinds)]
        fresh = (f"{kind}:{number}" for number in itertools.count())
        key = next(key for key in fresh if key not in chosen and (len(used) >= shards or shard(key, shards) not in used))
        chosen.append(key)
        used.add(shard(key, shards))
    return chosen


class Planned:
    """One operation to send: its commands, and how its replies become an `Op`."""

    def __init__(self, commands, reads=(), items=(), txn=0, form="single"):
        self.commands, self.reads, self.items, self.txn, self.form = commands, reads, items, txn, form


class Client:
    def __init__(self, number, where, keys, seed, seconds):
        self.number = number
        self.where = where
        self.keys = keys
        self.rng = random.Random(f"{seed}/{number}")
        self.filler = FILLER if seed % 2 else 0
        self.writer = Writer(number, self.rng, self.filler)
        self.until = time.monotonic() + seconds
        # A third writes mostly, a third reads mostly, a third does both.
        self.writing = (0.8, 0.15, 0.5)[number % 3]
        self.operations = []
        self.faults = []
        self.count = 0
        self.vanished = 0

    def plan(self):
        rng = self.rng
        chosen = rng.sample(self.keys, rng.randint(2, len(self.keys))) if rng.random() < 0.85 else [rng.choice(self.keys)]
        writes = rng.random() < self.writing
        strings = all(structure_of(key) == "string" for key in chosen)
        self.count += 1
        if not writes:
            if len(chosen) == 1:
                return Planned([read_command(chosen[0])], chosen, form="single")
            if strings and rng.random() < 0.8:
                return Planned([("MGET", *chosen)], chosen, form="list")
            return Planned([("MULTI",), *map(read_command, chosen), ("EXEC",)], chosen, form="exec")
        txn = self.number << 32 | self.count
        if strings and rng.random() < 0.8:
            words = [word for key in chosen for word in (key, self.writer.padded(txn))]
            return Planned([("MSET", *words)], (), chosen, txn)
        items, commands = [], []
        for key in chosen:
            more_items, more = self.writer.write(key, txn)
            items += more_items
            commands += more
        if len(commands) == 1:
            return Planned(commands, (), items, txn)
        return Planned([("MULTI",), *commands, ("EXEC",)], (), items, txn, "exec")

    def run(self):
        connection = self.where.connect(self.number)
        while time.monotonic() < self.until and self.count < OPERATIONS_PER_CLIENT and not self.faults:
            batch = [self.plan() for _ in range(1 if self.rng.random() < 0.6 else self.rng.randint(2, 6))]
            data = b"".join(encode(*command) for planned in batch for command in planned.commands)
            sent = now()
            if self.rng.random() < 0.004 and self.may_vanish(batch):
                connection.send(data)
                connection.close()
                self.vanish(batch, sent)
                connection = self.where.connect(self.number)
                continue
            connection.send(data)
            for planned in batch:
                self.record(planned, sent, [connection.read() for _ in planned.commands])
        connection.close()
        return self.operations, self.faults

    @staticmethod
    def may_vanish(batch):
        """Not with a member of a set on the way: the client must know what to remove next time."""
        keys = [key for planned in batch for item in planned.items for key in item.split(".")[:1]]
        return keys and all(structure_of(key) != "set" for key in keys)

    def vanish(self, batch, sent):
        """Nobody saw the replies: the writes may have happened, each as a whole.

        The next connection is another session: it runs under another client's number."""
        for planned in batch:
            if planned.items:
                self.operations.append(Op(self.session(), len(self.operations), sent, INFINITY, (), tuple(planned.items), planned.txn))
        self.vanished += 1

    def session(self):
        return self.number + 1000 * self.vanished

    def record(self, planned, sent, replies):
        replied = now()
        failed = [reply for reply in replies if isinstance(reply, Error)]
        result = replies[-1]
        if planned.form == "exec" and isinstance(result, list):
            failed += [reply for reply in result if isinstance(reply, Error)]
        if failed or (planned.form == "exec" and not isinstance(result, list)):
            self.fault("unexpected reply", planned, failed or result)
            return
        reads = []
        if planned.reads:
            values = replies if planned.form == "single" else result
            try:
                for key, value in zip(planned.reads, values, strict=True):
                    reads += decode(key, value, CLIENTS)
            except (Malformed, ValueError, TypeError, KeyError, AttributeError) as wrong:
                self.fault("malformed", planned, f"{wrong!r} in {str(replies)[:600]}")
                return
        self.operations.append(
            Op(self.session(), len(self.operations), sent, replied, tuple(reads), tuple(planned.items), planned.txn)
        )

    def fault(self, kind, planned, what):
        commands = " ; ".join(" ".join(str(word)[:40] for word in command) for command in planned.commands)
        self.faults.append(Violation(kind, f"client {self.number}: {commands}\n    replied {what}"))


def client(number, where, keys, seed, seconds):
    return Client(number, where, keys, seed, seconds).run()


def registers(server, shape, seed, seconds, shards=16):
    """Run the workload; (number of operations, violations)."""
    keys = hot_keys(shape, shards)
    with server.connect() as connection:
        connection("FLUSHALL")
        if seed % 2:
            for key in keys:
                for command in prefill(key, FILLER):
                    connection(*command)
    operations, violations = [], []
    for result in run(client, CLIENTS, Where.of(server), keys, seed, seconds):
        if isinstance(result, str):
            violations.append(Violation("client failed", result))
            continue
        operations += result[0]
        violations += result[1]
    return len(operations), violations + check(operations)
