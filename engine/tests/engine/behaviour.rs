//! One behaviour a test, on the test device: throughput of group commit, space, errors, damage, snapshots, large values.

use std::collections::BTreeMap;

use crate::common::{Disk, Rng, Times, World, bytes, device, world};
use kvsim_engine::{Direction, Durability, Mutation, Reply, Request, Status};

/// Runs closed-loop clients that write 1 KB durably for a second of virtual time; returns commits per second and the 99th
/// percentile of latency in microseconds.
fn closed_loop(
    clients: u64,
    think_ns: u64,
    options: &str,
    times: Times,
    through: bool,
) -> (u64, u64) {
    let mut info = device(64 << 20);
    info.write_through = through;
    let mut world = World::new(Disk::new(info, times, 7), options);
    world.open().expect("opens");
    let mut sent = BTreeMap::new();
    let mut latencies = Vec::new();
    let mut due: Vec<(u64, u64)> = (0..clients).map(|client| (world.now, client)).collect();
    let start = world.now;
    let mut n = 0;
    while world.now < start + 1_000_000_000 {
        let ready = due.iter().position(|(at, _)| *at <= world.now);
        if let Some(at) = ready {
            let (_, client) = due.swap_remove(at);
            let key = format!("client{client}-{}", n % 500).into_bytes();
            n += 1;
            let value = bytes(n, 1000);
            let mutations = [Mutation::Put {
                key: &key,
                value: &value,
            }];
            let id = world.request(Request::Write {
                mutations: &mutations,
                durability: Durability::Durable,
            });
            sent.insert(id, (world.now, client));
            continue;
        }
        let wake = due.iter().map(|(at, _)| *at).min();
        if let Some(Some((id, reply))) = world.step_until(wake)
            && let Some((at, client)) = sent.remove(&id)
        {
            assert!(matches!(reply, Reply::Done), "{reply:?}");
            latencies.push((world.now - at) / 1000);
            due.push((world.now + think_ns, client));
        }
    }
    latencies.sort_unstable();
    (
        latencies.len() as u64,
        latencies[latencies.len() * 99 / 100],
    )
}

/// Checkpoints flush too, and these tests are about commits.
const RARE: &str = "checkpoint_bytes=67108864";

const M4: Times = Times {
    read: 90_000,
    write: 60_000,
    flush: 3_800_000,
    spread: 0,
};

/// Goal: groups carry all clients, not half of them. Method: an M4's serial full flush of 3.8 ms, eight closed-loop clients.
#[test]
fn eight_clients_share_one_flush() {
    let (commits, p99_us) = closed_loop(8, 10_000, RARE, M4, false);
    assert!(commits >= 1950, "{commits} commits/s");
    assert!(p99_us < 8000, "p99 {p99_us} us");
}

/// Goal: a lone client is not made to wait for company. Method: the same with one client.
#[test]
fn one_client_gets_a_flush_at_once() {
    let (commits, p99_us) = closed_loop(1, 10_000, RARE, M4, false);
    assert!(commits >= 255, "{commits} commits/s");
    assert!(p99_us < 4200, "p99 {p99_us} us");
}

/// Goal: waiting switches itself off where clients think long. Method: eight clients that think for 20 ms; waiting for
/// ever and never waiting bound what is lost.
#[test]
fn thinking_clients_are_hardly_waited_for() {
    let (auto, _) = closed_loop(8, 20_000_000, "", M4, false);
    let (never, _) = closed_loop(8, 20_000_000, "group_wait=0", M4, false);
    assert!(auto * 100 >= never * 97, "{auto} against {never} commits/s");
}

/// Goal: where write-through is faster, commits use it. Method: a device with a slow flush and a fast write-through.
#[test]
fn write_through_is_used_where_it_is_faster() {
    let times = Times {
        read: 50_000,
        write: 50_000,
        flush: 2_000_000,
        spread: 0,
    };
    let (with, _) = closed_loop(8, 0, "", times, true);
    let (without, _) = closed_loop(8, 0, "commit=flush", times, true);
    assert!(with > 5 * without, "{with} against {without} commits/s");
}

