package fs

// pogreb's file system on WASI preview 1: no locks of files, since there is one process. Its other file system, which maps files, is not
// there: it answers an error. Stands for os_unix.go and os_mmap_unix.go.

import (
	"os"
	"syscall"
)

// The lock file itself is created as on Unix: that it is there already says that the database was not closed.
func createLockFile(name string, perm os.FileMode) (LockFile, bool, error) {
	_, err := os.Stat(name)
	wasThere := err == nil
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, perm)
	if err != nil {
		return nil, false, err
	}
	return &osLockFile{file, name}, wasThere, nil
}

func mmap(*os.File, int64, int64) ([]byte, error) { return nil, syscall.ENOSYS }

func munmap([]byte) error { return syscall.ENOSYS }

func madviceRandom([]byte) error { return nil }

func (*osMMapFile) Truncate(int64) error { return syscall.ENOSYS }
