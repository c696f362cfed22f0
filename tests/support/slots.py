"""Which shard a key lives on: as in Redis Cluster, then slot modulo shards."""

import binascii
import functools


def slot(key):
    key = key if isinstance(key, bytes) else key.encode()
    start = key.find(b"{")
    if start >= 0:
        end = key.find(b"}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return binascii.crc_hqx(key, 0) % 16384


def shard(key, shards=16):
    return slot(key) % shards


def spread(prefix, count, shards=16):
    """`count` keys that start with `prefix`, each on another shard while there are any left."""
    return list(_spread(prefix, count, shards))


@functools.lru_cache(maxsize=1024)
def _spread(prefix, count, shards):
    keys, used, number = [], set(), 0
    while len(keys) < count:
        key = f"{prefix}{number}"
        number += 1
        if shard(key, shards) in used:
            continue
        keys.append(key)
        used.add(shard(key, shards))
        if len(used) == shards:
            used.clear()
    return keys
