package main

import (
	"errors"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// badgerEngine is Badger: a log-structured merge tree of keys and small values, with a log of large values beside it. It flushes
// by msync(2).
var badgerEngine = engine{
	module: "github.com/dgraph-io/badger/v4",
	configuration: func(settings settings) []pair {
		commit := "SyncWrites false"
		if settings.full {
			commit = "SyncWrites true, by msync"
		}
		return []pair{
			{"commit", commit},
			{"block cache", mib(settings.cacheBytes)},
			{"compression", "none"},
			{"conflict detection", "off: each transaction is one write"},
			{"value log", "not cleaned: its user would have to ask for it"},
			{"otherwise", "defaults"},
		}
	},
	open: func(directory string, settings settings) (store, error) {
		options := badger.DefaultOptions(directory).
			WithSyncWrites(settings.full).
			WithBlockCacheSize(settings.cacheBytes).
			WithCompression(options.None).
			WithDetectConflicts(false).
			WithLogger(nil)
		database, err := badger.Open(options)
		if err != nil {
			return nil, err
		}
		return &badgerStore{database}, nil
	},
}

type badgerStore struct{ database *badger.DB }

func (s *badgerStore) Put(key, value []byte) error {
	return s.database.Update(func(transaction *badger.Txn) error { return transaction.Set(key, value) })
}

func (s *badgerStore) Delete(key []byte) error {
	return s.database.Update(func(transaction *badger.Txn) error { return transaction.Delete(key) })
}

func (s *badgerStore) Get(key []byte, take func([]byte)) (bool, error) {
	found := false
	err := s.database.View(func(transaction *badger.Txn) error {
		item, err := transaction.Get(key)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		found = true
		return item.Value(func(value []byte) error {
			take(value)
			return nil
		})
	})
	return found, err
}

func (s *badgerStore) Scan(start []byte, limit int, take func(key, value []byte)) (int, error) {
	count := 0
	err := s.database.View(func(transaction *badger.Txn) error {
		options := badger.DefaultIteratorOptions
		options.PrefetchSize = min(options.PrefetchSize, limit)
		iterator := transaction.NewIterator(options)
		defer iterator.Close()
		for iterator.Seek(start); iterator.Valid() && count < limit; iterator.Next() {
			item := iterator.Item()
			err := item.Value(func(value []byte) error {
				take(item.Key(), value)
				return nil
			})
			if err != nil {
				return err
			}
			count++
		}
		return nil
	})
	return count, err
}

func (s *badgerStore) Sync() error { return s.database.Sync() }

func (s *badgerStore) Close() error { return s.database.Close() }
