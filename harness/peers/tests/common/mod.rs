//! The engines that tests can open here, and how they are opened.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each of the tests uses some of it"
)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use kvsim_store::{Durability, Engine, Settings};

pub fn settings(durability: Durability) -> Settings {
    Settings {
        durability,
        cache_bytes: 16 << 20,
        index_bytes: 0,
        engine_options: Vec::new(),
        space_percent: 190,
        data_bytes: 1 << 20,
        keys: 1_000,
        threads: 2,
        memory_bytes: None,
        assume_power_loss_protection: false,
    }
}

/// Every engine of this build. Without Go, those of the Go world are left out, and it is said.
pub fn engines() -> Vec<Box<dyn Engine>> {
    let mut all = kvsim_peers::all();
    if all.iter().any(|engine| engine.remote().is_some()) && !go_is_built() {
        all.retain(|engine| engine.remote().is_none());
    }
    all
}

/// Builds the program of the Go world, as a user does; `false` without Go, which is said.
pub fn go_is_built() -> bool {
    static BUILT: OnceLock<bool> = OnceLock::new();
    *BUILT.get_or_init(build_go)
}

#[expect(
    clippy::print_stderr,
    reason = "a test that leaves something out says so"
)]
fn build_go() -> bool {
    if Command::new("go").arg("version").output().is_err() {
        eprintln!("SKIPPED: badger, bbolt, buntdb, goleveldb, pebble, pogreb: Go is not installed");
        return false;
    }
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("go/build");
    let status = Command::new(&build).stdout(Stdio::null()).status();
    assert!(
        status.expect("the build can be started").success(),
        "{} failed",
        build.display()
    );
    true
}
