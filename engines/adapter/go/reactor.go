//go:build wasip1 && !command

package adapter

import "unsafe"

// The message that comes next, and the last answer: they stay where they are until the next call.
var message, answer []byte

//go:wasmexport kv_buffer
func buffer(length int32) unsafe.Pointer {
	// A new one for each message: an engine may keep the slices that it gets.
	message = make([]byte, max(length, 1))
	return unsafe.Pointer(unsafe.SliceData(message))
}

//go:wasmexport kv_message
func answerTo(length int32) int64 {
	answer = server.Answer(message[:length])
	return int64(uintptr(unsafe.Pointer(unsafe.SliceData(answer))))<<32 | int64(len(answer))
}
