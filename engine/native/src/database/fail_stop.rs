//! What becomes of a database whose engine panics, or something that works for it: the driver, a task's waker.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::*;
use crate::io::driver::Completion;

/// A driver that once, when told to, says of what has ended that it was something else, which never began. No engine survives that. Or it panics where
/// somebody waits for the disk.
struct Liar {
    driver: Box<dyn Driver>,
    lies: Arc<AtomicBool>,
    panics: bool,
}

impl Driver for Liar {
    fn name(&self) -> &'static str {
        self.driver.name()
    }
    fn queue(&self, tag: u64, op: kvsim_engine::DiskOp) {
        self.driver.queue(tag, op);
    }
    fn start(&self) {
        self.driver.start();
    }
    fn work(&self) -> bool {
        self.driver.work()
    }
    fn wait(&self, timeout: Option<Duration>) {
        if self.panics && self.lies.swap(false, Ordering::AcqRel) {
            panic!("a driver with a bug");
        }
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
        if let Some(last) = done.last_mut()
            && !self.panics
            && self.lies.swap(false, Ordering::AcqRel)
        {
            last.tag = u64::from(u32::MAX);
        }
    }
}

const CLIENTS: u64 = 4;

fn key(client: u64, number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&client.to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Goal: if the engine panics, at most the thread panics on which it did, all others are told and nobody waits for ever, nothing is answered any more, the
/// process can open the database again, and what was acknowledged is there. Method: threads and a task that write while the
/// driver lies; all that was acknowledged is read after another opening.
fn fails_stop(durability: Durability, panics: bool) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("database");
    let options = OpenOptions {
        size_bytes: 64 << 20,
        ..OpenOptions::default()
    };
    let lies = Arc::new(AtomicBool::new(false));
    let liar = |driver| -> Box<dyn Driver> {
        let lies = Arc::clone(&lies);
        Box::new(Liar {
            driver,
            lies,
            panics,
        })
    };
    let database = Database::open_with(&path, &options, liar).expect("it opens");
    let acknowledged = AtomicU64::new(0);
    let write = |client: u64| {
        let database = database.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime");
        for number in 0.. {
            let key = key(client, number);
            let put = match client {
                0 => runtime.block_on(database.put_async(&key, &key, durability)),
                _ => database.put(&key, &key, durability),
            };
            if let Err(failure) = put {
                return (number, failure.status);
            }
            if acknowledged.fetch_add(1, Ordering::AcqRel) == 200 {
                lies.store(true, Ordering::Release);
            }
        }
        unreachable!("it goes on until it fails")
    };
    let ends: BTreeMap<u64, _> = std::thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|client| (client, scope.spawn(move || write(client))));
        let clients: Vec<_> = clients.collect();
        let ends = clients.into_iter();
        ends.filter_map(|(client, thread)| Some((client, thread.join().ok()?)))
            .collect()
    });
    assert!(
        ends.len() as u64 >= CLIENTS - 1,
        "one at most panicked: {ends:?}"
    );
    for (_, status) in ends.values() {
        assert!(
            matches!(status, Status::IoError | Status::Closed),
            "{ends:?}"
        );
    }
    let refused = database.get(&key(1, 0)).expect_err("there is no engine");
    assert_eq!(refused.status, Status::Closed);
    assert!(refused.message.contains("panicked"), "{refused}");
    assert!(database.put(b"key", b"value", durability).is_err());
    let all = ScanRange {
        snapshot: 0,
        direction: kvsim_engine::Direction::Forward,
        start: None,
        end: None,
        limit: 1,
        max_bytes: 1 << 20,
    };
    assert!(database.scan(&all).is_err() && database.sync().is_err());
    drop(database);

    let database = Database::open(&path, &options).expect("it opens again");
    if durability == Durability::Durable {
        for (client, (until, _)) in ends {
            for number in 0..until {
                let key = key(client, number);
                let found = database.get(&key).expect("it is open");
                assert_eq!(found.as_deref(), Some(&key[..]), "{client} {number}");
            }
        }
    }
    database
        .put(b"key", b"value", durability)
        .expect("it works");
}

#[test]
fn a_panic_of_the_engine_stops_it_between_durable_writes() {
    fails_stop(Durability::Durable, false);
}

#[test]
fn a_panic_of_the_engine_stops_it_between_relaxed_writes() {
    fails_stop(Durability::Relaxed, false);
}

/// The same for a panic of whoever waits for the disk on behalf of all, which happens without the engine's lock.
#[test]
fn a_panic_of_the_leader_stops_the_engine_between_durable_writes() {
    fails_stop(Durability::Durable, true);
}

#[test]
fn a_panic_of_the_leader_stops_the_engine_between_relaxed_writes() {
    fails_stop(Durability::Relaxed, true);
}

