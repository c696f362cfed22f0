"""Every data structure seen as registers: items that hold the number of the transaction that wrote them.

    structure   item             written by                               read by
    string      key              SET                                      GET (MGET when all keys are strings)
    hash        key.field        HSET                                     HGET
    hashall     key.field        HSET                                     HGETALL
    zset        key.member       ZADD with the number as score            ZSCORE
    zrange      key.member       ZADD                                     ZRANGE WITHSCORES
    set         key.writer       SADD "writer:number:last", SREM of it    SMEMBERS: the newest member of each writer
    list        key              LPUSH, LTRIM                             LRANGE: its head

A set's members are items of their own. A read that saw a writer's transaction n, but not the one before it that wrote the
same set, may show what that one removed: Read Atomic promises no order among transactions that were not seen. What n itself
removed has to be gone when n is seen; therefore each member names the one that its transaction removed.

With `filler`, the collections hold that many other items, so that they are past every small encoding.
"""

STRUCTURES = ("string", "hash", "hashall", "zset", "zrange", "set", "list")
LIST_LENGTH = 12


class Malformed(Exception):
    """A reply that no history explains: its text says what was wrong."""


def structure_of(key):
    """The structure is in the key's name: `hash:7`."""
    return key.split(":", 1)[0]


def prefill(key, filler):
    """Commands that give the key its other items."""
    structure = structure_of(key)
    commands = []
    for first in range(0, filler, 250):
        numbers = range(first, min(first + 250, filler))
        if structure in ("hash", "hashall"):
            commands.append(("HSET", key, *[word for n in numbers for word in (f"other{n}", f"filler{n}")]))
        elif structure in ("zset", "zrange"):
            commands.append(("ZADD", key, *[word for n in numbers for word in (-1 - n, f"other{n}")]))
        elif structure == "set":
            commands.append(("SADD", key, *[f"other{n}" for n in numbers]))
    return commands


class Writer:
    """Makes the commands of one client's writes; it knows what its sets hold."""

    def __init__(self, client, rng, filler=0):
        self.client = client
        self.rng = rng
        self.length = LIST_LENGTH + filler
        self.members = {}  # key -> (name, number) of this client's member of the set

    def padded(self, number):
        """Values of several sizes: inside a cell, in a large one, in more than one."""
        size = self.rng.choice((0, 0, 0, 10, 100, 600, 5000))
        return f"{number}:" + "." * size

    def write(self, key, number):
        """(items, commands)"""
        structure = structure_of(key)
        if structure == "string":
            return [key], [("SET", key, self.padded(number))]
        if structure in ("hash", "hashall"):
            return [f"{key}.f"], [("HSET", key, "f", self.padded(number))]
        if structure in ("zset", "zrange"):
            return [f"{key}.m"], [("ZADD", key, number, "m")]
        if structure == "list":
            return [key], [("LPUSH", key, self.padded(number)), ("LTRIM", key, 0, self.length - 1)]
        last, last_number = self.members.get(key, (None, 0))
        name = f"{self.client}:{number}:{last_number}"
        self.members[key] = (name, number)
        commands = [("SADD", key, name)]
        if last:
            commands.append(("SREM", key, last))
        return [f"{key}.{self.client}"], commands


def read_command(key):
    return {
        "string": ("GET", key),
        "hash": ("HGET", key, "f"),
        "hashall": ("HGETALL", key),
        "zset": ("ZSCORE", key, "m"),
        "zrange": ("ZRANGE", key, 0, -1, "WITHSCORES"),
        "set": ("SMEMBERS", key),
        "list": ("LRANGE", key, 0, LIST_LENGTH - 1),
    }[structure_of(key)]


def number_in(value):
    if value is None:
        return 0
    if not isinstance(value, bytes) or (b":" in value and value.split(b":", 1)[1].strip(b".")):
        raise Malformed(f"torn or foreign value {value!r}")
    return int(value.split(b":", 1)[0])


def decode(key, reply, clients):
    """[(item, number)] of a reply to `read_command`."""
    structure = structure_of(key)
    if structure == "string":
        return [(key, number_in(reply))]
    if structure == "hash":
        return [(f"{key}.f", number_in(reply))]
    if structure == "zset":
        return [(f"{key}.m", int(float(reply)) if reply is not None else 0)]
    if structure == "hashall":
        return [(f"{key}.f", number_in(dict(zip(reply[::2], reply[1::2])).get(b"f")))]
    if structure == "zrange":
        members = dict(zip(reply[::2], reply[1::2]))
        return [(f"{key}.m", int(float(members.get(b"m", 0))))]
    if structure == "list":
        numbers = [number_in(value) for value in reply]
        if len(set(numbers)) != len(numbers):
            raise Malformed(f"{key} holds a value twice: {numbers}")
        return [(key, numbers[0] if numbers else 0)]
    held = {client: {} for client in range(1, clients + 1)}
    for member in reply:
        if not member.startswith(b"other"):
            client, number, removed = map(int, member.split(b":"))
            held[client][number] = removed
    for client, numbers in held.items():
        for number, removed in numbers.items():
            if removed in numbers:
                raise Malformed(f"{key} holds T{number} of client {client} and T{removed}, which it removed")
    return [(f"{key}.{client}", max(numbers, default=0)) for client, numbers in held.items()]
