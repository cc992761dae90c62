package bbolt

// bbolt on WASI preview 1: no locks of files, since there is one process; the mapping comes from kvsim's host. Stands for bolt_unix.go and
// mlock_unix.go.

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"go.etcd.io/bbolt/internal/common"
)

// The host copies the file's bytes to the address and keeps them equal to the file until they are unmapped. Both are multiples of 4,096.
//
//go:wasmimport kvsim map
func hostMap(fd int32, offset int64, address unsafe.Pointer, length int32) int32

//go:wasmimport kvsim unmap
func hostUnmap(address unsafe.Pointer, length int32) int32

const hostPage = 4096

func flock(*DB, bool, time.Duration) error { return nil }

func funlock(*DB) error { return nil }

// mmap maps the first size bytes of the file into memory that Go has allocated, and that stays where it is while dataref holds it.
func mmap(db *DB, size int) error {
	length := (size + hostPage - 1) / hostPage * hostPage
	room := make([]byte, length+hostPage)
	begin := (hostPage - int(uintptr(unsafe.Pointer(&room[0]))%hostPage)) % hostPage
	mapped := room[begin : begin+length]
	if errno := hostMap(int32(db.file.Fd()), 0, unsafe.Pointer(&mapped[0]), int32(length)); errno != 0 {
		return fmt.Errorf("map: %w", syscall.Errno(errno))
	}
	db.dataref = mapped
	db.data = (*[common.MaxMapSize]byte)(unsafe.Pointer(&mapped[0]))
	db.datasz = size
	return nil
}

func munmap(db *DB) error {
	if db.dataref == nil {
		return nil
	}
	errno := hostUnmap(unsafe.Pointer(&db.dataref[0]), int32(len(db.dataref)))
	db.dataref, db.data, db.datasz = nil, nil, 0
	if errno != 0 {
		return fmt.Errorf("unmap: %w", syscall.Errno(errno))
	}
	return nil
}

func mlock(*DB, int) error { return nil }

func munlock(*DB, int) error { return nil }