/// Goal: an idle engine asks for nothing. Method: run until it is idle after work; then nothing may ever happen again.
#[test]
fn an_idle_engine_asks_for_nothing() {
    let mut world = world(4 << 20, "");
    world.open().expect("opens");
    world.put_relaxed(b"a", b"1");
    world.put(b"b", b"2");
    world.put_relaxed(b"c", b"3");
    world.run_until_idle();
    assert!(world.step().is_none());
    world.disk.power_cut();
    world.kill();
    world.open().expect("opens");
    assert_eq!(
        world.get(b"c").as_deref(),
        Some(&b"3"[..]),
        "a relaxed write is durable within its window"
    );
}

/// Goal: a workload that overwrites for ever never fills a small device. Method: write fifty times its size, at several value
/// sizes (inline, in the log, in extents), and reopen.
#[test]
fn overwriting_for_ever_never_fills_the_device() {
    for (value_bytes, keys) in [
        (100, 500),
        (1000, 400),
        (6000, 100),
        (40_000, 17),
        (150_000, 4),
    ] {
        let mut world = world(2 << 20, "");
        world.open().expect("opens");
        let mut rng = Rng(3);
        let mut written = 0;
        let mut n = 0;
        let mut last = BTreeMap::new();
        while written < 50 * (2 << 20) {
            let key = format!("{}", rng.below(keys)).into_bytes();
            n += 1;
            let value = bytes(n, value_bytes);
            // Relaxed, so that frames are full: the hardest for space.
            match world.put_relaxed(&key, &value) {
                Reply::Done => {}
                other => panic!(
                    "{value_bytes}: after {written} bytes: {other:?}: {:?}\n{:?}",
                    world.engine().stats(),
                    world.log()
                ),
            }
            written += value_bytes;
            last.insert(key, value);
        }
        assert!(matches!(world.call(Request::Sync), Reply::Done));
        world.kill();
        world.disk.power_cut();
        world.open().expect("opens");
        assert!(world.dump(Direction::Forward, 0) == last, "{value_bytes}");
    }
}

/// Goal: after a failed write or flush nothing more is written, the commit's outcome is unknown, reads go on, and
/// reopening heals. Method: fail each, look at every reply.
#[test]
fn an_error_makes_the_database_read_only() {
    for flush in [false, true] {
        let mut world = world(4 << 20, "");
        world.open().expect("opens");
        world.put(b"before", b"1");
        world.disk.fail_flushes = flush;
        world.disk.fail_writes = !flush;
        assert!(matches!(
            world.put(b"during", &bytes(1, 3000)),
            Reply::Failed(Status::IoError, _)
        ));
        world.disk.fail_flushes = false;
        world.disk.fail_writes = false;
        assert!(matches!(
            world.put(b"after", b"3"),
            Reply::Failed(Status::ReadOnly, _)
        ));
        assert!(matches!(
            world.put_relaxed(b"after", b"3"),
            Reply::Failed(Status::ReadOnly, _)
        ));
        assert!(matches!(
            world.call(Request::Sync),
            Reply::Failed(Status::IoError, _)
        ));
        assert_eq!(world.get(b"before").as_deref(), Some(&b"1"[..]));
        assert_eq!(world.get(b"after"), None);
        world.get(b"during");
        let (writes, flushes) = (world.disk.writes, world.disk.flushes);
        world.run_until_idle();
        assert_eq!(
            (writes, flushes),
            (world.disk.writes, world.disk.flushes),
            "a flush is never tried again"
        );
        assert!(matches!(
            world.call(Request::Close),
            Reply::Failed(Status::IoError, _)
        ));
        world.kill();
        world.disk.power_cut();
        world.open().expect("opens");
        assert_eq!(world.get(b"before").as_deref(), Some(&b"1"[..]));
        assert!(matches!(world.put(b"after", b"3"), Reply::Done));
    }
}

