//go:build wasip1

package adapter

import "unsafe"

// The message that comes next, and the last answer: they stay where they are until the next call.
var message, answer []byte

//go:wasmexport kv_buffer
func buffer(length int32) unsafe.Pointer {
	if int(length) > cap(message) || message == nil {
		message = make([]byte, length, length+4096)
	}
	message = message[:cap(message)]
	return unsafe.Pointer(unsafe.SliceData(message))
}

//go:wasmexport kv_message
func answerTo(length int32) int64 {
	answer = server.Answer(message[:length])
	return int64(uintptr(unsafe.Pointer(unsafe.SliceData(answer))))<<32 | int64(len(answer))
}
