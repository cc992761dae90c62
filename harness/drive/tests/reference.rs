//! The reference recovery: what another recovery of the same device has to show again.
#![allow(missing_docs, reason = "a test")]

use std::path::Path;
use std::sync::Arc;

use kvsim_drive::case::{ProcessRun, Source};
use kvsim_oracle::{Ending, Oracle};
use kvsim_scenario::{guest, load, setup};
use kvsim_sim::{TraceMode, World};
use kvsim_simdisk::{CrashKind, FaultKind};

/// Goal: a recovery to which the device has lied is no reference, for it may show less than others. Method: a copy of one device, whose first read of anything that was
/// written comes from elsewhere, or does not.
#[test]
fn a_recovery_that_was_lied_to_is_no_reference() {
    let program = guest::load(None).expect("the built-in guest");
    let powercut = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/powercut.toml");
    for misread in [false, true] {
        let probability = format!("faults.misdirected_read={}", u8::from(misread));
        let sets = [probability, "faults.max_fired=1".to_owned()];
        let scenario = load(&powercut, &sets).expect("it ships");
        let config = setup::world_config(&scenario, &*program, 1, TraceMode::Off);
        let world = World::new(Arc::clone(&program), config).expect("a device");
        let oracle = setup::oracle_config(&scenario, &*program, misread);
        let run = |world, oracle, crashes| {
            ProcessRun::new(world, oracle, Source::listed(&[]), &scenario, crashes, ())
        };
        let mut creation = run(world, Arc::new(Oracle::new(oracle)), 0);
        let created = creation.recover().expect("it is created");
        creation.adopt(&created, None).expect("it is empty");
        let (mut world, mut oracle, ()) = creation.end();
        assert_eq!(world.storage().fired(FaultKind::MisdirectedRead), 0);
        world.crash(CrashKind::Process);
        Arc::make_mut(&mut oracle).stopped(world.now(), Ending::Kill);
        let mut copy = run(world, oracle, 1);
        let reference = copy.recover_reference().expect("it opens");
        let fired = copy.world().storage().fired(FaultKind::MisdirectedRead);
        assert_eq!((fired, reference.is_none()), (u64::from(misread), misread));
    }
}
