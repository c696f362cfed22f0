"""What the benches of the engine and of the whole share: memory that stalls at random, a stream of requests, and the Python reference as the judge."""

import os
import random
import struct
import sys
from collections import defaultdict, deque
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiBus, AxiRam

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "spec" / "reference"))
import store  # noqa: E402
import traces  # noqa: E402
import wire  # noqa: E402

PERIOD_PS = 6400  # 156.25 MHz
OPERATIONS = int(os.environ.get("KINTSUGI_OPERATIONS", "400"))  # of each random run


def pauses(seed, share):
    """For a channel: True in the clocks in which it waits, `share` of them, in runs."""
    dice = random.Random(seed)
    while True:
        if dice.random() < share / 4:
            yield from [True] * dice.randrange(1, 7)
        yield False


def memories(dut, size, share, seed):
    """AXI4 memories behind both ports, over the same bytes. All five channels of each stall for themselves."""
    first = AxiRam(AxiBus.from_prefix(dut, "m_axi0"), dut.clk, dut.rst_n, reset_active_level=False, size=size)
    rams = [first, AxiRam(AxiBus.from_prefix(dut, "m_axi1"), dut.clk, dut.rst_n, reset_active_level=False, mem=first.mem)]
    if share:
        for i, ram in enumerate(rams):
            r, w = ram.read_if, ram.write_if
            for j, channel in enumerate((r.ar_channel, r.r_channel, w.aw_channel, w.w_channel, w.b_channel)):
                channel.set_pause_generator(pauses(seed * 100 + 10 * i + j, share))
    return rams


async def begin(dut, cycles=4):
    """Clock and reset; returns when the index has been cleared."""
    dut.rst_n.value = 0
    cocotb.start_soon(Clock(dut.clk, PERIOD_PS, unit="ps").start())
    for _ in range(cycles):
        await RisingEdge(dut.clk)
    dut.rst_n.value = 1
    while dut.ready.value != 1:
        await RisingEdge(dut.clk)


class Broken(store.Store):
    """A reference with a fault, for the canaries: a list that pops from its other end."""

    def _lpop(self, data, req):
        return super()._rpop(data, req)


def requests(seed, count):
    """`count` datagrams on few hot keys, all types, sizes up to a cell's; some on a key of another type, some in error, some no requests."""
    dice = traces.Dice(seed * 2 + 1)
    for i in range(count):
        op, *parts = traces.operation(dice, 4, 6, 180)
        if dice(12) == 0:
            parts[0] = b"shlez"[dice(5) :][:1] + parts[0][1:]
        if dice(12) == 0 and op in ("SADD", "SISMEMBER", "SREM"):
            op, parts = "SPOP", parts[:1]
        if dice(20) == 0:
            op, parts = "PING", []
        datagram = wire.request(op, *parts, id=i & 0xFFFF)
        if dice(25) == 0:  # a header that is wrong in some field: an error, or nothing
            at = dice(6)
            datagram = datagram[:at] + bytes([datagram[at] ^ 1 << dice(8)]) + datagram[at + 1 :]
        yield datagram


class Judge:
    """Holds every request until its answer is there. Answers on one key must come in the order of its requests; then the reference is asked."""

    def __init__(self, model=None):
        self.model = model or store.Store()
        self.flying = {}  # tag -> request
        self.order = defaultdict(deque)  # key -> tags
        self.seen = defaultdict(int)  # status -> answers; None: dropped

    @staticmethod
    def key(datagram):
        req = wire.parse(datagram)
        return req.key if req and wire.error(req) is None and req.key else None

    def asked(self, tag, datagram):
        assert tag not in self.flying
        self.flying[tag] = datagram
        if (key := self.key(datagram)) is not None:
            self.order[key].append(tag)

    def answered(self, tag, answer):
        """`answer` is None for what is dropped without one."""
        assert tag in self.flying, f"an answer that nobody waits for: tag {tag}, {answer and answer.hex()}"
        datagram = self.flying.pop(tag)
        if (key := self.key(datagram)) is not None:
            first = self.order[key].popleft()
            assert first == tag, f"answers on {key} out of order: {tag} before {first}"
        allowed = self.model.handle(datagram)
        said = f"{datagram.hex()}: {answer and answer.hex()}, not {[a.hex() for a in allowed]}"
        assert answer in allowed if allowed else answer is None, said
        if len(allowed) > 1:
            self.model.chosen(answer)
        self.seen[answer and answer[1]] += 1


def id_of(datagram):
    return struct.unpack_from("<H", datagram, 6)[0]


def clocked(state, bits):
    """The CRC-32 register after so many zero bits; before them, if negative."""
    for _ in range(abs(bits)):
        if bits > 0:
            state = state >> 1 ^ (0xEDB88320 if state & 1 else 0)
        else:
            state = ((state ^ 0xEDB88320) << 1 | 1) if state >> 31 else state << 1
    return state


def key_with_hash(state):
    """A key of 8 bytes whose hash is `state`. The hash begins with ones and covers a beat: the header's word as zeros, the key, two words of zeros."""
    low = clocked(0xFFFFFFFF, 64)
    return struct.pack("<II", low, clocked(state, -(128 + 32)))
