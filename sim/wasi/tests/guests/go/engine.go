// A small engine for tests: one file of records, each with a checksum, synced before it is answered.
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sort"
	"strings"
)

const (
	statusOk       = 0
	statusNotFound = 1
	statusIoError  = 3
	statusInvalid  = 6
	statusClosed   = 7
)

const description = `abi=1
engine=go-log 1
settings=one file, fsync after each record
batch=true
scan=true
reverse_scan=true
snapshot=false
relaxed=false
sync=true
order=prefix
`

type engine struct {
	file   *os.File
	values map[string][]byte
}

var db *engine

func u32(b []byte) int { return int(binary.LittleEndian.Uint32(b)) }

// open reads the records up to the first that is not whole, and cuts the rest.
func open() (*engine, error) {
	file, err := os.OpenFile("/db/log", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	dir, err := os.Open("/db")
	if err != nil {
		return nil, err
	}
	if err := dir.Sync(); err != nil {
		return nil, err
	}
	if err := dir.Close(); err != nil {
		return nil, err
	}
	e := &engine{file: file, values: map[string][]byte{}}
	whole := int64(0)
	reader := bufio.NewReader(file)
	for {
		head := make([]byte, 8)
		if _, err := io.ReadFull(reader, head); err != nil {
			break
		}
		body := make([]byte, u32(head))
		if len(body) > 1<<20 {
			break
		}
		if _, err := io.ReadFull(reader, body); err != nil {
			break
		}
		if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(head[4:]) {
			break
		}
		e.apply(body)
		whole += int64(8 + len(body))
	}
	if err := file.Truncate(whole); err != nil {
		return nil, err
	}
	if err := file.Sync(); err != nil {
		return nil, err
	}
	_, err = file.Seek(whole, io.SeekStart)
	return e, err
}

// apply does what a record says: kind, key length, value length, key, value, and again.
func (e *engine) apply(body []byte) {
	for len(body) >= 9 {
		key, value := u32(body[1:]), u32(body[5:])
		name := string(body[9 : 9+key])
		if body[0] == 0 {
			e.values[name] = append([]byte{}, body[9+key:9+key+value]...)
		} else {
			delete(e.values, name)
		}
		body = body[9+key+value:]
	}
}

func (e *engine) commit(body []byte) error {
	record := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	record = binary.LittleEndian.AppendUint32(record, crc32.ChecksumIEEE(body))
	if _, err := e.file.Write(append(record, body...)); err != nil {
		return err
	}
	if err := e.file.Sync(); err != nil {
		return err
	}
	e.apply(body)
	return nil
}

func mutation(kind byte, key, value []byte) []byte {
	out := binary.LittleEndian.AppendUint32([]byte{kind}, uint32(len(key)))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(value)))
	return append(append(out, key...), value...)
}

func answer(status uint32, body []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, status), body...)
}

func failed(err error) []byte { return answer(statusIoError, []byte(err.Error())) }

func done(err error) []byte {
	if err != nil {
		return failed(err)
	}
	return answer(statusOk, nil)
}

func handle(message []byte) []byte {
	kind, rest := u32(message), message[4:]
	switch kind {
	case 0:
		return answer(statusOk, []byte(description))
	case 1:
		options := string(rest[28:])
		if strings.Contains(options, "misbehave=") {
			misbehave(strings.TrimSpace(strings.SplitAfter(options, "misbehave=")[1]))
		}
		e, err := open()
		db = e
		return done(err)
	case 2:
		if db == nil {
			return answer(statusClosed, nil)
		}
		return db.request(rest[8:])
	case 3:
		return answer(statusOk, nil)
	}
	return answer(statusInvalid, []byte(fmt.Sprintf("kind %d", kind)))
}

// misbehave does what no engine should, for the tests of the host's messages.
func misbehave(how string) {
	switch how {
	case "panic":
		panic("misbehaving as asked")
	case "deadlock":
		select {}
	case "exit":
		os.Exit(9)
	}
}

func (e *engine) request(r []byte) []byte {
	switch r[0] {
	case 1:
		key, value := u32(r[4:]), u32(r[8:])
		if key == 0 {
			return answer(statusInvalid, nil)
		}
		return done(e.commit(mutation(0, r[12:12+key], r[12+key:12+key+value])))
	case 2:
		key := r[8 : 8+u32(r[4:])]
		if len(key) == 0 {
			return answer(statusInvalid, nil)
		}
		return done(e.commit(mutation(1, key, nil)))
	case 3:
		body := []byte{}
		at := r[8:]
		for range u32(r[4:]) {
			key, value := u32(at[1:]), u32(at[5:])
			if key == 0 {
				return answer(statusInvalid, nil)
			}
			body = append(body, mutation(at[0], at[9:9+key], at[9+key:9+key+value])...)
			at = at[9+key+value:]
		}
		return done(e.commit(body))
	case 4:
		value, found := e.values[string(r[16:16+u32(r[12:])])]
		if !found {
			return answer(statusNotFound, nil)
		}
		return answer(statusOk, value)
	case 5:
		return e.scan(r)
	case 8:
		return done(e.file.Sync())
	case 9:
		err := errors.Join(e.file.Sync(), e.file.Close())
		db = nil
		return done(err)
	}
	return answer(statusInvalid, []byte("not offered"))
}

func (e *engine) scan(r []byte) []byte {
	reverse, bounds := r[12] == 1, r[13]
	limit, most := max(u32(r[16:]), 1), u32(r[20:])
	startLen, endLen := u32(r[24:]), u32(r[28:])
	start, end := string(r[32:32+startLen]), string(r[32+startLen:32+startLen+endLen])
	keys := []string{}
	for key := range e.values {
		if (bounds&1 == 0 || key >= start) && (bounds&2 == 0 || key < end) {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	if reverse {
		sort.Sort(sort.Reverse(sort.StringSlice(keys)))
	}
	entries, count, size, more := []byte{}, 0, 0, byte(0)
	for _, key := range keys {
		value := e.values[key]
		if count == limit || (count > 0 && size+len(key)+len(value) > most) {
			more = 1
			break
		}
		entries = append(entries, mutation(0, []byte(key), value)[1:]...)
		count++
		size += len(key) + len(value)
	}
	body := binary.LittleEndian.AppendUint32(nil, uint32(count))
	return answer(statusOk, append(append(body, more, 0, 0, 0), entries...))
}
