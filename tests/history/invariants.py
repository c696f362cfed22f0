"""Workloads whose correctness is an equation that every atomic read, and the end, must satisfy.

groups      every transaction writes (or deletes) all keys of a group: a read sees all alike
transfers   amounts move within a group, by increments in MULTI: its sum never changes; amounts also move
            between accounts of different groups' pairs: then only the sum at the end is promised (Read
            Atomic is not serializability), and no increment of a shared counter is lost
watched     WATCH, read, MULTI, set, EXEC on two shards: as many increments as successful EXECs
moves       RENAME, SMOVE and LMOVE between shards: what moves is always in exactly one place
"""

import collections
import random
import time

from checker import Violation
from clients import Where, run
from resp import Error
from slots import spread

CLIENTS = 6
KINDS = ("string", "hash", "zset")
START = 1000
AT_MOST = 5


class Base:
    """One client of such a workload: takes steps until the time is over or too much is wrong."""

    def __init__(self, client, where, seed, seconds, shards):
        self.client = client
        self.rng = random.Random(f"{seed}/{client}")
        self.shards = shards
        self.connection = where.connect(client)
        self.until = time.monotonic() + seconds
        self.faults = []
        self.steps = 0
        self.tally = collections.Counter()
        self.unique = []

    def run(self):
        while time.monotonic() < self.until and len(self.faults) < AT_MOST:
            self.step()
            self.steps += 1
        self.connection.close()
        return self.steps, self.faults, dict(self.tally), self.unique

    def expect(self, holds, kind, text):
        if not holds:
            self.faults.append(Violation(kind, f"client {self.client} step {self.steps}: {text}"))
        return holds

    def transaction(self, *commands):
        """EXEC's reply; an unexpected error is a fault."""
        replies = self.connection.pipeline([("MULTI",), *commands, ("EXEC",)])
        result = replies[-1]
        wrong = [reply for reply in replies + (result if isinstance(result, list) else []) if isinstance(reply, Error)]
        self.expect(not wrong, "unexpected reply", f"{commands} replied {wrong}")
        return None if wrong else result


# --- groups ---------------------------------------------------------------------------------------


def group_names(shards):
    """Four groups of four keys: strings, hashes, sets, sorted sets; every key on another shard."""
    return {kind: spread(f"group:{kind}:", 4, shards) for kind in ("string", "hash", "set", "zset", "list")}


class Groups(Base):
    WRITE = {
        "string": lambda key, value: [("SET", key, value)],
        "hash": lambda key, value: [("HSET", key, "f", value, "g", value)],
        "zset": lambda key, value: [("ZADD", key, value, "m")],
        "set": lambda key, value: [("DEL", key), ("SADD", key, value)],
        "list": lambda key, value: [("DEL", key), ("RPUSH", key, value, value)],
    }
    READ = {
        "string": lambda key: ("GET", key),
        "hash": lambda key: ("HGETALL", key),
        "zset": lambda key: ("ZRANGE", key, 0, -1, "WITHSCORES"),
        "set": lambda key: ("SMEMBERS", key),
        "list": lambda key: ("LRANGE", key, 0, -1),
    }

    def step(self):
        kind, keys = self.rng.choice(list(group_names(self.shards).items()))
        if self.rng.random() < (0.7 if self.client % 2 else 0.2):
            self.write(kind, keys)
        else:
            self.read(kind, keys)

    def write(self, kind, keys):
        value = self.client * 10_000_000 + self.steps
        choice = self.rng.random()
        if choice < 0.15:
            self.connection("DEL", *keys)
        elif choice < 0.2:
            self.connection("UNLINK", *reversed(keys))
        elif kind == "string" and choice < 0.7:
            self.connection("MSET", *[word for key in keys for word in (key, value)])
        else:
            order = self.rng.sample(keys, len(keys))
            self.transaction(*[command for key in order for command in self.WRITE[kind](key, value)])

    def read(self, kind, keys):
        choice = self.rng.random()
        if choice < 0.15:
            found = self.connection("EXISTS", *keys)
            self.expect(found in (0, len(keys)), "fracture", f"EXISTS {keys} found {found}")
            return
        if kind == "string" and choice < 0.7:
            seen = self.connection("MGET", *keys)
        elif kind == "set" and choice < 0.6:
            a, b = self.rng.sample(keys, 2)
            extra = self.connection("SDIFF", a, b)
            self.expect(extra == [], "fracture", f"SDIFF {a} {b} found {extra}")
            return
        elif kind == "zset" and choice < 0.6:
            a, b = self.rng.sample(keys, 2)
            low = self.connection("ZINTER", 2, a, b, "WITHSCORES", "AGGREGATE", "MIN")
            high = self.connection("ZUNION", 2, a, b, "WITHSCORES", "AGGREGATE", "MAX")
            del high  # another moment: only each by itself must be whole
            self.expect(isinstance(low, list) and len(low) in (0, 2), "fracture", f"ZINTER {a} {b} found {low}")
            extra = self.connection("ZDIFF", 2, a, b)
            self.expect(extra == [], "fracture", f"ZDIFF {a} {b} found {extra}")
            return
        else:
            seen = self.transaction(*[self.READ[kind](key) for key in keys])
            if seen is None:
                return
        self.expect(all(one == seen[0] for one in seen), "fracture", f"{kind} {keys} read as {seen}")


