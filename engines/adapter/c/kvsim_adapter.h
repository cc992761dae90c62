/* kvsim_adapter.h: a storage engine that uses files, behind kvsim's messages. In C; Zig uses it too.
 *
 * An engine is one `const struct kv_engine kv_engine` (below). This file does the rest: it decodes each message, checks what the contract
 * asks of every engine (lengths of keys, unknown snapshots, requests after a close), calls the engine, and encodes the answer.
 *
 * One C file of the program defines KV_ADAPTER before it includes this header; that file holds the code. Two ways to build it:
 *   reactor: zig cc -target wasm32-wasi -mexec-model=reactor -O2 -o engine.wasm engine.c
 *   command: zig cc -target wasm32-wasi -DKV_COMMAND -O2 -o engine.wasm engine.c     (messages on stdin, answers on stdout)
 * where `zig` is `python3 -m ziglang` if it came by pip. The reactor is the quicker one. A command is given the directory of the database as its first
 * argument when it is built for this machine; without one it is /db.
 *
 * The database belongs below the directory that `open` gets. A defect that must not be survived is an abort: write to stderr, then abort().
 * kvsim shows what was written to stderr. All numbers in messages are little-endian, as WebAssembly's are. */
#ifndef KVSIM_ADAPTER_H
#define KVSIM_ADAPTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a request ended. The numbers are those of the guest ABI. */
enum kv_status {
    KV_OK = 0,
    KV_NOT_FOUND = 1,  /* of a get only */
    KV_CORRUPTION = 2, /* the engine found damage */
    KV_IO_ERROR = 3,   /* a call failed; a write may or may not be found after the next opening */
    KV_NO_SPACE = 4,   /* nothing was written */
    KV_READ_ONLY = 5,  /* nothing was written, and nothing will be until the next opening */
    KV_INVALID = 6,    /* nothing was written; the request is wrong, or not offered */
    KV_CLOSED = 7,     /* the adapter answers it after a close */
};

/* Borrowed bytes; valid during the call. */
struct kv_bytes {
    const uint8_t *data;
    size_t length;
};

/* One line of `[guest.options]`; both end with a zero byte. */
struct kv_option {
    const char *name, *value;
};

/* One member of a batch. */
struct kv_change {
    bool is_delete;
    struct kv_bytes key, value;
};

/* Which entries, in which direction: start <= key < end, in the order of unsigned bytes. Never empty by its bounds. */
struct kv_range {
    bool is_reverse, has_start, has_end;
    struct kv_bytes start, end;
};

/* What an engine offers, and how. A function that is NULL is not offered, but open, put, remove, get and close have to be there.
 * `is_relaxed` is true only if `offers_relaxed` is: then the write is answered when it is accepted, and else when it is durable.
 * `snapshot` is NULL for the newest state, else what `snapshot` gave. */
struct kv_engine {
    const char *engine;   /* name and version */
    const char *settings; /* for people: what was set, and what the engine's documentation calls it */
    const char *order;    /* "prefix": what survives is a prefix of the commit order; "each": each write stands for itself */
    const char *policies; /* lines name=value of the guest ABI's policies, each ended by a line feed; may be "" */
    size_t max_key_bytes; /* longer keys are Invalid, which the adapter answers; 0 means 1,024 */
    size_t max_value_bytes; /* 0 means 65,536 */
    bool offers_relaxed, offers_reverse_scan;

    enum kv_status (*open)(const char *directory, const struct kv_option *options, size_t count);
    enum kv_status (*put)(struct kv_bytes key, struct kv_bytes value, bool is_relaxed);
    enum kv_status (*remove)(struct kv_bytes key, bool is_relaxed); /* KV_OK too if the key is not there */
    enum kv_status (*batch)(const struct kv_change *changes, size_t count, bool is_relaxed); /* all or nothing; the last change of a key counts */
    enum kv_status (*get)(void *snapshot, struct kv_bytes key); /* kv_value and KV_OK, or KV_NOT_FOUND */
    enum kv_status (*scan)(void *snapshot, const struct kv_range *range); /* kv_entry for each, until it returns false */
    enum kv_status (*snapshot)(void **snapshot); /* sets a pointer that is not NULL */
    void (*release)(void *snapshot);
    enum kv_status (*sync)(void); /* all that was accepted becomes durable */
    enum kv_status (*close)(void);
    void (*idle)(void); /* lets work in the background go on; may be NULL */
};

