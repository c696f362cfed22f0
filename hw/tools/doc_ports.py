#!/usr/bin/env python3
"""Writes the tables of parameters and ports into doc/MODULE.md, from the RTL; one page for each module under rtl/.

    doc_ports.py            writes the tables, between their two marks
    doc_ports.py --check    fails if a page is missing, a table is not what the RTL says, or a page says nothing of latency, throughput, invariants
    doc_ports.py --canary   fails unless a port more in the RTL would be noticed
"""

import pathlib
import re
import sys

HW = pathlib.Path(__file__).resolve().parent.parent
MARKS = ("<!-- from the RTL: tools/doc_ports.py -->", "<!-- end -->")
WORDS = ("**Latency**", "**Throughput**", "**Invariants**")

PARAMETER = re.compile(r"^parameter\s+(?:\w+\s+)?(?:\[[^\]]*\]\s*)?(\w+)\s*=\s*(.+?),?$")
PORT = re.compile(r"^(input|output)\s+(?:logic\s*)?(?:\[\s*(.+?)\s*\]\s*)?(\w+),?$")


def header(text, path):
    """(name, lines of the parameters, lines of the ports) of the module in a file."""
    m = re.search(r"^module (\w+)\s*(?:#\((.*?)^\)\s*)?\((.*?)^\);", text, re.M | re.S)
    if not m:
        sys.exit(f"{path}: no module header that this understands")
    return m[1], (m[2] or "").splitlines(), m[3].splitlines()


def rows(lines, pattern, path):
    """Matches with their comments, and comments that stand alone (as strings)."""
    for line in lines:
        code, _, comment = (s.strip() for s in line.partition("//"))
        if not code:
            if comment:
                yield comment
            continue
        m = pattern.match(code)
        if not m:
            sys.exit(f"{path}: a line of the header that this does not understand: {code}")
        yield *m.groups(), comment


def cell(text):
    return text.replace("|", "\\|")


def width(span):
    """The number of bits of [high:low], as it is written."""
    if span is None:
        return "1"
    m = re.fullmatch(r"(.+?)\s*-\s*1\s*:\s*0", span)
    if m:
        return m[1]
    high, low = span.split(":")
    return str(int(high) - int(low) + 1) if high.isdigit() and low.isdigit() else f"[{span}]"


def tables(text, path):
    name, parameters, ports = header(text, path)
    out = []
    listed = list(rows(parameters, PARAMETER, path))
    if listed:
        out += ["| parameter | default | |", "| --- | --- | --- |"]
        for r in listed:
            out.append(f"| *{cell(r)}* | | |" if isinstance(r, str) else f"| `{r[0]}` | `{cell(r[1])}` | {cell(r[2])} |")
        out.append("")
    out += ["| port | | bits | |", "| --- | --- | --- | --- |"]
    for r in rows(ports, PORT, path):
        out.append(f"| *{cell(r)}* | | | |" if isinstance(r, str) else f"| `{r[2]}` | {r[0]} | `{cell(width(r[1]))}` | {cell(r[3])} |")
    return name, "\n".join(out)


def wrong_with(page, name, table):
    """What is wrong with a page, or None."""
    if page is None:
        return f"doc/{name}.md is missing"
    if MARKS[0] not in page or MARKS[1] not in page:
        return f"doc/{name}.md has no place for its table"
    if page.split(MARKS[0])[1].split(MARKS[1])[0].strip() != table:
        return f"doc/{name}.md: the table is not what the RTL says; run tools/doc_ports.py"
    missing = [w for w in WORDS if w not in page]
    return f"doc/{name}.md says nothing of {', '.join(missing)}" if missing else None


def main():
    bad = []
    for path in sorted(HW.glob("rtl/**/*.sv")):
        text = path.read_text()
        name, table = tables(text, path)
        doc = HW / "doc" / f"{name}.md"
        page = doc.read_text() if doc.exists() else None
        if "--check" in sys.argv:
            bad.append(wrong_with(page, name, table))
        elif "--canary" in sys.argv:
            more = re.sub(r"^(\s*input .*clk_i,|\s*(?:input|output)[^\n]*,)$", r"\1\n    input logic canary_i,", text, count=1, flags=re.M)
            if wrong_with(page, *tables(more, path)) is None:
                bad.append(f"doc/{name}.md: a port more is NOT NOTICED")
        else:
            if page is None:
                page = f"# {name}\n\n{MARKS[0]}\n{MARKS[1]}\n"
            before, rest = page.split(MARKS[0])
            doc.write_text(f"{before}{MARKS[0]}\n{table}\n{MARKS[1]}{rest.split(MARKS[1])[1]}")
    bad = [b for b in bad if b]
    print("\n".join(bad) or {"--check": "hw: doc: tables are what the RTL says", "--canary": "hw: doc canary: noticed"}.get(sys.argv[-1], "hw: doc: written"))
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
