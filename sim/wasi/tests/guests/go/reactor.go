//go:build !command

package main

import "unsafe"

var buffer, kept []byte

//go:wasmexport kv_buffer
func kvBuffer(size int32) int32 {
	if int(size) > len(buffer) {
		buffer = make([]byte, size)
	}
	return int32(uintptr(unsafe.Pointer(unsafe.SliceData(buffer))))
}

//go:wasmexport kv_message
func kvMessage(size int32) int64 {
	kept = handle(buffer[:size])
	address := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(kept))))
	return int64(address<<32 | uint64(len(kept)))
}

func main() {}
