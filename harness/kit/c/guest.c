/* A log-structured key/value engine for kvsim. Everything is in memory; a log on the device says how to get there.
 *
 * The device is two halves that hold the log in turn. A log begins with an image: one frame with all that is live. Each commit adds a frame with
 * what waits: one write, and one flush if anything in it has to be durable. When a half is full, and after each opening, the other half gets an
 * image, which is a commit too. So no block that holds acknowledged bytes is ever rewritten while they count, and an opening fences its tail:
 * frames that a crash left behind it belong to an older generation.
 *
 * A frame, from its place on the device:    0 u64 checksum of the rest, begun with the place
 *   8 u64 generation of the log            16 u32 number of the frame in its log
 *  20 u32 frames of the log that were durable when this one was written
 *  24 u32 bytes of mutations               28 u32 magic
 *  32 mutations as in a batch, then zeros to the end of the block
 *
 * Options: bug=ack_before_flush, bug=tail_not_fenced or bug=checksum_not_checked makes a mistake that `kvsim run` finds. */
#define KVSIM_FREESTANDING
#include "kvsim.h"
#include "heap.h"

enum { HEADER = 32, MAGIC = 0x474f4c43, AREA_BYTES_MAX = 8 << 20, KEY_MAX = 1024, VALUE_MAX = 65536 };
enum { IDLE, OPENING_FLUSH, OPENING_READ, OPENING_CHECK, WRITING, FLUSHING }; /* what is under way; one operation at a time */

static const char POLICIES[] = "max_key_bytes=1024\nmax_value_bytes=65536\n";
static const char *const BUGS[] = {"ack_before_flush", "tail_not_fenced", "checksum_not_checked"};
static enum { NONE, ACK_BEFORE_FLUSH, TAIL_NOT_FENCED, CHECKSUM_NOT_CHECKED } bug;

static uint64_t block, half_bytes, start, end; /* where the log starts, and where its next frame goes */
static uint64_t generation, newest;            /* of the log, and the newest that was seen */
static uint32_t sequence, durable;             /* frames of the log, and how many of them are durable */
static int phase, image_is_due, must_flush, read_only, closed;
static buffer payload, frame, queue, waiting, group, answer; /* `waiting` and `group` hold request * 2 + is relaxed */

/* ---- The state: versions by key, and of each key the newest first ---- */

typedef struct {
    uint8_t *key, *value; /* no value: deleted */
    uint32_t key_length, value_length;
    uint64_t at;
} version;
static buffer versions, snapshots;
static uint64_t now_at;
static size_t live_bytes; /* of an image */

#define VERSION(index) ((version *)versions.bytes)[index]
#define COUNT (versions.length / sizeof(version))

static int order(const uint8_t *one, uint32_t length, const uint8_t *other, uint32_t other_length) {
    int order = memcmp(one, other, length < other_length ? length : other_length);
    return order ? order : (length > other_length) - (length < other_length);
}

