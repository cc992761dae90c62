//! Small engines and what drives them.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use kvsim_fs::{FileConfig, FileSystem};
use kvsim_sim::api::{Durability, Reply, Request};
use kvsim_sim::{Call, CallEnd, Guest as _, GuestError, GuestLimits, OpenConfig, OutItem};
use kvsim_wasi::{LoadOptions, WasiGuest, WasiProgram};

/// A description that offers everything.
pub(crate) const DESCRIPTION: &str = "abi=1\nengine=tiny 1\nsettings=none\nbatch=true\nscan=true\nreverse_scan=true\nsnapshot=false\n\
                                      relaxed=true\nsync=true\norder=prefix\n";

/// Where the tiny engine has its message.
pub(crate) const MESSAGE: u32 = 32_768;

/// A reactor in the text format: it describes itself, runs `body` on every other message, and answers `Ok` without a body.
pub(crate) fn reactor(imports: &str, items: &str, body: &str) -> Vec<u8> {
    described(DESCRIPTION, imports, items, body)
}

/// The same with another description.
pub(crate) fn described(description: &str, imports: &str, items: &str, body: &str) -> Vec<u8> {
    let len = description.len() + 4;
    let text = description.replace('\n', "\\n");
    let module = format!(
        "(module {imports} (memory (export \"memory\") 2) {items}
           (data (i32.const 1024) \"\\00\\00\\00\\00{text}\")
           (func (export \"kv_buffer\") (param i32) (result i32) i32.const {MESSAGE})
           (func $message (export \"kv_message\") (param i32) (result i64)
             (if (i32.eqz (i32.load (i32.const {MESSAGE}))) (then (return (i64.const {described}))))
             {body}
             (i64.const {done})))",
        described = 1024_i64 << 32 | i64::try_from(len).expect("short"),
        done = 512_i64 << 32 | 4,
    );
    wat::parse_str(module).expect("the module is right")
}

pub(crate) fn limits() -> GuestLimits {
    GuestLimits {
        memory_bytes_max: 64 << 20,
        fuel_per_call: 1_000_000_000,
        events_per_answer: 1_000,
        idle_ns_per_answer: 10_000_000_000,
    }
}

pub(crate) fn load(bytes: &[u8]) -> Result<Arc<WasiProgram>, GuestError> {
    WasiProgram::from_bytes("tiny", bytes, LoadOptions::default())
}

pub(crate) fn files() -> FileSystem {
    FileSystem::new(&FileConfig::with_profile("posix"), 3).expect("the profile is there")
}

/// A file engine is told nothing of a device.
pub(crate) fn no_device() -> kvsim_simdisk::Capabilities {
    kvsim_simdisk::Capabilities {
        sector_bytes: 512,
        physical_block_bytes: 4_096,
        capacity_bytes: 0,
        max_capacity_bytes: 0,
        volatile_cache: true,
        fua: false,
        discard: false,
        barrier: false,
        atomic_write_bytes: 512,
        atomic_boundary_bytes: 0,
    }
}

pub(crate) fn open_config(options: &[(&str, &str)]) -> OpenConfig {
    let options = options
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    OpenConfig {
        device: no_device(),
        memory_bytes_max: 64 << 20,
        db_id: [7; 16],
        options: options.collect::<BTreeMap<_, _>>(),
    }
}

/// What calls of a process run came to.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// All that was let out, in words.
    pub(crate) out: Vec<String>,
    pub(crate) replies: Vec<Reply>,
    pub(crate) logs: Vec<String>,
    pub(crate) steps: usize,
    pub(crate) fuel: Vec<u64>,
}

/// A process run and its files.
pub(crate) struct Process {
    pub(crate) guest: WasiGuest,
    pub(crate) files: FileSystem,
    pub(crate) seen: Seen,
    pub(crate) now: u64,
}

impl Process {
    pub(crate) fn start(
        program: &WasiProgram,
        limits: &GuestLimits,
        files: &FileSystem,
    ) -> Result<Process, GuestError> {
        let mut files = files.clone();
        files.note_moments(true);
        Ok(Process {
            guest: program.start_files(limits, &files)?,
            files,
            seen: Seen::default(),
            now: 0,
        })
    }

    pub(crate) fn call(&mut self, call: Call<'_>) -> Result<CallEnd, GuestError> {
        let mut out = Vec::new();
        let ended = self.guest.call(self.now, call, &mut out);
        for item in out {
            match item {
                OutItem::Step(moment) => {
                    self.seen
                        .out
                        .push(format!("{:?} at {}", moment.step, moment.after_ns));
                    self.seen.steps += 1;
                    self.files = moment.files;
                }
                OutItem::Reply(reply) => {
                    self.seen.out.push(format!("{reply:?}"));
                    self.seen.replies.push(reply);
                }
                OutItem::Log { level, text } => {
                    self.seen.out.push(format!("{level:?} {text}"));
                    self.seen.logs.push(text);
                }
                OutItem::Submit { .. } => panic!("a file engine has no device"),
            }
        }
        let ended = ended?;
        self.now += ended.elapsed_ns + ended.fuel;
        self.seen.fuel.push(ended.fuel);
        Ok(ended)
    }

    pub(crate) fn open(&mut self, options: &[(&str, &str)]) -> Result<Reply, GuestError> {
        self.call(Call::Open(&open_config(options)))?;
        Ok(self
            .seen
            .replies
            .last()
            .expect("an opening is answered")
            .clone())
    }

    pub(crate) fn ask(&mut self, request: &Request) -> Result<Reply, GuestError> {
        let id = self.seen.replies.len() as u64;
        self.call(Call::Request { id, request })?;
        Ok(self
            .seen
            .replies
            .last()
            .expect("a request is answered")
            .clone())
    }

    pub(crate) fn put(&mut self, key: &str, value: &str) -> Result<Reply, GuestError> {
        self.ask(&Request::Put {
            key: key.into(),
            value: value.into(),
            durability: Durability::Durable,
        })
    }

    pub(crate) fn get(&mut self, key: &str) -> Result<Reply, GuestError> {
        self.ask(&Request::Get {
            key: key.into(),
            snapshot: 0,
        })
    }
}

/// The folder of the tests' own engines.
pub(crate) fn guests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests")
}

/// Runs a compiler. Nothing if it is not there; then the test says that it is skipped.
pub(crate) fn compile(what: &str, command: &mut Command, module: &Path) -> Option<Vec<u8>> {
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            skipped(what, &error.to_string());
            return None;
        }
    };
    assert!(
        output.status.success(),
        "{what} does not build:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(std::fs::read(module).expect("it was built"))
}

