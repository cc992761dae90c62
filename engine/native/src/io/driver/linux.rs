//! What Linux says of a file and of the device under it.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatxFlags};

/// ext2, ext3 and ext4, and XFS, by their magic numbers (`statfs(2)`): they overwrite a block where it is, unless it is shared with a copy. Others write it elsewhere
/// (btrfs, F2FS, bcachefs, NILFS), and where that is becomes durable with a flush only, or nobody knows (network, FUSE, overlays).
const IN_PLACE: [i128; 2] = [0xEF53, 0x5846_5342];

/// Whether the file system is known to overwrite a written block where it is.
pub(crate) fn overwrites_in_place(file: &fs::File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|found| IN_PLACE.contains(&i128::from(found.f_type)))
}

/// Whether direct I/O bypasses the page cache for this file, as the kernel says (from Linux 6.1 on). Some files can be
/// opened with `O_DIRECT` and still go through the page cache: encrypted files, and files whose data is journalled.
pub(crate) fn does_direct_io(file: &fs::File) -> Option<bool> {
    let asked = StatxFlags::DIOALIGN;
    let found = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, asked).ok()?;
    let is_told = found.stx_mask & asked.bits() != 0;
    is_told.then_some(found.stx_dio_mem_align != 0)
}

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
