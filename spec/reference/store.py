"""What the answers mean: the five data structures of spec/wire.md as Python's own.

`Store.handle(datagram)` gives the list of answers that are allowed: one, or none for a datagram that
is dropped, or several where the page leaves the choice open (SPOP). After several, the
caller says with `Store.chosen` which one it saw, so that the model follows.
"""

import struct

import wire

EMPTY = {0: None, 1: list, 2: dict, 3: set, 4: dict}


class Store:
    def __init__(self):
        self.keys = {}  # key -> (engine number, bytes | list | dict | set)
        self.stats = {"received": 0, "dropped": 0, "ok": 0, "miss": 0, "error": 0}
        self._pending = None

    def handle(self, datagram):
        req = wire.parse(datagram)
        if req is None:
            self.stats["dropped"] += 1
            return []
        self.stats["received"] += 1
        status = wire.error(req)
        if status is not None:
            return [self._answer(req, status)]
        name = wire.OPS[req.op][0]
        if name == "PING":
            return [self._answer(req, wire.OK)]
        if name == "STATS":
            raise ValueError("the counters of STATS are nobody's but the implementation's")
        engine = req.op >> 4
        held, data = self.keys.get(req.key, (engine, None))
        if held != engine:
            return [self._answer(req, wire.WRONG_TYPE)]
        if name == "SPOP" and data:
            self._pending = (req, data)
            self.stats["ok"] += 1
            answers = [wire.answer(req.op, wire.OK, req.id, member) for member in sorted(data)]
            if len(answers) == 1:
                self.chosen(answers[0])
            return answers
        if data is None:
            data = EMPTY[engine]() if EMPTY[engine] else None
        data, status, value = getattr(self, "_" + name.lower())(data, req)
        self._keep(req.key, engine, data)
        return [self._answer(req, status, value)]

    def chosen(self, answer):
        """Of several allowed answers, this one was seen."""
        req, data = self._pending
        data.remove(answer[8 : 8 + struct.unpack_from("<H", answer, 4)[0]])
        self._keep(req.key, 3, data)

    def _keep(self, key, engine, data):
        if data is None or (engine != 0 and not data):
            self.keys.pop(key, None)
        else:
            self.keys[key] = (engine, data)

    def _answer(self, req, status, value=b""):
        kind = {wire.OK: "ok", wire.REPLACED: "ok", wire.MISS: "miss"}.get(status, "error")
        self.stats[kind] += 1
        return wire.answer(req.op, status, req.id, value)

    # Each operation: (data, request) -> (data, status, value). None as data: the key is not there.

    def _get(self, data, req):
        return (data, wire.MISS, b"") if data is None else (data, wire.OK, data)

    def _set(self, data, req):
        return req.value, wire.OK, b""

    def _del(self, data, req):
        return None, wire.MISS if data is None else wire.OK, b""

    def _lpush(self, data, req):
        return [req.value] + data, wire.OK, b""

    def _rpush(self, data, req):
        return data + [req.value], wire.OK, b""

    def _lpop(self, data, req):
        return (data[1:], wire.OK, data[0]) if data else (data, wire.MISS, b"")

    def _rpop(self, data, req):
        return (data[:-1], wire.OK, data[-1]) if data else (data, wire.MISS, b"")

    def _hget(self, data, req):
        return (data, wire.OK, data[req.subkey]) if req.subkey in data else (data, wire.MISS, b"")

    def _hset(self, data, req):
        status = wire.REPLACED if req.subkey in data else wire.OK
        return {**data, req.subkey: req.value}, status, b""

    def _hdel(self, data, req):
        status = wire.MISS if data.pop(req.subkey, None) is None else wire.OK
        return data, status, b""

    def _sadd(self, data, req):
        status = wire.REPLACED if req.subkey in data else wire.OK
        return data | {req.subkey}, status, b""

    def _srem(self, data, req):
        status = wire.OK if req.subkey in data else wire.MISS
        return data - {req.subkey}, status, b""

    def _sismember(self, data, req):
        return data, wire.OK if req.subkey in data else wire.MISS, b""

    def _spop(self, data, req):
        return data, wire.MISS, b""

    def _zadd(self, data, req):
        status = wire.REPLACED if req.subkey in data else wire.OK
        return {**data, req.subkey: struct.unpack("<Q", req.value)[0]}, status, b""

    def _zscore(self, data, req):
        if req.subkey not in data:
            return data, wire.MISS, b""
        return data, wire.OK, struct.pack("<Q", data[req.subkey])

    def _zrem(self, data, req):
        status = wire.OK if data.pop(req.subkey, None) is not None else wire.MISS
        return data, status, b""

    def _zpopmin(self, data, req):
        if not data:
            return data, wire.MISS, b""
        score, member = min((score, member) for member, score in data.items())
        del data[member]
        return data, wire.OK, wire.record(score, member)

    def _zrange(self, data, req):
        first, count = struct.unpack("<II", req.value)
        order = sorted((score, member) for member, score in data.items())
        records = order[first : first + min(count, wire.ZRANGE_MAX)]
        if not records:
            return data, wire.MISS, b""
        return data, wire.OK, b"".join(wire.record(*r) for r in records)