static size_t find(const uint8_t *key, uint32_t length) {
    size_t low = 0, high = COUNT;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (order(VERSION(middle).key, VERSION(middle).key_length, key, length) < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}

static int is_of(size_t index, const uint8_t *key, uint32_t length) {
    return index < COUNT && order(VERSION(index).key, VERSION(index).key_length, key, length) == 0;
}

/* The value of the key whose newest version is at `*index`, as a snapshot sees it; moves on to the next key. */
static version *seen(size_t *index, uint64_t snapshot) {
    version *first = &VERSION(*index), *found = NULL;
    for (; is_of(*index, first->key, first->key_length); ++*index)
        if (!found && (!snapshot || VERSION(*index).at <= snapshot)) found = &VERSION(*index);
    return found && found->value ? found : NULL;
}

static void drop(size_t index) {
    release(VERSION(index).key), release(VERSION(index).value);
    memmove(&VERSION(index), &VERSION(index + 1), (COUNT - index - 1) * sizeof(version));
    versions.length -= sizeof(version);
}

static void apply(const uint8_t *key, uint32_t key_length, const uint8_t *value, uint32_t value_length) {
    size_t index = find(key, key_length);
    if (is_of(index, key, key_length) && VERSION(index).value)
        live_bytes -= KVSIM_MUTATION_KEY + key_length + VERSION(index).value_length;
    if (!snapshots.length && is_of(index, key, key_length)) drop(index);
    if (!value && !snapshots.length) return;
    extend(&versions, sizeof(version));
    memmove(&VERSION(index + 1), &VERSION(index), (COUNT - index - 1) * sizeof(version));
    VERSION(index) = (version){allocate(key_length), value ? allocate(value_length) : NULL, key_length, value_length, ++now_at};
    memcpy(VERSION(index).key, key, key_length);
    if (!value) return;
    memcpy(VERSION(index).value, value, value_length);
    live_bytes += KVSIM_MUTATION_KEY + key_length + value_length;
}

/* Applies mutations as they stand in a batch, or only looks at them; 0 if one of them is none. */
static int mutations(const uint8_t *at, size_t length, int is_real) {
    for (const uint8_t *stop = at + length; at < stop;) {
        if (stop - at < KVSIM_MUTATION_KEY) return 0;
        uint32_t key_length = kvsim_u32(at + KVSIM_MUTATION_KEY_LENGTH), value_length = kvsim_u32(at + KVSIM_MUTATION_VALUE_LENGTH);
        if (!key_length || key_length > KEY_MAX || value_length > VALUE_MAX) return 0;
        const uint8_t *key = at + KVSIM_MUTATION_KEY, *value = key + key_length;
        if (stop - key < (ptrdiff_t)(key_length + value_length)) return 0;
        if (is_real) apply(key, key_length, at[KVSIM_MUTATION_KIND] == KVSIM_MUTATION_PUT ? value : NULL, value_length);
        at = value + value_length;
    }
    return 1;
}

static void put_mutation(buffer *to, int kind, const uint8_t *key, uint32_t key_length, const uint8_t *value, uint32_t value_length) {
    uint8_t *at = extend(to, KVSIM_MUTATION_KEY + key_length + value_length);
    at[KVSIM_MUTATION_KIND] = (uint8_t)kind;
    kvsim_put_u32(at + KVSIM_MUTATION_KEY_LENGTH, key_length);
    kvsim_put_u32(at + KVSIM_MUTATION_VALUE_LENGTH, value_length);
    memcpy(at + KVSIM_MUTATION_KEY, key, key_length);
    memcpy(at + KVSIM_MUTATION_KEY + key_length, value, value_length);
}

/* ---- The log ---- */

static void say(uint64_t request, uint32_t status, const char *text) {
    uint32_t length = 0;
    while (text[length]) length++;
    kvsim_reply(request, status, text, length);
}

static uint64_t checksum(const uint8_t *at, size_t length, uint64_t place) { /* FNV-1a */
    uint64_t hash = 0xcbf29ce484222325 ^ place;
    for (size_t byte = 0; byte < length; byte++) hash = (hash ^ at[byte]) * 0x100000001b3;
    return hash;
}

static uint64_t padded(uint64_t bytes) { return (bytes + block - 1) / block * block; }

/* Writes `frame`, a header's room and mutations, behind the other frames. */
static void write_frame(void) {
    uint32_t length = (uint32_t)frame.length;
    size_t zeros = padded(length) - length;
    memset(extend(&frame, zeros), 0, zeros);
    kvsim_put_u64(frame.bytes + 8, generation), kvsim_put_u32(frame.bytes + 16, sequence++), kvsim_put_u32(frame.bytes + 20, durable);
    kvsim_put_u32(frame.bytes + 24, length - HEADER), kvsim_put_u32(frame.bytes + 28, MAGIC);
    kvsim_put_u64(frame.bytes, checksum(frame.bytes + 8, length - 8, end));
    kvsim_disk_submit(1, KVSIM_DISK_WRITE, end, frame.bytes, (uint32_t)frame.length);
    end += frame.length;
    phase = WRITING;
}

/* Writes what waits, if nothing is under way: a frame behind the others, or an image into the other half. */
static void commit(void) {
    if (phase != IDLE || !waiting.length) return;
    image_is_due |= end + padded(HEADER + queue.length) > start + half_bytes;
    frame.length = 0;
    extend(&frame, HEADER);
    if (image_is_due) {
        start = end = start ? 0 : half_bytes;
        generation = ++newest, sequence = durable = 0;
        for (size_t index = 0; index < COUNT;) {
            version *it = seen(&index, 0);
            if (it) put_mutation(&frame, KVSIM_MUTATION_PUT, it->key, it->key_length, it->value, it->value_length);
        }
    } else {
        memcpy(extend(&frame, queue.length), queue.bytes, queue.length);
    }
    buffer swap = group;
    group = waiting, waiting = swap;
    waiting.length = queue.length = 0;
    must_flush = image_is_due;
    write_frame();
}

/* Answers the requests of the group, or only the relaxed ones; says whether some are left. */
static int answer_group(uint32_t status, int only_relaxed) {
    size_t left = 0;
    for (uint64_t *it = (uint64_t *)group.bytes; (uint8_t *)it < group.bytes + group.length; it++) {
        if (only_relaxed && !(*it & 1)) ((uint64_t *)group.bytes)[left++] = *it;
        else kvsim_reply(*it >> 1, status, NULL, 0);
    }
    group.length = left * 8;
    return left > 0;
}

/* The device failed: nothing that is under way is certain, and nothing more is written until the next opening. */
static void fail(void) {
    read_only = 1;
    answer_group(KVSIM_IO_ERROR, 0);
    buffer swap = group;
    group = waiting, waiting = swap, queue.length = 0;
    answer_group(KVSIM_IO_ERROR, 0);
}

/* The bytes of the frame at this place of the device, if it is whole; 0 if not. */
static uint32_t whole(const uint8_t *device, uint64_t place) {
    const uint8_t *at = device + place;
    uint64_t length = (uint64_t)HEADER + kvsim_u32(at + 24), room = half_bytes - place % half_bytes;
    if (kvsim_u32(at + 28) != MAGIC || length > room) return 0;
    if (bug == CHECKSUM_NOT_CHECKED) return (uint32_t)length;
    return kvsim_u64(at) == checksum(at + 8, length - 8, place) ? (uint32_t)length : 0;
}

/* Reads the newest log into memory, and opens with an image of it. */
static void recover(const uint8_t *device) {
    for (uint64_t place = 0; place <= half_bytes; place += half_bytes) /* A log that begins with a whole image. */
        if (whole(device, place) && !kvsim_u32(device + place + 16) && kvsim_u64(device + place + 8) > generation)
            generation = newest = kvsim_u64(device + place + 8), start = end = place;
    for (uint32_t length; generation && end < start + half_bytes && (length = whole(device, end)); end += padded(length), sequence++) {
        const uint8_t *at = device + end;
        if (kvsim_u64(at + 8) != generation || kvsim_u32(at + 16) != sequence) break;
        mutations(at + HEADER, length - HEADER, 1);
    }
    /* What follows is torn or never came, unless a later frame says that it was durable: then it is damaged, and not to be cut off. */
    for (uint64_t place = 0; place < 2 * half_bytes; place += block) {
        uint64_t its = kvsim_u64(device + place + 8);
        if (its < generation || kvsim_u32(device + place + 20) <= (its == generation ? sequence : 0) || !whole(device, place)) continue;
        if (!bug) return say(0, KVSIM_CORRUPTION, "a frame of the log is damaged, and a later one says that it was durable");
    }
    if (bug == TAIL_NOT_FENCED && end < start + half_bytes && kvsim_u32(device + end + 28) == MAGIC) /* The torn frame stays in the way. */
        end += padded(HEADER + kvsim_u32(device + end + 24)), sequence++;
    durable = sequence;
    image_is_due = bug != TAIL_NOT_FENCED || !generation;
    phase = IDLE;
    *(uint64_t *)extend(&waiting, 8) = 0; /* the opening itself, answered when the image is durable */
    commit();
}

/* ---- What the host calls ---- */

uint32_t kv_abi_version(void) { return KVSIM_ABI_VERSION; }
int64_t kv_policies(void) { return KVSIM_TEXT(POLICIES, sizeof POLICIES - 1); }
int64_t kv_tick(uint64_t now) { return (void)now, KVSIM_NEVER; }

void *kv_buffer(uint32_t length) {
    payload.length = 0;
    extend(&payload, length + 1);
    return payload.bytes;
}

static int set_options(const uint8_t *line, uint32_t length) {
    for (uint32_t from = 0, at = 0; at < length; at++) {
        if (line[at] != '\n') continue;
        const uint8_t *name = line + from;
        uint32_t bytes = at - from;
        int known = 0;
        for (int number = 0; number < 3 && bytes > 4 && !memcmp(name, "bug=", 4); number++) {
            uint32_t letters = 0;
            while (BUGS[number][letters]) letters++;
            if (bytes - 4 == letters && !memcmp(name + 4, BUGS[number], letters)) bug = number + 1, known = 1;
        }
        if (!known) return kvsim_reply(0, KVSIM_INVALID, name, bytes), 0;
        from = at + 1;
    }
    return 1;
}

int64_t kv_open(uint64_t now, const uint8_t *open, uint32_t length) {
    (void)now, (void)length;
    uint64_t capacity = kvsim_u64(open + KVSIM_OPEN_CAPACITY);
    uint32_t sector = kvsim_u32(open + KVSIM_OPEN_SECTOR), physical = kvsim_u32(open + KVSIM_OPEN_PHYSICAL_BLOCK);
    block = physical > sector ? physical : sector;
    half_bytes = (capacity < AREA_BYTES_MAX ? capacity : AREA_BYTES_MAX) / 2 / block * block;
    if (kvsim_u32(open + KVSIM_OPEN_ABI_VERSION) != KVSIM_ABI_VERSION || half_bytes < 8 * block) {
        say(0, KVSIM_INVALID, "another version of the ABI, or a device of less than 16 blocks");
    } else if (set_options(open + KVSIM_OPEN_OPTIONS, kvsim_u32(open + KVSIM_OPEN_OPTIONS_LENGTH))) {
        /* What a killed process has left in the cache has to be durable before it is shown. */
        kvsim_disk_submit(1, KVSIM_DISK_FLUSH, 0, NULL, 0);
        phase = OPENING_FLUSH;
    }
    return KVSIM_NEVER;
}

int64_t kv_complete(uint64_t now, uint64_t tag, uint32_t status, uint32_t length) {
    static uint8_t *device, *again;
    (void)now, (void)tag, (void)length;
    if (phase <= OPENING_CHECK && status) {
        say(0, KVSIM_IO_ERROR, "the device failed during the opening");
    } else if (status) {
        fail();
    } else if (phase == OPENING_FLUSH) {
        device = allocate(2 * half_bytes);
        kvsim_disk_submit(1, KVSIM_DISK_READ, 0, device, (uint32_t)(2 * half_bytes));
        phase = OPENING_READ;
    } else if (phase == OPENING_READ) { /* A read that is out of date is whole and wrong: so one block is read twice. */
        again = allocate(block);
        kvsim_disk_submit(1, KVSIM_DISK_READ, half_bytes, again, (uint32_t)block);
        phase = OPENING_CHECK;
    } else if (phase == OPENING_CHECK) {
        if (memcmp(again, device + half_bytes, block)) say(0, KVSIM_CORRUPTION, "two reads of one block differ");
        else recover(device);
        release(device), release(again);
    } else if (phase == WRITING && (answer_group(KVSIM_OK, bug != ACK_BEFORE_FLUSH) || must_flush)) {
        kvsim_disk_submit(1, KVSIM_DISK_FLUSH, 0, NULL, 0);
        phase = FLUSHING;
    } else {
        if (phase == FLUSHING) durable = sequence;
        if (image_is_due) { /* An empty frame says that the image is durable: should it be damaged later, it is not taken for torn. */
            image_is_due = 0, frame.length = HEADER;
            return write_frame(), KVSIM_NEVER;
        }
        answer_group(KVSIM_OK, 0);
        phase = IDLE;
        commit();
    }
    return KVSIM_NEVER;
}

static int is_snapshot(uint64_t number) {
    if (!number) return 1;
    for (size_t at = 0; at < snapshots.length; at += 8)
        if (kvsim_u64(snapshots.bytes + at) == number) return 1;
    return 0;
}

/* A write, a sync or a close: it waits for its turn. What it changes is seen at once. */
static void enqueue(uint64_t request, uint32_t is_relaxed, const uint8_t *changes, size_t length) {
    if (read_only) return say(request, KVSIM_READ_ONLY, "the device failed; open the database anew");
    if (!mutations(changes, length, 0)) return say(request, KVSIM_INVALID, "a key has 1 to 1,024 bytes, a value at most 65,536");
    int grows = 0;
    for (size_t at = 0; at < length; at += KVSIM_MUTATION_KEY + kvsim_u32(changes + at + KVSIM_MUTATION_KEY_LENGTH) +
                                                kvsim_u32(changes + at + KVSIM_MUTATION_VALUE_LENGTH)) grows |= changes[at] == KVSIM_MUTATION_PUT;
    if (grows && HEADER + live_bytes + length > half_bytes - block) return say(request, KVSIM_NO_SPACE, "no room for another image");
    mutations(changes, length, 1);
    memcpy(extend(&queue, length), changes, length);
    *(uint64_t *)extend(&waiting, 8) = request << 1 | is_relaxed;
    commit();
}

static void scan(uint64_t request, const uint8_t *at, uint64_t snapshot) {
    const uint8_t *from = at + KVSIM_SCAN_KEYS;
    uint32_t from_length = kvsim_u32(at + KVSIM_SCAN_START_LENGTH), limit = kvsim_u32(at + KVSIM_SCAN_LIMIT), count = 0, more = 0;
    size_t low = at[KVSIM_SCAN_BOUNDS] & KVSIM_SCAN_HAS_START ? find(from, from_length) : 0, high = COUNT, bytes = 0;
    if (at[KVSIM_SCAN_BOUNDS] & KVSIM_SCAN_HAS_END) high = find(from + from_length, kvsim_u32(at + KVSIM_SCAN_END_LENGTH));
    answer.length = 0;
    extend(&answer, KVSIM_ENTRIES);
    while (low < high) {
        int is_reverse = at[KVSIM_SCAN_DIRECTION] == KVSIM_SCAN_REVERSE;
        size_t next = is_reverse ? find(VERSION(high - 1).key, VERSION(high - 1).key_length) : low, here = next;
        version *it = seen(&next, snapshot);
        if (is_reverse) high = here;
        else low = next;
        if (!it) continue;
        size_t its = it->key_length + it->value_length;
        if (count && (count >= limit || bytes + its > kvsim_u32(at + KVSIM_SCAN_MAX_BYTES))) {
            more = 1;
            break;
        }
        uint8_t *entry = extend(&answer, KVSIM_ENTRY_KEY + its);
        kvsim_put_u32(entry, it->key_length), kvsim_put_u32(entry + KVSIM_ENTRY_VALUE_LENGTH, it->value_length);
        memcpy(entry + KVSIM_ENTRY_KEY, it->key, it->key_length);
        memcpy(entry + KVSIM_ENTRY_KEY + it->key_length, it->value, it->value_length);
        bytes += its, count++;
    }
    kvsim_put_u32(answer.bytes, count), kvsim_put_u32(answer.bytes + KVSIM_ENTRIES_MORE, more);
    kvsim_reply(request, KVSIM_OK, answer.bytes, (uint32_t)answer.length);
}

int64_t kv_request(uint64_t now, uint64_t request, const uint8_t *at, uint32_t length) {
    static buffer one;
    (void)now;
    uint32_t operation = at[KVSIM_REQUEST_OPERATION], is_relaxed = at[KVSIM_REQUEST_DURABILITY];
    uint64_t snapshot = operation == KVSIM_GET || operation == KVSIM_SCAN || operation == KVSIM_RELEASE ? kvsim_u64(at + 4) : 0;
    one.length = 0;
    if (closed) {
        say(request, KVSIM_CLOSED, "the database is closed");
    } else if (!is_snapshot(snapshot) || (operation == KVSIM_RELEASE && !snapshot)) {
        say(request, KVSIM_INVALID, "no such snapshot");
    } else if (operation == KVSIM_PUT) {
        uint32_t key_length = kvsim_u32(at + KVSIM_PUT_KEY_LENGTH), value_length = kvsim_u32(at + KVSIM_PUT_VALUE_LENGTH);
        put_mutation(&one, KVSIM_MUTATION_PUT, at + KVSIM_PUT_KEY, key_length, at + KVSIM_PUT_KEY + key_length, value_length);
        enqueue(request, is_relaxed, one.bytes, one.length);
    } else if (operation == KVSIM_DELETE) {
        put_mutation(&one, KVSIM_MUTATION_DELETE, at + KVSIM_DELETE_KEY, kvsim_u32(at + KVSIM_DELETE_KEY_LENGTH), NULL, 0);
        enqueue(request, is_relaxed, one.bytes, one.length);
    } else if (operation == KVSIM_BATCH) {
        enqueue(request, is_relaxed, at + KVSIM_BATCH_MUTATIONS, length - KVSIM_BATCH_MUTATIONS);
    } else if (operation == KVSIM_GET) {
        size_t index = find(at + KVSIM_GET_KEY, kvsim_u32(at + KVSIM_GET_KEY_LENGTH));
        version *it = is_of(index, at + KVSIM_GET_KEY, kvsim_u32(at + KVSIM_GET_KEY_LENGTH)) ? seen(&index, snapshot) : NULL;
        kvsim_reply(request, it ? KVSIM_OK : KVSIM_NOT_FOUND, it ? it->value : NULL, it ? it->value_length : 0);
    } else if (operation == KVSIM_SCAN) {
        scan(request, at, snapshot);
    } else if (operation == KVSIM_SNAPSHOT) {
        uint8_t *number = extend(&snapshots, 8);
        kvsim_put_u64(number, ++now_at);
        kvsim_reply(request, KVSIM_OK, number, 8);
    } else if (operation == KVSIM_RELEASE) {
        for (size_t it = 0; it < snapshots.length; it += 8)
            if (kvsim_u64(snapshots.bytes + it) == snapshot) kvsim_put_u64(snapshots.bytes + it, kvsim_u64(snapshots.bytes + snapshots.length - 8));
        snapshots.length -= 8;
        for (size_t index = COUNT; !snapshots.length && index-- > 0;) /* nobody sees the old versions any more */
            if ((index && is_of(index - 1, VERSION(index).key, VERSION(index).key_length)) || !VERSION(index).value) drop(index);
        kvsim_reply(request, KVSIM_OK, NULL, 0);
    } else {
        enqueue(request, 0, NULL, 0); /* sync and close: durable, and nothing in them */
        closed = operation == KVSIM_CLOSE;
    }
    return KVSIM_NEVER;
}
