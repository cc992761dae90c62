// Package kvdb is the engine in a Go program, by cgo.
//
// cgo has to find the library: CGO_LDFLAGS="-L/where/it/is -lkvdb". A call that waits for the disk takes a thread of Go's meanwhile.
package kvdb

// #cgo CFLAGS: -I${SRCDIR}/../../../include
// #include <stdlib.h>
// #include "kvdb.h"
import "C"

import (
	"iter"
	"runtime"
	"strconv"
	"unsafe"
)

// Durability says when a write is acknowledged.
type Durability uint32

const (
	// Durable is once it survives a power cut.
	Durable Durability = C.KVDB_DURABLE
	// Relaxed is as soon as it is accepted.
	Relaxed Durability = C.KVDB_RELAXED
)

// Error says what went wrong. Status is one of kvdb.h.
type Error struct {
	Status  int
	Message string
}

func (e *Error) Error() string { return e.Message }

// failed makes an error of what a call returned, and frees C's.
func failed(status C.kvdb_status, err *C.kvdb_error) error {
	if status == C.KVDB_OK || status == C.KVDB_NOT_FOUND {
		return nil
	}
	defer C.kvdb_error_free(err)
	return &Error{int(status), C.GoString(C.kvdb_error_message(err))}
}

// in is the address of bytes for the time of a call, during which C keeps no pointer of Go's.
func in(bytes []byte) (*C.uint8_t, C.size_t) {
	return (*C.uint8_t)(unsafe.SliceData(bytes)), C.size_t(len(bytes))
}

// DB is an open database. Any number of goroutines may use it.
type DB struct{ handle *C.kvdb }

// Options by name, as for kvdb_options_set.
type Options map[string]any

// Open opens the database in a file, and creates it if it does not exist.
func Open(path string, options Options) (*DB, error) {
	made := C.kvdb_options_new()
	defer C.kvdb_options_free(made)
	var err *C.kvdb_error
	for name, value := range options {
		text, isText := value.(string)
		if number, isNumber := value.(int); isNumber {
			text, isText = strconv.Itoa(number), true
		}
		if !isText {
			return nil, &Error{C.KVDB_INVALID, "option " + name + " is neither a text nor an int"}
		}
		cName, cText := C.CString(name), C.CString(text)
		status := C.kvdb_options_set(made, cName, cText, &err)
		C.free(unsafe.Pointer(cName))
		C.free(unsafe.Pointer(cText))
		if err := failed(status, err); err != nil {
			return nil, err
		}
	}
	cPath := C.CString(path)
	defer C.free(unsafe.Pointer(cPath))
	db := &DB{}
	status := C.kvdb_open(cPath, made, &db.handle, &err)
	if err := failed(status, err); err != nil {
		return nil, err
	}
	return db, nil
}

// Close makes everything durable and closes the database.
func (db *DB) Close() error {
	var err *C.kvdb_error
	handle := db.handle
	db.handle = nil
	return failed(C.kvdb_close(handle, &err), err)
}

// Put sets a key.
func (db *DB) Put(key, value []byte, durability Durability) error {
	var err *C.kvdb_error
	k, kLen := in(key)
	v, vLen := in(value)
	return failed(C.kvdb_put(db.handle, k, kLen, v, vLen, C.uint32_t(durability), &err), err)
}

// Get is the value of a key as Go's own bytes, and whether there is one.
func (db *DB) Get(key []byte) ([]byte, bool, error) {
	var err *C.kvdb_error
	var value *C.kvdb_value
	k, kLen := in(key)
	status := C.kvdb_get(db.handle, k, kLen, &value, &err)
	return taken(status, value, err)
}

func taken(status C.kvdb_status, value *C.kvdb_value, err *C.kvdb_error) ([]byte, bool, error) {
	defer C.kvdb_value_free(value)
	if status != C.KVDB_OK {
		return nil, false, failed(status, err)
	}
	var size C.size_t
	data := C.kvdb_value_bytes(value, &size)
	return C.GoBytes(unsafe.Pointer(data), C.int(size)), true, nil
}

// Batch is writes that take effect together or not at all.
type Batch struct {
	handle *C.kvdb_batch
	err    error
}

// NewBatch is a batch without writes. The collector frees it.
func NewBatch() *Batch {
	batch := &Batch{handle: C.kvdb_batch_new()}
	runtime.AddCleanup(batch, func(handle *C.kvdb_batch) { C.kvdb_batch_free(handle) }, batch.handle)
	return batch
}

// Put adds a write that sets a key.
func (b *Batch) Put(key, value []byte) {
	var err *C.kvdb_error
	k, kLen := in(key)
	v, vLen := in(value)
	if status := C.kvdb_batch_put(b.handle, k, kLen, v, vLen, &err); b.err == nil {
		b.err = failed(status, err)
	}
	runtime.KeepAlive(b)
}

// Delete adds a write that removes a key.
func (b *Batch) Delete(key []byte) {
	var err *C.kvdb_error
	k, kLen := in(key)
	if status := C.kvdb_batch_delete(b.handle, k, kLen, &err); b.err == nil {
		b.err = failed(status, err)
	}
	runtime.KeepAlive(b)
}

// Write writes all of a batch or nothing.
func (db *DB) Write(b *Batch, durability Durability) error {
	defer runtime.KeepAlive(b)
	if b.err != nil {
		return b.err
	}
	var err *C.kvdb_error
	return failed(C.kvdb_write(db.handle, b.handle, C.uint32_t(durability), &err), err)
}

// Snapshot is one moment of a database. Close it, since it keeps the space of what is overwritten.
type Snapshot struct{ handle *C.kvdb_snapshot }

// Snapshot takes a snapshot.
func (db *DB) Snapshot() (*Snapshot, error) {
	var err *C.kvdb_error
	snapshot := &Snapshot{}
	status := C.kvdb_snapshot_new(db.handle, &snapshot.handle, &err)
	return snapshot, failed(status, err)
}

// Get is the value of a key as it was.
func (s *Snapshot) Get(key []byte) ([]byte, bool, error) {
	var err *C.kvdb_error
	var value *C.kvdb_value
	k, kLen := in(key)
	status := C.kvdb_snapshot_get(s.handle, k, kLen, &value, &err)
	return taken(status, value, err)
}

// Close frees the snapshot.
func (s *Snapshot) Close() {
	C.kvdb_snapshot_free(s.handle)
	s.handle = nil
}

// Backward goes through the keys from start, included, up to end, excluded, the largest first; nil is no bound. If it ends early, *failure says why.
func (db *DB) Backward(start, end []byte, failure *error) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		var err *C.kvdb_error
		var cursor *C.kvdb_cursor
		s, sLen := in(start)
		e, eLen := in(end)
		status := C.kvdb_cursor_new(db.handle, nil, s, sLen, e, eLen, &cursor, &err)
		defer C.kvdb_cursor_free(cursor)
		if status == C.KVDB_OK {
			status = C.kvdb_cursor_last(cursor, &err)
		}
		for status == C.KVDB_OK {
			var keyLen, valueLen C.size_t
			key := C.kvdb_cursor_key(cursor, &keyLen)
			value := C.kvdb_cursor_value(cursor, &valueLen)
			if !yield(C.GoBytes(unsafe.Pointer(key), C.int(keyLen)), C.GoBytes(unsafe.Pointer(value), C.int(valueLen))) {
				return
			}
			status = C.kvdb_cursor_previous(cursor, &err)
		}
		*failure = failed(status, err)
	}
}
