//! A guest of one's own: written, built, checked and crashed by the commands that the book shows.

use std::path::{Path, PathBuf};
use std::process::Command;

use kvsim_tests::naive_guest;

use crate::{ends, kvsim};

/// The mistakes that an option of each template switches on.
const BUGS: [&str; 3] = [
    "ack_before_flush",
    "tail_not_fenced",
    "checksum_not_checked",
];

/// The template of a language in a new directory.
fn new_guest(language: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let guest = directory.path().join("my guest");
    let path = guest.to_string_lossy().into_owned();
    let parts = ["kvsim check-guest", "kvsim suite --guest"];
    ends(&["new-guest", "--lang", language, &path], 0, &parts);
    (directory, guest)
}

/// Builds in a directory; false if there is no such compiler.
fn build(directory: &Path, line: &str) -> bool {
    let mut shell = Command::new("sh");
    shell.current_dir(directory).args(["-c", line]);
    // A build of a user's, and not one within another.
    for (name, _) in std::env::vars() {
        if name.starts_with("CARGO")
            || name.starts_with("RUST") && name != "RUSTUP_HOME" && name != "RUSTUP_TOOLCHAIN"
        {
            shell.env_remove(name);
        }
    }
    let home = std::env::var_os("CARGO_HOME");
    home.into_iter().for_each(|home| {
        shell.env("CARGO_HOME", home);
    });
    let output = shell.output().expect("there is a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    let missing = output.status.code() == Some(127)
        || [
            "No module named",
            "wasm-ld",
            "No available targets",
            "target may not be installed",
        ]
        .iter()
        .any(|it| said.contains(it));
    assert!(output.status.success() || missing, "{line}: {said}");
    !missing
}

/// The module keeps every rule, passes a part of `powercut`, and each of its mistakes is found.
fn passes_and_is_caught(module: &Path) {
    let module = module.to_string_lossy();
    ends(&["check-guest", &module], 0, &[" 0 failed"]);
    let failures = tempfile::tempdir().expect("a directory");
    let failures = failures.path().to_string_lossy();
    let run = |seeds: &str, bug: Option<&str>, code, part| {
        let seeds = format!("run.seeds={seeds}");
        let bug = bug.map(|bug| format!("guest.options.bug={bug}"));
        let mut arguments = vec![
            "run",
            "scenarios/powercut.toml",
            "--guest",
            &module,
            "--failures",
            &failures,
            "--set",
            &seeds,
        ];
        if let Some(bug) = &bug {
            arguments.extend(["--set", bug]);
        } else {
            arguments.extend(["--set", "run.crashes=120"]);
        }
        ends(&arguments, code, &[part]);
    };
    run("1..3", None, 0, "PASS");
    for bug in BUGS {
        run("1..6", Some(bug), 1, "VIOLATION");
    }
}

/// Goal: the template in Rust builds by its documented command, keeps all rules, passes, and its mistakes are found. Method: as a user.
#[test]
fn a_new_guest_in_rust_builds_passes_and_has_three_bugs() {
    let (_kept, guest) = new_guest("rust");
    assert!(build(
        &guest,
        "cargo build --release --target wasm32-unknown-unknown"
    ));
    passes_and_is_caught(&guest.join("target/wasm32-unknown-unknown/release/guest.wasm"));
}

/// Goal: the same in C, by clang or by Zig, where one of them is there.
#[test]
fn a_new_guest_in_c_builds_passes_and_has_three_bugs() {
    let (_kept, guest) = new_guest("c");
    let clang = "clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -o guest.wasm guest.c";
    let zig = "python3 -m ziglang cc -target wasm32-freestanding -O2 -nostdlib -Wl,--no-entry -o guest.wasm guest.c";
    if build(&guest, zig) || build(&guest, clang) {
        passes_and_is_caught(&guest.join("guest.wasm"));
    } else {
        assert!(
            std::env::var_os("KVSIM_REQUIRE_ZIG").is_none(),
            "no compiler of C for wasm32 is there"
        );
    }
}

/// Goal: the same in Zig, where it is there.
#[test]
fn a_new_guest_in_zig_builds_passes_and_has_three_bugs() {
    let (_kept, guest) = new_guest("zig");
    let options = "build-exe -target wasm32-freestanding -O ReleaseSafe -fno-entry -rdynamic -femit-bin=guest.wasm guest.zig";
    if build(&guest, &format!("python3 -m ziglang {options}")) {
        passes_and_is_caught(&guest.join("guest.wasm"));
    } else {
        assert!(
            std::env::var_os("KVSIM_REQUIRE_ZIG").is_none(),
            "Zig is not there"
        );
    }
}

/// The template of a language for an engine that uses files builds by its README's command, and answers as it should on a real directory, by
/// `engines/check.mjs` where Node is there; it passes the scenario for files, and one of its mistakes is found, and named with the function that makes it: `opens`. Nothing is looked at where the language's compiler is not there, unless `required` names a set variable.
fn a_new_engine_on_files_works(language: &str, line: &str, opens: &str, required: Option<&str>) {
    let directory = tempfile::tempdir().expect("a directory");
    let project = directory.path().join("my engine");
    let path = project.to_string_lossy().into_owned();
    let arguments = ["new-guest", "--files", "--lang", language, &path];
    ends(&arguments, 0, &["kvsim explore files_explore --guest"]);
    if !build(&project, line) {
        let is_required = required.is_some_and(|name| std::env::var_os(name).is_some());
        assert!(!is_required, "no compiler of {language} for WASI is there");
        return;
    }
    let module = project.join("engine.wasm");
    let bytes = std::fs::read(&module).expect("the build makes a module");
    for export in ["kv_buffer", "kv_message"] {
        let has = bytes
            .windows(export.len())
            .any(|it| it == export.as_bytes());
        assert!(has, "{language}: no {export}");
    }
    let check = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engines/check.mjs");
    match Command::new("node").arg(check).arg(&module).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(
                output.status.success() && said.contains("1 passed, 0 failed"),
                "{said}"
            );
        }
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}"),
    }
    let (guest, failures) = (module.to_string_lossy(), directory.path().to_string_lossy());
    let run = |command: &str, scenario: &str, set: &str, code, part: &str| {
        let arguments = [
            command,
            scenario,
            "--guest",
            &guest,
            "--failures",
            &failures,
            "--set",
            set,
        ];
        ends(&arguments, code, &[part]);
    };
    run("run", "files_powercut", "run.seeds=1..3", 0, "PASS");
    run("run", "files_swarm", "run.seeds=1..33", 0, "PASS");
    let mistake = "guest.options.bug=no_directory_sync";
    run("explore", "files_explore", mistake, 1, "VIOLATION");
    // Shrunk, it says which sync is missing, and which function of the engine made the call before it.
    let place = format!("a sync of the directory after call 0 (path_open in {opens}");
    let failure = directory
        .path()
        .join("files_explore-1-acknowledged_durable.toml");
    let failure = failure.to_string_lossy();
    ends(&["replay", &failure, "--minimise"], 1, &[&place]);
    board_is_kept(&guest, mistake, &directory.path().join("board"));
}

