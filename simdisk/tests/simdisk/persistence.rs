//! What is pending, complete and durable, and what each kind of cut keeps.

use crate::common::{Rig, SECTOR, SECTORS, config, discard, fills, honest, write};
use kvsim_simdisk::{
    Cache, CrashKind, CrashState, DeviceConfig, DiskError, Op, Persisted, SubmitError,
};

/// Goal: complete is not durable. Method: cut after the completion of a write, without a flush.
#[test]
fn a_completed_write_without_a_flush_can_be_lost_or_kept() {
    let mut rig = Rig::with_faults(&honest());
    rig.write(0, 1, 7);
    let mut fork = Rig {
        device: rig.device.clone(),
        now: rig.now,
    };
    rig.cut_all();
    assert_eq!(rig.read(0), Ok(0));
    let id = fork.device.pending()[0].id;
    fork.cut(&CrashState {
        persisted: vec![Persisted::whole(id)],
    });
    assert_eq!(fork.read(0), Ok(7));
}

/// Goal: a flush covers what had completed before its submission, and only that. Method: three writes around one flush.
#[test]
fn a_flush_covers_what_completed_before_it_was_submitted() {
    let mut rig = Rig::with_faults(&honest());
    rig.write(0, 1, 1);
    rig.submit_write(1, 1, 2);
    rig.submit(Op::Flush);
    rig.submit_write(2, 1, 3);
    rig.drain();
    rig.cut_all();
    assert_eq!(rig.reads(), [1, 0, 0]);
}

/// Goal: a flush has no effect before it has completed. Method: cut while it is in flight, with all kept and with nothing.
#[test]
fn a_cut_in_a_flush_may_keep_any_of_what_it_covers() {
    let mut rig = Rig::with_faults(&honest());
    rig.write(0, 1, 1);
    rig.write(1, 1, 2);
    rig.submit(Op::Flush);
    assert_eq!(rig.device.pending().len(), 2);
    for kept in [vec![], vec![0], vec![1], vec![0, 1]] {
        let mut fork = Rig {
            device: rig.device.clone(),
            now: rig.now,
        };
        let persisted = kept.iter().map(|&id| Persisted::whole(id)).collect();
        assert!(fork.cut(&CrashState { persisted }).in_flush);
        let expected = [u8::from(kept.contains(&0)), 2 * u8::from(kept.contains(&1))];
        assert_eq!(fork.reads(), expected);
    }
}

/// Goal: an operation that nobody was told of took until the process run ended. Method: a write that should have ended long before, and one that was completed; each
/// kind of end.
#[test]
fn an_operation_takes_until_its_process_run_ends() {
    for kind in [CrashKind::Power, CrashKind::Process] {
        let mut rig = Rig::with_faults(&honest());
        rig.write(0, 1, 1);
        let submitted = rig.now;
        rig.submit_write(1, 1, 2);
        rig.now += 1_000_000_000;
        let end = rig.now;
        assert!(rig.device.slowest().since(submitted) < 1_000_000_000);
        let nothing = CrashState::default();
        rig.device
            .crash(end, kind, &nothing)
            .expect("a legal state");
        assert_eq!(rig.device.slowest().since(end), 1_000_000_000);
        assert_eq!(rig.device.slowest().since(end + 1), 0);
    }
}

/// Goal: write-through makes durable what it wrote and nothing else. Method: a cached write before it.
#[test]
fn a_write_through_write_is_durable_once_complete() {
    let mut rig = Rig::with_faults(&honest());
    rig.write(0, 1, 1);
    rig.submit(write(1, 1, 2, true));
    assert_eq!(rig.device.pending().len(), 2);
    rig.drain();
    rig.cut_all();
    assert_eq!(rig.reads(), [0, 2]);
}

/// Goal: without a volatile cache, complete is durable and in flight is not. Method: cut with one of each.
#[test]
fn without_a_volatile_cache_a_completed_write_is_durable() {
    for cache in [Cache::WriteThrough, Cache::PowerLossProtected] {
        let mut rig = Rig::with_cache(cache);
        assert!(!rig.device.capabilities().volatile_cache);
        rig.write(0, 1, 1);
        rig.run(discard(5, 1)).unwrap();
        rig.submit_write(1, 1, 2);
        assert_eq!(rig.device.pending().len(), 1);
        rig.cut_all();
        assert_eq!(rig.reads(), [1, 0]);
    }
}

/// Goal: what reads see and what becomes durable never part ways. Method: an older write of the same sectors completes after
/// a newer write-through one, and is then flushed.
#[test]
fn an_older_write_never_comes_back_over_a_durable_newer_one() {
    let mut rig = Rig::with_faults(&honest());
    rig.submit_write(0, 3, 1);
    rig.now += 1;
    rig.submit(write(1, 1, 2, true));
    let first = rig.complete();
    assert_eq!(first.id, 0);
    rig.drain();
    assert_eq!(fills(rig.device.durable()), [0, 2, 0]);
    let state = CrashState {
        persisted: vec![Persisted::whole(0)],
    };
    assert_eq!(fills(&rig.device.image_after(&state).unwrap()), [1, 2, 1]);
    rig.flush();
    assert_eq!(fills(rig.device.durable()), fills::<3>(rig.device.image()));
    rig.cut_all();
    assert_eq!(rig.reads(), [1, 2, 1]);
}

