//! The portable driver: a pool of threads that block in system calls.
//!
//! Invariants: an operation is taken by one thread; a thread without work sleeps, and so does `wait`.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use kvsim_engine::{DiskOp, IoBuf};

use super::{Completion, Driver, blocking};
use crate::io::file::DataFile;
use crate::lock::lock;

/// Enough for several commits in flight beside reads.
const THREADS: usize = 8;

#[derive(Default)]
struct Work {
    queue: VecDeque<(u64, DiskOp)>,
    closing: bool,
}

#[derive(Default)]
struct Ended {
    completions: Vec<Completion>,
    woken: bool,
}

#[derive(Default)]
struct Shared {
    work: Mutex<Work>,
    there_is_work: Condvar,
    ended: Mutex<Ended>,
    something_ended: Condvar,
}

pub(crate) struct Pool {
    file: Arc<DataFile>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts the threads. With fewer than there should be it works as well, but not without any.
    pub(crate) fn new(file: &Arc<DataFile>) -> io::Result<Pool> {
        let shared = Arc::new(Shared::default());
        let mut threads = Vec::new();
        for number in 0..THREADS {
            let (shared, file) = (Arc::clone(&shared), Arc::clone(file));
            let started = std::thread::Builder::new()
                .name(format!("kvsim-disk-{number}"))
                .spawn(move || shared.serve(&file));
            match started {
                Ok(thread) => threads.push(thread),
                Err(error) if threads.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        let file = Arc::clone(file);
        Ok(Pool {
            file,
            shared,
            threads,
        })
    }
}

impl Shared {
    fn serve(&self, file: &DataFile) {
        while let Some((tag, op)) = self.next() {
            let result = blocking::execute(file, op);
            lock(&self.ended)
                .completions
                .push(Completion { tag, result });
            self.something_ended.notify_one();
        }
    }

    fn next(&self) -> Option<(u64, DiskOp)> {
        let mut work = lock(&self.work);
        loop {
            if let Some(next) = work.queue.pop_front() {
                return Some(next);
            }
            if work.closing {
                return None;
            }
            work = self
                .there_is_work
                .wait(work)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Driver for Pool {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn queue(&self, tag: u64, op: DiskOp) {
        lock(&self.shared.work).queue.push_back((tag, op));
        self.shared.there_is_work.notify_one();
    }

    fn start(&self) {}

    fn read_here(&self, offset: u64, len: usize) -> Option<IoBuf> {
        blocking::read(&self.file, offset, len)
    }

    fn reads_here(&self) -> bool {
        true
    }

    fn wait(&self, timeout: Option<Duration>) {
        let mut ended = lock(&self.shared.ended);
        if ended.completions.is_empty() && !ended.woken {
            let condvar = &self.shared.something_ended;
            ended = match timeout {
                None => condvar.wait(ended).unwrap_or_else(PoisonError::into_inner),
                Some(timeout) => {
                    condvar
                        .wait_timeout(ended, timeout)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
        ended.woken = false;
    }

    fn wake(&self) {
        lock(&self.shared.ended).woken = true;
        self.shared.something_ended.notify_one();
    }

    fn reap(&self, done: &mut Vec<Completion>) {
        done.append(&mut lock(&self.shared.ended).completions);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        lock(&self.shared.work).closing = true;
        self.shared.there_is_work.notify_all();
        for thread in self.threads.drain(..) {
            let joined = thread.join();
            debug_assert!(joined.is_ok(), "a thread of the pool panicked");
        }
    }
}
