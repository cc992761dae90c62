//! The memory that a process takes.
//!
//! Source: `proc_pid_status(5)`.

use std::fs;

use crate::counters::named;

/// Memory of a process that is resident: all of it is counted, whatever it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Memory {
    /// The most that was resident since the process began, in bytes (`VmHWM`).
    pub peak_bytes: u64,
    /// What is resident now, in bytes (`VmRSS`).
    pub resident_bytes: u64,
    /// What of that are pages of files, in bytes (`RssFile`): the program itself, and what an engine has mapped. The system takes these back when it needs them.
    pub mapped_bytes: u64,
}

impl Memory {
    /// Of this process; `None` where the system does not say it.
    #[must_use]
    pub fn of_process(process: u32) -> Option<Memory> {
        of(&fs::read_to_string(format!("/proc/{process}/status")).ok()?)
    }
}

/// The file counts in KiB and writes `kB`.
fn of(status: &str) -> Option<Memory> {
    let bytes = |name: &str| named(status, name) << 10;
    let memory = Memory {
        peak_bytes: bytes("VmHWM:"),
        resident_bytes: bytes("VmRSS:"),
        mapped_bytes: bytes("RssFile:"),
    };
    (memory.resident_bytes > 0).then_some(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the kernel's lines are read as it documents them. Method: such lines, and those of a process that has ended.
    #[test]
    fn the_kernels_lines_are_read() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nRssAnon:\t     768 kB\nRssFile:\t     256 kB\n";
        let memory = Memory {
            peak_bytes: 2 << 20,
            resident_bytes: 1 << 20,
            mapped_bytes: 256 << 10,
        };
        assert_eq!(of(status), Some(memory));
        assert_eq!(of("Name:\tx\nState:\tZ (zombie)\n"), None);
    }

    /// Goal: memory that is used shows. Method: this process, before and after 64 MiB that are written to.
    #[test]
    fn memory_that_is_used_shows() {
        let now = || Memory::of_process(std::process::id());
        let Some(before) = now() else {
            return;
        };
        let taken = std::hint::black_box(vec![7_u8; 64 << 20]);
        let after = now().expect("it was there before");
        assert!(
            after.peak_bytes >= before.resident_bytes + (60 << 20),
            "{before:?} {after:?}"
        );
        assert!(after.peak_bytes >= after.resident_bytes);
        drop(taken);
    }
}
