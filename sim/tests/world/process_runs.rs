//! Crash and restart: what a process run leaves behind, and what a fork has of its own.

use kvsim_sim::{Step, TraceEvent, TraceMode, World};
use kvsim_simdisk::{CrashKind, CrashState, Persisted};

use crate::clerk::{ask, closed, counts, opened, put, reopen};

/// Goal: a restart is a fresh instance: what is on the device survives, nothing in the memory does. Method: count puts in both,
/// through crashes of both kinds.
#[test]
fn no_memory_survives_a_crash() {
    let mut world = opened(1, 1000, TraceMode::Full);
    let mut durable = 0;
    for kind in [CrashKind::Process, CrashKind::Power, CrashKind::Process] {
        for n in 1..4 {
            ask(&mut world, put());
            durable += 1;
            assert_eq!(counts(&mut world), (n, durable));
        }
        world.crash(kind);
        reopen(&mut world);
        assert_eq!(counts(&mut world), (0, durable), "after a {kind:?} crash");
    }
    assert_eq!(world.process_run(), 4);
}

/// Goal: what was under way ends with the process run. Method: crash with a request on its way, an operation in flight and a
/// wake-up due; nothing of it comes in the next one, and the numbers of requests go on.
#[test]
fn nothing_under_way_survives_a_crash() {
    let mut world = opened(1, 1000, TraceMode::Full);
    let lost = world.submit(world.now(), put());
    world.step().expect("it arrives");
    world.step().expect("its write reaches the device");
    world.submit(world.now() + 1_000_000_000, put());
    assert_eq!((world.device().in_flight(), world.outstanding()), (1, 2));
    world.crash(CrashKind::Power);
    assert_eq!((world.device().in_flight(), world.outstanding()), (0, 0));
    assert_eq!(world.step(), Ok(Step::Quiet), "nothing runs in between");
    reopen(&mut world);
    assert_eq!(world.step(), Ok(Step::Quiet), "and nothing is left");
    let id = world.submit(world.now(), put());
    assert!(id > lost + 1, "no number is used twice");
}

/// Goal: a cut leaves exactly what was said. Method: a write in the cache, once surviving and once lost.
#[test]
fn a_crash_can_be_told_what_survives() {
    for survives in [true, false] {
        let mut world = opened(1, 1000, TraceMode::Full);
        world.submit(world.now(), put());
        // It arrives, its write is submitted and ends; the flush is still to come.
        (0..3).for_each(|_| drop(world.step().expect("it behaves")));
        let pending = world.device().pending();
        assert_eq!(pending.len(), 1);
        let persisted = pending.iter().filter(|_| survives);
        let state = CrashState {
            persisted: persisted.map(|write| Persisted::whole(write.id)).collect(),
        };
        let report = world.crash_with(CrashKind::Power, &state).expect("it may");
        assert_eq!((report.pending, report.lost), (1, u64::from(!survives)));
        reopen(&mut world);
        assert_eq!(counts(&mut world), (0, u32::from(survives)));
    }
}

/// Goal: a state that the device could not have left is refused, and the process run goes on. Method: a persisted write that never was.
#[test]
fn an_impossible_crash_changes_nothing() {
    let mut world = opened(1, 1000, TraceMode::Full);
    ask(&mut world, put());
    let before = world.trace().hash();
    let state = CrashState {
        persisted: vec![Persisted::whole(999)],
    };
    world
        .crash_with(CrashKind::Power, &state)
        .expect_err("no such write");
    assert_eq!(world.trace().hash(), before);
    assert_eq!(counts(&mut world), (1, 1));
}

/// A crashed world whose next opening has something to find.
fn crashed(seed: u64) -> World {
    let mut world = opened(seed, 1000, TraceMode::Full);
    (0..3).for_each(|_| drop(ask(&mut world, put())));
    world.crash(CrashKind::Power);
    world
}

/// Goal: a crash may fall anywhere into an opening, also before its first event. Method: cut after each number of events, with both
/// kinds of crash, twice over, then open in peace.
#[test]
fn an_opening_can_be_cut_anywhere() {
    for kind in [CrashKind::Power, CrashKind::Process] {
        for events in 0..4 {
            let mut world = crashed(2);
            for _ in 0..2 {
                world.open().expect("it starts");
                (0..events).for_each(|_| drop(world.step().expect("it behaves")));
                world.crash(kind);
            }
            reopen(&mut world);
            assert_eq!(counts(&mut world), (0, 3), "{kind:?} after {events}");
            assert_eq!(world.process_run(), 4);
        }
    }
}

/// Goal: a crash is an event of the trace, with what it took. Method: find both, between the openings.
#[test]
fn a_crash_is_in_the_trace() {
    let mut world = crashed(3);
    reopen(&mut world);
    let process_runs = |event: &TraceEvent| match event {
        TraceEvent::Open { process_run } => Some(format!("open {process_run}")),
        TraceEvent::Crash(report) => Some(format!("{:?} {}", report.kind, report.pending)),
        _ => None,
    };
    let seen: Vec<String> = world
        .trace()
        .events()
        .filter_map(|r| process_runs(&r.event))
        .collect();
    assert_eq!(seen, ["open 1", "Power 0", "open 2"]);
}

/// Goal: two forks of one world are the same, and as the world itself would have been. Method: the same in all three.
#[test]
fn forks_are_equal() {
    let mut world = crashed(4);
    let (mut one, mut other) = (world.fork(), world.fork());
    assert!(one.trace().is_empty(), "a fork's trace is its own");
    assert_eq!((one.now(), one.events()), (world.now(), world.events()));
    for each in [&mut one, &mut other, &mut world] {
        reopen(each);
        assert_eq!(counts(each), (0, 3));
        ask(each, put());
        each.crash(CrashKind::Power);
    }
    assert_eq!(one.trace().hash(), other.trace().hash());
    for fork in [&one, &other] {
        assert_eq!(fork.now(), world.now());
        assert_eq!((fork.events(), fork.fuel()), (world.events(), world.fuel()));
        assert_eq!(fork.device().image().hash(), world.device().image().hash());
    }
}

/// Goal: a fork is independent. Method: go on in one of them, and look at the others.
#[test]
fn a_fork_leaves_its_origin_alone() {
    let mut world = crashed(5);
    let (hash, image) = (world.trace().hash(), world.device().image().hash());
    let (mut one, mut other) = (world.fork(), world.fork());
    reopen(&mut one);
    (0..4).for_each(|_| drop(ask(&mut one, put())));
    assert_eq!(counts(&mut one), (4, 7));
    assert_eq!(world.trace().hash(), hash);
    assert_eq!(world.device().image().hash(), image);
    for each in [&mut other, &mut world] {
        reopen(each);
        assert_eq!(counts(each), (0, 3));
    }
}

/// Goal: what a running guest holds cannot be copied, and nothing pretends that it could. Method: fork in the middle of a process run.
#[test]
#[should_panic(expected = "a running guest cannot be copied")]
fn a_running_world_cannot_be_forked() {
    drop(opened(6, 1000, TraceMode::Hash).fork());
}

/// Goal: there is one process run at a time. Method: open twice.
#[test]
#[should_panic(expected = "a process run is under way")]
fn an_open_world_cannot_be_opened() {
    let mut world = closed(7, 1000, TraceMode::Hash);
    world.open().expect("it starts");
    drop(world.open());
}
