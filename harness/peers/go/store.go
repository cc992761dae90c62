package main

import (
	"errors"
	"runtime/debug"
	"slices"
	"strings"
)

// settings are what kvsim says of all engines alike.
type settings struct {
	// full: each commit is flushed to the device before it is acknowledged.
	full bool
	// cacheBytes is memory for caches.
	cacheBytes int64
}

// store is an open database, shared by all clients. What is borrowed to a function is valid while it runs.
type store interface {
	Put(key, value []byte) error
	Delete(key []byte) error
	Get(key []byte, take func(value []byte)) (bool, error)
	Scan(start []byte, limit int, take func(key, value []byte)) (int, error)
	Sync() error
	Close() error
}

// pair is a name and a value, for print.
type pair = [2]string

// engine is what can be opened. Its configuration stands beside its figures, so it has to say what open does.
type engine struct {
	module        string
	configuration func(settings) []pair
	open          func(directory string, settings settings) (store, error)
}

var engines = map[string]engine{
	"badger":    badgerEngine,
	"bbolt":     bboltEngine,
	"buntdb":    buntdbEngine,
	"goleveldb": goleveldbEngine,
	"pebble":    pebbleEngine,
	"pogreb":    pogrebEngine,
}

var errNoOrder = errors.New("it has no order, and so no scans")

// As for RocksDB, whose default this is: a small buffer would measure how often it is emptied.
const writeBufferBytes = 64 << 20

// Of the trees' filters, as for RocksDB.
const bloomBits = 10

func names() string {
	all := make([]string, 0, len(engines))
	for name := range engines {
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// version is that of a module this program was built with.
func version(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	return "unknown"
}
