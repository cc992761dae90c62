/* Memory without a C library: blocks of powers of two, each size with a list of its free ones. */
#include <stddef.h>
#include <stdint.h>

extern uint8_t __heap_base; /* where the linker has put the end of the program */
static uint8_t *heap_end;
static void *heap_free[32];

static uint32_t heap_class(size_t bytes) {
    uint32_t size = 4;
    while (((size_t)1 << size) < bytes + 8) size++;
    return size;
}

/* Never fails: a guest that is out of memory says so and ends. */
static void *allocate(size_t bytes) {
    uint32_t size = heap_class(bytes);
    if (heap_free[size]) {
        void *block = heap_free[size];
        heap_free[size] = *(void **)block;
        return block;
    }
    if (!heap_end) heap_end = (uint8_t *)(((uintptr_t)&__heap_base + 15) & ~(uintptr_t)15);
    size_t pages = __builtin_wasm_memory_size(0), end = (size_t)heap_end + ((size_t)1 << size);
    if (end > pages << 16) {
        size_t more = (end - (pages << 16) + 65535) >> 16;
        if (__builtin_wasm_memory_grow(0, more) == (size_t)-1) kvsim_panic("out of memory", 13);
    }
    *(uint32_t *)heap_end = size;
    void *block = heap_end + 8;
    heap_end += (size_t)1 << size;
    return block;
}

static void release(void *block) {
    if (!block) return;
    uint32_t size = *(uint32_t *)((uint8_t *)block - 8);
    *(void **)block = heap_free[size];
    heap_free[size] = block;
}

/* Bytes that grow at their end. */
typedef struct {
    uint8_t *bytes;
    size_t length, room;
} buffer;

static uint8_t *extend(buffer *to, size_t length) {
    if (to->length + length > to->room) {
        size_t room = (to->length + length) * 2;
        uint8_t *bytes = allocate(room);
        memcpy(bytes, to->bytes, to->length);
        release(to->bytes);
        to->bytes = bytes;
        to->room = room;
    }
    to->length += length;
    return to->bytes + to->length - length;
}
