// pogreb behind kvsim's adapter. BackgroundSyncInterval is -1, the strictest: a sync after each write. The file system is fs.OS, pogreb's own
// that maps no files: its default maps 1 GiB.
package main

import (
	"github.com/akrylysov/pogreb"
	"github.com/akrylysov/pogreb/fs"

	"kvsim/adapter"
)

func init() {
	adapter.Serve(adapter.Offers{
		Engine: "pogreb " + version, Settings: "BackgroundSyncInterval -1, FileSystem fs.OS",
		Sync:     true,
		Policies: []string{"recovery_survives=power_cut"},
	}, open)
}

func main() { adapter.Stdio() }

// Set by the build.
var version string

type engine struct{ db *pogreb.DB }

func open(directory string, options adapter.Options) (adapter.Engine, error) {
	for _, option := range options {
		return nil, adapter.UnknownOption(option.Name)
	}
	db, err := pogreb.Open(directory, &pogreb.Options{BackgroundSyncInterval: -1, FileSystem: fs.OS})
	if err != nil {
		return nil, err
	}
	return engine{db}, nil
}

func (e engine) Put(key, value []byte, _ bool) error { return e.db.Put(key, value) }

func (e engine) Delete(key []byte, _ bool) error { return e.db.Delete(key) }

func (e engine) Get(key []byte) ([]byte, error) {
	isThere, err := e.db.Has(key)
	if err == nil && !isThere {
		return nil, adapter.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return e.db.Get(key)
}

func (e engine) Sync() error { return e.db.Sync() }

func (e engine) Close() error { return e.db.Close() }