/// A board of an engine that never syncs its directory: lost under `posix`, clean where processes are killed. Run again it is the same, from what was kept; a
/// cell that is taken away is run again, to the same.
fn board_is_kept(guest: &str, mistake: &str, out: &Path) {
    let folder = out.to_string_lossy();
    let few = "explore.operations=6";
    let arguments = [
        "board",
        "--engines",
        guest,
        "--profiles",
        "posix,process_kill",
        "--set",
        mistake,
        "--set",
        few,
        "--out",
        &folder,
    ];
    let parts = [
        "loses acknowledged writes",
        "clean within bounds",
        "natively: engines/reproduce",
    ];
    let document = || {
        ends(&arguments, 1, &parts);
        std::fs::read(out.join("board.json")).expect("it is written")
    };
    let first = document();
    let cells = || {
        std::fs::read_dir(out.join("cells"))
            .expect("cells")
            .map(|it| it.expect("a cell").path())
    };
    let written = |file: &Path| {
        std::fs::metadata(file)
            .and_then(|it| it.modified())
            .expect("a time")
    };
    let times: Vec<_> = cells().map(|it| (written(&it), it)).collect();
    assert_eq!(times.len(), 2);
    assert!(document() == first, "what was kept gives the same board");
    assert!(
        times.iter().all(|(at, file)| written(file) == *at),
        "no cell was run again"
    );
    std::fs::remove_file(&times[0].1).expect("it is there");
    let again: serde_json::Value = serde_json::from_slice(&document()).expect("JSON");
    let first: serde_json::Value = serde_json::from_slice(&first).expect("JSON");
    assert_eq!(again["hash"], first["hash"]);
}

/// Goal: the template in Rust for files builds by its documented command and works. Method: as a user.
#[test]
fn a_new_engine_on_files_in_rust_works() {
    let line = "cargo build --release --target wasm32-wasip1 && cp target/wasm32-wasip1/release/engine.wasm .";
    a_new_engine_on_files_works(
        "rust",
        line,
        "open at src/lib.rs",
        Some("KVSIM_REQUIRE_WASIP1"),
    );
}

/// Goal: the same in Go, where it is there.
#[test]
fn a_new_engine_on_files_in_go_works() {
    let line = "GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o engine.wasm .";
    a_new_engine_on_files_works("go", line, "main.open", None);
}

