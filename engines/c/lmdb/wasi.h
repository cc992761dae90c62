/* What LMDB asks of a system, on WASI preview 1; no line of LMDB is changed. Mappings come from kvsim's host: it copies the file's bytes to the
 * address and keeps them equal to the file, whatever changes it. They are for reading, as LMDB's are without MDB_WRITEMAP. Locks of files are
 * there for the compiler only: the adapter opens with MDB_NOLOCK. Pages have 4,096 bytes, as on most machines. */
#define _WASI_EMULATED_MMAN
#define _WASI_EMULATED_SIGNAL
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define F_RDLCK 0
#define F_WRLCK 1
#define F_UNLCK 2
#define F_GETLK 5
#define F_SETLK 6
#define F_SETLKW 7
#define fcntl(file, command, ...) (errno = ENOSYS, -1)

#define sysconf(name) 4096L

/* Of copying a database by a thread of its own, which the adapter never does. */
#define SIG_BLOCK 0
#define sigemptyset(set) ((void)(set), 0)
#define sigaddset(set, signal) ((void)(set), 0)
#define sigwait(set, signal) ((void)(set), (void)(signal), 0)
#define pthread_sigmask(how, set, old) (ENOSYS)

__attribute__((import_module("kvsim"), import_name("map"))) int kv_host_map(int file, int64_t offset, void *at, int length);
__attribute__((import_module("kvsim"), import_name("unmap"))) int kv_host_unmap(void *at, int length);

/* Memory that is new has zero bytes, so nothing is cleared, and a large mapping of a small file is cheap. It is not used again. */
static inline void *kv_mmap(void *at, size_t length, int protection, int flags, int file, off_t offset)
{
    (void)at, (void)flags;
    if (protection & PROT_WRITE)
        return errno = ENOSYS, MAP_FAILED;
    size_t first = __builtin_wasm_memory_grow(0, (length + 65535) / 65536);
    if (first == (size_t)-1)
        return errno = ENOMEM, MAP_FAILED;
    void *mapped = (void *)(first * 65536);
    int error = kv_host_map(file, offset, mapped, (int)length);
    return error ? (errno = error, MAP_FAILED) : mapped;
}

static inline int kv_munmap(void *at, size_t length)
{
    int error = kv_host_unmap(at, (int)length);
    return error ? (errno = error, -1) : 0;
}

static inline int kv_msync(void *at, size_t length, int flags)
{
    return (void)at, (void)length, (void)flags, errno = ENOSYS, -1;
}

#define mmap kv_mmap
#define munmap kv_munmap
#define madvise(at, length, advice) (0)
#define msync kv_msync
