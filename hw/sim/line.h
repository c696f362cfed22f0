// Figures of the whole: requests as fast as a 10 Gbit/s line brings them, and one at a time. Clocks are counted in the model,
// from the first beat of the request's frame to the last beat of the answer's.
//
// Keys have 8 bytes, values `value` bytes. A stream asks for many keys in turn, so that nothing waits for its predecessor on the
// same key, except where that is the operation's nature (pops of one list).
#pragma once
#include <map>
#include "top_sim.h"

struct Load {
    const char* name;
    const char* type;
    const char* kind;                       // READ or WRITE, as the paper has it
    uint8_t op;
    bool hit;
    std::function<Bytes(uint64_t)> request;  // the i-th
    std::vector<std::function<Bytes(uint64_t)>> before;  // what has to be there: each sent for every i
    int status;                              // that every answer has
};

inline Bytes request(uint8_t op, const Bytes& key, const Bytes& sub = {}, const Bytes& value = {}) {
    Bytes b{op, 0x10, (uint8_t)key.size(), (uint8_t)sub.size(), (uint8_t)value.size(), (uint8_t)(value.size() >> 8), 0, 0};
    for (auto* part : {&key, &sub, &value}) {
        b.insert(b.end(), part->begin(), part->end());
        while (b.size() % 8) b.push_back(0);
    }
    return b;
}
inline Bytes eight(char type, uint64_t i) {
    Bytes b{(uint8_t)type};
    for (int k = 0; k < 7; k++) b.push_back('0' + (i >> 4 * k & 15));
    return b;
}

struct Line {
    TopSim sim;
    struct Due { uint64_t start; };
    std::map<uint16_t, uint64_t> due;
    std::deque<uint16_t> starting;
    uint64_t answered = 0, wrong = 0, worst = 0, total = 0, best = ~0ull, last = 0, first = 0;
    int want = 0;
    uint16_t next = 0;
    size_t answer_bytes = 0;

    explicit Line(const DramTiming& t) : sim(t) {
        sim.on_start = [&](uint64_t now) { due[starting.front()] = now; starting.pop_front(); };
        sim.on_frame = [&](Bytes& f, uint64_t now) {
            std::string why;
            answer_bytes = f.size();
            auto d = read_frame(sim.us, f, why);
            auto it = d ? due.find(d->payload[6] | d->payload[7] << 8) : due.end();
            if (it == due.end() || d->payload[1] != want) { wrong++; if (it == due.end()) return; }
            uint64_t took = now - it->second;
            total += took, worst = std::max(worst, took), best = std::min(best, took), last = now, answered++;
            due.erase(it);
        };
    }
    void put(Bytes r, uint64_t not_before) {
        r[6] = next, r[7] = next >> 8;
        starting.push_back(next++);
        sim.send(make_frame(sim.us, Peer{}, r.data(), r.size()), not_before);
    }
    // Sends n requests with at most `window` on the way, one every `pace` clocks at most, and waits for their answers.
    void run(uint64_t n, const std::function<Bytes(uint64_t)>& make, int status, size_t window, double pace = 0) {
        answered = wrong = worst = total = 0, best = ~0ull, want = status, first = sim.cycle;
        uint64_t sent = 0, limit = sim.cycle + 2000 * n + 100000, lost = sim.counter(9);
        while (answered < n && sim.cycle < limit && answered + (sim.counter(9) - lost) < n) {
            while (sent < n && starting.size() + due.size() < window && sim.in.size() < 4) { put(make(sent), first + (uint64_t)(sent * pace)); sent++; }
            sim.step();
        }
        due.clear();
    }
};

