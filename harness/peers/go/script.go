package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"sync/atomic"
)

// The layout is described at Script::encode in harness/store/src/script.rs; kvsim draws, this program plays.
const (
	scriptMagic   = "kvscript"
	scriptVersion = 1
	headerBytes   = 56
	// Bounds that no script of kvsim reaches; they keep a wrong one from asking for all memory.
	clientsMax    = 1 << 16
	operationsMax = 1 << 28
	poolBytesMax  = 1 << 32
)

// Actions have the numbers of kvsim_store::script::Action.
const (
	put = iota
	insert
	remove
	get
	scan
	readModifyWrite
	actions
)

// nextKey is the first key that no client has inserted.
type nextKey = atomic.Uint64

type operation struct {
	key     uint32
	entries uint16
	action  uint8
}

type script struct {
	keyBytes   int
	preload    uint64
	nextKey    uint64
	fromLatest bool
	lists      [][]operation
	lengths    []uint32
	pool       []byte
}

func readScript(in *bufio.Reader) (*script, error) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(in, header[:]); err != nil {
		return nil, fmt.Errorf("the script's header: %w", err)
	}
	if string(header[:8]) != scriptMagic {
		return nil, errors.New("this is no script")
	}
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(header[at:]) }
	long := func(at int) uint64 { return binary.LittleEndian.Uint64(header[at:]) }
	if word(8) != scriptVersion {
		return nil, fmt.Errorf("version %d of scripts is not known here", word(8))
	}
	s := &script{keyBytes: int(word(12)), preload: long(16), nextKey: long(24), fromLatest: word(32) == 1}
	clients, operations, lengths, pool := word(36), word(40), word(44), long(48)
	if s.keyBytes < 1 || clients < 1 || clients > clientsMax || operations < 1 || operations > operationsMax ||
		lengths < 1 || pool > poolBytesMax {
		return nil, errors.New("a script's numbers are out of bounds")
	}
	for range clients {
		list, err := readList(in, int(operations))
		if err != nil {
			return nil, err
		}
		s.lists = append(s.lists, list)
	}
	raw := make([]byte, 4*int(lengths))
	if _, err := io.ReadFull(in, raw); err != nil {
		return nil, err
	}
	for at := 0; at < len(raw); at += 4 {
		length := binary.LittleEndian.Uint32(raw[at:])
		if uint64(length) >= pool {
			return nil, errors.New("a script's pool is shorter than its values")
		}
		s.lengths = append(s.lengths, length)
	}
	s.pool = make([]byte, pool)
	_, err := io.ReadFull(in, s.pool)
	return s, err
}

func readList(in *bufio.Reader, operations int) ([]operation, error) {
	raw := make([]byte, 8*operations)
	if _, err := io.ReadFull(in, raw); err != nil {
		return nil, err
	}
	list := make([]operation, operations)
	for n := range list {
		one := raw[8*n:]
		list[n] = operation{binary.LittleEndian.Uint32(one), binary.LittleEndian.Uint16(one[4:]), one[6]}
		if list[n].action >= actions {
			return nil, fmt.Errorf("a script asks for action %d", list[n].action)
		}
	}
	return list, nil
}

// nth is the nth value: Values::nth of kvsim.
func (s *script) nth(n uint64) []byte {
	n %= 1 << 32
	length := uint64(s.lengths[n%uint64(len(s.lengths))])
	start := n * 1_048_583 % (uint64(len(s.pool)) - length)
	return s.pool[start : start+length]
}

// value is the value of a client's nth write: Script::value of kvsim.
func (s *script) value(client, nth uint64) []byte { return s.nth(nth*7919 + client) }

// key holds the last key that was made.
type key []byte

func newKey(keyBytes int) key { return make(key, keyBytes) }

// of is the key of a number: `k` and the number, padded with zeroes.
func (k key) of(number uint64) []byte {
	k[0] = 'k'
	for at := len(k) - 1; at > 0; at-- {
		k[at] = '0' + byte(number%10)
		number /= 10
	}
	return k
}

// keyOf is the number of the key that a write of the endless sequence sets: kvsim_store::sequence::key_of.
func keyOf(write, keys uint64) uint64 {
	width := bits.Len64(keys - 1)
	mask := uint64(1)<<width - 1
	half := max(width/2, 1)
	for at := write % keys; ; {
		at = (at + 0x6a09_e667_f3bc_c909) & mask
		for _, factor := range [...]uint64{0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb} {
			at = at * factor & mask
			at ^= at >> half
		}
		if at < keys {
			return at
		}
	}
}
