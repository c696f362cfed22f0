"""Is a recorded history one that the guarantees allow?

A history is what clients saw: operations with the times just before they were sent and just after
their replies were read. Every write transaction writes its own unique number to each of its items, so
a value that is read names the transaction that wrote it. 0 is the initial value of every item.

What is checked, all of it in (nearly) linear time:

1.  **Per-item linearizability** (Gibbons and Korach, 1997: with unique values it is polynomial). The
    operations on one value of one item, its write and its reads, form a *cluster*. Let f be the
    earliest reply in it and s the latest sending:

        forward zone   f < s    from f to s the item certainly held this value
        backward zone  f >= s   all operations overlap; the value was there at one moment in [s, f]

    The item is linearizable if and only if no read ends before its write begins, no two forward zones
    overlap, and no backward zone lies inside a forward zone.

2.  **Read Atomic.** When a read saw transaction T on one item, and on another item x that T also wrote it
    saw U, then U must be newer than T; if U is the initial value the read is fractured. All such facts
    "T before U", together with those of (1) and (3), must have an order: a cycle is a fracture (its
    shortest form: x from T, y from U, and both wrote both).

3.  **Session order.** On one connection, what is written or read later is not older than what was written or
    read before: own writes are read, reads of an item do not go back (in one pipeline too), and a transaction sorts
    after those whose traces its client had seen when it sent it.

The cycle search takes the facts of (1) through chains of time points, not pairs, so that a history of a
hundred thousand operations is checked in seconds.
"""

import bisect
import collections
from typing import NamedTuple

INFINITY = float("inf")


class Op(NamedTuple):
    """One operation of one client. `reads`: ((item, transaction), …). `writes`: (item, …), all with `txn`."""

    client: int
    number: int
    sent: float
    replied: float  # INFINITY: no reply was seen, it may or may not have happened
    reads: tuple
    writes: tuple
    txn: int

    def show(self, origin=0):
        name = f"client {self.client} op {self.number}"
        times = f"[{(self.sent - origin) / 1e6:.3f} … {(self.replied - origin) / 1e6:.3f} ms]"
        what = ""
        if self.writes:
            what += f" T{name_of(self.txn)} writes " + " ".join(map(str, self.writes))
        if self.reads:
            what += " reads " + " ".join(f"{item}=T{name_of(txn)}" for item, txn in self.reads)
        return f"{name} {times}{what}"


def name_of(txn):
    return f"{txn >> 32}.{txn & 0xFFFFFFFF}" if txn else "0"


class Violation(NamedTuple):
    kind: str
    text: str


def check(operations, at_most=5):
    """The violations of a history, at most that many of each kind."""
    return _Check(operations, at_most).run()


