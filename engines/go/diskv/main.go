// diskv behind kvsim's adapter: a file for each key. A write is WriteStream with sync, and TempDir is set, so that a file is written beside
// and renamed: diskv's strictest. A key's file is named by its bytes in hexadecimal, and all are in one directory.
package main

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"

	"github.com/peterbourgon/diskv/v3"

	"kvsim/adapter"
)

func init() {
	adapter.Serve(adapter.Offers{
		Engine: "diskv " + version, Settings: "WriteStream with sync, TempDir set",
		Sync: true, Each: true, MaxKeyBytes: 120,
		Policies: []string{"recovery_survives=power_cut"},
	}, open)
}

func main() { adapter.Stdio() }

// Set by the build.
var version string

type engine struct{ files *diskv.Diskv }

func open(directory string, options adapter.Options) (adapter.Engine, error) {
	for _, option := range options {
		return nil, adapter.UnknownOption(option.Name)
	}
	return engine{diskv.New(diskv.Options{
		BasePath:  filepath.Join(directory, "data"),
		TempDir:   filepath.Join(directory, "temporary"),
		Transform: func(string) []string { return nil },
	})}, nil
}

func (e engine) Put(key, value []byte, _ bool) error {
	return e.files.WriteStream(hex.EncodeToString(key), bytes.NewReader(value), true)
}

func (e engine) Delete(key []byte, _ bool) error {
	err := e.files.Erase(hex.EncodeToString(key))
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

func (e engine) Get(key []byte) ([]byte, error) {
	value, err := e.files.Read(hex.EncodeToString(key))
	if os.IsNotExist(err) {
		return nil, adapter.ErrNotFound
	}
	return value, err
}

// Sync has nothing to do: each write is durable when it is answered, by diskv's documentation.
func (e engine) Sync() error { return nil }

func (e engine) Close() error { return nil }
