// The appliance under Verilator.
//
//   appliance vectors [--memory M] [--stalls] FILE…   golden vectors, frame by frame; timed traces at their times
//   appliance line [--memory M] [--value N] [--requests N]   figures at line rate and one at a time, as CSV
//   appliance udp ADDRESS:PORT [--memory M]           answers datagrams of a UDP socket: each becomes a frame and back
//   appliance tap NAME [--memory M]                   is the host at the other end of a TAP device: 10.0.0.2, port 6380
//
// Memory: ddr4-2400 (default), ddr3-1600, onchip, random (sim/dram.h says what that models); --ctrl NS is what a controller adds.
// Time in the model is counted in clocks, never measured: with udp and tap it runs as fast as the machine can while there is work,
// and stands still while there is none.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cerrno>
#include "line.h"
#include "vectors.h"

static volatile sig_atomic_t stopped = 0;
static void stop(int) { stopped = 1; }

static int fail(const char* what) {
    fprintf(stderr, "appliance: %s: %s\n", what, strerror(errno));
    return 1;
}

static int vectors(const std::vector<std::string>& files, const DramTiming& memory, bool stalls) {
    uint64_t wrong = 0, answered = 0, dropped = 0;
    for (auto& file : files) {
        auto steps = load(file);
        std::string name = file.substr(file.rfind('/') + 1);
        bool trace = name.rfind("trace", 0) == 0;
        Played r = trace ? play_trace(steps, memory) : play_steps(steps, memory, stalls);
        printf("%-22s %5llu answered %5llu dropped %3llu wrong  %8llu clocks", name.c_str(), (unsigned long long)r.answered,
               (unsigned long long)r.dropped, (unsigned long long)r.wrong, (unsigned long long)r.cycles);
        if (trace && r.answered) printf("  from first beat in to last beat out: mean %.1f, worst %llu", (double)r.total / r.answered, (unsigned long long)r.worst);
        printf("\n");
        wrong += r.wrong, answered += r.answered, dropped += r.dropped;
        if (steps.empty() || r.answered + r.dropped + r.wrong < steps.size()) wrong++, fprintf(stderr, "%s was not played whole\n", name.c_str());
    }
    printf("hw: vectors: %llu answered, %llu dropped, %llu wrong\n", (unsigned long long)answered, (unsigned long long)dropped, (unsigned long long)wrong);
    return wrong || files.empty();
}

// Steps while there is work, and some more clocks, so that what is on its way inside comes out. What is never answered (a dropped
// frame) does not keep it busy for ever.
struct Pace {
    static constexpr uint64_t Rest = 3000;
    uint64_t busy_until = 0;
    bool busy(const TopSim& sim) const { return !sim.in.empty() || sim.cycle < busy_until; }
    void work(const TopSim& sim) { busy_until = sim.cycle + Rest; }
};

static int udp(const std::string& where, const DramTiming& memory) {
    size_t colon = where.rfind(':');
    if (colon == std::string::npos) { fprintf(stderr, "appliance: ADDRESS:PORT, not %s\n", where.c_str()); return 2; }
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(std::stoi(where.substr(colon + 1)));
    if (inet_pton(AF_INET, where.substr(0, colon).c_str(), &at.sin_addr) != 1) return fail("address");
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    if (s < 0 || bind(s, (sockaddr*)&at, sizeof at)) return fail("socket");
    // A signal may come just before the wait, so that must end by itself.
    timeval patience{0, 200000};
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    socklen_t len = sizeof at;
    getsockname(s, (sockaddr*)&at, &len);

    TopSim sim(memory);
    Pace pace;
    constexpr int Batch = 64;
    std::vector<Bytes> in(Batch, Bytes(2048));
    std::vector<sockaddr_in> from(Batch);
    struct Out { sockaddr_in to; Bytes payload; };
    std::vector<Out> out;
    std::string why;
    uint64_t bad = 0;
    sim.on_frame = [&](Bytes& f, uint64_t) {
        auto d = read_frame(sim.us, f, why);
        if (!d) { bad++; fprintf(stderr, "appliance: a malformed frame was sent: %s\n", why.c_str()); return; }
        sockaddr_in to{};
        to.sin_family = AF_INET, to.sin_addr.s_addr = htonl(d->to.ip), to.sin_port = htons(d->to.port);
        out.push_back({to, d->payload});
    };
    printf("appliance: datagrams at %s:%d, memory %s\n", inet_ntoa(at.sin_addr), ntohs(at.sin_port), memory.name.c_str());
    fflush(stdout);
    while (!stopped) {
        mmsghdr hdr[Batch] = {};
        iovec iov[Batch];
        for (int i = 0; i < Batch; i++) {
            iov[i] = {in[i].data(), in[i].size()};
            hdr[i].msg_hdr.msg_iov = &iov[i], hdr[i].msg_hdr.msg_iovlen = 1;
            hdr[i].msg_hdr.msg_name = &from[i], hdr[i].msg_hdr.msg_namelen = sizeof from[i];
        }
        // Half of the receive buffer's worth may wait in front of the line; more stays in the kernel's.
        int n = sim.in.size() < 2 * Batch ? recvmmsg(s, hdr, Batch, pace.busy(sim) ? MSG_DONTWAIT : MSG_WAITFORONE, nullptr) : 0;
        if (n < 0 && errno != EAGAIN && errno != EINTR) return fail("recvmmsg");
        for (int i = 0; i < n; i++) {
            size_t size = hdr[i].msg_len;
            if (size > 1472) continue;  // on a real line it would come in fragments, which are dropped
            Peer p;
            p.ip = ntohl(from[i].sin_addr.s_addr), p.port = ntohs(from[i].sin_port);
            sim.send(make_frame(sim.us, p, in[i].data(), size));
            pace.work(sim);
        }
        for (int i = 0; i < 256 && pace.busy(sim); i++) sim.step();
        for (size_t first = 0; first < out.size(); first += Batch) {
            size_t many = std::min<size_t>(Batch, out.size() - first);
            mmsghdr oh[Batch] = {};
            iovec ov[Batch];
            for (size_t i = 0; i < many; i++) {
                auto& o = out[first + i];
                ov[i] = {o.payload.data(), o.payload.size()};
                oh[i].msg_hdr.msg_iov = &ov[i], oh[i].msg_hdr.msg_iovlen = 1;
                oh[i].msg_hdr.msg_name = &o.to, oh[i].msg_hdr.msg_namelen = sizeof o.to;
            }
            sendmmsg(s, oh, many, 0);
            pace.work(sim);
        }
        out.clear();
    }
    printf("appliance: %llu clocks, %llu requests, %llu answers\n", (unsigned long long)sim.cycle, (unsigned long long)sim.counter(0), (unsigned long long)sim.counter(1));
    return bad != 0;
}

