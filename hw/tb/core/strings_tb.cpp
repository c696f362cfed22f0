// ki_strings under Verilator: an operation in every clock on few hot keys, every answer against a map; fails if a hit ever costs more than a
// clock, or if any answer is wrong.   strings_tb OPS SEED KEYS
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include "Vki_strings.h"
#include "verilated.h"

static uint64_t seed;
static uint64_t rnd() { seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17; return seed >> 5; }

int main(int argc, char** argv) {
    long ops = argc > 1 ? atol(argv[1]) : 100000, keys = argc > 3 ? atol(argv[3]) : 12;
    seed = (argc > 2 ? atol(argv[2]) : 1) * 0x9e3779b97f4a7c15ull | 1;
    auto ctx = std::make_unique<VerilatedContext>();
    auto v = std::make_unique<Vki_strings>(ctx.get());
    auto tick = [&] { v->clk_i = 1; v->eval(); v->clk_i = 0; v->eval(); };
    v->rst_ni = 0;
    for (int i = 0; i < 4; i++) tick();
    v->rst_ni = 1;
    struct Op { int op, key; uint64_t val; };
    std::map<int, uint64_t> model;
    std::map<uint16_t, Op> flying;
    uint16_t tag = 0;
    long sent = 0, done = 0, bad = 0, clocks = 0, refused = 0, hits = 0;
    bool busy = false;
    Op cur{};
    // first all keys but some, by ADD; then GET and SET of all
    long adds = keys - keys / 6;
    bool timing = false;
    for (long idle = 0; done < ops + adds && idle < 100000; idle++) {
        if (!busy && sent < ops + adds) {
            if (sent < adds) cur = {2, (int)sent, rnd()};
            else cur = {(int)(rnd() % 2), (int)(rnd() % 4 ? rnd() % 3 : rnd() % keys), rnd()};
            if (sent == adds && !flying.empty()) goto wait;
            if (sent >= adds) timing = true;
            busy = true;
        }
    wait:
        v->s_valid_i = busy;
        v->s_op_i = cur.op;
        uint64_t k[2] = {0x6b65793a00000000ull + cur.key, 0x5a5a ^ (uint64_t)cur.key << 32}, val[2] = {cur.val, ~cur.val};
        memcpy(v->s_key_i.data(), k, 16);
        memcpy(v->s_value_i.data(), val, 16);
        v->s_tag_i = tag;
        v->eval();
        bool took = busy && v->s_ready_o;
        if (timing && busy) { clocks++; refused += !took; }
        if (took) {
            while (flying.count(tag)) { printf("tags have run out\n"); return 1; }
            flying[tag++] = cur;
            busy = false;
            sent++;
        }
        if (v->m_valid_o) {
            auto f = flying.find(v->m_tag_o);
            if (f == flying.end()) { printf("an answer nobody asked for\n"); return 1; }
            Op o = f->second;
            uint64_t got[2];
            memcpy(got, v->m_value_o.data(), 16);
            bool there = model.count(o.key);
            int want = o.op == 2 ? (there ? 2 : 0) : !there;
            bool ok = v->m_status_o == want && (o.op != 0 || !there || (got[0] == model[o.key] && got[1] == ~model[o.key]));
            if (!ok && bad++ < 5) printf("clock %ld: op %d key %d: status %d, want %d, value %016lx, want %016lx\n", clocks, o.op, o.key, v->m_status_o, want, got[0], there ? model[o.key] : 0);
            if (o.op == 2 && !there) model[o.key] = o.val;
            if (o.op == 1 && there) model[o.key] = o.val;
            hits += there && o.op < 2;
            flying.erase(f);
            done++;
            idle = 0;
        }
        tick();
    }
    printf("%ld operations (%ld hits), %ld wrong; %.4f clocks an operation, %ld clocks refused\n", done, hits, bad, (double)clocks / ops, refused);
    return bad || done != ops + adds || refused != 0;
}
