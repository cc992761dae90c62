package fileutil

// Locks of files on WASI preview 1, which has none: the file is opened as elsewhere, and the lock is always free, since there is one process.
// Stands for lock_flock.go.

import "os"

func flockTryLockFile(path string, flag int, perm os.FileMode) (*LockedFile, error) {
	file, err := os.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return &LockedFile{file}, nil
}

func flockLockFile(path string, flag int, perm os.FileMode) (*LockedFile, error) {
	return flockTryLockFile(path, flag, perm)
}
