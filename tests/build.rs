//! Builds the naive guest and the engine with mutants for wasm32, the same bytes whatever the host's profile, flags and paths.
//!
//! It is a nested cargo. So it has a target directory of its own (the workspace's is locked by the cargo that runs
//! this), and nothing of the host's build in its environment.

use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";

fn main() {
    let tests = PathBuf::from(env("CARGO_MANIFEST_DIR"));
    let naive = Guest {
        folder: tests.join("guests/naive"),
        inputs: &["src", "Cargo.toml", "Cargo.lock"],
        arguments: &["--release"],
        remapped: "/naive",
        module: "release/kvsim_naive_guest.wasm",
    };
    let mutants = Guest {
        folder: tests.join(".."),
        inputs: &[
            "engine/src",
            "engine/Cargo.toml",
            "engine/guest",
            "Cargo.lock",
            "Cargo.toml",
        ],
        arguments: &[
            "--package",
            "kvsim-guest",
            "--features",
            "mutants",
            "--profile",
            "guest",
        ],
        remapped: "/kvsim",
        module: "guest/kvsim_guest.wasm",
    };
    let sysroot = sysroot();
    ensure_target(&sysroot);
    for (name, guest) in [("NAIVE", naive), ("MUTANTS", mutants)] {
        let module = guest.build(&name.to_lowercase(), &sysroot);
        println!("cargo::rustc-env=KVSIM_{name}_GUEST={}", module.display());
    }
}

/// A guest and how it is built.
struct Guest {
    folder: PathBuf,
    /// What it depends on, in that folder.
    inputs: &'static [&'static str],
    arguments: &'static [&'static str],
    /// What its own paths begin with in the module.
    remapped: &'static str,
    module: &'static str,
}

impl Guest {
    fn build(&self, name: &str, sysroot: &Path) -> PathBuf {
        for input in self.inputs {
            println!(
                "cargo::rerun-if-changed={}",
                self.folder.join(input).display()
            );
        }
        let target_dir = PathBuf::from(env("OUT_DIR")).join(name);
        let mut cargo = Command::new(env("CARGO"));
        cargo
            .current_dir(&self.folder)
            .args(["build", "--locked", "--target", TARGET, "--target-dir"])
            .arg(&target_dir)
            .args(self.arguments);
        for (name, _) in std::env::vars() {
            let prefixes = [
                "CARGO_PROFILE_",
                "CARGO_BUILD_",
                "CARGO_TARGET_",
                "CARGO_FEATURE_",
                "CARGO_CFG_",
                "RUSTC_",
            ];
            let names = ["RUSTC", "RUSTFLAGS", "TARGET", "HOST"];
            if names.contains(&name.as_str())
                || prefixes.iter().any(|prefix| name.starts_with(prefix))
            {
                cargo.env_remove(name);
            }
        }
        let flags = [
            format!(
                "--remap-path-prefix={}={}",
                self.folder.display(),
                self.remapped
            ),
            format!("--remap-path-prefix={}=/rust", sysroot.display()),
            "-Clink-arg=-zstack-size=262144".to_owned(),
        ];
        cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
        let done = cargo
            .output()
            .unwrap_or_else(|error| panic!("cannot run cargo for the {name} guest: {error}"));
        assert!(
            done.status.success(),
            "the {name} guest does not build:\n{}",
            String::from_utf8_lossy(&done.stderr)
        );
        let module = target_dir.join(TARGET).join(self.module);
        assert!(module.is_file(), "cargo made no {}", module.display());
        module
    }
}

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name} for build scripts"))
}

fn sysroot() -> PathBuf {
    let output = Command::new(env("RUSTC"))
        .args(["--print", "sysroot"])
        .output()
        .expect("cargo's compiler runs");
    PathBuf::from(
        String::from_utf8(output.stdout)
            .expect("a path in UTF-8")
            .trim(),
    )
}

/// The standard library for the guest, installed if it is missing and rustup is there.
fn ensure_target(sysroot: &Path) {
    if sysroot.join("lib/rustlib").join(TARGET).is_dir() {
        return;
    }
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", TARGET]);
    if let Ok(toolchain) = std::env::var("RUSTUP_TOOLCHAIN") {
        rustup.args(["--toolchain", &toolchain]);
    }
    let added = rustup.output().is_ok_and(|output| output.status.success());
    assert!(
        added,
        "the naive guest needs the target {TARGET}; run: rustup target add {TARGET}"
    );
}
