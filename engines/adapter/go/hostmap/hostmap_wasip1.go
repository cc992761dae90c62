package hostmap

import (
	"fmt"
	"syscall"
	"unsafe"
)

//go:wasmimport kvsim map
func hostMap(fd int32, offset int64, address unsafe.Pointer, length int32) int32

//go:wasmimport kvsim unmap
func hostUnmap(address unsafe.Pointer, length int32) int32

// Addresses and lengths are multiples of it. Bytes.
const page = 4096

// Map maps the first size bytes of a file; what lies behind its end reads as zeros. The bytes are memory of Go's, which stays where it is
// while the slice is held.
func Map(fd uintptr, size int) ([]byte, error) {
	length := (size + page - 1) / page * page
	room := make([]byte, length+page)
	begin := (page - int(uintptr(unsafe.Pointer(&room[0]))%page)) % page
	mapped := room[begin : begin+length]
	if errno := hostMap(int32(fd), 0, unsafe.Pointer(&mapped[0]), int32(length)); errno != 0 {
		return nil, fmt.Errorf("map: %w", syscall.Errno(errno))
	}
	return mapped, nil
}

// Unmap ends a mapping.
func Unmap(mapped []byte) error {
	if errno := hostUnmap(unsafe.Pointer(&mapped[0]), int32(len(mapped))); errno != 0 {
		return fmt.Errorf("unmap: %w", syscall.Errno(errno))
	}
	return nil
}
