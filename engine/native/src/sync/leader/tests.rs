//! What nobody may forget: a wake-up of the engine, and a leader that has nothing left to lead.

use std::time::Duration;

use kvsim_engine::{Mutation, ScanRange};

use super::*;
use crate::sync::intake::Outcome;
use crate::{Database, Durability, OpenOptions};

const TIMEOUT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(1);

/// Looks again and again, but not for ever.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = instant();
    while !is_so() {
        assert!(began.elapsed() < TIMEOUT, "{what}");
        std::thread::sleep(PAUSE);
    }
}

fn with_database(engine: &str, body: impl FnOnce(&Database, &Shared)) {
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
    let options = OpenOptions {
        size_bytes: 64 << 20,
        engine: engine.to_owned(),
        ..OpenOptions::default()
    };
    let database = Database::open(&directory.path().join("database"), &options).expect("it opens");
    body(&database, database.shared());
}

fn is_idle(shared: &Shared) -> bool {
    let inside = shared.lock();
    let nothing = inside.wake_at.is_none() && inside.alarm.is_none();
    nothing && inside.effects.in_flight == 0 && matches!(inside.leader, Leader::Nobody)
}

/// Goal: a write that a scan hands in is flushed within its window, like any other, although nobody calls again. Method: on an idle database one is accepted as if its client had found
/// the engine's lock held; then a scan, and the log grows.
#[test]
fn what_a_scan_hands_in_is_minded() {
    with_database("", |database, shared| {
        database
            .put(b"first", b"1", Durability::Durable)
            .expect("it is taken");
        wait_until("it becomes idle", || is_idle(shared));
        let before = database.counts().engine.log_bytes;
        let put = [Mutation::Put {
            key: b"second",
            value: b"2",
        }];
        let draft = shared.rows.draft(&put);
        let accepted = shared.intake.accept(&draft, 1, &shared.rows, None);
        assert!(matches!(accepted, Outcome::Accepted(_)));
        let all = ScanRange {
            snapshot: 0,
            direction: kvsim_engine::Direction::Forward,
            start: None,
            end: None,
            limit: 10,
            max_bytes: 1 << 20,
        };
        let found = shared.scan_rows(&all).map(|entries| entries.len());
        assert!(matches!(found, Ok(2)), "both are in the caches");
        wait_until("it is written", || {
            shared
                .lock()
                .engine
                .as_ref()
                .expect("open")
                .0
                .stats()
                .log_bytes
                > before
        });
    });
}

/// A driver that can make a waiting thread sleep until it is called or its time is over, while others take the
/// completions first.
struct Slow {
    driver: Box<dyn Driver>,
    is_slow: Arc<AtomicBool>,
    called: AtomicBool,
}

struct Undo(Arc<AtomicBool>);

