//! Tests of the workloads as a whole.

use crate::config::{KeyShape, Popularity, WorkloadConfig, WorkloadKind};
use crate::keyspace::KeySpace;
use crate::step::OpKind;
use crate::workload::Workload;
use kvsim_api::limits::KnownLimits;
use kvsim_api::value::{Reading, read};
use kvsim_sim::api::{Body, Direction, Mutation, Reply, Request, Status};
use std::collections::{BTreeMap, BTreeSet};

/// An answer that is good enough to go on with.
fn answer(request: &Request) -> Reply {
    let body = match request {
        Request::Get { .. } => Body::Value(Vec::new()),
        Request::Scan(_) => Body::Entries {
            entries: Vec::new(),
            more: false,
        },
        Request::Snapshot => Body::Snapshot(9),
        _ => Body::Empty,
    };
    Reply {
        id: 1,
        status: Status::Ok,
        body,
    }
}

fn run(config: &WorkloadConfig, seed: u64, steps: u32, crash_every: u32) -> Vec<(OpKind, Request)> {
    let mut workload = Workload::new(config, seed).unwrap();
    let mut made: Vec<_> = std::iter::from_fn(|| workload.preload())
        .map(|request| (OpKind::Put, request))
        .collect();
    for at in 0..steps {
        let client = at % workload.clients();
        let step = workload.next(client);
        if crash_every > 0 && at % crash_every == crash_every - 1 {
            workload.crashed();
        } else {
            workload.replied(client, &answer(&step.request));
        }
        made.push((step.kind, step.request));
    }
    made
}

