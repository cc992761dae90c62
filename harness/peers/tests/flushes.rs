//! Figures of durable writes count only if each write was flushed. So flushes are counted here in two ways: the calls
//! that the engine makes, and the flushes that the device completed. Calls of this process are counted by replacing the
//! C library's functions. Calls of the Go world, which need no C library, are counted by strace.
#![cfg(target_os = "linux")]
#![expect(
    unsafe_code,
    reason = "functions of the C library are replaced by ones that count"
)]
#![expect(clippy::print_stdout, reason = "the counts themselves are of use")]

mod common;

use std::ffi::{c_int, c_long, c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kvsim_store::counters::Source;
use kvsim_store::{Durability, Engine};

static FLUSHES: AtomicU64 = AtomicU64::new(0);
static RANGES: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

/// What libc does, and a count. Defined in the executable, so the engines find these before the C library's own.
macro_rules! counted {
    ($name:ident, $number:expr, $counter:ident, $($argument:ident: $kind:ty),*) => {
        // SAFETY: the name and the types are the C library's, and the behaviour is too.
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $kind),*) -> c_int {
            $counter.fetch_add(1, Ordering::Relaxed);
            // SAFETY: the arguments are passed on as they came.
            let result = unsafe { syscall($number, $($argument),*) };
            c_int::try_from(result).unwrap_or(-1)
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod numbers {
    pub(super) const FSYNC: i64 = 74;
    pub(super) const FDATASYNC: i64 = 75;
    pub(super) const MSYNC: i64 = 26;
    pub(super) const SYNC_FILE_RANGE: i64 = 277;
}
#[cfg(target_arch = "aarch64")]
mod numbers {
    pub(super) const FSYNC: i64 = 82;
    pub(super) const FDATASYNC: i64 = 83;
    pub(super) const MSYNC: i64 = 227;
    pub(super) const SYNC_FILE_RANGE: i64 = 84;
}

counted!(fsync, numbers::FSYNC, FLUSHES, file: c_int);
counted!(fdatasync, numbers::FDATASYNC, FLUSHES, file: c_int);
counted!(msync, numbers::MSYNC, FLUSHES, address: *mut c_void, len: usize, flags: c_int);
counted!(sync_file_range, numbers::SYNC_FILE_RANGE, RANGES, file: c_int, offset: i64, bytes: i64, flags: c_uint);

struct Counted {
    calls: u64,
    ranges: u64,
    device: u64,
}

const PUTS: u64 = 200;

/// Calls of this process until now: those that flush, and `sync_file_range`, which does not.
fn own_calls() -> (u64, u64) {
    let (calls, ranges) = (&FLUSHES, &RANGES);
    (
        calls.load(Ordering::Relaxed),
        ranges.load(Ordering::Relaxed),
    )
}

fn count(engine: &dyn Engine, durability: Durability, calls: &dyn Fn() -> (u64, u64)) -> Counted {
    let name = engine.name();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let settings = common::settings(durability);
    let store = engine.open(directory.path(), &settings).expect(name);
    let source = Source::of(directory.path());
    let (before, device) = (calls(), source.read().device_flushes);
    for number in 0..PUTS {
        let key = format!("k{number:015}");
        store.put(key.as_bytes(), &[7; 1024]).expect(name);
    }
    let (after, device_after) = (calls(), source.read().device_flushes);
    Counted {
        calls: after.0 - before.0,
        ranges: after.1 - before.1,
        device: device_after - device,
    }
}

/// The device counts for all, so its flushes are looked at by one test at a time.
static DEVICE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    DEVICE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the device says that it has a cache that can be flushed.
fn has_volatile_cache() -> bool {
    let disks = std::fs::read_dir("/sys/block")
        .into_iter()
        .flatten()
        .flatten();
    let caches = disks.map(|disk| disk.path().join("queue/write_cache"));
    caches
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .any(|cache| cache.trim() == "write back")
}

fn judge(engine: &dyn Engine, calls: &dyn Fn() -> (u64, u64)) {
    let name = engine.name();
    let full = count(engine, Durability::Full, calls);
    let relaxed = count(engine, Durability::Relaxed, calls);
    println!(
        "{name:<9} for {PUTS} puts: full {} calls, {} ranges, {} flushes of the device; relaxed {}, {}, {}",
        full.calls, full.ranges, full.device, relaxed.calls, relaxed.ranges, relaxed.device
    );
    assert!(
        relaxed.calls < PUTS / 10,
        "{name}, relaxed: {} calls",
        relaxed.calls
    );
    if name == "sled" {
        assert!(
            full.calls < PUTS / 10 && full.ranges >= PUTS,
            "sled has changed"
        );
        return;
    }
    assert!(full.calls >= PUTS, "{name}, full: {} calls", full.calls);
    // Others may flush at the same time, and the kernel lets two that wait share one.
    if has_volatile_cache() {
        assert!(
            full.device >= PUTS * 9 / 10,
            "{name}: {} flushes",
            full.device
        );
    }
}

/// Goal: `full` means a flush for each commit, `relaxed` means none. Method: one thread writes; a flush for each write is called
/// for, and reaches the device if that has a cache to flush. sled asks for less than it promises, which is held here too, so that
/// its configuration stays true.
#[test]
fn full_flushes_each_commit_and_relaxed_does_not() {
    let _alone = alone();
    for engine in kvsim_peers::all() {
        if engine.remote().is_none() {
            judge(engine.as_ref(), &own_calls);
        }
    }
}

#[cfg(feature = "go")]
mod go_world {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::process::Command;

    use super::{alone, common, judge};

    /// A program that runs the Go world's under strace, which notes the calls that flush.
    fn traced(directory: &Path, log: &Path) -> std::path::PathBuf {
        let program = directory.join("traced");
        let real = Path::new(env!("CARGO_MANIFEST_DIR")).join("go/bin/kvsim-go-peers");
        let text = format!(
            "#!/bin/sh\nexec strace -f -qq -e trace=fsync,fdatasync,msync,sync_file_range -A -o '{}' '{}' \"$@\"\n",
            log.display(),
            real.display()
        );
        std::fs::write(&program, text).expect("it can be written");
        let permissions = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&program, permissions).expect("it is ours");
        program
    }

    /// Goal: the same of the engines of the Go world. Method: strace notes their calls.
    #[test]
    fn engines_of_the_go_world_flush_too() {
        let can_trace = Command::new("strace")
            .args(["-qq", "-o", "/dev/null", "true"])
            .status();
        if !can_trace.is_ok_and(|status| status.success()) {
            println!("SKIPPED: strace is not installed, or not allowed here");
            return;
        }
        if !common::go_is_built() {
            return;
        }
        let _alone = alone();
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let log = directory.path().join("calls");
        let calls = || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let count = |name: &str| text.matches(name).count() as u64;
            (
                count("fsync(") + count("fdatasync(") + count("msync("),
                count("sync_file_range("),
            )
        };
        for engine in kvsim_peers::go::with_program(&traced(directory.path(), &log)) {
            judge(&engine, &calls);
        }
    }
}
