// The engine under Verilator.
//
//   core_tb random   [--ops N] [--seed S] [--keys K] [--mem random|ddr3-1600|ddr4-2400|onchip] [--tight] [--types MASK] [--canary]
//       a random stream on few hot keys with random gaps, stalls and memory, every answer against a plain C++ model; under
//       --canary one memory write in 2000 is lost, and the run must fail
//   core_tb latency  [--mem ...] [--ctrl NS] [--key N] [--value N]
//       one request at a time, no refresh near it: clocks from its first beat in, and from its last, to the first and the last beat of its
//       answer, per operation (CSV). A beat that enters in one clock and an answer that leaves in the next are two clocks from the first beat
//       in (both ends counted) and one from the last
//   core_tb rate     [--mem ...] [--ctrl NS] [--key N] [--value N] [--hot] [--line]
//       as fast as the core takes them, or at a 10 Gbps line (--line): clocks per operation (CSV)
//   core_tb service  [--n N] [--mem ...] [--ctrl NS] [--key N] [--value N]
//       LPUSH and LPOP in turn on one list, N of each: clocks from the first beat in to the last beat out alone, at any time of the memory's
//       refresh, and clocks between answers while requests wait in the core (CSV, a row each)
//   core_tb vectors  [--burst] [--mem ...] --files FILE.json[,FILE.json ...]
//       the golden vectors of spec/vectors, one after the other, or all of a file without waiting
//
// Answers on one key come in the order of its requests (the core's lock), so the model runs a request when its answer is there. That also lets
// SPOP choose. Under --tight there is too little memory, and NO_MEMORY is right for any write; the model checks that nothing changed.
#include <map>
#include <set>
#include "../../sim/core_sim.h"

enum { PING = 0, GET, SET, DEL, LPUSH = 0x11, RPUSH, LPOP, RPOP, HGET = 0x21, HSET, HDEL, SADD = 0x31, SREM, SISMEMBER, SPOP,
       ZADD = 0x41, ZSCORE, ZREM, ZPOPMIN, ZRANGE, STATS = 0x70 };
static const char* name_of(int op) {
    switch (op) { case GET: return "GET"; case SET: return "SET"; case DEL: return "DEL"; case LPUSH: return "LPUSH"; case RPUSH: return "RPUSH";
        case LPOP: return "LPOP"; case RPOP: return "RPOP"; case HGET: return "HGET"; case HSET: return "HSET"; case HDEL: return "HDEL";
        case SADD: return "SADD"; case SREM: return "SREM"; case SISMEMBER: return "SISMEMBER"; case SPOP: return "SPOP"; case ZADD: return "ZADD";
        case ZSCORE: return "ZSCORE"; case ZREM: return "ZREM"; case ZPOPMIN: return "ZPOPMIN"; case ZRANGE: return "ZRANGE"; case PING: return "PING"; }
    return "?";
}
using Str = std::string;
struct Req { int op; Str key, sub, val; uint16_t id = 0; };

static void pad(Bytes& b, const Str& s, bool dirt = false) {
    b.insert(b.end(), s.begin(), s.end());
    while (b.size() % 8) b.push_back(dirt ? 0xa5 : 0);
}
static Bytes encode(const Req& r, bool dirt = false) {
    Bytes b{(uint8_t)r.op, 0x10, (uint8_t)r.key.size(), (uint8_t)r.sub.size(), (uint8_t)r.val.size(), (uint8_t)(r.val.size() >> 8), (uint8_t)r.id, (uint8_t)(r.id >> 8)};
    pad(b, r.key, dirt); pad(b, r.sub, dirt); pad(b, r.val, dirt);
    return b;
}
static Str le(uint64_t x, int n = 8) { return Str((char*)&x, n); }
static uint64_t un(const Str& s, int at = 0, int n = 8) { uint64_t x = 0; memcpy(&x, s.data() + at, n); return x; }

