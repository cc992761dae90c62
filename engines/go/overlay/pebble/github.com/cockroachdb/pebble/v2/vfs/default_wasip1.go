package vfs

// pebble's file system on WASI preview 1. As in its file for other systems than Linux, a sync of a part is a sync of the file, and nothing is
// preallocated. There are no locks of files, since there is one process, and nobody knows how full the disk is. Stands for file_lock_generic.go,
// which does not compile.

import (
	"io"
	"io/fs"
	"os"
	"syscall"
)

type wasip1File struct {
	*os.File
	isDirectory bool
}

var _ File = (*wasip1File)(nil)

func wrapOSFileImpl(file *os.File) File { return &wasip1File{File: file} }

func (defaultFS) OpenDir(name string) (File, error) {
	directory, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return &wasip1File{directory, true}, nil
}

func (f *wasip1File) Stat() (FileInfo, error) { return maybeWrapFileInfo(f.File.Stat()) }

func (f *wasip1File) Prefetch(int64, int64) error { return nil }

func (f *wasip1File) Preallocate(int64, int64) error { return nil }

func (f *wasip1File) SyncData() error { return f.Sync() }

func (f *wasip1File) SyncTo(int64) (bool, error) {
	err := f.Sync()
	return err == nil, err
}

func (f *wasip1File) Fd() uintptr {
	if f.isDirectory {
		return InvalidFd
	}
	return f.File.Fd()
}

func deviceIDFromFileInfo(about fs.FileInfo) DeviceID {
	device := about.Sys().(*syscall.Stat_t).Dev
	return DeviceID{major: uint32(device >> 32), minor: uint32(device)}
}

func (defaultFS) GetDiskUsage(string) (DiskUsage, error) { return DiskUsage{}, ErrUnsupported }

func (defaultFS) Lock(name string) (io.Closer, error) { return os.Create(name) }

var errNotEmpty = syscall.ENOTEMPTY

// IsNoSpaceError says whether the disk is full.
func IsNoSpaceError(err error) bool { return isNoSpace(err) }
