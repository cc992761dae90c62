package storage

// goleveldb's file storage on WASI preview 1, where there are no locks of files. As on Unix, a file LOCK is created and kept open, and a
// directory is synced by its own Sync.

import "os"

type wasip1FileLock struct{ file *os.File }

func (lock wasip1FileLock) release() error { return lock.file.Close() }

func newFileLock(path string, readOnly bool) (fileLock, error) {
	how := os.O_RDWR | os.O_CREATE
	if readOnly {
		how = os.O_RDONLY
	}
	file, err := os.OpenFile(path, how, 0o644)
	if err != nil {
		return nil, err
	}
	return wasip1FileLock{file}, nil
}

func rename(from, to string) error { return os.Rename(from, to) }

func syncDir(name string) error {
	directory, err := os.Open(name)
	if err != nil {
		return err
	}
	defer directory.Close()
	return directory.Sync()
}
