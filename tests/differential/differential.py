"""The same random commands to redis-server and to Kintsugi: every reply must be the same.

Redis is the model. One client sends rounds of commands, plain or inside MULTI, in RESP2 or RESP3,
to both servers; replies are compared one by one, and so is everything that is stored at the end of a
round. Kintsugi's keys live on many shards, so every command over several keys is a command over
several shards. A difference is shrunk to the shortest round that still shows it and printed as
lines for redis-cli, with the seed.

What is compared with care: replies whose order Redis leaves open are sorted; times to live may differ by
two seconds; RANDOMKEY and single picks are left to other tests.
"""

import random
import time
from typing import NamedTuple

from grammar import COMMANDS, Grammar
from resp import encode

UNORDERED = {b"SMEMBERS", b"SINTER", b"SUNION", b"SDIFF", b"HKEYS", b"HVALS", b"KEYS", b"SPOP", b"SRANDMEMBER"}
PAIRS = {b"HGETALL", b"HRANDFIELD", b"ZRANDMEMBER"}
SCANS = {b"HSCAN", b"ZSCAN", b"SSCAN"}
SECONDS = {b"TTL", b"EXPIRETIME"}
SILENCE_S = 6
MILLISECONDS = {b"PTTL", b"PEXPIRETIME"}


class Reply(NamedTuple):
    """A reply with its RESP type, so that `:1` and `$1` differ."""

    kind: str
    value: object

    def show(self):
        if isinstance(self.value, tuple):
            inner = " ".join(item.show() for item in self.value[:40])
            return f"{self.kind}[{inner}{' …' if len(self.value) > 40 else ''}]"
        return f"{self.kind}{self.value!r}" if isinstance(self.value, bytes) else f"{self.kind}{self.value}"


def read(stream):
    """One RESP2 or RESP3 reply."""
    line = stream.readline()
    if not line.endswith(b"\r\n"):
        return Reply("closed", None)
    kind, rest = line[:1].decode("latin1"), line[1:-2]
    if kind in "$=!":
        length = int(rest)
        return Reply("_", None) if length < 0 else Reply(kind, stream.read(length + 2)[:-2])
    if kind in "*~>%|":
        length = int(rest)
        if length < 0:
            return Reply("_*", None)
        return Reply(kind, tuple(read(stream) for _ in range(length * (2 if kind in "%|" else 1))))
    return Reply(kind, None if kind == "_" else rest)