class _Check:
    def __init__(self, operations, at_most):
        self.operations = sorted(operations, key=lambda op: (op.client, op.number))
        self.origin = min((op.sent for op in operations), default=0)
        self.at_most = at_most
        self.found = []
        self.counts = collections.Counter()
        self.writer = {op.txn: op for op in self.operations if op.writes}
        self.edges = collections.defaultdict(list)  # node -> [(node, reason)]

    def run(self):
        self.known_values()
        self.atomic_reads()
        self.sessions()
        self.items()
        if not self.found:
            self.cycles()
        return self.found

    def report(self, kind, text):
        self.counts[kind] += 1
        if self.counts[kind] <= self.at_most:
            self.found.append(Violation(kind, text))

    def show(self, *operations):
        return "".join("\n    " + op.show(self.origin) for op in operations)

    def known_values(self):
        for op in self.operations:
            for item, txn in op.reads:
                if txn and (txn not in self.writer or item not in self.writer[txn].writes):
                    self.report("value from nowhere", f"{item} held T{name_of(txn)}, which did not write it" + self.show(op))

    def atomic_reads(self):
        """Rule 2: facts from each read set; the direct fractures at once."""
        for op in self.operations:
            if len(op.reads) < 2:
                continue
            seen = dict(op.reads)
            for txn in set(seen.values()):
                writer = self.writer.get(txn)
                if writer is None:
                    continue
                for item in writer.writes:
                    other = seen.get(item, txn)
                    if other == txn:
                        continue
                    if other == 0 or any(seen.get(x) == txn for x in self.writes_of(other)):
                        self.fracture(op, writer, item, other)
                    else:
                        self.edges[txn].append((other, ("read set", op, item)))

    def writes_of(self, txn):
        writer = self.writer.get(txn)
        return writer.writes if writer else ()

    def fracture(self, op, writer, item, other):
        others = [self.writer[other]] if other else []
        text = f"the read saw T{name_of(writer.txn)}, but on {item}, which that wrote too, T{name_of(other)}"
        self.report("fracture", text + self.show(op, writer, *others))

    def sessions(self):
        """Rule 3: along each connection.

        On one item the order in the pipeline is binding. Over several items a write comes after what its client
        had seen when it sent it: `points` of the session, one for each pipeline that it sent, hold what that was.
        """
        client = None
        for op in self.operations:
            if op.client != client:
                client, last_of_item, waiting, points = op.client, {}, collections.deque(), 0
            for item, txn in list(op.reads) + [(item, op.txn) for item in op.writes]:
                before, by = last_of_item.get(item, (0, None))
                if before and before != txn:
                    if txn == 0:
                        self.report("session order", f"{item} went back from T{name_of(before)} to nothing" + self.show(by, op))
                    else:
                        self.edges[before].append((txn, ("session", op, item)))
                if txn:
                    last_of_item[item] = (txn, op)
            if op.writes:
                if waiting and waiting[0].replied <= op.sent:
                    points += 1
                    here = (("session", client), points)
                    self.edges[(("session", client), points - 1)].append((here, ("session", op, None)))
                    while waiting and waiting[0].replied <= op.sent:
                        known = waiting.popleft()
                        for txn in {txn for _, txn in known.reads if txn} | ({known.txn} if known.writes else set()):
                            self.edges[txn].append((here, ("session", known, None)))
                self.edges[(("session", client), points)].append((op.txn, ("session", op, None)))
            waiting.append(op)

    def items(self):
        """Rule 1: zones of every item; their order becomes edges."""
        clusters = collections.defaultdict(dict)  # item -> txn -> [f, s]
        for op in self.operations:
            for item in op.writes:
                clusters[item][op.txn] = [op.replied, op.sent]
        for op in self.operations:
            for item, txn in op.reads:
                writer = self.writer.get(txn)
                if writer and op.replied < writer.sent:
                    self.report("read from the future", f"{item}" + self.show(op, writer))
                zone = clusters[item].setdefault(txn, [-INFINITY, -INFINITY])
                zone[0] = min(zone[0], op.replied)
                zone[1] = max(zone[1], op.sent)
        for item, zones in clusters.items():
            self.zones(item, [(f, s, txn) for txn, (f, s) in zones.items() if f < INFINITY])

    def zones(self, item, zones):
        forward = sorted(zone for zone in zones if zone[0] < zone[1])
        backward = [zone for zone in zones if zone[0] >= zone[1]]
        sound = True
        reach = None
        for zone in forward:
            if reach and zone[0] < reach[1]:
                sound = False
                self.not_linearizable(item, reach, zone)
            if reach is None or zone[1] > reach[1]:
                reach = zone
        starts = [zone[0] for zone in forward]
        if not sound:
            return
        # Chain of time points: leave a forward zone at its end, enter it at its start; see below.
        points = []
        for f, s, txn in backward:
            at_start = self.zone_around(forward, starts, s)
            at_end = self.zone_around(forward, starts, f)
            if at_start and at_start is at_end:
                self.not_linearizable(item, at_start, (f, s, txn))
                return
            # Zones that straddle an end of a forward zone are ordered with it directly.
            if at_start and txn:
                self.edges[at_start[2]].append((txn, ("times", item)))
            if at_end and txn:
                self.edges[txn].append((at_end[2], ("times", item)))
            points.append((s, 1, "in", txn))
            points.append((f, 0, "out", txn))
        for f, s, txn in forward:
            points.append((f, 1, "in", txn))
            points.append((s, 0, "out", txn))
        # At one time, first those that enter: "ended before it began" is strict.
        points.sort(key=lambda point: (point[0], 0 if point[2] == "in" else 1))
        for place, (_, _, direction, txn) in enumerate(points):
            here = (item, place)
            if place:
                self.edges[(item, place - 1)].append((here, ("times", item)))
            if direction == "in":
                self.edges[here].append((txn, ("times", item)))
            else:
                self.edges[txn].append((here, ("times", item)))

    @staticmethod
    def zone_around(forward, starts, time):
        """The forward zone that holds `time` strictly inside."""
        place = bisect.bisect_left(starts, time) - 1
        if place >= 0 and forward[place][0] < time < forward[place][1]:
            return forward[place]
        return None

    def not_linearizable(self, item, one, other):
        """Show the four operations that the two zones come from."""
        shown = []
        for f, s, txn in (one, other):
            cluster = [op for op in self.operations if (item, txn) in op.reads or (txn and op.txn == txn and item in op.writes)]
            writer = [op for op in cluster if op.writes and op.txn == txn]
            first = [op for op in cluster if op.replied == f][:1]
            last = [op for op in cluster if op.sent == s][:1]
            for op in writer + first + last:
                if op not in shown:
                    shown.append(op)
        text = f"{item}: T{name_of(one[2])} and T{name_of(other[2])} cannot be put in an order"
        self.report("not linearizable", text + self.show(*shown))

    def cycles(self):
        """Is there an order? Peel off what has nothing before it; what stays is on or after a cycle."""
        before = collections.Counter()
        for targets in self.edges.values():
            for target, _ in targets:
                before[target] += 1
        ready = [node for node in self.edges if not before[node]]
        removed = set(ready)
        while ready:
            node = ready.pop()
            for target, _ in self.edges.get(node, ()):
                before[target] -= 1
                if before[target] == 0:
                    removed.add(target)
                    ready.append(target)
        left = {node for node in before if before[node] > 0}
        if left:
            self.report_cycle(left)

    def report_cycle(self, left):
        """A cycle as short as a search from a few of its nodes finds."""
        best = None
        starts = [node for node in left if isinstance(node, int)][:200] or list(left)[:200]
        for start in starts:
            path = self.path_back(start, left, len(best) if best else 10_000)
            if path and (best is None or len(path) < len(best)):
                best = path
        reasons = [reason for reason in (best or [])]
        kinds = {reason[0] for _, reason, _ in reasons}
        kind = "session order" if "session" in kinds else "fracture"
        lines, shown = [], []
        for source, reason, target in reasons:
            if not (isinstance(source, int) or isinstance(target, int)):
                continue
            names = [f"T{name_of(node)}" if isinstance(node, int) else f"point {node[1]} of {node[0]}" for node in (source, target)]
            why = f"{reason[0]} {reason[-1] or ''}".rstrip()
            lines.append(f"\n    {names[0]} before {names[1]}: {why}")
            for node in (source, target):
                if isinstance(node, int) and node in self.writer and self.writer[node] not in shown:
                    shown.append(self.writer[node])
            if reason[0] != "times" and reason[1] not in shown:
                shown.append(reason[1])
        self.report(kind, "these have no order:" + "".join(lines) + self.show(*shown))

    def path_back(self, start, left, limit):
        """Breadth first from `start` to itself."""
        parent = {start: None}
        queue = collections.deque([(start, 0)])
        while queue:
            node, depth = queue.popleft()
            if depth >= limit:
                return None
            for target, reason in self.edges.get(node, ()):
                if target == start:
                    path = [(node, reason, target)]
                    while parent[node]:
                        source, why = parent[node]
                        path.append((source, why, node))
                        node = source
                    return path[::-1]
                if target in left and target not in parent:
                    parent[target] = (node, reason)
                    queue.append((target, depth + 1))
        return None
