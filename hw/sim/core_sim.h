// Drives kintsugi_core in Verilator: packets in and out, memory behind the AXI ports. One step() is one clock.
#pragma once
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include "Vkintsugi_core.h"
#include "dram.h"
#include "verilated.h"

using Bytes = std::vector<uint8_t>;

// bits of a port, whatever Verilator made of it
template <size_t N> uint64_t bits(const VlWide<N>& v, int lsb, int n) {
    uint64_t x = 0;
    for (int i = 0; i < n; i++) x |= (uint64_t)(v.data()[(lsb + i) / 32] >> (lsb + i) % 32 & 1) << i;
    return x;
}
inline uint64_t bits(uint64_t v, int lsb, int n) { return n == 64 ? v : v >> lsb & ((1ull << n) - 1); }
template <size_t N> void put(VlWide<N>& v, int lsb, int n, uint64_t x) {
    for (int i = 0; i < n; i++) {
        uint32_t m = 1u << (lsb + i) % 32;
        if (x >> i & 1) v.data()[(lsb + i) / 32] |= m; else v.data()[(lsb + i) / 32] &= ~m;
    }
}
template <class T> void put(T& v, int lsb, int n, uint64_t x) {
    uint64_t m = (n == 64 ? ~0ull : (1ull << n) - 1) << lsb;
    v = ((uint64_t)v & ~m) | (x << lsb & m);
}

constexpr int clog2(int n) { return n <= 2 ? 1 : 1 + clog2((n + 1) / 2); }

struct CoreSim {
    // the parameters of the build (tb/core/build.py)
    static constexpr int N = CORE_CONTEXTS, P = CORE_PORTS, AB = CORE_ADDR_BITS + 6;
    static constexpr int IB = clog2(N), Beat = Dram::Beat;
    std::unique_ptr<VerilatedContext> ctx{new VerilatedContext};
    std::unique_ptr<Vkintsugi_core> v{new Vkintsugi_core{ctx.get()}};
    Dram dram;
    uint64_t cycle = 0;
    struct Packet { Bytes data; uint16_t tag; };
    struct Answer { Bytes data; uint16_t tag; bool drop; uint64_t first, last; };
    std::deque<Packet> in;        // to be sent
    size_t in_pos = 0;
    std::function<void(uint16_t, uint64_t)> on_first, on_sent;  // first beat, last beat taken: tag, cycle
    std::function<void(Answer&)> on_answer;
    std::function<bool()> gap = [] { return false; }, stall = [] { return false; };
    Answer out{};
    uint64_t blocked = 0;         // clocks in which the core took no beat that was there

