"""All workloads by name, and how a failing run is told."""

import functools
import os

import invariants
from registers import SHAPES, registers

ISOLATIONS = ("fast", "small", "hybrid", "locking")

WORKLOADS = {shape: functools.partial(lambda server, seed, seconds, shape: registers(server, shape, seed, seconds), shape=shape) for shape in SHAPES}
WORKLOADS |= {
    "groups": invariants.groups,
    "transfers": invariants.transfers,
    "watched": invariants.watched,
    "moves": invariants.moves,
}


def fresh_seed():
    return int.from_bytes(os.urandom(4), "little")


def told(name, isolation, seed, operations, violations):
    """One line when all is well; otherwise the seed and the events."""
    head = f"{isolation:8} {name:12} seed {seed:<10} {operations:7} operations"
    if not violations:
        return head + "  ok"
    shown = "\n".join(f"  {violation.kind}: {violation.text}" for violation in violations[:8])
    return f"{head}  {len(violations)} VIOLATIONS\n{shown}"
