// Times requests to a server over a Unix socket, one at a time over one connection: a row a request, in nanoseconds from the call that
// sends it to the last byte of its answer.
//
//   service_time SOCKET COUNT [NAME REQUEST ANSWER]...      COUNT rounds of all requests in turn; REQUEST and ANSWER in hex
//
// An answer other than the one expected ends it with an error. A tenth as many rounds before are not counted.
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

struct Exchange { std::string name, request, answer; };

static std::string unhex(const char* h) {
    std::string b;
    for (; h[0] && h[1]; h += 2) b.push_back(strtol(std::string(h, 2).c_str(), nullptr, 16));
    return b;
}
static int64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}
static int64_t ask(int s, const Exchange& e) {
    char buf[65536];
    size_t have = 0;
    int64_t start = now_ns();
    if (write(s, e.request.data(), e.request.size()) != (ssize_t)e.request.size()) { perror("write"); exit(1); }
    while (have < e.answer.size()) {
        ssize_t n = read(s, buf + have, sizeof buf - have);
        if (n <= 0) { perror("read"); exit(1); }
        have += n;
        if (memcmp(buf, e.answer.data(), have < e.answer.size() ? have : e.answer.size())) break;
    }
    int64_t took = now_ns() - start;
    if (have != e.answer.size() || memcmp(buf, e.answer.data(), have)) {
        fprintf(stderr, "%s: the answer is %.*s\n", e.name.c_str(), (int)have, buf);
        exit(1);
    }
    return took;
}

int main(int argc, char** argv) {
    if (argc < 6 || argc % 3) { fprintf(stderr, "service_time SOCKET COUNT [NAME REQUEST ANSWER]...\n"); return 2; }
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    if (strlen(argv[1]) >= sizeof at.sun_path) { fprintf(stderr, "the socket's path is too long\n"); return 2; }
    strcpy(at.sun_path, argv[1]);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(s, (sockaddr*)&at, sizeof at)) { perror(argv[1]); return 1; }
    std::vector<Exchange> exchanges;
    for (int i = 3; i + 2 < argc; i += 3) exchanges.push_back({argv[i], unhex(argv[i + 1]), unhex(argv[i + 2])});
    long count = strtol(argv[2], nullptr, 10);
    std::vector<std::pair<size_t, int64_t>> rows;
    rows.reserve(count * exchanges.size());
    for (long i = -count / 10; i < count; i++)
        for (size_t e = 0; e < exchanges.size(); e++) {
            int64_t took = ask(s, exchanges[e]);
            if (i >= 0) rows.push_back({e, took});
        }
    printf("operation,ns\n");
    for (auto& [e, ns] : rows) printf("%s,%ld\n", exchanges[e].name.c_str(), (long)ns);
}
