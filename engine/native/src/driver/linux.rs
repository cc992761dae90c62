//! What Linux says of the device under a file.

use std::fs;
use std::path::{Path, PathBuf};

/// The queue of the device that holds a file, as sysfs shows it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    pub(crate) name: String,
    pub(crate) model: String,
    /// `write back`: there is a cache that needs flushing.
    pub(crate) volatile_cache: Option<bool>,
    pub(crate) fua: Option<bool>,
    pub(crate) rotational: Option<bool>,
    pub(crate) logical_block_bytes: Option<u32>,
    pub(crate) physical_block_bytes: Option<u32>,
    pub(crate) atomic_write_bytes: Option<u32>,
}

/// Looks a device number up.
pub(crate) fn queue_of(device: u64) -> Option<Queue> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let link = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let mut directory = fs::canonicalize(link).ok()?;
    // A partition has no queue of its own.
    if !directory.join("queue").is_dir() {
        directory = directory.parent()?.to_owned();
    }
    let queue = directory.join("queue");
    let number = |name: &str| text(&queue.join(name)).and_then(|text| text.parse().ok());
    let flag = |name: &str| number(name).map(|number: u32| number != 0);
    Some(Queue {
        name: directory.file_name()?.to_string_lossy().into_owned(),
        model: text(&directory.join("device/model")).unwrap_or_default(),
        volatile_cache: text(&queue.join("write_cache")).and_then(|text| match text.as_str() {
            "write back" => Some(true),
            "write through" => Some(false),
            _ => None,
        }),
        fua: flag("fua"),
        rotational: flag("rotational"),
        logical_block_bytes: number("logical_block_size"),
        physical_block_bytes: number("physical_block_size"),
        atomic_write_bytes: number("atomic_write_unit_max_bytes"),
    })
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}