/* The author defines this one. */
extern const struct kv_engine kv_engine;

/* The value that a get found; copied at once. */
void kv_value(const void *data, size_t length);

/* The next entry of a scan; copied at once. False: the page is full, and the engine ends its scan. */
bool kv_entry(const void *key, size_t key_length, const void *value, size_t value_length);

/* Sets the message of an answer (like printf) and returns the status: `return kv_fail(KV_IO_ERROR, "fsync: %s", strerror(errno));` */
enum kv_status kv_fail(enum kv_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same with the status that fits errno: NoSpace for ENOSPC and EDQUOT, ReadOnly for EROFS, else IoError. `what` names the call. */
enum kv_status kv_fail_errno(const char *what);

/* Invalid, with the option's name. */
enum kv_status kv_unknown_option(const struct kv_option *option);

/* The order of keys: unsigned bytes, and a key before any that it begins. Below, at or above 0. */
int kv_compare(struct kv_bytes left, struct kv_bytes right);

#ifdef __cplusplus
}
#endif

#endif /* KVSIM_ADAPTER_H */

#if defined(KV_ADAPTER) && !defined(KV_ADAPTER_DONE)
#define KV_ADAPTER_DONE

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KV_MESSAGE_BYTES_MAX (256u << 20)

/* The message as it came, and the answer: its status, then its body. */
static uint8_t *kv_in, *kv_out;
static size_t kv_in_room, kv_out_length, kv_out_room;

static bool kv_is_open, kv_is_closed;
static const char *kv_directory = "/db";

/* Snapshots by number: the place in the list is the number less one. NULL: released. */
static void **kv_snapshots;
static size_t kv_snapshot_count, kv_snapshot_room;

/* The page of the scan under way. */
static struct {
    uint32_t limit, max_bytes, count;
    uint64_t bytes;
    bool is_full;
} kv_page;

static void kv_die(const char *why)
{
    fprintf(stderr, "kvsim adapter: %s\n", why);
    abort();
}

static void kv_append(const void *data, size_t length)
{
    if (length > kv_out_room - kv_out_length) {
        size_t room = kv_out_room + length + kv_out_room / 2 + 64;
        kv_out = realloc(kv_out, room);
        if (!kv_out)
            kv_die("no memory for an answer");
        kv_out_room = room;
    }
    if (length)
        memcpy(kv_out + kv_out_length, data, length);
    kv_out_length += length;
}

static void kv_append_u32(uint32_t number) { kv_append(&number, 4); }

static uint32_t kv_u32(const uint8_t *at)
{
    uint32_t number;
    memcpy(&number, at, 4);
    return number;
}

static uint64_t kv_u64(const uint8_t *at)
{
    uint64_t number;
    memcpy(&number, at, 8);
    return number;
}

/* The answer's body begins anew, behind the place of its status. */
static void kv_begin(void)
{
    kv_out_length = 0;
    kv_append_u32(0);
}

void kv_value(const void *data, size_t length) { kv_append(data, length); }

bool kv_entry(const void *key, size_t key_length, const void *value, size_t value_length)
{
    kv_page.bytes += key_length + value_length;
    if (kv_page.count > 0 && (kv_page.count >= kv_page.limit || kv_page.bytes > kv_page.max_bytes)) {
        kv_page.is_full = true;
        return false;
    }
    kv_page.count++;
    kv_append_u32((uint32_t)key_length);
    kv_append_u32((uint32_t)value_length);
    kv_append(key, key_length);
    kv_append(value, value_length);
    return true;
}

enum kv_status kv_fail(enum kv_status status, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    kv_begin();
    kv_append(text, strlen(text));
    return status;
}

enum kv_status kv_fail_errno(const char *what)
{
    int error = errno;
    enum kv_status status = error == ENOSPC || error == EDQUOT ? KV_NO_SPACE : error == EROFS ? KV_READ_ONLY : KV_IO_ERROR;
    return kv_fail(status, "%s: %s", what, strerror(error));
}

