package bolt

// Bolt on WASI preview 1: no locks of files, since there is one process; the mapping comes from kvsim's host. Stands for bolt_unix.go.

import (
	"os"
	"time"
	"unsafe"

	"kvsim/adapter/hostmap"
)

func flock(*DB, os.FileMode, bool, time.Duration) error { return nil }

func funlock(*DB) error { return nil }

func mmap(db *DB, size int) error {
	mapped, err := hostmap.Map(db.file.Fd(), size)
	if err != nil {
		return err
	}
	db.dataref = mapped
	db.data = (*[maxMapSize]byte)(unsafe.Pointer(&mapped[0]))
	db.datasz = size
	return nil
}

func munmap(db *DB) error {
	if db.dataref == nil {
		return nil
	}
	err := hostmap.Unmap(db.dataref)
	db.dataref, db.data, db.datasz = nil, nil, 0
	return err
}
