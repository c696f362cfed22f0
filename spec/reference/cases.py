"""The cases of the golden vectors: what each operation does, every limit from both sides, every way to be malformed."""

import struct

import traces
import wire

INF = float("inf")


class Script:
    """Collects steps; ids count up so that an answer cannot be taken for its neighbour's."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.steps = []

    def raw(self, datagram, note=None):
        self.steps.append({"send": datagram, **({"note": note} if note else {})})

    def __call__(self, op, key=b"", subkey=b"", value=b"", note=None, flags=0):
        key = self.prefix + key if key and len(key) < 40 else key
        self.raw(wire.request(op, key, subkey, value, id=(0x100 + len(self.steps)) & 0xFFFF, flags=flags), note)


def score(x):
    return struct.pack("<Q", wire.score_key(x))


def span(first, count):
    return struct.pack("<II", first, count)


def blob(length, salt=0):
    return bytes((salt + 7 * i) % 256 for i in range(length))


def strings():
    s = Script(b"st:")
    s("PING")
    s("GET", b"a", note="not there yet")
    s("SET", b"a", value=b"21.5")
    s("GET", b"a")
    s("SET", b"a", value=b"a longer value than before, in another slab class, so that the cell moves " + blob(60))
    s("GET", b"a")
    s("SET", b"a", value=b"", note="an empty value is a value")
    s("GET", b"a")
    s("DEL", b"a")
    s("DEL", b"a", note="twice")
    s("GET", b"a")
    for length in list(range(0, 34)) + [63, 64, 65, 127, 128, 255, 256, 257, 320, 400, 447, 448]:
        s("SET", b"len", value=blob(length, length))
        s("GET", b"len", note=f"{length} bytes of value")
    for length in range(1, 65):
        key = blob(length, 3)
        s.raw(wire.request("SET", key, value=bytes([length]), id=length))
    for length in range(1, 65):
        s.raw(wire.request("GET", blob(length, 3), id=length), f"key of {length} bytes, a prefix of the longer ones")
    s("SET", b"z", value=b"short")
    s("SET", b"z\0", value=b"zero byte in the key")
    s("GET", b"z", note="padding is no part of the key")
    s("GET", b"z\0")
    dirty = bytearray(wire.request("GET", b"st:z", id=0x777))
    dirty[12:16] = b"junk"
    s.raw(bytes(dirty), "a receiver takes no notice of what stands in the padding")
    return "string", "SET, GET, DEL and PING: hits, misses, lengths", s.steps


def lists():
    s = Script(b"li:")
    s("LPOP", b"q")
    s("RPOP", b"q")
    for i in range(8):
        s("RPUSH", b"q", value=b"r%d" % i)
        s("LPUSH", b"q", value=b"l%d" % i)
    for i in range(9):
        s("LPOP", b"q")
        s("RPOP", b"q", note="empty in the end" if i == 8 else None)
    s("LPUSH", b"one", value=b"x")
    s("RPOP", b"one", note="one element is both ends")
    s("RPOP", b"one")
    s("RPUSH", b"one", value=b"")
    s("LPOP", b"one", note="an empty element is an element")
    for length in (1, 7, 8, 9, 40, 100, 200, 300, 440):
        s("RPUSH", b"big", value=blob(length))
    for _ in range(10):
        s("LPOP", b"big")
    s("LPUSH", b"again", value=b"1")
    s("LPOP", b"again")
    s("LPUSH", b"again", value=b"2", note="a list that was emptied begins anew")
    s("RPOP", b"again")
    return "list", "LPUSH, RPUSH, LPOP and RPOP", s.steps


def hashes():
    s = Script(b"ha:")
    s("HGET", b"h", b"f")
    s("HDEL", b"h", b"f")
    s("HSET", b"h", b"f", b"1")
    s("HSET", b"h", b"f", b"2", note="replaced")
    s("HGET", b"h", b"f")
    s("HGET", b"h", b"g", note="another field")
    s("HGET", b"i", b"f", note="another key")
    s("HSET", b"hf", b"g", b"ab", note="key and field together spell the same bytes")
    s("HSET", b"h", b"fg", b"cd")
    s("HGET", b"hf", b"g")
    s("HGET", b"h", b"fg")
    for length in (1, 7, 8, 9, 16, 33, 63, 64):
        s("HSET", b"long", blob(length, 5), blob(length, 9))
    for length in (1, 7, 8, 9, 16, 33, 63, 64):
        s("HGET", b"long", blob(length, 5))
    for length in (1, 7, 8, 9, 16, 33, 63, 64, 64):
        s("HDEL", b"long", blob(length, 5))
    s("HSET", b"h", b"e", b"", note="an empty value is a value")
    s("HGET", b"h", b"e")
    s("HDEL", b"h", b"f")
    s("HGET", b"h", b"f")
    return "hash", "HSET, HGET and HDEL", s.steps


def sets():
    s = Script(b"se:")
    s("SPOP", b"s")
    s("SREM", b"s", b"a")
    s("SISMEMBER", b"s", b"a")
    s("SADD", b"s", b"a")
    s("SADD", b"s", b"a", note="twice")
    s("SISMEMBER", b"s", b"a")
    s("SPOP", b"s", note="one member: no choice")
    s("SISMEMBER", b"s", b"a")
    s("SPOP", b"s")
    for m in (b"x", b"y", b"z"):
        s("SADD", b"three", m)
    s("SPOP", b"three", note="any of three")
    for length in (1, 8, 9, 16, 17, 40, 64):
        s("SADD", b"long", blob(length, 11))
    for length in (1, 8, 9, 16, 17, 40, 64, 64):
        s("SREM", b"long", blob(length, 11))
    for i in range(60):
        s("SADD", b"many", b"member-%02d" % i)
    for i in range(0, 60, 2):
        s("SREM", b"many", b"member-%02d" % i)
    for i in range(60):
        s("SISMEMBER", b"many", b"member-%02d" % i)
    return "set", "SADD, SREM, SISMEMBER and SPOP", s.steps


def sorted_sets():
    s = Script(b"zs:")
    s("ZSCORE", b"z", b"m")
    s("ZREM", b"z", b"m")
    s("ZPOPMIN", b"z")
    s("ZRANGE", b"z", value=span(0, 5))
    scores = [0.0, 1.5, -1.5, INF, -INF, 1e-320, -1e-320, 1e308, -1e308, 3.0, 2.0, 1.0]
    for i, x in enumerate(scores):
        s("ZADD", b"z", b"m%02d" % i, score(x))
        s("ZSCORE", b"z", b"m%02d" % i)
    for first in (0, 1, 5, 11, 12, 4294967295):
        for count in (0, 1, 3, 14, 15, 4294967295):
            s("ZRANGE", b"z", value=span(first, count), note=f"{count} from rank {first}")
    s("ZADD", b"z", b"m00", score(9.0), note="moves")
    s("ZADD", b"z", b"m00", score(9.0), note="stays")
    s("ZRANGE", b"z", value=span(0, 14))
    s("ZREM", b"z", b"m04")
    for _ in range(12):
        s("ZPOPMIN", b"z")
    for m in (b"b", b"a", b"ab", b"a\0", b"B", b"\xff", b"abcdefghijklmnop", b"abcdefghijklmno", b"abcdefgh", b"abcdefghi"):
        s("ZADD", b"tie", m, score(1.0))
    s("ZRANGE", b"tie", value=span(0, 14), note="equal scores: by member, byte by byte, a prefix first")
    for _ in range(11):
        s("ZPOPMIN", b"tie")
    for i in range(60):
        s("ZADD", b"many", b"n%d" % (i * 37 % 60), score(float(i * 17 % 23)))
    for first in range(0, 64, 7):
        s("ZRANGE", b"many", value=span(first, 14))
    return "zset", "ZADD, ZSCORE, ZREM, ZPOPMIN and ZRANGE: order, ties, ends", s.steps


def types():
    s = Script(b"ty:")
    makers = {0: ("SET", b"", b"v"), 1: ("LPUSH", b"", b"v"), 2: ("HSET", b"f", b"v"), 3: ("SADD", b"m", b""), 4: ("ZADD", b"m", score(1.0))}
    for engine, (maker, subkey, value) in makers.items():
        key = b"key%d" % engine
        s(maker, key, subkey, value)
        for code, (name, wants_key, wants_subkey, wants_value) in wire.OPS.items():
            if wants_key and code >> 4 != engine:
                sub = b"f" if wants_subkey else b""
                val = score(2.0) if wants_value == 8 else b"w" if wants_value else b""
                s(name, key, sub, val)
    s("GET", b"key0", note="nothing was changed")
    s("LPOP", b"key1")
    s("HGET", b"key2", b"f")
    s("HDEL", b"key2", b"f")
    s("SREM", b"key3", b"m")
    s("ZPOPMIN", b"key4")
    for i in range(1, 5):
        s("SET", b"key%d" % i, value=b"string", note="an emptied collection is gone, its key free for any type")
        s("GET", b"key%d" % i)
    s("DEL", b"key0")
    s("SADD", b"key0", b"m")
    return "types", "operations of another type are refused and change nothing", s.steps


def limits():
    s = Script(b"")
    for klen, slen in ((64, 0), (8, 0), (1, 0), (64, 64), (8, 64), (64, 8), (1, 1)):
        room = wire.ITEM_MAX - wire.padded(klen) - wire.padded(slen)
        op, read = ("HSET", "HGET") if slen else ("SET", "GET")
        for vlen in (room - 8, room - 1, room, room + 1, room + 8, 1280):
            key, sub = blob(klen, klen + slen), blob(slen, 77)
            s.raw(wire.request(op, key, sub, blob(vlen), id=vlen), f"key {klen}, subkey {slen}, value {vlen}")
            s.raw(wire.request(read, key, sub, id=vlen + 1))
    for klen in (64, 65, 72, 255):
        s.raw(wire.request("SET", blob(klen, 99), value=b"v", id=klen), f"key of {klen}")
    for slen in (64, 65, 72, 255):
        s.raw(wire.request("HSET", b"lim", blob(slen, 99), b"v", id=slen), f"field of {slen}")
        s.raw(wire.request("SADD", b"lims", blob(slen, 99), id=slen), f"member of {slen}")
    for slen in (15, 16, 17, 64, 255):
        s.raw(wire.request("ZADD", b"limz", blob(slen, 99), score(1.0), id=slen), f"member of a sorted set of {slen}")
        s.raw(wire.request("ZSCORE", b"limz", blob(slen, 99), id=slen))
    s.raw(wire.request("RPUSH", b"liml", value=blob(456), id=1))
    s.raw(wire.request("RPUSH", b"liml", value=blob(457), id=2))
    s.raw(wire.request("SET", b"limx", value=blob(1448), id=3), "the longest datagram, 1464 bytes and its padding")
    return "limits", "each limit from both sides", s.steps


def errors():
    """Requests that are answered with an error known from beat 0, and the order of precedence among errors."""
    s = Script(b"er:")
    for code in range(0x80):
        if code not in wire.OPS:
            s(code, b"k", b"s", b"v", note="no such operation")
    for code, (name, wants_key, wants_subkey, wants_value) in wire.OPS.items():
        key = b"k" if wants_key else b""
        sub = b"s" if wants_subkey else b""
        val = b"12345678" if wants_value else b""
        s(name, b"" if key else b"k", sub, val, note=f"{name}: key {'missing' if key else 'too many'}")
        s(name, key, b"" if sub else b"s", val, note=f"{name}: subkey {'missing' if sub else 'too many'}")
        if wants_value is None:
            s(name, key, sub, b"v", note=f"{name}: value too many")
            s(name, key, sub, bytes(9), note=f"{name}: value too many")
        if wants_value == 8:
            for length in (0, 1, 4, 7, 9, 16):
                s(name, key, sub, bytes(length), note=f"{name}: value of {length} bytes")
        for flags in (1, 8, 15):
            s(name, key, sub, val, flags=flags, note=f"{name}: flags {flags}")
        s(name, b"", b"", b"", flags=2, note=f"{name}: flag, and perhaps more")
    for bits in (0, 1, 0x000FFFFFFFFFFFFE, 0x7FFFFFFFFFFFFFFF, 0xFFF0000000000001, 0xFFFFFFFFFFFFFFFF):
        s("ZADD", b"nan", b"m", struct.pack("<Q", bits), note="no score")
    s("ZADD", b"nan", bytes(17), struct.pack("<Q", 0), note="too long comes before a bad value")
    s("ZADD", b"nan", bytes(17), struct.pack("<Q", 0), flags=1, note="a bad field comes before both")
    s("GET", bytes(65), flags=1, note="a bad field comes before too long")
    s(0x7F, bytes(200), flags=1, note="a bad operation comes before everything")
    s("ZSCORE", b"nan", b"m", note="nothing was changed")
    return "errors", "requests that are refused", s.steps


def dropped():
    """Datagrams that get no answer; a good one now and then shows that the server still listens."""
    s = Script(b"dr:")
    good = wire.request("SET", b"dr:k", value=b"0123456789", id=0x1111)
    for length in range(0, len(good)):
        s.raw(good[:length], f"the first {length} bytes of a SET")
    for extra in (1, 4, 7, 8, 16, 64, 1024):
        s.raw(good + bytes(extra), f"{extra} bytes too many")
    s("PING", note="still there")
    for code in wire.OPS:
        s.raw(wire.request(code | 0x80, b"k", id=2), "an answer is not answered")
    for version in range(16):
        if version != wire.VERSION:
            s.raw(good[:1] + bytes([version << 4]) + good[2:], f"version {version}")
    s("PING", note="still there")
    for at in (2, 3, 4, 5):
        for by in (8, 64, 248):
            liar = bytearray(good)
            liar[at] = (liar[at] + by) % 256
            s.raw(bytes(liar), f"byte {at} of the header lies by {by}")
    s.raw(bytes(1472), "zeros, and version 0")
    s.raw(b"\xff" * 1472, "ones")
    s.raw(wire.request("SET", b"dr:k", value=bytes(1472), id=3), "longer than any datagram")
    s("GET", b"k", note="nothing was changed")
    return "dropped", "datagrams that are dropped without an answer", s.steps


def garbage():
    """Good requests with one to three header bytes changed, and random ones: all that are refused or dropped."""
    dice = traces.Dice(99)
    s = Script(b"ga:")
    while len(s.steps) < 1000:
        op, *parts = traces.operation(dice, 4, 4, 40)
        datagram = bytearray(wire.request(op, *parts, id=len(s.steps)))
        for _ in range(1 + dice(3)):
            datagram[dice(6)] = dice(256)
        if dice(4) == 0:
            # Random header, then as many beats as it says, so that more of them get past the check of lengths.
            datagram[1] = wire.VERSION << 4 | dice(2)
            datagram[5] = dice(2)
            beats = sum(wire.padded(n) for n in (datagram[2], datagram[3], datagram[4] | datagram[5] << 8))
            datagram = (datagram[:8] + bytes(dice(256) for _ in range(beats)))[: wire.DATAGRAM_MAX + 8]
        req = wire.parse(bytes(datagram))
        if req is None or wire.error(req) is not None:
            s.raw(bytes(datagram))
    return "garbage", "broken at random: refused or dropped, never more", s.steps


def all_cases():
    return [f() for f in (strings, lists, hashes, sets, sorted_sets, types, limits, errors, dropped, garbage)]
