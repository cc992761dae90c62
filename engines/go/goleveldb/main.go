// goleveldb behind kvsim's adapter. A durable write has WriteOptions{Sync: true}, a relaxed one has none. All else is goleveldb's default.
// A sync and a durable batch without changes are a durable delete of a key that no client can have, since goleveldb skips an empty batch.
// Options: write_buffer=BYTES, block_size=BYTES, compaction_table_size=BYTES.
package main

import (
	"strconv"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"

	"kvsim/adapter"
)

func init() {
	adapter.Serve(adapter.Offers{
		Engine: "goleveldb " + version, Settings: "WriteOptions.Sync for durable writes, else the defaults",
		Batch: true, Scan: true, ReverseScan: true, Snapshot: true, Relaxed: true, Sync: true,
		Policies: []string{"recovery_survives=power_cut"},
	}, open)
}

func main() { adapter.Stdio() }

// Set by the build.
var version string

// What the database and a snapshot have in common.
type source interface {
	Get(key []byte, ro *opt.ReadOptions) ([]byte, error)
	NewIterator(slice *util.Range, ro *opt.ReadOptions) iterator.Iterator
}

type reader struct{ source }

type engine struct {
	reader
	db *leveldb.DB
}

type snapshot struct {
	reader
	snapshot *leveldb.Snapshot
}

func open(directory string, options adapter.Options) (adapter.Engine, error) {
	settings := opt.Options{}
	for _, option := range options {
		number, err := strconv.Atoi(option.Value)
		if err != nil {
			return nil, adapter.Fail(adapter.Invalid, "the option `%s` is a number, not `%s`", option.Name, option.Value)
		}
		switch option.Name {
		case "write_buffer":
			settings.WriteBuffer = number
		case "block_size":
			settings.BlockSize = number
		case "compaction_table_size":
			settings.CompactionTableSize = number
		default:
			return nil, adapter.UnknownOption(option.Name)
		}
	}
	db, err := leveldb.OpenFile(directory, &settings)
	if err != nil {
		return nil, failed(err)
	}
	return &engine{reader{db}, db}, nil
}

func failed(err error) error {
	switch {
	case err == nil:
		return nil
	case err == leveldb.ErrNotFound:
		return adapter.ErrNotFound
	case err == leveldb.ErrReadOnly:
		return adapter.Fail(adapter.ReadOnly, "%v", err)
	case errors.IsCorrupted(err):
		return adapter.Fail(adapter.Corruption, "%v", err)
	}
	return err
}

func (r reader) Get(key []byte) ([]byte, error) {
	value, err := r.source.Get(key, nil)
	return value, failed(err)
}

func (r reader) Scan(wanted adapter.Range, add func(key, value []byte) bool) error {
	it := r.source.NewIterator(&util.Range{Start: wanted.Start, Limit: wanted.End}, nil)
	defer it.Release()
	step, has := it.Next, it.First()
	if wanted.Reverse {
		step, has = it.Prev, it.Last()
	}
	for ; has && add(it.Key(), it.Value()); has = step() {
	}
	return failed(it.Error())
}

func (e *engine) Put(key, value []byte, relaxed bool) error {
	return failed(e.db.Put(key, value, &opt.WriteOptions{Sync: !relaxed}))
}

func (e *engine) Delete(key []byte, relaxed bool) error {
	return failed(e.db.Delete(key, &opt.WriteOptions{Sync: !relaxed}))
}

func (e *engine) Batch(changes []adapter.Change, relaxed bool) error {
	batch := new(leveldb.Batch)
	for _, change := range changes {
		if change.IsDelete {
			batch.Delete(change.Key)
		} else {
			batch.Put(change.Key, change.Value)
		}
	}
	if len(changes) == 0 && !relaxed {
		return e.Sync()
	}
	return failed(e.db.Write(batch, &opt.WriteOptions{Sync: !relaxed}))
}

func (e *engine) Sync() error { return failed(e.db.Delete(nil, &opt.WriteOptions{Sync: true})) }

func (e *engine) Snapshot() (adapter.Snapshot, error) {
	taken, err := e.db.GetSnapshot()
	if err != nil {
		return nil, failed(err)
	}
	return snapshot{reader{taken}, taken}, nil
}

func (s snapshot) Release() { s.snapshot.Release() }

// Close makes relaxed writes durable first: goleveldb's Close does not.
func (e *engine) Close() error {
	if err := e.Sync(); err != nil {
		return err
	}
	return failed(e.db.Close())
}
