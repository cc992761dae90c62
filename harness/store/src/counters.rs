//! What the process and the device say that was read and written. An engine's own word is for comparison only.
//!
//! Sources: the kernel's `Documentation/block/stat.rst` (fields of `/sys/block/<device>/stat`; sectors of 512 bytes),
//! `proc_pid_io(5)`, `proc_pid_stat(5)`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of a sector in the kernel's statistics, whatever the device's own is.
const SECTOR_BYTES: u64 = 512;
/// Clock ticks a second in `/proc/<pid>/stat`: `USER_HZ`, 100 on every Linux.
const TICKS_PER_SECOND: u64 = 100;

/// Totals at one moment, or the difference between two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counters {
    /// Bytes read from the device, by anyone.
    pub device_read_bytes: u64,
    /// Bytes written to the device, by anyone.
    pub device_written_bytes: u64,
    /// Write requests that the device completed.
    pub device_writes: u64,
    /// Flush requests that the device completed.
    pub device_flushes: u64,
    /// Bytes that the process caused to be read from the device, what it read through the page cache with it.
    pub process_read_bytes: u64,
    /// Bytes that the process caused to be written.
    pub process_written_bytes: u64,
    /// Processor time of the process in milliseconds.
    pub cpu_ms: u64,
    /// Context switches of the process, those that it asked for and those that it did not.
    pub context_switches: u64,
}

impl Counters {
    /// What came since `before`.
    #[must_use]
    pub fn since(&self, before: &Counters) -> Counters {
        let less = |now: u64, then: u64| now.saturating_sub(then);
        Counters {
            device_read_bytes: less(self.device_read_bytes, before.device_read_bytes),
            device_written_bytes: less(self.device_written_bytes, before.device_written_bytes),
            device_writes: less(self.device_writes, before.device_writes),
            device_flushes: less(self.device_flushes, before.device_flushes),
            process_read_bytes: less(self.process_read_bytes, before.process_read_bytes),
            process_written_bytes: less(self.process_written_bytes, before.process_written_bytes),
            cpu_ms: less(self.cpu_ms, before.cpu_ms),
            context_switches: less(self.context_switches, before.context_switches),
        }
    }
}

/// Where the counters of a directory's device and of a process are.
#[derive(Debug, Clone)]
pub struct Source {
    stat: Option<PathBuf>,
    process: PathBuf,
}

impl Source {
    /// The device that holds a directory, and this process; nothing where the system does not show it.
    #[must_use]
    pub fn of(directory: &Path) -> Source {
        Source {
            stat: stat_of(directory),
            process: PathBuf::from("/proc/self"),
        }
    }

    /// As [`Source::of`], for another process.
    #[must_use]
    pub fn of_process(directory: &Path, process: u32) -> Source {
        Source {
            process: PathBuf::from(format!("/proc/{process}")),
            ..Source::of(directory)
        }
    }

    /// Reads everything.
    #[must_use]
    pub fn read(&self) -> Counters {
        let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let mut counters = self
            .stat
            .as_deref()
            .map_or_else(Counters::default, |path| block_stat(&text(path)));
        let io = text(&self.process.join("io"));
        counters.process_read_bytes = named(&io, "read_bytes:");
        counters.process_written_bytes = named(&io, "write_bytes:");
        counters.cpu_ms = cpu_ms(&text(&self.process.join("stat")));
        counters.context_switches = context_switches(&self.process);
        counters
    }
}

#[cfg(target_os = "linux")]
fn stat_of(directory: &Path) -> Option<PathBuf> {
    use std::os::linux::fs::MetadataExt;

    let device = fs::metadata(directory).ok()?.st_dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let found = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    // Flushes are counted for the whole disk only.
    let disk = if found.join("partition").exists() {
        found.parent()?.to_owned()
    } else {
        found
    };
    Some(disk.join("stat"))
}

/// No other system shows it so.
#[cfg(not(target_os = "linux"))]
fn stat_of(_: &Path) -> Option<PathBuf> {
    None
}

fn block_stat(text: &str) -> Counters {
    let fields: Vec<u64> = text
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    let field = |at: usize| fields.get(at).copied().unwrap_or(0);
    Counters {
        device_read_bytes: field(2) * SECTOR_BYTES,
        device_writes: field(4),
        device_written_bytes: field(6) * SECTOR_BYTES,
        device_flushes: field(15),
        ..Counters::default()
    }
}

pub(crate) fn named(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn cpu_ms(stat: &str) -> u64 {
    // The command's name, in brackets, may hold anything.
    let after = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks = |at: usize| {
        fields
            .get(at)
            .and_then(|field| field.parse::<u64>().ok())
            .unwrap_or(0)
    };
    (ticks(11) + ticks(12)) * 1000 / TICKS_PER_SECOND
}

fn context_switches(process: &Path) -> u64 {
    let Ok(tasks) = fs::read_dir(process.join("task")) else {
        return 0;
    };
    let of = |task: &Path| {
        let status = fs::read_to_string(task.join("status")).unwrap_or_default();
        named(&status, "voluntary_ctxt_switches:") + named(&status, "nonvoluntary_ctxt_switches:")
    };
    tasks.flatten().map(|task| of(&task.path())).sum()
}

/// Bytes that a directory takes on the disk.
#[must_use]
pub fn space_bytes(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else {
        return 0;
    };
    let of = |path: PathBuf| match fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.is_dir() => space_bytes(&path),
        Ok(metadata) => metadata.blocks() * SECTOR_BYTES,
        Err(_) => 0,
    };
    entries.flatten().map(|entry| of(entry.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the kernel's fields are read as it documents them. Method: a line of each file.
    #[test]
    fn the_kernels_fields_are_read() {
        let stat = "  100 1 800 5 200 2 1600 7 0 9 12 0 0 0 0 33 4";
        let counters = block_stat(stat);
        assert_eq!(counters.device_read_bytes, 800 * 512);
        assert_eq!(
            (counters.device_writes, counters.device_written_bytes),
            (200, 1600 * 512)
        );
        assert_eq!(counters.device_flushes, 33);
        assert_eq!(named("rchar: 1\nwrite_bytes: 4096\n", "write_bytes:"), 4096);
        assert_eq!(
            cpu_ms("7 (a ) b) S 1 1 1 0 -1 4194560 1 0 0 0 250 50 0 0"),
            3000
        );
    }

    /// Goal: this machine's own counters are found. Method: write something, durably, and see the counters move.
    #[test]
    fn what_is_written_is_counted() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let source = Source::of(directory.path());
        let before = source.read();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![7; 1 << 20]).expect("it can be written");
        std::fs::File::open(&path)
            .expect("it is there")
            .sync_all()
            .expect("it can be synced");
        let since = source.read().since(&before);
        assert!(space_bytes(directory.path()) >= 1 << 20);
        if source.stat.is_some() {
            assert!(since.device_written_bytes >= 1 << 20, "{since:?}");
        }
    }
}
