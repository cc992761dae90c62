// A small key/value engine that keeps its data in one file: a log, read into memory by the opening. Behind kvsim's adapter.
//
// A record of the log, from its place in the file:
//
//	offset  size  field
//	0       8     checksum of the rest, begun with the place
//	8       4     bytes of changes
//	12      ...   changes: u8 kind (0 put, 1 delete), u32 key length, u32 value length, key, value
//
// A write is one record, one write at the log's end and one fsync. The opening cuts off a torn record at the end and makes what is left
// durable: the file, and the directory with the file's name. Options: bug=no_directory_sync, bug=ack_before_sync, bug=tail_not_cut or
// bug=checksum_not_checked makes a mistake that kvsim finds. It never shortens its log, and damage inside of it is taken for its end.
package main

import (
	"encoding/binary"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"kvsim/adapter"
)

const header = 12

type log struct {
	file       *os.File
	end        int64
	entries    map[string][]byte
	isReadOnly bool // a call failed: nobody knows what is on the disk
	bug        string
}

func init() {
	adapter.Serve(adapter.Offers{
		Engine: "log-in-go 1", Settings: "fsync after each write",
		Batch: true, Scan: true, ReverseScan: true, Sync: true,
	}, open)
}

func main() { adapter.Stdio() }

func open(directory string, options adapter.Options) (adapter.Engine, error) {
	l := &log{entries: map[string][]byte{}}
	for _, option := range options {
		bugs := []string{"no_directory_sync", "ack_before_sync", "tail_not_cut", "checksum_not_checked"}
		if option.Name != "bug" {
			return nil, adapter.UnknownOption(option.Name)
		}
		if !slices.Contains(bugs, option.Value) {
			return nil, adapter.Fail(adapter.Invalid, "no such bug: %s", option.Value)
		}
		l.bug = option.Value
	}
	var err error
	if l.file, err = os.OpenFile(filepath.Join(directory, "log"), os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return nil, err
	}
	if err = l.replay(); err != nil {
		return nil, err
	}
	if err = l.file.Truncate(l.end); err != nil {
		return nil, err
	}
	if err = l.file.Sync(); err != nil || l.bug == "no_directory_sync" {
		return l, err
	}
	folder, err := os.Open(directory)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	return l, folder.Sync()
}

// checksum is FNV-1a.
func checksum(bytes []byte, place int64) uint64 {
	hash := uint64(0xcbf29ce484222325) ^ uint64(place)
	for _, b := range bytes {
		hash = (hash ^ uint64(b)) * 0x100000001b3
	}
	return hash
}

// changes are those of a record; false if they are none.
func changes(bytes []byte) (all []adapter.Change, areWhole bool) {
	for len(bytes) > 0 {
		if len(bytes) < 9 {
			return nil, false
		}
		key, value := uint64(binary.LittleEndian.Uint32(bytes[1:])), uint64(binary.LittleEndian.Uint32(bytes[5:]))
		if key+value > uint64(len(bytes)-9) {
			return nil, false
		}
		all = append(all, adapter.Change{IsDelete: bytes[0] == 1, Key: bytes[9 : 9+key], Value: bytes[9+key : 9+key+value]})
		bytes = bytes[9+key+value:]
	}
	return all, true
}

// replay reads the log and finds its end: where the first record begins that is not whole.
func (l *log) replay() error {
	bytes, err := io.ReadAll(l.file)
	if err != nil {
		return err
	}
	for {
		rest := bytes[l.end:]
		if len(rest) < header || uint64(len(rest)-header) < uint64(binary.LittleEndian.Uint32(rest[8:])) {
			break
		}
		record := rest[:header+binary.LittleEndian.Uint32(rest[8:])]
		if l.bug != "checksum_not_checked" && binary.LittleEndian.Uint64(record) != checksum(record[8:], l.end) {
			break
		}
		all, areWhole := changes(record[header:])
		if !areWhole {
			break
		}
		l.apply(all)
		l.end += int64(len(record))
	}
	if l.bug == "tail_not_cut" {
		l.end = int64(len(bytes))
	}
	return nil
}

func (l *log) apply(all []adapter.Change) {
	for _, change := range all {
		if change.IsDelete {
			delete(l.entries, string(change.Key))
		} else {
			l.entries[string(change.Key)] = slices.Clone(change.Value)
		}
	}
}

func (l *log) Put(key, value []byte, relaxed bool) error {
	return l.Batch([]adapter.Change{{Key: key, Value: value}}, relaxed)
}

func (l *log) Delete(key []byte, relaxed bool) error {
	return l.Batch([]adapter.Change{{IsDelete: true, Key: key}}, relaxed)
}

func (l *log) Batch(all []adapter.Change, _ bool) error {
	if err := l.Sync(); err != nil || len(all) == 0 {
		return err // with nothing to write, all before it is durable already
	}
	record := make([]byte, header)
	for _, change := range all {
		kind := byte(0)
		if change.IsDelete {
			kind = 1
		}
		record = append(record, kind)
		record = binary.LittleEndian.AppendUint32(record, uint32(len(change.Key)))
		record = binary.LittleEndian.AppendUint32(record, uint32(len(change.Value)))
		record = append(append(record, change.Key...), change.Value...)
	}
	binary.LittleEndian.PutUint32(record[8:], uint32(len(record)-header))
	binary.LittleEndian.PutUint64(record, checksum(record[8:], l.end))
	_, err := l.file.WriteAt(record, l.end)
	if err == nil && l.bug != "ack_before_sync" {
		err = l.file.Sync()
	}
	l.end += int64(len(record))
	if err != nil {
		l.isReadOnly = true
		return err
	}
	l.apply(all)
	return nil
}

func (l *log) Get(key []byte) ([]byte, error) {
	value, isThere := l.entries[string(key)]
	if !isThere {
		return nil, adapter.ErrNotFound
	}
	return value, nil
}

func (l *log) Scan(wanted adapter.Range, add func(key, value []byte) bool) error {
	keys := slices.Sorted(maps.Keys(l.entries))
	if wanted.Reverse {
		slices.Reverse(keys)
	}
	for _, key := range keys {
		isInside := (wanted.Start == nil || key >= string(wanted.Start)) && (wanted.End == nil || key < string(wanted.End))
		if isInside && !add([]byte(key), l.entries[key]) {
			break
		}
	}
	return nil
}

// Sync has nothing to do: every answered write is durable. After a failure nobody knows.
func (l *log) Sync() error {
	if l.isReadOnly {
		return adapter.Fail(adapter.ReadOnly, "a call failed; open the database anew")
	}
	return nil
}

func (l *log) Close() error {
	if err := l.Sync(); err != nil {
		return err
	}
	return l.file.Close()
}
