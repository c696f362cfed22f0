"""Many clients at once that do everything a client may do, and some things that it may not.

Each client process sends pipelines of random commands over few keys on many shards, plain, in
MULTI and under WATCH, in both protocols; cuts a request in the middle and goes away; leaves without
reading its replies; flips bytes on the way. What is asked of the server is little and absolute: every whole
pipeline is answered with as many well-formed replies as it had commands, nobody waits for ever, the
process lives, says nothing of a panic, and holds no more memory afterwards than before.
"""

import random
import socket
import time

from clients import run
from differential import read
from grammar import Grammar
from resp import Closed, encode

CLIENTS = 8
PATIENCE_S = 20
WELL_FORMED = {"+", "-", ":", "$", "*", "_", "_*", ",", "~", "%", "=", "#"}


def storm(server, seed, seconds):
    """The faults seen, as lines; empty when all was well."""
    where = (server.host, server.port)
    results = run(_client, CLIENTS, where, seed, seconds)
    faults = [fault for result in results for fault in (result if isinstance(result, list) else [str(result)])]
    if not server.alive():
        faults.append(f"the server is gone:\n{server.log()}")
    elif "panicked" in server.log():
        faults.append(f"a thread panicked:\n{server.log()}")
    return faults


def _client(number, where, seed, seconds):
    rng = random.Random(f"{seed}/{number}")
    faults, until, link = [], time.monotonic() + seconds, None
    while time.monotonic() < until and len(faults) < 3:
        if link is None:
            link = _connect(where)
        manner = rng.random()
        commands = _pipeline(rng)
        data = b"".join(encode(*command) for command in commands)
        try:
            if manner < 0.9:
                link.sendall(data)
                stream = link.makefile("rb")
                for place, command in enumerate(commands):
                    reply = read(stream)
                    if reply.kind not in WELL_FORMED:
                        faults.append(f"seed {seed} client {number}: {reply.show()[:200]} is the reply {place} to {command}")
                        break
                continue
            if manner < 0.94:  # half a request
                link.sendall(data[: rng.randrange(len(data))])
            elif manner < 0.97:  # no interest in the replies
                link.sendall(data)
            else:  # other bytes than meant
                mangled = bytearray(data)
                for _ in range(rng.randint(1, 5)):
                    mangled[rng.randrange(len(mangled))] = rng.randrange(256)
                link.sendall(mangled)
                link.settimeout(0.02)
                link.recv(1 << 16)
        except TimeoutError:
            if manner < 0.9:
                faults.append(f"seed {seed} client {number}: no answer for {PATIENCE_S} s to {commands[:6]}")
        except (OSError, Closed, ValueError) as error:
            if manner < 0.9:
                faults.append(f"seed {seed} client {number}: {error!r}")
        if rng.random() < 0.5:  # go away with a reset instead of an end
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        link.close()
        link = None
    return faults


def _connect(where):
    link = socket.create_connection(where, PATIENCE_S)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def _pipeline(rng):
    grammar = Grammar(rng, large=rng.random() < 0.1)
    commands = []
    for _ in range(rng.choice([1, 2, 8, 40])):
        kind = rng.random()
        if kind < 0.15:
            if rng.random() < 0.4:
                commands.append((b"WATCH", *(grammar.words.key().encode() for _ in range(rng.randint(1, 3)))))
            commands += [(b"MULTI",), *(grammar.command() for _ in range(rng.randint(0, 5)))]
            commands.append(rng.choice([(b"EXEC",)] * 8 + [(b"DISCARD",), (b"RESET",)]))
        elif kind < 0.17:
            commands.append(rng.choice([(b"HELLO", b"3"), (b"HELLO", b"2"), (b"FLUSHALL",), (b"RANDOMKEY",),
                                        (b"SCAN", b"0"), (b"INFO",), (b"UNWATCH",), (b"CLIENT", b"LIST"),
                                        (b"SPOP", b"set:0", b"2"), (b"COMMAND",), (b"SELECT", b"0")]))
        else:
            commands.append(grammar.command())
    return commands