// ---- the model ----------------------------------------------------------------------------------------------------
struct Value { int type = 0; Str str; std::deque<Str> list; std::map<Str, Str> hash; std::set<Str> set; std::map<Str, uint64_t> z; };
struct Model {
    std::map<Str, Value> keys;
    bool tight = false;
    // is this answer right? (and do what it says)
    bool check(const Req& r, int status, const Str& v, Str& why) {
        auto it = keys.find(r.key);
        int type = r.op >> 4;
        auto want = [&](int s, const Str& w = "") {
            if (status == s && v == w) return true;
            why = "want status " + std::to_string(s) + " and " + std::to_string(w.size()) + " bytes";
            return false;
        };
        if (r.op == PING) return want(0);
        bool writes = r.op == SET || r.op == LPUSH || r.op == RPUSH || r.op == HSET || r.op == SADD || r.op == ZADD;
        if (it != keys.end() && it->second.type != type) return want(0x44);
        if (tight && writes && status == 0x45) return want(0x45);
        if (r.op == ZADD && status == 0x46) return it != keys.end() && it->second.z.size() >= 64 ? want(0x46) : want(0);
        if (it == keys.end()) {
            if (!writes) return want(1);
            it = keys.emplace(r.key, Value{}).first;
            it->second.type = type;
        }
        Value& x = it->second;
        bool ok = true;
        switch (r.op) {
        case GET: ok = want(0, x.str); break;
        case SET: x.str = r.val; ok = want(0); break;
        case DEL: keys.erase(it); return want(0);
        case LPUSH: x.list.push_front(r.val); ok = want(0); break;
        case RPUSH: x.list.push_back(r.val); ok = want(0); break;
        case LPOP: ok = want(0, x.list.front()); x.list.pop_front(); break;
        case RPOP: ok = want(0, x.list.back()); x.list.pop_back(); break;
        case HGET: ok = x.hash.count(r.sub) ? want(0, x.hash[r.sub]) : want(1); break;
        case HSET: ok = want(x.hash.count(r.sub) ? 2 : 0); x.hash[r.sub] = r.val; break;
        case HDEL: ok = want(x.hash.erase(r.sub) ? 0 : 1); break;
        case SADD: ok = want(x.set.insert(r.sub).second ? 0 : 2); break;
        case SREM: ok = want(x.set.erase(r.sub) ? 0 : 1); break;
        case SISMEMBER: ok = want(x.set.count(r.sub) ? 0 : 1); break;
        case SPOP: ok = x.set.erase(v) ? want(0, v) : want(0, "(some member)"); break;
        case ZADD: ok = want(x.z.count(r.sub) ? 2 : 0); x.z[r.sub] = un(r.val); break;
        case ZSCORE: ok = x.z.count(r.sub) ? want(0, le(x.z[r.sub])) : want(1); break;
        case ZREM: ok = want(x.z.erase(r.sub) ? 0 : 1); break;
        case ZPOPMIN: case ZRANGE: {
            std::vector<std::pair<uint64_t, Str>> o;
            for (auto& [m, s] : x.z) o.push_back({s, m});
            std::sort(o.begin(), o.end());
            uint64_t first = r.op == ZRANGE ? un(r.val, 0, 4) : 0, n = r.op == ZRANGE ? std::min<uint64_t>(14, un(r.val, 4, 4)) : 1;
            Str w;
            for (uint64_t i = first; i < o.size() && i < first + n; i++) {
                w += le(o[i].first) + le(o[i].second.size());
                Str m = o[i].second;
                m.resize(16);
                w += m;
            }
            ok = want(w.empty() ? 1 : 0, w);
            if (r.op == ZPOPMIN && !o.empty()) x.z.erase(o[0].second);
            break;
        }
        }
        if (type && x.list.empty() && x.hash.empty() && x.set.empty() && x.z.empty()) keys.erase(it);
        return ok;
    }
};

