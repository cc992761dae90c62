//! What a killed process leaves, as a hash: what reads return, and what a later power cut may still lose.

use kvsim_fs::FileSystem;
use kvsim_simdisk::{CrashKind, CrashState, Device, Nanos, PendingKind};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// That of a file system.
pub(crate) fn files_hash(files: &FileSystem, now: Nanos) -> u128 {
    let mut files = files.clone();
    let killed = files.crash(now, CrashKind::Process, &CrashState::default());
    if killed.is_err() {
        return 0;
    }
    let image = files.image_hash();
    if files.pending().is_empty() {
        return image;
    }
    let mut hash = Xxh3::new();
    hash.update(&image.to_le_bytes());
    hash.update(&files.durable_hash().to_le_bytes());
    hash.update(&files.pending_hash().to_le_bytes());
    hash.digest128()
}

/// That of a device.
pub(crate) fn device_hash(device: &Device, now: Nanos) -> u128 {
    let mut device = device.clone();
    let killed = device.crash(now, CrashKind::Process, &CrashState::default());
    if killed.is_err() {
        return 0;
    }
    let image = device.image_hash();
    // Where a flush only orders, a power cut excuses more than a kill, so the two are never taken for the same.
    if device.pending().is_empty() && !device.flush_only_orders() {
        return image;
    }
    let mut hash = Xxh3::new();
    hash.update(&image.to_le_bytes());
    hash.update(&device.durable_hash().to_le_bytes());
    for write in device.pending() {
        let (offset, len_bytes) = write.range();
        let content = match &write.kind {
            PendingKind::Write { data, .. } => xxh3_64(data),
            PendingKind::Discard { .. } => 1,
            PendingKind::Grow { new_bytes } => *new_bytes,
        };
        let others = device.pending().iter();
        let followed = others.filter(|other| write.is_ordered_after(other)).count() as u64;
        let dropped = u64::from(write.dropped);
        for number in [offset, len_bytes, content, dropped, followed] {
            hash.update(&number.to_le_bytes());
        }
    }
    hash.digest128()
}
