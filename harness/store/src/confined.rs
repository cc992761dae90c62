//! A process that gets no more than so much memory, what the system caches of its files included.
//!
//! Engines that read through the page cache take of it what they can get, and that is in no figure of the process. In a control group of its own an engine has what it was
//! given, as on a machine of that size.
//!
//! Sources: the kernel's `Documentation/admin-guide/cgroup-v1/memory.rst` and `cgroup-v2.rst`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// Where the system has its control groups: of memory alone (version 1), and of everything (version 2).
const ROOTS: [(&str, &str); 2] = [
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    ("/sys/fs/cgroup", "memory.max"),
];
/// A group can be removed a moment after its last process has ended.
const REMOVALS: u32 = 100;

/// A control group with one process. Dropping it, after the process has ended, removes it.
#[derive(Debug)]
pub(crate) struct Confined {
    group: PathBuf,
}

impl Confined {
    /// Lets a process that has just begun have so many bytes. What it has already does not count. It is killed where it wants more.
    pub(crate) fn new(process: u32, bytes: u64) -> Result<Confined, String> {
        let made = ROOTS.iter().find_map(|(root, limit)| {
            let root = Path::new(root);
            // Version 1 has its file at the root as well, version 2 says there which kinds it counts.
            let is_first = root.join(limit).exists();
            let controllers = fs::read_to_string(root.join("cgroup.controllers"));
            let is_second =
                controllers.is_ok_and(|it| it.split_whitespace().any(|it| it == "memory"));
            (is_first || is_second).then(|| make(root, limit, process, bytes, is_second))
        });
        let made = made
            .unwrap_or_else(|| Err(io::Error::other("no control groups for memory are mounted")));
        made.map_err(|error| {
            format!("its memory cannot be limited: {error}; that takes control groups and, mostly, to be root")
        })
    }
}

fn make(
    root: &Path,
    limit: &str,
    process: u32,
    bytes: u64,
    is_second: bool,
) -> io::Result<Confined> {
    let at = |path: &Path| {
        let path = path.display().to_string();
        move |error: io::Error| io::Error::new(error.kind(), format!("{path}: {error}"))
    };
    if is_second {
        let control = root.join("cgroup.subtree_control");
        fs::write(&control, "+memory").map_err(at(&control))?;
    }
    let group = root.join(format!("kvsim-{process}"));
    fs::create_dir(&group).map_err(at(&group))?;
    let confined = Confined { group };
    for (file, text) in [(limit, bytes), ("cgroup.procs", process.into())] {
        let file = confined.group.join(file);
        fs::write(&file, text.to_string()).map_err(at(&file))?;
    }
    // Of memory and swap together, and of swap. There may be no swap, and then no such file.
    for (file, most) in [
        ("memory.memsw.limit_in_bytes", bytes),
        ("memory.swap.max", 0),
    ] {
        let _ = fs::write(confined.group.join(file), most.to_string());
    }
    Ok(confined)
}

impl Drop for Confined {
    fn drop(&mut self) {
        for _ in 0..REMOVALS {
            match fs::remove_dir(&self.group) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    sleep(Duration::from_millis(10));
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Goal: a process that wants more than it may have is killed, and one that wants less is not. Method: a program with a buffer of 64 MiB, where control groups can be made.
    #[test]
    fn more_than_the_limit_is_not_to_be_had() {
        let ends_well = |mib: u64| {
            let script =
                "read go; exec dd if=/dev/zero of=/dev/null bs=67108864 count=1 2>/dev/null";
            let mut child = Command::new("sh")
                .args(["-c", script])
                .stdin(std::process::Stdio::piped())
                .spawn()
                .expect("a shell");
            let confined = Confined::new(child.id(), mib << 20);
            drop(child.stdin.take());
            let ended = child.wait().expect("it ends");
            confined.map(|confined| {
                let group = confined.group.clone();
                drop(confined);
                assert!(!group.exists(), "{}", group.display());
                ended.success()
            })
        };
        match (ends_well(16), ends_well(1024)) {
            (Ok(small), Ok(large)) => assert_eq!((small, large), (false, true)),
            (Err(error), _) | (_, Err(error)) => assert!(error.contains("root"), "{error}"),
        }
    }
}
