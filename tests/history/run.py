#!/usr/bin/env python3
"""Record and check histories for as long as you like: `make soak`, or

    tests/history/run.py --seconds 60 --isolation fast --workload mixed --seed 7

A line for each run; a failing one shows its seed and the events, and the exit status is 1.
"""

import argparse
import pathlib
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "support")]

from server import Server  # noqa: E402
from workloads import ISOLATIONS, WORKLOADS, fresh_seed, told  # noqa: E402

ROUND_S = 6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="for each isolation and workload")
    parser.add_argument("--isolation", choices=[*ISOLATIONS, "none"], action="append")
    parser.add_argument("--workload", choices=list(WORKLOADS), action="append")
    parser.add_argument("--seed", type=int, help="one run of this seed each")
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--server", choices=["kintsugi", "redis"], default="kintsugi")
    parser.add_argument("--canary", action="store_true", help="also run without isolation, which must fail")
    chosen = parser.parse_args()

    failed = 0
    for isolation in chosen.isolation or ISOLATIONS:
        options = {"isolation": isolation, "shards": chosen.shards}
        if chosen.threads:
            options["threads"] = chosen.threads
        with Server(chosen.server, **options) as server:
            for name in chosen.workload or WORKLOADS:
                failed += soak(server, isolation, name, chosen)
    if chosen.canary:
        with Server(chosen.server, isolation="none", shards=chosen.shards) as server:
            _, violations = WORKLOADS["strings"](server, fresh_seed(), ROUND_S)
            blind = not any(violation.kind == "fracture" for violation in violations)
            print("none     strings      " + ("THE CHECKER IS BLIND" if blind else "fractures found, as must be"))
            failed += blind
    print("all histories hold" if not failed else f"{failed} failed")
    return 1 if failed else 0


def soak(server, isolation, name, chosen):
    """Rounds with fresh seeds until the time is over; the number of failing ones."""
    failed = 0
    end = time.monotonic() + chosen.seconds
    while True:
        seed = chosen.seed if chosen.seed is not None else fresh_seed()
        operations, violations = WORKLOADS[name](server, seed, min(ROUND_S, chosen.seconds))
        print(told(name, isolation, seed, operations, violations), flush=True)
        failed += bool(violations)
        if chosen.seed is not None or time.monotonic() >= end:
            return failed


if __name__ == "__main__":
    sys.exit(main())
