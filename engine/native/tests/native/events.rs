//! What whoever embeds a database is told of, and what a listener may do.
#![allow(missing_docs, reason = "a test")]

use crate::common::directory;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use kvsim_native::{Database, Durability, Event, OpenOptions, StallReason, Status};

const TIMEOUT: Duration = Duration::from_secs(30);

fn options() -> OpenOptions {
    OpenOptions::new()
        .size_bytes(8 << 20)
        .max_bytes(64 << 20)
        .cache_bytes(0)
        .segment_bytes(1 << 16)
        .checkpoint_bytes(1 << 20)
}

/// Opens a database, and says how to receive its events.
fn listened(path: &Path, options: OpenOptions) -> (Database, Receiver<Event>) {
    let (sender, events) = channel();
    let options = options.on_event(move |event| drop(sender.send(event)));
    (options.open(path).expect("it opens"), events)
}

/// All events of a database that is closed.
fn rest(events: &Receiver<Event>) -> Vec<Event> {
    let mut all = Vec::new();
    while let Ok(event) = events.recv_timeout(TIMEOUT) {
        all.push(event);
    }
    all
}

fn fill(database: &Database, rounds: u64, keys: u64) {
    for round in 0..rounds {
        for key in 0..keys {
            let key = (key * 7919).to_be_bytes();
            let value = [u8::try_from(round % 251).expect("small"); 4000];
            let put = database.put(&key, &value, Durability::Relaxed);
            put.expect("there is room");
        }
    }
    database.sync().expect("the disk works");
}

/// Goal: the opening comes first and the end last; checkpoints, growth, stalls and garbage collection are told in pairs and with what they did. Method: a small database is
/// filled beyond its size and overwritten.
#[test]
fn what_happens_is_told_in_its_order() {
    let directory = directory();
    let options = options().write_buffer_bytes(1 << 16);
    let (database, events) = listened(&directory.path().join("database"), options);
    fill(&database, 6, 3000);
    let counts = database.counts().engine;
    database.close().expect("the disk works");
    let all = rest(&events);
    assert!(
        matches!(
            all.first(),
            Some(Event::Opened { replayed_bytes: 0, cut_tail: false, took, .. }) if *took > Duration::ZERO
        ),
        "{:?}",
        all.first()
    );
    assert_eq!(all.last(), Some(&Event::Closed { clean: true }));
    let count =
        |is_it: &dyn Fn(&Event) -> bool| all.iter().filter(|event| is_it(event)).count() as u64;
    let began = count(&|event| matches!(event, Event::CheckpointBegan));
    let ended = count(
        &|event| matches!(event, Event::CheckpointEnded { published: true, written_bytes, .. } if *written_bytes > 0),
    );
    assert!(
        began >= counts.checkpoints && counts.checkpoints > 0,
        "{began} {counts:?}"
    );
    assert_eq!(
        ended,
        count(&|event| matches!(
            event,
            Event::CheckpointEnded {
                published: true,
                ..
            }
        ))
    );
    assert_eq!(
        began,
        count(&|event| matches!(event, Event::CheckpointEnded { .. }))
    );
    let grown: Vec<u64> = all
        .iter()
        .filter_map(|event| match event {
            Event::Grew { len_bytes } => Some(*len_bytes),
            _ => None,
        })
        .collect();
    assert!(
        !grown.is_empty() && grown.is_sorted() && grown[0] > 8 << 20,
        "{grown:?}"
    );
    let mut stalled = false;
    for event in &all {
        match event {
            Event::StallBegan { .. } => assert!(!std::mem::replace(&mut stalled, true)),
            Event::StallEnded { .. } => assert!(std::mem::replace(&mut stalled, false)),
            _ => {}
        }
    }
    let reason = StallReason::Buffer;
    assert!(
        count(&|event| *event == Event::StallBegan { reason }) > 0,
        "the buffer is small"
    );
}

/// Goal: it is told when the index is loaded behind an opening, with all keys, and not where the opening has loaded it. Method: another opening of each kind.
#[test]
fn the_end_of_loading_is_told() {
    let directory = directory();
    let path = directory.path().join("database");
    let (database, _) = listened(&path, options());
    fill(&database, 3, 1000);
    database.close().expect("the disk works");
    for (bytes, is_told) in [(0, true), (1 << 30, false)] {
        let (database, events) = listened(&path, options().load_first_bytes(bytes));
        let is_it = |event: &Event| matches!(event, Event::IndexLoaded { keys: 1000, .. });
        if is_told {
            let mut events = events.iter();
            assert!(events.any(|event| is_it(&event)));
        }
        database.close().expect("the disk works");
        assert!(!rest(&events).iter().any(is_it));
    }
}

/// Goal: what garbage collection did is told. Method: a file that may not grow, of which every third key is overwritten, again and again.
#[test]
fn garbage_collection_is_told() {
    let directory = directory();
    let options = options().max_bytes(24 << 20).size_bytes(24 << 20);
    let (database, events) = listened(&directory.path().join("database"), options);
    fill(&database, 1, 3000);
    for round in 0..12 {
        for key in (0..3000).filter(|key| (key + round) % 3 == 0) {
            let key: u64 = key * 7919;
            let put = database.put(&key.to_be_bytes(), &[1; 4000], Durability::Relaxed);
            put.expect("there is room");
        }
    }
    let counts = database.counts().engine;
    database.close().expect("the disk works");
    let (mut emptied, mut moved) = (0, 0);
    for event in rest(&events) {
        if let Event::Collected {
            segments,
            moved_bytes,
            ..
        } = event
        {
            emptied += segments;
            moved += moved_bytes;
        }
    }
    assert!(emptied > 0 && moved > 0, "{counts:?}");
}

