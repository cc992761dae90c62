package main

import (
	"encoding/hex"
	"errors"
	"time"
)

// write makes writes of the endless sequence, with a sync before one of them. It is meant to be killed meanwhile.
func (s *session) write(asked *request) error {
	if s.script == nil || s.script.preload == 0 {
		return errors.New("there is no script with keys")
	}
	key := newKey(s.script.keyBytes)
	for write := asked.From; ; write++ {
		if write == asked.SyncAt {
			if err := s.store.Sync(); err != nil {
				return err
			}
			_ = s.out.Encode(map[string]any{"synced": write})
		}
		if write >= asked.To {
			return nil
		}
		if err := s.putOne(key, write); err != nil {
			return err
		}
		if write%256 == 255 {
			_ = s.out.Encode(map[string]any{"written": write + 1})
		}
	}
}

func (s *session) putOne(key key, write uint64) error {
	return s.store.Put(key.of(keyOf(write, s.script.preload)), s.script.nth(write))
}

// firstUse reads keys of a database that was just opened, and makes one write beside that.
func (s *session) firstUse(asked *request, answer map[string]any) error {
	if s.script == nil || s.script.preload == 0 {
		return errors.New("there is no script with keys")
	}
	began := time.Now()
	put := make(chan error, 1)
	var putNs int64
	go func() {
		err := s.putOne(newKey(s.script.keyBytes), asked.From)
		putNs = time.Since(began).Nanoseconds()
		put <- err
	}()
	var firstNs int64
	values, err := s.getAll(asked.Numbers, func() { firstNs = time.Since(began).Nanoseconds() })
	getsNs := time.Since(began).Nanoseconds()
	if putErr := <-put; err == nil {
		err = putErr
	}
	answer["first_get_ns"], answer["gets_ns"], answer["put_ns"] = firstNs, getsNs, putNs
	answer["values"] = hexed(values)
	return err
}

// getAll reads keys in order. Text is made of the values later, so that it is in no figure.
func (s *session) getAll(numbers []uint64, first func()) ([][]byte, error) {
	if s.script == nil {
		return nil, errors.New("there is no script")
	}
	key := newKey(s.script.keyBytes)
	values := make([][]byte, len(numbers))
	for at, number := range numbers {
		take := func(borrowed []byte) { values[at] = append([]byte{}, borrowed...) }
		if _, err := s.store.Get(key.of(number), take); err != nil {
			return nil, err
		}
		if at == 0 {
			first()
		}
	}
	return values, nil
}

// hexed has nothing in place of a key that is not there.
func hexed(values [][]byte) []*string {
	texts := make([]*string, len(values))
	for at, value := range values {
		if value != nil {
			text := hex.EncodeToString(value)
			texts[at] = &text
		}
	}
	return texts
}
