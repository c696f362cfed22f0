"""The datagram protocol of spec/wire.md: constants, and the two directions of its bytes.

Written from the page alone, with nothing but Python's standard library, so that it can disagree
with the server and with the hardware. Speed is no concern here; being read is.
"""

import struct
from dataclasses import dataclass

VERSION = 1
KEY_MAX = 64
SUBKEY_MAX = 64
ZMEMBER_MAX = 16
ITEM_MAX = 464
DATAGRAM_MAX = 1472
ZRANGE_MAX = 14
RECORD_SIZE = 32

OK, MISS, REPLACED = 0x00, 0x01, 0x02
BAD_OP, BAD_FIELD, TOO_LONG, BAD_VALUE = 0x40, 0x41, 0x42, 0x43
WRONG_TYPE, NO_MEMORY, FULL, BUSY = 0x44, 0x45, 0x46, 0x47

# op: (name, key must be there, subkey must be there, value)
# value: None (must not be there), "any" (0 bytes and up), or the one length it has
OPS = {
    0x00: ("PING", False, False, None),
    0x01: ("GET", True, False, None),
    0x02: ("SET", True, False, "any"),
    0x03: ("DEL", True, False, None),
    0x11: ("LPUSH", True, False, "any"),
    0x12: ("RPUSH", True, False, "any"),
    0x13: ("LPOP", True, False, None),
    0x14: ("RPOP", True, False, None),
    0x21: ("HGET", True, True, None),
    0x22: ("HSET", True, True, "any"),
    0x23: ("HDEL", True, True, None),
    0x31: ("SADD", True, True, None),
    0x32: ("SREM", True, True, None),
    0x33: ("SISMEMBER", True, True, None),
    0x34: ("SPOP", True, False, None),
    0x41: ("ZADD", True, True, 8),
    0x42: ("ZSCORE", True, True, None),
    0x43: ("ZREM", True, True, None),
    0x44: ("ZPOPMIN", True, False, None),
    0x45: ("ZRANGE", True, False, 8),
    0x70: ("STATS", False, False, None),
}
CODES = {op[0]: code for code, op in OPS.items()}


@dataclass(frozen=True)
class Request:
    """A datagram that deserves an answer; whether it is in order is `error`'s business."""

    op: int
    flags: int
    key: bytes
    subkey: bytes
    value: bytes
    id: int


def padded(length):
    """P(n) of the specification."""
    return (length + 7) // 8 * 8


def pad(part):
    return part + bytes(padded(len(part)) - len(part))


def request(op, key=b"", subkey=b"", value=b"", id=0, flags=0):
    """The bytes of a request; `op` is a name or a number. Nothing is checked: bad ones are wanted too."""
    code = CODES[op] if isinstance(op, str) else op
    head = struct.pack("<BBBBHH", code, VERSION << 4 | flags, len(key), len(subkey), len(value), id)
    return head + pad(key) + pad(subkey) + pad(value)


def parse(datagram):
    """A `Request`, or None for what is dropped without an answer."""
    if not 8 <= len(datagram) <= DATAGRAM_MAX or len(datagram) % 8:
        return None
    op, version, klen, slen, vlen, id = struct.unpack_from("<BBBBHH", datagram)
    if op & 0x80 or version >> 4 != VERSION:
        return None
    at_subkey = 8 + padded(klen)
    at_value = at_subkey + padded(slen)
    if len(datagram) != at_value + padded(vlen):
        return None
    return Request(
        op=op,
        flags=version & 15,
        key=datagram[8 : 8 + klen],
        subkey=datagram[at_subkey : at_subkey + slen],
        value=datagram[at_value : at_value + vlen],
        id=id,
    )


def error(req):
    """The lowest error of a request that needs no look at the data, or None."""
    if req.op not in OPS:
        return BAD_OP
    name, wants_key, wants_subkey, value = OPS[req.op]
    if req.flags or bool(req.key) != wants_key or bool(req.subkey) != wants_subkey:
        return BAD_FIELD
    if value is None and req.value:
        return BAD_FIELD
    if isinstance(value, int) and len(req.value) != value:
        return BAD_FIELD
    zset_member = req.op >> 4 == 4
    if len(req.key) > KEY_MAX or len(req.subkey) > (ZMEMBER_MAX if zset_member else SUBKEY_MAX):
        return TOO_LONG
    if padded(len(req.key)) + padded(len(req.subkey)) + padded(len(req.value)) > ITEM_MAX:
        return TOO_LONG
    if name == "ZADD" and not valid_score_key(struct.unpack("<Q", req.value)[0]):
        return BAD_VALUE
    return None


def answer(op, status, id, value=b""):
    return struct.pack("<BBBBHH", op | 0x80, status, 0, 0, len(value), id) + pad(value)


def score_key(score):
    """The ordered integer of a double."""
    if score != score:
        raise ValueError("not a number has no score key")
    bits = struct.unpack("<Q", struct.pack("<d", score + 0.0))[0]  # -0.0 + 0.0 is 0.0
    return bits ^ (1 << 63) if bits >> 63 == 0 else bits ^ (1 << 64) - 1


def valid_score_key(key):
    return 0x000FFFFFFFFFFFFF <= key <= 0xFFF0000000000000 and key != 0x7FFFFFFFFFFFFFFF


def record(key, member):
    """What ZRANGE and ZPOPMIN give: score key, length, member."""
    return struct.pack("<QQ", key, len(member)) + member.ljust(16, b"\0")
