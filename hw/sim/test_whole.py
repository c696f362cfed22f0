#!/usr/bin/env python3
"""The appliance in simulation, met by others' code: the kernel's, and the server's.

    test_whole.py APPLIANCE [--server KINTSUGI] [--operations N] [--seed N]

udp           golden vectors over a UDP socket
tap           in a network namespace made here, the kernel's own ARP, ping and UDP talk to it over a TAP device; the vectors again.
              Needs root; says that it is skipped where that is not permitted
differential  one random stream to the appliance, the software server and the reference: three equal answers, one by one
"""

import argparse
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "spec" / "reference"))
import play  # noqa: E402
import store  # noqa: E402
import traces  # noqa: E402
import wire  # noqa: E402

VECTORS = sorted((ROOT / "spec" / "vectors" / "v1").glob("*.json"))
STEPS = [v for v in VECTORS if not v.name.startswith("trace")]
TRACES = [v for v in VECTORS if v.name.startswith("trace")]


class Disagreement(Exception):
    """Two of the three answered differently."""


@contextlib.contextmanager
def running(command, ready):
    """A process that has said it is ready; yields what `ready` matched. It must end in order."""
    p = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        for line in p.stdout:
            if m := re.search(ready, line):
                break
        else:
            raise RuntimeError(f"{command[0]} ended before it was ready")
        yield m
        p.send_signal(signal.SIGTERM)
        if p.wait(timeout=60) != 0:
            raise RuntimeError(f"{command[0]} ended with status {p.returncode}")
    finally:
        if p.poll() is None:
            p.kill()
            p.wait()


def appliance_on_udp(program):
    return running([program, "udp", "127.0.0.1:0"], r"datagrams at ([\d.]+):(\d+)")


def udp(program):
    total = 0
    for files in [STEPS, *([t] for t in TRACES)]:
        with appliance_on_udp(program) as m:
            player = play.Player((m[1], int(m[2])))
            total += sum(sum(player.play(f)) for f in files)
    print(f"hw: udp: {total} datagrams as the reference says")


def sh(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=True, **options).stdout


def tap(program):
    name = f"kintsugi-{os.getpid()}"
    if os.geteuid() != 0 or not shutil.which("ip") or not os.path.exists("/dev/net/tun"):
        print("hw: tap: SKIPPED: needs root, ip and /dev/net/tun")
        return
    try:
        sh("ip", "netns", "add", name)
    except subprocess.CalledProcessError as e:
        print(f"hw: tap: SKIPPED: no network namespace: {e.stderr.strip()}")
        return
    inside = ["ip", "netns", "exec", name]
    try:
        with running([*inside, program, "tap", "kin0"], r"on tap device"):
            sh("ip", "-n", name, "addr", "add", "10.0.0.1/24", "dev", "kin0")
            sh("ip", "-n", name, "link", "set", "kin0", "up")
            # The kernel's side of the test runs inside, as this file with other arguments.
            print(sh(*inside, sys.executable, __file__, "--inside").strip())
            neighbour = sh("ip", "-n", name, "neigh", "show", "10.0.0.2")
            if "02:00:0a:00:00:02" not in neighbour:
                raise RuntimeError(f"the kernel did not learn our address by ARP: {neighbour}")
            print(f"hw: tap: ARP: {neighbour.strip()}")
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False)


def checksum(data):
    data += bytes(len(data) % 2)
    total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ping(size, seq):
    """An echo of `size` bytes there and back; every byte of the reply is compared."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as s:
        s.settimeout(30)
        s.connect(("10.0.0.2", 0))
        body = bytes([8, 0, 0, 0, 0, 7]) + seq.to_bytes(2, "big") + bytes(i % 251 for i in range(size))
        s.send(body[:2] + checksum(body).to_bytes(2, "big") + body[4:])
        while True:
            reply = s.recv(4096)[20:]
            if reply[0] == 0 and reply[4:8] == body[4:8]:
                if reply[8:] != body[8:] or checksum(reply):
                    raise RuntimeError(f"an echo of {size} bytes came back changed")
                return


def inside():
    program = shutil.which("ping")
    if program:
        out = sh(program, "-c", "5", "-i", "0.2", "-W", "20", "10.0.0.2")
        print("hw: tap: ping:", next(line for line in out.splitlines() if "packets" in line))
    for seq, size in enumerate((0, 1, 17, 18, 56, 511, 1000, 1471, 1472)):
        ping(size, seq)
    print("hw: tap: echoes of 0 to 1472 bytes came back")
    player = play.Player(("10.0.0.2", 6380))
    total = sum(sum(player.play(f)) for f in [*STEPS, TRACES[0]])
    print(f"hw: tap: {total} datagrams through the kernel's UDP as the reference says")



def differential(program, server, operations, seed, canary=False):
    if not server or not os.path.exists(server):
        print("hw: differential: SKIPPED: no server was built (cargo build --release)")
        return
    dice, model = traces.Dice(seed * 2 + 1), store.Store()
    kinds = {}
    with tempfile.TemporaryDirectory() as empty, appliance_on_udp(program) as a:
        command = ["env", "-C", empty, os.path.abspath(server), "serve", "--port", "0", "--udp", "127.0.0.1:0", "--threads", "2"]
        with running(command, r"datagrams at ([\d.]+):(\d+)") as s:
            hard, soft = (play.Player((m[1], int(m[2]))) for m in (a, s))
            if canary:
                soft.ask(wire.request("SET", b"s0", b"", b"only one of them knows"))
            for i in range(operations):
                op, *parts = traces.operation(dice, 6, 8, 120)
                request = wire.request(op, *parts, id=i & 0xFFFF)
                # Now and then on a key of another type, so that refusals are compared too.
                if dice(20) == 0 and parts:
                    request = wire.request(op, b"shlez"[dice(5) :][:1] + parts[0][1:], *parts[1:], id=i & 0xFFFF)
                (expected,) = model.handle(request)
                answers = hard.ask(request), soft.ask(request)
                if answers != (expected, expected):
                    raise Disagreement(
                        f"seed {seed}, operation {i}, {op}: request {request.hex()}\n"
                        f"reference {expected.hex()}\nappliance {answers[0].hex()}\nserver    {answers[1].hex()}"
                    )
                kinds[expected[1]] = kinds.get(expected[1], 0) + 1
    said = ", ".join(f"{n} of status {k:02x}h" for k, n in sorted(kinds.items()))
    print(f"hw: differential: {operations} operations, seed {seed}: appliance, server and reference agree ({said})")


def main():
    if sys.argv[1:] == ["--inside"]:
        return inside()
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("appliance")
    p.add_argument("--server")
    p.add_argument("--operations", type=int, default=2000)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    udp(a.appliance)
    tap(a.appliance)
    differential(a.appliance, a.server, a.operations, a.seed)
    if a.server and os.path.exists(a.server):
        try:
            differential(a.appliance, a.server, 500, a.seed, canary=True)
        except Disagreement:
            print("hw: differential canary: noticed")
        else:
            sys.exit("hw: differential canary: NOT NOTICED")


if __name__ == "__main__":
    main()
