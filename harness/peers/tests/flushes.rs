//! Figures of durable writes count only if each write was flushed, so that is counted here, in two ways: the calls that the
//! engine makes, by standing in the way of the C library's functions, and the flushes that the device completed.
#![cfg(target_os = "linux")]
#![expect(
    unsafe_code,
    reason = "functions of the C library are replaced by ones that count"
)]
#![expect(clippy::print_stdout, reason = "the counts themselves are of use")]

use std::ffi::{c_int, c_long, c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use kvsim_store::counters::Source;
use kvsim_store::{Durability, Engine, Settings};

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

fn count(engine: &dyn Engine, durability: Durability) -> Counted {
    let name = engine.name();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let settings = Settings {
        durability,
        cache_bytes: 16 << 20,
        data_bytes: 1 << 20,
        threads: 1,
        assume_power_loss_protection: false,
    };
    let store = engine.open(directory.path(), &settings).expect(name);
    let source = Source::of(directory.path());
    let read = || {
        let (calls, ranges) = (&FLUSHES, &RANGES);
        let (calls, ranges) = (
            calls.load(Ordering::Relaxed),
            ranges.load(Ordering::Relaxed),
        );
        (calls, ranges, source.read().device_flushes)
    };
    let (calls, ranges, device) = read();
    for number in 0..PUTS {
        let key = format!("k{number:015}");
        store.put(key.as_bytes(), &[7; 1024]).expect(name);
    }
    let after = read();
    Counted {
        calls: after.0 - calls,
        ranges: after.1 - ranges,
        device: after.2 - device,
    }
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

/// Goal: `full` means a flush for each commit, `relaxed` means none. Method: one thread writes; a flush for each write is called
/// for, and reaches the device if that has a cache to flush. sled asks for less than it promises, which is held here too, so that
/// its configuration stays true.
#[test]
fn full_flushes_each_commit_and_relaxed_does_not() {
    for engine in kvsim_peers::all() {
        if engine.remote().is_some() {
            continue;
        }
        let name = engine.name();
        let full = count(engine.as_ref(), Durability::Full);
        let relaxed = count(engine.as_ref(), Durability::Relaxed);
        println!(
            "{name:<8} for {PUTS} puts: full {} calls, {} ranges, {} flushes of the device; relaxed {}, {}, {}",
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
            continue;
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
}
