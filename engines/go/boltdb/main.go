// Bolt, from which bbolt comes, behind kvsim's adapter: one bucket, a transaction for each write. All settings are Bolt's defaults, whose
// commits are durable. Its pages are as large as the machine's, for which these versions have no setting: the catalog has 4,096 bytes built in.
// A snapshot is not offered: a read transaction that stays open makes a write wait that has to map the file anew, and one thread cannot wait.
package main

import (
	"errors"
	"path/filepath"

	"github.com/boltdb/bolt"

	"kvsim/adapter"
	_ "kvsim/adapter/hostmap" // for the overlay
)

var bucket = []byte("kv")

func init() {
	adapter.Serve(adapter.Offers{
		Engine: "Bolt " + version, Settings: "the defaults",
		Batch: true, Scan: true, ReverseScan: true, Sync: true,
		Policies: []string{"recovery_survives=power_cut"},
	}, open)
}

func main() { adapter.Stdio() }

// Set by the build.
var version string

type engine struct{ db *bolt.DB }

func open(directory string, options adapter.Options) (adapter.Engine, error) {
	for _, option := range options {
		return nil, adapter.UnknownOption(option.Name)
	}
	db, err := bolt.Open(filepath.Join(directory, "kv.bolt"), 0o600, nil)
	if err != nil {
		return nil, failed(err)
	}
	return engine{db}, failed(db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucket)
		return err
	}))
}

func failed(err error) error {
	for _, known := range []error{bolt.ErrInvalid, bolt.ErrChecksum, bolt.ErrVersionMismatch} {
		if errors.Is(err, known) {
			return adapter.Fail(adapter.Corruption, "%v", err)
		}
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
	return failed(e.db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucket)
		for _, change := range changes {
			var err error
			if change.IsDelete {
				err = b.Delete(change.Key)
			} else {
				err = b.Put(change.Key, change.Value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

func (e engine) Get(key []byte) (value []byte, err error) {
	err = e.db.View(func(tx *bolt.Tx) error {
		found := tx.Bucket(bucket).Get(key)
		if found == nil {
			return adapter.ErrNotFound
		}
		value = append([]byte{}, found...)
		return nil
	})
	return value, err
}

func (e engine) Scan(wanted adapter.Range, add func(key, value []byte) bool) error {
	return failed(e.db.View(func(tx *bolt.Tx) error {
		cursor := tx.Bucket(bucket).Cursor()
		key, value := cursor.First()
		if wanted.Start != nil && !wanted.Reverse {
			key, value = cursor.Seek(wanted.Start)
		}
		step := cursor.Next
		if wanted.Reverse {
			step = cursor.Prev
			key, value = cursor.Last()
			if wanted.End != nil {
				if found, _ := cursor.Seek(wanted.End); found != nil {
					key, value = cursor.Prev()
				} else {
					key, value = cursor.Last()
				}
			}
		}
		for ; key != nil && isInside(key, wanted) && add(key, value); key, value = step() {
		}
		return nil
	}))
}

// isInside looks at the bound that a scan comes to last.
func isInside(key []byte, wanted adapter.Range) bool {
	if wanted.Reverse {
		return wanted.Start == nil || string(key) >= string(wanted.Start)
	}
	return wanted.End == nil || string(key) < string(wanted.End)
}

// Sync has nothing to do: each commit is durable when it is answered.
func (e engine) Sync() error { return nil }

func (e engine) Close() error { return failed(e.db.Close()) }