def normal(command, reply):
    """What of a reply must be equal."""
    name = command[0].upper()
    value = reply.value
    if isinstance(value, tuple):
        if name in UNORDERED:
            return Reply(reply.kind, tuple(sorted(value, key=repr)))
        if name in PAIRS:
            flat = reply.kind == "%" or (name == b"HGETALL") or (len(command) > 3 and value and not isinstance(value[0].value, tuple))
            items = tuple(zip(value[::2], value[1::2])) if flat else value
            return Reply(reply.kind, tuple(sorted(items, key=repr)))
        if name in SCANS and len(value) == 2 and isinstance(value[1].value, tuple):
            items = value[1].value
            if name != b"SSCAN":
                items = tuple(zip(items[::2], items[1::2]))
            return Reply("scan", (value[0], *sorted(items, key=repr)))
    if reply.kind == ":" and name in SECONDS | MILLISECONDS and int(value) > 0:
        return Reply("about", int(value) // (10 if name in SECONDS else 10_000))
    return reply


def same(command, ours, theirs):
    if normal(command, ours) == normal(command, theirs):
        return True
    if command[0].upper() in SECONDS | MILLISECONDS and ours.kind == theirs.kind == ":":
        slack = 2 if command[0].upper() in SECONDS else 2000
        return min(int(ours.value), int(theirs.value)) > 0 and abs(int(ours.value) - int(theirs.value)) <= slack
    return False


class Difference(NamedTuple):
    command: tuple
    ours: Reply
    theirs: Reply

    def signature(self):
        """What makes two differences the same for a reader."""
        shape = [r.value[:60] if r.kind == "-" else r.kind for r in (self.ours, self.theirs)]
        return self.command[0].upper(), str(shape)


class Pair:
    """A connection to each of the two servers."""

    def __init__(self, ours, theirs, without=()):
        self.connect = ours, theirs
        self.dump = [command for command in dump_commands() if command[0].decode() not in without]
        self.links = [start() for start in self.connect]

    def play(self, commands, protocol):
        """Run a round from an empty store; the first difference, or None."""
        prelude = [(b"DISCARD",), (b"UNWATCH",), (b"HELLO", str(protocol).encode()), (b"FLUSHALL",)]
        ending = [(b"DISCARD",), *self.dump]
        everything = [*prelude, *commands, *ending]
        data = b"".join(encode(*command) for command in everything)
        replies = []
        for side, link in enumerate(self.links):
            replies.append(self._ask(link, data, len(everything)))
            if replies[-1][-1].kind in ("closed", "silent"):
                link.close()
                self.links[side] = self.connect[side]()
        return self._compare(everything, replies, len(prelude))

    @staticmethod
    def _ask(link, data, count):
        """Send it all, read that many replies; a server that says nothing for long is an answer too."""
        link.sock.settimeout(SILENCE_S)
        replies = []
        try:
            link.send(data)
            while len(replies) < count:
                replies.append(read(link.stream))
        except TimeoutError:
            replies += [Reply("silent", None)] * (count - len(replies))
        except OSError:
            replies += [Reply("closed", None)] * (count - len(replies))
        return replies

    @staticmethod
    def _compare(everything, replies, start):
        queued = None
        for place in range(start, len(everything)):
            command, ours, theirs = everything[place], replies[0][place], replies[1][place]
            name = command[0].upper()
            if theirs.kind == "+" and theirs.value == b"QUEUED":
                queued = [*(queued or []), command]
            elif name == b"EXEC" and theirs.kind == "*" and ours.kind == "*" and len(ours.value) == len(theirs.value):
                for inner, mine, other in zip(queued or [], ours.value, theirs.value):
                    if not same(inner, mine, other):
                        return Difference((b"EXEC", *inner), mine, other)
                queued = None
                continue
            elif name in (b"EXEC", b"DISCARD"):
                queued = None
            if not same(command, ours, theirs):
                return Difference(tuple(command), ours, theirs)
        return None


def dump_commands():
    """Commands that read all that a round can have stored."""
    out = [(b"KEYS", b"*"), (b"DBSIZE",)]
    for number in range(4):
        for kind in ("string", "list", "hash", "set", "zset"):
            key = f"{kind}:{number}".encode()
            out += [(b"TYPE", key), (b"PTTL", key), (b"GET", key), (b"LRANGE", key, b"0", b"-1"), (b"HGETALL", key),
                    (b"SMEMBERS", key), (b"ZRANGE", key, b"0", b"-1", b"WITHSCORES")]
    return out + [(b"ZRANGE", key, b"0", b"-1", b"WITHSCORES") for key in (b"lexset:0", b"lexset:1")]


def a_round(seed, without=()):
    """The commands of one round, and its protocol."""
    rng = random.Random(seed)
    grammar = Grammar(rng, rng.random() < 0.2, without)
    commands = []
    while len(commands) < 150:
        if rng.random() < 0.08:
            if rng.random() < 0.3:
                commands.append((b"WATCH", grammar.words.key().encode()))
            commands.append((b"MULTI",))
            commands += [tuple(grammar.command()) for _ in range(rng.randint(0, 6))]
            commands.append((b"EXEC",) if rng.random() < 0.9 else (b"DISCARD",))
        else:
            commands.append(tuple(grammar.command()))
    return commands, rng.choice([2, 2, 3])


def shrink(pair, commands, protocol, difference):
    """The shortest part of the round with the same difference."""
    wanted, size = difference.signature(), max(1, len(commands) // 2)
    give_up = time.monotonic() + (60 if difference.ours.kind == "silent" else 10)
    while size and time.monotonic() < give_up:
        place, changed = 0, False
        while place < len(commands) and time.monotonic() < give_up:
            shorter = commands[:place] + commands[place + size :]
            found = pair.play(shorter, protocol)
            if found and found.signature() == wanted:
                commands, difference, changed = shorter, found, True
            else:
                place += size
        if not changed or size > 1:
            size //= 2
    return commands, difference


def line(command):
    """A command as redis-cli would take it."""
    words = []
    for word in command:
        text = "".join(chr(b) if 32 < b < 127 and b not in b'"\\' else f"\\x{b:02x}" for b in word)
        words.append(f'"{text}"' if "\\x" in text or not text else text)
    said = " ".join(words)
    return said if len(said) < 400 else said[:400] + "…"


def hunt(pair, first_seed, rounds=None, seconds=None, most=20, log=None, without=()):
    """Play rounds; the report of each distinct difference, by signature."""
    found, until, number = {}, time.monotonic() + (seconds or 1e9), 0
    while (rounds is None or number < rounds) and time.monotonic() < until and len(found) < most:
        seed = str(first_seed) if "/" in str(first_seed) else f"{first_seed}/{number}"
        number += 1
        commands, protocol = a_round(seed, without)
        difference = pair.play(commands, protocol)
        if difference is None or difference.signature() in found:
            continue
        first = difference.signature()
        commands, difference = shrink(pair, commands, protocol, difference)
        report = [f"seed {seed} RESP{protocol}: {line(difference.command)}",
                  *(f"    > {line(command)}" for command in commands),
                  f"    kintsugi  {difference.ours.show()[:700]}",
                  f"    redis     {difference.theirs.show()[:700]}"]
        found[first] = found[difference.signature()] = "\n".join(report)
        if log:
            log(found[first])
    return number, list(dict.fromkeys(found.values()))


assert len(COMMANDS) > 100
