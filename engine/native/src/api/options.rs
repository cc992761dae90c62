//! What a database is opened with.

use crate::record::Recorder;

/// What "durable" means for this database. Figures of different kinds do not compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// The drive's own cache is flushed too: write-through or flush on Linux, `F_FULLFSYNC` on macOS.
    #[default]
    Full,
    /// `fsync` as the platform does it. On Linux that is the same as `Full`; on macOS it stops at the drive's cache.
    Os,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Full => "full",
            Kind::Os => "os",
        })
    }
}

/// How operations reach the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DriverChoice {
    /// io_uring where the kernel allows it, else threads.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// A pool of threads that block.
    Threads,
}

/// How to open a database.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// What "durable" means.
    pub kind: Kind,
    /// How operations reach the disk.
    pub driver: DriverChoice,
    /// Size of a new file, which is written in full at once; later it grows by itself. Ignored for a block device.
    pub size_bytes: u64,
    /// The file grows no further than this; 0: as far as the file system has room.
    pub max_bytes: u64,
    /// Bound of the cache of values by key.
    pub cache_bytes: u64,
    /// Take the caller's word that the drive's cache survives a power cut, so that no flush is needed.
    pub assume_power_loss_protection: bool,
    /// The engine's own options as `name=value` lines.
    pub engine: String,
    /// Notes everything that is asked of the kernel. For tests: it keeps a copy of every byte that is written.
    #[cfg(feature = "record")]
    pub recorder: Option<Recorder>,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            kind: Kind::Full,
            driver: DriverChoice::Auto,
            size_bytes: 256 << 20,
            max_bytes: 0,
            cache_bytes: 256 << 20,
            assume_power_loss_protection: false,
            engine: String::new(),
            #[cfg(feature = "record")]
            recorder: None,
        }
    }
}

impl OpenOptions {
    /// Who notes everything, if anybody does.
    pub(crate) fn recorder(&self) -> Option<Recorder> {
        #[cfg(feature = "record")]
        return self.recorder.clone();
        #[cfg(not(feature = "record"))]
        None
    }
}