/// Says that a test was skipped.
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
pub(crate) fn skipped(what: &str, why: &str) {
    eprintln!("skipped: {what}: {why}");
}

/// The Go engine of the tests, as a reactor or as a command.
pub(crate) fn go_engine(is_command: bool) -> Option<Vec<u8>> {
    static REACTOR: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    static COMMAND: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let built = if is_command { &COMMAND } else { &REACTOR };
    built.get_or_init(|| build_go_engine(is_command)).clone()
}

fn build_go_engine(is_command: bool) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder");
    let module = folder.path().join("engine.wasm");
    let mut go = Command::new("go");
    go.current_dir(guests().join("go"))
        .args(["build", "-trimpath", "-o"])
        .arg(&module)
        .args(if is_command {
            ["-tags", "command"]
        } else {
            ["-buildmode", "c-shared"]
        })
        .arg(".")
        .envs([
            ("GOOS", "wasip1"),
            ("GOARCH", "wasm"),
            ("GOFLAGS", "-mod=mod"),
            ("GOWORK", "off"),
        ]);
    compile("the Go engine", &mut go, &module)
}

/// The Rust engine of the tests.
pub(crate) fn rust_engine() -> Option<Vec<u8>> {
    static BUILT: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    BUILT.get_or_init(build_rust_engine).clone()
}

fn build_rust_engine() -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder");
    let module = folder
        .path()
        .join("wasm32-wasip1/release/kvsim_test_std.wasm");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .current_dir(guests().join("rust"))
        .args([
            "build",
            "--offline",
            "--release",
            "--target",
            "wasm32-wasip1",
            "--target-dir",
        ])
        .arg(folder.path());
    // Nothing of the host's build leaks in.
    for (name, _) in std::env::vars() {
        let leaks = [
            "CARGO_BUILD_",
            "CARGO_TARGET_",
            "CARGO_PROFILE_",
            "RUSTC_",
            "CARGO_ENCODED_",
        ];
        if leaks.iter().any(|it| name.starts_with(it)) || name == "RUSTFLAGS" {
            cargo.env_remove(name);
        }
    }
    let target = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", "wasm32-wasip1"])
        .output();
    let there =
        target.is_ok_and(|it| Path::new(String::from_utf8_lossy(&it.stdout).trim()).is_dir());
    if !there {
        skipped("the Rust engine", "run: rustup target add wasm32-wasip1");
        return None;
    }
    compile("the Rust engine", &mut cargo, &module)
}