enum kv_status kv_unknown_option(const struct kv_option *option)
{
    return kv_fail(KV_INVALID, "the option `%s` is unknown", option->name);
}

int kv_compare(struct kv_bytes left, struct kv_bytes right)
{
    size_t shorter = left.length < right.length ? left.length : right.length;
    int order = shorter ? memcmp(left.data, right.data, shorter) : 0;
    return order ? order : (left.length > right.length) - (left.length < right.length);
}

static size_t kv_key_max(void) { return kv_engine.max_key_bytes ? kv_engine.max_key_bytes : 1024; }

static size_t kv_value_max(void) { return kv_engine.max_value_bytes ? kv_engine.max_value_bytes : 65536; }

static enum kv_status kv_describe(void)
{
    char text[2048];
    const struct kv_engine *it = &kv_engine;
#define KV_BOOL(condition) ((condition) ? "true" : "false")
    int length = snprintf(text, sizeof text,
        "abi=1\nengine=%s\nsettings=%s\nbatch=%s\nscan=%s\nreverse_scan=%s\nsnapshot=%s\nrelaxed=%s\nsync=%s\norder=%s\n"
        "max_key_bytes=%zu\nmax_value_bytes=%zu\n%s",
        it->engine, it->settings, KV_BOOL(it->batch), KV_BOOL(it->scan), KV_BOOL(it->scan && it->offers_reverse_scan),
        KV_BOOL(it->snapshot), KV_BOOL(it->offers_relaxed), KV_BOOL(it->sync), it->order ? it->order : "prefix", kv_key_max(),
        kv_value_max(), it->policies ? it->policies : "");
    if (length < 0 || (size_t)length >= sizeof text)
        kv_die("the description of the engine has more than 2,047 bytes");
    kv_append(text, (size_t)length);
    return KV_OK;
}

static enum kv_status kv_open(uint8_t *payload, size_t length)
{
    if (length < 28 || kv_u32(payload + 24) != length - 28)
        kv_die("an open message has a wrong length");
    if (kv_is_open)
        return kv_fail(KV_INVALID, "the database is open");
    /* Each line `name=value` becomes two texts in place: its `=` and its line feed become zero bytes. */
    struct kv_option options[64];
    size_t count = 0;
    char *line = (char *)payload + 28, *end = (char *)payload + length;
    while (line < end) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        char *equals = stop ? memchr(line, '=', (size_t)(stop - line)) : NULL;
        if (!equals)
            return kv_fail(KV_INVALID, "an option is no line name=value");
        if (count == 64)
            return kv_fail(KV_INVALID, "more than 64 options");
        *equals = *stop = 0;
        options[count++] = (struct kv_option){line, equals + 1};
        line = stop + 1;
    }
    enum kv_status status = kv_engine.open(kv_directory, options, count);
    kv_is_open = status == KV_OK;
    return status;
}

static bool kv_key_fits(size_t length) { return length >= 1 && length <= kv_key_max(); }

static enum kv_status kv_wrong_size(void)
{
    return kv_fail(KV_INVALID, "a key has 1 to %zu bytes, a value at most %zu", kv_key_max(), kv_value_max());
}

/* The snapshot of this number in `*snapshot`, NULL for number 0; false if there is none. */
static bool kv_find_snapshot(uint64_t number, void **snapshot)
{
    *snapshot = NULL;
    if (number == 0)
        return true;
    if (number > kv_snapshot_count)
        return false;
    *snapshot = kv_snapshots[number - 1];
    return *snapshot != NULL;
}

static enum kv_status kv_batch(const uint8_t *payload, bool is_relaxed)
{
    uint32_t count = kv_u32(payload + 4);
    const uint8_t *at = payload + 8;
    if (!kv_engine.batch)
        return kv_fail(KV_INVALID, "no batches here");
    struct kv_change *changes = malloc((count + 1) * sizeof *changes);
    if (!changes)
        kv_die("no memory for a batch");
    bool fits = true;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t key_length = kv_u32(at + 1), value_length = kv_u32(at + 5);
        changes[i].is_delete = at[0] == 1;
        changes[i].key = (struct kv_bytes){at + 9, key_length};
        changes[i].value = (struct kv_bytes){at + 9 + key_length, value_length};
        fits = fits && kv_key_fits(key_length) && value_length <= kv_value_max();
        at += 9 + key_length + value_length;
    }
    enum kv_status status = fits ? kv_engine.batch(changes, count, is_relaxed) : kv_wrong_size();
    free(changes);
    return status;
}

