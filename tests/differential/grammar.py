"""Random commands, from one line of grammar for each.

    word        itself
    a|b         one of the two
    ?x          x, one time in three
    x+          x, one to four times
    x*          x, zero to three times, as often as the word before it says (see NUMKEYS)
    a,b         a and then b: a group without spaces
    lower case  a class: `string`, `list`, `hash`, `set`, `zset` are keys that mostly hold that type,
                `key` is any key; the rest is in `Words`

Few keys and few members, so that commands meet; wrong types, bad numbers and odd argument counts
come now and then, because error texts are part of what clients rely on.
"""

import random

COMMANDS = """
SET string value ?NX|XX ?GET ?EX,seconds|PX,millis|EXAT,later|PXAT,laterms|KEEPTTL
SETNX string value
SETEX string seconds value
PSETEX string millis value
GET string
GETDEL string
GETEX string ?EX,seconds|PX,millis|EXAT,when|PXAT,whenms|PERSIST
GETSET string value
MGET string+
MSET pair+
MSETNX pair+
APPEND string value
STRLEN string
GETRANGE string index index
SUBSTR string index index
SETRANGE string offset value
INCR string
DECR string
INCRBY string delta
DECRBY string delta
INCRBYFLOAT string float
LCS string string ?LEN ?IDX ?MINMATCHLEN,index ?WITHMATCHLEN
LPUSH list member+
RPUSH list member+
LPUSHX list member+
RPUSHX list member+
LPOP list ?count
RPOP list ?count
LLEN list
LINDEX list index
LRANGE list index index
LSET list index member
LREM list index member
LTRIM list index index
LINSERT list BEFORE|AFTER member member
LPOS list member ?RANK,rank ?COUNT,count ?MAXLEN,count
LMOVE list list LEFT|RIGHT LEFT|RIGHT
RPOPLPUSH list list
LMPOP @list LEFT|RIGHT ?COUNT,count
HSET hash fieldvalue+
HMSET hash fieldvalue+
HSETNX hash field value
HGET hash field
HMGET hash field+
HGETALL hash
HKEYS hash
HVALS hash
HLEN hash
HEXISTS hash field
HSTRLEN hash field
HDEL hash field+
HINCRBY hash field delta
HINCRBYFLOAT hash field float
HRANDFIELD hash 1000 ?WITHVALUES
HSCAN hash 0 COUNT 10000 ?MATCH,pattern
SADD set member+
SREM set member+
SCARD set
SISMEMBER set member
SMISMEMBER set member+
SMEMBERS set
SMOVE set set member
SPOP set 1000
SRANDMEMBER set 1000
SSCAN set 0 COUNT 10000 ?MATCH,pattern
SINTER set+
SUNION set+
SDIFF set+
SINTERSTORE set set+
SUNIONSTORE set set+
SDIFFSTORE set set+
SINTERCARD @set ?LIMIT,count
ZADD zset ?NX|XX ?GT|LT ?CH scoremember+
ZADD zset ?NX|XX ?GT|LT INCR scoremember
ZINCRBY zset score member
ZREM zset member+
ZCARD zset
ZSCORE zset member
ZMSCORE zset member+
ZRANK zset member
ZREVRANK zset member
ZCOUNT zset bound bound
ZLEXCOUNT lexset lex lex
ZRANGE zset index index ?REV ?WITHSCORES
ZRANGE zset bound bound BYSCORE ?REV ?LIMIT,index,index ?WITHSCORES
ZRANGE lexset lex lex BYLEX ?REV ?LIMIT,index,index
ZRANGESTORE zset zset index index ?REV
ZRANGESTORE zset zset bound bound BYSCORE ?REV ?LIMIT,index,index
ZRANGESTORE zset lexset lex lex BYLEX ?LIMIT,index,index
ZREVRANGE zset index index ?WITHSCORES
ZRANGEBYSCORE zset bound bound ?WITHSCORES ?LIMIT,index,index
ZREVRANGEBYSCORE zset bound bound ?WITHSCORES ?LIMIT,index,index
ZRANGEBYLEX lexset lex lex ?LIMIT,index,index
ZREVRANGEBYLEX lexset lex lex ?LIMIT,index,index
ZREMRANGEBYRANK zset index index
ZREMRANGEBYSCORE zset bound bound
ZREMRANGEBYLEX lexset lex lex
ZADD lexset zeromember+
ZPOPMIN zset ?count
ZPOPMAX zset ?count
ZMPOP @zset MIN|MAX ?COUNT,count
ZRANDMEMBER zset 1000 ?WITHSCORES
ZSCAN zset 0 COUNT 10000 ?MATCH,pattern
ZUNION @zsetorset ?WEIGHTS,%weight ?AGGREGATE,SUM|MIN|MAX ?WITHSCORES
ZINTER @zsetorset ?WEIGHTS,%weight ?AGGREGATE,SUM|MIN|MAX ?WITHSCORES
ZDIFF @zsetorset ?WITHSCORES
ZUNIONSTORE zset @zsetorset ?WEIGHTS,%weight ?AGGREGATE,SUM|MIN|MAX
ZINTERSTORE zset @zsetorset ?WEIGHTS,%weight ?AGGREGATE,SUM|MIN|MAX
ZDIFFSTORE zset @zsetorset
ZINTERCARD @zsetorset ?LIMIT,count
DEL key+
UNLINK key+
EXISTS key+
TOUCH key+
TYPE key
RENAME key key
RENAMENX key key
COPY key key ?REPLACE
EXPIRE key seconds ?NX|XX
PEXPIRE key millis ?NX|XX
EXPIREAT key when ?NX|XX|GT|LT ?GT|XX
PEXPIREAT key whenms ?NX|XX|GT|LT
TTL key
PTTL key
EXPIRETIME key
PEXPIRETIME key
PERSIST key
KEYS pattern
DBSIZE
PING ?value
ECHO value
""".strip().splitlines()

