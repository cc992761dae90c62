//! Builds the engine's guest for wasm32 and embeds it, the same bytes whatever the host's profile, flags and paths.
//!
//! `KVSIM_GUEST_WASM` names a prebuilt module instead.

use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";

fn main() {
    println!("cargo::rerun-if-env-changed=KVSIM_GUEST_WASM");
    let module = match std::env::var_os("KVSIM_GUEST_WASM") {
        Some(file) => {
            let file = PathBuf::from(file);
            assert!(
                file.is_file(),
                "KVSIM_GUEST_WASM names {}, which is no file",
                file.display()
            );
            println!("cargo::rerun-if-changed={}", file.display());
            std::fs::canonicalize(&file).expect("it exists")
        }
        None => build("guest", &[]),
    };
    println!("cargo::rustc-env=KVSIM_BUILTIN_GUEST={}", module.display());
    if std::env::var_os("CARGO_FEATURE_MUTANTS").is_some() {
        let mutated = build("mutants", &["--features", "mutants"]);
        println!("cargo::rustc-env=KVSIM_MUTANTS_GUEST={}", mutated.display());
    }
}

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name} for build scripts"))
}

/// Builds the guest in a folder of this name.
fn build(name: &str, features: &[&str]) -> PathBuf {
    let root = Path::new(&env("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .expect("sim lies in the workspace");
    for input in [
        "engine/src",
        "engine/Cargo.toml",
        "engine/guest",
        "Cargo.lock",
        "Cargo.toml",
        "rust-toolchain.toml",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    let rustc = env("RUSTC");
    let sysroot = output(Command::new(&rustc).args(["--print", "sysroot"]));
    ensure_target(&sysroot);

    // A target directory of its own: the workspace's is locked by the cargo that runs this script.
    let target_dir = Path::new(&env("OUT_DIR")).join(name);
    let mut cargo = Command::new(env("CARGO"));
    cargo
        .current_dir(&root)
        .args([
            "build",
            "--locked",
            "--package",
            "kvsim-guest",
            "--target",
            TARGET,
            "--profile",
            "guest",
            "--target-dir",
        ])
        .arg(&target_dir)
        .args(features);
    // Nothing of the host's build leaks in: not its flags (`target-cpu=native`), not clippy in place of rustc, not its profile.
    for (name, _) in std::env::vars() {
        let leaks = [
            "CARGO_PROFILE_",
            "CARGO_BUILD_",
            "CARGO_TARGET_",
            "RUSTC_",
            "CARGO_FEATURE_",
            "CARGO_CFG_",
        ];
        if leaks.iter().any(|prefix| name.starts_with(prefix))
            || ["RUSTFLAGS", "RUSTC", "TARGET", "HOST"].contains(&name.as_str())
        {
            cargo.env_remove(name);
        }
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags(&root, &sysroot));
    let done = cargo
        .output()
        .unwrap_or_else(|error| panic!("cannot run cargo for the guest: {error}"));
    assert!(
        done.status.success(),
        "the guest does not build:\n{}",
        String::from_utf8_lossy(&done.stderr)
    );
    target_dir
        .join(TARGET)
        .join("guest")
        .join("kvsim_guest.wasm")
}

/// The exact flags of the guest's build: paths remapped, so that the module does not depend on where the checkout lies.
fn flags(root: &Path, sysroot: &str) -> String {
    let home = |name: &str, default: &str| {
        std::env::var(name)
            .unwrap_or_else(|_| format!("{}/{default}", std::env::var("HOME").unwrap_or_default()))
    };
    [
        format!("--remap-path-prefix={}=/kvsim", root.display()),
        format!(
            "--remap-path-prefix={}=/cargo",
            home("CARGO_HOME", ".cargo")
        ),
        format!("--remap-path-prefix={sysroot}=/rust"),
        "-Clink-arg=-zstack-size=262144".to_owned(),
        // For the checksums: vectors of a fixed width and products of 128 bits, whose results are the same everywhere.
        "-Ctarget-feature=+simd128,+wide-arithmetic".to_owned(),
        // Enough for a short process run, so that it never asks for more: each growth costs the host a system call or two.
        "-Clink-arg=--initial-memory=786432".to_owned(),
    ]
    .join("\u{1f}")
}

/// The standard library for the guest, installed if it is missing and rustup is there.
fn ensure_target(sysroot: &str) {
    if Path::new(sysroot).join("lib/rustlib").join(TARGET).is_dir() {
        return;
    }
    let toolchain = std::env::var("RUSTUP_TOOLCHAIN").unwrap_or_default();
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", TARGET]);
    if !toolchain.is_empty() {
        rustup.args(["--toolchain", &toolchain]);
    }
    let added = rustup.output();
    assert!(
        added.is_ok_and(|output| output.status.success()),
        "the guest needs the target {TARGET}; run: rustup target add {TARGET}"
    );
}

fn output(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    String::from_utf8(output.stdout)
        .expect("a path in UTF-8")
        .trim()
        .to_owned()
}
