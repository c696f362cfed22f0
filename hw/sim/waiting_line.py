#!/usr/bin/env python3
"""The waiting line (C2; the appliance paper's section 5.3, table 7 and figure 6): service times measured, and the M/G/1 model over them.

    waiting_line.py CORE_TB CLIENT OUT [--rounds N]

Writes OUT/waiting-line.md, OUT/waiting-line.svg, OUT/hardware/waiting-line.csv (times in the system) and OUT/hardware/service-times.csv.

The engine's times come from its RTL (core_tb service), in clocks of 156.25 MHz: nothing of them is wall time. Redis and memcached are
started here, on Unix sockets in a directory of their own, with one connection, and stopped. Whichever is not installed is left out, and named.
"""

import argparse
import contextlib
import csv
import io
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import time

CLOCK_NS = 6.4
KEY, VALUE = b"k" * 64, b"v" * 64  # the paper's lengths
LOADS = (50, 100, 200, 400, 450, 800, 1300, 1340, 1600, 2400, 3200, 4000, 5000, 6000, 8000)  # thousands a second
PAPER = {  # table 7: read, write, mean, variance; nanoseconds
    "LIST PE (paper)": (832.0, 650.0, 741.0, 8281.0),
    "memcached (paper)": (1647.5, 2416.6, 2023.0, 147861.7),
    "Redis (paper)": (5487.9, 5690.9, 5587.6, 10305.6),
}


def resp(*parts):
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


# (write, its answer), (read, its answer): one element stays in the list, so that neither makes nor deletes it
REDIS = [("LPUSH", resp(b"LPUSH", KEY, VALUE), b":2\r\n"), ("LPOP", resp(b"LPOP", KEY), b"$64\r\n" + VALUE + b"\r\n")]
MEMCACHED = [
    ("SET", b"set " + KEY + b" 0 0 64\r\n" + VALUE + b"\r\n", b"STORED\r\n"),
    ("GET", b"get " + KEY + b"\r\n", b"VALUE " + KEY + b" 0 64\r\n" + VALUE + b"\r\nEND\r\n"),
]


class Service:
    """Service times of one system: `read`, `write` and both together (means, variance, ns), and how long a request alone is in it."""

    def __init__(self, read, write, mean=None, variance=None, alone=None):
        both = [*read, *write]
        self.read, self.write = statistics.fmean(read), statistics.fmean(write)
        self.mean = statistics.fmean(both) if mean is None else mean
        self.variance = statistics.pvariance(both) if variance is None else variance
        self.alone = self.mean if alone is None else alone

    def time_in_system(self, kops):
        """Pollaczek and Khinchine: mean time in queue, and then that of a request alone. Nanoseconds; None if the queue grows for ever."""
        rate = kops * 1e-6  # a nanosecond
        load = rate * self.mean
        if load >= 1:
            return None
        return rate * (self.variance + self.mean**2) / (2 * (1 - load)) + self.alone


def samples(text):
    """column -> times, from CSV whose last column is the time."""
    times = {}
    for row in csv.reader(io.StringIO(text)):
        if row[-1].isdigit():
            times.setdefault(tuple(row[:-1]), []).append(int(row[-1]))
    return times


def engine(core_tb, rounds):
    run = subprocess.run([core_tb, "service", "--n", str(rounds)], capture_output=True, text=True, check=True, timeout=600)
    t = {k: [n * CLOCK_NS for n in v] for k, v in samples(run.stdout).items()}
    alone = statistics.fmean([*t["alone", "LPOP"], *t["alone", "LPUSH"]])
    return {
        "this engine, one list": Service(t["backlogged", "LPOP"], t["backlogged", "LPUSH"], alone=alone),
        "this engine, one at a time": Service(t["alone", "LPOP"], t["alone", "LPUSH"]),
    }


@contextlib.contextmanager
def started(command, socket):
    p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 20
        while not os.path.exists(socket):
            if p.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{command[0]} does not serve")
            time.sleep(0.05)
        yield p.pid
    finally:
        p.terminate()
        p.wait(timeout=20)


