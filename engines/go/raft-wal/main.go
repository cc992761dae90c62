// hashicorp/raft-wal behind kvsim's adapter. It is a log only: each write is one record, and what the records say is kept in memory (logmap).
// All settings are the defaults, whose StoreLogs is durable, but for the size of a segment: 1 MiB instead of 64 MiB.
// Options: segment_size=BYTES.
package main

import (
	"strconv"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"

	"kvsim/adapter"
	_ "kvsim/adapter/hostmap" // for the overlay
	"kvsim/adapter/logmap"
)

func init() {
	adapter.Serve(adapter.Offers{
		Engine: "raft-wal " + version, Settings: "the defaults, segments of 1 MiB",
		Batch: true, Scan: true, ReverseScan: true, Sync: true,
		Policies: []string{"recovery_survives=power_cut"},
	}, open)
}

func main() { adapter.Stdio() }

// Set by the build.
var version string

type engine struct {
	logmap.Map
	log  *wal.WAL
	last uint64
}

func open(directory string, options adapter.Options) (adapter.Engine, error) {
	segment := 1 << 20
	for _, option := range options {
		number, err := strconv.Atoi(option.Value)
		if option.Name != "segment_size" {
			return nil, adapter.UnknownOption(option.Name)
		}
		if err != nil {
			return nil, adapter.Fail(adapter.Invalid, "the option `%s` is a number, not `%s`", option.Name, option.Value)
		}
		segment = number
	}
	log, err := wal.Open(directory, wal.WithSegmentSize(segment))
	if err != nil {
		return nil, err
	}
	e := &engine{log: log}
	first, err := log.FirstIndex()
	if err != nil {
		return nil, err
	}
	if e.last, err = log.LastIndex(); err != nil {
		return nil, err
	}
	for index := first; index != 0 && index <= e.last; index++ {
		var entry raft.Log
		if err := log.GetLog(index, &entry); err != nil {
			return nil, err
		}
		if err := e.Apply(entry.Data); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (e *engine) Put(key, value []byte, relaxed bool) error {
	return e.Batch([]adapter.Change{{Key: key, Value: value}}, relaxed)
}

func (e *engine) Delete(key []byte, relaxed bool) error {
	return e.Batch([]adapter.Change{{IsDelete: true, Key: key}}, relaxed)
}

func (e *engine) Batch(changes []adapter.Change, _ bool) error {
	if len(changes) == 0 {
		return nil // all before it is durable
	}
	record := logmap.Encode(changes)
	if err := e.log.StoreLogs([]*raft.Log{{Index: e.last + 1, Term: 1, Data: record}}); err != nil {
		return err
	}
	e.last++
	return e.Apply(record)
}

// Sync has nothing to do: StoreLogs is durable when it returns.
func (e *engine) Sync() error { return nil }

func (e *engine) Close() error { return e.log.Close() }
