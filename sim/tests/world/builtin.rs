//! The engine that is built in: the same bytes wherever it is built, and others where they are asked for.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kvsim_sim::{GuestHash, Program, WasmProgram};

/// What the build script embedded.
const EMBEDDED: &[u8] = include_bytes!(env!("KVSIM_BUILTIN_GUEST"));

/// Goal: the built-in guest is what was embedded, and has its hash. Method: load it twice, and its bytes and its file by hand.
#[test]
fn the_built_in_guest_has_the_hash_of_its_bytes() {
    let builtin = WasmProgram::builtin().expect("it is a guest");
    assert_eq!(builtin.hash(), GuestHash::of(EMBEDDED));
    assert_eq!(builtin.file(), None);
    let again = WasmProgram::builtin().expect("it is a guest");
    assert_eq!(builtin.hash(), again.hash());
    let file = Path::new(env!("KVSIM_BUILTIN_GUEST"));
    let loaded = WasmProgram::from_file(file).expect("it is a guest");
    assert_eq!(loaded.hash(), builtin.hash());
    let shown = builtin.hash().to_string();
    assert_eq!(shown.len(), 32);
    assert!(shown.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_ne!(GuestHash::of(&EMBEDDED[1..]), builtin.hash());
}

/// Goal: the bytes do not depend on where they were built. Method: no path of this machine is in them.
#[test]
fn the_built_in_guest_knows_no_path_of_this_machine() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("sim lies in the workspace");
    let homes = ["HOME", "CARGO_HOME", "RUSTUP_HOME"].map(std::env::var_os);
    let homes = homes.into_iter().flatten().map(PathBuf::from);
    for path in homes.chain([root.to_path_buf()]) {
        let path = path.to_str().expect("a path in UTF-8").as_bytes();
        if path.len() < 4 {
            continue; // `/` is in every text.
        }
        let found = EMBEDDED.windows(path.len()).any(|part| part == path);
        assert!(!found, "{}", String::from_utf8_lossy(path));
    }
}

/// The build script, compiled by itself: running it costs nothing then, and rebuilds nothing.
fn build_script(guest: &OsStr) -> Output {
    static BUILT: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    let program = BUILT.get_or_init(|| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sim-build-script");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs");
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut command = Command::new(rustc);
        command.args([
            "--edition",
            "2024",
            "--crate-name",
            "build_script",
            source,
            "-o",
        ]);
        let built = command.arg(&program).output().expect("rustc is there");
        let errors = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{errors}");
        program
    });
    let mut command = Command::new(program);
    command.env("KVSIM_GUEST_WASM", guest).env_remove("OUT_DIR");
    command.output().expect("it was just built")
}

/// Goal: `KVSIM_GUEST_WASM` names the module that is embedded, and a change of it is noticed. Method: run the build script with a
/// module of ours, and read what it tells cargo.
#[test]
fn another_guest_can_be_embedded() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("another-guest.wasm");
    let clerk = wat::parse_str(include_str!("clerk.wat")).expect("it parses");
    std::fs::write(&file, &clerk).expect("it can be written");
    let done = build_script(file.as_os_str());
    assert!(done.status.success(), "{done:?}");
    let told = String::from_utf8(done.stdout).expect("text");
    let file = file.canonicalize().expect("it is there");
    for line in [
        "cargo::rerun-if-env-changed=KVSIM_GUEST_WASM".to_owned(),
        format!("cargo::rerun-if-changed={}", file.display()),
        format!("cargo::rustc-env=KVSIM_BUILTIN_GUEST={}", file.display()),
    ] {
        assert!(told.lines().any(|found| found == line), "{line} in {told}");
    }
    let loaded = WasmProgram::from_file(&file).expect("it is a guest");
    assert_eq!(loaded.hash(), GuestHash::of(&clerk));
}

/// Goal: a wrong `KVSIM_GUEST_WASM` fails the build and says so. Method: a file that is not there, a folder, nothing.
#[test]
fn a_guest_that_is_no_file_fails_the_build() {
    for guest in ["/there/is/no-such.wasm", env!("CARGO_TARGET_TMPDIR"), ""] {
        let done = build_script(OsStr::new(guest));
        assert!(!done.status.success(), "{guest}");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        let sentence = format!("KVSIM_GUEST_WASM names {guest}, which is no file");
        assert!(said.contains(&sentence), "{said}");
    }
}