def cpu_ns(pid):
    """CPU time of all threads of a process so far."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total


def software(client, rounds, command, socket, exchanges, prepare=None):
    """(as one connection sees it, by the server's CPU time alone)"""
    with started(command, socket) as pid:
        if prepare:
            subprocess.run([client, socket, "1", "prepare", *prepare], check=True, capture_output=True, timeout=60)
        arguments = [a if isinstance(a, str) else a.hex() for e in exchanges for a in e]
        before = cpu_ns(pid)
        run = subprocess.run([client, socket, str(rounds), *arguments], capture_output=True, text=True, check=True, timeout=300)
        used = (cpu_ns(pid) - before) / (len(exchanges) * (rounds + rounds // 10))
    t = samples(run.stdout)
    write, read = (t[name,] for name, *_ in exchanges)
    seen = Service(read, write)
    return seen, Service([used], [used], variance=0.0)


def baselines(client, rounds, said):
    """Those that are installed; `said` gets versions, and what is missing."""
    found = {}
    with tempfile.TemporaryDirectory() as d:
        if program := shutil.which("redis-server"):
            said.append(subprocess.run([program, "--version"], capture_output=True, text=True).stdout.split(" sha")[0].strip())
            s = f"{d}/redis"
            seen, cpu = software(
                client, rounds, [program, "--port", "0", "--unixsocket", s, "--save", "", "--appendonly", "no", "--dir", d], s, REDIS,
                prepare=[resp(b"LPUSH", KEY, VALUE).hex(), b":1\r\n".hex()],
            )  # fmt: skip
            found["Redis, round trip"], found["Redis, CPU time"] = seen, cpu
        else:
            said.append("redis-server is not installed: left out")
        if program := shutil.which("memcached"):
            said.append(subprocess.run([program, "--version"], capture_output=True, text=True).stdout.strip())
            s = f"{d}/memcached"
            user = ["-u", "root"] if os.geteuid() == 0 else []
            seen, cpu = software(client, rounds, [program, "-s", s, "-t", "1", *user], s, MEMCACHED)
            found["memcached, round trip"], found["memcached, CPU time"] = seen, cpu
        else:
            said.append("memcached is not installed: left out")
    return found


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", text)
    return (f"{model[1] if model else 'unknown'}, {os.cpu_count()} processors, Linux {'.'.join(os.uname().release.split('.')[:2])}, "
            f"load average {os.getloadavg()[0]:.1f} while this ran")  # fmt: skip


def us(ns):
    return "never" if ns is None else f"{ns / 1000:.2f}"


def svg(systems, path):
    """Figure 6: time in the system over the load, both logarithmic."""
    import math

    left, top, width, height, low, high = 60, 20, 640, 360, 0.1, 100.0
    colours = ["#c1121f", "#e07a5f", "#1d3557", "#457b9d", "#2a9d8f", "#8ab17d", "#777", "#999", "#bbb"]

    def x(kops):
        return left + width * (math.log10(kops) - 1) / 3

    def y(time_us):
        return top + height * (1 - (math.log10(min(max(time_us, low), high)) - math.log10(low)) / 3)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 210}" height="{top + height + 50}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>']  # fmt: skip
    for k in (10, 100, 1000, 10000):
        out.append(f'<path d="M{x(k):.0f} {top}V{top + height}" stroke="#ddd"/><text x="{x(k):.0f}" y="{top + height + 16}" text-anchor="middle">{k}</text>')
    for t in (0.1, 1, 10, 100):
        out.append(f'<path d="M{left} {y(t):.0f}H{left + width}" stroke="#ddd"/><text x="{left - 6}" y="{y(t) + 4:.0f}" text-anchor="end">{t:g}</text>')
    for n, (name, service) in enumerate(systems.items()):
        points = [(k, service.time_in_system(k)) for k in (10 ** (1 + i / 200) for i in range(601))]
        line = " ".join(f"{x(k):.1f},{y(t / 1000):.1f}" for k, t in points if t is not None and t / 1000 <= high)
        dash = ' stroke-dasharray="5 4"' if "paper" in name else ""
        out.append(f'<polyline points="{line}" fill="none" stroke="{colours[n % 9]}" stroke-width="2"{dash}/>')
        out.append(f'<path d="M{left + width + 12} {top + 18 * n + 8}h20" stroke="{colours[n % 9]}" stroke-width="2"{dash}/>'
                   f'<text x="{left + width + 38}" y="{top + 18 * n + 12}">{name}</text>')  # fmt: skip
    out.append(f'<text x="{left + width / 2}" y="{top + height + 38}" text-anchor="middle">thousand requests a second</text>'
               f'<text x="14" y="{top + height / 2}" transform="rotate(-90 14 {top + height / 2})" text-anchor="middle">µs in the system</text></svg>')  # fmt: skip
    path.write_text("\n".join(out) + "\n")


def page(systems, said):
    rows = ["| system | read, ns | write, ns | mean, ns | deviation, ns | c | " + " | ".join(map(str, LOADS)) + " |",
            "| --- |" + " --: |" * (5 + len(LOADS))]  # fmt: skip
    for name, s in systems.items():
        deviation = s.variance**0.5
        figures = [f"{s.read:.0f}", f"{s.write:.0f}", f"{s.mean:.0f}", f"{deviation:.0f}", f"{deviation / s.mean:.2f}", *(us(s.time_in_system(k)) for k in LOADS)]
        rows.append(f"| {name} | " + " | ".join(figures) + " |")
    return f"""# The waiting line (C2)

`make -C hw waiting-line` writes this page, [its plot](waiting-line.svg), [the times](hardware/waiting-line.csv) and [what was measured](hardware/service-times.csv).

Machine: {machine()}. {'. '.join(said)}.

The paper's question (section 5.3, figure 6): people arrive in a waiting line at random, reads and writes in equal parts; how long does a request take,
as they come faster? Keys and values of 64 bytes; LPOP and LPUSH, for memcached GET and SET, in turn on one key. The model is M/G/1: arrivals at
rate λ by Poisson, one server, service times of mean x and variance σ² (c = σ/x). With load ρ = λx,

    time in the system = λ (σ² + x²) / (2 (1 − ρ)) + time of a request alone            (Pollaczek–Khinchine)

Columns from the seventh on: µs in the system at so many thousand requests a second; *never*: the queue grows for ever (ρ ≥ 1).

{chr(10).join(rows)}

![time in the system over the load](waiting-line.svg)

- **this engine, one list**: service time is the time between two answers while requests on the list wait in the engine (its updates after an
  answer are in it, and what of a request overlaps with the one before is not); a request alone takes what the next row says. DDR3-1600 model with refresh.
- **this engine, one at a time**: service time is the whole stay of a request that is alone, as the paper counts its PE. So nothing overlaps: the
  pessimistic row. Other keys go to other contexts at the same time in both rows' engine; the model has one server and gives no credit for it.
- **round trip**: from the client's `write` to the last byte of the answer, one connection over a Unix socket. Kernel, wake-ups and the client's part are in
  it; so is whatever else the machine does (the deviation), and the waking of a processor that sleeps, which a virtual machine
  with nothing else to do pays for each request.
- **CPU time**: what the server's process used for a request in the same run, as if always the same (c = 0): the most favourable reading.
  It holds the server's system calls, which a busy server with many connections shares among requests.
- **paper**: its table 7. Its software ran on another machine. What of the network its times hold it does not say; ours hold none.
"""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("core_tb")
    p.add_argument("client")
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("--rounds", type=int, default=20000, help="of a write and a read, at each software; a tenth as many in the RTL")
    a = p.parse_args()
    said = []
    systems = engine(a.core_tb, a.rounds // 10) | baselines(a.client, a.rounds, said)
    for name, (read, write, mean, variance) in PAPER.items():
        systems[name] = Service([read], [write], mean, variance)
    (a.out / "hardware").mkdir(parents=True, exist_ok=True)
    with open(a.out / "hardware" / "service-times.csv", "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(["system", "read_ns", "write_ns", "mean_ns", "variance_ns2", "alone_ns"])
        w.writerows([n, *(f"{v:.1f}" for v in (s.read, s.write, s.mean, s.variance, s.alone))] for n, s in systems.items())
    with open(a.out / "hardware" / "waiting-line.csv", "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(["system", "kops", "load", "time_in_system_us"])
        for n, s in systems.items():
            w.writerows([n, k, f"{k * s.mean * 1e-6:.3f}", us(s.time_in_system(k))] for k in LOADS)
    svg(systems, a.out / "waiting-line.svg")
    (a.out / "waiting-line.md").write_text(page(systems, said))
    print(f"hw: waiting line: {', '.join(f'{n} {s.mean:.0f} ns' for n, s in systems.items())}")


if __name__ == "__main__":
    main()
