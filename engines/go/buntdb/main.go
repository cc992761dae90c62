// buntdb behind kvsim's adapter. SyncPolicy is Always, the strictest. A batch is one transaction.
// Options: auto_shrink_percentage=N, auto_shrink_min_size=BYTES.
package main

import (
	"path/filepath"
	"strconv"

	"github.com/tidwall/buntdb"

	"kvsim/adapter"
)

func init() {
	adapter.Serve(adapter.Offers{
		Engine: "buntdb " + version, Settings: "SyncPolicy Always",
		Batch: true, Scan: true, ReverseScan: true, Sync: true,
		Policies: []string{"recovery_survives=power_cut"},
	}, open)
}

func main() { adapter.Stdio() }

// Set by the build.
var version string

type engine struct{ db *buntdb.DB }

func open(directory string, options adapter.Options) (adapter.Engine, error) {
	db, err := buntdb.Open(filepath.Join(directory, "kv.buntdb"))
	if err != nil {
		return nil, failed(err)
	}
	var config buntdb.Config
	if err = db.ReadConfig(&config); err != nil {
		return nil, err
	}
	config.SyncPolicy = buntdb.Always
	for _, option := range options {
		number, err := strconv.Atoi(option.Value)
		if err != nil {
			return nil, adapter.Fail(adapter.Invalid, "the option `%s` is a number, not `%s`", option.Name, option.Value)
		}
		switch option.Name {
		case "auto_shrink_percentage":
			config.AutoShrinkPercentage = number
		case "auto_shrink_min_size":
			config.AutoShrinkMinSize = number
		default:
			return nil, adapter.UnknownOption(option.Name)
		}
	}
	return engine{db}, db.SetConfig(config)
}

func failed(err error) error {
	switch err {
	case buntdb.ErrNotFound:
		return adapter.ErrNotFound
	case buntdb.ErrInvalid:
		return adapter.Fail(adapter.Corruption, "%v", err)
	}
	return err
}

func (e engine) Put(key, value []byte, relaxed bool) error {
	return e.Batch([]adapter.Change{{Key: key, Value: value}}, relaxed)
}

func (e engine) Delete(key []byte, relaxed bool) error {
	return e.Batch([]adapter.Change{{IsDelete: true, Key: key}}, relaxed)
}

func (e engine) Batch(changes []adapter.Change, _ bool) error {
	return failed(e.db.Update(func(tx *buntdb.Tx) error {
		for _, change := range changes {
			var err error
			if change.IsDelete {
				_, err = tx.Delete(string(change.Key))
			} else {
				_, _, err = tx.Set(string(change.Key), string(change.Value), nil)
			}
			if err != nil && err != buntdb.ErrNotFound {
				return err
			}
		}
		return nil
	}))
}

func (e engine) Get(key []byte) (value []byte, err error) {
	err = e.db.View(func(tx *buntdb.Tx) error {
		found, err := tx.Get(string(key))
		value = []byte(found)
		return err
	})
	return value, failed(err)
}

func (e engine) Scan(wanted adapter.Range, add func(key, value []byte) bool) error {
	start, end := string(wanted.Start), string(wanted.End)
	visit := func(key, value string) bool {
		switch {
		case wanted.End != nil && key >= end:
			return wanted.Reverse // a descent begins at the end, which is not in the range
		case key < start:
			return false
		}
		return add([]byte(key), []byte(value))
	}
	return failed(e.db.View(func(tx *buntdb.Tx) error {
		switch {
		case !wanted.Reverse:
			return tx.AscendGreaterOrEqual("", start, visit)
		case wanted.End != nil:
			return tx.DescendLessOrEqual("", end, visit)
		}
		return tx.Descend("", visit)
	}))
}

// Sync has nothing to do: with Always each write is durable when it is answered.
func (e engine) Sync() error { return nil }

func (e engine) Close() error { return failed(e.db.Close()) }
