package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/tidwall/buntdb"
)

// buntdbEngine is BuntDB: everything in memory, with a log that is appended to. One writer at a time.
var buntdbEngine = engine{
	module: "github.com/tidwall/buntdb",
	configuration: func(settings settings) []pair {
		commit := "SyncPolicy EverySecond, the default"
		if settings.full {
			commit = "SyncPolicy Always"
		}
		return []pair{{"commit", commit}, {"cache", "all data is in memory"}, {"otherwise", "defaults"}}
	},
	open: func(directory string, settings settings) (store, error) {
		path := filepath.Join(directory, "items.buntdb")
		database, err := buntdb.Open(path)
		if err != nil {
			return nil, err
		}
		var config buntdb.Config
		if err := database.ReadConfig(&config); err != nil {
			return nil, err
		}
		if settings.full {
			config.SyncPolicy = buntdb.Always
		}
		return &buntdbStore{database, path}, database.SetConfig(config)
	},
}

type buntdbStore struct {
	database *buntdb.DB
	path     string
}

func (s *buntdbStore) Put(key, value []byte) error {
	return s.database.Update(func(transaction *buntdb.Tx) error {
		_, _, err := transaction.Set(string(key), string(value), nil)
		return err
	})
}

func (s *buntdbStore) Delete(key []byte) error {
	return s.database.Update(func(transaction *buntdb.Tx) error {
		_, err := transaction.Delete(string(key))
		if errors.Is(err, buntdb.ErrNotFound) {
			return nil
		}
		return err
	})
}

func (s *buntdbStore) Get(key []byte, take func([]byte)) (bool, error) {
	var value string
	err := s.database.View(func(transaction *buntdb.Tx) (err error) {
		value, err = transaction.Get(string(key))
		return err
	})
	if errors.Is(err, buntdb.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	take(borrowed(value))
	return true, nil
}

func (s *buntdbStore) Scan(start []byte, limit int, take func(key, value []byte)) (int, error) {
	count := 0
	err := s.database.View(func(transaction *buntdb.Tx) error {
		return transaction.AscendGreaterOrEqual("", string(start), func(key, value string) bool {
			if count == limit {
				return false
			}
			take(borrowed(key), borrowed(value))
			count++
			return true
		})
	})
	return count, err
}

// Sync flushes the log through a descriptor of its own: BuntDB has no call for it, and a commit has written all of its bytes.
func (s *buntdbStore) Sync() error {
	file, err := os.OpenFile(s.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

func (s *buntdbStore) Close() error { return s.database.Close() }