/// Goal: an error of one read is that read's. Method: fail reads for a while, with a cold cache.
#[test]
fn a_read_error_is_not_contagious() {
    let mut world = world(4 << 20, "cache_bytes=0");
    world.open().expect("opens");
    world.put(b"k", &bytes(1, 1000));
    world.disk.fail_reads = true;
    assert!(matches!(
        world.call(Request::Get {
            snapshot: 0,
            key: b"k"
        }),
        Reply::Failed(Status::IoError, _)
    ));
    world.disk.fail_reads = false;
    assert_eq!(world.get(b"k"), Some(bytes(1, 1000)));
    assert!(matches!(world.put(b"k", b"2"), Reply::Done));
}

/// Flips one bit at a time of the database that `model` should be found in, and looks at every opening and every get: they
/// give what was written or say `Corruption` with its place. Returns how often each happened: refused, reported, harmless.
fn flip_bits(
    world: &mut World,
    model: &BTreeMap<Vec<u8>, Vec<u8>>,
    flips: usize,
) -> (u32, u32, u32) {
    let image = world.disk.durable.clone();
    let mut rng = Rng(5);
    let used: Vec<usize> = (0..image.len()).filter(|at| image[*at] != 0).collect();
    let (mut refused, mut reported, mut harmless) = (0, 0, 0);
    for _ in 0..flips {
        world.kill();
        world.disk.process_crash();
        world.disk.keep_all();
        world.disk.damage(|bytes| bytes.copy_from_slice(&image));
        let at = used[rng.below(used.len() as u64) as usize];
        let bit = rng.below(8);
        world.disk.damage(|bytes| bytes[at] ^= 1 << bit);
        if let Err((status, message)) = world.open() {
            assert_eq!(status, Status::Corruption, "{message}");
            assert!(
                message.contains("expected") && message.contains("byte"),
                "{message}"
            );
            refused += 1;
            continue;
        }
        let mut fine = true;
        for (key, value) in model {
            match world.call(Request::Get { snapshot: 0, key }) {
                Reply::Value(found) => assert!(
                    found[..] == value[..],
                    "byte {at} bit {bit} of {}: {key:?}: a wrong value",
                    image.len()
                ),
                Reply::Failed(Status::Corruption, message) => {
                    assert!(message.contains("expected"), "{message}");
                    fine = false;
                }
                other => panic!("byte {at}: {key:?}: {other:?}"),
            }
        }
        if fine { harmless += 1 } else { reported += 1 }
    }
    (refused, reported, harmless)
}

/// Goal: damage is reported, with its place, never returned, and nothing acknowledged vanishes. Method: flip bits of a closed
/// database, and of one that was left idle.
#[test]
fn a_flipped_bit_is_reported_or_harmless() {
    for close in [true, false] {
        let mut world = world(1 << 20, "cache_bytes=0\nlarge_value_bytes=4096");
        world.open().expect("opens");
        let mut model = BTreeMap::new();
        for n in 0..60_u64 {
            let key = format!("key{}", n % 40).into_bytes();
            let value = bytes(n, [50, 900, 3000, 9000][n as usize % 4]);
            assert!(matches!(world.put(&key, &value), Reply::Done));
            model.insert(key, value);
        }
        if close {
            assert!(matches!(world.call(Request::Close), Reply::Done));
        }
        world.run_until_idle();
        world.disk.process_crash();
        world.disk.keep_all();
        let (refused, reported, harmless) = flip_bits(&mut world, &model, 1_600);
        assert!(
            refused > 0 && reported > 0,
            "{refused} {reported} {harmless}"
        );
    }
}