static int tap(const std::string& name, const DramTiming& memory) {
    int t = open("/dev/net/tun", O_RDWR);
    if (t < 0) return fail("/dev/net/tun");
    ifreq r{};
    r.ifr_flags = IFF_TAP | IFF_NO_PI;
    strncpy(r.ifr_name, name.c_str(), IFNAMSIZ - 1);
    if (ioctl(t, TUNSETIFF, &r)) return fail("TUNSETIFF");
    fcntl(t, F_SETFL, O_NONBLOCK);
    TopSim sim(memory);
    Pace pace;
    sim.on_frame = [&](Bytes& f, uint64_t) {
        if (write(t, f.data(), f.size()) < 0) perror("appliance: tap");
        pace.work(sim);
    };
    printf("appliance: on tap device %s, memory %s\n", name.c_str(), memory.name.c_str());
    fflush(stdout);
    Bytes buffer(2048);
    while (!stopped) {
        ssize_t n = read(t, buffer.data(), buffer.size());
        if (n > 0) {
            // The kernel leaves padding to the device; a line pads.
            sim.send(Bytes(buffer.begin(), buffer.begin() + std::max<ssize_t>(n, 60)));
            if (n < 60) std::fill(sim.in.back().bytes.begin() + n, sim.in.back().bytes.end(), 0);
            pace.work(sim);
        } else if (!pace.busy(sim)) {
            pollfd p{t, POLLIN, 0};
            poll(&p, 1, 200);
        }
        for (int i = 0; i < 64 && pace.busy(sim); i++) sim.step();
    }
    printf("appliance: %llu clocks, %llu requests, %llu answers, %llu echoes, %llu ARP answers, %llu not for us\n", (unsigned long long)sim.cycle,
           (unsigned long long)sim.counter(0), (unsigned long long)sim.counter(1), (unsigned long long)sim.counter(2),
           (unsigned long long)sim.counter(3), (unsigned long long)sim.counter(8));
    return 0;
}

int main(int argc, char** argv) {
    std::string mode = argc > 1 ? argv[1] : "", memory = "ddr4-2400";
    double ctrl_ns = 50;
    bool stalls = false;
    uint64_t value = 8, requests = 1000;
    std::vector<std::string> rest;
    for (int i = 2; i < argc; i++) {
        std::string a = argv[i];
        if (a == "--memory" && i + 1 < argc) memory = argv[++i];
        else if (a == "--ctrl" && i + 1 < argc) ctrl_ns = std::stod(argv[++i]);
        else if (a == "--value" && i + 1 < argc) value = std::stoull(argv[++i]);
        else if (a == "--requests" && i + 1 < argc) requests = std::stoull(argv[++i]);
        else if (a == "--stalls") stalls = true;
        else rest.push_back(a);
    }
    struct sigaction sa{};
    sa.sa_handler = stop;  // no restart: a blocked read ends
    sigaction(SIGTERM, &sa, nullptr);
    sigaction(SIGINT, &sa, nullptr);
    DramTiming t = dram_preset(memory, ctrl_ns);
    if (mode == "vectors") return vectors(rest, t, stalls);
    // Ids have 16 bits and values their limit.
    if (mode == "line" && rest.empty() && requests <= 16384 && value <= 384) return line(t, value, requests);
    if (mode == "udp" && rest.size() == 1) return udp(rest[0], t);
    if (mode == "tap" && rest.size() == 1) return tap(rest[0], t);
    fprintf(stderr, "appliance vectors [--memory M] [--stalls] FILE… | line [--memory M] [--value N] [--requests N] | udp ADDRESS:PORT [--memory M] | tap NAME [--memory M]\n");
    return 2;
}