def groups(server, seed, seconds, shards=16):
    return simple(server, Groups, seed, seconds, shards)


# --- transfers ------------------------------------------------------------------------------------


def accounts(shards):
    """Groups of two and three accounts of every kind, on different shards."""
    found = []
    for kind in (*KINDS, "mixed"):
        for size in (2, 3):
            names = spread(f"account:{kind}:{size}:", size, shards)
            kinds = [KINDS[place % 3] if kind == "mixed" else kind for place in range(size)]
            found.append(list(zip(kinds, names)))
    return found


def change(kind, key, amount):
    if kind == "string":
        return ("INCRBY", key, amount) if amount >= 0 else ("DECRBY", key, -amount)
    if kind == "hash":
        return ("HINCRBY", key, "balance", amount)
    return ("ZINCRBY", key, amount, "balance")


def balance(kind, key):
    return {"string": ("GET", key), "hash": ("HGET", key, "balance"), "zset": ("ZSCORE", key, "balance")}[kind]


class Transfers(Base):
    def step(self):
        group = self.rng.choice(accounts(self.shards))
        choice = self.rng.random()
        if choice < 0.45:
            self.move(group)
        elif choice < 0.8:
            self.look(group)
        elif choice < 0.9:
            self.chain()
        else:
            self.count()

    def move(self, group):
        amounts = [self.rng.randint(-9, 9) for _ in group[1:]]
        amounts.append(-sum(amounts))
        legs = [change(kind, key, amount) for (kind, key), amount in zip(group, amounts)]
        result = self.transaction(*self.rng.sample(legs, len(legs)))
        if result is not None:
            total = sum(int(float(value)) for value in result)
            self.expect(total == START * len(group), "lost update", f"{legs} made the sum {total}: {result}")

    def look(self, group):
        if all(kind == "string" for kind, _ in group) and self.rng.random() < 0.7:
            seen = self.connection("MGET", *[key for _, key in group])
        else:
            seen = self.transaction(*[balance(kind, key) for kind, key in group])
        if seen is not None:
            total = sum(int(float(value)) for value in seen)
            self.expect(total == START * len(group), "fracture", f"{group} read as {seen}: the sum is {total}")

    def chain(self):
        """Between any two of the chain's accounts: the sum is promised at the end only."""
        a, b = self.rng.sample(spread("chain:", 6, self.shards), 2)
        self.transaction(("DECRBY", a, 3), ("INCRBY", b, 3))

    def count(self):
        """A shared counter, by itself and inside transactions: every increment has its own answer."""
        if self.rng.random() < 0.5:
            reply = self.connection("INCR", "counter")
        else:
            result = self.transaction(("HINCRBY", f"elsewhere:{self.client}", "f", 1), ("INCR", "counter"))
            reply = result and result[1]
        if self.expect(isinstance(reply, int), "unexpected reply", f"INCR counter replied {reply}"):
            self.unique.append(reply)


def transfers(server, seed, seconds, shards=16):
    with server.connect() as connection:
        connection("FLUSHALL")
        for group in accounts(shards):
            for kind, key in group:
                connection(*change(kind, key, START))
    steps, violations, _, unique = together(server, Transfers, seed, seconds, shards)
    with server.connect() as connection:
        for group in accounts(shards):
            values = [int(float(connection(*balance(kind, key)))) for kind, key in group]
            if sum(values) != START * len(group):
                violations.append(Violation("lost update", f"at the end {group} holds {values}"))
        chain = connection("MGET", *spread("chain:", 6, shards))
        if sum(int(value or 0) for value in chain):
            violations.append(Violation("lost update", f"at the end the chain holds {chain}"))
        counter = int(connection("GET", "counter") or 0)
        if sorted(unique) != list(range(1, counter + 1)):
            twice = [value for value, times in collections.Counter(unique).items() if times > 1][:5]
            text = f"{len(unique)} increments were answered, the counter is {counter}; answered twice: {twice}"
            violations.append(Violation("lost update", text))
    return steps, violations


