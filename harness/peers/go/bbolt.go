package main

import (
	"path/filepath"

	"go.etcd.io/bbolt"
)

// bboltEngine is bbolt: a copy-on-write B-tree in a memory map. One writer at a time.
var bboltEngine = engine{
	module: "go.etcd.io/bbolt",
	configuration: func(settings settings) []pair {
		commit := "Update, NoSync"
		if settings.full {
			commit = "Update, the default: two flushes"
		}
		return []pair{{"commit", commit}, {"cache", "the page cache"}, {"otherwise", "defaults"}}
	},
	open: func(directory string, settings settings) (store, error) {
		options := *bbolt.DefaultOptions
		options.NoSync = !settings.full
		database, err := bbolt.Open(filepath.Join(directory, "items.bbolt"), 0o600, &options)
		if err != nil {
			return nil, err
		}
		err = database.Update(func(transaction *bbolt.Tx) error {
			_, err := transaction.CreateBucketIfNotExists(bboltItems)
			return err
		})
		return &bboltStore{database}, err
	},
}

var bboltItems = []byte("items")

type bboltStore struct{ database *bbolt.DB }

func (s *bboltStore) Put(key, value []byte) error {
	return s.database.Update(func(transaction *bbolt.Tx) error {
		return transaction.Bucket(bboltItems).Put(key, value)
	})
}

func (s *bboltStore) Delete(key []byte) error {
	return s.database.Update(func(transaction *bbolt.Tx) error {
		return transaction.Bucket(bboltItems).Delete(key)
	})
}

func (s *bboltStore) Get(key []byte, take func([]byte)) (bool, error) {
	found := false
	err := s.database.View(func(transaction *bbolt.Tx) error {
		if value := transaction.Bucket(bboltItems).Get(key); value != nil {
			take(value)
			found = true
		}
		return nil
	})
	return found, err
}

func (s *bboltStore) Scan(start []byte, limit int, take func(key, value []byte)) (int, error) {
	count := 0
	err := s.database.View(func(transaction *bbolt.Tx) error {
		cursor := transaction.Bucket(bboltItems).Cursor()
		for key, value := cursor.Seek(start); key != nil && count < limit; key, value = cursor.Next() {
			take(key, value)
			count++
		}
		return nil
	})
	return count, err
}

func (s *bboltStore) Sync() error { return s.database.Sync() }

func (s *bboltStore) Close() error { return s.database.Close() }
