//! What the system has in memory of a database is dropped, as a machine that starts has nothing of it.
//!
//! Sources: `posix_fadvise(2)`; the kernel's `Documentation/admin-guide/sysctl/vm.rst` (`drop_caches`).

use std::path::Path;

use kvsim_store::wait_until_quiet::write_out;

/// What an opening found in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cold {
    /// Nothing: all caches of the system were dropped, the file system's own data with them.
    Everything,
    /// Nothing of the files, but perhaps the file system's own data: dropping these is for root.
    Files,
    /// Perhaps all of it: the system does not drop what it has.
    Nothing,
}

impl Cold {
    /// In a few words, for print.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Cold::Everything => "cold: all caches of the system were dropped",
            Cold::Files => "cold, but for the file system's own data: dropping these is for root",
            Cold::Nothing => "WARM: this system drops no caches",
        }
    }
}

/// Writes out what the file system holds back, as only then it can be dropped, and drops what can be.
pub(super) fn drop_cache(directory: &Path) -> Cold {
    write_out(directory);
    if !drop_files(directory) {
        return Cold::Nothing;
    }
    match std::fs::write("/proc/sys/vm/drop_caches", "3") {
        Ok(()) => Cold::Everything,
        Err(_) => Cold::Files,
    }
}

/// Whether the system took all files of this directory out of its memory.
#[cfg(target_os = "linux")]
fn drop_files(directory: &Path) -> bool {
    use rustix::fs::{Advice, fadvise};

    let Ok(entries) = std::fs::read_dir(directory) else {
        return false;
    };
    let drop_one = |path: &Path| {
        std::fs::File::open(path)
            .is_ok_and(|file| fadvise(&file, 0, None, Advice::DontNeed).is_ok())
    };
    let dropped = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => drop_files(&entry.path()),
        Ok(kind) if kind.is_file() => drop_one(&entry.path()),
        _ => true,
    };
    entries
        .flatten()
        .map(dropped)
        .fold(true, |all, one| all & one)
}

/// No other system has a call for it.
#[cfg(not(target_os = "linux"))]
fn drop_files(_: &Path) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Write as _;

    use kvsim_store::counters::Source;

    use super::*;

    /// Goal: what was dropped is read from the disk again. Method: a file that was written out, in a directory of the directory, read before and after.
    #[test]
    fn what_was_dropped_is_read_again() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let below = directory.path().join("below");
        std::fs::create_dir(&below).expect("a directory");
        let path = below.join("file");
        let mut file = std::fs::File::create(&path).expect("a file");
        file.write_all(&vec![7; 8 << 20]).expect("room");
        file.sync_all().expect("a disk");
        let source = Source::of_process(directory.path(), std::process::id());
        let read = || {
            let before = source.read();
            assert_eq!(std::fs::read(&path).expect("it is there").len(), 8 << 20);
            source.read().since(&before).process_read_bytes
        };
        assert_eq!(read(), 0, "it is in memory");
        assert!(drop_files(directory.path()));
        assert!(read() >= 8 << 20);
    }
}