/// Goal: the same where the older one completes last, and where a flush covers only the newer.
#[test]
fn a_flush_that_covers_the_newer_of_two_takes_the_older_one_out() {
    let slow = DeviceConfig {
        queue_depth: 8,
        timing: kvsim_simdisk::TimingConfig {
            write_through: kvsim_simdisk::LatencyConfig::fixed(10_000),
            ..config().timing
        },
        ..config()
    };
    let mut rig = Rig::new(&slow, &honest(), 1);
    rig.submit(write(0, 2, 1, true));
    rig.submit_write(0, 2, 2);
    assert_eq!(rig.complete().id, 1);
    rig.submit(Op::Flush);
    assert_eq!(rig.complete().id, 2);
    assert!(
        rig.device.pending().is_empty(),
        "nothing is left for the older write to do"
    );
    rig.drain();
    assert_eq!(fills(rig.device.durable()), [2, 2]);
    assert_eq!(rig.reads(), [2, 2]);
}

/// Goal: a discard reads as zeros at once and is durable no sooner than a write. Method: cut before and after a flush.
#[test]
fn a_discard_is_as_pending_as_a_write() {
    let mut rig = Rig::with_faults(&honest());
    rig.write(0, 2, 9);
    rig.flush();
    rig.run(discard(0, 2)).unwrap();
    assert_eq!(rig.reads(), [0, 0]);
    let mut fork = Rig {
        device: rig.device.clone(),
        now: rig.now,
    };
    fork.cut(&CrashState {
        persisted: vec![Persisted::torn(2, vec![1])],
    });
    assert_eq!(fork.reads(), [9, 0]);
    rig.cut_all();
    assert_eq!(rig.reads(), [9, 9]);
    rig.run(discard(0, 2)).unwrap();
    rig.flush();
    rig.cut_all();
    assert_eq!(rig.reads::<2>(), [0, 0]);
}

/// Goal: a growth can be lost, with all that needed it, and a flush keeps it. Method: write into the grown part and cut.
#[test]
fn a_growth_is_as_pending_as_a_write() {
    let mut rig = Rig::with_faults(&honest());
    let (old, new) = (SECTORS * SECTOR, 2 * SECTORS * SECTOR);
    let id = rig.submit(Op::Grow { new_bytes: new });
    assert_eq!(
        rig.device.capabilities().capacity_bytes,
        old,
        "not before it is complete"
    );
    assert!(matches!(
        rig.device.submit(rig.now, 0, write(SECTORS, 1, 1, false)),
        Err(SubmitError::OutOfRange { .. })
    ));
    rig.drain();
    rig.write(SECTORS, 1, 5);
    let written = rig.device.pending()[1].id;
    let after = |kept: &[u64]| {
        let persisted = kept.iter().map(|&id| Persisted::whole(id)).collect();
        rig.device.image_after(&CrashState { persisted }).unwrap()
    };
    assert_eq!(after(&[]).len_bytes(), old);
    assert_eq!(
        after(&[written]).len_bytes(),
        old,
        "the write needs the growth"
    );
    assert_eq!(after(&[written, id]).hash(), after(&[id, written]).hash());
    assert_eq!(after(&[id]).len_bytes(), new);
    rig.flush();
    rig.cut_all();
    assert_eq!(rig.device.capabilities().capacity_bytes, new);
    assert_eq!(rig.read(SECTORS), Ok(5));
    assert_eq!(
        rig.run(Op::Grow {
            new_bytes: new + 4096
        }),
        Err(DiskError::NoSpace)
    );
    assert_eq!(rig.run(Op::Grow { new_bytes: old }), Ok(None));
    assert_eq!(
        rig.device.capabilities().capacity_bytes,
        new,
        "it never shrinks"
    );
}

/// Goal: a write-through write into a grown part does not make the growth durable, and is durable itself as soon as that is. Method: a cut that
/// loses the growth, one that keeps it, and a flush before the cut.
#[test]
fn a_write_through_write_is_durable_together_with_its_growth() {
    let mut rig = Rig::with_faults(&honest());
    let growth = rig.submit(Op::Grow {
        new_bytes: 2 * SECTORS * SECTOR,
    });
    rig.drain();
    rig.run(write(SECTORS, 1, 5, true)).unwrap();
    assert_eq!(rig.device.pending().len(), 1, "the growth alone is pending");
    let mut lost = Rig {
        device: rig.device.clone(),
        now: rig.now,
    };
    lost.cut_all();
    assert_eq!(lost.device.capabilities().capacity_bytes, SECTORS * SECTOR);
    let mut kept = Rig {
        device: rig.device.clone(),
        now: rig.now,
    };
    kept.cut(&CrashState {
        persisted: vec![Persisted::whole(growth)],
    });
    assert_eq!(kept.read(SECTORS), Ok(5));
    rig.flush();
    rig.cut_all();
    assert_eq!(rig.read(SECTORS), Ok(5));
}