static enum kv_status kv_scan(const uint8_t *payload)
{
    void *snapshot;
    if (!kv_engine.scan)
        return kv_fail(KV_INVALID, "no scans here");
    if (!kv_find_snapshot(kv_u64(payload + 4), &snapshot))
        return kv_fail(KV_INVALID, "no such snapshot");
    struct kv_range range = {.is_reverse = payload[12] == 1, .has_start = payload[13] & 1, .has_end = payload[13] & 2};
    range.start = (struct kv_bytes){payload + 32, kv_u32(payload + 24)};
    range.end = (struct kv_bytes){payload + 32 + range.start.length, kv_u32(payload + 28)};
    if (range.is_reverse && !kv_engine.offers_reverse_scan)
        return kv_fail(KV_INVALID, "no reverse scans here");
    memset(&kv_page, 0, sizeof kv_page);
    kv_page.limit = kv_u32(payload + 16);
    kv_page.max_bytes = kv_u32(payload + 20);
    /* The place of the count and of `more`. */
    kv_append("\0\0\0\0\0\0\0", 8);
    bool is_empty = range.has_start && range.has_end && kv_compare(range.start, range.end) >= 0;
    enum kv_status status = is_empty ? KV_OK : kv_engine.scan(snapshot, &range);
    if (status == KV_OK) {
        memcpy(kv_out + 4, &kv_page.count, 4);
        kv_out[8] = kv_page.is_full;
    }
    return status;
}

static enum kv_status kv_take_snapshot(void)
{
    if (!kv_engine.snapshot)
        return kv_fail(KV_INVALID, "no snapshots here");
    if (kv_snapshot_count == kv_snapshot_room) {
        kv_snapshot_room = kv_snapshot_room * 2 + 16;
        kv_snapshots = realloc(kv_snapshots, kv_snapshot_room * sizeof *kv_snapshots);
        if (!kv_snapshots)
            kv_die("no memory for a snapshot");
    }
    void *snapshot = NULL;
    enum kv_status status = kv_engine.snapshot(&snapshot);
    if (status == KV_OK) {
        kv_snapshots[kv_snapshot_count++] = snapshot;
        uint64_t number = kv_snapshot_count;
        kv_append(&number, 8);
    }
    return status;
}

static enum kv_status kv_release(uint64_t number)
{
    void *snapshot;
    if (number == 0 || !kv_find_snapshot(number, &snapshot))
        return kv_fail(KV_INVALID, "no such snapshot");
    kv_engine.release(snapshot);
    kv_snapshots[number - 1] = NULL;
    return KV_OK;
}

static enum kv_status kv_close(void)
{
    for (size_t i = 0; i < kv_snapshot_count; i++)
        if (kv_snapshots[i])
            kv_engine.release(kv_snapshots[i]);
    kv_snapshot_count = 0;
    kv_is_closed = true;
    return kv_engine.close();
}

