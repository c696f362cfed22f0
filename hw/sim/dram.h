// A model of DRAM behind AXI4, at the resolution of the core's clock: banks, activation, refresh, the data bus, a controller.
//
//   AR/AW+W --> controller (ctrl_ns/2) --> bank: tRCD, CL, tRAS, tRP --> bus: one 64-byte burst --> controller (ctrl_ns/2) --> R
//
// Each 64 bytes of a burst are one access with automatic precharge (closed page: the accesses of a key-value store are random).
// An access starts as early as its bank, tRRD, tFAW, refresh and the bus allow; accesses of one bank in their order, others may
// overtake (what an FR-FCFS controller does). Lines go to banks by a hash of their address. A write is acknowledged when the
// controller has taken it (its queue is bounded) and takes its time on bank and bus afterwards; controllers drain writes in batches, so the turnaround
// (tWTR + CL) is charged in eighths. Several AXI ports share one DRAM. The presets are DIMMs of x8 parts (1 KB pages; 4 Gbit DDR3, 8 Gbit DDR4). What
// is not modelled: ranks, command bus contention, row hits.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

struct DramTiming {
    std::string name;
    int banks;
    double rcd, cl, rp, ras, rrd, faw, burst, wr, wtr, rfc, refi, ctrl;  // ns
    double fixed_clocks;  // >= 0: no DRAM, on-chip memory with this latency in clocks
};

