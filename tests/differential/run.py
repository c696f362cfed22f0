#!/usr/bin/env python3
"""Look for differences between redis-server and Kintsugi for a while, and print each once.

    tests/differential/run.py --seconds 60 --seed 7
    tests/differential/run.py --seed 7/123 --rounds 1      that one round again (as printed)
"""

import argparse
import pathlib
import re
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
from differential import Pair, a_round, hunt, line
from grammar import COMMANDS  # noqa: E402
from server import Server  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seed", default=str(time.time_ns() % 10**9))
    parser.add_argument("--most", type=int, default=20, help="stop after so many differences")
    parser.add_argument("--server", choices=["kintsugi", "redis"], default="kintsugi")
    parser.add_argument("--known", action="store_true", help="leave out commands that the server does not know")
    parser.add_argument("--only", help="only commands whose names match this expression")
    parser.add_argument("--print", action="store_true", dest="show", help="print the round of this seed, run nothing")
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if options.show:
        print("\n".join(line(command) for command in a_round(options.seed)[0]))
        return
    with Server(options.server, shards=options.shards, threads=options.threads) as ours, Server("redis") as theirs:
        names = sorted({one.split()[0] for one in COMMANDS} | {"HGETALL", "SMEMBERS", "ZRANGE"})
        without = {name for name in names if options.only and not re.fullmatch(options.only, name)}
        if options.known:
            with ours.connect() as connection:
                unknown = {name for name in names if str(connection(name)).startswith("ERR unknown command")}
            print("not known:", *sorted(unknown - without) or ["none"])
            without |= unknown
        rounds, found = hunt(Pair(ours.connect, theirs.connect, without), options.seed, options.rounds, options.seconds,
                             options.most, log=lambda text: print(text + "\n", flush=True), without=without)
        alive = ours.alive()
    print(f"differential: {rounds} rounds, {len(found)} differences, seed {options.seed}")
    raise SystemExit(1 if found or not alive else 0)


if __name__ == "__main__":
    main()
