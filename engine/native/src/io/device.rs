//! What was found about the device, and what follows from it: whether a completed write is durable, and how to make it so.
//!
//! A device counts as free of a volatile cache in two cases only. Either three things are shown: the kernel says so,
//! the page cache is bypassed, and the file's extents are written and are overwritten in place. Or the caller says so,
//! and then every report says that only the caller said so.

use std::fmt;
use std::os::unix::fs::MetadataExt;

use kvsim_engine::DeviceInfo;

use crate::api::options::{Kind, OpenOptions};
use crate::io::file::DataFile;

/// Below this a drive may disturb its neighbours, whatever it says.
const BLOCK_BYTES_MIN: u32 = 4096;

/// What the probe found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeviceReport {
    /// The file or the device.
    pub path: std::path::PathBuf,
    /// The device that holds it and its model, where the system tells.
    pub device: String,
    /// A raw block device, not a file.
    pub is_block_device: bool,
    /// Whether the page cache is bypassed.
    pub direct: bool,
    /// Whether the kernel says that the device has a volatile write cache; `None` if it does not say.
    pub volatile_cache: Option<bool>,
    /// Whether single writes can be forced through that cache by the device itself.
    pub fua: Option<bool>,
    /// An aligned write up to this size is all or nothing; 0 if the device does not promise any.
    pub atomic_write_bytes: u32,
    /// The unit of addressing.
    pub sector_bytes: u32,
    /// The unit of rewriting.
    pub block_bytes: u32,
    /// What durable means here.
    pub kind: Kind,
    /// Whether commits need a flush or a write-through to be durable.
    pub flush_needed: bool,
    /// Why.
    pub reason: &'static str,
    /// Whether only the caller says so.
    pub assumed: bool,
    /// The driver in use.
    pub driver: &'static str,
    /// Why it is not the first choice.
    pub driver_note: Option<String>,
}

impl DeviceReport {
    pub(crate) fn probe(file: &DataFile, options: &OpenOptions) -> DeviceReport {
        let facts = facts(file);
        let reaches_it = file.direct && facts.in_place;
        let safe = facts.volatile_cache == Some(false) && reaches_it && facts.direct_shown;
        let assumed = options.assume_power_loss_protection && reaches_it && !safe;
        let reason = if safe {
            "the kernel says that the device has no volatile cache, and the page cache is bypassed"
        } else if assumed {
            "the caller vouches that the drive's cache survives a power cut"
        } else if !file.direct {
            "the page cache cannot be bypassed on this file system"
        } else if !facts.in_place {
            "the file system is not known to overwrite blocks where they are"
        } else if facts.volatile_cache == Some(false) {
            "the kernel does not say that the page cache is bypassed, which it does from Linux 6.1 on"
        } else if facts.volatile_cache == Some(true) {
            "the device has a volatile cache"
        } else {
            "the system does not say whether the device has a volatile cache"
        };
        DeviceReport {
            path: file.path.clone(),
            device: facts.name,
            is_block_device: file.is_block_device,
            direct: file.direct,
            volatile_cache: facts.volatile_cache,
            fua: facts.fua,
            atomic_write_bytes: facts.atomic_write_bytes,
            sector_bytes: facts.sector_bytes,
            block_bytes: facts.block_bytes.max(BLOCK_BYTES_MIN),
            kind: file.kind,
            flush_needed: !(safe || assumed),
            reason,
            assumed,
            driver: "",
            driver_note: None,
        }
    }

    /// The same in the engine's words.
    pub(crate) fn info(&self, file: &DataFile) -> DeviceInfo {
        DeviceInfo {
            sector_bytes: self.sector_bytes,
            physical_block_bytes: self.block_bytes,
            volatile_cache: self.flush_needed,
            write_through: cfg!(target_os = "linux"),
            capacity_bytes: file.len_bytes(),
            max_capacity_bytes: file.max_bytes(),
        }
    }
}

struct Facts {
    name: String,
    volatile_cache: Option<bool>,
    fua: Option<bool>,
    atomic_write_bytes: u32,
    sector_bytes: u32,
    block_bytes: u32,
    /// An overwrite changes nothing of the file system.
    in_place: bool,
    /// The kernel says so where direct I/O bypasses the page cache.
    direct_shown: bool,
}

#[cfg(target_os = "linux")]
fn facts(file: &DataFile) -> Facts {
    use crate::io::driver::linux;
    let device = file.file.metadata().map_or(0, |metadata| {
        if file.is_block_device {
            metadata.rdev()
        } else {
            metadata.dev()
        }
    });
    let queue = linux::queue_of(device).unwrap_or_default();
    let spinning = if queue.rotational == Some(true) {
        ", rotational"
    } else {
        ""
    };
    let named = [queue.name.as_str(), queue.model.as_str()];
    let named: Vec<&str> = named.into_iter().filter(|text| !text.is_empty()).collect();
    Facts {
        name: format!("{}{spinning}", named.join(" ")),
        volatile_cache: queue.volatile_cache,
        fua: queue.fua,
        atomic_write_bytes: queue.atomic_write_bytes.unwrap_or(0),
        sector_bytes: queue.logical_block_bytes.unwrap_or(512).max(512),
        block_bytes: queue.physical_block_bytes.unwrap_or(BLOCK_BYTES_MIN),
        in_place: file.is_block_device || linux::overwrites_in_place(&file.file),
        direct_shown: file.is_block_device || linux::does_direct_io(&file.file) == Some(true),
    }
}

#[cfg(not(target_os = "linux"))]
fn facts(file: &DataFile) -> Facts {
    let block = file
        .file
        .metadata()
        .map_or(u64::from(BLOCK_BYTES_MIN), |metadata| metadata.blksize());
    #[cfg(target_vendor = "apple")]
    let name = crate::io::apple::device_of(&file.file);
    #[cfg(not(target_vendor = "apple"))]
    let name = String::new();
    Facts {
        name,
        volatile_cache: None,
        fua: None,
        atomic_write_bytes: 0,
        sector_bytes: 512,
        block_bytes: u32::try_from(block).unwrap_or(BLOCK_BYTES_MIN).min(16_384),
        // Nothing is known to be safe there; who vouches for the drive vouches for the file as well.
        in_place: true,
        direct_shown: false,
    }
}

impl fmt::Display for DeviceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |flag: Option<bool>, yes: &'static str, no: &'static str| match flag {
            Some(true) => yes,
            Some(false) => no,
            None => "unknown",
        };
        let what = if self.is_block_device {
            "device"
        } else {
            "file"
        };
        writeln!(f, "{what} {} on {}", self.path.display(), self.device)?;
        writeln!(
            f,
            "cache {} · FUA {} · atomic write {} · sector {} · block {} · {}",
            known(self.volatile_cache, "volatile", "none"),
            known(self.fua, "yes", "no"),
            self.atomic_write_bytes,
            self.sector_bytes,
            self.block_bytes,
            if self.direct { "direct" } else { "buffered" },
        )?;
        let how = match (self.flush_needed, self.assumed) {
            (true, _) => "flushes needed",
            (false, false) => "no flush needed",
            (false, true) => "NO FLUSHES, UNPROVEN",
        };
        write!(
            f,
            "durability {} · {how}: {} · driver {}",
            self.kind, self.reason, self.driver
        )?;
        match &self.driver_note {
            Some(note) => write!(f, " ({note})"),
            None => Ok(()),
        }
    }
}