/// Goal: the same in C, where Zig is there.
#[test]
fn a_new_engine_on_files_in_c_works() {
    let line = "python3 -m ziglang cc -target wasm32-wasi -mexec-model=reactor -O2 -gline-tables-only -o engine.wasm engine.c";
    a_new_engine_on_files_works("c", line, "open_log at ", Some("KVSIM_REQUIRE_ZIG"));
}

/// Goal: the same in Zig, where it is there.
#[test]
fn a_new_engine_on_files_in_zig_works() {
    let line = "python3 -m ziglang build-exe -target wasm32-wasi -mexec-model=reactor -O ReleaseSafe -lc -femit-bin=engine.wasm engine.zig adapter.c";
    a_new_engine_on_files_works("zig", line, "engine.openLog", Some("KVSIM_REQUIRE_ZIG"));
}

/// Goal: a pair that there is no template for is named, with what to do. Method: Go without `--files`.
#[test]
fn a_new_guest_in_go_needs_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory
        .path()
        .join("guest")
        .to_string_lossy()
        .into_owned();
    ends(
        &["new-guest", "--lang", "go", &path],
        2,
        &["Go's runtime needs WASI", "help: ", "--files"],
    );
}

/// Goal: nobody's files are overwritten, and a language that there is not is named. Method: the same directory twice.
#[test]
fn a_new_guest_overwrites_nothing() {
    let (_kept, guest) = new_guest("c");
    let path = guest.to_string_lossy();
    ends(
        &["new-guest", "--lang", "rust", &path],
        2,
        &["is not empty", "help: "],
    );
    assert!(!guest.join("Cargo.toml").exists());
    ends(
        &["new-guest", "--lang", "pascal", &path],
        2,
        &["pascal", "rust"],
    );
}

/// Goal: a broken rule is told with what was due, what came and what to do, and ends with 1; what is no guest with 2. Method: a defect of
/// the naive guest, a file that is no module, and one that is not there.
#[test]
fn check_guest_says_what_is_wrong() {
    let naive = naive_guest().to_string_lossy();
    let parts = ["FAILED", "expected", "came", "to do", "1 failed"];
    ends(
        &["check-guest", &naive, "--option", "break=snapshot_reused"],
        1,
        &parts,
    );
    ends(&["check-guest", "README.md"], 2, &["FAILED", "module"]);
    ends(&["check-guest", "no/such.wasm"], 2, &["no/such.wasm"]);
    ends(
        &["check-guest", &naive, "--option", "broken"],
        2,
        &["NAME=VALUE"],
    );
    let ended = kvsim(&["check-guest", &naive, "--json"]);
    let document: serde_json::Value =
        serde_json::from_str(&ended.stdout).expect("JSON and nothing else");
    assert_eq!(document["schema"], "kvsim.conformance/1");
    assert_eq!(
        (document["exit_code"].as_u64(), document["failed"].as_u64()),
        (Some(0), Some(0))
    );
}

/// Goal: the suite is one table, bounded in time, with a line that replays what fails. Method: the naive guest with and without a defect.
#[test]
fn the_suite_is_one_table() {
    let naive = naive_guest().to_string_lossy();
    let failures = tempfile::tempdir().expect("a directory");
    let failures = failures.path().to_string_lossy();
    let arguments = [
        "suite",
        "--guest",
        &naive,
        "--for",
        "6s",
        "--failures",
        &failures,
    ];
    let ended = kvsim(&arguments);
    // `kitchen_sink`, if there is time for it, finds what the naive guest does after a flush that failed.
    assert!(matches!(ended.code, Some(0 | 1 | 3)), "{ended:#?}");
    let row = |part: &str| {
        let mut lines = ended.stdout.lines();
        lines.find(|line| line.trim_start().starts_with(part))
    };
    for part in ["conformance", "explore_small", "explore_deep"] {
        let passed = row(part).is_some_and(|line| line.contains(" PASS "));
        assert!(passed, "{part}: {ended:#?}");
    }
    for part in [
        "conformance",
        "powercut",
        "explore_small",
        "explore_deep",
        "kitchen_sink",
        "5 parts",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {ended:#?}");
    }
    assert!(ended.stdout.contains("left out: "), "{ended:#?}");
    let broken = [&arguments[..], &["--option", "break=acknowledged_durable"]].concat();
    let ended = ends(
        &broken,
        1,
        &["FAILED", "again: kvsim replay", "again: kvsim check-guest"],
    );
    assert!(ended.stdout.contains("acknowledged_durable"), "{ended:#?}");
    let json = [&broken[..], &["--json"]].concat();
    let document: serde_json::Value = serde_json::from_str(&kvsim(&json).stdout).expect("JSON");
    assert_eq!(document["schema"], "kvsim.suite/1");
    assert_eq!(document["parts"].as_array().map(Vec::len), Some(5));
}