/// The same where the database's own thread hands in what one other writes on and on: that one does not wait for it for ever. It may be the one that panics.
#[test]
fn a_panic_of_who_combines_is_told() {
    if std::thread::available_parallelism().is_ok_and(|count| count.get() == 1) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let lies = Arc::new(AtomicBool::new(false));
    let liar = |driver| -> Box<dyn Driver> {
        let (lies, panics) = (Arc::clone(&lies), false);
        Box::new(Liar {
            driver,
            lies,
            panics,
        })
    };
    let path = directory.path().join("database");
    let database = Database::open_with(&path, &OpenOptions::default(), liar).expect("it opens");
    let has_begun = AtomicBool::new(false);
    let write = || {
        for number in 0_u64.. {
            let put = database.put(&number.to_be_bytes(), b"value", Durability::Relaxed);
            if let Err(failure) = put {
                return failure.status;
            }
            if database.shared().combines_now() && !has_begun.swap(true, Ordering::AcqRel) {
                lies.store(true, Ordering::Release);
            }
        }
        unreachable!("it goes on until it fails")
    };
    let end = std::thread::scope(|scope| scope.spawn(write).join());
    assert!(
        !matches!(end, Ok(status) if !matches!(status, Status::IoError | Status::Closed)),
        "{end:?}"
    );
    assert!(has_begun.into_inner(), "somebody combined");
    let refused = database.get(b"key").expect_err("there is no engine");
    assert!(refused.message.contains("panicked"), "{refused}");
}

/// A waker that does something else.
struct Instead<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for Instead<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

fn opened(directory: &tempfile::TempDir) -> Database {
    let options = OpenOptions {
        size_bytes: 64 << 20,
        ..OpenOptions::default()
    };
    Database::open(&directory.path().join("database"), &options).expect("it opens")
}

/// Does it on a thread of its own, and waits for that, but not for ever.
fn within_timeout<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new().spawn(move || done.send(work()));
    drop(thread.expect("a thread"));
    let result = result.recv_timeout(Duration::from_secs(30));
    result.expect("it is done in time")
}

/// Goal: a waker that panics affects nobody else. Method: a task with such a waker waits for a durable write; then it has its reply, and threads write, relaxed
/// and durable, and are answered.
#[test]
fn a_panic_of_a_waker_is_nobody_elses() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = opened(&directory);
    let woken = Arc::new(AtomicBool::new(false));
    let waker = {
        let woken = Arc::clone(&woken);
        Waker::from(Arc::new(Instead(move || {
            woken.store(true, Ordering::SeqCst);
            panic!("a waker with a bug");
        })))
    };
    for number in 0..3_u8 {
        woken.store(false, Ordering::SeqCst);
        let mut put = pin!(database.put_async(&[number], b"value", Durability::Durable));
        let polled = put.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_pending() {
            let seen = Arc::clone(&woken);
            within_timeout(move || {
                while !seen.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            });
            let polled = put.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Ready(Ok(()))));
        }
        let writer = database.clone();
        within_timeout(move || {
            writer.put(b"relaxed", b"value", Durability::Relaxed)?;
            writer.put(b"durable", b"value", Durability::Durable)?;
            writer.sync()
        })
        .expect("others go on");
    }
    within_timeout(move || drop(database));
}

/// Goal: the last handle may go on the database's own thread, which then closes the database without waiting for itself. Method: it is held by the waker of a
/// task whose write that thread makes durable, with other writes under way or none; then the database is opened again, and the write is there.
#[test]
fn the_last_handle_may_go_on_the_databases_own_thread() {
    let directory = tempfile::tempdir().expect("a directory");
    for number in 0..5_u8 {
        let database = opened(&directory);
        let mut put = Box::pin(database.put_async(&[number], b"value", Durability::Durable));
        let value = vec![number; 100_000];
        let others = (0..40 * number).map(|other| {
            let key = [number, other];
            database.put_async(&key, &value, Durability::Durable)
        });
        let others: Vec<_> = others.collect();
        let last = Mutex::new(Some(database));
        let waker = Waker::from(Arc::new(Instead(move || drop(lock(&last).take()))));
        let polled = put.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(matches!(polled, Poll::Pending | Poll::Ready(Ok(()))));
        drop((waker, others));
        let directory = directory.path().to_owned();
        within_timeout(move || {
            let options = OpenOptions::default();
            let path = directory.join("database");
            let again = loop {
                match Database::open(&path, &options) {
                    Ok(again) => break again,
                    Err(OpenError::Locked { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            };
            let found = again.get(&[number]).expect("it is open");
            assert_eq!(found.as_deref(), Some(&b"value"[..]));
        });
    }
}