// ---- options ------------------------------------------------------------------------------------------------------
static std::map<Str, Str> opts;
static Str opt(const Str& k, const Str& d) { return opts.count(k) ? opts[k] : d; }
static long num(const Str& k, long d) { return opts.count(k) ? strtol(opts[k].c_str(), 0, 0) : d; }
static uint64_t seed;
static uint64_t rnd() { seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17; return seed >> 3; }

static int run_random() {
    CoreSim sim(dram_preset(opt("mem", "random"), num("ctrl", 30)));
    Model model;
    model.tight = opts.count("tight");
    if (opts.count("canary")) sim.dram.lose_one_in = 2000;  // memory that forgets: the model must notice
    long ops = num("ops", 20000), nkeys = num("keys", 24), types = num("types", 31), members = num("members", 24);
    std::map<uint16_t, Req> flying;
    std::map<Str, std::deque<uint16_t>> order;
    std::map<int, long> seen;
    long sent = 0, done = 0, bad = 0, last_done = 0;
    uint16_t tag = 0;
    int gap_pct = 0, stall_pct = 0;
    sim.gap = [&] { return (int)(rnd() % 100) < gap_pct; };
    sim.stall = [&] { return (int)(rnd() % 100) < stall_pct; };
    sim.on_answer = [&](CoreSim::Answer& a) {
        done++;
        last_done = sim.cycle;
        auto f = flying.find(a.tag);
        if (f == flying.end()) { printf("an answer nobody asked for, tag %u\n", a.tag); bad++; return; }
        Req r = f->second;
        auto& q = order[r.key];
        Str why;
        int status = a.data[1], len = a.data[4] | a.data[5] << 8;
        Str v(a.data.begin() + 8, a.data.begin() + std::min<size_t>(a.data.size(), 8 + len));
        if (a.drop || a.data[0] != (r.op | 0x80) || (a.data[6] | a.data[7] << 8) != r.id || a.data.size() != 8 + (size_t)(len + 7) / 8 * 8) why = "malformed answer";
        else if (q.front() != a.tag) why = "answers of one key out of order";
        else if (!model.check(r, status, v, why)) why += "";
        for (size_t i = 8 + len; i < a.data.size(); i++) if (a.data[i]) why = "padding is not zero";
        if (!why.empty() && bad++ < 10) printf("clock %lu: %s key %s sub %s: status %02x, %d bytes: %s\n", sim.cycle, name_of(r.op), r.key.c_str(), r.sub.c_str(), status, len, why.c_str());
        seen[r.op << 8 | status]++;
        for (auto i = q.begin(); i != q.end(); ++i) if (*i == a.tag) { q.erase(i); break; }
        flying.erase(f);
    };
    static const int kinds[][12] = {{GET, GET, SET, SET, DEL}, {LPUSH, RPUSH, LPOP, RPOP, LPUSH, RPUSH, LPOP}, {HGET, HGET, HSET, HSET, HDEL},
        {SADD, SADD, SREM, SISMEMBER, SPOP}, {ZADD, ZADD, ZADD, ZSCORE, ZREM, ZPOPMIN, ZRANGE}};
    static const int kn[] = {5, 7, 5, 5, 7};
    while ((done < ops || !flying.empty()) && bad < 10) {
        if (sim.cycle - last_done > 20000 && !flying.empty()) { printf("stuck: %zu requests on their way, nothing for 20000 clocks\n", flying.size()); bad++; break; }
        if (rnd() % 4096 == 0) { gap_pct = rnd() % 3 ? 0 : rnd() % 95; stall_pct = rnd() % 3 ? 0 : rnd() % 95; }
        if (sim.in.size() < 4 && sent < ops && flying.size() < 200) {
            Req r;
            int k = rnd() % nkeys, t;
            do t = rnd() % 5; while (!(types >> t & 1));
            unsigned long dice = rnd() % 64;  // mostly operations of the type that the key has now
            r.key = "k" + std::to_string(k) + Str(k % 3 == 0 ? 0 : k % 61, 'x');
            if (k % 7 == 0) r.key += Str(1, '\0');
            if (k % 7 == 1 && k) r.key = "k" + std::to_string(k - 1) + Str((k - 1) % 3 == 0 ? 0 : (k - 1) % 61, 'x') + "y";
            if (r.key.size() > 64) r.key.resize(64);
            auto now = model.keys.find(r.key);
            if (dice && now != model.keys.end()) t = now->second.type;
            r.op = kinds[t][rnd() % kn[t]];
            // phases in which a collection grows, and phases in which it shrinks
            if ((sim.cycle >> 14 & 1) && rnd() % 3 == 0) { int d[] = {DEL, LPOP, HDEL, SPOP, ZPOPMIN}; r.op = d[t]; }
            int m = rnd() % members;
            if (t == 2 || t == 3) { if (r.op != SPOP) r.sub = "m" + std::to_string(m) + Str(m % 60, 's'); }
            if (t == 4 && r.op != ZPOPMIN && r.op != ZRANGE) { r.sub = Str(1 + m % 16, 'a' + m % 5); if (m % 4 == 0) r.sub[r.sub.size() - 1] = 0; r.sub[0] = '0' + m / 16; }
            size_t room = 464 - (r.key.size() + 7) / 8 * 8 - (r.sub.size() + 7) / 8 * 8;
            if (r.op == SET || r.op == LPUSH || r.op == RPUSH || r.op == HSET) {
                size_t n = rnd() % 8 ? rnd() % 40 : rnd() % (room + 1);
                for (size_t i = 0; i < n; i++) r.val.push_back(rnd());
            }
            if (r.op == ZADD) r.val = le(0x8000000000000000ull + (rnd() % 4 ? rnd() % 8 : rnd() % 100000));
            if (r.op == ZRANGE) r.val = le(rnd() % 8 ? rnd() % members : rnd(), 4) + le(rnd() % 8 ? rnd() % 20 : rnd(), 4);
            if (rnd() % 512 == 0) r = Req{PING};
            r.id = rnd();
            while (flying.count(tag)) tag++;
            flying[tag] = r;
            order[r.key].push_back(tag);
            sim.in.push_back({encode(r, true), tag++});
            sent++;
        }
        sim.step();
    }
    printf("%ld operations in %lu clocks, %ld wrong; %lu reads, %lu writes of memory\n", done, sim.cycle, bad, sim.dram.reads, sim.dram.writes);
    for (auto& [k, n] : seen) printf("  %-9s %02x %ld\n", name_of(k >> 8), k & 255, n);
    return bad != 0;
}

