//! The trace: everything in order, the same for the same seed, and no different for being looked at.

use kvsim_sim::api::Request;
use kvsim_sim::{TraceEvent, TraceMode, World, first_difference};
use kvsim_simdisk::CrashKind;

use crate::clerk::{ask, opened, put, reopen};

/// A process run with all kinds of events in it.
fn process_run(seed: u64, trace: TraceMode) -> World {
    let mut world = opened(seed, 1000, trace);
    (0..5).for_each(|_| drop(ask(&mut world, put())));
    ask(&mut world, Request::Sync);
    world.submit(world.now(), put());
    (0..2).for_each(|_| drop(world.step().expect("it behaves")));
    world.crash(CrashKind::Power);
    reopen(&mut world);
    ask(&mut world, put());
    world
}

fn kind(event: &TraceEvent) -> &'static str {
    match event {
        TraceEvent::Open { .. } => "open",
        TraceEvent::Request { op, .. } => op,
        TraceEvent::Returned { .. } => "return",
        TraceEvent::Submit { kind, .. } => kind,
        TraceEvent::Complete { .. } => "complete",
        TraceEvent::Step { kind, .. } => kind,
        TraceEvent::Tick => "tick",
        TraceEvent::Reply { .. } => "reply",
        TraceEvent::CoveragePoint { .. } => "coverage point",
        TraceEvent::Log { .. } => "log",
        TraceEvent::Fault { .. } => "fault",
        TraceEvent::Crash(_) => "crash",
    }
}

/// Goal: the trace has each event, in the order in which they happened. Method: an opening, a put, a sync and a crash of the clerk,
/// word for word.
#[test]
fn the_trace_has_each_event_in_order() {
    let mut world = opened(1, 0, TraceMode::Full);
    ask(&mut world, put());
    ask(&mut world, Request::Sync);
    world.crash(CrashKind::Process);
    let kinds: Vec<&str> = world.trace().events().map(|r| kind(&r.event)).collect();
    let expected = "open return read complete return log reply \
                    put return write complete return flush complete return reply \
                    sync return tick return reply crash";
    assert_eq!(kinds.join(" "), expected);
    assert_eq!(world.trace().len(), kinds.len() as u64);
}

/// Goal: records are numbered from 0 without gaps, in order of time, and each is one line. Method: all of a process run.
#[test]
fn records_are_numbered_lines() {
    let world = process_run(1, TraceMode::Full);
    let mut last_ns = 0;
    for (number, record) in (0..).zip(world.trace().events()) {
        assert_eq!(record.number, number);
        assert!(record.at_ns >= last_ns);
        last_ns = record.at_ns;
        let line = record.to_string();
        assert!(!line.contains('\n') && line.contains("µs"), "{line}");
    }
}

/// Goal: a seed is a history: the same twice, another for another seed or another rate of work. Method: compare hashes, and name the
/// first event that differs.
#[test]
fn the_same_seed_has_the_same_history() {
    let (one, again, other) = (
        process_run(1, TraceMode::Full),
        process_run(1, TraceMode::Full),
        process_run(2, TraceMode::Full),
    );
    assert_eq!(one.trace().hash(), again.trace().hash());
    assert_eq!(first_difference(one.trace(), again.trace()), None);
    assert_ne!(one.trace().hash(), other.trace().hash());
    let (left, right) = first_difference(one.trace(), other.trace()).expect("a difference");
    let (left, right) = (left.expect("an event"), right.expect("an event"));
    assert_eq!(left.number, right.number);
    assert_ne!((left.at_ns, &left.event), (right.at_ns, &right.event));
    let before = usize::try_from(left.number).expect("few");
    let heads = one.trace().events().zip(other.trace().events());
    assert!(heads.take(before).all(|(a, b)| a == b), "the first one");
}

/// Goal: a trace that ends early differs where it ends. Method: the same process run with one request more.
#[test]
fn a_longer_trace_differs_at_its_end() {
    let one = process_run(1, TraceMode::Full);
    let mut longer = process_run(1, TraceMode::Full);
    ask(&mut longer, put());
    let (left, right) = first_difference(one.trace(), longer.trace()).expect("a difference");
    assert_eq!(left, None);
    assert_eq!(right.expect("an event").number, one.trace().len());
}

/// Goal: what is kept of a trace changes nothing. Method: the same process run with nothing, little and all of it kept.
#[test]
fn keeping_events_does_not_change_the_history() {
    let all = process_run(3, TraceMode::Full);
    for (mode, kept) in [
        (TraceMode::Hash, 0),
        (TraceMode::Last(0), 0),
        (TraceMode::Last(7), 7),
    ] {
        let world = process_run(3, mode);
        assert_eq!(world.trace().hash(), all.trace().hash(), "{mode:?}");
        assert_eq!(world.trace().len(), all.trace().len());
        assert_eq!((world.now(), world.fuel()), (all.now(), all.fuel()));
        assert_eq!(world.trace().events().len(), kept);
        let first = all.trace().events().len() - kept;
        let ends = all.trace().events().skip(first);
        assert!(world.trace().events().eq(ends), "the last {kept}, in order");
    }
}

/// Goal: the hash has all of the trace in it, step by step. Method: no two steps of a process run leave the same hash.
#[test]
fn every_event_changes_the_hash() {
    let mut world = opened(1, 0, TraceMode::Hash);
    let mut seen = std::collections::BTreeSet::from([world.trace().hash()]);
    world.submit(world.now(), put());
    world.submit(world.now(), Request::Sync);
    for _ in 0..6 {
        world.step().expect("it behaves");
        assert!(seen.insert(world.trace().hash()), "{world:?}");
    }
}
