package flock

// Locks of files on WASI preview 1, which has none: the file is created and opened as on Unix, and the lock is always free, since there is one
// process. Stands for flock_unix.go.

// Lock takes the lock.
func (f *Flock) Lock() error {
	_, err := f.TryLock()
	return err
}

// RLock takes the lock for reading.
func (f *Flock) RLock() error {
	_, err := f.TryRLock()
	return err
}

// TryLock takes the lock.
func (f *Flock) TryLock() (bool, error) { return f.take(&f.l) }

// TryRLock takes the lock for reading.
func (f *Flock) TryRLock() (bool, error) { return f.take(&f.r) }

func (f *Flock) take(held *bool) (bool, error) {
	f.m.Lock()
	defer f.m.Unlock()
	if *held {
		return true, nil
	}
	if f.fh == nil {
		if err := f.setFh(); err != nil {
			return false, err
		}
	}
	*held = true
	return true, nil
}

// Unlock gives the lock back and closes the file.
func (f *Flock) Unlock() error {
	f.m.Lock()
	defer f.m.Unlock()
	if (!f.l && !f.r) || f.fh == nil {
		return nil
	}
	f.l, f.r = false, false
	err := f.fh.Close()
	f.fh = nil
	return err
}