// ---- measuring ----------------------------------------------------------------------------------------------------
struct Meter {
    CoreSim sim;
    std::map<uint16_t, uint64_t> first, sent;  // clocks of a request's first and last beat
    uint16_t tag = 0;
    long done = 0;
    std::function<void(uint16_t, CoreSim::Answer&)> cb;
    Meter(const DramTiming& t) : sim(t) {
        sim.on_first = [&](uint16_t t, uint64_t c) { first[t] = c; };
        sim.on_sent = [&](uint16_t t, uint64_t c) { sent[t] = c; };
        sim.on_answer = [&](CoreSim::Answer& a) { done++; if (cb) cb(a.tag, a); };
    }
    void push(const Req& r) { sim.in.push_back({encode(r), tag++}); }
    void drain() {
        long idle = 0;
        while ((!sim.in.empty() || done < pushed()) && idle++ < 2000000) sim.step();
        if (done < pushed()) { printf("the core does not answer\n"); exit(1); }
        for (int i = 0; i < 200; i++) sim.step();  // writes settle
    }
    long total = 0;
    long pushed() { return total; }
    void go(const Req& r) { total++; push(r); }
};
static Str key_of(int i, int n) { Str k = std::to_string(i); k.insert(0, Str(std::max(0, n - (int)k.size()), 'k')); return k; }

