package adapter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
)

// Server answers messages for one engine, from its opening on.
type Server struct {
	directory string
	offers    Offers
	open      OpenFunc
	engine    Engine
	isClosed  bool
	snapshots []Snapshot // by number, which is the place and one; a released one is nil
}

// NewServer is for a database below a directory; nothing is opened yet.
func NewServer(directory string, offers Offers, open OpenFunc) *Server {
	if offers.MaxKeyBytes == 0 {
		offers.MaxKeyBytes = 1024
	}
	if offers.MaxValueBytes == 0 {
		offers.MaxValueBytes = 65536
	}
	return &Server{directory: directory, offers: offers, open: open}
}

// Answer is the answer to a message: u32 status, then the body. A message that is cut short is a panic: the host never sends one.
func (s *Server) Answer(message []byte) []byte {
	p := payload(message)
	body, err := s.message(&p)
	status := OK
	if err != nil {
		status, body = IOError, []byte(err.Error())
		var known *Error
		if errors.As(err, &known) {
			status = known.Status
		} else if errors.Is(err, ErrNotFound) {
			status, body = NotFound, nil
		}
		body = bytes.ToValidUTF8(body, []byte("?"))
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(status)), body...)
}

func (s *Server) message(p *payload) ([]byte, error) {
	switch kind := p.u32(); kind {
	case 0:
		return []byte(s.describe()), nil
	case 1:
		return nil, s.opening(p)
	case 2:
		p.take(8)
		return s.request(p)
	case 3:
		s.idle()
		return nil, nil
	default:
		return nil, Fail(Invalid, "%d is no kind of message", kind)
	}
}

func (s *Server) describe() string {
	o, order := s.offers, "prefix"
	if o.Each {
		order = "each"
	}
	lines := fmt.Sprintf("abi=1\nengine=%s\nsettings=%s\nbatch=%t\nscan=%t\nreverse_scan=%t\nsnapshot=%t\nrelaxed=%t\nsync=%t\norder=%s\n",
		o.Engine, o.Settings, o.Batch, o.Scan, o.ReverseScan, o.Snapshot, o.Relaxed, o.Sync, order)
	lines += fmt.Sprintf("max_key_bytes=%d\nmax_value_bytes=%d\n", o.MaxKeyBytes, o.MaxValueBytes)
	for _, line := range o.Policies {
		lines += line + "\n"
	}
	return lines
}

// The payload: u64 now, 16 bytes of identity, u32 length and the options.
func (s *Server) opening(p *payload) error {
	if s.engine != nil || s.isClosed {
		return Fail(Invalid, "the database is open")
	}
	p.take(24)
	var options Options
	for _, line := range strings.Split(string(p.take(p.length())), "\n") {
		name, value, isPair := strings.Cut(line, "=")
		if isPair {
			options = append(options, Option{name, value})
		} else if line != "" {
			return Fail(Invalid, "the option `%s` is no `name=value`", line)
		}
	}
	engine, err := s.open(s.directory, options)
	if err == nil {
		s.engine = engine
	}
	return err
}

// Work in the background is goroutines; they run while this one waits.
func (s *Server) idle() {
	if idler, has := s.engine.(Idler); has && !s.isClosed {
		idler.Idle()
		return
	}
	for range 64 {
		runtime.Gosched()
	}
}

func (s *Server) request(p *payload) ([]byte, error) {
	operation, relaxed := p.u8(), p.u8() == 1
	p.take(2)
	if s.isClosed {
		return nil, Fail(Closed, "the database is closed")
	}
	if s.engine == nil {
		return nil, Fail(Invalid, "the database is not open")
	}
	if relaxed && !s.offers.Relaxed {
		return nil, notOffered("relaxed")
	}
	switch operation {
	case 1:
		keyLength, valueLength := p.length(), p.length()
		key, value := p.take(keyLength), p.take(valueLength)
		if err := s.fits(key, value); err != nil {
			return nil, err
		}
		return nil, s.engine.Put(key, value, relaxed)
	case 2:
		key := p.take(p.length())
		if err := s.fits(key, nil); err != nil {
			return nil, err
		}
		return nil, s.engine.Delete(key, relaxed)
	case 3:
		return nil, s.batch(p, relaxed)
	case 4:
		state, err := s.state(p.u64())
		key := p.take(p.length())
		if err != nil {
			return nil, err
		}
		if s.fits(key, nil) != nil {
			return nil, ErrNotFound // no engine holds such a key
		}
		return state.Get(key)
	case 5:
		return s.scan(p)
	case 6:
		if !s.offers.Snapshot {
			return nil, notOffered("snapshot")
		}
		snapshot, err := s.engine.(Snapshotter).Snapshot()
		if err != nil {
			return nil, err
		}
		s.snapshots = append(s.snapshots, snapshot)
		return binary.LittleEndian.AppendUint64(nil, uint64(len(s.snapshots))), nil
	case 7:
		number := p.u64()
		if number == 0 {
			return nil, errNoSnapshot
		}
		if _, err := s.state(number); err != nil {
			return nil, err
		}
		s.snapshots[number-1].Release()
		s.snapshots[number-1] = nil
		return nil, nil
	case 8:
		if !s.offers.Sync {
			return nil, notOffered("sync")
		}
		return nil, s.engine.(Syncer).Sync()
	case 9:
		for _, snapshot := range s.snapshots {
			if snapshot != nil {
				snapshot.Release()
			}
		}
		s.isClosed = true
		return nil, s.engine.Close()
	default:
		return nil, Fail(Invalid, "%d is no request", operation)
	}
}

