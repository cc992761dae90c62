package main

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// pebbleEngine is Pebble: a log-structured merge tree. Writers that commit together share a flush.
var pebbleEngine = engine{
	module: "github.com/cockroachdb/pebble/v2",
	configuration: func(settings settings) []pair {
		commit := "write-ahead log, NoSync"
		if settings.full {
			commit = "write-ahead log, Sync"
		}
		return []pair{
			{"commit", commit},
			{"block cache", mib(settings.cacheBytes)},
			{"memtable", mib(writeBufferBytes)},
			{"bloom filter", fmt.Sprintf("%d bits", bloomBits)},
			{"compression", "none"},
			{"otherwise", "defaults"},
		}
	},
	open: func(directory string, settings settings) (store, error) {
		options := &pebble.Options{
			CacheSize:          settings.cacheBytes,
			FormatMajorVersion: pebble.FormatNewest,
			Logger:             quiet{},
			MemTableSize:       writeBufferBytes,
		}
		options.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
		for level := range options.Levels {
			options.Levels[level].FilterPolicy = bloom.FilterPolicy(bloomBits)
		}
		database, err := pebble.Open(directory, options)
		if err != nil {
			return nil, err
		}
		commit := pebble.NoSync
		if settings.full {
			commit = pebble.Sync
		}
		return &pebbleStore{database, commit}, nil
	},
}

type pebbleStore struct {
	database *pebble.DB
	commit   *pebble.WriteOptions
}

func (s *pebbleStore) Put(key, value []byte) error { return s.database.Set(key, value, s.commit) }

func (s *pebbleStore) Delete(key []byte) error { return s.database.Delete(key, s.commit) }

func (s *pebbleStore) Get(key []byte, take func([]byte)) (bool, error) {
	value, closer, err := s.database.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	take(value)
	return true, closer.Close()
}

func (s *pebbleStore) Scan(start []byte, limit int, take func(key, value []byte)) (int, error) {
	iterator, err := s.database.NewIter(&pebble.IterOptions{LowerBound: start})
	if err != nil {
		return 0, err
	}
	count := 0
	for valid := iterator.First(); valid && count < limit; valid = iterator.Next() {
		value, err := iterator.ValueAndErr()
		if err != nil {
			_ = iterator.Close()
			return count, err
		}
		take(iterator.Key(), value)
		count++
	}
	return count, iterator.Close()
}

func (s *pebbleStore) Sync() error { return s.database.LogData(nil, pebble.Sync) }

func (s *pebbleStore) Close() error { return s.database.Close() }

// quiet keeps what an engine tells of its work out of the report. What is fatal is not for it to decide.
type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func mib(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }
