// Command kvsim-go-peers holds one engine of the Go world for kvsim's benchmarks, and the clients that use it.
//
// kvsim starts it for each engine and asks for one thing at a time: a line of JSON on standard input, answered by lines of JSON
// on standard output, the last of which is no progress and no mark. The clients are here, so that no pipe is measured. Who
// draws operations, keys and values is kvsim (see script.go), so there is one generator. It ends when standard input does.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"time"
)

// protocol changes with what is said between kvsim and this program; kvsim refuses another.
const protocol = 2

// request is what kvsim asks for; which fields count depends on Do.
type request struct {
	Do         string  `json:"do"`
	WarmUpNs   int64   `json:"warm_up_ns"`
	MeasuredNs int64   `json:"measured_ns"`
	Rate       float64 `json:"rate"`
	Tasks      bool    `json:"tasks"`
	Key        string  `json:"key"`
	Value      string  `json:"value"`
	Limit      int     `json:"limit"`
	Durability string  `json:"durability"`
	From       uint64  `json:"from"`
	SyncAt     uint64  `json:"sync_at"`
	To         uint64  `json:"to"`
	// Numbers of keys.
	Numbers []uint64 `json:"numbers"`
}

// session is one engine in one directory.
type session struct {
	engine    engine
	directory string
	settings  settings
	in        *bufio.Reader
	out       *json.Encoder
	script    *script
	store     store
	nextKey   nextKey
}

func main() {
	// Ctrl-C goes to the whole group of processes; kvsim decides what it means.
	signal.Ignore(os.Interrupt)
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "kvsim-go-peers:", err)
		os.Exit(1)
	}
}

func run() error {
	name := flag.String("engine", "", "the engine: "+names())
	directory := flag.String("directory", "", "an empty directory for the database")
	durability := flag.String("durability", "full", "full: each commit is flushed; os: the same; relaxed: none is")
	cache := flag.Int64("cache-bytes", 512<<20, "memory for the engine's caches")
	describe := flag.Bool("describe", false, "say which version it is and how it would be set up, and end")
	flag.Parse()
	engine, ok := engines[*name]
	if !ok {
		return fmt.Errorf("there is no engine %q; there are %s", *name, names())
	}
	if *durability != "full" && *durability != "os" && *durability != "relaxed" {
		return fmt.Errorf("there is no durability %q", *durability)
	}
	settings := settings{full: *durability != "relaxed", cacheBytes: *cache}
	out := bufio.NewWriter(os.Stdout)
	session := &session{
		engine: engine, directory: *directory, settings: settings,
		in:  bufio.NewReaderSize(os.Stdin, 1<<20),
		out: json.NewEncoder(&flushing{out}),
	}
	hello := map[string]any{
		"protocol":      protocol,
		"version":       version(engine.module),
		"go":            runtime.Version(),
		"configuration": engine.configuration(settings),
	}
	if err := session.out.Encode(hello); err != nil || *describe {
		return err
	}
	return session.serve()
}

// flushing writes each answer at once.
type flushing struct{ to *bufio.Writer }

func (f *flushing) Write(bytes []byte) (int, error) {
	n, err := f.to.Write(bytes)
	if err == nil {
		err = f.to.Flush()
	}
	return n, err
}

// serve answers until standard input ends. What an engine cannot do is an answer; an error is returned for the pipes only.
func (s *session) serve() error {
	defer func() {
		if s.store != nil {
			_ = s.store.Close()
		}
	}()
	for {
		line, err := s.in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var asked request
		answer := map[string]any{}
		if err = json.Unmarshal(line, &asked); err == nil {
			err = s.answer(&asked, answer)
		}
		if err != nil {
			answer = map[string]any{"error": err.Error()}
		}
		answer["done"] = true
		if err := s.out.Encode(answer); err != nil {
			return err
		}
	}
}

func (s *session) answer(asked *request, answer map[string]any) error {
	if s.store == nil && asked.Do != "open" && asked.Do != "script" && asked.Do != "load" {
		return errors.New("no database is open")
	}
	switch asked.Do {
	case "open":
		return s.openAs(asked.Durability, answer)
	case "script":
		return s.readScript()
	case "load":
		return s.load()
	case "run":
		return s.run(asked, answer)
	case "next_key":
		answer["next_key"] = s.nextKey.Load()
		return nil
	case "close":
		return s.close()
	case "write":
		return s.write(asked)
	case "first_use":
		return s.firstUse(asked, answer)
	case "get_all":
		values, err := s.getAll(asked.Numbers, func() {})
		answer["values"] = hexed(values)
		return err
	default:
		return s.single(asked, answer)
	}
}

// single does one operation, for tests: nothing is measured through a pipe.
func (s *session) single(asked *request, answer map[string]any) error {
	key, err := hex.DecodeString(asked.Key)
	if err != nil {
		return err
	}
	switch asked.Do {
	case "put":
		value, err := hex.DecodeString(asked.Value)
		if err != nil {
			return err
		}
		return s.store.Put(key, value)
	case "delete":
		return s.store.Delete(key)
	case "get":
		var value []byte
		found, err := s.store.Get(key, func(borrowed []byte) { value = append(value, borrowed...) })
		answer["found"], answer["value"] = found, hex.EncodeToString(value)
		return err
	case "scan":
		entries := [][2]string{}
		_, err := s.store.Scan(key, asked.Limit, func(key, value []byte) {
			entries = append(entries, [2]string{hex.EncodeToString(key), hex.EncodeToString(value)})
		})
		answer["entries"] = entries
		return err
	case "sync":
		return s.store.Sync()
	default:
		return fmt.Errorf("there is nothing called %q", asked.Do)
	}
}

// openAs opens the database with a durability that may differ from that of the session.
func (s *session) openAs(durability string, answer map[string]any) error {
	settings := s.settings
	if durability != "" {
		settings.full = durability != "relaxed"
	}
	began := time.Now()
	err := s.open(settings)
	answer["elapsed_ns"] = time.Since(began).Nanoseconds()
	return err
}

func (s *session) open(settings settings) error {
	if s.store != nil {
		return errors.New("a database is open already")
	}
	store, err := s.engine.open(s.directory, settings)
	if err == nil {
		s.store = store
	}
	return err
}

func (s *session) close() error {
	store := s.store
	s.store = nil
	return store.Close()
}

func (s *session) readScript() error {
	script, err := readScript(s.in)
	if err == nil {
		s.script = script
		s.nextKey.Store(script.nextKey)
	}
	return err
}

// load opens a database, and writes what the clients find.
func (s *session) load() error {
	if s.script == nil {
		return errors.New("there is no script")
	}
	if err := s.open(s.settings); err != nil {
		return err
	}
	progress := func(loaded uint64) { _ = s.out.Encode(map[string]any{"loaded": loaded}) }
	return preload(s.store, s.script, progress)
}

func (s *session) run(asked *request, answer map[string]any) error {
	if s.script == nil {
		return errors.New("there is no script")
	}
	if asked.Tasks {
		return errors.New("this engine has no writes for tasks that do not block")
	}
	pace := pace{
		warmUp:   time.Duration(asked.WarmUpNs),
		measured: time.Duration(asked.MeasuredNs),
		rate:     asked.Rate,
	}
	// kvsim reads the counters of device and process at these two moments.
	mark := func(which string) { _ = s.out.Encode(map[string]any{"mark": which}) }
	seen, err := measure(s.store, s.script, &s.nextKey, pace, mark)
	if err == nil {
		seen.into(answer)
	}
	return err
}
