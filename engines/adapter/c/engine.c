/* A small key/value engine that keeps its data in one file: a log, read into memory by the opening. Behind kvsim's adapter.
 *
 * A record of the log, from its place in the file:
 *
 * | offset | size | field |
 * | --- | --- | --- |
 * | 0 | 8 | checksum of the rest, begun with the place |
 * | 8 | 4 | bytes of changes |
 * | 12 | ... | changes: u8 kind (0 put, 1 delete), u32 key length, u32 value length, key, value |
 *
 * A write is one record, one pwrite and one fsync. The opening cuts off a torn record at the end and makes what is left durable: the file, and
 * the directory with the file's name. Options: `bug=no_directory_sync`, `bug=ack_before_sync`, `bug=tail_not_cut` or
 * `bug=checksum_not_checked` makes a mistake that kvsim finds. It never shortens its log, and damage inside of it is taken for its end. */
#define KV_ADAPTER
#include "kvsim_adapter.h"

#include <fcntl.h>
#include <sys/stat.h>

#define HEADER 12

struct entry {
    struct kv_bytes key, value;
};

static struct {
    int file;
    uint64_t end;      /* of the log, bytes */
    bool is_read_only; /* a call failed: nobody knows what is on the disk */
    bool sync_directory, sync_writes, cut_tail, check_sums;
    struct entry *entries; /* in the order of keys */
    size_t count, room;
} it = {.sync_directory = true, .sync_writes = true, .cut_tail = true, .check_sums = true};

