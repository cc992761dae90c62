package adapter

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
)

// An engine in memory, with all that can be offered.
type memory struct{ entries map[string]string }

func (m *memory) Get(key []byte) ([]byte, error) {
	value, isThere := m.entries[string(key)]
	if !isThere {
		return nil, ErrNotFound
	}
	return []byte(value), nil
}

func (m *memory) Put(key, value []byte, _ bool) error {
	m.entries[string(key)] = string(value)
	return nil
}

func (m *memory) Delete(key []byte, _ bool) error {
	delete(m.entries, string(key))
	return nil
}

func (m *memory) Batch(changes []Change, relaxed bool) error {
	for _, change := range changes {
		if change.IsDelete {
			_ = m.Delete(change.Key, relaxed)
		} else {
			_ = m.Put(change.Key, change.Value, relaxed)
		}
	}
	return nil
}

func (m *memory) Scan(wanted Range, add func(key, value []byte) bool) error {
	var keys []string
	for key := range m.entries {
		if (wanted.Start == nil || key >= string(wanted.Start)) && (wanted.End == nil || key < string(wanted.End)) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if wanted.Reverse {
		slices.Reverse(keys)
	}
	for _, key := range keys {
		if !add([]byte(key), []byte(m.entries[key])) {
			break
		}
	}
	return nil
}

func (m *memory) Snapshot() (Snapshot, error) {
	copied := &memory{map[string]string{}}
	return copied, copied.Batch(m.changes(), false)
}

func (m *memory) changes() (changes []Change) {
	for key, value := range m.entries {
		changes = append(changes, Change{Key: []byte(key), Value: []byte(value)})
	}
	return changes
}

func (m *memory) Release()     {}
func (m *memory) Sync() error  { return nil }
func (m *memory) Close() error { return nil }

func serve(offers Offers) *Server {
	return NewServer("nowhere", offers, func(_ string, options Options) (Engine, error) {
		for _, option := range options {
			return nil, UnknownOption(option.Name)
		}
		return &memory{map[string]string{}}, nil
	})
}

var everything = Offers{Engine: "memory 1", Settings: "none", Batch: true, Scan: true, ReverseScan: true, Snapshot: true, Relaxed: true, Sync: true}

func u32(number int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(number)) }

func u64(number int) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(number)) }

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func opening(options string) []byte {
	return join(u32(1), make([]byte, 24), u32(len(options)), []byte(options))
}

func request(operation, durability byte, rest ...[]byte) []byte {
	return join(u32(2), u64(7), []byte{operation, durability, 0, 0}, join(rest...))
}

func put(key, value string, durability byte) []byte {
	return request(1, durability, u32(len(key)), u32(len(value)), []byte(key), []byte(value))
}

func get(key string, snapshot int) []byte {
	return request(4, 0, u64(snapshot), u32(len(key)), []byte(key))
}

func scan(snapshot int, reverse, bounds byte, limit, most int, start, end string) []byte {
	return request(5, 0, u64(snapshot), []byte{reverse, bounds, 0, 0}, u32(limit), u32(most), u32(len(start)), u32(len(end)), []byte(start), []byte(end))
}

func page(more byte, entries ...string) []byte {
	body := join(u32(len(entries)/2), []byte{more, 0, 0, 0})
	for i := 0; i < len(entries); i += 2 {
		body = join(body, u32(len(entries[i])), u32(len(entries[i+1])), []byte(entries[i]), []byte(entries[i+1]))
	}
	return body
}

// Goal: each kind of request reaches the engine as it was sent, and its answer has the documented layout. Method: one of each, by bytes.
func TestRequestsReachTheEngine(t *testing.T) {
	s := serve(everything)
	for _, step := range []struct {
		message []byte
		status  Status
		body    []byte
	}{
		{opening(""), OK, nil},
		{put("a", "1", 0), OK, nil},
		{put("b", "", 1), OK, nil},
		{request(6, 0), OK, u64(1)},
		{request(3, 0, u32(2), []byte{0}, u32(1), u32(2), []byte("c33"), []byte{1}, u32(1), u32(0), []byte("a")), OK, nil},
		{get("a", 0), NotFound, nil},
		{get("a", 1), OK, []byte("1")},
		{get("c", 0), OK, []byte("33")},
		{scan(0, 0, 0, 9, 99, "", ""), OK, page(0, "b", "", "c", "33")},
		{scan(0, 1, 0, 1, 99, "", ""), OK, page(1, "c", "33")},
		{scan(0, 0, 0, 9, 1, "", ""), OK, page(1, "b", "")},
		{scan(1, 0, 3, 0, 99, "a", "b"), OK, page(0, "a", "1")},
		{scan(0, 0, 3, 9, 99, "c", "b"), OK, page(0)},
		{request(2, 0, u32(1), []byte("b")), OK, nil},
		{request(7, 0, u64(1)), OK, nil},
		{request(8, 0), OK, nil},
		{u32(3), OK, nil},
		{request(9, 0), OK, nil},
	} {
		answer := s.Answer(step.message)
		if want := join(u32(int(step.status)), step.body); !bytes.Equal(answer, want) {
			t.Errorf("%x: %x where %x is due", step.message, answer, want)
		}
	}
	if answer := s.Answer(get("b", 0)); answer[0] != byte(Closed) {
		t.Errorf("after a close: %x", answer)
	}
}

// Goal: what the contract calls wrong is Invalid and changes nothing, and what is not offered too. Method: one of each.
func TestWrongRequestsAreRefused(t *testing.T) {
	s := serve(Offers{Scan: true})
	refused := func(message []byte) {
		t.Helper()
		if answer := s.Answer(message); answer[0] != byte(Invalid) || len(answer) == 4 {
			t.Errorf("%.40x: %x where Invalid is due, and a message", message, answer)
		}
	}
	refused(put("a", "1", 0))
	refused(opening("color=red\n"))
	refused(opening("color\n"))
	s.Answer(opening(""))
	for _, wrong := range [][]byte{
		opening(""), put("", "1", 0), put(strings.Repeat("k", 1025), "1", 0), put("a", strings.Repeat("v", 65537), 0), put("a", "1", 1),
		request(2, 0, u32(0)), request(3, 0, u32(0)), get("a", 1), request(6, 0), request(7, 0, u64(0)), request(7, 0, u64(1)), request(8, 0),
		scan(0, 1, 0, 9, 99, "", ""), scan(5, 0, 0, 9, 99, "", ""), request(77, 0), u32(9),
	} {
		refused(wrong)
	}
	if answer := s.Answer(scan(0, 0, 0, 9, 99, "", "")); !bytes.Equal(answer, join(u32(0), page(0))) {
		t.Errorf("something was written: %x", answer)
	}
}

// Goal: the description has a line for each thing that the protocol asks. Method: all lines, compared.
func TestTheDescriptionIsComplete(t *testing.T) {
	offers := everything
	offers.Each, offers.MaxKeyBytes, offers.Policies = true, 100, []string{"recovery_survives=power_cut"}
	want := "abi=1\nengine=memory 1\nsettings=none\nbatch=true\nscan=true\nreverse_scan=true\nsnapshot=true\nrelaxed=true\nsync=true\norder=each\n" +
		"max_key_bytes=100\nmax_value_bytes=65536\nrecovery_survives=power_cut\n"
	if answer := serve(offers).Answer(u32(0)); string(answer[4:]) != want {
		t.Errorf("%s", answer[4:])
	}
}
