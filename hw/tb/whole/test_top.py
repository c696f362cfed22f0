"""The whole (kintsugi_top): cocotbext-eth's MAC on one side, AXI4 memories that stall on the other, the Python reference as the judge."""

import random
import sys
from pathlib import Path

import cocotb
from cocotb.triggers import RisingEdge, with_timeout
from cocotbext.eth import EthMac, EthMacFrame
from cocotbext.eth.eth_mac import AxiStreamBus

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "net")]
import frames as f  # noqa: E402
import harness as h  # noqa: E402
import wire  # noqa: E402


class Whole:
    """`speed` is the line's in bit/s: the MAC takes and gives bytes at that pace, so a slow one is back-pressure."""

    def __init__(self, dut, seed, speed=10e9, gap=0.0, memory=0.0, model=None):
        self.dut, self.judge, self.dice = dut, h.Judge(model), random.Random(seed)
        dut.mac.value = int.from_bytes(f.OUR_MAC, "big")
        dut.ip.value = int.from_bytes(f.OUR_IP, "big")
        dut.port.value = f.OUR_PORT
        self.mac = EthMac(
            tx_bus=AxiStreamBus.from_prefix(dut, "tx_axis"), tx_clk=dut.clk, tx_rst=dut.rst_n,
            rx_bus=AxiStreamBus.from_prefix(dut, "rx_axis"), rx_clk=dut.clk, rx_rst=dut.rst_n, reset_active_level=False, speed=speed,
        )  # fmt: skip
        if gap:
            self.mac.rx.stream.set_pause_generator(h.pauses(seed + 1, gap))
        h.memories(dut, 1 << 18, memory, seed)
        self.peers = {}  # tag -> who asked; the id of a request is its tag

    async def send(self, datagram):
        """From a peer of its own each; what is no request gets no answer and holds nobody up, so it is told apart here."""
        who = {"src_port": self.dice.randrange(1024, 65536), "src": bytes([10, 0, 0, self.dice.randrange(3, 250)]), "mac": b"\2" + self.dice.randbytes(5)}
        if wire.parse(datagram) is not None:
            tag = h.id_of(datagram)
            self.judge.asked(tag, datagram)
            self.peers[tag] = who
        await self.mac.rx.send(EthMacFrame.from_raw_payload(f.datagram(datagram, **who)))

    async def take(self):
        frame = await with_timeout(self.mac.tx.recv(), 400, "us")
        answer = f.take_datagram_of_anyone(bytes(frame))
        tag = h.id_of(answer[0])
        who = self.peers.pop(tag)
        assert answer[1:] == (who["mac"], who["src"], who["src_port"]), "an answer went to somebody else"
        self.judge.answered(tag, answer[0])


async def random_run(dut, seed, model=None, **stalls):
    w = Whole(dut, seed, model=model, **stalls)
    await h.begin(dut)
    for i, datagram in enumerate(h.requests(seed, h.OPERATIONS)):
        await w.send(datagram)
        if i % 40 == 7:  # between the requests: the peer asks who we are, and whether we live
            await w.mac.rx.send(EthMacFrame.from_raw_payload(f.arp()))
            reply = await next_other(w)
            assert reply[12:14] == b"\x08\x06" and reply[6:12] == f.OUR_MAC
        while len(w.judge.flying) >= 24:
            await w.take()
    while w.judge.flying:
        await w.take()
    for _ in range(400):
        await RisingEdge(dut.clk)
    assert w.mac.tx.empty(), "an answer too many"
    assert {wire.OK, wire.MISS, wire.WRONG_TYPE} <= set(w.judge.seen)


async def next_other(w):
    """The next frame that is no datagram; answers before it are taken as usual."""
    while True:
        while w.mac.tx.empty():
            await with_timeout(w.mac.tx.wait(), 400, "us")
        head = bytes(w.mac.tx.queue._queue[0])
        if head[12:14] != b"\x08\x00":
            return bytes(await w.mac.tx.recv())
        await w.take()


@cocotb.test()
async def answers_are_the_references_at_line_rate(dut):
    await random_run(dut, 11)


@cocotb.test()
async def answers_are_the_references_on_a_slow_line(dut):
    await random_run(dut, 12, speed=2.5e9, gap=0.3)


@cocotb.test()
async def answers_are_the_references_with_memory_that_stalls(dut):
    await random_run(dut, 13, gap=0.1, memory=0.9)


@cocotb.test(expect_error=AssertionError)
async def canary_a_reference_that_is_wrong_is_noticed(dut):
    await random_run(dut, 14, model=h.Broken())
