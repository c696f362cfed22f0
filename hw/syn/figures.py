#!/usr/bin/env python3
"""The hardware figures: cycles (C1), throughput (C3, C6, C7), area and clock (C4). CSV files and one page.

    figures.py --build DIR --out DIR [--quick] [--no-synth] [--reuse]

--reuse takes models and synthesis results that are already in the build directory. Every clock is counted in the RTL's simulation between the
first beat that the engine takes and a beat of the answer; the memory is a model (sim/dram.h), named with every figure.
"""
import argparse, csv, os, shutil, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tb", "core"))
import build as core_build  # noqa: E402

MHZ = 156.25
# the paper's table 1, table 10 and figure 11
PAPER_CYCLES = {("GET", "hit"): 78, ("SET", "hit"): 269, ("SET", "miss"): 269, ("LPOP", "of four"): 87, ("LPUSH", "third"): 272, ("LPUSH", "second"): 272,
                ("SPOP", "of three"): 87, ("SADD", "second member"): 477, ("SADD", "first member"): 477, ("HGET", "hit"): 78,
                ("HSET", "hit"): 269, ("HSET", "second field"): 269}
PAPER_MOPS = {("GET", "hit"): 1.42354, ("GET", "miss"): 3.02158, ("SET", "hit"): 2.20104, ("SET", "miss"): 0.71049}

PAPER_LUTS = 37440 * 4  # of the paper's part


def rows_of(text):
    return list(csv.DictReader(text.splitlines()))


def run(exe, *args):
    r = subprocess.run([exe, *map(str, args)], capture_output=True, text=True, timeout=1800)
    if r.returncode or "WRONG" in r.stdout:
        sys.exit(f"{' '.join(map(str, args))}: {r.stdout[-800:]}{r.stderr[-300:]}")
    return rows_of(r.stdout)


def save(out, name, rows):
    with open(os.path.join(out, name), "w", newline="") as f:
        w = csv.DictWriter(f, rows[0].keys(), lineterminator="\n")
        w.writeheader()
        w.writerows(rows)


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(map(str, r)) + " |" for r in rows]) + "\n"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--quick", action="store_true")
    p.add_argument("--no-synth", action="store_true")
    p.add_argument("--reuse", action="store_true")
    p.add_argument("--page-only", action="store_true", help="write the page again from the CSV files")
    a = p.parse_args()
    csvs = os.path.join(a.out, "hardware")
    os.makedirs(csvs, exist_ok=True)

    if a.page_only:
        def load(name):
            return list(csv.DictReader(open(os.path.join(csvs, name + ".csv"))))

        t = load("throughput")
        n = len(t) // 5  # as saved below: plain, line, long keys, DDR4, one key
        page(a.out, csvs, load("cycles"), *[t[i * n:(i + 1) * n] for i in range(5)], load("contexts"), load("value-length"))
        return

    def model(name, **params):
        exe = os.path.join(a.build, name, "core_tb")
        return exe if a.reuse and os.path.exists(exe) else core_build.build(a.build, name, params)

    n = 150 if a.quick else 500
    core = model("c8", CONTEXTS=8)

    latency = []
    for mem, ctrl in (("ddr3-1600", 30), ("ddr3-1600", 60), ("ddr4-2400", 30), ("onchip", 0)):
        for size in (8, 64):
            latency += run(core, "latency", "--mem", mem, "--ctrl", ctrl, "--key", size, "--value", size)
    save(csvs, "cycles.csv", latency)

    base = run(core, "rate", "--n", n)
    line = run(core, "rate", "--n", n, "--line")
    big = run(core, "rate", "--n", n, "--key", 64, "--value", 64)
    ddr4 = run(core, "rate", "--n", n, "--mem", "ddr4-2400")
    hot = run(core, "rate", "--n", n, "--hot")
    save(csvs, "throughput.csv", base + line + big + ddr4 + hot)
    contexts = []
    for c in (1, 2, 4, 8):
        contexts += run(model(f"c{c}", CONTEXTS=c, PORTS=min(c, 2)) if c != 8 else core, "rate", "--n", n)
    save(csvs, "contexts.csv", contexts)
    lengths = []
    for v in (8, 64, 256) if a.quick else (8, 16, 32, 64, 128, 256, 392):
        lengths += run(core, "rate", "--n", min(n, 250), "--key", 64, "--value", v)
    save(csvs, "value-length.csv", lengths)

    if not a.no_synth:
        for kind in ("area", "clock"):
            kept = os.path.join(a.build, f"{kind}.csv")
            if not (a.reuse and os.path.exists(kept)):
                tool = ["area.py", kept, "--build", a.build] if kind == "area" else ["clock.py", kept]
                subprocess.run([sys.executable, os.path.join(HERE, tool[0]), *tool[1:]], check=True)
            shutil.copy(kept, os.path.join(csvs, f"{kind}.csv"))
    page(a.out, csvs, latency, base, line, big, ddr4, hot, contexts, lengths)