/* FNV-1a. */
static uint64_t checksum(const uint8_t *bytes, size_t length, uint64_t place)
{
    uint64_t hash = 0xcbf29ce484222325u ^ place;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

/* Where this key is, or belongs. */
static size_t find(struct kv_bytes key, bool *is_there)
{
    size_t low = 0, high = it.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (kv_compare(it.entries[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *is_there = low < it.count && kv_compare(it.entries[low].key, key) == 0;
    return low;
}

static struct kv_bytes copy(struct kv_bytes bytes)
{
    uint8_t *own = malloc(bytes.length + 1);
    if (!own)
        abort();
    if (bytes.length)
        memcpy(own, bytes.data, bytes.length);
    return (struct kv_bytes){own, bytes.length};
}

/* A change in memory. */
static void apply(const struct kv_change *change)
{
    bool is_there;
    size_t at = find(change->key, &is_there);
    if (is_there) {
        free((void *)it.entries[at].value.data);
        if (!change->is_delete) {
            it.entries[at].value = copy(change->value);
            return;
        }
        free((void *)it.entries[at].key.data);
        it.count--;
        memmove(it.entries + at, it.entries + at + 1, (it.count - at) * sizeof *it.entries);
    } else if (!change->is_delete) {
        if (it.count == it.room) {
            it.room = it.room * 2 + 64;
            it.entries = realloc(it.entries, it.room * sizeof *it.entries);
            if (!it.entries)
                abort();
        }
        memmove(it.entries + at + 1, it.entries + at, (it.count - at) * sizeof *it.entries);
        it.entries[at] = (struct entry){copy(change->key), copy(change->value)};
        it.count++;
    }
}

/* Applies the changes of a record; false if they are none. */
static bool replay(const uint8_t *at, size_t length)
{
    while (length > 0) {
        if (length < 9 || kv_u32(at + 1) > length - 9 || kv_u32(at + 5) > length - 9 - kv_u32(at + 1))
            return false;
        struct kv_change change = {.is_delete = at[0], .key = {at + 9, kv_u32(at + 1)}};
        change.value = (struct kv_bytes){change.key.data + change.key.length, kv_u32(at + 5)};
        apply(&change);
        size_t all = 9 + change.key.length + change.value.length;
        at += all;
        length -= all;
    }
    return true;
}

static enum kv_status open_log(const char *directory, const struct kv_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(options[i].name, "bug") != 0)
            return kv_unknown_option(&options[i]);
        bool *part = strcmp(options[i].value, "no_directory_sync") == 0 ? &it.sync_directory
            : strcmp(options[i].value, "ack_before_sync") == 0          ? &it.sync_writes
            : strcmp(options[i].value, "tail_not_cut") == 0             ? &it.cut_tail
            : strcmp(options[i].value, "checksum_not_checked") == 0     ? &it.check_sums
                                                                        : NULL;
        if (!part)
            return kv_fail(KV_INVALID, "no such bug: %s", options[i].value);
        *part = false;
    }
    char path[256];
    snprintf(path, sizeof path, "%s/log", directory);
    it.file = open(path, O_RDWR | O_CREAT, 0644);
    struct stat about;
    if (it.file < 0 || fstat(it.file, &about) != 0)
        return kv_fail_errno("open the log");
    size_t size = (size_t)about.st_size, place = 0;
    uint8_t *log = malloc(size + 1);
    for (size_t done = 0; log && done < size;) {
        ssize_t got = pread(it.file, log + done, size - done, (off_t)done);
        if (got <= 0)
            return kv_fail_errno("read the log");
        done += (size_t)got;
    }
    while (log && size - place >= HEADER) {
        size_t length = kv_u32(log + place + 8);
        if (length > size - place - HEADER)
            break;
        if (it.check_sums && kv_u64(log + place) != checksum(log + place + 8, length + 4, place))
            break;
        if (!replay(log + place + HEADER, length))
            break;
        place += HEADER + length;
    }
    free(log);
    it.end = it.cut_tail ? place : size;
    if (it.end < size && ftruncate(it.file, (off_t)it.end) != 0)
        return kv_fail_errno("cut the log");
    if (fsync(it.file) != 0)
        return kv_fail_errno("fsync the log");
    int folder = open(directory, O_RDONLY | O_DIRECTORY);
    if (folder < 0 || (it.sync_directory && fsync(folder) != 0))
        return kv_fail_errno("fsync the directory");
    close(folder);
    return KV_OK;
}

static enum kv_status batch(const struct kv_change *changes, size_t count, bool is_relaxed)
{
    (void)is_relaxed;
    size_t length = HEADER;
    for (size_t i = 0; i < count; i++)
        length += 9 + changes[i].key.length + changes[i].value.length;
    if (it.is_read_only)
        return kv_fail(KV_READ_ONLY, "a call failed; open the database anew");
    if (count == 0)
        return KV_OK; /* every write before it is durable */
    uint8_t *record = malloc(length), *at = record + HEADER;
    if (!record)
        abort();
    for (size_t i = 0; i < count; i++) {
        uint32_t lengths[2] = {(uint32_t)changes[i].key.length, (uint32_t)changes[i].value.length};
        *at = changes[i].is_delete;
        memcpy(at + 1, lengths, 8);
        memcpy(at + 9, changes[i].key.data, lengths[0]);
        if (lengths[1])
            memcpy(at + 9 + lengths[0], changes[i].value.data, lengths[1]);
        at += 9 + lengths[0] + lengths[1];
    }
    uint32_t body = (uint32_t)(length - HEADER);
    memcpy(record + 8, &body, 4);
    uint64_t sum = checksum(record + 8, length - 8, it.end);
    memcpy(record, &sum, 8);
    ssize_t put = pwrite(it.file, record, length, (off_t)it.end);
    free(record);
    bool is_durable = put == (ssize_t)length && (!it.sync_writes || fsync(it.file) == 0);
    it.end += length;
    if (!is_durable) {
        it.is_read_only = true;
        return kv_fail(KV_IO_ERROR, "write or fsync of the log: %s", strerror(errno));
    }
    for (size_t i = 0; i < count; i++)
        apply(&changes[i]);
    return KV_OK;
}

static enum kv_status put(struct kv_bytes key, struct kv_bytes value, bool is_relaxed)
{
    struct kv_change change = {.key = key, .value = value};
    return batch(&change, 1, is_relaxed);
}

static enum kv_status drop(struct kv_bytes key, bool is_relaxed)
{
    struct kv_change change = {.is_delete = true, .key = key};
    return batch(&change, 1, is_relaxed);
}

static enum kv_status get(void *snapshot, struct kv_bytes key)
{
    (void)snapshot;
    bool is_there;
    size_t at = find(key, &is_there);
    if (!is_there)
        return KV_NOT_FOUND;
    kv_value(it.entries[at].value.data, it.entries[at].value.length);
    return KV_OK;
}

static enum kv_status scan(void *snapshot, const struct kv_range *range)
{
    (void)snapshot;
    bool is_there;
    size_t low = range->has_start ? find(range->start, &is_there) : 0;
    size_t high = range->has_end ? find(range->end, &is_there) : it.count;
    while (low < high) {
        struct entry *next = it.entries + (range->is_reverse ? --high : low++);
        if (!kv_entry(next->key.data, next->key.length, next->value.data, next->value.length))
            break;
    }
    return KV_OK;
}

static enum kv_status sync_log(void)
{
    /* Every answered write is durable; after a failure nobody knows. */
    return it.is_read_only ? kv_fail(KV_READ_ONLY, "a call failed; open the database anew") : KV_OK;
}

static enum kv_status close_log(void)
{
    close(it.file);
    return sync_log();
}

const struct kv_engine kv_engine = {
    .engine = "log-in-c 1",
    .settings = "fsync after each write",
    .order = "prefix",
    .policies = "",
    .offers_reverse_scan = true,
    .open = open_log,
    .put = put,
    .remove = drop,
    .batch = batch,
    .get = get,
    .scan = scan,
    .sync = sync_log,
    .close = close_log,
};
