//! Calibration from end to end: a disk is measured, the profile is one that scenarios take, and a prediction is based on it.

use std::time::Duration;

use kvsim_bench::calibrate::{Plan, calibrate, profile};
use kvsim_bench::predict::{Course, Prediction, predict};
use kvsim_bench::store::Durability;
use kvsim_scenario::Scenario;
use kvsim_scenario::guest;

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

fn course() -> Course {
    Course {
        durability: Durability::Full,
        tasks: false,
        space_percent: kvsim_bench::native::SPACE_PERCENT,
        cache_bytes: 64 << 20,
        index_bytes: 0,
        rounds: 2,
        warm_up: Duration::from_millis(20),
        measured: Duration::from_millis(100),
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
    let scenario = kvsim_scenario::parse(
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
    assert_eq!(scenario.host.client, machine.turns.client);
    assert_eq!(scenario.host.processors, machine.turns.processors);
    assert_eq!(scenario.host.commit_ns, machine.cpu.commit_beyond_fuel_ns());
    assert!(scenario.host.processors > 0 && machine.cpu.commit_ns > 0);
    assert!(machine.cpu.fuel_per_commit > machine.cpu.fuel_per_put);
    for (name, value) in &machine.cpu.options {
        assert_eq!(&scenario.host.options[name].0, value);
    }
    assert!(machine.cpu.options.contains_key("checkpoint_bytes"));
    assert_eq!(timing.write_through, through.latency);
    assert_eq!(timing.write_throughs_per_second, through.per_second);
    assert_eq!(Some(timing.flush), measured.fit.flush);
    assert!(machine.cpu.put_ns > 0 && machine.cpu.fuel_per_put > 1_000);
    let once = predict(&scenario, &program, &course()).expect("it runs");
    assert_eq!(Ok(&once), predict(&scenario, &program, &course()).as_ref());
    assert!(once.operations > 0 && once.operations_per_second > 0.0 && once.note.is_none());
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

/// A machine of which everything is fixed: a write-through takes 100 µs, the engine's work nothing, a client that slept 5 µs.
fn fixed(clients: u32, host: &str) -> Scenario {
    let latency = |ns: u64| {
        format!(
            "{{ min_ns = {ns}, p50_ns = {ns}, p90_ns = {ns}, p99_ns = {ns}, p999_ns = {ns}, max_ns = {ns} }}"
        )
    };
    let text = format!(
        "[workload]\nkind = \"durable\"\nclients = {clients}\nkeys = 1_000\npreload = 1_000\nvalue_bytes = 1_024\n\
         [guest]\ncpu_ps_per_fuel = 0\nclient_turn = {}\n\
         [device]\nfua = true\n[device.timing]\nwrite_through = {}\nwrite_bytes_per_second = 0\n{}",
        latency(8_000),
        latency(100_000),
        host.replace("CLIENT", &latency(5_000)),
    );
    kvsim_scenario::parse("a scenario", "s", text.clone(), None, &[])
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

const OPTIONS: &str = "[host.options]\ncommit = \"write_through\"\ncommit_depth = 1\n";

fn predicted(clients: u32, processors: u32) -> Prediction {
    let program = guest::load(None).expect("the built-in guest");
    let host = format!("[host]\nprocessors = {processors}\nclient = CLIENT\n{OPTIONS}");
    predict(&fixed(clients, &host), &program, &course()).expect("it runs")
}

fn near(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() <= wanted * 0.03
}

/// Goal: a client alone commits once in the time that its write takes, however many processors there are. Method: a device that always
/// takes 100 µs, an engine that takes nothing.
#[test]
fn a_client_alone_takes_the_sum_of_the_times() {
    for processors in [1, 2] {
        let alone = predicted(1, processors);
        assert!(near(alone.operations_per_second, 10_000.0), "{alone:?}");
        assert!(alone.p50_ns.abs_diff(100_000) < 200, "{alone:?}");
        assert!(near(alone.flushes_per_commit, 1.0), "{alone:?}");
    }
}

/// Goal: clients of a group come back by so many at once as there are processors, and more of these are never slower. Method: eight
/// clients of which seven have slept, 5 µs each: on one processor a group takes 135 µs, on two 120, on seven or more 105.
#[test]
fn a_group_takes_its_write_and_the_return_of_its_clients() {
    for (processors, group_ns) in [(1, 135_000.0), (2, 120_000.0), (16, 105_000.0)] {
        let eight = predicted(8, processors);
        assert!(
            near(eight.operations_per_second, 8e9 / group_ns),
            "{processors}: {eight:?}"
        );
        // The first groups are smaller: nobody knows yet how many clients there are.
        let shared = 0.12..0.14;
        assert!(shared.contains(&eight.flushes_per_commit), "{eight:?}");
    }
}

/// Goal: a profile that says nothing of the machine is taken for what it is, and the prediction says so. Method: no `[host]`: one
/// processor, on which clients cost their turn.
#[test]
fn a_profile_without_a_machine_is_said_to_have_none() {
    let program = guest::load(None).expect("the built-in guest");
    let options = OPTIONS.replace("[host.", "[guest.");
    let eight = predict(&fixed(8, &options), &program, &course()).expect("it runs");
    assert!(
        eight
            .note
            .is_some_and(|note| note.contains("kvsim calibrate"))
    );
    assert!(
        near(eight.operations_per_second, 8e9 / 156_000.0),
        "{eight:?}"
    );
}
