// Package adapter puts a storage engine that uses files behind kvsim's messages.
//
// An engine is a type with the interface Engine; a program hands its Open function to Serve in an init function:
//
//	func init() { adapter.Serve(adapter.Offers{Engine: "mine 1.0", Settings: "fsync after each write"}, open) }
//	func main() { adapter.Stdio() }
//
// Built with -buildmode=c-shared for GOOS=wasip1 GOARCH=wasm it is a reactor, whose exports kv_buffer and kv_message are here; that is
// the quicker kind. Built without and with -tags command, it is a command: messages on stdin, answers on stdout.
//
// The adapter decodes each message, checks what the contract asks of every engine (lengths of keys, unknown snapshots, requests after a
// close), calls the engine, and encodes the answer. A panic is written to stderr and ends the process run; kvsim shows what was written.
package adapter

import (
	"errors"
	"fmt"
)

// Status says how a request ended. The numbers are those of the guest ABI.
type Status uint32

const (
	OK         Status = 0
	NotFound   Status = 1 // of a get only
	Corruption Status = 2 // the engine found damage
	IOError    Status = 3 // a call failed; a write may or may not be found after the next opening
	NoSpace    Status = 4 // nothing was written
	ReadOnly   Status = 5 // nothing was written, and nothing will be until the next opening
	Invalid    Status = 6 // the request is wrong or not offered; nothing was written
	Closed     Status = 7 // the adapter answers it after a close
)

// Error is a status and a message for people. Any other error counts as IOError.
type Error struct {
	Status  Status
	Message string
}

func (e *Error) Error() string { return e.Message }

// Fail is an error with this status.
func Fail(status Status, format string, arguments ...any) error {
	return &Error{status, fmt.Sprintf(format, arguments...)}
}

// UnknownOption is an error that names the option.
func UnknownOption(name string) error { return Fail(Invalid, "the option `%s` is unknown", name) }

// ErrNotFound is what Get returns for a key that is not there.
var ErrNotFound = errors.New("not found")

// Offers says what an engine is, offers and promises. What is not offered is not asked.
type Offers struct {
	Engine      string // name and version
	Settings    string // for people: what was set
	Batch       bool   // the engine is a Batcher
	Scan        bool   // what it reads from is a Scanner
	ReverseScan bool   // a scan may go from the last key to the first
	Snapshot    bool   // the engine is a Snapshotter
	Relaxed     bool   // a write may ask to be answered when it is accepted
	Sync        bool   // the engine is a Syncer
	// Each: each write stands for itself after a crash. Else what survives is a prefix of the commit order.
	Each          bool
	MaxKeyBytes   int      // longer keys are Invalid; 0 means 1,024
	MaxValueBytes int      // 0 means 65,536
	Policies      []string // lines name=value of the guest ABI's policies
}

// Options are the lines name=value of the scenario's [guest.options], in order.
type Options []Option

// Option is one of them.
type Option struct{ Name, Value string }

// Reader is the newest state, or a snapshot.
type Reader interface {
	// Get returns ErrNotFound for a key that is not there. The value is copied before the next call.
	Get(key []byte) ([]byte, error)
}

// Engine is what each engine has.
type Engine interface {
	Reader
	// Put sets a key. It returns when the write is durable, or accepted if it is relaxed.
	Put(key, value []byte, relaxed bool) error
	// Delete takes a key away; it is no error if it is not there.
	Delete(key []byte, relaxed bool) error
	// Close makes all durable and ends.
	Close() error
}

// Change is one member of a batch.
type Change struct {
	IsDelete   bool
	Key, Value []byte
}

// Batcher does all of the changes or none; the last change of a key counts.
type Batcher interface {
	Batch(changes []Change, relaxed bool) error
}

// Range says which entries a scan asks for: start <= key < end, keys as unsigned bytes. A bound that is nil is none. Never empty by its bounds.
type Range struct {
	Start, End []byte
	Reverse    bool
}

// Scanner gives the entries of a range in its direction, until add returns false. Add copies.
type Scanner interface {
	Scan(wanted Range, add func(key, value []byte) bool) error
}

// Snapshotter gives the present state, which stays readable until it is released.
type Snapshotter interface {
	Snapshot() (Snapshot, error)
}

// Snapshot is a state that stays. If scans are offered it is a Scanner too.
type Snapshot interface {
	Reader
	Release()
}

// Syncer makes durable all that was accepted.
type Syncer interface {
	Sync() error
}

// Idler lets work in the background go on. Without it, goroutines run for some rounds of the scheduler.
type Idler interface {
	Idle()
}

// OpenFunc opens the database below a directory, or creates one.
type OpenFunc func(directory string, options Options) (Engine, error)
