// rosedb behind kvsim's adapter. Sync is true, the strictest: each write is followed by an fsync.
// Options: segment_size=BYTES.
package main

import (
	"strconv"

	"github.com/rosedblabs/rosedb/v2"

	"kvsim/adapter"
)

func init() {
	adapter.Serve(adapter.Offers{
		Engine: "rosedb " + version, Settings: "Sync",
		Batch: true, Scan: true, ReverseScan: true, Sync: true,
		Policies: []string{"recovery_survives=power_cut"},
	}, open)
}

func main() { adapter.Stdio() }

// Set by the build.
var version string

type engine struct{ db *rosedb.DB }

func open(directory string, options adapter.Options) (adapter.Engine, error) {
	settings := rosedb.DefaultOptions
	settings.DirPath, settings.Sync = directory, true
	for _, option := range options {
		number, err := strconv.ParseInt(option.Value, 10, 64)
		if option.Name != "segment_size" {
			return nil, adapter.UnknownOption(option.Name)
		}
		if err != nil {
			return nil, adapter.Fail(adapter.Invalid, "the option `%s` is a number, not `%s`", option.Name, option.Value)
		}
		settings.SegmentSize = number
	}
	db, err := rosedb.Open(settings)
	if err != nil {
		return nil, err
	}
	return engine{db}, nil
}

func (e engine) Put(key, value []byte, _ bool) error { return e.db.Put(key, value) }

func (e engine) Delete(key []byte, _ bool) error { return e.db.Delete(key) }

func (e engine) Batch(changes []adapter.Change, _ bool) error {
	batch := e.db.NewBatch(rosedb.BatchOptions{Sync: true})
	for _, change := range changes {
		var err error
		if change.IsDelete {
			err = batch.Delete(change.Key)
		} else {
			err = batch.Put(change.Key, change.Value)
		}
		if err != nil {
			_ = batch.Rollback()
			return err
		}
	}
	return batch.Commit()
}

func (e engine) Get(key []byte) ([]byte, error) {
	value, err := e.db.Get(key)
	if err == rosedb.ErrKeyNotFound {
		return nil, adapter.ErrNotFound
	}
	return value, err
}

func (e engine) Scan(wanted adapter.Range, add func(key, value []byte) bool) error {
	visit := func(key, value []byte) (bool, error) {
		switch {
		case wanted.End != nil && string(key) >= string(wanted.End):
			return wanted.Reverse, nil // a descent begins at the end, which is not in the range
		case wanted.Start != nil && string(key) < string(wanted.Start):
			return false, nil
		}
		return add(key, value), nil
	}
	switch {
	case wanted.Reverse && wanted.End != nil:
		e.db.DescendLessOrEqual(wanted.End, visit)
	case wanted.Reverse:
		e.db.Descend(visit)
	case wanted.Start != nil:
		e.db.AscendGreaterOrEqual(wanted.Start, visit)
	default:
		e.db.Ascend(visit)
	}
	return nil
}

func (e engine) Sync() error { return e.db.Sync() }

func (e engine) Close() error { return e.db.Close() }
