/* The native client of Kintsugi, for C.
 *
 *   kintsugi_client *c = kintsugi_connect("shm:/run/kintsugi.sock", NULL, error, sizeof error);
 *   kintsugi_slice set[] = {KINTSUGI_TEXT("SET"), KINTSUGI_TEXT("user:7"), KINTSUGI_TEXT("Ada")};
 *   kintsugi_value *v = kintsugi_command(c, set, 3);
 *   ...
 *   kintsugi_free(v);
 *   kintsugi_close(c);
 *
 * A client is used by one thread at a time. Nothing here writes behind what it is given; strings are bytes with a length, and
 * need no zero at the end unless it says so. Link with -lkintsugi_client.
 */
#ifndef KINTSUGI_H
#define KINTSUGI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kintsugi_client kintsugi_client;
typedef struct kintsugi_value kintsugi_value;

/* Bytes of the caller's, or, in answers, of the value's. */
typedef struct {
    const char *data;
    size_t len;
} kintsugi_slice;

#define KINTSUGI_TEXT(literal) {(literal), sizeof(literal) - 1}

/* One command: its name and its arguments. */
typedef struct {
    const kintsugi_slice *args;
    size_t count;
} kintsugi_call;

enum kintsugi_mode {
    KINTSUGI_ONE_SIDED = 0, /* reads go to memory where the fabric allows it */
    KINTSUGI_MESSAGES = 1   /* everything by messages */
};

/* All zeros is the default. Texts end with a zero. */
typedef struct {
    const char *user;
    const char *password;
    uint32_t mode;
    uint32_t timeout_ms; /* of one operation; 0: ten seconds */
} kintsugi_options;

enum kintsugi_type {
    KINTSUGI_NULL = 0,
    KINTSUGI_INT = 1,
    KINTSUGI_DOUBLE = 2,
    KINTSUGI_BOOL = 3,   /* kintsugi_int: 0 or 1 */
    KINTSUGI_STRING = 4, /* bulk, simple or verbatim */
    KINTSUGI_ERROR = 5,  /* kintsugi_string: code first, as in Redis */
    KINTSUGI_ARRAY = 6,  /* arrays and sets */
    KINTSUGI_MAP = 7     /* keys and values in turn */
};

typedef struct {
    uint64_t one_sided;     /* commands answered from memory, without a message */
    uint64_t retries;       /* attempts at that which something changed under */
    uint64_t fallbacks;     /* reads left to messages */
    uint64_t transactions;  /* coordinated by this client */
    uint64_t second_rounds; /* of their reads */
    uint64_t messages;      /* messages of transactions, sent and received */
} kintsugi_counters;

/* Connects to "shm:/path", "tcp:host:port", "rdma:host:port" ... `options` may be NULL. NULL: failed, and `error` has as much of the
 * reason as fits, with a zero at its end; it may be NULL. */
kintsugi_client *kintsugi_connect(const char *address, const kintsugi_options *options, char *error, size_t error_size);

/* Closes the connection. NULL is allowed. */
void kintsugi_close(kintsugi_client *client);

/* Why the last operation of this client failed; empty after one that did not. Valid until the next operation. */
const char *kintsugi_error(const kintsugi_client *client);

/* Runs any command. An error reply is a value of type KINTSUGI_ERROR; NULL: the connection failed, see kintsugi_error. The next
 * operation connects again. To be freed with kintsugi_free. */
kintsugi_value *kintsugi_command(kintsugi_client *client, const kintsugi_slice *args, size_t count);

/* Runs commands as one transaction: an array of their replies, or a value of type KINTSUGI_NULL if a watched key had changed and
 * nothing was done. NULL: as kintsugi_command, and also if the transaction as a whole was refused. */
kintsugi_value *kintsugi_transaction(kintsugi_client *client, const kintsugi_call *calls, size_t count);

/* Watches keys for the next transaction. 0, or -1: see kintsugi_error. */
int kintsugi_watch(kintsugi_client *client, const kintsugi_slice *keys, size_t count);

/* Forgets watched keys. */
void kintsugi_unwatch(kintsugi_client *client);

/* GET, into `into`: the value's length, of which as much as `capacity` has been copied; -1: there is no such key; -2: see
 * kintsugi_error. */
int64_t kintsugi_get(kintsugi_client *client, kintsugi_slice key, void *into, size_t capacity);

/* What the client has done so far. */
void kintsugi_count(const kintsugi_client *client, kintsugi_counters *into);

/* The type of a value; KINTSUGI_NULL for NULL. */
enum kintsugi_type kintsugi_type_of(const kintsugi_value *value);
/* An integer or a boolean; otherwise 0. */
int64_t kintsugi_int(const kintsugi_value *value);
/* A double, or an integer as one; otherwise 0. */
double kintsugi_double(const kintsugi_value *value);
/* The bytes of a string or an error, valid as long as the value; otherwise none. */
kintsugi_slice kintsugi_string(const kintsugi_value *value);
/* Elements of an array; of a map twice its entries. */
size_t kintsugi_length(const kintsugi_value *value);
/* An element, which belongs to its array; NULL if there is none. */
const kintsugi_value *kintsugi_element(const kintsugi_value *value, size_t index);
/* Frees an answer. NULL is allowed. */
void kintsugi_free(kintsugi_value *value);

#ifdef __cplusplus
}
#endif

#endif
