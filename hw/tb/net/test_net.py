"""The network side with an echo in the engine's place (ki_net_echo): what the kernel would ask, and everything that is malformed."""

import random
import struct
import sys
from pathlib import Path

import cocotb
from cocotb.triggers import RisingEdge

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "spec" / "reference"))
import frames as f  # noqa: E402
import wire  # noqa: E402
from bench import Mac, counters  # noqa: E402

LATENCY = (6, 8)  # doc/ki_net.md


def question(dice, id, longest=400):
    key = dice.randbytes(dice.randint(1, 64))
    sub = dice.randbytes(dice.choice([0, 3, 40]))
    value = dice.randbytes(dice.randint(0, longest))
    return wire.request(0x22, key, sub, value, id)


def echoed(request):
    """What ki_net_echo answers."""
    op, _, _, _, _, id = struct.unpack_from("<BBBBHH", request)
    return struct.pack("<BBBBHH", op | 0x80, 0, 0, 0, len(request) - 8, id) + request[8:]


async def alive(mac, id=0x5A5A):
    """The watchdog: a good request is answered, whatever came before."""
    ask = wire.request("GET", b"watchdog", id=id)
    await mac.send(f.datagram(ask))
    assert f.take_datagram(await mac.frame()) == echoed(ask)


@cocotb.test()
async def arp_is_answered_for_us_alone(dut):
    mac = await Mac(dut, 1, gap=0.3, pressure=0.3).start()
    for dst in (f.BROADCAST, f.OUR_MAC):
        await mac.send(f.arp(dst=dst))
        reply = await mac.frame()
        assert reply[:42] == (
            f.PEER_MAC + f.OUR_MAC + bytes.fromhex("08060001080006040002") + f.OUR_MAC + f.OUR_IP + f.PEER_MAC + f.PEER_IP
        ), reply.hex()
        assert len(reply) == 60 and not any(reply[42:])
    await mac.send(f.arp(target=bytes([10, 0, 0, 3])))
    await mac.send(f.arp(operation=2))
    await mac.send(f.arp(head=bytes.fromhex("000608000604")))
    await mac.send(f.arp(dst=bytes.fromhex("02000a000009")))
    await mac.silence()
    assert counters(dut)["arps"] == 2 and counters(dut)["others"] == 4


@cocotb.test()
async def echoes_of_every_length_come_back(dut):
    mac = await Mac(dut, 2, gap=0.1, pressure=0.2).start()
    dice = random.Random(2)
    for length in [*range(0, 40), 56, 57, 511, 512, 1400, 1471, 1472]:
        data = dice.randbytes(length)
        await mac.send(f.ping(data, id=dice.randrange(65536), seq=length))
        _, seq, back = f.take_echo(await mac.frame())
        assert (seq, back) == (length, data)
    # Checksums at both ends of their range: a sum is folded more than once.
    for data in (b"\xff" * 1000, b"\x00" * 1000, struct.pack("!H", 0xF7FF) + bytes(6)):
        await mac.send(f.ping(data, id=0xFFFF, seq=0xFFFF))
        assert f.take_echo(await mac.frame())[2] == data
    assert counters(dut)["echoes"] == 50


@cocotb.test()
async def answers_go_where_their_requests_came_from(dut):
    for seed, gap, pressure in ((3, 0.0, 0.0), (4, 0.4, 0.0), (5, 0.0, 0.5), (6, 0.3, 0.3)):
        mac = await Mac(dut, seed, gap, pressure).start()
        dice = random.Random(seed)
        due = []
        for i in range(60):
            who = {"src_port": dice.randrange(1, 65536), "src": bytes([10, 0, dice.randrange(256), dice.randrange(1, 255)]), "mac": dice.randbytes(6)}
            ask = question(dice, i)
            await mac.send(f.datagram(ask, **who), between=dice.choice([0, 0, 1, 40, 120]))
            due.append((who, echoed(ask)))
            if len(due) > 5:
                await mac.idle(400)
        for who, answer in due:
            frame = await mac.frame()
            assert f.take_datagram(frame, dst_mac=who["mac"], dst_ip=who["src"], dst_port=who["src_port"]) == answer
        dut.rst_ni.value = 0


@cocotb.test()
async def no_checksum_is_a_checksum_and_padding_is_no_payload(dut):
    mac = await Mac(dut, 7).start()
    ask = wire.request("GET", b"k", id=9)
    await mac.send(f.ethernet(f.ipv4(f.udp(ask, no_sum=True), 17)))
    assert f.take_datagram(await mac.frame()) == echoed(ask)
    await mac.send(f.datagram(ask) + b"\xee" * 100)  # a switch may leave anything behind the packet
    assert f.take_datagram(await mac.frame()) == echoed(ask)
    longest = wire.request("SET", bytes(64), value=bytes(1400 - 64 + 64), id=3)
    assert len(longest) == 1472
    await mac.send(f.datagram(longest))
    assert f.take_datagram(await mac.frame()) == echoed(longest)


