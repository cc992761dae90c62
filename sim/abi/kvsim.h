/* kvsim.h: the guest ABI of kvsim, version 1, in C.
 *
 * A guest is a WebAssembly module that exports the six functions at the end of this file and imports only the five before them.
 * The book's page "The guest ABI" (book/src/guest-abi.md) says what each of them means; this file has their names and numbers.
 * A test holds every number here to the host's own.
 *
 * Build a guest with either of:
 *   clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -o guest.wasm guest.c
 *   python3 -m ziglang cc -target wasm32-freestanding -O2 -nostdlib -Wl,--no-entry -o guest.wasm guest.c
 *
 * `kvsim new-guest --lang c DIR` writes this file and an engine that uses all of it. `kvsim check-guest guest.wasm` checks a module. */
#ifndef KVSIM_H
#define KVSIM_H

#include <stdint.h>

#define KVSIM_ABI_VERSION 1

#define KVSIM_IMPORT(name) __attribute__((import_module("kvsim"), import_name(#name)))
#define KVSIM_EXPORT(name) __attribute__((export_name(#name)))

/* ---- Disk operations: the kinds of kvsim_disk_submit ---- */

#define KVSIM_DISK_READ 0          /* offset, buffer, length */
#define KVSIM_DISK_WRITE 1         /* offset, bytes, length; the bytes are copied in the call */
#define KVSIM_DISK_WRITE_THROUGH 2 /* as a write; durable when complete. Needs KVSIM_DEVICE_WRITE_THROUGH */
#define KVSIM_DISK_FLUSH 3         /* 0, 0, 0; makes durable what was complete when it was submitted */
#define KVSIM_DISK_DISCARD 4       /* offset, 0, length. Needs KVSIM_DEVICE_DISCARD */
#define KVSIM_DISK_GROW 5          /* the new size, 0, 0 */
#define KVSIM_DISK_BARRIER 6       /* 0, 0, 0; orders and makes nothing durable. Needs KVSIM_DEVICE_BARRIER */

/* How a disk operation ended: the status of kv_complete. Take any other number for a failure. */
#define KVSIM_DISK_OK 0
#define KVSIM_DISK_READ_ERROR 1  /* of a read; the buffer is unchanged */
#define KVSIM_DISK_WRITE_ERROR 2 /* of a write; any of its sectors may be written */
#define KVSIM_DISK_FLUSH_ERROR 3 /* of a flush or barrier; never trust a later flush for what this one covered */
#define KVSIM_DISK_NO_SPACE 4    /* of a write or growth; nothing was done */

/* ---- Opening: the payload of kv_open, by offset; all numbers are little-endian ---- */

#define KVSIM_OPEN_ABI_VERSION 0      /* u32 */
#define KVSIM_OPEN_SECTOR 4           /* u32: unit of offsets and lengths, bytes */
#define KVSIM_OPEN_PHYSICAL_BLOCK 8   /* u32: what the device rewrites internally, bytes */
#define KVSIM_OPEN_FLAGS 12           /* u32: KVSIM_DEVICE_... */
#define KVSIM_OPEN_CAPACITY 16        /* u64: present size, bytes */
#define KVSIM_OPEN_MAX_CAPACITY 24    /* u64: how far it can grow, bytes */
#define KVSIM_OPEN_ATOMIC_WRITE 32    /* u64: an aligned write up to this size is all or nothing, bytes */
#define KVSIM_OPEN_MEMORY 40          /* u64: linear memory that the guest may use, bytes */
#define KVSIM_OPEN_DATABASE_ID 48     /* 16 bytes: identity for a database that is created now */
#define KVSIM_OPEN_OPTIONS_LENGTH 64  /* u32 */
#define KVSIM_OPEN_OPTIONS 68         /* UTF-8 lines name=value, each ended by a line feed */

