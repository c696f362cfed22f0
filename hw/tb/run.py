#!/usr/bin/env python3
"""Builds a top with Verilator (or Icarus) and runs a cocotb bench on it.

    run.py TOP MODULE [--sim verilator|icarus] [--sources GLOB …] [--parameter NAME=VALUE …] [--include DIR …] --build DIR
"""

import argparse
import pathlib
import sys

from cocotb_tools.runner import get_results, get_runner

HW = pathlib.Path(__file__).resolve().parent.parent


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("top")
    p.add_argument("module", help="path of the bench, from hw/")
    p.add_argument("--sim", default="verilator")
    p.add_argument("--sources", nargs="+", required=True, help="from hw/")
    p.add_argument("--parameter", nargs="*", default=[])
    p.add_argument("--include", nargs="*", default=[], help="folders, from hw/")
    p.add_argument("--build", required=True)
    a = p.parse_args()
    bench = HW / a.module
    build = pathlib.Path(a.build).resolve() / "-".join([a.top, bench.stem, a.sim, *a.parameter])
    sources = sorted(s for pattern in a.sources for s in HW.glob(pattern))
    flags = {
        "verilator": [*(f"-I{HW / d}" for d in a.include), "--assert", "-Wno-fatal", "-O3", "--x-assign", "unique", "--x-initial", "unique"],
        "icarus": ["-g2012", *(f"-I{HW / d}" for d in a.include)],
    }[a.sim]
    runner = get_runner(a.sim)
    runner.build(
        sources=sources,
        hdl_toplevel=a.top,
        build_dir=build,
        build_args=flags,
        parameters=dict(kv.split("=") for kv in a.parameter),
        timescale=("1ns", "1ps"),
    )
    # The runner hands this process's path on to the simulator's.
    sys.path[:0] = [str(bench.parent), str(HW / "tb" / "net")]
    results = runner.test(
        hdl_toplevel=a.top,
        test_module=bench.stem,
        build_dir=build,
        test_dir=bench.parent,
        results_xml=str(build / "results.xml"),
        timescale=("1ns", "1ps"),
        seed=1,
    )
    tests, failed = get_results(results)
    print(f"hw: {a.top} {bench.stem}: {tests - failed} passed, {failed} failed")
    sys.exit(failed != 0 or tests == 0)


if __name__ == "__main__":
    main()