TYPES = ("string", "list", "hash", "set", "zset")
NOW_S = 4_000_000_000  # absolute times far in the future: the same on both servers, never reached


class Words:
    """The classes of the grammar."""

    def __init__(self, rng, large):
        self.rng = rng
        self.members = 400 if large else 7

    def key(self):
        return self.of(self.rng.choice(TYPES))

    def of(self, kind):
        if self.rng.random() < 0.04:
            kind = self.rng.choice(TYPES)
        return f"{kind}:{self.rng.randrange(4)}"

    def zsetorset(self):
        return self.of("set" if self.rng.random() < 0.25 else "zset")

    def lexset(self):
        """A sorted set whose scores are all 0: with others the order of a range by member is left open."""
        return f"lexset:{self.rng.randrange(2)}" if self.rng.random() < 0.97 else "string:0"

    def zeromember(self):
        return ["0", self.member()]

    def member(self):
        rng = self.rng
        if rng.random() < 0.03:
            return rng.choice([b"", b"\x00\xff\r\n", b"x" * 100, b"12345678901234567890", b"-0", b"01"])
        return rng.choice([f"m{rng.randrange(self.members)}", str(rng.randrange(-3, self.members))]).encode()

    field = member

    def value(self):
        rng = self.rng
        kind = rng.random()
        if kind < 0.3:
            return str(rng.randrange(-20, 20)).encode()
        if kind < 0.4:
            return rng.choice([b"3.0e3", b"1.5", b"0.1", b"-7.25", b"9223372036854775807", b"-9223372036854775808",
                               b"1e400", b" 1", b"+1", b"nan", b"inf", b"0x10", b"1.0", b"00"])
        if kind < 0.46:
            return bytes(rng.randrange(256) for _ in range(rng.choice([1, 63, 64, 65, 300, 5000])))
        return rng.choice([b"", b"a", b"abc", b"hello world", b"foobar", b"ohmytext", b"mynewtext"])

    def delta(self):
        return self.rng.choice(["0", "1", "-1", "5", "17", "9223372036854775807", "-9223372036854775808", "1.5", "x",
                                "9223372036854775808", " 1", "01", ""])

    def float(self):
        return self.rng.choice(["0", "1", "-1", "1.5", "0.1", "3e5", "-2.25", "1e17", "1e-7", "inf", "nan", "x", "1e308",
                                "0.3333333333333333", "5.0", " 1", "1e5000", ""])

    def score(self):
        # Not -0: whether Redis keeps the sign depends on the encoding of the sorted set.
        return self.rng.choice(["0", "1", "2", "3", "-1", "1.5", "0.1", "1e20", "1e-5", "inf", "-inf", "1e15", "3.0",
                                "123456789.123"] * 3 + ["nan", "x", ""])

    def weight(self):
        return self.rng.choice(["0", "1", "2", "-1", "0.5", "inf", "-inf", "x"] if self.rng.random() < 0.3 else ["1", "2", "3"])

    def index(self):
        return self.rng.choice(["0", "1", "2", "3", "5", "-1", "-2", "-3", "100", "-100"] * 3
                               + ["x", "9223372036854775807", "-9223372036854775808"])

    def offset(self):
        return self.rng.choice(["0", "1", "2", "5", "70", "300"] * 3 + ["-1", "x", "536870912", "9223372036854775807"])

    def count(self):
        return self.rng.choice(["0", "1", "2", "3", "10"] * 4 + ["-1", "x", "-5"])

    def bound(self):
        return self.rng.choice(["-inf", "+inf", "0", "1", "2", "3", "(1", "(0", "(2", "1.5", "inf", "-1"] * 3
                               + ["x", "(x", "nan", "", "("])

    def lex(self):
        return self.rng.choice(["-", "+", "[m1", "(m1", "[m3", "(m3", "[m5", "[", "(", "[a", "[z"] * 3 + ["m1", "", "x"])

    def pattern(self):
        return self.rng.choice(["*", "m*", "*1", "?1", "[a-z]?", "*:0", "s*", "h?sh:*", "[^m]*", "m[1-3]", "\\m1", "", "zset:[02]"])

    def seconds(self):
        return self.rng.choice(["1000", "5000", "100000"] * 4 + ["0", "-1", "x", "9223372036854775807", "9223372036854776"])

    def millis(self):
        return self.rng.choice(["1000000", "5000000"] * 4 + ["0", "-1", "x", "9223372036854775807"])

    def when(self):
        return self.rng.choice([str(NOW_S), str(NOW_S + 1000)] * 4 + ["1", "-1", "0", "x", "9223372036854775807"])

    def later(self):
        """Not in the past: when a key that is gone but not yet taken away stops to count is left open."""
        return self.rng.choice([str(NOW_S), str(NOW_S + 1000), "-1", "0", "x"])

    def laterms(self):
        return self.rng.choice([str(NOW_S * 1000), str(NOW_S * 1000 + 77), "-1", "0", "x"])

    def rank(self):
        return self.rng.choice(["0", "1", "2", "-1", "-2", "100", "x", "9223372036854775807"])

    def whenms(self):
        return self.rng.choice([str(NOW_S * 1000), str(NOW_S * 1000 + 77)] * 4 + ["1", "-1", "x"])

    def pair(self):
        return [self.of("string"), self.value()]

    def fieldvalue(self):
        return [self.field(), self.value()]

    def scoremember(self):
        return [self.score(), self.member()]