/// Goal: an opening after a crash says how much of the log it replayed. Method: a copy of the file of a database that is open.
#[test]
fn an_opening_says_what_it_replayed() {
    let directory = directory();
    let (path, copy) = (
        directory.path().join("database"),
        directory.path().join("copy"),
    );
    let options = || options().checkpoint_bytes(1 << 30);
    let database = options().open(&path).expect("it opens");
    fill(&database, 1, 100);
    std::fs::copy(&path, &copy).expect("a copy");
    let (database, events) = listened(&copy, options());
    let stats = database.counts().engine;
    drop(database);
    let Some(Event::Opened {
        replayed_bytes,
        replayed_frames,
        ..
    }) = rest(&events).first().cloned()
    else {
        panic!("the opening comes first");
    };
    assert!(
        replayed_bytes > 100 * 4000 && replayed_frames > 0,
        "{replayed_bytes}"
    );
    assert_eq!(
        (replayed_bytes, replayed_frames),
        (stats.replayed_bytes, stats.replayed_frames)
    );
}

/// Goal: damage is told with its key and place. Method: one byte of a value is changed in the file of an open database.
#[test]
fn damage_is_told_with_its_key() {
    let directory = directory();
    let path = directory.path().join("database");
    let (database, events) = listened(&path, options());
    let value = b"a value that is found again ".repeat(40);
    let put = database.put(b"key", &value, Durability::Durable);
    put.expect("there is room");
    let bytes = std::fs::read(&path).expect("it is there");
    let found = bytes
        .windows(value.len())
        .rposition(|window| window == value);
    let found = found.expect("it was written") as u64;
    let file = std::fs::OpenOptions::new().write(true).open(&path);
    let file = file.expect("it is there");
    file.write_all_at(b"#", found + 99).expect("a write");
    file.sync_all().expect("a flush");
    let read = database.get(b"key");
    assert_eq!(
        read.map(|_| ()).map_err(|it| it.status),
        Err(Status::Corruption)
    );
    drop(database);
    let all = rest(&events);
    let damaged = all.iter().find_map(|event| match event {
        Event::Damaged { key, offset, what } => Some((key.clone(), *offset, what.clone())),
        _ => None,
    });
    let (key, offset, what) = damaged.expect("it was met");
    assert_eq!(key.as_deref(), Some(&b"key"[..]));
    assert!(offset < found && found < offset + 4096, "{offset} {found}");
    assert!(what.contains("checksum"), "{what}");
}

/// Goal: a listener that panics or takes for ever neither breaks the database nor holds it up; who is slow is told how much was missed. Method: one of each kind.
#[test]
fn a_listener_cannot_hold_up_the_database() {
    let directory = directory();
    let panics = options().on_event(|_| panic!("a listener with a bug"));
    let database = panics
        .open(directory.path().join("panics"))
        .expect("it opens");
    fill(&database, 2, 500);
    database.close().expect("the disk works");

    let (go_on, waits) = channel::<()>();
    let (sender, events) = channel();
    let waits = std::sync::Mutex::new(waits);
    let slow = options()
        .write_buffer_bytes(1 << 14)
        .on_event(move |event| {
            if matches!(event, Event::Opened { .. }) {
                let waited = waits.lock().expect("one at a time").recv();
                waited.expect("the test goes on");
            }
            drop(sender.send(event));
        });
    let database = slow.open(directory.path().join("slow")).expect("it opens");
    fill(&database, 4, 3000);
    let stalls = database.counts().engine.stalls;
    database.close().expect("the disk works");
    assert!(events.try_recv().is_err(), "it waits still");
    drop(slow);
    go_on.send(()).expect("it waits");
    let all = rest(&events);
    assert!(stalls > 2000, "{stalls}");
    assert!(all.len() < 2048, "{}", all.len());
    assert!(
        matches!(all.last(), Some(Event::Missed { count }) if *count > 1000),
        "{:?}",
        all.last()
    );
    assert!(all.contains(&Event::Closed { clean: true }));
}

/// Goal: a listener may use the database, and may be the last who holds it. Method: it writes a key when a checkpoint ends, and drops the handle.
#[test]
fn a_listener_may_use_the_database() {
    let directory = directory();
    let path = directory.path().join("database");
    let handle = std::sync::Arc::new(std::sync::Mutex::new(None::<Database>));
    let (theirs, (sender, done)) = (std::sync::Arc::clone(&handle), channel());
    let listening = options().on_event(move |event| {
        if matches!(event, Event::CheckpointEnded { .. })
            && let Some(database) = theirs.lock().expect("no panic").take()
        {
            let put = database.put(b"told", b"yes", Durability::Durable);
            drop(database);
            drop(sender.send(put));
        }
    });
    let database = listening.open(&path).expect("it opens");
    *handle.lock().expect("no panic") = Some(database.clone());
    fill(&database, 1, 600);
    drop(database);
    let put = done.recv_timeout(TIMEOUT).expect("a checkpoint ended");
    put.expect("the database is open");
    let database = options().open(&path).expect("it is closed by now");
    assert!(database.contains(b"told").expect("it is open"));
}

/// Goal: a database that is only read tells of its opening and its end. Method: an empty one.
#[test]
fn a_database_that_is_only_read_tells_little() {
    let directory = directory();
    let path = directory.path().join("database");
    drop(options().open(&path).expect("it is created"));
    let (database, events) = listened(&path, options().read_only(true));
    drop(database);
    let all = rest(&events);
    assert!(
        matches!(all[..], [Event::Opened { .. }, Event::Closed { .. }]),
        "{all:?}"
    );
}
