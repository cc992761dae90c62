//! What is told of a database that fails.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use kvsim_engine::{DiskError, DiskOp};

use super::*;
use crate::io::driver::Completion;

const TIMEOUT: Duration = Duration::from_secs(30);

/// What a driver does from some moment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// All writes fail.
    Writes,
    /// It says that something has ended which never began. No engine survives that.
    Lies,
}

struct Faulty {
    driver: Box<dyn Driver>,
    fault: Fault,
    is_on: Arc<AtomicBool>,
    failing: Mutex<Vec<u64>>,
}

impl Driver for Faulty {
    fn name(&self) -> &'static str {
        self.driver.name()
    }
    fn queue(&self, tag: u64, op: DiskOp) {
        let is_write = matches!(op, DiskOp::Write { .. });
        if is_write && self.fault == Fault::Writes && self.is_on.load(Ordering::SeqCst) {
            lock(&self.failing).push(tag);
        }
        self.driver.queue(tag, op);
    }
    fn start(&self) {
        self.driver.start();
    }
    fn wait(&self, timeout: Option<Duration>) {
        self.driver.wait(timeout);
    }
    fn wake(&self) {
        self.driver.wake();
    }
    fn reap(&self, done: &mut Vec<Completion>) {
        let from = done.len();
        self.driver.reap(done);
        let mut failing = lock(&self.failing);
        for ended in &mut done[from..] {
            if let Some(at) = failing.iter().position(|tag| *tag == ended.tag) {
                failing.swap_remove(at);
                ended.result = Err(DiskError::Write);
            }
            if self.fault == Fault::Lies && self.is_on.swap(false, Ordering::SeqCst) {
                ended.tag = u64::from(u32::MAX);
            }
        }
    }
}

/// A database on such a driver, which has begun to fail.
fn failing(fault: Fault) -> (tempfile::TempDir, Database, Receiver<Event>) {
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
    let (sender, events) = channel();
    let options = OpenOptions::new()
        .size_bytes(16 << 20)
        .on_event(move |event| {
            // Who does not receive does not want to know.
            let _ = sender.send(event);
        });
    let is_on = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&is_on);
    let faulty = |driver| -> Box<dyn Driver> {
        Box::new(Faulty {
            driver,
            fault,
            is_on: theirs,
            failing: Mutex::default(),
        })
    };
    let path = directory.path().join("database");
    let database = Database::open_with(&path, &options, faulty).expect("it opens");
    is_on.store(true, Ordering::SeqCst);
    (directory, database, events)
}

fn all(events: &Receiver<Event>) -> Vec<Event> {
    std::iter::from_fn(|| events.recv_timeout(TIMEOUT).ok()).collect()
}

/// Goal: that no more writes are taken is told once, and a database that is closed then does not count as clean. Method: a driver whose writes fail.
#[test]
fn a_failed_disk_is_told() {
    let (_directory, database, events) = failing(Fault::Writes);
    let put = |key: &[u8]| database.put(key, b"value", Durability::Durable);
    assert_eq!(put(b"a").map_err(|it| it.status), Err(Status::IoError));
    assert_eq!(put(b"b").map_err(|it| it.status), Err(Status::ReadOnly));
    drop(database);
    let all = all(&events);
    let told = |it: &&Event| matches!(it, Event::BecameReadOnly { .. });
    assert_eq!(all.iter().filter(told).count(), 1, "{all:?}");
    assert_eq!(all.last(), Some(&Event::Closed { clean: false }));
}

/// Goal: that the engine was given up is told, and nothing after it. Method: a driver that lies until it panics.
#[test]
fn an_engine_that_panics_is_told() {
    let (_directory, database, events) = failing(Fault::Lies);
    let theirs = database.clone();
    let writes = move || drop(theirs.put(b"a", b"value", Durability::Durable));
    // Whichever thread met the lie has panicked.
    let writer = std::thread::Builder::new().spawn(writes);
    drop(writer.expect("a thread starts").join());
    drop(database);
    let all = all(&events);
    assert_eq!(all.last(), Some(&Event::GaveUp), "{all:?}");
    assert!(matches!(all.first(), Some(Event::Opened { .. })), "{all:?}");
}