static enum kv_status kv_request(const uint8_t *payload, size_t length)
{
    if (length < 4)
        kv_die("a request is too short");
    bool is_relaxed = payload[1] == 1;
    void *snapshot;
    if (kv_is_closed)
        return kv_fail(KV_CLOSED, "the database is closed");
    if (!kv_is_open)
        return kv_fail(KV_INVALID, "the database is not open");
    if (is_relaxed && !kv_engine.offers_relaxed)
        return kv_fail(KV_INVALID, "no relaxed writes here");
    switch (payload[0]) {
    case 1: {
        uint32_t key_length = kv_u32(payload + 4), value_length = kv_u32(payload + 8);
        if (!kv_key_fits(key_length) || value_length > kv_value_max())
            return kv_wrong_size();
        struct kv_bytes key = {payload + 12, key_length}, value = {payload + 12 + key_length, value_length};
        return kv_engine.put(key, value, is_relaxed);
    }
    case 2: {
        struct kv_bytes key = {payload + 8, kv_u32(payload + 4)};
        return kv_key_fits(key.length) ? kv_engine.remove(key, is_relaxed) : kv_wrong_size();
    }
    case 3:
        return kv_batch(payload, is_relaxed);
    case 4: {
        struct kv_bytes key = {payload + 16, kv_u32(payload + 12)};
        if (!kv_find_snapshot(kv_u64(payload + 4), &snapshot))
            return kv_fail(KV_INVALID, "no such snapshot");
        return kv_key_fits(key.length) ? kv_engine.get(snapshot, key) : KV_NOT_FOUND;
    }
    case 5:
        return kv_scan(payload);
    case 6:
        return kv_take_snapshot();
    case 7:
        return kv_release(kv_u64(payload + 4));
    case 8:
        return kv_engine.sync ? kv_engine.sync() : kv_fail(KV_INVALID, "no sync here");
    case 9:
        return kv_close();
    default:
        return kv_fail(KV_INVALID, "an unknown request");
    }
}

/* Answers the message in kv_in; the answer is in kv_out. */
static void kv_answer(size_t length)
{
    kv_begin();
    if (length < 4)
        kv_die("a message is too short");
    uint8_t *payload = kv_in + 4;
    size_t rest = length - 4;
    uint32_t kind = kv_u32(kv_in);
    enum kv_status status;
    if (kind == 0)
        status = kv_describe();
    else if (kind == 1)
        status = kv_open(payload, rest);
    else if (kind == 2 && rest >= 8)
        status = kv_request(payload + 8, rest - 8);
    else if (kind == 3) {
        if (kv_engine.idle && kv_is_open && !kv_is_closed)
            kv_engine.idle();
        status = KV_OK;
    } else
        status = kv_fail(KV_INVALID, "an unknown kind of message");
    uint32_t number = status;
    memcpy(kv_out, &number, 4);
}

static uint8_t *kv_room(size_t length)
{
    if (length > KV_MESSAGE_BYTES_MAX)
        kv_die("a message has more than 256 MiB");
    if (length > kv_in_room || !kv_in) {
        kv_in = realloc(kv_in, length + 1);
        if (!kv_in)
            kv_die("no memory for a message");
        kv_in_room = length;
    }
    return kv_in;
}

#ifdef KV_COMMAND

/* False at the end of the input, if it ends before the first byte. */
static bool kv_read_all(void *into, size_t length)
{
    size_t done = 0;
    while (done < length) {
        ssize_t got = read(0, (uint8_t *)into + done, length - done);
        if (got < 0)
            kv_die("cannot read from stdin");
        if (got == 0 && done == 0)
            return false;
        if (got == 0)
            kv_die("stdin ends within a message");
        done += (size_t)got;
    }
    return true;
}

static void kv_write_all(const uint8_t *from, size_t length)
{
    while (length > 0) {
        ssize_t put = write(1, from, length);
        if (put <= 0)
            kv_die("cannot write to stdout");
        from += put;
        length -= (size_t)put;
    }
}

int main(int count, char **arguments)
{
    uint32_t length;
    if (count > 1)
        kv_directory = arguments[1];
    while (kv_read_all(&length, 4)) {
        if (!kv_read_all(kv_room(length), length) && length > 0)
            kv_die("stdin ends within a message");
        kv_answer(length);
        length = (uint32_t)kv_out_length;
        kv_write_all((const uint8_t *)&length, 4);
        kv_write_all(kv_out, kv_out_length);
    }
    return 0;
}

#else

__attribute__((export_name("kv_buffer"))) uint8_t *kv_buffer(int32_t length) { return kv_room((size_t)(uint32_t)length); }

__attribute__((export_name("kv_message"))) int64_t kv_message(int32_t length)
{
    kv_answer((size_t)(uint32_t)length);
    return (int64_t)((uint64_t)(uintptr_t)kv_out << 32 | (uint64_t)kv_out_length);
}

#endif /* KV_COMMAND */
#endif /* KV_ADAPTER */