static int run_latency() {
    Meter m(dram_preset(opt("mem", "ddr3-1600"), num("ctrl", 30)));
    int kl = num("key", 8), vl = num("value", 8);
    Str v(vl, 'v'), s = "member01";
    if (!opts.count("no-header")) printf("memory,ctrl_ns,key,value,operation,case,status,clocks_first_out,clocks_last_out,from_last_in_to_first_out,from_last_in_to_last_out\n");
    int got = -1;
    auto one = [&](const char* what, Req r) {
        uint64_t f = 0, l = 0, sf = 0, sl = 0;
        m.cb = [&](uint16_t t, CoreSim::Answer& a) {
            f = a.first - m.first[t] + 1, l = a.last - m.first[t] + 1;
            sf = a.first - m.sent[t], sl = a.last - m.sent[t], got = a.data[1];
        };
        while (m.sim.dram.refresh_within(1500)) m.sim.step();
        m.go(r);
        m.drain();
        printf("%s,%ld,%d,%d,%s,%s,%02x,%lu,%lu,%lu,%lu\n", opt("mem", "ddr3-1600").c_str(), num("ctrl", 30), kl, vl, name_of(r.op), what, got, f, l, sf, sl);
    };
    auto quiet = [&](Req r) { m.cb = nullptr; m.go(r); m.drain(); };
    auto k = [&](const char* n) { Str x = n; x.resize(kl, '.'); return x; };
    one("miss", {GET, k("s"), "", ""});
    one("miss", {SET, k("s"), "", v});
    one("hit", {SET, k("s"), "", v});
    one("hit", {GET, k("s"), "", ""});
    one("hit other length", {SET, k("s"), "", v + "12345678"});
    one("hit", {DEL, k("s"), "", ""});
    one("miss", {LPOP, k("l"), "", ""});
    one("first", {LPUSH, k("l"), "", v});
    one("second", {LPUSH, k("l"), "", v});
    one("third", {RPUSH, k("l"), "", v});
    quiet({RPUSH, k("l"), "", v});
    one("of four", {LPOP, k("l"), "", ""});
    one("of three", {RPOP, k("l"), "", ""});
    one("miss", {HGET, k("h"), s, ""});
    one("first field", {HSET, k("h"), s, v});
    one("second field", {HSET, k("h"), "member02", v});
    one("hit", {HSET, k("h"), s, v});
    one("hit", {HGET, k("h"), s, ""});
    one("hit", {HDEL, k("h"), s, ""});
    one("first member", {SADD, k("t"), s, ""});
    one("second member", {SADD, k("t"), "member02", ""});
    quiet({SADD, k("t"), "member03", ""});
    quiet({SADD, k("t"), "member04", ""});
    one("hit", {SISMEMBER, k("t"), s, ""});
    one("hit", {SREM, k("t"), s, ""});
    one("of three", {SPOP, k("t"), "", ""});
    Str z = le(0x8000000000000000ull), z2 = le(0x8000000000000005ull);
    one("first member", {ZADD, k("z"), s, z});
    one("second member", {ZADD, k("z"), "member02", z});
    for (int i = 10; i < 60; i++) quiet({ZADD, k("z"), "member" + std::to_string(i), z});
    one("new of 52", {ZADD, k("z"), "member99", z});
    one("hit", {ZADD, k("z"), "member99", z2});
    one("hit", {ZSCORE, k("z"), s, ""});
    one("one of 53", {ZRANGE, k("z"), "", le(20, 4) + le(1, 4)});
    one("hit", {ZREM, k("z"), s, ""});
    one("of 52", {ZPOPMIN, k("z"), "", ""});
    return 0;
}