def malformed(dice):
    """(counter that must go up, what it is, frame, how the MAC delivers it)"""
    ask = wire.request("SET", b"key", value=b"value of some length", id=1)
    good = f.datagram(ask)
    yield "broken", "the MAC says so", good, {"broken": True}
    yield "broken", "a hole in the last beat", good, {"keep": {len(good) // 8 - (len(good) % 8 == 0): 0b1011}}
    yield "broken", "a beat that is not full", good, {"keep": {2: 0x7F}}
    yield "broken", "longer than a frame", good + bytes(1515 - len(good)), {}
    yield "broken", "jabber", dice.randbytes(5000), {}
    for n in (1, 7, 8, 13, 14, 15, 20, 33, 34, 40, 41):
        yield "broken", f"cut off after {n} bytes", good[:n], {}
    yield "others", "another MAC", f.ethernet(f.ipv4(f.udp(ask), 17), dst=bytes(6)), {}
    yield "others", "broadcast IPv4", f.ethernet(f.ipv4(f.udp(ask), 17), dst=f.BROADCAST), {}
    yield "others", "IPv6", f.ethernet(f.ipv4(f.udp(ask), 17), kind=0x86DD), {}
    yield "others", "a VLAN tag", f.ethernet(b"\0\x01\x08\0" + f.ipv4(f.udp(ask), 17), kind=0x8100), {}
    yield "others", "TCP", f.ethernet(f.ipv4(f.udp(ask), 6)), {}
    yield "others", "another address", f.ethernet(f.ipv4(f.udp(ask, dst=bytes([10, 0, 0, 9])), 17, dst=bytes([10, 0, 0, 9]))), {}
    yield "others", "another port", f.datagram(ask, dst_port=6381), {}
    for kind, code in ((0, 0), (8, 1), (3, 3), (13, 0)):
        yield "others", f"ICMP {kind}/{code}", f.ping(b"x" * 40, kind=kind, code=code), {}
    yield "ipv4", "header checksum", f.ethernet(f.ipv4(f.udp(ask), 17, spoil=0x0100)), {}
    yield "ipv4", "version 6", f.ethernet(f.ipv4(f.udp(ask), 17, ver_ihl=0x65)), {}
    yield "ipv4", "options", f.ethernet(f.ipv4(f.udp(ask), 17, ver_ihl=0x46, options=b"\x01\x01\x01\x00")), {}
    for flags in (0x2000, 0x0001, 0x1FFF, 0x8000):
        yield "ipv4", f"fragment {flags:#x}", f.ethernet(f.ipv4(f.udp(ask), 17, flags=flags)), {}
    for total in (0, 1, 9, 10, 17, 18, 19, 20, 27, 28 + len(ask) + 200, 1501, 0x8000, 0xFFFF):
        yield "ipv4", f"total length {total}", f.ethernet(f.ipv4(f.udp(ask), 17, total=total)), {}
    yield "l4", "UDP checksum", f.ethernet(f.ipv4(f.udp(ask, spoil=1), 17)), {}
    for length in (0, 7, 8, 8 + len(ask) - 1, 8 + len(ask) + 1, 8 + len(ask) - 8, 0xFFFF):
        yield "l4", f"UDP length {length}", f.ethernet(f.ipv4(f.udp(ask, length=length), 17)), {}
    yield "l4", "ICMP checksum", f.ping(b"y" * 33, spoil=0x8000), {}
    for at in range(42, 60):
        flipped = bytearray(good)
        flipped[at] ^= 1 << dice.randrange(8)
        yield "l4", f"a bit of byte {at}", bytes(flipped), {}
    for n in (0, 1, 2, 7, 9, 12, 15, 17, 23):
        yield "dropped", f"datagram of {n} bytes", f.datagram((ask + ask)[:n]), {}
    yield "dropped", "an answer", f.datagram(wire.answer(1, 0, 1)), {}
    for version in (0, 2, 8, 15):
        yield "dropped", f"version {version}", f.datagram(ask[:1] + bytes([version << 4]) + ask[2:]), {}
    for at, by in ((2, 8), (2, 253), (3, 8), (3, 64), (4, 8), (4, 200), (5, 1), (5, 2), (5, 128)):
        liar = bytearray(ask)
        liar[at] = (liar[at] + by) & 255
        yield "dropped", f"header byte {at} lies by {by}", f.datagram(bytes(liar)), {}
    yield "dropped", "a beat too many", f.datagram(ask + bytes(8)), {}
    yield "dropped", "a beat too few", f.datagram(ask[:-8]), {}


@cocotb.test()
async def whatever_is_malformed_is_counted_and_wedges_nothing(dut):
    for seed, gap in ((8, 0.0), (9, 0.3)):
        mac = await Mac(dut, seed, gap, gap).start()
        for reason, what, frame, how in malformed(random.Random(seed)):
            before = counters(dut)
            await mac.send(frame, **how)
            await alive(mac)
            after = counters(dut)
            went_up = {name for name in after if after[name] != before[name]}
            assert went_up == {reason, "requests", "answers"} and after[reason] == before[reason] + 1, (what, went_up)
        await mac.silence()
        dut.rst_ni.value = 0


@cocotb.test()
async def good_frames_survive_bad_neighbours(dut):
    """Back to back, in random order: every good one is answered, in order, and nothing else."""
    mac = await Mac(dut, 10).start()
    dice = random.Random(10)
    bad = list(malformed(dice))
    due, dropped = [], 0
    for i in range(150):
        for reason, _, frame, how in dice.sample(bad, dice.randrange(3)):
            await mac.send(frame, **how)
        ask = question(dice, i, 40)
        await mac.send(f.datagram(ask))
        due.append(echoed(ask))
        if i % 10 == 9:
            for answer in due:
                assert f.take_datagram(await mac.frame()) == answer
            due = []
    await mac.silence()
    assert counters(dut)["no_room"] == 0


@cocotb.test()
async def what_finds_no_room_is_dropped_whole(dut):
    mac = await Mac(dut, 11).start()
    dice = random.Random(11)
    dut.stall_i.value = 1
    asks = [question(dice, i) for i in range(120)]
    for ask in asks:
        await mac.send(f.datagram(ask))
    await mac.idle(20)
    lost = counters(dut)["no_room"]
    assert 0 < lost < 120 and counters(dut)["requests"] == 120 - lost
    dut.stall_i.value = 0
    due = {echoed(ask) for ask in asks}
    for _ in range(120 - lost):
        due.remove(f.take_datagram(await mac.frame()))
    await mac.silence()
    await alive(mac)


@cocotb.test()
async def more_requests_than_slots_wait_and_none_is_lost(dut):
    """Back-pressure from the wire: tags run out and come back, many times over."""
    mac = await Mac(dut, 12, pressure=0.9).start()
    dice = random.Random(12)
    for round in range(6):
        due = []
        for i in range(40):
            ask = wire.request("GET", dice.randbytes(8), id=round * 40 + i)
            await mac.send(f.datagram(ask))
            due.append(echoed(ask))
        for answer in due:
            assert f.take_datagram(await mac.frame()) == answer


@cocotb.test()
async def minimum_frames_at_line_rate(dut):
    """64-byte frames with preamble and gap come every 84 bytes, 10.5 clocks; answers must leave as fast."""
    mac = await Mac(dut, 13).start()
    asks = [wire.request("GET", struct.pack("<Q", i), id=i) for i in range(200)]
    start = mac.clocks
    for i, ask in enumerate(asks):
        frame = f.datagram(ask)
        assert len(frame) == 60
        await mac.send(frame, between=2 if i % 2 else 3)  # 8 beats and 2.5 clocks
    for ask in asks:
        assert f.take_datagram(await mac.frame()) == echoed(ask)
    clocks = mac.clocks - start
    dut._log.info("200 minimum frames in %d clocks, %.2f each", clocks, clocks / 200)
    assert clocks < 200 * 10.5 + 60 and counters(dut)["no_room"] == 0


@cocotb.test()
async def latency_is_what_the_page_says(dut):
    """doc/ki_net.md: clocks from a frame's last beat to the core, and from an answer's last beat to the wire."""
    mac = await Mac(dut, 15).start()
    ask = wire.request("SET", b"k", value=bytes(40), id=1)
    sending = cocotb.start_soon(mac.send(f.datagram(ask)))
    at = {}
    for clock in range(100):
        await RisingEdge(dut.clk_i)
        for name, happens in (
            ("in", dut.rx_valid_i.value == 1 and dut.rx_last_i.value == 1),
            ("request", dut.valid.value == 1 and "request" not in at),
            ("answer", dut.valid.value == 1 and dut.ready.value == 1 and dut.last.value == 1),
            ("out", dut.tx_valid_o.value == 1 and "out" not in at),
        ):
            if happens:
                at[name] = clock
    await sending
    assert (at["request"] - at["in"], at["out"] - at["answer"]) == LATENCY, at