fn written(request: &Request) -> Vec<(&[u8], Option<&[u8]>)> {
    match request {
        Request::Put { key, value, .. } => vec![(key, Some(value))],
        Request::Delete { key, .. } => vec![(key, None)],
        Request::Batch { mutations, .. } => mutations
            .iter()
            .map(|mutation| match mutation {
                Mutation::Put { key, value } => (&key[..], Some(&value[..])),
                Mutation::Delete { key } => (&key[..], None),
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Goal: the same seed gives the same requests, another gives others. Method: every kind but custom, with crashes.
#[test]
fn the_seed_decides() {
    for kind in WorkloadKind::ALL
        .into_iter()
        .filter(|kind| *kind != WorkloadKind::Custom)
    {
        let config = WorkloadConfig {
            value_bytes: crate::config::ValueBytes::Fixed(50),
            ..WorkloadConfig::of_kind(kind)
        };
        assert_eq!(
            run(&config, 1, 300, 50),
            run(&config, 1, 300, 50),
            "{kind:?}"
        );
        assert_ne!(
            run(&config, 1, 300, 50),
            run(&config, 2, 300, 50),
            "{kind:?}"
        );
    }
}

/// Goal: no two writes of a run write the same number, across crashes too. Method: all values of two mixes read back.
#[test]
fn write_numbers_never_repeat() {
    for kind in [
        WorkloadKind::YcsbF,
        WorkloadKind::Batch,
        WorkloadKind::ScanMix,
    ] {
        let mut numbers = BTreeSet::new();
        for (_, request) in run(&WorkloadConfig::of_kind(kind), 7, 5_000, 100) {
            for value in written(&request).into_iter().filter_map(|(_, value)| value) {
                let Reading::Whole(stamp) = read(value) else {
                    panic!("a value that does not describe itself")
                };
                assert!(numbers.insert(stamp.number));
            }
        }
        assert!(numbers.len() > 1_000);
    }
}

/// Goal: each kind does what its name says. Method: 40,000 operations of each; the share of each kind within 1.5 percent.
#[test]
fn operations_have_their_shares() {
    for (kind, expected) in [
        (WorkloadKind::Durable, vec![(OpKind::Put, 100)]),
        (
            WorkloadKind::YcsbA,
            vec![(OpKind::Put, 50), (OpKind::Get, 50)],
        ),
        (
            WorkloadKind::YcsbB,
            vec![(OpKind::Put, 5), (OpKind::Get, 95)],
        ),
        (WorkloadKind::YcsbC, vec![(OpKind::Get, 100)]),
        (
            WorkloadKind::YcsbD,
            vec![(OpKind::Insert, 5), (OpKind::Get, 95)],
        ),
        (
            WorkloadKind::YcsbE,
            vec![(OpKind::Insert, 5), (OpKind::Scan, 95)],
        ),
        (
            WorkloadKind::WriteMix8020,
            vec![(OpKind::Put, 80), (OpKind::Get, 20)],
        ),
        (
            WorkloadKind::DeleteHeavy,
            vec![
                (OpKind::Put, 50),
                (OpKind::Delete, 40),
                (OpKind::Get, 8),
                (OpKind::Scan, 2),
            ],
        ),
        (
            WorkloadKind::Batch,
            vec![
                (OpKind::Batch, 70),
                (OpKind::Put, 10),
                (OpKind::Delete, 5),
                (OpKind::Get, 15),
            ],
        ),
    ] {
        let config = WorkloadConfig {
            preload: 0,
            ..WorkloadConfig::of_kind(kind)
        };
        let mut counts = BTreeMap::new();
        run(&config, 3, 40_000, 0)
            .iter()
            .for_each(|(kind, _)| *counts.entry(*kind).or_insert(0) += 1);
        for (op, percent) in expected {
            let found = counts.remove(&op).unwrap_or(0);
            assert!(
                (found - percent * 400_i32).abs() <= 600,
                "{kind:?}: {found} of 40,000 are {op}"
            );
        }
        assert!(counts.is_empty(), "{kind:?} does {counts:?} too");
    }
}

/// Goal: read-modify-write reads and then writes the same key. Method: one client of YCSB F; no get of one is followed by
/// anything but its put.
#[test]
fn a_read_modify_write_writes_what_it_read() {
    let config = WorkloadConfig {
        clients: 1,
        preload: 0,
        ..WorkloadConfig::of_kind(WorkloadKind::YcsbF)
    };
    let made = run(&config, 5, 1_000, 0);
    let mut pairs = 0;
    for window in made.windows(2) {
        if let [
            (OpKind::ReadModifyWrite, Request::Get { key, .. }),
            (kind, next),
        ] = window
        {
            assert!(
                matches!(next, Request::Put { key: written, .. } if written == key && *kind == OpKind::ReadModifyWrite)
            );
            pairs += 1;
        }
    }
    assert!(pairs > 200);
}

/// Goal: a snapshot is read at least twice with a write between, and always released. Method: one client; the requests of each
/// snapshot from taking to release.
#[test]
fn a_snapshot_is_read_again_after_a_write() {
    let config = WorkloadConfig {
        clients: 1,
        ..WorkloadConfig::of_kind(WorkloadKind::ScanMix)
    };
    let mut shape = String::new();
    for (kind, request) in run(&config, 6, 4_000, 0) {
        if kind == OpKind::Snapshot {
            shape.push(match request {
                Request::Snapshot => '(',
                Request::Scan(_) | Request::Get { .. } => 'r',
                Request::Put { .. } | Request::Delete { .. } => 'w',
                Request::Release { .. } => ')',
                _ => '?',
            });
        }
    }
    let whole: Vec<&str> = shape
        .split_inclusive(')')
        .filter(|part| part.ends_with(')'))
        .collect();
    assert!(whole.len() > 50);
    for part in whole {
        assert!(["(rwr)", "(rwrwr)", "(rwrwrwr)"].contains(&part), "{part}");
    }
}

/// Goal: scans go both ways, keep their bounds in order and their limit in range. Method: all scans of the scan mix.
#[test]
fn scans_go_both_ways_and_make_sense() {
    let mut ways = BTreeMap::new();
    for (_, request) in run(
        &WorkloadConfig::of_kind(WorkloadKind::ScanMix),
        8,
        10_000,
        0,
    ) {
        if let Request::Scan(scan) = request {
            assert!((1..=50).contains(&scan.limit));
            assert!(
                scan.start.is_none()
                    || scan.end.is_none()
                    || scan.start < scan.end
                    || scan.direction == Direction::Reverse
            );
            *ways
                .entry((
                    scan.direction == Direction::Reverse,
                    scan.start.is_some() && scan.end.is_some(),
                ))
                .or_insert(0) += 1;
        }
    }
    assert_eq!(ways.len(), 4, "{ways:?}");
    assert!(ways.values().all(|&count| count > 100), "{ways:?}");
}

/// Goal: uniform keys are uniform. Method: chi-square over 100 keys and 100,000 draws; 99 degrees of freedom exceed 160 once in
/// ten thousand seeds, and the seed is fixed.
#[test]
fn uniform_keys_are_uniform() {
    let config = WorkloadConfig {
        keys: 100,
        ..WorkloadConfig::of_kind(WorkloadKind::Durable)
    };
    let config = WorkloadConfig {
        value_bytes: crate::config::ValueBytes::Fixed(0),
        ..config
    };
    let mut counts = BTreeMap::new();
    for (_, request) in run(&config, 1, 100_000, 0) {
        *counts.entry(written(&request)[0].0.to_vec()).or_insert(0.0) += 1.0_f64;
    }
    let chi_square: f64 = counts
        .values()
        .map(|count| (count - 1_000.0) * (count - 1_000.0) / 1_000.0)
        .sum();
    assert_eq!(counts.len(), 100);
    assert!(chi_square < 160.0, "{chi_square}");
}

/// Goal: with `latest`, what was inserted last is read most. Method: YCSB D; the commonest distance of a read from the newest key.
#[test]
fn the_latest_is_the_most_popular() {
    let config = WorkloadConfig {
        preload: 0,
        clients: 1,
        ..WorkloadConfig::of_kind(WorkloadKind::YcsbD)
    };
    assert_eq!(config.popularity, Popularity::Latest);
    let (mut newest, mut distances) = (config.keys - 1, BTreeMap::new());
    for (kind, request) in run(&config, 4, 20_000, 0) {
        match request {
            Request::Put { .. } if kind == OpKind::Insert => newest += 1,
            Request::Get { key, .. } => {
                let number: u64 = std::str::from_utf8(&key[1..]).unwrap().parse().unwrap();
                *distances.entry(newest - number).or_insert(0) += 1;
            }
            _ => {}
        }
    }
    assert!(newest > config.keys + 800);
    let most = distances.iter().max_by_key(|(_, count)| **count).unwrap();
    assert_eq!(*most.0, 0, "{distances:?}");
}

/// Goal: large values alternate, weighted ones have their weights, relaxed ones their fraction. Method: counts of lengths.
#[test]
fn lengths_and_durability_follow_the_table() {
    let lengths = |text: &str| {
        let config: WorkloadConfig = toml::from_str(text).unwrap();
        let made = run(&config, 2, 2_000, 0);
        made.iter()
            .filter_map(|(_, request)| written(request)[0].1)
            .map(<[u8]>::len)
            .collect::<Vec<_>>()
    };
    assert!(
        lengths("value_bytes = [3, 5]")
            .chunks(2)
            .all(|pair| pair == [3, 5])
    );
    let weighted = lengths(
        "value_bytes = [{ bytes = 1, weight = 3 }, { bytes = 2, weight = 0 }, { bytes = 3, weight = 1 }]",
    );
    let ones = weighted.iter().filter(|&&len| len == 1).count();
    assert!(
        (1_400..1_600).contains(&ones) && !weighted.contains(&2),
        "{ones}"
    );
    let ranged: BTreeSet<usize> = lengths("value_bytes = { min = 7, max = 9 }")
        .into_iter()
        .collect();
    assert_eq!(ranged.into_iter().collect::<Vec<_>>(), [7, 8, 9]);
}

/// Goal: the preload writes every record once, in affordable batches. Method: keys of all its requests.
#[test]
fn the_preload_writes_each_record_once() {
    let config: WorkloadConfig =
        toml::from_str("kind = 'ycsb_c'\nkeys = 1000\nvalue_bytes = 30000").unwrap();
    let mut workload = Workload::new(&config, 1).unwrap();
    let mut keys = BTreeSet::new();
    while let Some(request) = workload.preload() {
        let bytes: usize = written(&request)
            .iter()
            .map(|(_, value)| value.unwrap().len())
            .sum();
        assert!(bytes <= 300_000, "{bytes}");
        written(&request)
            .into_iter()
            .for_each(|(key, _)| assert!(keys.insert(key.to_vec())));
    }
    assert_eq!(keys.len(), 1_000);
    assert!(keys.contains(&b"k000000000000999"[..]));
}

/// Goal: edge cases come as often as asked, are of every sort, and move no other draw. Method: a run without them is what is left of a run with them.
#[test]
fn edge_cases_move_no_other_draw() {
    let plain = WorkloadConfig {
        clients: 1,
        ..WorkloadConfig::of_kind(WorkloadKind::ScanMix)
    };
    let edgy = WorkloadConfig {
        edge_cases: 0.2,
        ..plain.clone()
    };
    let mut workload = Workload::new(&edgy, 5).unwrap().knowing(KnownLimits {
        key_bytes_max: Some(100),
        value_bytes_max: Some(1_000),
    });
    let (mut edges, mut others) = (Vec::new(), Vec::new());
    for _ in 0..2_000 {
        let step = workload.next(0);
        workload.replied(0, &answer(&step.request));
        match step.kind {
            OpKind::EdgeCase => edges.push(step.request),
            kind => others.push((kind, step.request)),
        }
    }
    let steps = u32::try_from(others.len()).unwrap();
    assert_eq!(others, run(&plain, 5, steps, 0));
    assert!(edges.len() > 100, "{}", edges.len());
    let some = |what: fn(&Request) -> bool| assert!(edges.iter().any(what), "{edges:?}");
    some(|it| matches!(it, Request::Put { key, .. } if key.is_empty()));
    some(|it| matches!(it, Request::Put { key, .. } if key.len() == 101));
    some(|it| matches!(it, Request::Put { value, .. } if value.len() == 1_001));
    some(|it| matches!(it, Request::Delete { key, .. } if key.is_empty()));
    some(|it| matches!(it, Request::Get { key, .. } if key.is_empty()));
    some(|it| matches!(it, Request::Get { key, .. } if key.len() == 101));
    some(|it| matches!(it, Request::Batch { mutations, .. } if mutations.is_empty()));
    some(|it| matches!(it, Request::Batch { mutations, .. } if mutations.len() == 2));
    some(|it| matches!(it, Request::Get { snapshot, .. } if *snapshot != 0));
    some(|it| matches!(it, Request::Release { .. }));
    let released = |snapshot: u64| snapshot != 0 && snapshot < 1 << 40;
    let seldom = |what: &dyn Fn(&Request) -> bool| assert!(edges.iter().any(what), "{edges:?}");
    seldom(&|it| matches!(it, Request::Release { snapshot } if released(*snapshot)));
    seldom(&|it| matches!(it, Request::Get { snapshot, .. } if released(*snapshot)));
    seldom(&|it| matches!(it, Request::Scan(scan) if released(scan.snapshot)));
    for bad_first in [true, false] {
        for long in [0, 101] {
            let is_bad = |mutation: &Mutation| matches!(mutation, Mutation::Put { key, .. } if key.len() == long);
            seldom(&|it| {
                matches!(it, Request::Batch { mutations, .. }
                    if mutations.len() == 2 && is_bad(&mutations[usize::from(!bad_first)]))
            });
        }
    }
    some(|it| matches!(it, Request::Scan(scan) if scan.snapshot != 0));
    some(|it| matches!(it, Request::Scan(scan) if scan.limit == 0));
    some(|it| matches!(it, Request::Scan(scan) if scan.limit == 1));
    some(|it| matches!(it, Request::Scan(scan) if scan.end == Some(Vec::new())));
}

/// Goal: keys of mixed shapes are keys of their own, of the lengths that a guest takes and no longer than the scenario says. Method: ten thousand keys of
/// each of three bounds.
#[test]
fn mixed_keys_differ() {
    for (key_bytes, shortest) in [(9, 1), (64, 1), (1_024, 1)] {
        let config = WorkloadConfig {
            keys: 10_000,
            key_bytes,
            key_shape: KeyShape::Mixed,
            ..WorkloadConfig::default()
        };
        config.validate().unwrap();
        let space = KeySpace::new(&config);
        let keys: BTreeSet<Vec<u8>> = (0..10_000).map(|number| space.key(number)).collect();
        assert_eq!(keys.len(), 10_000);
        let lengths: BTreeSet<usize> = keys.iter().map(Vec::len).collect();
        assert_eq!(lengths.first(), Some(&shortest));
        assert_eq!(lengths.last(), Some(&(key_bytes as usize)));
        assert!(keys.iter().any(|key| key[0] == 0) && keys.iter().any(|key| key[0] == 0xff));
    }
}

/// Goal: what is sent at a limit is at the limit and not beyond it, and moves no other draw. Method: a run with them and one without.
#[test]
fn requests_at_limits_are_well_formed_and_move_nothing() {
    let config = WorkloadConfig::of_kind(WorkloadKind::ScanMix);
    let with = WorkloadConfig {
        at_limits: 0.3,
        ..config.clone()
    };
    let (with, without) = (run(&with, 1, 3_000, 0), run(&config, 1, 3_000, 0));
    let (extra, rest): (Vec<_>, Vec<_>) = with
        .into_iter()
        .partition(|(kind, _)| *kind == OpKind::EdgeCase);
    assert!(extra.len() > 300);
    // Each client sends what it sends without them.
    let kinds: BTreeSet<OpKind> = rest.iter().map(|(kind, _)| *kind).collect();
    let expected: BTreeSet<OpKind> = without.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, expected);
    let (mut longest, mut batches) = (0, Vec::new());
    for (_, request) in &extra {
        let written = written(request);
        for (key, value) in &written {
            assert!((1..=1_024).contains(&key.len()));
            assert!(value.is_none_or(|value| value.len() <= 64 << 10));
            longest = longest.max(key.len());
        }
        if let Request::Batch { .. } = request {
            let of = |(key, value): &(&[u8], Option<&[u8]>)| {
                key.len() + value.map_or(0, <[u8]>::len) + 64
            };
            batches.push(written.iter().map(of).sum::<usize>());
        }
    }
    assert_eq!(longest, 1_024);
    assert_eq!(batches.iter().max(), Some(&(8 << 10)));
}

/// Goal: snapshots are scanned in both directions, over a range in which the key that is written comes first. Method: many snapshots, and the
/// writes between their scans.
#[test]
fn snapshots_are_scanned_in_both_directions() {
    let config = WorkloadConfig {
        clients: 1,
        ..WorkloadConfig::of_kind(WorkloadKind::ScanMix)
    };
    let mut directions = BTreeMap::new();
    let mut last = None;
    for (_, request) in run(&config, 3, 4_000, 0) {
        match request {
            Request::Scan(scan) if scan.snapshot != 0 => {
                *directions.entry(scan.direction as u8).or_insert(0) += 1;
                last = Some(scan);
            }
            Request::Put { key, .. } | Request::Delete { key, .. } => {
                let Some(scan) = &last else { continue };
                let (start, end) = (scan.start.as_ref(), scan.end.as_ref());
                let edge = match scan.direction {
                    Direction::Forward => start.is_some_and(|start| *start == key),
                    Direction::Reverse => {
                        end.is_some_and(|end| end.strip_suffix(&[0]) == Some(&key[..]))
                    }
                };
                assert!(edge, "{scan:?} {key:?}");
            }
            Request::Release { .. } | Request::Snapshot => last = None,
            Request::Get { snapshot, .. } if snapshot != 0 => {}
            _ => last = None,
        }
    }
    assert_eq!(directions.len(), 2, "{directions:?}");
    assert!(
        directions.values().all(|count| *count > 50),
        "{directions:?}"
    );
}
