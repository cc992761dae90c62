package main

import (
	"io"
	"log"
	"path/filepath"
	"time"

	"github.com/akrylysov/pogreb"
)

// pogrebEngine is Pogreb: a log with a hash index. It has no order. One writer at a time.
var pogrebEngine = engine{
	module: "github.com/akrylysov/pogreb",
	configuration: func(settings settings) []pair {
		commit := "no flush but when asked for, the default"
		if settings.full {
			commit = "BackgroundSyncInterval -1: after each write"
		}
		return []pair{
			{"commit", commit},
			{"cache", "the page cache"},
			{"compaction", "every " + pogrebCompaction.String()},
			{"otherwise", "defaults"},
		}
	},
	open: func(directory string, settings settings) (store, error) {
		pogreb.SetLogger(log.New(io.Discard, "", 0))
		options := &pogreb.Options{BackgroundCompactionInterval: pogrebCompaction}
		if settings.full {
			options.BackgroundSyncInterval = -1
		}
		database, err := pogreb.Open(filepath.Join(directory, "items.pogreb"), options)
		if err != nil {
			return nil, err
		}
		return &pogrebStore{database}, nil
	},
}

// Without it the log only grows; the default is never.
const pogrebCompaction = time.Second

type pogrebStore struct{ database *pogreb.DB }

func (s *pogrebStore) Put(key, value []byte) error { return s.database.Put(key, value) }

func (s *pogrebStore) Delete(key []byte) error { return s.database.Delete(key) }

func (s *pogrebStore) Get(key []byte, take func([]byte)) (bool, error) {
	value, err := s.database.Get(key)
	if err != nil || value == nil {
		return false, err
	}
	take(value)
	return true, nil
}

func (s *pogrebStore) Scan([]byte, int, func(key, value []byte)) (int, error) { return 0, errNoOrder }

func (s *pogrebStore) Sync() error { return s.database.Sync() }

func (s *pogrebStore) Close() error { return s.database.Close() }