#define KVSIM_DEVICE_VOLATILE_CACHE 1 /* a completed write needs a flush to be durable */
#define KVSIM_DEVICE_WRITE_THROUGH 2
#define KVSIM_DEVICE_DISCARD 4
#define KVSIM_DEVICE_BARRIER 8

/* ---- Requests: the payload of kv_request ---- */

#define KVSIM_REQUEST_OPERATION 0  /* u8: KVSIM_PUT ... KVSIM_CLOSE */
#define KVSIM_REQUEST_DURABILITY 1 /* u8: KVSIM_DURABLE or KVSIM_RELAXED */
/* u16 at 2: zero */

#define KVSIM_PUT 1
#define KVSIM_DELETE 2
#define KVSIM_BATCH 3
#define KVSIM_GET 4
#define KVSIM_SCAN 5
#define KVSIM_SNAPSHOT 6
#define KVSIM_RELEASE 7
#define KVSIM_SYNC 8
#define KVSIM_CLOSE 9

#define KVSIM_DURABLE 0 /* answer when it survives a power cut */
#define KVSIM_RELAXED 1 /* answer when it is accepted */

#define KVSIM_PUT_KEY_LENGTH 4   /* u32 */
#define KVSIM_PUT_VALUE_LENGTH 8 /* u32 */
#define KVSIM_PUT_KEY 12         /* the key, then the value */

#define KVSIM_DELETE_KEY_LENGTH 4 /* u32 */
#define KVSIM_DELETE_KEY 8

#define KVSIM_BATCH_COUNT 4     /* u32 */
#define KVSIM_BATCH_MUTATIONS 8 /* one after the other */
/* A mutation, from its own beginning: */
#define KVSIM_MUTATION_KIND 0         /* u8: KVSIM_MUTATION_PUT or _DELETE */
#define KVSIM_MUTATION_KEY_LENGTH 1   /* u32 */
#define KVSIM_MUTATION_VALUE_LENGTH 5 /* u32 */
#define KVSIM_MUTATION_KEY 9          /* the key, then the value */
#define KVSIM_MUTATION_PUT 0
#define KVSIM_MUTATION_DELETE 1

#define KVSIM_GET_SNAPSHOT 4    /* u64: 0 is the latest state */
#define KVSIM_GET_KEY_LENGTH 12 /* u32 */
#define KVSIM_GET_KEY 16

#define KVSIM_SCAN_SNAPSHOT 4      /* u64: 0 is the latest state */
#define KVSIM_SCAN_DIRECTION 12    /* u8: KVSIM_SCAN_FORWARD or _REVERSE */
#define KVSIM_SCAN_BOUNDS 13       /* u8: KVSIM_SCAN_HAS_START, _HAS_END */
/* u16 at 14: zero */
#define KVSIM_SCAN_LIMIT 16        /* u32: most entries; 0 counts as 1 */
#define KVSIM_SCAN_MAX_BYTES 20    /* u32: most bytes of keys and values; one entry is returned whatever its size */
#define KVSIM_SCAN_START_LENGTH 24 /* u32 */
#define KVSIM_SCAN_END_LENGTH 28   /* u32 */
#define KVSIM_SCAN_KEYS 32         /* the start (inclusive), then the end (exclusive) */
#define KVSIM_SCAN_FORWARD 0
#define KVSIM_SCAN_REVERSE 1
#define KVSIM_SCAN_HAS_START 1
#define KVSIM_SCAN_HAS_END 2

#define KVSIM_RELEASE_SNAPSHOT 4 /* u64 */

/* ---- Replies ---- */

#define KVSIM_OK 0
#define KVSIM_NOT_FOUND 1  /* of a get only */
#define KVSIM_CORRUPTION 2 /* the guest found damage */
#define KVSIM_IO_ERROR 3   /* the device failed; a write may be there or not after the next opening */
#define KVSIM_NO_SPACE 4   /* nothing was written */
#define KVSIM_READ_ONLY 5  /* nothing was written; no write is taken until the next opening */
#define KVSIM_INVALID 6    /* nothing was written; the request is ill formed */
#define KVSIM_CLOSED 7     /* nothing was written; a close came before */

/* The body of a scan's reply: */
#define KVSIM_ENTRIES_COUNT 0 /* u32 */
#define KVSIM_ENTRIES_MORE 4  /* u8: 1 if the range holds another entry, else 0; then three zero bytes */
#define KVSIM_ENTRIES 8       /* one after the other */
/* An entry, from its own beginning: */
#define KVSIM_ENTRY_KEY_LENGTH 0   /* u32 */
#define KVSIM_ENTRY_VALUE_LENGTH 4 /* u32 */
#define KVSIM_ENTRY_KEY 8          /* the key, then the value */
/* A get's body is the value; a snapshot's is its u64 number, not 0; every other body of KVSIM_OK is empty.
 * The body of any other status is a UTF-8 message, which may be empty. */

/* ---- Limits ---- */

#define KVSIM_KEY_BYTES_SURE 1024    /* keys of 1 to so many bytes are well formed, unless max_key_bytes says otherwise */
#define KVSIM_VALUE_BYTES_SURE 65536 /* values of up to so many bytes have to be taken, unless max_value_bytes is smaller */
#define KVSIM_BATCH_BYTES_SURE 8192  /* batches of up to so many bytes have to be taken: keys, values, and for each mutation */
#define KVSIM_BATCH_MUTATION_BYTES 64 /* so many more */
#define KVSIM_MARKS_MAX 4096
#define KVSIM_MARK_NAME_BYTES_MAX 100

/* ---- Levels of log lines ---- */

#define KVSIM_LOG_ERROR 1
#define KVSIM_LOG_WARNING 2
#define KVSIM_LOG_INFO 3
#define KVSIM_LOG_DEBUG 4
#define KVSIM_LOG_TRACE 5

/* ---- Policies: the lines name=value of kv_policies; what no line names keeps its default ---- */

#define KVSIM_POLICY_COMMIT_ORDER "commit_order"                   /* arrival (default), any */
#define KVSIM_POLICY_READS "reads"                                 /* accepted (default), committed */
#define KVSIM_POLICY_RECOVERY_SURVIVES "recovery_survives"         /* always (default), power_cut */
#define KVSIM_POLICY_EMPTY_COMMIT_COVERS "empty_commit_covers"     /* true (default), false */
#define KVSIM_POLICY_RELAXED_SURVIVES_KILL "relaxed_survives_kill" /* true (default), false */
#define KVSIM_POLICY_RELAXED_WINDOW_NS "relaxed_window_ns"         /* none (default), N, option:N */
#define KVSIM_POLICY_MAX_KEY_BYTES "max_key_bytes"                 /* none (default), N, option:N */
#define KVSIM_POLICY_MAX_VALUE_BYTES "max_value_bytes"             /* none (default), N, option:N */
#define KVSIM_POLICY_DATA_PERCENT "data_percent"                   /* 4 (default), 1 to 100, option:N */
#define KVSIM_POLICY_USABLE_PERCENT "usable_percent"               /* 50 (default), 1 to 100, option:N */
#define KVSIM_POLICY_OPENS_WHEN_FULL "opens_when_full"             /* false (default), true */
#define KVSIM_POLICY_FULL_TAKES "full_takes"                       /* nothing (default), deletes, overwrites */

/* What kv_marks and kv_policies return: the address in the upper 32 bits, the length in the lower. */
#define KVSIM_TEXT(address, length) ((int64_t)((uint64_t)(uintptr_t)(address) << 32 | (uint32_t)(length)))

/* No next wake-up. */
#define KVSIM_NEVER ((int64_t)-1)

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Imports ---- */

