// Drives kintsugi_top in Verilator: frames in and out at the pace of a 10 Gbit/s line, memory behind the AXI ports.
// One step() is one clock of 6.4 ns. Frames come without preamble and check sequence; a line carries 20 + 4 bytes more for each.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include "Vkintsugi_top.h"
#include "dram.h"
#include "frames.h"
#include "verilated.h"

// Bits of a port, whatever Verilator made of it.
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

struct TopSim {
    // The parameters of the build (net.mk).
    static constexpr int N = TOP_CONTEXTS, P = TOP_PORTS, AB = TOP_ADDR_BITS + 6, IB = clog2(N), Beat = Dram::Beat;
    static constexpr double ClockNs = 6.4;
    std::unique_ptr<VerilatedContext> ctx{new VerilatedContext};
    std::unique_ptr<Vkintsugi_top> v{new Vkintsugi_top{ctx.get()}};
    Us us;
    Dram dram;
    uint64_t cycle = 0;
    struct Frame { Bytes bytes; uint64_t not_before; };
    std::deque<Frame> in;
    std::function<void(Bytes&, uint64_t)> on_frame;  // a frame left, its last beat in this clock
    std::function<void(uint64_t)> on_start;          // the first beat of a frame entered
    bool random_stalls = false;                      // gaps within received frames, back-pressure within sent ones

    explicit TopSim(const DramTiming& t) : dram(t, P, 1ull << AB, ClockNs) {
        v->mac_i = us.mac, v->ip_i = us.ip, v->port_i = us.port;
        v->rx_valid_i = 0, v->rx_user_i = 0, v->tx_ready_i = 0;
        v->rst_ni = 0, v->clk_i = 0;
        for (int i = 0; i < 4; i++) tick();
        v->rst_ni = 1;
        while (!v->ready_o) tick();
    }
    void send(Bytes frame, uint64_t not_before = 0) { in.push_back({std::move(frame), not_before}); }
    uint64_t counter(int i) { return bits(v->counters_o, 64 * i, 64); }

    void step() {
        drive_rx();
        bool ready = (!out.empty() || tx_free <= cycle * 8.0) && !(random_stalls && dram.rand() % 4 == 0);
        v->tx_ready_i = ready;
        bool r[P], b[P], ar[P], aw[P], w[P];
        drive_memory(r, b, ar, aw, w);
        v->eval();
        if (v->tx_valid_o && ready) take_tx();
        finish_memory(r, b, ar, aw, w);
        tick();
        cycle++;
        dram.tick();
    }

private:
    size_t pos = 0;
    double rx_free = 0;        // byte times (8 a clock) from which the line can bring the next frame
    double tx_free = 0;        // the same for what we send
    uint64_t tx_start = 0;
    Bytes out;

    void tick() { v->clk_i = 1; v->eval(); v->clk_i = 0; v->eval(); }

    void drive_rx() {
        v->rx_valid_i = 0;
        if (in.empty() || (random_stalls && dram.rand() % 4 == 0)) return;
        auto& f = in.front();
        if (pos == 0) {
            if (cycle < f.not_before || cycle * 8.0 < rx_free) return;
            rx_free = std::max(rx_free, cycle * 8.0 - 8) + f.bytes.size() + 24;
            if (on_start) on_start(cycle);
        }
        size_t n = std::min<size_t>(8, f.bytes.size() - pos);
        uint64_t d = 0;
        memcpy(&d, f.bytes.data() + pos, n);
        v->rx_valid_i = 1;
        v->rx_data_i = d;
        v->rx_keep_i = n == 8 ? 255 : (1 << n) - 1;
        pos += n;
        v->rx_last_i = pos == f.bytes.size();
        if (v->rx_last_i) in.pop_front(), pos = 0;
    }
    void take_tx() {
        uint64_t d = v->tx_data_o;
        if (out.empty()) tx_start = cycle;
        for (int i = 0; i < 8; i++) if (v->tx_keep_o >> i & 1) out.push_back(d >> 8 * i);
        if (v->tx_last_o) {
            // A MAC has room for a beat, so what a partly filled one leaves of the line is not lost.
            tx_free = std::max(tx_free, tx_start * 8.0 - 8) + out.size() + 24;
            if (on_frame) on_frame(out, cycle);
            out.clear();
        }
    }
    void drive_memory(bool* r, bool* b, bool* ar, bool* aw, bool* w) {
        bool random = dram.t.fixed_clocks == -2;
        for (int p = 0; p < P; p++) {
            int c = dram.r_pick(p);
            r[p] = c >= 0;
            put(v->m_axi_rvalid_i, p, 1, r[p]);
            if (r[p]) {
                auto& q = dram.ports[p].reads[c];
                put(v->m_axi_rid_i, p * IB, IB, q.id);
                for (int i = 0; i < Beat / 8; i++) put(v->m_axi_rdata_i, p * 256 + 64 * i, 64, dram.mem.at(q.addr / 8 + q.sent * (Beat / 8) + i));
                put(v->m_axi_rlast_i, p, 1, q.sent + 1 == q.beats);
            }
            b[p] = dram.b_ready(p);
            put(v->m_axi_bvalid_i, p, 1, b[p]);
            if (b[p]) put(v->m_axi_bid_i, p * IB, IB, dram.ports[p].b.front().first);
            ar[p] = !(random && dram.rand() % 3 == 0);
            aw[p] = dram.aw_room(p) && !(random && dram.rand() % 3 == 0);
            w[p] = dram.w_room(p) && !(random && dram.rand() % 3 == 0);
            put(v->m_axi_arready_i, p, 1, ar[p]);
            put(v->m_axi_awready_i, p, 1, aw[p]);
            put(v->m_axi_wready_i, p, 1, w[p]);
        }
    }
    void finish_memory(bool* r, bool* b, bool* ar, bool* aw, bool* w) {
        for (int p = 0; p < P; p++) {
            if (r[p] && (v->m_axi_rready_o >> p & 1)) dram.r_pop(p);
            if (b[p] && (v->m_axi_bready_o >> p & 1)) dram.ports[p].b.pop_front();
            if (w[p] && (v->m_axi_wvalid_o >> p & 1)) {
                uint64_t d[Beat / 8];
                for (int i = 0; i < Beat / 8; i++) d[i] = bits(v->m_axi_wdata_o, p * 256 + 64 * i, 64);
                dram.w(p, d, bits(v->m_axi_wstrb_o, p * 32, 32));
            }
            if (ar[p] && (v->m_axi_arvalid_o >> p & 1))
                dram.ar(p, bits(v->m_axi_arid_o, p * IB, IB), bits(v->m_axi_araddr_o, p * AB, AB), bits(v->m_axi_arlen_o, p * 8, 8));
            if (aw[p] && (v->m_axi_awvalid_o >> p & 1))
                dram.aw(p, bits(v->m_axi_awid_o, p * IB, IB), bits(v->m_axi_awaddr_o, p * AB, AB), bits(v->m_axi_awlen_o, p * 8, 8));
        }
    }
};
