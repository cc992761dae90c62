package main

import (
	"errors"
	"fmt"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// goleveldbEngine is LevelDB in Go: a log-structured merge tree. Writers that wait for the lock are merged into one write.
var goleveldbEngine = engine{
	module: "github.com/syndtr/goleveldb",
	configuration: func(settings settings) []pair {
		commit := "journal, Sync false"
		if settings.full {
			commit = "journal, Sync true"
		}
		return []pair{
			{"commit", commit},
			{"block cache", mib(settings.cacheBytes)},
			{"write buffer", mib(writeBufferBytes)},
			{"bloom filter", fmt.Sprintf("%d bits", bloomBits)},
			{"compression", "none"},
			{"otherwise", "defaults"},
		}
	},
	open: func(directory string, settings settings) (store, error) {
		options := &opt.Options{
			BlockCacheCapacity: int(settings.cacheBytes),
			Compression:        opt.NoCompression,
			Filter:             filter.NewBloomFilter(bloomBits),
			WriteBuffer:        writeBufferBytes,
		}
		database, err := leveldb.OpenFile(directory, options)
		if err != nil {
			return nil, err
		}
		return &goleveldbStore{database, &opt.WriteOptions{Sync: settings.full}}, nil
	},
}

type goleveldbStore struct {
	database *leveldb.DB
	commit   *opt.WriteOptions
}

func (s *goleveldbStore) Put(key, value []byte) error { return s.database.Put(key, value, s.commit) }

func (s *goleveldbStore) Delete(key []byte) error { return s.database.Delete(key, s.commit) }

func (s *goleveldbStore) Get(key []byte, take func([]byte)) (bool, error) {
	value, err := s.database.Get(key, nil)
	if errors.Is(err, leveldb.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	take(value)
	return true, nil
}

func (s *goleveldbStore) Scan(start []byte, limit int, take func(key, value []byte)) (int, error) {
	iterator := s.database.NewIterator(&util.Range{Start: start}, nil)
	defer iterator.Release()
	count := 0
	for count < limit && iterator.Next() {
		take(iterator.Key(), iterator.Value())
		count++
	}
	return count, iterator.Error()
}

// Sync removes a key that is never there: a write without a record would not reach the journal.
func (s *goleveldbStore) Sync() error {
	return s.database.Delete([]byte{0}, &opt.WriteOptions{Sync: true})
}

func (s *goleveldbStore) Close() error { return s.database.Close() }
