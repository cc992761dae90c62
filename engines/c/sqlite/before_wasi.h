/* SQLite before 3.41 does not know WASI. These declarations let its file for Unix compile; no line of SQLite is changed.
 * Nothing here is called with the VFS unix-none and without memory mapping: there are no users, locks or mappings to ask for. */
#define _WASI_EMULATED_MMAN
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/mman.h>
#include <unistd.h>

#define SQLITE_MAX_MMAP_SIZE 0
#define SQLITE_DEFAULT_UNIX_VFS "unix-none"

#ifndef F_RDLCK
#define F_RDLCK 0
#define F_WRLCK 1
#define F_UNLCK 2
#define F_GETLK 5
#define F_SETLK 6
#endif

static inline uid_t before_wasi_geteuid(void) { return 1; } /* not root, so SQLite does not change owners */
static inline int before_wasi_fchown(int file, uid_t user, gid_t group) { return (void)file, (void)user, (void)group, errno = ENOSYS, -1; }
static inline int before_wasi_fchmod(int file, mode_t mode) { return (void)file, (void)mode, 0; }
static inline void *before_wasi_mmap(void *at, size_t length, int how, int flags, int file, off_t offset)
{
    return (void)at, (void)length, (void)how, (void)flags, (void)file, (void)offset, errno = ENOSYS, MAP_FAILED;
}
static inline int before_wasi_munmap(void *at, size_t length) { return (void)at, (void)length, errno = ENOSYS, -1; }
static inline pid_t before_wasi_getpid(void) { return 1; }
static inline mode_t before_wasi_umask(mode_t mode) { return (void)mode, 0; }

#define geteuid before_wasi_geteuid
#define fchown before_wasi_fchown
#define fchmod before_wasi_fchmod
#define mmap before_wasi_mmap
#define munmap before_wasi_munmap
#define getpid before_wasi_getpid
#define umask before_wasi_umask
