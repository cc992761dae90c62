//! What becomes of a database whose engine panics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::*;
use crate::driver::Completion;

/// A driver that once, when told to, says of what has ended that it was something else, which never began. No engine survives that.
struct Liar {
    driver: Box<dyn Driver>,
    lies: Arc<AtomicBool>,
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
fn fails_stop(durability: Durability) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("database");
    let options = OpenOptions {
        size_bytes: 64 << 20,
        ..OpenOptions::default()
    };
    let lies = Arc::new(AtomicBool::new(false));
    let liar = |driver| -> Box<dyn Driver> {
        let lies = Arc::clone(&lies);
        Box::new(Liar { driver, lies })
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
    fails_stop(Durability::Durable);
}

#[test]
fn a_panic_of_the_engine_stops_it_between_relaxed_writes() {
    fails_stop(Durability::Relaxed);
}
