"""What the benches of the network side and of the whole share: a MAC's two streams, with stalls at random, and a clock."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

from frames import OUR_IP, OUR_MAC, OUR_PORT

PERIOD_PS = 6400  # 156.25 MHz


class Mac:
    """Sends frames into `rx_*` with gaps inside and between, takes frames from `tx_*` with back-pressure."""

    def __init__(self, dut, seed, gap=0.0, pressure=0.0):
        self.dut, self.random = dut, random.Random(seed)
        self.gap, self.pressure = gap, pressure
        self.sent = []
        self.frames = []
        self.outstanding = []
        self.clocks = 0

    async def start(self):
        d = self.dut
        d.rst_ni.value = 0
        d.mac_i.value = int.from_bytes(OUR_MAC, "big")
        d.ip_i.value = int.from_bytes(OUR_IP, "big")
        d.port_i.value = OUR_PORT
        d.rx_valid_i.value = 0
        d.rx_data_i.value = 0
        d.rx_keep_i.value = 0
        d.rx_last_i.value = 0
        d.rx_user_i.value = 0
        d.tx_ready_i.value = 0
        if hasattr(d, "stall_i"):
            d.stall_i.value = 0
        cocotb.start_soon(Clock(d.clk_i, PERIOD_PS, unit="ps").start())
        for _ in range(4):
            await FallingEdge(d.clk_i)
        d.rst_ni.value = 1
        cocotb.start_soon(self._take())
        return self

    async def send(self, frame, *, broken=False, keep=None, between=0):
        """Sends one frame; `keep` overrides the lanes of beats by number, `broken` is the MAC's verdict at its end."""
        d = self.dut
        beats = [frame[i : i + 8] for i in range(0, len(frame), 8)]
        for i, beat in enumerate(beats):
            while self.random.random() < self.gap:
                d.rx_valid_i.value = 0
                await FallingEdge(d.clk_i)
            last = i == len(beats) - 1
            d.rx_valid_i.value = 1
            d.rx_data_i.value = int.from_bytes(beat.ljust(8, b"\xa5"), "little")
            d.rx_keep_i.value = (keep or {}).get(i, (1 << len(beat)) - 1)
            d.rx_last_i.value = last
            d.rx_user_i.value = broken and last
            await FallingEdge(d.clk_i)
        d.rx_valid_i.value = 0
        for _ in range(between):
            await FallingEdge(d.clk_i)

    async def idle(self, clocks):
        self.dut.rx_valid_i.value = 0
        for _ in range(clocks):
            await FallingEdge(self.dut.clk_i)

    async def frame(self, patience=2000):
        """The next frame that was sent to us. A watchdog: none within `patience` clocks means that something is wedged."""
        for _ in range(patience):
            if self.frames:
                return self.frames.pop(0)
            await FallingEdge(self.dut.clk_i)
        raise AssertionError(f"no frame within {patience} clocks")

    async def silence(self, clocks=120):
        await self.idle(clocks)
        assert not self.frames, f"a frame that should not be: {self.frames[0].hex()}"

    async def _take(self):
        d = self.dut
        frame = b""
        while True:
            d.tx_ready_i.value = self.random.random() >= self.pressure
            await RisingEdge(d.clk_i)
            self.clocks += 1
            if d.tx_valid_o.value == 1 and d.tx_ready_i.value == 1:
                keep = int(d.tx_keep_o.value)
                lanes = keep.bit_length()
                assert keep == (1 << lanes) - 1, "lanes with holes"
                frame += int(d.tx_data_o.value).to_bytes(8, "little")[:lanes]
                if d.tx_last_o.value == 1:
                    self.frames.append(frame)
                    frame = b""
                else:
                    assert keep == 0xFF, "a beat that is not full before the last"
            await FallingEdge(d.clk_i)


NAMES = ("requests", "answers", "echoes", "arps", "dropped", "broken", "ipv4", "l4", "others", "no_room")


def counters(dut):
    n = int(dut.counters_o.value)
    return {name: n >> 64 * i & (1 << 64) - 1 for i, name in enumerate(NAMES)}