inline std::vector<Load> loads(size_t value, uint64_t n) {
    Bytes v(value, 'v');
    auto key = [](char t) { return [t](uint64_t i) { return eight(t, i); }; };
    auto score = [](uint64_t i) { Bytes b; for (int k = 0; k < 8; k++) b.push_back((0x8000000000000000ull + i) >> 8 * k); return b; };
    auto s = key('s'), l = key('l'), h = key('h'), e = key('e'), z = key('z');
    Bytes m{'m', 'e', 'm', 'b', 'e', 'r', '0', '1'};
    auto set = [=](uint64_t i) { return request(0x02, s(i), {}, v); };
    auto push = [=](uint64_t i) { return request(0x11, l(i), {}, v); };
    auto hset = [=](uint64_t i) { return request(0x22, h(i), m, v); };
    auto sadd = [=](uint64_t i) { return request(0x31, e(i), m); };
    // 16 members a sorted set, asked in turn: within what the order units' directory holds.
    const uint64_t sets = std::max<uint64_t>(1, n / 16);
    auto zadd = [=](uint64_t i) { return request(0x41, z(i % sets), eight('m', i / sets), score(i * 7 % 1000)); };
    return {
        {"GET hit", "string", "READ", 0x01, true, [=](uint64_t i) { return request(0x01, s(i)); }, {set}, 0},
        {"GET miss", "string", "READ", 0x01, false, [=](uint64_t i) { return request(0x01, s(i)); }, {}, 1},
        {"SET new", "string", "WRITE", 0x02, false, set, {}, 0},
        {"SET replaces", "string", "WRITE", 0x02, true, set, {set}, 0},
        {"LPUSH", "list", "WRITE", 0x11, true, push, {push}, 0},
        {"LPOP", "list", "READ", 0x13, true, [=](uint64_t i) { return request(0x13, l(i)); }, {push, push}, 0},
        {"HGET hit", "hash", "READ", 0x21, true, [=](uint64_t i) { return request(0x21, h(i), m); }, {hset}, 0},
        {"HSET new", "hash", "WRITE", 0x22, false, hset, {}, 0},
        {"HSET replaces", "hash", "WRITE", 0x22, true, hset, {hset}, 2},
        {"SADD", "set", "WRITE", 0x31, false, sadd, {}, 0},
        {"SISMEMBER", "set", "READ", 0x33, true, [=](uint64_t i) { return request(0x33, e(i), m); }, {sadd}, 0},
        {"SPOP", "set", "READ", 0x34, true, [=](uint64_t i) { return request(0x34, e(i)); }, {sadd}, 0},
        {"ZADD", "sorted set", "WRITE", 0x41, false, zadd, {}, 0},
        {"ZSCORE", "sorted set", "READ", 0x42, true, [=](uint64_t i) { return request(0x42, z(i % sets), eight('m', i / sets)); }, {zadd}, 0},
        {"ZPOPMIN", "sorted set", "READ", 0x44, true, [=](uint64_t i) { return request(0x44, z(i % sets)); }, {zadd}, 0},
    };
}

// What a rate may be above the line's and still count as kept: the last answers of a run stand beyond its time.
constexpr double Slack = 1.02;

inline int line(const DramTiming& memory, size_t value, uint64_t n) {
    printf("operation,type,kind,memory,value bytes,request frame,answer frame,line clocks per request,clocks per request,answered,lost,wrong,"
           "unloaded clocks,loaded mean clocks,loaded worst clocks\n");
    uint64_t bad = 0;
    // Sorted sets: fewer items, since an order unit holds what it holds.
    const uint64_t few = std::min<uint64_t>(n, 480) / 16 * 16;
    auto all = loads(value, few), ones = loads(value, 32);
    for (size_t i = 0; i < all.size(); i++) {
        auto &load = all[i], &one = ones[i];
        uint64_t many = load.op >> 4 == 4 ? few : n;
        uint64_t alone = 0;
        size_t asked = 0, told = 0;
        {
            Line x(memory);
            for (auto& b : one.before) x.run(32, b, 0, 1);
            x.run(32, one.request, one.status, 1);
            alone = x.answered == 32 ? x.total / 32 : 0;
            bad += x.wrong + 32 - x.answered;
            told = x.answer_bytes;
            Bytes q = one.request(0);
            asked = make_frame(x.sim.us, Peer{}, q.data(), q.size()).size();
        }
        Line x(memory);
        for (auto& b : load.before) x.run(many, b, 0, 8);
        uint64_t lost = x.sim.counter(9);
        // The line carries both directions, so the longer frame of the two sets the pace.
        double pace = (std::max(asked, told) + 24) / 8.0;
        x.run(many, load.request, load.status, 100000, pace);
        lost = x.sim.counter(9) - lost;
        // From the first request's first beat: what the last answer took stands beyond the stream's own time.
        double clocks = x.answered > 1 ? double(x.last - x.first - x.best) / (x.answered - 1) : 0;
        printf("%s,%s,%s,%s,%zu,%zu,%zu,%.2f,%.2f,%llu,%llu,%llu,%llu,%.1f,%llu\n", load.name, load.type, load.kind, memory.name.c_str(), value, asked, told,
               pace, clocks, (unsigned long long)x.answered, (unsigned long long)lost, (unsigned long long)x.wrong,
               (unsigned long long)alone, x.answered ? (double)x.total / x.answered : 0, (unsigned long long)x.worst);
        fflush(stdout);
        if (lost || clocks > pace * Slack) fprintf(stderr, "%s does not keep the line: %.2f clocks for %.2f, %llu lost\n", load.name, clocks, pace, (unsigned long long)lost), bad++;
        bad += x.wrong;
    }
    return bad != 0;
}