    CoreSim(const DramTiming& t) : dram(t, P, 1ull << AB, 6.4) {
        v->rst_ni = 0;
        v->clk_i = 0;
        for (int i = 0; i < 4; i++) tick();
        v->rst_ni = 1;
        while (!v->ready_o) tick();
        cycle = 0;
    }
    void tick() { v->clk_i = 1; v->eval(); v->clk_i = 0; v->eval(); }
    void step() {
        bool rnd = dram.t.fixed_clocks == -2;
        // drive
        if (!v->s_axis_tvalid_i && !in.empty() && !gap()) {
            auto& p = in.front();
            size_t left = p.data.size() - in_pos;
            size_t n = left < Beat ? left : Beat;
            for (int i = 0; i < Beat / 4; i++) v->s_axis_tdata_i[i] = 0xa5a5a5a5;  // what is not kept is anything
            memcpy(v->s_axis_tdata_i.data(), p.data.data() + in_pos, n);
            v->s_axis_tvalid_i = 1;
            v->s_axis_tkeep_i = n == Beat ? ~0u : (1u << n) - 1;
            v->s_axis_tlast_i = left <= Beat;
            v->s_axis_tuser_i = p.tag;
        }
        v->m_axis_tready_i = !stall();
        bool rsent[P], bsent[P], wr[P], arr[P], awr[P];
        for (int p = 0; p < P; p++) {
            int c = dram.r_pick(p);
            rsent[p] = c >= 0 && !(rnd && dram.rand() % 4 == 0 && !(v->m_axi_rvalid_i >> p & 1));
            put(v->m_axi_rvalid_i, p, 1, rsent[p]);
            if (rsent[p]) {
                auto& r = dram.ports[p].reads[c];
                put(v->m_axi_rid_i, p * IB, IB, r.id);
                for (int i = 0; i < Beat / 8; i++) put(v->m_axi_rdata_i, p * 256 + 64 * i, 64, dram.mem.at(r.addr / 8 + r.sent * (Beat / 8) + i));
                put(v->m_axi_rlast_i, p, 1, r.sent + 1 == r.beats);
            }
            bsent[p] = dram.b_ready(p);
            put(v->m_axi_bvalid_i, p, 1, bsent[p]);
            if (bsent[p]) put(v->m_axi_bid_i, p * IB, IB, dram.ports[p].b.front().first);
            arr[p] = !(rnd && dram.rand() % 3 == 0);
            awr[p] = dram.aw_room(p) && !(rnd && dram.rand() % 3 == 0);
            wr[p] = dram.w_room(p) && !(rnd && dram.rand() % 3 == 0);
            put(v->m_axi_arready_i, p, 1, arr[p]);
            put(v->m_axi_awready_i, p, 1, awr[p]);
            put(v->m_axi_wready_i, p, 1, wr[p]);
        }
        v->eval();
        // what happens at the edge
        bool took = v->s_axis_tvalid_i && v->s_axis_tready_o;
        if (v->s_axis_tvalid_i && !took) blocked++;
        if (took) {
            auto& p = in.front();
            if (in_pos == 0 && on_first) on_first(p.tag, cycle);
            in_pos += Beat;
            if (v->s_axis_tlast_i) {
                if (on_sent) on_sent(p.tag, cycle);
                in.pop_front();
                in_pos = 0;
            }
        }
        if (v->m_axis_tvalid_o && v->m_axis_tready_i) {
            if (out.data.empty()) { out.first = cycle; out.tag = v->m_axis_tuser_o & 0xffff; out.drop = v->m_axis_tuser_o >> 16 & 1; }
            auto d = (const uint8_t*)v->m_axis_tdata_o.data();
            for (int i = 0; i < Beat; i += 8) if (out.drop ? i == 0 : v->m_axis_tkeep_o >> i & 1) out.data.insert(out.data.end(), d + i, d + i + 8);
            if (v->m_axis_tlast_o) {
                out.last = cycle;
                Answer a = std::move(out);
                out = Answer{};
                if (on_answer) on_answer(a);
            }
        }
        for (int p = 0; p < P; p++) {
            if (rsent[p]) dram.r_pop(p);
            if (bsent[p]) dram.ports[p].b.pop_front();
            if ((v->m_axi_wvalid_o >> p & 1) && wr[p]) {
                uint64_t d[Beat / 8];
                for (int i = 0; i < Beat / 8; i++) d[i] = bits(v->m_axi_wdata_o, p * 256 + 64 * i, 64);
                dram.w(p, d, bits(v->m_axi_wstrb_o, p * 32, 32));
            }
            if ((v->m_axi_arvalid_o >> p & 1) && arr[p]) dram.ar(p, bits(v->m_axi_arid_o, p * IB, IB), bits(v->m_axi_araddr_o, p * AB, AB), bits(v->m_axi_arlen_o, p * 8, 8));
            if ((v->m_axi_awvalid_o >> p & 1) && awr[p]) dram.aw(p, bits(v->m_axi_awid_o, p * IB, IB), bits(v->m_axi_awaddr_o, p * AB, AB), bits(v->m_axi_awlen_o, p * 8, 8));
        }
        tick();
        if (took) v->s_axis_tvalid_i = 0;
        cycle++;
        dram.tick();
    }
};