/// Goal: a process crash keeps all that was submitted, but makes nothing durable. Method: a power cut after it.
#[test]
fn a_process_crash_keeps_what_was_submitted_in_the_cache() {
    let mut rig = Rig::with_faults(&honest());
    rig.write(0, 1, 1);
    rig.submit_write(1, 1, 2);
    let report = rig.kill();
    assert_eq!((report.pending, report.lost), (2, 0));
    assert_eq!(rig.device.in_flight(), 0);
    assert_eq!(rig.reads(), [1, 2]);
    rig.cut_all();
    assert_eq!(rig.reads(), [0, 0]);
}

/// Goal: bookkeeping does not grow with the length of a run. Method: write and flush for a while.
#[test]
fn nothing_stays_behind_of_what_became_durable() {
    let mut rig = Rig::with_faults(&honest());
    for round in 0..500_u64 {
        rig.write(round % SECTORS, 1, 1);
        rig.flush();
        assert!(rig.device.pending().is_empty());
    }
}

/// Goal: what no correct host submits is refused and changes nothing. Method: one of each.
#[test]
fn improper_operations_are_refused() {
    let faults = honest();
    let plain = DeviceConfig {
        fua: false,
        discard: false,
        ..config()
    };
    let mut rig = Rig::new(&plain, &faults, 1);
    let mut refused = |op| rig.device.submit(0, 0, op).unwrap_err();
    let odd = Op::Read {
        offset: 1,
        len_bytes: 512,
    };
    assert!(matches!(refused(odd), SubmitError::Misaligned { .. }));
    let short = Op::Write {
        offset: 0,
        data: vec![0; 100].into(),
        through: false,
    };
    assert!(matches!(refused(short), SubmitError::Misaligned { .. }));
    let far = Op::Read {
        offset: u64::MAX - 511,
        len_bytes: 512,
    };
    assert!(matches!(refused(far), SubmitError::OutOfRange { .. }));
    let empty = Op::Read {
        offset: 0,
        len_bytes: 0,
    };
    assert!(matches!(refused(empty), SubmitError::OutOfRange { .. }));
    assert!(matches!(
        refused(write(0, 1, 1, true)),
        SubmitError::Unsupported(_)
    ));
    assert!(matches!(
        refused(discard(0, 1)),
        SubmitError::Unsupported(_)
    ));
    assert_eq!(rig.submit_write(0, 1, 1), 0, "no number was used up");
}

/// Goal: what was set aside is there again after one cut, whatever became of the write over it, and not after the next. Method: a durable sector overwritten
/// and flushed, with the write beside it that has nothing to set aside.
#[test]
fn what_was_set_aside_is_back_after_one_cut() {
    let mut rig = Rig::with_faults(&honest());
    rig.write(0, 1, 1);
    rig.submit(Op::Flush);
    rig.drain();
    for place in [0, 1] {
        rig.submit_write(place, 1, 5);
        let id = rig.device.pending().last().expect("it is pending").id;
        rig.device.set_aside(id, false);
    }
    rig.submit(Op::Flush);
    rig.drain();
    assert_eq!(rig.reads(), [5, 5]);
    rig.submit(Op::Flush);
    rig.drain();
    let left = rig.device.image_hash_after(&CrashState::default());
    rig.cut_all();
    assert_eq!(rig.reads(), [1, 5]);
    assert_eq!(left, Ok(rig.device.image_hash()));
    rig.write(0, 1, 6);
    rig.submit(Op::Flush);
    rig.drain();
    rig.cut_all();
    assert_eq!(rig.reads(), [6, 5]);
}

/// Goal: what was set aside is what reads see after a kill of the process, too, and a later power cut does not bring back the write over it. Method: a durable sector overwritten in the
/// cache, and once more with what was there set aside or erased, flushed or not.
#[test]
fn what_was_set_aside_is_back_after_a_kill() {
    for (erased, flushed, seen) in [
        (false, false, 3),
        (false, true, 3),
        (true, false, 0),
        (true, true, 0),
    ] {
        let mut rig = Rig::with_faults(&honest());
        rig.write(0, 1, 1);
        rig.submit(Op::Flush);
        rig.drain();
        rig.write(0, 1, 3);
        rig.submit_write(0, 1, 5);
        let id = rig.device.pending().last().expect("it is pending").id;
        rig.device.set_aside(id, erased);
        if flushed {
            rig.drain();
            rig.submit(Op::Flush);
        }
        rig.drain();
        assert_eq!(rig.reads::<1>()[0], 5);
        let hash = rig.device.image_hash();
        for _ in 0..2 {
            rig.kill();
            assert_eq!(rig.reads::<1>()[0], seen, "{erased} {flushed}");
        }
        assert_ne!(rig.device.image_hash(), hash);
        rig.cut_all();
        let left = if flushed { seen } else { 1 };
        assert_eq!(rig.reads::<1>()[0], left, "{erased} {flushed}");
    }
}
