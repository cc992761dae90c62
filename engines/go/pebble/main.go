// pebble behind kvsim's adapter. A durable write has pebble.Sync, a relaxed one pebble.NoSync. All else is pebble's default.
// Options: mem_table_size=BYTES, format_newest=true.
package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/cockroachdb/pebble/v2"

	"kvsim/adapter"
)

func init() {
	adapter.Serve(adapter.Offers{
		Engine: "pebble " + version, Settings: "pebble.Sync for durable writes, else the defaults",
		Batch: true, Scan: true, ReverseScan: true, Snapshot: true, Relaxed: true, Sync: true,
		Policies: []string{"recovery_survives=power_cut", "relaxed_survives_kill=false"},
	}, open)
}

func main() { adapter.Stdio() }

// Set by the build.
var version string

// Says nothing but what ends the process.
type logger struct{}

func (logger) Infof(string, ...any)  {}
func (logger) Errorf(string, ...any) {}
func (logger) Fatalf(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, "pebble: fatal: "+format+"\n", arguments...)
	panic("pebble: fatal: " + fmt.Sprintf(format, arguments...))
}

type reader struct{ pebble.Reader }

type engine struct {
	reader
	db *pebble.DB
}

type snapshot struct {
	reader
	snapshot *pebble.Snapshot
}

func open(directory string, options adapter.Options) (adapter.Engine, error) {
	settings := &pebble.Options{Logger: logger{}}
	for _, option := range options {
		switch option.Name {
		case "mem_table_size":
			size, err := strconv.ParseUint(option.Value, 10, 32)
			if err != nil {
				return nil, adapter.Fail(adapter.Invalid, "the option `%s` is a number, not `%s`", option.Name, option.Value)
			}
			settings.MemTableSize = size
		case "format_newest":
			settings.FormatMajorVersion = pebble.FormatNewest
		default:
			return nil, adapter.UnknownOption(option.Name)
		}
	}
	db, err := pebble.Open(directory, settings)
	if err != nil {
		return nil, failed(err)
	}
	return &engine{reader{db}, db}, nil
}

func failed(err error) error {
	switch {
	case err == nil:
		return nil
	case err == pebble.ErrNotFound:
		return adapter.ErrNotFound
	case err == pebble.ErrReadOnly:
		return adapter.Fail(adapter.ReadOnly, "%v", err)
	case pebble.IsCorruptionError(err):
		return adapter.Fail(adapter.Corruption, "%v", err)
	}
	return err
}

func how(relaxed bool) *pebble.WriteOptions {
	if relaxed {
		return pebble.NoSync
	}
	return pebble.Sync
}

func (r reader) Get(key []byte) ([]byte, error) {
	found, closer, err := r.Reader.Get(key)
	if err != nil {
		return nil, failed(err)
	}
	value := append([]byte{}, found...)
	return value, failed(closer.Close())
}

func (r reader) Scan(wanted adapter.Range, add func(key, value []byte) bool) error {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: wanted.Start, UpperBound: wanted.End})
	if err != nil {
		return failed(err)
	}
	step, has := it.Next, it.First()
	if wanted.Reverse {
		step, has = it.Prev, it.Last()
	}
	for ; has && add(it.Key(), it.Value()); has = step() {
	}
	return failed(it.Close())
}

func (e *engine) Put(key, value []byte, relaxed bool) error {
	return failed(e.db.Set(key, value, how(relaxed)))
}

func (e *engine) Delete(key []byte, relaxed bool) error {
	return failed(e.db.Delete(key, how(relaxed)))
}

func (e *engine) Batch(changes []adapter.Change, relaxed bool) error {
	if len(changes) == 0 && !relaxed {
		return e.Sync()
	}
	batch := e.db.NewBatch()
	for _, change := range changes {
		var err error
		if change.IsDelete {
			err = batch.Delete(change.Key, nil)
		} else {
			err = batch.Set(change.Key, change.Value, nil)
		}
		if err != nil {
			return failed(err)
		}
	}
	return failed(batch.Commit(how(relaxed)))
}

// Sync writes an empty record to the log, durably.
func (e *engine) Sync() error { return failed(e.db.LogData(nil, pebble.Sync)) }

func (e *engine) Snapshot() (adapter.Snapshot, error) {
	taken := e.db.NewSnapshot()
	return snapshot{reader{taken}, taken}, nil
}

func (s snapshot) Release() { _ = s.snapshot.Close() }

// Close makes relaxed writes durable first.
func (e *engine) Close() error {
	if err := e.Sync(); err != nil {
		return err
	}
	return failed(e.db.Close())
}
