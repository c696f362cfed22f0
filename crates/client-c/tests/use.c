/* What a C program does with the client; every step is checked. argv[1]: the server's address. */
#include "kintsugi.h"
#include <stdio.h>
#include <string.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: %s does not hold; last error: %s\n", __LINE__, #what, c ? kintsugi_error(c) : error); \
            return 1; \
        } \
    } while (0)
#define CALL(c, ...) run(c, (kintsugi_slice[]){__VA_ARGS__}, sizeof((kintsugi_slice[]){__VA_ARGS__}) / sizeof(kintsugi_slice))
#define T(literal) (kintsugi_slice) KINTSUGI_TEXT(literal)

static kintsugi_value *run(kintsugi_client *c, const kintsugi_slice *args, size_t count) {
    return kintsugi_command(c, args, count);
}

static int is(kintsugi_slice s, const char *text) { return s.len == strlen(text) && memcmp(s.data, text, s.len) == 0; }

int main(int argc, char **argv) {
    char error[16] = "";
    kintsugi_client *c = kintsugi_connect("shm:/there/is/no/such/socket", NULL, error, sizeof error);
    CHECK(c == NULL && strlen(error) == sizeof error - 1);
    c = kintsugi_connect("nonsense", NULL, NULL, 0);
    CHECK(c == NULL);
    kintsugi_close(NULL);
    if (argc < 2) return 2;

    c = kintsugi_connect(argv[1], NULL, error, sizeof error);
    CHECK(c != NULL);

    /* A transaction over two shards, read back together. */
    kintsugi_slice set[] = {T("SET"), T("user:7"), T("Ada")}, sadd[] = {T("SADD"), T("city:London"), T("user:7")};
    kintsugi_call calls[] = {{set, 3}, {sadd, 3}};
    kintsugi_value *v = kintsugi_transaction(c, calls, 2);
    CHECK(kintsugi_type_of(v) == KINTSUGI_ARRAY && kintsugi_length(v) == 2);
    CHECK(is(kintsugi_string(kintsugi_element(v, 0)), "OK") && kintsugi_int(kintsugi_element(v, 1)) == 1);
    CHECK(kintsugi_element(v, 2) == NULL);
    kintsugi_free(v);

    char value[2] = {0, 'x'};
    CHECK(kintsugi_get(c, T("user:7"), value, 1) == 3 && value[0] == 'A' && value[1] == 'x');
    CHECK(kintsugi_get(c, T("nobody"), value, 1) == -1 && strcmp(kintsugi_error(c), "") == 0);
    CHECK(kintsugi_get(c, T("city:London"), value, 1) == -2 && strstr(kintsugi_error(c), "WRONGTYPE"));

    v = CALL(c, T("MGET"), T("user:7"), T("nobody"));
    CHECK(kintsugi_length(v) == 2 && is(kintsugi_string(kintsugi_element(v, 0)), "Ada"));
    CHECK(kintsugi_type_of(kintsugi_element(v, 1)) == KINTSUGI_NULL);
    kintsugi_free(v);
    v = CALL(c, T("ZADD"), T("z"), T("1.5"), T("m"));
    CHECK(kintsugi_int(v) == 1);
    kintsugi_free(v);
    v = CALL(c, T("LPUSH"), T("user:7"), T("x"));
    CHECK(kintsugi_type_of(v) == KINTSUGI_ERROR && strncmp(kintsugi_string(v).data, "WRONGTYPE", 9) == 0);
    kintsugi_free(v);
    v = kintsugi_command(c, NULL, 0);
    CHECK(v == NULL && strlen(kintsugi_error(c)) > 0);

    /* A watched key that changes: nothing is done. */
    kintsugi_slice keys[] = {T("user:7")};
    CHECK(kintsugi_watch(c, keys, 1) == 0);
    kintsugi_client *other = kintsugi_connect(argv[1], &(kintsugi_options){.mode = KINTSUGI_MESSAGES}, NULL, 0);
    v = CALL(other, T("SET"), T("user:7"), T("Grace"));
    kintsugi_free(v);
    v = kintsugi_transaction(c, calls, 2);
    CHECK(v != NULL && kintsugi_type_of(v) == KINTSUGI_NULL);
    kintsugi_free(v);
    kintsugi_free(NULL);

    kintsugi_counters mine, others;
    kintsugi_count(c, &mine);
    kintsugi_count(other, &others);
    CHECK(mine.one_sided >= 2 && mine.transactions >= 1 && others.one_sided == 0);
    kintsugi_close(other);
    kintsugi_close(c);
    puts("a C program can use it");
    return 0;
}