static int run_service() {
    Meter m(dram_preset(opt("mem", "ddr3-1600"), num("ctrl", 30)));
    int n = num("n", 2000), vl = num("value", 64);
    Str key = key_of(7, num("key", 64)), v(vl, 'v');
    auto push = [&] { m.go({LPUSH, key, "", v}); };
    auto pop = [&] { m.go({LPOP, key, "", ""}); };
    for (int i = 0; i < 4; i++) push();
    m.drain();
    printf("how,operation,clocks\n");
    uint64_t before = 0;
    const char* how = "alone";
    m.cb = [&](uint16_t t, CoreSim::Answer& a) {
        const char* op = name_of(a.data[0] & 0x7f);
        if (before) printf("%s,%s,%lu\n", how, op, a.last - before);
        else if (*how == 'a') printf("%s,%s,%lu\n", how, op, a.last - m.first[t] + 1);
        if (*how != 'a') before = a.last;
    };
    for (int i = 0; i < 2 * n; i++) {
        for (int wait = rnd() % 400; wait > 0; wait--) m.sim.step();
        i % 2 ? pop() : push();
        m.drain();
    }
    how = "backlogged";
    for (int i = 0; i < 2 * n; i++) {
        while (m.sim.in.size() >= 4) m.sim.step();
        i % 2 ? pop() : push();
    }
    m.drain();
    return 0;
}

