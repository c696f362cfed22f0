#!/usr/bin/env python3
"""Writes the golden vectors of spec/vectors/v1 from the reference, or checks that they are what it would write.

    generate.py --write     write files that are not there yet; never change one that is (append-only)
    generate.py --check     regenerated and committed must be equal, byte for byte, and as SHA256SUMS says
    generate.py --canary    the check must notice each of a few deliberately broken references

A file is {"version", "name", "what", "steps"}; a step is {"send", "answers", "note"?} with datagrams in hex, in order, from an empty
store. "answers" lists what is allowed: none (dropped), one, or several where the page leaves a choice. A trace's steps have
"at_ns" too, the time of sending since its start; its answers may overtake each other, and its ids are unique.
"""

import hashlib
import json
import pathlib
import sys

import cases
import store
import traces
import wire

DIRECTORY = pathlib.Path(__file__).resolve().parent.parent / "vectors" / "v1"
SUMS = "SHA256SUMS"


def run(name, what, steps):
    """The text of one vector file."""
    model = store.Store()
    out = []
    for step in steps:
        answers = model.handle(step["send"])
        if len(answers) > 1:
            # Whoever plays the vector may see another of them, so a case must not depend on which.
            model.chosen(answers[0])
        line = {"send": step["send"].hex(), "answers": [a.hex() for a in answers]}
        line.update({k: step[k] for k in ("note", "at_ns") if k in step})
        out.append(line)
    body = ",\n".join("  " + json.dumps(line) for line in out)
    head = {"version": wire.VERSION, "name": name, "what": what}
    return json.dumps(head)[:-1] + ', "steps": [\n' + body + "\n]}\n"


def generate():
    return {name + ".json": run(name, what, steps) for name, what, steps in cases.all_cases() + traces.all_traces()}


def sums(files):
    return "".join(f"{hashlib.sha256(t.encode()).hexdigest()}  {n}\n" for n, t in sorted(files.items()))


def differences(files):
    """What is wrong with the committed files, in words."""
    wrong = []
    committed = {p.name: p.read_text() for p in DIRECTORY.glob("*.json")}
    for name in sorted(files.keys() | committed.keys()):
        if files.get(name) != committed.get(name):
            wrong.append(f"{name}: regenerated and committed differ")
    if not (DIRECTORY / SUMS).exists() or (DIRECTORY / SUMS).read_text() != sums(committed):
        wrong.append(f"{SUMS} does not say what the files are")
    return wrong


def count(files):
    """(datagrams that are in order, datagrams that are not)"""
    good = bad = 0
    for text in files.values():
        for step in json.loads(text)["steps"]:
            refused = not step["answers"] or bytes.fromhex(step["answers"][0])[1] & 0x40
            good, bad = (good, bad + 1) if refused else (good + 1, bad)
    return good, bad


def canary():
    """Broken references that the comparison must tell from the true one."""
    def breaks(target, name, broken):
        true = getattr(target, name)
        setattr(target, name, broken)
        try:
            return bool(differences(generate()))
        finally:
            setattr(target, name, true)

    def spop_keeps(self, answer):
        pass

    seen = {
        "an SPOP that keeps the member": breaks(store.Store, "chosen", spop_keeps),
        "a DEL that removes nothing": breaks(store.Store, "_del", lambda self, data, req: (data, wire.OK, b"")),
        "a pop from the wrong end": breaks(store.Store, "_lpop", store.Store._rpop),
        "a limit off by one": breaks(wire, "KEY_MAX", 63),
        "an item limit off by one beat": breaks(wire, "ITEM_MAX", 472),
        "-0 taken for a score": breaks(wire, "valid_score_key", lambda key: 0x000FFFFFFFFFFFFF <= key <= 0xFFF0000000000000),
        "a version that is not looked at": breaks(wire, "VERSION", 2),
    }
    for what, noticed in seen.items():
        print(f"canary: {what}: {'noticed' if noticed else 'NOT NOTICED'}")
    return all(seen.values())


def main(mode):
    files = generate()
    if mode == "--write":
        for name, text in files.items():
            path = DIRECTORY / name
            if path.exists() and path.read_text() != text:
                sys.exit(f"{name} is committed and would change: give new cases a new file, or a new version a new directory")
            path.write_text(text)
        (DIRECTORY / SUMS).write_text(sums(files))
    if mode == "--canary":
        sys.exit(0 if canary() else 1)
    wrong = differences(files)
    print("\n".join(wrong) or "vectors: %d files, %d datagrams in order and %d not, as the reference says" % (len(files), *count(files)))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in ("--write", "--check", "--canary"):
        sys.exit(__doc__)
    main(sys.argv[1])