def page(out, csvs, latency, base, line, big, ddr4, hot, contexts, lengths):
    t = ["# The engine in hardware\n",
         "`make -C hw figures` writes this page and the CSV files in [hardware](hardware). All clocks are counted in the simulation of the RTL (Verilator), from the first",
         "beat of a request that the engine takes to a beat of its answer; rates at 156.25 MHz. Requests, answers and memory are 256 bits wide. The engine has 8 contexts, 2 AXI ports, 4 order units, 4096 × 4 index entries. The",
         "network side is not in these figures. **The memory is a model** (`hw/sim/dram.h`: banks, activation windows, refresh, data bus, and a controller of 30 ns there and back unless it says 60): DDR3-1600,",
         "one 64-bit DIMM of x8 parts, where nothing else is said. No board was at hand: no power figure is given (the paper's C5).\n",
         "## Cycles per operation, one request at a time (C1; the paper's table 1)\n"]
    t.append("A third of the paper's clocks is the target. The paper's table says neither which sizes it has (its measurements have keys and values of 64 bytes) nor what it counts: \"the clocks a PE executes\". So both sizes are "
             "here, and two ways to count. *In to out*: from the request's first beat to the answer's last, both counted, so that the beats of request and answer are in it (32 bytes a beat: a GET of 64 bytes has three "
             "in and three out; the paper's crossbar has 16 bytes a beat). *Answer begins*: from the request's last beat to the answer's first. The verdict is on *in to out* of both sizes. No refresh of the DRAM falls into a "
             "measurement (it would add up to 41 clocks to 3 requests in 100).\n")
    idx = {(r["memory"], r["ctrl_ns"], r["key"], r["operation"], r["case"]): r for r in latency}
    body = []
    for r in latency:
        if r["memory"] != "ddr3-1600" or r["ctrl_ns"] != "30" or r["key"] != "8":
            continue
        k = (r["operation"], r["case"])
        paper = PAPER_CYCLES.get(k)
        long = idx["ddr3-1600", "30", "64", *k]
        worst = max(int(r["clocks_last_out"]), int(long["clocks_last_out"]))
        body.append([*k, r["clocks_last_out"], r["from_last_in_to_first_out"], long["clocks_last_out"], long["from_last_in_to_first_out"],
                     *[idx[m, c, "64", *k]["clocks_last_out"] for m, c in (("ddr3-1600", "60"), ("ddr4-2400", "30"), ("onchip", "0"))],
                     paper or "", f"{paper / 3:.1f}" if paper else "", ("met" if worst * 3 <= paper else "**missed**") if paper else ""])
    t.append(table(["operation", "case", "8 bytes: in to out", "answer begins", "64 bytes: in to out", "answer begins", "controller 60 ns", "DDR4-2400", "on-chip", "paper", "a third", ""], body))
    t.append("The columns behind the fourth figure are *in to out* with 64 bytes.\n")

    t.append("## Throughput at the line rate (C3, C6)\n")
    t.append("Clocks an operation, requests as fast as the engine takes them; 96 keys, keys, members and values of 8 bytes. *slot*: what the request's frame takes of a 10 Gbps line "
             "(10.5 clocks at the minimum). *at the line*: the same operations offered at the line rate, so the engine keeps up if it equals the slot. *one key*: all on one key.\n")
    lk = {(r["operation"], r["case"]): r for r in line}
    dk = {(r["operation"], r["case"]): r for r in ddr4}
    hk = {(r["operation"], r["case"]): r for r in hot}
    body = []
    for r in base:
        k = (r["operation"], r["case"])
        own, slot = float(r["clocks_per_op"]), float(r["clocks_per_op_at_line"])
        body.append([*k, r["clocks_per_op"], r["mops_at_156.25"], r["clocks_per_op_at_line"], lk[k]["clocks_per_op"], "yes" if own <= slot else "**no**", dk[k]["clocks_per_op"],
                     hk[k]["clocks_per_op"], PAPER_MOPS.get(k, "")])
    t.append(table(["operation", "case", "clocks", "Mops", "slot", "at the line", "line rate", "DDR4-2400", "one key", "paper, one PE, Mops"], body))
    t.append("Measured over few operations, so the line columns hold the last answers' latency too (up to 0.1 clock at the default length of a run). ZRANGE of fourteen answers 456 bytes: its answer alone takes 65 clocks of the line. "
             "*One key* is what a single context does: strings, and hits of hashes and sets, come from its buffer; what needs a second cell waits for memory, and sets that grow from one key miss the line rate. (SET miss there has a new key each time; on DDR3 each push to one list waits for the bank that holds the list's tail, whose links it writes.)\n")
    t.append("Bound by the input (a beat a clock and two between requests) at three clocks for a GET. `ki_strings`, the same index pipeline with cells on chip, takes one GET or SET that hits in every clock (tb/core/strings_tb.cpp "
             "fails if one waits).\n")

    t.append("## Keys and values of 64 bytes (C6: the paper needs 7 PEs for GET and 9 for SET)\n")
    body = [[r["operation"], r["case"], r["clocks_per_op"], r["mops_at_156.25"], r["clocks_per_op_at_line"], "yes" if float(r["clocks_per_op"]) <= float(r["clocks_per_op_at_line"]) else "**no**"] for r in big]
    t.append(table(["operation", "case", "clocks", "Mops", "slot", "line rate"], body))

    t.append("## By number of contexts (C6)\n")
    ops = [("GET", "hit"), ("GET", "miss"), ("SET", "hit"), ("SET", "miss"), ("LPUSH", "push"), ("LPOP", "pop"), ("HGET", "hit"), ("HSET", "new field"), ("SADD", "new member"), ("SPOP", "pop"), ("ZADD", "new member"), ("ZPOPMIN", "pop")]
    ck = {(r["contexts"], r["operation"], r["case"]): r["mops_at_156.25"] for r in contexts}
    t.append("Mops, keys and values of 8 bytes.\n\n" + table(["operation", "case", "1", "2", "4", "8"], [[*k, *[ck[str(c), *k] for c in (1, 2, 4, 8)]] for k in ops]))

    t.append("## By length of the value (C7; keys of 64 bytes)\n")
    vl = sorted({int(r["value"]) for r in lengths})
    vk = {(int(r["value"]), r["operation"], r["case"]): r["mops_at_156.25"] for r in lengths}
    t.append("Mops.\n\n" + table(["operation", "case", *map(str, vl)], [[*k, *[vk[v, *k] for v in vl]] for k in (("GET", "hit"), ("SET", "hit"), ("LPOP", "pop"), ("LPUSH", "push"), ("HGET", "hit"), ("HSET", "hit"), ("SPOP", "pop"), ("SADD", "new member"))]))

    path = os.path.join(csvs, "area.csv")
    if os.path.exists(path):
        rows = list(csv.reader(open(path)))
        t.append("## Area (C4)\n\nyosys for Xilinx 7-series, each module by itself and summed (hw/syn/area.py); LUTs used as memory apart. An estimate by an open tool: nothing is placed. "
                 f"The last column is all LUTs as a share of the {PAPER_LUTS:,} six-input LUTs of the paper's Virtex-5 XC5VTX240T, were they all packed four to a slice, which they never are.\n\n"
                 + table([*rows[0], "of the paper's part"], [[*r, f"{(int(r[2]) + int(r[3])) / PAPER_LUTS:.1%}"] for r in rows[1:]])
                 + "\nThe paper's figures, in slices: a string PE about 3 %, its reference NIC 48 %, so 11 PEs at the most (figure 8), of which 7 to 9 carry the line; the crossbar alone less than 8 % and "
                 "above 160 MHz up to 30 PEs (figure 4). Its PE holds no network side and one type each.\n")
    path = os.path.join(csvs, "clock.csv")
    if os.path.exists(path):
        rows = list(csv.reader(open(path)))
        t.append("## Clock (C4)\n\nyosys and nextpnr-ecp5, LFE5U-85F, speed 8, after routing, one seed: an open stand-in for the parts such a line would use. Target: the index pipeline at 150 MHz. "
                 "Each module stands alone between registers: a path that goes on through a second module is in neither's figure.\n\n" + table(rows[0], rows[1:]))
        if not any(r[0] == "ki_order" for r in rows):
            t.append("ki_order, by far the largest module, is not placed and routed within the 40 minutes that each is given; it has no clock here.\n")
    t.append("## The waiting line (C2)\n\nA page of its own, with Redis and memcached measured on the same machine: [waiting-line.md](waiting-line.md).\n")
    # what misses is found in the figures, not remembered
    t.append("## What misses\n")
    miss = []
    for r in latency:
        paper = PAPER_CYCLES.get((r["operation"], r["case"]))
        if paper and int(r["clocks_last_out"]) * 3 > paper:
            miss.append(f"- {r['operation']} {r['case']}, {r['memory']} with {r['ctrl_ns']} ns, key and value of {r['key']}: {r['clocks_last_out']} clocks in to out ({r['from_last_in_to_first_out']} until the answer begins), a third of the paper's is {paper / 3:.1f}.")
    for r in base + big + hot:
        if float(r["clocks_per_op"]) > float(r["clocks_per_op_at_line"]) and r["case"] != "fourteen":
            miss.append(f"- {r['operation']} {r['case']}, {'one key' if r['keys'] == 'one' else r['keys'] + ' keys'}, key and value of {r['key']}: {r['clocks_per_op']} clocks, the line brings one in {r['clocks_per_op_at_line']}.")
    t.append("\n".join(miss) + "\n")
    path = os.path.join(csvs, "clock.csv")
    slow = [f"{r['module']} {float(r['mhz']):.0f} MHz" for r in csv.DictReader(open(path)) if float(r["mhz"]) < 150] if os.path.exists(path) else []
    if slow:
        t.append(f"Below 150 MHz on the stand-in: {', '.join(slow)}. So 156.25 MHz for the whole is the simulation's clock, not a result of place and route.\n")
    path = os.path.join(csvs, "area.csv")
    if os.path.exists(path):
        sizes = {r["what"].split()[0] for r in csv.DictReader(open(path)) if r["module"] == "kintsugi_top"}
        if missing := [n for n in "1248" if n not in sizes]:
            t.append(f"The area of the whole with {', '.join(missing)} contexts is missing: its synthesis was not run to its end.\n")
        orders = [int(r["lut_logic"]) for r in csv.DictReader(open(path)) if r["module"] == "ki_order"]
        if orders and orders[0] * 4 > PAPER_LUTS // 2:
            t.append(f"An order unit takes {orders[0]:,} LUTs, so four of them {4 * orders[0] / PAPER_LUTS:.0%} of the paper's part: rows of 16 members are compared, shifted and merged whole.\n")
    open(os.path.join(out, "hardware.md"), "w").write("\n".join(t))


main()
