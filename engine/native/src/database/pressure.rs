//! What becomes of tasks that write faster than the disk.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::*;
use crate::io::driver::Completion;
use crate::sync::gate::WRITES_MAX;

/// A driver that begins nothing as long as it is told so.
struct Stuck {
    driver: Box<dyn Driver>,
    is_stuck: Arc<AtomicBool>,
    kept: Mutex<Vec<(u64, kvsim_engine::DiskOp)>>,
}

impl Driver for Stuck {
    fn name(&self) -> &'static str {
        self.driver.name()
    }
    fn queue(&self, tag: u64, op: kvsim_engine::DiskOp) {
        let mut kept = lock(&self.kept);
        match self.is_stuck.load(Ordering::SeqCst) {
            true => kept.push((tag, op)),
            false => self.driver.queue(tag, op),
        }
    }
    fn start(&self) {
        if !self.is_stuck.load(Ordering::SeqCst) {
            for (tag, op) in lock(&self.kept).drain(..) {
                self.driver.queue(tag, op);
            }
        }
        self.driver.start();
    }
    fn work(&self) -> bool {
        self.driver.work()
    }
    fn wait(&self, timeout: Option<Duration>) {
        self.driver.wait(timeout);
    }
    fn wake(&self) {
        self.driver.wake();
    }
    fn has_ended(&self) -> bool {
        self.driver.has_ended()
    }
    fn reap(&self, done: &mut Vec<Completion>) {
        self.driver.reap(done);
    }
}

/// A database on such a driver, and how to let it go on.
struct Held {
    _directory: tempfile::TempDir,
    database: Database,
    is_stuck: Arc<AtomicBool>,
}

impl Held {
    fn new() -> Held {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let options = OpenOptions {
            size_bytes: 64 << 20,
            ..OpenOptions::default()
        };
        let is_stuck = Arc::new(AtomicBool::new(false));
        let stuck = |driver| -> Box<dyn Driver> {
            Box::new(Stuck {
                driver,
                is_stuck: Arc::clone(&is_stuck),
                kept: Mutex::default(),
            })
        };
        let path = directory.path().join("database");
        let database = Database::open_with(&path, &options, stuck).expect("it opens");
        is_stuck.store(true, Ordering::SeqCst);
        Held {
            _directory: directory,
            database,
            is_stuck,
        }
    }

    fn put(&self, number: u64) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>> {
        let (key, value) = (number.to_be_bytes(), [7; 16]);
        Box::pin(self.database.put_async(&key, &value, Durability::Durable))
    }

    fn go_on(&self) {
        self.is_stuck.store(false, Ordering::SeqCst);
        self.database.shared().driver().start();
    }
}

/// Whatever becomes of a test, the database can be closed.
impl Drop for Held {
    fn drop(&mut self) {
        self.go_on();
    }
}

#[derive(Default)]
struct Counter(AtomicU64);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Goal: tasks cannot hand in more writes than the bound while the disk takes none, and all that wait are written in the end. Method: a driver that begins nothing,
/// a quarter more writes than the bound; it goes on, and all are awaited.
#[test]
fn tasks_wait_where_too_much_is_under_way() {
    let held = Held::new();
    let all = WRITES_MAX + WRITES_MAX / 4;
    let mut writes: Vec<_> = (0..all as u64).map(|number| held.put(number)).collect();
    let waker = Waker::noop();
    for write in &mut writes {
        assert!(
            write
                .as_mut()
                .poll(&mut Context::from_waker(waker))
                .is_pending()
        );
    }
    assert_eq!(held.database.shared().unanswered(), WRITES_MAX);
    let gate = &held.database.shared().gate;
    assert_eq!(gate.counts(), (WRITES_MAX, all - WRITES_MAX));
    held.go_on();
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(async {
        for write in writes {
            write.await.expect("it is written");
        }
    });
    assert_eq!(gate.counts(), (0, 0));
    for number in [0, WRITES_MAX as u64, all as u64 - 1] {
        let found = held
            .database
            .get(&number.to_be_bytes())
            .expect("it is open");
        assert_eq!(found.as_deref(), Some(&[7; 16][..]), "{number}");
    }
}

/// Goal: a write that is dropped while it waits is never written, and its turn is the next one's, who is woken. Method: two that wait, of which the first is dropped;
/// the disk goes on.
#[test]
fn a_write_that_is_dropped_while_it_waits_gives_its_turn_away() {
    let held = Held::new();
    let last = WRITES_MAX as u64;
    let under_way: Vec<_> = (0..last).map(|number| held.put(number)).collect();
    let (first, next) = (Arc::new(Counter::default()), Arc::new(Counter::default()));
    let wakers = [&first, &next].map(|counter| Waker::from(Arc::clone(counter)));
    let mut waiting = [held.put(last), held.put(last + 1)];
    for (write, waker) in waiting.iter_mut().zip(&wakers) {
        assert!(
            write
                .as_mut()
                .poll(&mut Context::from_waker(waker))
                .is_pending()
        );
    }
    let [dropped, mut kept] = waiting;
    drop(dropped);
    held.go_on();
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async {
        for write in under_way {
            write.await.expect("it is written");
        }
    });
    assert!(next.0.load(Ordering::SeqCst) > 0, "it is its turn");
    let polled = kept.as_mut().poll(&mut Context::from_waker(&wakers[1]));
    assert!(matches!(polled, Poll::Pending | Poll::Ready(Ok(()))));
    if polled.is_pending() {
        runtime.block_on(kept).expect("it is written");
    }
    let get = |number: u64| {
        held.database
            .get(&number.to_be_bytes())
            .expect("it is open")
    };
    assert!(get(last).is_none() && get(last + 1).is_some());
    assert_eq!(held.database.shared().gate.counts(), (0, 0));
}
