"""The engine (kintsugi_core) against the Python reference: requests by AXI-Stream, memory by AXI4, every channel stalled at random."""

import sys
from pathlib import Path

import cocotb
from cocotb.triggers import RisingEdge, with_timeout
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource

sys.path.insert(0, str(Path(__file__).resolve().parent))
import harness as h  # noqa: E402
import wire  # noqa: E402


class Engine:
    def __init__(self, dut, seed, gap=0.0, pressure=0.0, memory=0.0, model=None):
        self.dut, self.judge = dut, h.Judge(model)
        self.source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), dut.clk, dut.rst_n, reset_active_level=False)
        self.sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis"), dut.clk, dut.rst_n, reset_active_level=False)
        if gap:
            self.source.set_pause_generator(h.pauses(seed + 1, gap))
        if pressure:
            self.sink.set_pause_generator(h.pauses(seed + 2, pressure))
        h.memories(dut, 1 << 18, memory, seed)
        self.tag = 0

    async def send(self, datagram):
        self.judge.asked(self.tag, datagram)
        await self.source.send(AxiStreamFrame(datagram, tuser=self.tag))
        self.tag = (self.tag + 1) & 0xFFFF

    async def take(self):
        """One answer, however it was stalled; checks the frame, and hands it to the judge."""
        f = await with_timeout(self.sink.recv(compact=False), 200, "us")  # a watchdog: 31,250 clocks
        (user,) = set(f.tuser)
        dropped = bool(user >> 16)
        answer = bytes(byte for byte, kept in zip(f.tdata, f.tkeep) if kept)
        assert dropped == (not answer), "what is dropped has no bytes, and all else has"
        self.judge.answered(user & 0xFFFF, answer or None)


async def random_run(dut, seed, model=None, **stalls):
    e = Engine(dut, seed, model=model, **stalls)
    await h.begin(dut)
    flying, sent = 0, 0
    stream = h.requests(seed, h.OPERATIONS)
    for datagram in stream:
        await e.send(datagram)
        sent += 1
        flying += 1
        while flying >= 24:
            await e.take()
            flying -= 1
    for _ in range(flying):
        await e.take()
    for _ in range(200):
        await RisingEdge(dut.clk)
    assert e.sink.empty() and not e.judge.flying
    statuses = ", ".join(f"{n} {'dropped' if s is None else f'of status {s:02x}h'}" for s, n in sorted(e.judge.seen.items(), key=str))
    cocotb.log.info("%d requests: %s", sent, statuses)
    assert {None, wire.OK, wire.MISS, wire.WRONG_TYPE} <= set(e.judge.seen)


@cocotb.test()
async def answers_are_the_references_without_stalls(dut):
    await random_run(dut, 1)


@cocotb.test()
async def answers_are_the_references_with_gaps_and_pressure(dut):
    await random_run(dut, 2, gap=0.5, pressure=0.8)


@cocotb.test()
async def answers_are_the_references_with_memory_that_stalls(dut):
    await random_run(dut, 3, gap=0.1, pressure=0.3, memory=0.9)


@cocotb.test()
async def what_has_no_key_holds_no_lock(dut):
    """A key whose hash is all ones, while contexts wait with answers to what has no key."""
    e = Engine(dut, 4)
    await h.begin(dut)
    key = h.key_with_hash(0xFFFFFFFF)
    for i in range(3):
        e.sink.pause = True
        for j in range(4):
            await e.send(wire.request("PING", id=j))
        await e.send(wire.request("LPUSH", key, value=b"v%d" % i, id=9))
        for _ in range(60):
            await RisingEdge(dut.clk)
        e.sink.pause = False
        for _ in range(5):
            await e.take()
    for i in range(4):
        await e.send(wire.request("LPOP", key, id=i))
        await e.take()


@cocotb.test(expect_error=AssertionError)
async def canary_a_reference_that_is_wrong_is_noticed(dut):
    await random_run(dut, 5, model=h.Broken(), pressure=0.5)