inline DramTiming dram_preset(const std::string& name, double ctrl_ns) {
    if (name == "ddr3-1600") return {name, 8, 13.75, 13.75, 13.75, 35, 6, 30, 5, 15, 7.5, 260, 7800, ctrl_ns, -1};
    if (name == "ddr4-2400") return {name, 16, 14.16, 14.16, 14.16, 32, 4.9, 21, 3.33, 15, 7.5, 350, 7800, ctrl_ns, -1};
    if (name == "onchip") return {name, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    if (name == "random") return {name, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -2};
    fprintf(stderr, "no such memory: %s\n", name.c_str());
    exit(2);
}

struct Dram {
    static constexpr int Beat = 32;  // bytes of an AXI beat
    struct Read { int id, beats, sent; uint64_t addr; std::vector<double> ready; };  // ready: line by line
    struct Write { int id, left; uint64_t addr; };
    struct Port { std::vector<Read> reads; std::deque<Write> aw; std::deque<std::pair<int, double>> b; int cur = -1; };

    DramTiming t;
    double clk_ns;
    std::vector<uint64_t> mem;
    std::vector<Port> ports;
    std::vector<double> bank_free, acts, bus;  // acts, bus: starts of recent activations and of recent bursts
    double busy_until = 0, next_ref = 0;
    uint64_t reads = 0, writes = 0, lines = 0, rng = 88172645463325252ull;
    double now = 0;
    uint64_t lose_one_in = 0;  // a test's: forget one write in so many

    Dram(DramTiming timing, int nports, size_t bytes, double clk) : t(timing), clk_ns(clk), mem(bytes / 8, 0xdeadbeefdeadbeefull), ports(nports) {
        bank_free.assign(t.banks, 0);
        next_ref = t.refi;
    }
    uint64_t rand() { rng ^= rng << 13; rng ^= rng >> 7; rng ^= rng << 17; return rng; }

    // when the line at this address has been moved, asked for now; and takes bank and bus
    double access(uint64_t addr, bool write) {
        lines++;
        if (t.fixed_clocks >= 0) return now + t.fixed_clocks * clk_ns;
        if (t.fixed_clocks == -2) return now + (rand() % 8 == 0 ? rand() % 90 : rand() % 12) * clk_ns;
        uint64_t line = addr >> 6;
        int bank = (line ^ line >> 5 ^ line >> 11) % t.banks;
        double start = now + t.ctrl / 2;
        while (start >= next_ref) {  // all banks are refreshed
            for (auto& f : bank_free) f = std::max(f, next_ref + t.rfc);
            next_ref += t.refi;
        }
        start = std::max(start, bank_free[bank]);
        // earliest activation that tRRD and tFAW allow, earliest gap on the data bus: other banks' accesses may be overtaken
        double len = t.burst + (write ? (t.wtr + t.cl) / 8 : 0);
        constexpr double Past = 1e-3;  // ns: a start is past what it waited for, whatever the rounding
        for (bool moved = true; moved;) {
            moved = false;
            int window = 0;
            double oldest = 1e18;
            for (double a : acts) {
                if (a > start - t.rrd && a < start + t.rrd) { start = a + t.rrd + Past; moved = true; }
                if (a > start - t.faw && a <= start) { window++; oldest = std::min(oldest, a); }
            }
            if (window >= 4) { start = std::max(start, oldest + t.faw + Past); moved = true; }
            for (double b : bus)
                if (start + t.rcd + t.cl < b + len && b < start + t.rcd + t.cl + len) { start = b + len - t.rcd - t.cl + Past; moved = true; }
        }
        double data = start + t.rcd + t.cl;
        acts.push_back(start);
        bus.push_back(data);
        auto old = [&](double x) { return x < now - 200; };
        acts.erase(std::remove_if(acts.begin(), acts.end(), old), acts.end());
        bus.erase(std::remove_if(bus.begin(), bus.end(), old), bus.end());
        busy_until = std::max(busy_until, data);
        bank_free[bank] = std::max(start + t.ras, data + t.burst + (write ? t.wr : 0)) + t.rp;
        return data + t.burst + t.ctrl / 2;
    }
    void ar(int port, int id, uint64_t addr, int len) {
        reads++;
        Read r{id, len + 1, 0, addr, {}};
        for (uint64_t a = addr & ~63ull; a < addr + uint64_t(Beat) * (len + 1); a += 64) r.ready.push_back(access(a, false));
        ports[port].reads.push_back(r);
    }
    bool aw_room(int port) { return ports[port].aw.size() < 4; }
    void aw(int port, int id, uint64_t addr, int len) {
        writes++;
        ports[port].aw.push_back({id, len + 1, addr});
    }
    bool w_room(int port) { return busy_until < now + 400 && !ports[port].aw.empty(); }
    void w(int port, const uint64_t* data, uint32_t strb) {
        auto& p = ports[port];
        auto& f = p.aw.front();
        for (int k = 0; k < Beat / 8; k++) {
            uint64_t m = 0;
            for (int i = 0; i < 8; i++) if (strb >> (8 * k + i) & 1) m |= 0xffull << i * 8;
            auto& word = mem.at(f.addr / 8 + k);
            if (m && (!lose_one_in || rand() % lose_one_in)) word = (word & ~m) | (data[k] & m);
        }
        if ((f.addr & 63) == 64 - Beat || f.left == 1) access(f.addr & ~63ull, true);  // a line is whole
        f.addr += Beat;
        if (--f.left == 0) {
            double extra = t.fixed_clocks == -2 ? rand() % 40 * clk_ns : t.fixed_clocks >= 0 ? clk_ns : t.ctrl / 2;
            p.b.push_back({f.id, now + extra});
            p.aw.pop_front();
        }
    }
    // the burst that sends in this clock, or -1. A burst that has begun keeps the port, also while it waits for its next line.
    int r_pick(int port) {
        auto& p = ports[port];
        if (p.cur < 0)
            for (size_t i = 0; i < p.reads.size(); i++)
                if (p.reads[i].ready[0] <= now && (p.cur < 0 || p.reads[i].ready[0] < p.reads[p.cur].ready[0])) p.cur = i;
        if (p.cur < 0) return -1;
        auto& r = p.reads[p.cur];
        return r.ready[((r.addr & 63) + uint64_t(r.sent) * Beat) / 64] <= now ? p.cur : -1;
    }
    void r_pop(int port) {
        auto& p = ports[port];
        if (++p.reads[p.cur].sent == p.reads[p.cur].beats) {
            p.reads.erase(p.reads.begin() + p.cur);
            p.cur = -1;
        }
    }
    bool b_ready(int port) { return !ports[port].b.empty() && ports[port].b.front().second <= now; }
    // is a refresh to be met by what is asked within so many ns, or was there one as long ago
    bool refresh_within(double ns) { return t.refi > 0 && (std::fmod(now, t.refi) > t.refi - ns || std::fmod(now, t.refi) < ns); }
    void tick() { now += clk_ns; }
};
