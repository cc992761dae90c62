//! The oracle must see what is wrong. For each property there is a guest that breaks it. The guest is caught within a
//! thousand crashes, by that property, and the printed line shows the same failure again.
#![allow(missing_docs, reason = "a test")]

use std::path::Path;
use std::process::Command;

use kvsim_tests::{Ended, execute, naive_guest, root};

const PROGRAM: &str = env!("CARGO_BIN_EXE_kvsim");
const CRASHES_MAX: u64 = 1000;

fn run(scenario: &str, flaw: Option<&str>, guest: &Path, failures: &Path) -> Ended {
    let scenario = format!("tests/broken/{scenario}.toml");
    let set = format!("guest.options.break={}", flaw.unwrap_or_default());
    let (guest, failures) = (guest.to_string_lossy(), failures.to_string_lossy());
    let mut arguments = vec!["run", &scenario, "--guest", &guest, "--failures", &failures];
    if flaw.is_some() {
        arguments.extend(["--set", &set]);
    }
    execute(Path::new(PROGRAM), &arguments)
}

/// Runs the line that was printed, as it was printed, in a shell that finds the program.
fn paste(line: &str) -> Ended {
    let path = Path::new(PROGRAM).parent().expect("it lies in a folder");
    let paths = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("sh")
        .args(["-c", line])
        .current_dir(root())
        .env("PATH", format!("{}:{paths}", path.display()))
        .output();
    Ended::new(&output.expect("there is a shell"))
}

/// How many crashes it took, if the property is named.
fn crashes(ended: &Ended, property: &str) -> Option<u64> {
    ended.line(&format!("{property}  seed"))?;
    let count = ended.line("crashes")?.split_whitespace().next()?;
    count.replace(',', "").parse().ok()
}

fn sentence(ended: &Ended, property: &str) -> String {
    let mut lines = ended.stdout.lines();
    lines.find(|line| line.trim_start().starts_with(&format!("{property}  seed")));
    lines.next().unwrap_or_default().trim().to_owned()
}

/// The guest with this flaw violates this property, soon; the printed line shows it again, by the same trace.
fn is_caught(property: &str, flaw: &str, scenario: &str) {
    // A path that a shell would take apart, were it not quoted.
    let directory = tempfile::Builder::new()
        .prefix("it's a case ")
        .tempdir()
        .expect("a directory");
    let failed = run(scenario, Some(flaw), naive_guest(), directory.path());
    assert_eq!(failed.code, Some(1), "{failed:#?}");
    let crashes = crashes(&failed, property)
        .unwrap_or_else(|| panic!("{property} is not named: {failed:#?}"));
    assert!(crashes <= CRASHES_MAX, "{crashes} crashes");
    let line = failed
        .line("replay:")
        .unwrap_or_else(|| panic!("no line to paste: {failed:#?}"));
    let again = paste(line);
    assert_eq!(again.code, Some(1), "{line}: {again:#?}");
    assert!(
        again.stdout.contains("Reproduced exactly"),
        "{line}: {again:#?}"
    );
    assert_eq!(sentence(&again, property), sentence(&failed, property));
    assert!(!sentence(&failed, property).is_empty(), "{failed:#?}");
}

macro_rules! broken {
    ($($flaw:ident violates $property:ident in $scenario:ident;)*) => {
        $(
            #[test]
            fn $flaw() {
                is_caught(stringify!($property), stringify!($flaw), stringify!($scenario));
            }
        )*

        const BROKEN: &[&str] = &[$(stringify!($property)),*];
    };
}