/// Goal: garbage collection neither loses nor launders damage. Method: damage a value in the middle of a log that is collected over and
/// over by overwriting; every later read of it says so, also after reopening, and everything else stays right.
#[test]
fn damage_met_by_gc_is_neither_lost_nor_laundered() {
    let mut world = world(2 << 20, "cache_bytes=0");
    world.open().expect("opens");
    let victim = bytes(777, 1000);
    for n in 0..20_u64 {
        assert!(matches!(
            world.put(format!("still{n}").as_bytes(), &bytes(n, 1000)),
            Reply::Done
        ));
    }
    assert!(matches!(world.put(b"victim", &victim), Reply::Done));
    let at = world
        .disk
        .durable
        .windows(64)
        .position(|window| *window == victim[..64])
        .expect("it is on the device");
    world.disk.damage(|bytes| bytes[at + 30] ^= 1);
    let mut rng = Rng(9);
    for n in 0..8000_u64 {
        let key = format!("busy{}", rng.below(600));
        assert!(matches!(
            world.put_relaxed(key.as_bytes(), &bytes(n, 1000)),
            Reply::Done
        ));
    }
    assert!(world.engine().stats().collected_segments > 0);
    for reopen in [false, true] {
        if reopen {
            assert!(matches!(world.call(Request::Close), Reply::Done));
            world.kill();
            world.disk.process_crash();
            world.open().expect("opens");
        }
        let reply = world.call(Request::Get {
            snapshot: 0,
            key: b"victim",
        });
        assert!(
            matches!(reply, Reply::Failed(Status::Corruption, _)),
            "{reply:?}"
        );
        for n in 0..20_u64 {
            assert_eq!(
                world.get(format!("still{n}").as_bytes()),
                Some(bytes(n, 1000)),
                "{n}"
            );
        }
    }
}

/// Goal: the last group before idling is protected like the others. Method: let the durable mark be written, then destroy
/// the last commit's frame.
#[test]
fn damage_of_the_last_commit_is_no_torn_tail() {
    let mut world = world(1 << 20, "");
    world.open().expect("opens");
    world.put(b"first", &bytes(1, 1000));
    let before = world.disk.durable.clone();
    world.put(b"last", &bytes(2, 1000));
    let after = world.disk.durable.clone();
    world.run_until_idle();
    world.kill();
    world.disk.process_crash();
    let at = (0..after.len())
        .find(|at| before[*at] != after[*at])
        .expect("it was written");
    world.disk.damage(|bytes| bytes[at] ^= 0xff);
    let (status, _) = world.open().expect_err("the commit was acknowledged");
    assert_eq!(status, Status::Corruption);
}

/// Goal: wrong requests are refused with nothing changed; after close everything is closed. Method: each kind.
#[test]
fn wrong_requests_are_refused() {
    let mut world = world(2 << 20, "max_value_bytes=100000");
    world.open().expect("opens");
    let invalid = |reply: Reply| {
        assert!(
            matches!(reply, Reply::Failed(Status::Invalid, _)),
            "{reply:?}"
        )
    };
    invalid(world.put(b"", b"v"));
    invalid(world.put(&[7; 1025], b"v"));
    invalid(world.put(b"k", &[0; 100_001]));
    invalid(world.call(Request::Get {
        snapshot: 9,
        key: b"k",
    }));
    invalid(world.call(Request::Release { snapshot: 9 }));
    let huge: Vec<Mutation<'_>> = (0..2000)
        .map(|_| Mutation::Put {
            key: &[1; 64],
            value: &[],
        })
        .collect();
    invalid(world.call(Request::Write {
        mutations: &huge,
        durability: Durability::Durable,
    }));
    assert!(world.dump(Direction::Forward, 0).is_empty());
    assert!(matches!(world.call(Request::Close), Reply::Done));
    assert!(matches!(
        world.put(b"k", b"v"),
        Reply::Failed(Status::Closed, _)
    ));
    assert!(matches!(
        world.call(Request::Get {
            snapshot: 0,
            key: b"k"
        }),
        Reply::Failed(Status::Closed, _)
    ));
}

/// Goal: a close is durable and an opening after it replays little. Method: relaxed writes, close, power cut, open.
#[test]
fn closing_makes_everything_durable() {
    let mut world = world(4 << 20, "");
    world.open().expect("opens");
    for n in 0..500_u64 {
        world.put_relaxed(&n.to_be_bytes(), &bytes(n, 700));
    }
    assert!(matches!(world.call(Request::Close), Reply::Done));
    world.disk.power_cut();
    world.kill();
    world.open().expect("opens");
    assert!(world.engine().stats().replayed_frames < 10);
    assert_eq!(world.dump(Direction::Forward, 0).len(), 500);
}