static int run_rate() {
    Str mem = opt("mem", "ddr3-1600");
    int kl = num("key", 8), vl = num("value", 8), n = num("n", 1000), sets = 96;
    bool hot = opts.count("hot"), line = opts.count("line");
    Str only = opt("op", "");
    if (!opts.count("no-header")) printf("contexts,ports,memory,ctrl_ns,key,value,keys,ingress,operation,case,operations,clocks_per_op,clocks_per_op_at_line,mops_at_156.25\n");
    struct Case { const char* what; int op; std::function<void(Meter&)> prepare; std::function<Req(int)> req; };
    Str v(vl, 'v');
    auto K = [&](int i) { return key_of(hot ? 7 : i % sets, kl); };
    auto KK = [&](int i) { return key_of(i, kl); };
    auto score = [](int i) { return le(0x8000000000000000ull + i); };
    auto mem_of = [](int i) { return key_of(i, 8); };
    int per = 12;  // items a collection when prepared
    if (vl >= 200) sets = 48, per = 6;  // there are 1024 cells of 512 bytes
    auto fill = [&](int op, bool sub, bool val) {
        return [=, &v](Meter& m) {
            for (int i = 0; i < (hot ? 1 : sets); i++)
                for (int j = 0; j < (op == SET ? 1 : hot && op == ZADD ? 60 : hot ? 12 * per : per); j++)
                    m.go({op, K(i), sub ? mem_of(j) : "", op == ZADD ? score(j) : val ? v : ""});
        };
    };
    auto nothing = [](Meter&) {};
    std::vector<Case> cases = {
        {"hit", GET, fill(SET, 0, 1), [&](int i) { return Req{GET, K(i), "", ""}; }},
        {"miss", GET, nothing, [&](int i) { return Req{GET, K(i), "", ""}; }},
        {"hit", SET, fill(SET, 0, 1), [&](int i) { return Req{SET, K(i), "", v}; }},
        {"miss", SET, nothing, [&](int i) { return Req{SET, KK(i), "", v}; }},
        {"push", LPUSH, fill(LPUSH, 0, 1), [&](int i) { return Req{LPUSH, K(i), "", v}; }},
        {"pop", LPOP, fill(LPUSH, 0, 1), [&](int i) { return Req{LPOP, K(i), "", ""}; }},
        {"pop", RPOP, fill(LPUSH, 0, 1), [&](int i) { return Req{RPOP, K(i), "", ""}; }},
        {"hit", HGET, fill(HSET, 1, 1), [&](int i) { return Req{HGET, K(i), mem_of(i / sets % per), ""}; }},
        {"hit", HSET, fill(HSET, 1, 1), [&](int i) { return Req{HSET, K(i), mem_of(i / sets % per), v}; }},
        {"new field", HSET, fill(HSET, 1, 1), [&](int i) { return Req{HSET, K(i), mem_of(1000 + i), v}; }},
        {"hit", SISMEMBER, fill(SADD, 1, 0), [&](int i) { return Req{SISMEMBER, K(i), mem_of(i / sets % per), ""}; }},
        {"new member", SADD, fill(SADD, 1, 0), [&](int i) { return Req{SADD, K(i), mem_of(1000 + i), ""}; }},
        {"pop", SPOP, fill(SADD, 1, 0), [&](int i) { return Req{SPOP, K(i), "", ""}; }},
        {"hit", ZSCORE, fill(ZADD, 1, 0), [&](int i) { return Req{ZSCORE, K(i), mem_of(i / sets % per), ""}; }},
        {"new member", ZADD, fill(ZADD, 1, 0), [&](int i) { return Req{ZADD, K(i), mem_of(1000 + i), score(1000 - i)}; }},
        {"new score", ZADD, fill(ZADD, 1, 0), [&](int i) { return Req{ZADD, K(i), mem_of(i / sets % per), score(5000 + i * 7919 % 1000)}; }},
        {"pop", ZPOPMIN, fill(ZADD, 1, 0), [&](int i) { return Req{ZPOPMIN, K(i), "", ""}; }},
        {"one by rank", ZRANGE, fill(ZADD, 1, 0), [&](int i) { return Req{ZRANGE, K(i), "", le(i % per, 4) + le(1, 4)}; }},
        {"fourteen", ZRANGE, fill(ZADD, 1, 0), [&](int i) { return Req{ZRANGE, K(i), "", le(0, 4) + le(14, 4)}; }},
    };
    for (auto& c : cases) {
        if (!only.empty() && only != Str(name_of(c.op))) continue;
        Meter m(dram_preset(mem, num("ctrl", 30)));
        c.prepare(m);
        m.drain();
        long before = m.done;
        uint64_t start = m.sim.cycle, end = 0;
        // what the request takes on a 10 Gbps line: 8 bytes a clock; 42 of headers, 4 FCS, 8 preamble, 12 gap, 60+4 at least
        size_t bytes = encode(c.req(0)).size();
        double slot = (std::max<size_t>(64, bytes + 46) + 20) / 8.0;
        long wrong = 0;
        int bad_status = 0;
        m.cb = [&](uint16_t, CoreSim::Answer& a) { end = m.sim.cycle; if (a.data[1] >= 0x40) { wrong++; bad_status = a.data[1]; } };
        int count = hot && c.op == ZADD && Str(c.what) == "new member" ? 40 : n, i = 0;
        if (hot && (c.op == LPOP || c.op == RPOP || c.op == SPOP)) count = 12 * per;
        if (hot && c.op == ZPOPMIN) count = 60;
        if (!hot && (c.op == LPOP || c.op == RPOP)) count = std::min(count, sets * per);
        double due = m.sim.cycle;
        while (i < count) {
            while (i < count && (line ? due <= m.sim.cycle : m.sim.in.size() < 4)) { m.go(c.req(i++)); due += slot; }
            m.sim.step();
        }
        m.drain();
        double per_op = (double)(end - start) / (m.done - before);
        printf("%d,%d,%s,%ld,%d,%d,%s,%s,%s,%s,%ld,%.2f,%.2f,%.2f%s\n", CoreSim::N, CoreSim::P, mem.c_str(), num("ctrl", 30), kl, vl,
            hot ? "one" : std::to_string(sets).c_str(), line ? "line" : "saturated", name_of(c.op), c.what, m.done - before, per_op, slot, 156.25 / per_op, wrong ? (",WRONG " + std::to_string(wrong) + " answers with " + std::to_string(bad_status)).c_str() : "");
        fflush(stdout);
    }
    return 0;
}

