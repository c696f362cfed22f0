"""The native client of Kintsugi: one-sided reads from shared memory, transactions over shards.

>>> client = Client("shm:/run/kintsugi.sock")          # doctest: +SKIP
>>> with client.transaction() as both:                 # doctest: +SKIP
...     both.set("user:7", "Ada")
...     both.sadd("city:London", "user:7")
"""

from ._native import Client as _Client
from ._native import Error, ServerError

__all__ = ["Client", "Error", "ServerError", "Transaction", "WatchError"]


class WatchError(Error):
    """A watched key had changed; nothing was done."""


class _Commands:
    """The everyday commands, for clients and for transactions: each calls `command` with its words."""

    def set(self, key, value):
        return self.command("SET", key, value)

    def mset(self, pairs):
        return self.command("MSET", *[word for pair in dict(pairs).items() for word in pair])

    def delete(self, *keys):
        return self.command("DEL", *keys)

    def exists(self, *keys):
        return self.command("EXISTS", *keys)

    def incr_by(self, key, by=1):
        return self.command("INCRBY", key, by)

    def expire(self, key, seconds):
        return self.command("EXPIRE", key, seconds)

    def ttl(self, key):
        return self.command("TTL", key)

    def hget(self, key, field):
        return self.command("HGET", key, field)

    def hset(self, key, mapping):
        return self.command("HSET", key, *[word for pair in dict(mapping).items() for word in pair])

    def hmget(self, key, *fields):
        return self.command("HMGET", key, *fields)

    def hdel(self, key, *fields):
        return self.command("HDEL", key, *fields)

    def sadd(self, key, *members):
        return self.command("SADD", key, *members)

    def srem(self, key, *members):
        return self.command("SREM", key, *members)

    def sismember(self, key, member):
        return self.command("SISMEMBER", key, member)

    def smembers(self, key):
        return self.command("SMEMBERS", key)

    def zadd(self, key, scores):
        return self.command("ZADD", key, *[word for member, score in dict(scores).items() for word in (score, member)])

    def zscore(self, key, member):
        return self.command("ZSCORE", key, member)

    def zrange(self, key, first, last):
        return self.command("ZRANGE", key, first, last)

    def zrem(self, key, *members):
        return self.command("ZREM", key, *members)

    def lpush(self, key, *elements):
        return self.command("LPUSH", key, *elements)

    def rpush(self, key, *elements):
        return self.command("RPUSH", key, *elements)

    def lrange(self, key, first, last):
        return self.command("LRANGE", key, first, last)


class Client(_Commands, _Client):
    """A connection to one server. `Client(address, *, user, password, mode="one-sided", timeout=10.0)`."""

    def get(self, key):
        return _Client.get(self, key)

    def transaction(self):
        """Commands that become visible together; a context manager that runs them at its end."""
        return Transaction(self)


class Transaction(_Commands):
    """Collects commands. Reads come before writes, except of keys that the transaction has written itself."""

    def __init__(self, client):
        self._client = client
        self._commands = []
        self.replies = None

    def command(self, *args):
        self._commands.append(args)
        return self

    def get(self, key):
        return self.command("GET", key)

    def mget(self, *keys):
        return self.command("MGET", *keys)

    def execute(self):
        """Runs them: the replies in order; an error of one command is an object among them. WatchError: nothing was done."""
        commands, self._commands = self._commands, []
        self.replies = self._client.execute(commands)
        if self.replies is None:
            raise WatchError("a watched key has changed")
        return self.replies

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.execute()
