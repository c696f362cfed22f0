"""Frames, built and taken apart byte by byte: an implementation of Ethernet, ARP, IPv4, ICMP and UDP that shares nothing with the RTL."""

import struct

OUR_MAC, OUR_IP, OUR_PORT = bytes.fromhex("02000a000002"), bytes([10, 0, 0, 2]), 6380
PEER_MAC, PEER_IP, PEER_PORT = bytes.fromhex("02000a000001"), bytes([10, 0, 0, 1]), 40000
BROADCAST = b"\xff" * 6


def checksum(data):
    """RFC 1071."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ethernet(payload, kind=0x0800, dst=OUR_MAC, src=PEER_MAC):
    frame = dst + src + struct.pack("!H", kind) + payload
    return frame + bytes(max(0, 60 - len(frame)))


def ipv4(payload, proto, dst=OUR_IP, src=PEER_IP, *, ver_ihl=0x45, total=None, flags=0x4000, spoil=0, options=b""):
    total = 20 + len(options) + len(payload) if total is None else total
    head = struct.pack("!BBHHHBBH", ver_ihl, 0, total, 0x1234, flags, 63, proto, 0) + src + dst + options
    csum = checksum(head) ^ spoil
    return head[:10] + struct.pack("!H", csum) + head[12:] + payload


def udp(payload, dst_port=OUR_PORT, src_port=PEER_PORT, dst=OUR_IP, src=PEER_IP, *, length=None, spoil=0, no_sum=False):
    length = 8 + len(payload) if length is None else length
    head = struct.pack("!HHH", src_port, dst_port, length)
    csum = checksum(src + dst + struct.pack("!BBH", 0, 17, length) + head + b"\0\0" + payload) or 0xFFFF
    return head + struct.pack("!H", 0 if no_sum else csum ^ spoil) + payload


def datagram(payload, **options):
    """A whole frame with a UDP datagram."""
    ports = {k: v for k, v in options.items() if k in ("dst_port", "src_port", "src")}
    return ethernet(ipv4(udp(payload, **ports), 17, **{k: v for k, v in options.items() if k == "src"}), src=options.get("mac", PEER_MAC))


def echo(payload, id=7, seq=1, kind=8, code=0, spoil=0):
    body = struct.pack("!BBHHH", kind, code, 0, id, seq) + payload
    return body[:2] + struct.pack("!H", checksum(body) ^ spoil) + body[4:]


def ping(payload, **options):
    return ethernet(ipv4(echo(payload, **options), 1))


def arp(target=OUR_IP, operation=1, sender_mac=PEER_MAC, sender_ip=PEER_IP, head=bytes.fromhex("000108000604"), dst=BROADCAST):
    return ethernet(head + struct.pack("!H", operation) + sender_mac + sender_ip + bytes(6) + target, 0x0806, dst=dst)


def take_datagram_of_anyone(frame):
    """(payload, MAC, address, port) of an answer and whom it goes to; everything about the frame is checked."""
    assert len(frame) >= 60, f"frame of {len(frame)} bytes"
    assert frame[6:12] == OUR_MAC and frame[12:14] == b"\x08\x00", frame[:14].hex()
    ip = frame[14:34]
    total = struct.unpack("!H", ip[2:4])[0]
    assert ip[0] == 0x45 and checksum(ip) == 0 and ip[9] == 17 and ip[12:16] == OUR_IP, ip.hex()
    assert len(frame) == max(60, 14 + total) and not any(frame[14 + total :]), "padding"
    datagram = frame[34 : 14 + total]
    sport, dport, length, csum = struct.unpack("!HHHH", datagram[:8])
    assert (sport, length) == (OUR_PORT, len(datagram))
    assert csum and checksum(ip[12:20] + struct.pack("!BBH", 0, 17, length) + datagram) == 0, "UDP checksum"
    return datagram[8:], frame[:6], ip[16:20], dport


def take_datagram(frame, *, dst_mac=PEER_MAC, dst_ip=PEER_IP, dst_port=PEER_PORT):
    """The payload of an answer to one peer."""
    payload, *to = take_datagram_of_anyone(frame)
    assert to == [dst_mac, dst_ip, dst_port], frame[:42].hex()
    return payload


def take_echo(frame):
    """(id, sequence number, data) of an echo reply."""
    total = struct.unpack("!H", frame[16:18])[0]
    assert frame[:6] == PEER_MAC and frame[6:12] == OUR_MAC and checksum(frame[14:34]) == 0 and frame[23] == 1
    assert frame[26:30] == OUR_IP and frame[30:34] == PEER_IP
    assert len(frame) == max(60, 14 + total) and not any(frame[14 + total :])
    body = frame[34 : 14 + total]
    kind, code, _, id, seq = struct.unpack("!BBHHH", body[:8])
    assert (kind, code) == (0, 0) and checksum(body) == 0, body.hex()
    return id, seq, body[8:]