class Grammar:
    def __init__(self, rng, large=False, without=()):
        self.rng = rng
        self.commands = [one for one in COMMANDS if one.split()[0] not in without]
        self.words = Words(rng, large)
        self.large = large
        self.numkeys = 1

    def command(self):
        """The next random command, a list of bytes."""
        rng = self.rng
        out = []
        for part in rng.choice(self.commands).split():
            if part.startswith("?"):
                if rng.random() < 0.34:
                    out += self._alternative(part[1:])
            else:
                out += self._alternative(part)
        if "1000" in out or "10000" in out:  # whole picks and scans: cut short they would be random
            pass
        elif rng.random() < 0.01:
            out = out[: rng.randrange(1, len(out) + 1)]
        elif rng.random() < 0.005:
            out.append("extra")
        if rng.random() < 0.1:
            out[0] = out[0].lower()
        return [word if isinstance(word, bytes) else word.encode() for word in out]

    def _alternative(self, part):
        return [word for piece in self.rng.choice(part.split("|")).split(",") for word in self._piece(piece)]

    def _piece(self, piece):
        rng = self.rng
        if piece.startswith("@"):
            self.numkeys = rng.randrange(1, 4)
            said = self.numkeys if rng.random() < 0.97 else rng.choice([0, -1, 9, "x"])
            return [str(said)] + [self._key(piece[1:]) for _ in range(self.numkeys)]
        if piece.startswith("%"):
            return [getattr(self.words, piece[1:])() for _ in range(self.numkeys)]
        if piece.endswith("+"):
            most = 60 if self.large and piece in ("member+", "fieldvalue+", "scoremember+", "zeromember+") else 4
            return [word for _ in range(rng.randint(1, most)) for word in self._piece(piece[:-1])]
        if piece.islower():
            if piece in TYPES:
                return [self._key(piece)]
            word = getattr(self.words, piece)()
            return word if isinstance(word, list) else [word]
        return [piece]

    def _key(self, kind):
        return self.words.of(kind) if kind in TYPES else getattr(self.words, kind)()


if __name__ == "__main__":
    grammar = Grammar(random.Random(1))
    for _ in range(60):
        print(b" ".join(grammar.command()))