broken! {
    acknowledged_durable violates acknowledged_durable in acknowledged_durable;
    atomic_writes violates atomic_writes in atomic_writes;
    prefix violates prefix in prefix;
    no_resurrection violates no_resurrection in no_resurrection;
    reads_agree violates reads_agree in reads_agree;
    recovery_idempotent violates recovery_idempotent in recovery_idempotent;
    work_after_recovery violates work_after_recovery in work_after_recovery;
    damage_reported violates damage_reported in damage_reported;
    guest_panics violates guest_behaves in guest_behaves;
    guest_hangs violates guest_behaves in guest_behaves;
    guest_outgrows_memory violates guest_behaves in guest_behaves;
    refuses_invalid violates no_false_refusal in no_false_refusal;
    refuses_no_space violates no_false_refusal in no_false_refusal;
    refuses_read_only violates no_false_refusal in no_false_refusal;
    refuses_io_error violates no_false_refusal in no_false_refusal;
    refuses_closed violates no_false_refusal in no_false_refusal;
    refuses_reads violates no_false_refusal in no_false_refusal;
    refuses_reopening violates no_false_refusal in no_false_refusal;
    io_error_after_recovery violates no_false_refusal in no_false_refusal;
    takes_ill_formed violates no_false_refusal in no_false_refusal;
    half_a_bad_batch violates reads_agree in no_false_refusal;
    space_returns violates space_returns in space_returns;
}

/// Goal: no property goes without a guest that breaks it. Method: the harness's list against the one above.
#[test]
fn every_property_has_a_broken_guest() {
    for property in kvsim_tests::properties() {
        assert!(BROKEN.contains(&property), "nothing breaks {property}");
    }
}

/// Goal: it is the flaw that is caught, and not the guest. Method: the same scenarios without it.
#[test]
fn without_its_flaw_the_guest_passes() {
    for property in kvsim_tests::properties() {
        let directory = tempfile::tempdir().expect("a directory");
        let passed = run(property, None, naive_guest(), directory.path());
        assert_eq!(passed.code, Some(0), "{property}: {passed:#?}");
    }
}

/// Goal: a guest that refuses every write is caught without a crash too. Method: explore what such a guest does.
#[test]
fn a_guest_that_refuses_every_write_is_caught_by_exploring() {
    for flaw in ["refuses_invalid", "refuses_no_space", "refuses_closed"] {
        let explored = explore(&["--set", &format!("guest.options.break={flaw}")]);
        assert_eq!(explored.code, Some(1), "{flaw}: {explored:#?}");
        assert!(
            explored.stdout.contains("no_false_refusal"),
            "{flaw}: {explored:#?}"
        );
    }
}

/// Goal: what proves nothing is no pass. Method: clients that only read, run and explored; and a run whose crashes meet nothing.
#[test]
fn what_proves_nothing_is_inconclusive() {
    let reads = [
        "--set",
        "workload.operations={ get = 1 }",
        "--set",
        "workload.edge_cases=0.0",
    ];
    for ended in [run_with(&reads), explore(&reads)] {
        assert_eq!(ended.code, Some(3), "{ended:#?}");
        assert!(
            ended.stdout.contains("no write was acknowledged"),
            "{ended:#?}"
        );
    }
    let ended = run_with(&["--set", "run.crashes=0"]);
    assert_eq!(ended.code, Some(3), "{ended:#?}");
    assert!(ended.stdout.contains("none of the 0 crashes"), "{ended:#?}");
}

fn run_with(more: &[&str]) -> Ended {
    command("run", more)
}

fn explore(more: &[&str]) -> Ended {
    let few = ["--set", "explore.operations=20"];
    command("explore", &[&few, more].concat())
}

fn command(name: &str, more: &[&str]) -> Ended {
    let failures = tempfile::tempdir().expect("a directory");
    let (guest, failures) = (
        naive_guest().to_string_lossy(),
        failures.path().to_string_lossy(),
    );
    let scenario = "tests/broken/no_false_refusal.toml";
    let fixed = [name, scenario, "--guest", &guest, "--failures", &failures];
    let faultless = ["--set", "faults.write_error=0.0"];
    execute(Path::new(PROGRAM), &[&fixed[..], &faultless, more].concat())
}