func (s *Server) batch(p *payload, relaxed bool) error {
	if !s.offers.Batch {
		return notOffered("batch")
	}
	changes := make([]Change, p.length())
	for i := range changes {
		isDelete := p.u8() == 1
		keyLength, valueLength := p.length(), p.length()
		changes[i] = Change{isDelete, p.take(keyLength), p.take(valueLength)}
		if err := s.fits(changes[i].Key, changes[i].Value); err != nil {
			return err
		}
	}
	return s.engine.(Batcher).Batch(changes, relaxed)
}

func (s *Server) scan(p *payload) ([]byte, error) {
	if !s.offers.Scan {
		return nil, notOffered("scan")
	}
	state, err := s.state(p.u64())
	if err != nil {
		return nil, err
	}
	wanted := Range{Reverse: p.u8() == 1}
	bounds := p.u8()
	p.take(2)
	limit, maxBytes := p.u32(), uint64(p.u32())
	startLength, endLength := p.length(), p.length()
	start, end := p.take(startLength), p.take(endLength)
	if bounds&1 != 0 {
		wanted.Start = start
	}
	if bounds&2 != 0 {
		wanted.End = end
	}
	if wanted.Reverse && !s.offers.ReverseScan {
		return nil, notOffered("reverse_scan")
	}
	page := make([]byte, 8) // u32 count, u8 more, three zero bytes
	var count uint32
	var taken uint64
	if bounds != 3 || bytes.Compare(start, end) < 0 {
		err = state.(Scanner).Scan(wanted, func(key, value []byte) bool {
			taken += uint64(len(key) + len(value))
			if count > 0 && (count >= limit || taken > maxBytes) {
				page[4] = 1
				return false
			}
			count++
			page = binary.LittleEndian.AppendUint32(page, uint32(len(key)))
			page = binary.LittleEndian.AppendUint32(page, uint32(len(value)))
			page = append(append(page, key...), value...)
			return true
		})
	}
	binary.LittleEndian.PutUint32(page, count)
	return page, err
}

func (s *Server) fits(key, value []byte) error {
	if len(key) == 0 || len(key) > s.offers.MaxKeyBytes || len(value) > s.offers.MaxValueBytes {
		return Fail(Invalid, "a key has 1 to %d bytes, a value at most %d", s.offers.MaxKeyBytes, s.offers.MaxValueBytes)
	}
	return nil
}

var errNoSnapshot = Fail(Invalid, "no such snapshot")

// The newest state for number 0, else a snapshot.
func (s *Server) state(number uint64) (Reader, error) {
	if number == 0 {
		return s.engine, nil
	}
	if number > uint64(len(s.snapshots)) || s.snapshots[number-1] == nil {
		return nil, errNoSnapshot
	}
	return s.snapshots[number-1], nil
}

func notOffered(operation string) error {
	return Fail(Invalid, "this engine does not offer `%s`", operation)
}

// A message's rest; numbers and bytes are taken from its beginning.
type payload []byte

func (p *payload) take(length int) []byte {
	if length > len(*p) {
		panic("kvsim adapter: a message is too short")
	}
	taken := (*p)[:length:length]
	*p = (*p)[length:]
	return taken
}

func (p *payload) u8() byte    { return p.take(1)[0] }
func (p *payload) u32() uint32 { return binary.LittleEndian.Uint32(p.take(4)) }
func (p *payload) u64() uint64 { return binary.LittleEndian.Uint64(p.take(8)) }
func (p *payload) length() int { return int(p.u32()) }
