#!/usr/bin/env python3
"""Runs `appliance line` for several memories and values, and writes what it said: raw as CSV, and a page that says what it means.

    line.py APPLIANCE DIRECTORY      writes appliance-line.csv and appliance-line.md there
"""

import csv
import pathlib
import subprocess
import sys

# Table 1 of the appliance paper: clocks of its processing elements at 160 MHz.
PAPER = {
    ("string", "READ"): 78, ("string", "WRITE"): 269,
    ("list", "READ"): 87, ("list", "WRITE"): 272,
    ("set", "READ"): 87, ("set", "WRITE"): 477,
    ("hash", "READ"): 78, ("hash", "WRITE"): 269,
}
MHZ = 156.25

HEAD = """# The appliance at a 10 Gbit/s line

The whole in simulation (`hw/rtl/kintsugi_top.sv`, one pipeline, 8 contexts, 2 memory ports): frames in, frames out, with the DRAM model of
`hw/sim/dram.h` behind AXI4. `make -C hw line` writes this page; [appliance-line.csv](appliance-line.csv) is the raw output. Clocks of 6.4 ns are
counted in the model from the first beat of a request's frame to the last beat of its answer's, frame times and both stores of the network side included;
nothing comes from wall time. Keys have 8 bytes; each run asks for a thousand keys in turn (sorted sets: 30 keys, 16 members each), so no request
waits for another of its key.

*Line* is what 10 Gbit/s leaves for the longer of the two frames with its preamble, check sequence and gap; requests are offered at that pace. *Rate* is clocks per request that the appliance needed;
where it is not above the line, the line is kept. A rate that is {slack:.0%} above or more is marked: the line is not kept there.
The line's rate counts as kept with bounded latency: a queue that grew would show in the worst. The paper's column is its table 1: clocks inside one processing element, without network; it needs 7 to 9 of them for the line.

"""


def main(appliance, directory):
    rows = []
    for memory in ("ddr4-2400", "ddr3-1600", "onchip"):
        for value in (8, 64, 176):
            out = subprocess.run([appliance, "line", "--memory", memory, "--value", str(value)], stdout=subprocess.PIPE, text=True).stdout
            rows += csv.DictReader(out.splitlines())
    out = pathlib.Path(directory)
    with open(out / "appliance-line.csv", "w", newline="") as f:
        w = csv.DictWriter(f, rows[0].keys(), lineterminator="\n")
        w.writeheader()
        w.writerows(rows)
    slack = 0.02
    page = [HEAD.format(slack=slack)]
    missed = []
    for memory in dict.fromkeys(r["memory"] for r in rows):
        for value in dict.fromkeys(r["value bytes"] for r in rows):
            page.append(f"## {memory}, values of {value} bytes\n\n")
            page.append("| operation | frames | line, clocks | rate, clocks | M/s | lost | alone, clocks | loaded: mean, worst | paper |\n| --- | " + "--: | " * 8 + "\n")
            for r in rows:
                if (r["memory"], r["value bytes"]) != (memory, value):
                    continue
                line, rate = float(r["line clocks per request"]), float(r["clocks per request"])
                late = rate > line * (1 + slack) or int(r["lost"]) > 0
                if late:
                    missed.append(f"{r['operation']} ({memory}, {value} B): {rate:.2f} for {line:.2f}, {r['lost']} lost")
                page.append(
                    f"| {r['operation']} | {r['request frame']}, {r['answer frame']} | {line:.2f} | {'**' if late else ''}{rate:.2f}{'**' if late else ''} | {MHZ / rate:.2f} | {r['lost']} "
                    f"| {r['unloaded clocks']} | {r['loaded mean clocks']}, {r['loaded worst clocks']} | {PAPER.get((r['type'], r['kind']), '')} |\n"
                )
            page.append("\n")
    page.append("## What misses the line\n\n" + ("".join(f"- {m}\n" for m in missed) or "Nothing.\n"))
    (out / "appliance-line.md").write_text("".join(page))
    print(f"hw: line: {len(rows)} rows, {len(missed)} below the line")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
