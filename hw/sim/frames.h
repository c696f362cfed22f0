// Ethernet, IPv4 and UDP as a client of the appliance makes and reads them, byte by byte. Shares nothing with the RTL.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

using Bytes = std::vector<uint8_t>;

// The appliance in simulation: 02:00:0a:00:00:02, 10.0.0.2, port 6380 (the MAC ends as the address does).
struct Us {
    uint64_t mac = 0x02000a000002;
    uint32_t ip = 10u << 24 | 2;
    uint16_t port = 6380;
};
// Where a datagram comes from.
struct Peer {
    uint64_t mac = 0x02000a000001;
    uint32_t ip = 10u << 24 | 1;
    uint16_t port = 40000;
};

inline void be(Bytes& b, uint64_t x, int n) {
    for (int i = n - 1; i >= 0; i--) b.push_back(x >> 8 * i & 255);
}
inline uint64_t be(const uint8_t* p, int n) {
    uint64_t x = 0;
    for (int i = 0; i < n; i++) x = x << 8 | p[i];
    return x;
}
// The sum of RFC 1071, folded, not complemented.
inline uint32_t fold(uint64_t s) {
    while (s >> 16) s = (s & 0xffff) + (s >> 16);
    return s;
}
inline uint64_t sum(const uint8_t* p, size_t n) {
    uint64_t s = 0;
    for (size_t i = 0; i + 1 < n; i += 2) s += be(p + i, 2);
    return n % 2 ? s + (uint64_t)p[n - 1] * 256 : s;
}

inline Bytes make_frame(const Us& us, const Peer& from, const uint8_t* payload, size_t n) {
    Bytes f;
    be(f, us.mac, 6), be(f, from.mac, 6), be(f, 0x0800, 2);
    be(f, 0x4500, 2), be(f, 28 + n, 2), be(f, 0, 2), be(f, 0x4000, 2), be(f, 64 << 8 | 17, 2), be(f, 0, 2), be(f, from.ip, 4), be(f, us.ip, 4);
    uint16_t ip = ~fold(sum(&f[14], 20));
    f[24] = ip >> 8, f[25] = ip;
    be(f, from.port, 2), be(f, us.port, 2), be(f, 8 + n, 2), be(f, 0, 2);
    f.insert(f.end(), payload, payload + n);
    uint16_t udp = ~fold(sum(&f[26], 8) + 17 + 8 + n + sum(&f[34], 8 + n));
    if (!udp) udp = 0xffff;
    f[40] = udp >> 8, f[41] = udp;
    if (f.size() < 60) f.resize(60);
    return f;
}

struct Datagram { Peer to; Bytes payload; };

// The datagram in a frame of the appliance; nothing if anything about it is wrong, with the reason in `why`.
inline std::optional<Datagram> read_frame(const Us& us, const Bytes& f, std::string& why) {
    auto no = [&](const char* w) { why = w; return std::nullopt; };
    if (f.size() < 60) return no("shorter than 60 bytes");
    if (be(&f[6], 6) != us.mac || be(&f[12], 2) != 0x0800) return no("Ethernet header");
    size_t total = be(&f[16], 2);
    if (f[14] != 0x45 || fold(sum(&f[14], 20)) != 0xffff || be(&f[26], 4) != us.ip || f[23] != 17) return no("IPv4 header");
    if (total < 28 || f.size() != std::max<size_t>(60, 14 + total) || be(&f[38], 2) != total - 20) return no("lengths");
    if (be(&f[34], 2) != us.port) return no("port");
    if (!be(&f[40], 2) || fold(sum(&f[26], 8) + 17 + total - 20 + sum(&f[34], total - 20)) != 0xffff) return no("UDP checksum");
    return Datagram{Peer{be(&f[0], 6), (uint32_t)be(&f[30], 4), (uint16_t)be(&f[36], 2)}, Bytes(&f[42], &f[0] + 14 + total)};
}
