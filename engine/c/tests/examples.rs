//! The examples in C, Python and Go, built and run as their readers would.
//!
//! Where a tool is absent, its example is not run and that is said; with `KVSIM_REQUIRE_CC=1`, `KVSIM_REQUIRE_PYTHON3=1` or `KVSIM_REQUIRE_GO=1` that is a failure.
#![allow(missing_docs, reason = "a test")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::path::{Path, PathBuf};
use std::process::Command;

const PRINTED: &str = "\
user/1: Ada
user/1 now: nothing
user/1 in the snapshot: Ada
user/3 = Edsger
user/2 = Grace
status 6: a key of 0 bytes: keys are 1..=1024 bytes
";

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

/// Where cargo has put the libraries.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("a test is a file");
    let deps = test.parent().expect("it lies in a folder").to_owned();
    assert!(
        deps.join("libkvdb.a").exists(),
        "no library in {}",
        deps.display()
    );
    deps
}

fn dynamic() -> PathBuf {
    let name = if cfg!(target_vendor = "apple") {
        "libkvdb.dylib"
    } else {
        "libkvdb.so"
    };
    libraries().join(name)
}

/// Whether there is such a program. If it has to be there, that is a failure.
fn has(program: &str, argument: &str, required_by: &str) -> bool {
    let there = Command::new(program)
        .arg(argument)
        .output()
        .is_ok_and(|it| it.status.success());
    let required = std::env::var(required_by).is_ok_and(|value| value == "1");
    assert!(
        there || !required,
        "{required_by}=1, and there is no {program}"
    );
    if !there {
        eprintln!("there is no {program} here: its example is not run");
    }
    there
}

fn run(command: &mut Command) -> String {
    let what = format!("{command:?}");
    let output = command.output().expect("it can be started");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}\n{text}{errors}");
    text
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

fn compile(source: &Path, to: &Path) -> Command {
    let mut cc = Command::new("cc");
    cc.args([
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
        "-I",
    ])
    .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"))
    .arg(source)
    .arg("-o")
    .arg(to);
    cc
}

/// Goal: the example in C is built without a warning and does what it shows, linked both ways, on a new database and one that is there. Method: it is run.
#[test]
fn the_example_in_c_works() {
    if !has("cc", "--version", "KVSIM_REQUIRE_CC") {
        return;
    }
    let folder = folder();
    let (source, database) = (
        examples().join("c/example.c"),
        folder.path().join("database"),
    );
    let (shared, alone) = (folder.path().join("shared"), folder.path().join("alone"));
    let library = dynamic();
    run(compile(&source, &shared)
        .arg(&library)
        .arg(format!("-Wl,-rpath,{}", libraries().display())));
    run(compile(&source, &alone)
        .arg(libraries().join("libkvdb.a"))
        .args(["-lpthread", "-ldl", "-lm"]));
    for program in [&shared, &alone, &shared] {
        assert_eq!(run(Command::new(program).arg(&database)), PRINTED);
    }
}

/// Goal: the header is one for C++ too. Method: it is compiled as such.
#[test]
fn the_header_is_one_for_cpp() {
    if !has("c++", "--version", "KVSIM_REQUIRE_CC") {
        return;
    }
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/kvdb.h");
    run(Command::new("c++")
        .args([
            "-std=c++17",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-fsyntax-only",
            "-x",
            "c++",
        ])
        .arg(header));
}

/// Goal: the example in Python does what it shows. Method: it is run.
#[test]
fn the_example_in_python_works() {
    if !has("python3", "--version", "KVSIM_REQUIRE_PYTHON3") {
        return;
    }
    let database = folder();
    for _ in 0..2 {
        let printed = run(Command::new("python3")
            .arg(examples().join("python/example.py"))
            .arg(database.path().join("database"))
            .env("KVDB_LIBRARY", dynamic())
            .env("PYTHONDONTWRITEBYTECODE", "1"));
        assert_eq!(printed, PRINTED);
    }
}

/// Goal: the example in Go does what it shows, with cgo's checks of pointers. Method: it is vetted, built and run.
#[test]
fn the_example_in_go_works() {
    if !has("go", "version", "KVSIM_REQUIRE_GO") || !has("cc", "--version", "KVSIM_REQUIRE_CC") {
        return;
    }
    let folder = folder();
    let go = || {
        let mut go = Command::new("go");
        go.current_dir(examples().join("go")).env(
            "CGO_LDFLAGS",
            format!("-L{0} -lkvdb -Wl,-rpath,{0}", libraries().display()),
        );
        go.env("CGO_LDFLAGS_ALLOW", ".*").env("CGO_ENABLED", "1");
        go
    };
    let program = folder.path().join("example");
    run(go().args(["vet", "./..."]));
    run(go().arg("build").arg("-o").arg(&program).arg("."));
    for _ in 0..2 {
        let printed = run(Command::new(&program)
            .arg(folder.path().join("database"))
            .env("GODEBUG", "cgocheck=1"));
        assert_eq!(printed, PRINTED);
    }
}