# --- WATCH ----------------------------------------------------------------------------------------


class Watched(Base):
    def step(self):
        a, b = spread("watched:", 2, self.shards)
        if self.client % 3 == 0:
            seen = self.connection("MGET", a, b)
            self.expect(seen[0] == seen[1], "fracture", f"MGET {a} {b} read {seen}")
            return
        call = self.connection
        self.expect(call("WATCH", a, b) == "OK", "unexpected reply", "WATCH")
        value = int(call("GET", a) or 0) + 1
        result = self.transaction(("SET", a, value), ("SET", b, value))
        if result is not None:
            self.unique.append(value)


def watched(server, seed, seconds, shards=16):
    with server.connect() as connection:
        connection("FLUSHALL")
    steps, violations, _, unique = together(server, Watched, seed, seconds, shards)
    with server.connect() as connection:
        seen = [int(value or 0) for value in connection("MGET", *spread("watched:", 2, shards))]
        expected = list(range(1, len(unique) + 1))
        if sorted(unique) != expected or seen != [len(unique)] * 2:
            twice = [value for value, times in collections.Counter(unique).items() if times > 1][:5]
            text = f"{len(unique)} EXECs succeeded, the counters are {seen}; set twice: {twice}"
            violations.append(Violation("lost update", text))
        if not unique:
            violations.append(Violation("no progress", "not one optimistic transaction succeeded"))
    return steps, violations


# --- moves ----------------------------------------------------------------------------------------


class Moves(Base):
    def step(self):
        for name in ("token", "set", "list"):
            a, b = self.rng.sample(spread(f"move:{name}:", 2, self.shards), 2)
            act = self.rng.random() < (0.7 if self.client % 2 else 0.2)
            getattr(self, name)(a, b, act)

    def token(self, a, b, act):
        if act:
            reply = self.connection("RENAME", a, b)
            self.expect(reply in ("OK", "ERR no such key"), "unexpected reply", f"RENAME {a} {b} replied {reply}")
            return
        if self.rng.random() < 0.5:
            seen = self.connection("EXISTS", a, b)
        else:
            seen = sum(value is not None for value in self.connection("MGET", a, b))
        self.expect(seen == 1, "fracture", f"the token was seen in {seen} places")

    def set(self, a, b, act):
        if act:
            reply = self.connection("SMOVE", a, b, "m")
            self.expect(reply in (0, 1), "unexpected reply", f"SMOVE {a} {b} replied {reply}")
            return
        if self.rng.random() < 0.3:
            seen = self.connection("SUNION", a, b)
            self.expect(sorted(seen) == [b"m", b"n"], "fracture", f"SUNION {a} {b} found {seen}")
            return
        seen = self.transaction(("SISMEMBER", a, "m"), ("SISMEMBER", b, "m"))
        self.expect(seen is None or sum(seen) == 1, "fracture", f"the member was seen as {seen}")

    def list(self, a, b, act):
        if act:
            self.connection("LMOVE", a, b, self.rng.choice(("LEFT", "RIGHT")), self.rng.choice(("LEFT", "RIGHT")))
            return
        seen = self.transaction(("LRANGE", a, 0, -1), ("LRANGE", b, 0, -1))
        if seen is not None:
            everything = sorted(seen[0] + seen[1])
            self.expect(everything == [b"%d" % n for n in range(9)], "fracture", f"the two lists held {seen}")


def moves(server, seed, seconds, shards=16):
    with server.connect() as connection:
        connection("FLUSHALL")
        connection("SET", spread("move:token:", 2, shards)[0], "token")
        connection("SADD", spread("move:set:", 2, shards)[0], "m", "n")
        connection("RPUSH", spread("move:list:", 2, shards)[0], *range(9))
    return simple(server, Moves, seed, seconds, shards, flush=False)


# --- common ---------------------------------------------------------------------------------------


def body(client, workload, where, seed, seconds, shards):
    return workload(client, where, seed, seconds, shards).run()


def together(server, workload, seed, seconds, shards):
    """All clients' (steps, violations, tally, unique answers)."""
    steps, violations, tally, unique = 0, [], collections.Counter(), []
    for result in run(body, CLIENTS, workload, Where.of(server), seed, seconds, shards):
        if isinstance(result, str):
            violations.append(Violation("client failed", result))
            continue
        steps += result[0]
        violations += result[1]
        tally.update(result[2])
        unique += result[3]
    return steps, violations, tally, unique


def simple(server, workload, seed, seconds, shards, flush=True):
    if flush:
        with server.connect() as connection:
            connection("FLUSHALL")
    return together(server, workload, seed, seconds, shards)[:2]
