#!/usr/bin/env python3
"""Build the Verilator model of the engine with core_tb.cpp.

    build.py OUT_DIR NAME [PARAMETER=VALUE ...] [--trace] [-DMACRO ...]      -> OUT_DIR/NAME/core_tb
"""
import glob, os, subprocess, sys

HW = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def build(out, name, params=None, defines=(), trace=False):
    params = {"CONTEXTS": 8, "PORTS": 2, "ADDR_BITS": 16, **(params or {})}
    d = os.path.join(os.path.abspath(out), name)
    os.makedirs(d, exist_ok=True)
    flags = " ".join(f"-DCORE_{k}={params[k]}" for k in ("CONTEXTS", "PORTS", "ADDR_BITS"))
    cmd = ["verilator", "--cc", "--exe", "--build", "-j", "2", "-O3", "--output-split", "20000", "-MAKEFLAGS", "OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O1", "--x-assign", "unique", "--x-initial", "unique", "--assert",
           "-Wall", "-Wno-fatal", "-I" + HW + "/rtl/core", "--top-module", "kintsugi_core", "--Mdir", d, "-o", "core_tb",
           "-CFLAGS", f"-std=c++17 {flags}", *[f"-G{k}={v}" for k, v in params.items()], *defines,
           HW + "/rtl/core/core.vlt", *sorted(glob.glob(HW + "/rtl/core/*.sv")), HW + "/tb/core/core_tb.cpp"]
    if trace:
        cmd.insert(1, "--trace")
    r = subprocess.run(cmd, capture_output=True, text=True)
    if r.returncode:
        sys.exit(r.stdout[-4000:] + r.stderr[-6000:])
    return os.path.join(d, "core_tb")


if __name__ == "__main__":
    args = sys.argv[3:]
    params = dict(a.split("=") for a in args if "=" in a and not a.startswith("-"))
    print(build(sys.argv[1], sys.argv[2], params, [a for a in args if a.startswith("-D")], "--trace" in args))
