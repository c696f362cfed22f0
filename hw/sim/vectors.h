// Golden vectors (spec/vectors) through the whole appliance, as frames. A file has one step a line, so a scan for its two
// fields is all the parsing that is needed.
#pragma once
#include <cstdio>
#include <fstream>
#include <map>
#include "top_sim.h"

struct Step { std::string line; Bytes send; std::vector<Bytes> answers; uint64_t at_ns = 0; };

inline Bytes unhex(const std::string& s) {
    Bytes b;
    for (size_t i = 0; i + 1 < s.size(); i += 2) b.push_back(std::stoi(s.substr(i, 2), nullptr, 16));
    return b;
}

inline std::vector<Step> load(const std::string& path) {
    std::vector<Step> steps;
    std::ifstream f(path);
    for (std::string line; std::getline(f, line);) {
        size_t at = line.find("\"send\": \"");
        if (at == std::string::npos) continue;
        at += 9;
        Step s{line, unhex(line.substr(at, line.find('"', at) - at)), {}, 0};
        size_t open = line.find('[', at), close = line.find(']', open);
        for (size_t q = line.find('"', open); q < close; q = line.find('"', q + 1)) {
            size_t e = line.find('"', q + 1);
            s.answers.push_back(unhex(line.substr(q + 1, e - q - 1)));
            q = e;
        }
        size_t ns = line.find("\"at_ns\": ");
        if (ns != std::string::npos) s.at_ns = std::stoull(line.substr(ns + 9));
        steps.push_back(s);
    }
    return steps;
}

struct Played { uint64_t answered = 0, dropped = 0, wrong = 0, cycles = 0, worst = 0, total = 0; };

inline bool allowed(const Step& s, const Bytes& got) {
    for (auto& a : s.answers) if (a == got) return true;
    return false;
}
inline void say(const char* what, const Step& s, const Bytes& got) {
    fprintf(stderr, "%s:", what);
    for (auto b : got) fprintf(stderr, "%02x", b);
    fprintf(stderr, "\n  %s\n", s.line.c_str());
}

// One step after the other: each answer is waited for, and for those without one as long as the slowest answer may take.
inline Played play_steps(const std::vector<Step>& steps, const DramTiming& memory, bool stalls) {
    const uint64_t patience = 20000, silence = 400;
    Played r;
    TopSim sim(memory);
    sim.random_stalls = stalls;
    std::deque<Bytes> answers;
    std::string why;
    sim.on_frame = [&](Bytes& f, uint64_t) {
        auto d = read_frame(sim.us, f, why);
        if (!d) fprintf(stderr, "a malformed frame was sent: %s\n", why.c_str()), r.wrong++;
        else answers.push_back(d->payload);
    };
    for (auto& s : steps) {
        // What is longer than a frame is cut into fragments by IP and never reaches us whole.
        if (s.send.size() > 1472) { r.dropped++; continue; }
        uint64_t start = sim.cycle;
        sim.send(make_frame(sim.us, Peer{}, s.send.data(), s.send.size()));
        uint64_t limit = s.answers.empty() ? silence : patience;
        while (answers.empty() && sim.cycle - start < limit) sim.step();
        if (answers.empty() != s.answers.empty()) say(answers.empty() ? "no answer" : "an answer to what is to be dropped", s, answers.empty() ? Bytes() : answers[0]), r.wrong++;
        else if (s.answers.empty()) r.dropped++;
        else if (!allowed(s, answers[0])) say("answered", s, answers[0]), r.wrong++;
        else r.answered++;
        r.worst = std::max(r.worst, sim.cycle - start);
        answers.clear();
    }
    r.cycles = sim.cycle;
    return r;
}

// A timed trace: each frame enters at its time, or as soon as the line lets it; answers come in any order.
inline Played play_trace(const std::vector<Step>& steps, const DramTiming& memory) {
    Played r;
    TopSim sim(memory);
    std::map<uint16_t, std::pair<const Step*, uint64_t>> due;
    std::deque<const Step*> to_start;
    std::string why;
    auto id_of = [](const Bytes& b) { return (uint16_t)(b[6] | b[7] << 8); };
    sim.on_start = [&](uint64_t now) { due[id_of(to_start.front()->send)] = {to_start.front(), now}; to_start.pop_front(); };
    sim.on_frame = [&](Bytes& f, uint64_t now) {
        auto d = read_frame(sim.us, f, why);
        auto it = d ? due.find(id_of(d->payload)) : due.end();
        if (it == due.end()) { fprintf(stderr, "a frame that nobody waits for: %s\n", why.c_str()); r.wrong++; return; }
        if (!allowed(*it->second.first, d->payload)) say("answered", *it->second.first, d->payload), r.wrong++;
        else r.answered++;
        uint64_t took = now - it->second.second;
        r.worst = std::max(r.worst, took);
        r.total += took;
        due.erase(it);
    };
    uint64_t zero = sim.cycle;
    for (auto& s : steps) {
        sim.send(make_frame(sim.us, Peer{}, s.send.data(), s.send.size()), zero + (uint64_t)(s.at_ns / TopSim::ClockNs));
        to_start.push_back(&s);
    }
    uint64_t limit = sim.cycle + 1000000;
    while ((!sim.in.empty() || !due.empty()) && sim.cycle < limit) sim.step();
    r.wrong += due.size() + sim.in.size();
    for (auto& [id, d] : due) say("no answer", *d.first, {});
    r.cycles = sim.cycle - zero;
    return r;
}
