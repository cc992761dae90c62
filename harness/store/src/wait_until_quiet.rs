//! Between two turns: what one engine left to be done is done before the next is measured.
//!
//! Engines that take turns are all open. An engine may leave its pages to the kernel, or its merges to threads of its
//! own; then it goes on writing when its turn is over. That work is counted for no engine. Without the wait, the next
//! engine would be slower, and would be said to have written it.
//!
//! Source of the format: `proc_stat(5)`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::counters::Source;

/// How long it has to be quiet.
const QUIET: Duration = Duration::from_millis(200);
/// Processor time within that which counts as quiet: a fifth of one processor.
const QUIET_TICKS: u64 = 4;
/// Bytes that may be written within that.
const QUIET_BYTES: u64 = 1 << 20;
/// On a machine that is never quiet, for the sake of its user.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Writes out what the file system of `directory` holds back, and waits until machine and device are quiet, or for five seconds. Where the system does not
/// say how busy it is, there is no wait. Returns whether it became quiet.
pub fn wait_until_quiet(directory: &Path, source: &Source, stopped: &dyn Fn() -> bool) -> bool {
    if stopped() {
        return false;
    }
    write_out(directory);
    let began = now();
    let mut before = (busy_ticks(), source.read());
    while !stopped() && began.elapsed() < WAIT_MAX {
        let Some(ticks_before) = before.0 else {
            return true;
        };
        std::thread::sleep(QUIET);
        let after = (busy_ticks(), source.read());
        let ticks = after.0.unwrap_or(0).saturating_sub(ticks_before);
        let bytes = after.1.since(&before.1).device_written_bytes;
        if ticks <= QUIET_TICKS && bytes <= QUIET_BYTES {
            return true;
        }
        before = after;
    }
    false
}

/// Writes out what the file system of `directory` holds back.
#[cfg(target_os = "linux")]
pub fn write_out(directory: &Path) {
    // What cannot be written out will show in the turn that wants to write.
    if let Ok(directory) = fs::File::open(directory) {
        let _ = rustix::fs::syncfs(directory);
    }
}

/// Writes out what the file systems hold back.
#[cfg(not(target_os = "linux"))]
pub fn write_out(_: &Path) {
    rustix::fs::sync();
}

/// Ticks that all processors together were at work, if the system says so.
fn busy_ticks() -> Option<u64> {
    busy(&fs::read_to_string("/proc/stat").ok()?)
}

/// User, nice, system, interrupts: neither idle, nor waiting for a disk, nor taken away by the host.
fn busy(stat: &str) -> Option<u64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = line
        .split_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    let all = [0, 1, 2, 5, 6].map(|at| fields.get(at).copied());
    all.into_iter().sum()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark waits in real time; nothing that a simulation decides depends on it"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: only work counts as work. Method: the kernel's line, with other numbers where there is none.
    #[test]
    fn waiting_is_not_work() {
        let stat = "cpu  1 2 4 1000 2000 8 16 4000 0 0\ncpu0 1 2 3\n";
        assert_eq!(busy(stat), Some(1 + 2 + 4 + 8 + 16));
        assert_eq!(busy("cpu  1 2"), None);
        assert_eq!(busy("intr 7\n"), None);
    }

    /// Goal: what was written without a flush is on the device when the turn begins. Method: a file of 8 MiB, and the device's own count.
    #[test]
    fn what_was_left_to_the_kernel_is_written() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let source = Source::of(directory.path());
        let before = source.read();
        fs::write(directory.path().join("file"), vec![7; 8 << 20]).expect("it can be written");
        wait_until_quiet(directory.path(), &source, &|| false);
        let written = source.read().since(&before).device_written_bytes;
        assert!(
            written == 0 && before.device_written_bytes == 0 || written >= 8 << 20,
            "{written}"
        );
    }

    /// Goal: who interrupts a benchmark does not wait for a machine to become quiet.
    #[test]
    fn an_interrupted_wait_ends_at_once() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
        let source = Source::of(directory);
        assert!(!wait_until_quiet(directory, &source, &|| true));
    }
}
