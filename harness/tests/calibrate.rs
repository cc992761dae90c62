//! Calibration from end to end: a disk is measured, the profile is one that scenarios take, and a prediction rests on it.

use std::time::Duration;

use kvsim_harness::bench::calibrate::{Plan, calibrate, profile};
use kvsim_harness::bench::predict::predict;
use kvsim_harness::guest;
use kvsim_harness::scenario;

fn plan(path: &std::path::Path) -> Plan {
    Plan {
        path: path.to_owned(),
        overwrite: false,
        cell: Duration::from_millis(1),
        passes: 1,
        groups: 20,
        file_bytes: 64 << 20,
    }
}

/// Goal: what was measured can be simulated on, and is what is simulated on. Method: this machine's disk, briefly; the profile as a
/// scenario takes it, field by field where they must agree; a small workload predicted with it, twice the same; nothing left behind.
#[test]
fn a_measured_disk_is_one_to_simulate_on() {
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
    let program = guest::load(None).expect("the built-in guest");
    let measured = calibrate(&plan(directory.path()), &program, &|_, _, _| {}, &|| false)
        .expect("a disk can be measured");
    let left = std::fs::read_dir(directory.path()).expect("it is there");
    assert_eq!(left.count(), 0, "what was written for it is removed");
    let text = profile::toml(&measured);
    assert!(text.contains("# Source: "), "{text}");
    std::fs::write(directory.path().join("mine.toml"), &text).expect("it can be written");
    let scenario = scenario::parse(
        "a scenario",
        "s",
        "profile = \"./mine.toml\"\n[workload]\nclients = 3\nkeys = 100\n".to_owned(),
        Some(directory.path()),
        &[],
    )
    .unwrap_or_else(|error| panic!("{error}\n{text}"));
    let machine = measured.machine.expect("it could be written to");
    let through = measured.fit.write_through.expect("it could be written to");
    let timing = &scenario.device.timing;
    assert_eq!(scenario.guest.cpu_ps_per_fuel, machine.cpu.ps_per_fuel);
    assert_eq!(scenario.guest.client_turn, machine.turns.turn);
    assert_eq!(timing.write_through, through.latency);
    assert_eq!(timing.write_throughs_per_second, through.per_second);
    assert_eq!(Some(timing.flush), measured.fit.flush);
    assert!(machine.cpu.put_ns > 0 && machine.cpu.fuel_per_put > 1_000);
    let once = predict(&scenario, &program).expect("it runs");
    assert_eq!(Ok(&once), predict(&scenario, &program).as_ref());
    assert!(once.operations > 1_000 && once.operations_per_second > 0.0);
    assert!(once.p50_ns <= once.p99_ns && once.p99_ns <= once.p999_ns);
}

/// Goal: a wrong path is refused with a word before anything is measured. Method: a file, and nothing at all.
#[test]
fn what_is_neither_a_directory_nor_a_device_is_refused() {
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
    let program = guest::load(None).expect("the built-in guest");
    let file = directory.path().join("file");
    std::fs::write(&file, "x").expect("it can be written");
    for path in [file, directory.path().join("nothing")] {
        let refused = calibrate(&plan(&path), &program, &|_, _, _| {}, &|| false);
        let message = refused.expect_err("it is no disk");
        assert!(message.contains(&path.display().to_string()), "{message}");
    }
}
