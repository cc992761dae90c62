// Package logmap makes a key/value engine of a library that is only a log: each write is one record of the log, and what the records say is
// kept in memory. An opening hands all records to Apply, in order.
package logmap

import (
	"encoding/binary"
	"maps"
	"slices"

	"kvsim/adapter"
)

// Map is what the records so far say. The zero value is empty.
type Map struct{ entries map[string][]byte }

// Encode makes the record of a write: for each change u8 kind (0 put, 1 delete), u32 key length, u32 value length, key, value.
func Encode(changes []adapter.Change) []byte {
	record := []byte{}
	for _, change := range changes {
		kind := byte(0)
		if change.IsDelete {
			kind = 1
		}
		record = append(record, kind)
		record = binary.LittleEndian.AppendUint32(record, uint32(len(change.Key)))
		record = binary.LittleEndian.AppendUint32(record, uint32(len(change.Value)))
		record = append(append(record, change.Key...), change.Value...)
	}
	return record
}

// Apply takes in a record; Corruption if it is none, and then nothing of it.
func (m *Map) Apply(record []byte) error {
	var changes []adapter.Change
	for len(record) > 0 {
		if len(record) < 9 {
			return errNoRecord
		}
		key, value := uint64(binary.LittleEndian.Uint32(record[1:])), uint64(binary.LittleEndian.Uint32(record[5:]))
		if record[0] > 1 || key+value > uint64(len(record)-9) {
			return errNoRecord
		}
		changes = append(changes, adapter.Change{IsDelete: record[0] == 1, Key: record[9 : 9+key], Value: record[9+key : 9+key+value]})
		record = record[9+key+value:]
	}
	if m.entries == nil {
		m.entries = map[string][]byte{}
	}
	for _, change := range changes {
		if change.IsDelete {
			delete(m.entries, string(change.Key))
		} else {
			m.entries[string(change.Key)] = slices.Clone(change.Value)
		}
	}
	return nil
}

var errNoRecord = adapter.Fail(adapter.Corruption, "the log returns bytes that were never appended")

// Get finds a key.
func (m *Map) Get(key []byte) ([]byte, error) {
	value, isThere := m.entries[string(key)]
	if !isThere {
		return nil, adapter.ErrNotFound
	}
	return value, nil
}

// Scan gives the entries of a range.
func (m *Map) Scan(wanted adapter.Range, add func(key, value []byte) bool) error {
	keys := slices.Sorted(maps.Keys(m.entries))
	if wanted.Reverse {
		slices.Reverse(keys)
	}
	for _, key := range keys {
		isInside := (wanted.Start == nil || key >= string(wanted.Start)) && (wanted.End == nil || key < string(wanted.End))
		if isInside && !add([]byte(key), m.entries[key]) {
			break
		}
	}
	return nil
}
