package main

import (
	"sync"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// The bounds of kvsim's own histograms (kvsim_store::seen::histogram), so that both have the same buckets.
const (
	latencyNsMax = 60_000_000_000
	figures      = 3
)

const (
	warming = iota
	measuring
	stopped
)

// pace is how the clients come: rate 0 is a closed loop.
type pace struct {
	warmUp, measured time.Duration
	rate             float64
}

// seen is what was seen while the clock ran.
type seen struct {
	elapsed   time.Duration
	latency   [actions]*hdr.Histogram
	userBytes uint64
	commits   uint64
}

// into is what kvsim reads: for each action its buckets that are not empty, as value and count.
func (s *seen) into(answer map[string]any) {
	latency := [actions][][2]int64{}
	for action, histogram := range s.latency {
		latency[action] = [][2]int64{}
		for _, bar := range histogram.Distribution() {
			if bar.Count > 0 {
				latency[action] = append(latency[action], [2]int64{bar.From, bar.Count})
			}
		}
	}
	answer["elapsed_ns"] = s.elapsed.Nanoseconds()
	answer["user_bytes"] = s.userBytes
	answer["commits"] = s.commits
	answer["latency"] = latency
}

// client goes through its list over and over, as the clients of kvsim's own load do.
type client struct {
	store   store
	script  *script
	nextKey *nextKey
	number  uint64
	key     key
	at      int
	writes  uint64
	taken   byte
	seen    seen
}

// preload writes the records that the clients find, in the order of their keys.
func preload(store store, script *script, progress func(uint64)) error {
	key := newKey(script.keyBytes)
	for number := range script.preload {
		if err := store.Put(key.of(number), script.nth(number)); err != nil {
			return err
		}
		if number%4096 == 0 {
			progress(number)
		}
	}
	return store.Sync()
}

// measure lets the clients work through warm-up and measurement, and returns the first error of any of them.
func measure(store store, script *script, next *nextKey, pace pace, mark func(string)) (*seen, error) {
	var phase atomic.Int32
	var waiting sync.WaitGroup
	began := time.Now()
	failed := make(chan error, len(script.lists))
	clients := make([]*client, len(script.lists))
	for number := range clients {
		one := &client{store: store, script: script, nextKey: next, number: uint64(number), key: newKey(script.keyBytes)}
		one.seen.latency = histograms()
		clients[number] = one
		waiting.Go(func() {
			if err := one.work(&phase, began, pace.rate/float64(len(clients))); err != nil {
				failed <- err
			}
		})
	}
	stop := func(err error) (*seen, error) {
		phase.Store(stopped)
		waiting.Wait()
		return nil, err
	}
	wait := func(duration time.Duration) error {
		select {
		case err := <-failed:
			return err
		case <-time.After(duration):
			return nil
		}
	}
	if err := wait(pace.warmUp); err != nil {
		return stop(err)
	}
	mark("measuring")
	clock := time.Now()
	phase.Store(measuring)
	if err := wait(pace.measured); err != nil {
		return stop(err)
	}
	phase.Store(stopped)
	all := seen{elapsed: time.Since(clock), latency: histograms()}
	mark("measured")
	waiting.Wait()
	select {
	case err := <-failed:
		return nil, err
	default:
	}
	for _, one := range clients {
		all.userBytes += one.seen.userBytes
		all.commits += one.seen.commits
		for action, histogram := range one.seen.latency {
			all.latency[action].Merge(histogram)
		}
	}
	return &all, nil
}

func histograms() (all [actions]*hdr.Histogram) {
	for action := range all {
		all[action] = hdr.New(1, latencyNsMax, figures)
	}
	return all
}

// work runs until the phase says stop. In a closed loop a request's latency runs from the answer before, in an open loop from
// when the request was due.
func (c *client) work(phase *atomic.Int32, start time.Time, rate float64) error {
	began := time.Now()
	list := c.script.lists[c.number]
	for made := 0.0; ; made++ {
		now := phase.Load()
		if now == stopped {
			return nil
		}
		operation := list[c.at]
		if c.at++; c.at == len(list) {
			c.at = 0
		}
		if rate > 0 {
			began = start.Add(time.Duration(made / rate * float64(time.Second)))
			time.Sleep(time.Until(began))
		}
		valueBytes, err := c.perform(operation)
		if err != nil {
			return err
		}
		ended := time.Now()
		if now == measuring {
			c.record(operation.action, valueBytes, ended.Sub(began))
		}
		began = ended
	}
}

func (c *client) record(action uint8, valueBytes int, took time.Duration) {
	if valueBytes >= 0 {
		c.seen.commits++
		c.seen.userBytes += uint64(c.script.keyBytes + valueBytes)
	}
	// Within the bounds, a histogram takes everything.
	_ = c.seen.latency[action].RecordValue(min(max(took.Nanoseconds(), 1), latencyNsMax))
}

// perform returns the length of the value if it was a commit, else -1.
func (c *client) perform(operation operation) (int, error) {
	number := uint64(operation.key)
	if c.script.fromLatest {
		newest := c.nextKey.Load()
		number = newest - min(newest, 1+number)
	}
	switch operation.action {
	case put:
		return c.put(number)
	case insert:
		return c.put(c.nextKey.Add(1) - 1)
	case remove:
		return 0, c.store.Delete(c.key.of(number))
	case get:
		_, err := c.store.Get(c.key.of(number), c.take)
		return -1, err
	case scan:
		_, err := c.store.Scan(c.key.of(number), int(operation.entries), c.takeEntry)
		return -1, err
	default:
		if _, err := c.store.Get(c.key.of(number), c.take); err != nil {
			return -1, err
		}
		return c.put(number)
	}
}

func (c *client) put(number uint64) (int, error) {
	value := c.script.value(c.number, c.writes)
	c.writes++
	return len(value), c.store.Put(c.key.of(number), value)
}

// take touches a value where it begins and ends, as a reader would.
func (c *client) take(value []byte) {
	if len(value) > 0 {
		c.taken ^= value[0] ^ value[len(value)-1]
	}
}

func (c *client) takeEntry(_, value []byte) { c.take(value) }