/* Starts a disk operation. The tag comes back with kv_complete; it must not be in use by another operation in flight. */
KVSIM_IMPORT(disk_submit) void kvsim_disk_submit(uint64_t tag, uint32_t kind, uint64_t offset, const void *buffer, uint32_t length);
/* Answers a request, exactly once. The body is copied in the call. */
KVSIM_IMPORT(reply) void kvsim_reply(uint64_t request, uint32_t status, const void *body, uint32_t length);
/* A UTF-8 line for people. */
KVSIM_IMPORT(log) void kvsim_log(uint32_t level, const char *text, uint32_t length);
/* Ends the process run with a verdict; does not return. */
KVSIM_IMPORT(panic) __attribute__((noreturn)) void kvsim_panic(const char *text, uint32_t length);
/* A point that kv_marks names was reached, counted from 0. */
KVSIM_IMPORT(mark) void kvsim_mark(uint32_t number);

/* ---- Exports: a guest defines these. Each but the first two returns the time of its next tick, or KVSIM_NEVER ---- */

KVSIM_EXPORT(kv_abi_version) uint32_t kv_abi_version(void);
/* At least `length` writable bytes, which hold the payload during the call that follows; 0 if there is no memory. */
KVSIM_EXPORT(kv_buffer) void *kv_buffer(uint32_t length);
KVSIM_EXPORT(kv_open) int64_t kv_open(uint64_t now, const uint8_t *payload, uint32_t length);
KVSIM_EXPORT(kv_request) int64_t kv_request(uint64_t now, uint64_t request, const uint8_t *payload, uint32_t length);
KVSIM_EXPORT(kv_complete) int64_t kv_complete(uint64_t now, uint64_t tag, uint32_t status, uint32_t length);
KVSIM_EXPORT(kv_tick) int64_t kv_tick(uint64_t now);

/* A guest may define these too: */
KVSIM_EXPORT(kv_marks) int64_t kv_marks(void);
KVSIM_EXPORT(kv_policies) int64_t kv_policies(void);

#ifdef __cplusplus
}
#endif

/* ---- The payloads' numbers, which need not be aligned ---- */

static inline uint32_t kvsim_u32(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint64_t kvsim_u64(const uint8_t *at) {
    return (uint64_t)kvsim_u32(at) | (uint64_t)kvsim_u32(at + 4) << 32;
}

static inline void kvsim_put_u32(uint8_t *at, uint32_t number) {
    for (int byte = 0; byte < 4; byte++) at[byte] = (uint8_t)(number >> (8 * byte));
}

static inline void kvsim_put_u64(uint8_t *at, uint64_t number) {
    for (int byte = 0; byte < 8; byte++) at[byte] = (uint8_t)(number >> (8 * byte));
}

/* ---- What a compiler calls even without a C library ----
 * Define KVSIM_FREESTANDING in one file of a guest that is linked with -nostdlib. */
#ifdef KVSIM_FREESTANDING

#define KVSIM_LIBC __attribute__((weak, no_builtin))

KVSIM_LIBC void *memcpy(void *to, const void *from, unsigned long length) {
    for (unsigned long at = 0; at < length; at++) ((uint8_t *)to)[at] = ((const uint8_t *)from)[at];
    return to;
}

KVSIM_LIBC void *memmove(void *to, const void *from, unsigned long length) {
    if ((uintptr_t)to <= (uintptr_t)from) return memcpy(to, from, length);
    for (unsigned long at = length; at > 0; at--) ((uint8_t *)to)[at - 1] = ((const uint8_t *)from)[at - 1];
    return to;
}

KVSIM_LIBC void *memset(void *to, int byte, unsigned long length) {
    for (unsigned long at = 0; at < length; at++) ((uint8_t *)to)[at] = (uint8_t)byte;
    return to;
}

KVSIM_LIBC int memcmp(const void *one, const void *other, unsigned long length) {
    for (unsigned long at = 0; at < length; at++) {
        int difference = ((const uint8_t *)one)[at] - ((const uint8_t *)other)[at];
        if (difference) return difference;
    }
    return 0;
}

#endif
#endif
