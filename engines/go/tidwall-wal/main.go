// tidwall/wal behind kvsim's adapter. It is a log only: each write is one record, and what the records say is kept in memory (logmap).
// NoSync is false, the default, so each Write is followed by an fsync. The log is never cut at its front.
// Options: segment_size=BYTES.
package main

import (
	"strconv"

	"github.com/tidwall/wal"

	"kvsim/adapter"
	"kvsim/adapter/logmap"
)

func init() {
	adapter.Serve(adapter.Offers{
		Engine: "tidwall/wal " + version, Settings: "the defaults: an fsync after each write",
		Batch: true, Scan: true, ReverseScan: true, Sync: true,
		Policies: []string{"recovery_survives=power_cut"},
	}, open)
}

func main() { adapter.Stdio() }

// Set by the build.
var version string

type engine struct {
	logmap.Map
	log  *wal.Log
	last uint64
}

func open(directory string, options adapter.Options) (adapter.Engine, error) {
	settings := *wal.DefaultOptions
	for _, option := range options {
		number, err := strconv.Atoi(option.Value)
		if option.Name != "segment_size" {
			return nil, adapter.UnknownOption(option.Name)
		}
		if err != nil {
			return nil, adapter.Fail(adapter.Invalid, "the option `%s` is a number, not `%s`", option.Name, option.Value)
		}
		settings.SegmentSize = number
	}
	log, err := wal.Open(directory, &settings)
	if err != nil {
		return nil, failed(err)
	}
	e := &engine{log: log}
	first, err := log.FirstIndex()
	if err != nil {
		return nil, failed(err)
	}
	if e.last, err = log.LastIndex(); err != nil {
		return nil, failed(err)
	}
	for index := first; index != 0 && index <= e.last; index++ {
		record, err := log.Read(index)
		if err == nil {
			err = e.Apply(record)
		}
		if err != nil {
			return nil, failed(err)
		}
	}
	return e, nil
}

func failed(err error) error {
	if err == wal.ErrCorrupt {
		return adapter.Fail(adapter.Corruption, "%v", err)
	}
	return err
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
	if err := e.log.Write(e.last+1, record); err != nil {
		return failed(err)
	}
	e.last++
	return e.Apply(record)
}

func (e *engine) Sync() error { return failed(e.log.Sync()) }

func (e *engine) Close() error { return failed(e.log.Close()) }