impl Drop for Undo {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Driver for Slow {
    fn name(&self) -> &'static str {
        self.driver.name()
    }
    fn queue(&self, tag: u64, op: kvsim_engine::DiskOp) {
        self.driver.queue(tag, op);
    }
    fn start(&self) {
        self.driver.start();
    }
    fn wait(&self, timeout: Option<Duration>) {
        if !self.is_slow.load(Ordering::SeqCst) {
            return self.driver.wait(timeout);
        }
        self.driver.start();
        let began = instant();
        let is_over = || timeout.is_some_and(|timeout| began.elapsed() >= timeout);
        while self.is_slow.load(Ordering::SeqCst) && !is_over() {
            if self.called.swap(false, Ordering::SeqCst) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }
    fn wake(&self) {
        self.called.store(true, Ordering::SeqCst);
        self.driver.wake();
    }
    fn reap(&self, done: &mut Vec<Completion>) {
        self.driver.reap(done);
    }
}

/// Goal: the database's own thread does not go on leading where nothing is under way, whoever took the last end; else nobody could close the database. Method: it sleeps in the driver
/// for a relaxed write; this thread takes the ends, as one does that did its own write itself, and lets the lock go when nothing is left.
#[test]
fn a_leader_of_nothing_is_called_back() {
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
    let options = OpenOptions {
        size_bytes: 64 << 20,
        engine: "durable_mark=off".to_owned(),
        ..OpenOptions::default()
    };
    let is_slow = Arc::new(AtomicBool::new(false));
    let slow = |driver| -> Box<dyn Driver> {
        let (is_slow, called) = (Arc::clone(&is_slow), AtomicBool::new(false));
        Box::new(Slow {
            driver,
            is_slow,
            called,
        })
    };
    let path = directory.path().join("database");
    let database = Database::open_with(&path, &options, slow).expect("it opens");
    // It can be closed, whatever becomes of the test.
    let _undo = Undo(Arc::clone(&is_slow));
    let shared = database.shared();
    wait_until("it becomes idle", || is_idle(shared));
    is_slow.store(true, Ordering::SeqCst);
    let put = database.put(b"key", b"value", Durability::Relaxed);
    put.expect("it is taken");
    let leads = || matches!(shared.lock().leader, Leader::Helper);
    wait_until("the helper leads", leads);
    wait_until("nothing is left to lead", || {
        let mut inside = shared.lock();
        shared.take_completions(&mut inside, &mut Vec::new());
        let done = inside.effects.in_flight == 0;
        match done {
            true => shared.leave(inside),
            false => drop(inside),
        }
        shared.driver.start();
        done
    });
    wait_until("it stops", || !leads());
}

/// Goal: writes of a thread that writes on and on are handed in by the database's own thread, which ends that by itself and when another request comes, and none is lost or late.
/// Method: one thread writes until somebody combines, and then far more than there is room for; now and then a durable write, after which what an opening would find is all there.
#[test]
fn somebody_combines_for_one_that_writes_on_and_on() {
    if std::thread::available_parallelism().is_ok_and(|count| count.get() == 1) {
        return;
    }
    with_database("", |database, shared| {
        let mut written = 0_u64;
        let mut write = |durability| {
            let put = database.put(&written.to_be_bytes(), b"value", durability);
            put.expect("it is taken");
            written += 1;
            written
        };
        for _ in 0..5 {
            let began = instant();
            while !shared.combining.is_on() {
                write(Durability::Relaxed);
                assert!(began.elapsed() < TIMEOUT, "nobody combines");
            }
            for _ in 0..20_000 {
                write(Durability::Relaxed);
            }
            let count = write(Durability::Durable);
            assert_eq!(shared.counts().engine.keys, count);
            wait_until("it ends", || !shared.combining.is_on());
        }
        wait_until("it becomes idle", || is_idle(shared));
        // Nobody asks for anything now: it ends all the same, and what was accepted is handed in.
        let began = instant();
        while !shared.combining.is_on() {
            write(Durability::Relaxed);
            assert!(began.elapsed() < TIMEOUT, "nobody combines");
        }
        let count = write(Durability::Relaxed);
        wait_until("it ends by itself", || !shared.combining.is_on());
        wait_until("all is handed in", || shared.counts().engine.keys == count);
        wait_until("it becomes idle", || is_idle(shared));
    });
}

/// Goal: nobody combines where several threads write, since they share the work themselves. Method: two threads in turns, one write each.
#[test]
fn nobody_combines_for_threads_that_write_in_turns() {
    with_database("", |database, shared| {
        let turns = std::sync::Barrier::new(2);
        let write = |thread: u8| {
            for n in 0..2 * combining::STREAK {
                turns.wait();
                let key = [&[thread], &n.to_be_bytes()[..]].concat();
                let put = database.put(&key, b"value", Durability::Relaxed);
                put.expect("it is taken");
                assert!(!shared.combining.is_on());
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| write(1));
            write(2);
        });
    });
}

/// Goal: nobody combines where others wait for the engine's lock, since who combines takes it again at once. Method: one thread has it, and another wants it.
#[test]
fn whoever_waits_for_the_lock_wants_nobody_to_combine() {
    with_database("", |_, shared| {
        wait_until("it becomes idle", || is_idle(shared));
        let inside = shared.lock();
        shared.combining.want();
        std::thread::scope(|scope| {
            scope.spawn(|| drop(shared.lock()));
            wait_until("it is not wanted", || !shared.combining.is_wanted());
            drop(inside);
        });
    });
}
