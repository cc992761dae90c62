//! The clients in the Go world do what the clients here do: same keys, same values, everything counted.
#![cfg(feature = "go")]

mod common;

use std::path::Path;
use std::time::Duration;

use kvsim_store::process::{Process, Remote};
use kvsim_store::script::{Action, Key, Operation, Script, Values};
use kvsim_store::seen::{Pace, Seen};
use kvsim_store::sequence::key_of;
use kvsim_store::{Durability, Engine, Settings};

const PRELOAD: u64 = 200;
const KEYS: u64 = 300;

/// Two clients, the second of which does everything backwards.
fn script(actions: &[Action], from_latest: bool) -> Script {
    let operation = |n: usize| Operation {
        action: actions[n % actions.len()],
        key: u32::try_from(n * 7 % 200).expect("small"),
        entries: u16::try_from(n % 9 + 1).expect("small"),
    };
    let list: Vec<Operation> = (0..500).map(operation).collect();
    let backwards = list.iter().rev().copied().collect();
    let pool = (0..40_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]);
    Script {
        key_bytes: 20,
        preload: PRELOAD,
        next_key: KEYS,
        from_latest,
        lists: vec![list, backwards],
        values: Values::cut(pool.collect(), vec![100, 3_000, 1_024]),
    }
}

fn started(remote: &dyn Remote, directory: &Path, settings: &Settings, script: &Script) -> Process {
    let mut process = remote.start(directory, settings).expect("it starts");
    process.send_script(script).expect("it takes a script");
    process
}

fn pace(rate: Option<f64>) -> Pace {
    Pace {
        warm_up: Duration::from_millis(20),
        measured: Duration::from_millis(200),
        rate,
        tasks: false,
    }
}

fn of(seen: &Seen, action: Action) -> u64 {
    let found = seen.latency.iter().find(|(one, _)| *one == action);
    found.map_or(0, |(_, histogram)| histogram.len())
}

fn each(mut work: impl FnMut(&dyn Engine, &dyn Remote, &Path)) {
    if !common::go_is_built() {
        return;
    }
    for engine in kvsim_peers::go::all() {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        work(&engine, &engine, directory.path());
    }
}

/// Goal: there is one generator. Method: what the other process loaded is what this one says that it should be.
#[test]
fn what_is_loaded_is_what_was_drawn() {
    each(|engine, remote, directory| {
        let (name, settings) = (engine.name(), common::settings(Durability::Relaxed));
        let script = script(&[Action::Put], false);
        let mut load = started(remote, directory, &settings, &script);
        load.load(&|_| {}).expect(name);
        assert_eq!(load.next_key().expect(name), KEYS, "{name}");
        load.close().expect(name);
        drop(load);
        let store = engine.open(directory, &settings).expect(name);
        let mut key = Key::new(script.key_bytes);
        for number in 0..PRELOAD + 1 {
            let mut found = None;
            let mut take = |value: &[u8]| found = Some(value.to_vec());
            store.get(key.of(number), &mut take).expect(name);
            let drawn = (number < PRELOAD).then(|| script.values.nth(number));
            assert_eq!(found.as_deref(), drawn, "{name}, key {number}");
        }
    });
}

/// Goal: everything that is done is counted as what it is, and keys that were inserted stay so. Method: all actions at once, twice.
#[test]
fn what_is_done_is_counted() {
    each(|engine, remote, directory| {
        let (name, settings) = (engine.name(), common::settings(Durability::Relaxed));
        let actions = Action::ALL.into_iter();
        let actions: Vec<Action> = actions
            .filter(|action| engine.is_ordered() || *action != Action::Scan)
            .collect();
        let script = script(&actions, false);
        let mut load = started(remote, directory, &settings, &script);
        load.load(&|_| {}).expect(name);
        let mut next_key = KEYS;
        let mut done = vec![0; actions.len()];
        // A disk may stand still for a round: then there is another.
        for round in 0..100 {
            let seen = load.run(&pace(None)).expect(name);
            assert!(seen.elapsed >= Duration::from_millis(200), "{name}");
            let deletes = of(&seen, Action::Delete);
            let writes = [Action::Put, Action::Insert, Action::ReadModifyWrite];
            let writes: u64 = writes.into_iter().map(|action| of(&seen, action)).sum();
            assert_eq!(seen.commits, writes + deletes, "{name}");
            let least = 20 * deletes + 120 * writes;
            assert!((least..=least + 2_900 * writes).contains(&seen.user_bytes));
            let counters = seen.counters;
            assert!(counters.context_switches > 0, "{name}: {counters:?}");
            let inserted = load.next_key().expect(name) - next_key;
            assert!(inserted >= of(&seen, Action::Insert), "{name}");
            next_key += inserted;
            let counts = actions.iter().map(|action| of(&seen, *action));
            done.iter_mut()
                .zip(counts)
                .for_each(|(all, one)| *all += one);
            if round > 0 && done.iter().all(|count| *count > 0) {
                break;
            }
        }
        assert!(
            done.iter().all(|count| *count > 0),
            "{name}: {actions:?} {done:?}"
        );
        load.close().expect(name);
        drop(load);
        let store = engine.open(directory, &settings).expect(name);
        let mut key = Key::new(script.key_bytes);
        for number in KEYS..next_key {
            let found = store.get(key.of(number), &mut |_| {}).expect(name);
            assert!(found, "{name}: key {number} was inserted");
        }
    });
}

