"""Timed traces: what a client sends, when, and what must come back. Random, but from a generator that will never change."""

import struct

import wire


class Dice:
    """xorshift64*: Python's own generator promises less than a file that must be the same for ever needs."""

    def __init__(self, seed):
        self.state = seed

    def __call__(self, bound):
        x = self.state
        x ^= x >> 12
        x ^= x << 25 & (1 << 64) - 1
        x ^= x >> 27
        self.state = x
        return (x * 0x2545F4914F6CDD1D & (1 << 64) - 1) * bound >> 64


def operation(dice, keys, members, longest):
    """One request of any type; a key's first letter is its type, so no key meets another one's operations."""
    kind = dice(10)
    n = dice(keys)
    value = bytes(dice(256) for _ in range(dice(longest + 1)))
    member = b"m%d" % dice(members)
    if kind < 4:
        key = b"s%d" % n
        return [("GET", key), ("GET", key), ("SET", key, b"", value), ("DEL", key)][dice(4)]
    if kind < 5:
        key = b"l%d" % n
        return [("LPUSH", key, b"", value), ("RPUSH", key, b"", value), ("LPOP", key), ("RPOP", key)][dice(4)]
    if kind < 7:
        key = b"h%d" % n
        return [("HSET", key, member, value), ("HGET", key, member), ("HGET", key, member), ("HDEL", key, member)][dice(4)]
    if kind < 8:
        key = b"e%d" % n
        return [("SADD", key, member), ("SISMEMBER", key, member), ("SISMEMBER", key, member), ("SREM", key, member)][dice(4)]
    key = b"z%d" % n
    score = struct.pack("<Q", wire.score_key(float(dice(32)) / 4 - 2))
    span = struct.pack("<II", dice(6), dice(16))
    return [
        ("ZADD", key, member, score),
        ("ZADD", key, member, score),
        ("ZSCORE", key, member),
        ("ZREM", key, member),
        ("ZPOPMIN", key),
        ("ZRANGE", key, b"", span),
    ][dice(6)]


def trace(name, what, seed, steps, gap_ns, keys, members, longest):
    dice = Dice(seed)
    at_ns = 0
    out = []
    for id in range(steps):
        op, *parts = operation(dice, keys, members, longest)
        out.append({"at_ns": at_ns, "send": wire.request(op, *parts, id=id)})
        at_ns += dice(2 * gap_ns + 1)
    return name, what, out


def all_traces():
    return [
        trace("trace-hot", "few hot keys, all types, 1 us apart on average", 11, 600, 1000, 2, 3, 24),
        trace("trace-wide", "many keys, values up to 300 bytes, 2 us apart on average", 12, 400, 2000, 24, 12, 300),
        trace("trace-line-rate", "short requests as fast as 10 Gbit/s brings minimum frames, 67 ns", 13, 800, 67, 8, 4, 8),
    ]