// ---- golden vectors -----------------------------------------------------------------------------------------------
static Bytes unhex(const Str& h) {
    Bytes b;
    for (size_t i = 0; i + 1 < h.size(); i += 2) b.push_back(strtol(h.substr(i, 2).c_str(), 0, 16));
    return b;
}
struct Step { Bytes send; std::vector<Bytes> answers; };
// the files are written by one generator, a step a line; anything else in them is an error
static std::vector<Step> load(const Str& file) {
    FILE* f = fopen(file.c_str(), "r");
    if (!f) { perror(file.c_str()); exit(2); }
    std::vector<Step> steps;
    std::string text;
    char buf[65536];
    while (size_t n = fread(buf, 1, sizeof buf, f)) text.append(buf, n);
    fclose(f);
    const Str key = "{\"send\": \"", ans = "\", \"answers\": [";
    for (size_t at = 0; (at = text.find(key, at)) != Str::npos;) {
        at += key.size();
        size_t end = text.find('"', at);
        Step s{unhex(text.substr(at, end - at)), {}};
        if (text.compare(end, ans.size(), ans)) { fprintf(stderr, "%s: not a step\n", file.c_str()); exit(2); }
        size_t a = end + ans.size(), close = text.find(']', a);
        for (size_t q; (q = text.find('"', a)) < close; a = text.find('"', q + 1) + 1) s.answers.push_back(unhex(text.substr(q + 1, text.find('"', q + 1) - q - 1)));
        steps.push_back(s);
        at = close;
    }
    return steps;
}
static int run_vectors() {
    long steps_done = 0, bad = 0;
    Str files = opt("files", "");
    for (size_t at = 0; at < files.size();) {
        size_t end = std::min(files.find(',', at), files.size());
        Str file = files.substr(at, end - at);
        at = end + 1;
        auto steps = load(file);
        if (steps.empty()) { printf("%s: no steps\n", file.c_str()); bad++; }
        CoreSim sim(dram_preset(opt("mem", "random"), num("ctrl", 30)));
        size_t answered = 0, sent = 0;
        sim.on_answer = [&](CoreSim::Answer& a) {
            auto& s = steps.at(a.tag);
            answered++;
            bool ok = a.drop ? s.answers.empty() : std::find(s.answers.begin(), s.answers.end(), a.data) != s.answers.end();
            if (!ok && bad++ < 10) {
                printf("%s: step %u: the answer is %s", file.c_str(), a.tag, a.drop ? "none" : "");
                if (!a.drop) for (auto b : a.data) printf("%02x", b);
                printf("\n");
            }
        };
        for (size_t i = 0; i < steps.size(); i++) {
            steps_done++;
            if (steps[i].send.empty()) continue;  // no datagram has no beat: the network side's business
            sim.in.push_back({steps[i].send, (uint16_t)i});
            sent++;
            // some steps allow several answers, and what follows was written for one of them: those files wait and are small
            for (int c = 0; c < 100000 && (opts.count("burst") ? sim.in.size() > 3 : answered < sent); c++) sim.step();
        }
        for (int c = 0; c < 100000 && answered < sent; c++) sim.step();
        if (answered != sent) { printf("%s: %zu answers to %zu requests\n", file.c_str(), answered, sent); bad++; }
    }
    printf("%ld steps, %ld wrong\n", steps_done, bad);
    return bad != 0;
}

int main(int argc, char** argv) {
    Str mode = argc > 1 ? argv[1] : "random";
    for (int i = 2; i < argc; i++) {
        Str a = argv[i];
        if (a.rfind("--", 0)) { fprintf(stderr, "what is %s?\n", a.c_str()); return 2; }
        if (i + 1 < argc && Str(argv[i + 1]).rfind("--", 0)) opts[a.substr(2)] = argv[i + 1], i++;
        else opts[a.substr(2)] = "1";
    }
    seed = num("seed", 1) * 0x9e3779b97f4a7c15ull | 1;
    for (int i = 0; i < 8; i++) rnd();
    if (mode == "random") return run_random();
    if (mode == "latency") return run_latency();
    if (mode == "rate") return run_rate();
    if (mode == "service") return run_service();
    if (mode == "vectors") return run_vectors();
    fprintf(stderr, "random, latency, rate, service or vectors\n");
    return 2;
}