/// Goal: an open loop makes so many requests and no more, and keys counted from the newest are found. Method: 500 a second.
#[test]
fn an_open_loop_keeps_its_rate() {
    each(|engine, remote, directory| {
        let (name, settings) = (engine.name(), common::settings(Durability::Relaxed));
        let script = script(&[Action::Get], true);
        let mut load = started(remote, directory, &settings, &script);
        load.load(&|_| {}).expect(name);
        let seen = load.run(&pace(Some(500.0))).expect(name);
        // No more than were due until then, however late this machine is.
        let most = 500.0 * (seen.elapsed.as_secs_f64() + 0.1) + 1.0;
        let operations = seen.operations();
        assert!(
            operations > 0 && seen.rate() * seen.elapsed.as_secs_f64() <= most,
            "{name}: {operations}"
        );
    });
}

/// Goal: what is wrong is said, and the other requests are served. Method: scans of an engine without an order, tasks, and a process that is gone.
#[test]
fn errors_arrive() {
    each(|engine, remote, directory| {
        let (name, settings) = (engine.name(), common::settings(Durability::Relaxed));
        let script = script(&[Action::Scan], false);
        let mut load = started(remote, directory, &settings, &script);
        let early = load.run(&pace(None)).expect_err("nothing is open");
        assert!(early.what.contains("no database is open"), "{early}");
        load.load(&|_| {}).expect(name);
        if !engine.is_ordered() {
            let error = load.run(&pace(None)).expect_err("it has no order");
            assert!(error.what.contains("no order"), "{error}");
        }
        let tasks = Pace {
            tasks: true,
            ..pace(None)
        };
        assert!(load.run(&tasks).is_err(), "{name}");
        load.close().expect(name);
        assert!(load.run(&pace(None)).is_err(), "{name}");
    });
}

/// Goal: there is one sequence of writes, and what was synced survives a kill. Method: one and a half passes over all keys, the process killed in the midst of
/// further writes; then a put beside gets, and all keys read.
#[test]
fn what_was_synced_survives_a_kill() {
    each(|engine, remote, directory| {
        let (name, settings) = (engine.name(), common::settings(Durability::Full));
        let script = script(&[Action::Get], false);
        let synced = PRELOAD + PRELOAD / 2;
        let mut process = started(remote, directory, &settings, &script);
        process.open(Durability::Relaxed).expect(name);
        process
            .write_until_killed(0, synced, u64::MAX, synced + 50)
            .expect(name);
        let mut process = started(remote, directory, &settings, &script);
        process.open(Durability::Full).expect(name);
        let first: Vec<u64> = (0..synced).map(|write| key_of(write, PRELOAD)).collect();
        let next = 1 << 40;
        let used = process.first_use(&first, next).expect(name);
        assert!(
            used.first_get <= used.gets && used.put.as_nanos() > 0,
            "{name}"
        );
        assert!(used.values.iter().all(Option::is_some), "{name}");
        let numbers: Vec<u64> = (0..PRELOAD).map(|write| key_of(write, PRELOAD)).collect();
        let values = process.get_all(&numbers).expect(name);
        for (place, (number, value)) in (0..).zip(numbers.iter().zip(values)) {
            let value = value.expect(name);
            // The newest write that was synced, or one after it.
            let newest = if place < PRELOAD / 2 {
                place + PRELOAD
            } else {
                place
            };
            let mut writes = (newest..newest + 1_000_000).step_by(200);
            let is_right = *number == key_of(next, PRELOAD) && value == script.values.nth(next)
                || writes.any(|write| value == script.values.nth(write));
            assert!(is_right, "{name}: key {number}");
        }
        process.close().expect(name);
    });
}
