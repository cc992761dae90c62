//! How often each fault could have fired and did, and what was called.

use serde::{Deserialize, Serialize};

/// Every kind of fault that the file system knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileFault {
    /// A power cut lost a step that was not durable.
    Loss,
    /// A power cut kept a later step and lost an earlier one.
    Reorder,
    /// A power cut kept some of a page's sectors.
    Torn,
    /// The cut fell into a sync.
    CutInSync,
    /// A sync failed.
    SyncError,
    /// A sync found no space.
    NoSpaceSync,
    /// A write found no space.
    NoSpaceWrite,
    /// An allocation found no space.
    NoSpaceAllocate,
    /// A read failed.
    ReadError,
    /// A read gave fewer bytes than there were.
    ShortRead,
    /// A write took fewer bytes than it was given.
    ShortWrite,
    /// A bit of the medium flipped.
    BitRot,
    /// A sync did nothing and said that it had.
    SyncLie,
    /// A power cut tore a sector of a page in the middle. The last one: the numbers of the kinds before it say what is drawn for them.
    ByteTear,
}

impl FileFault {
    /// Every kind, in the order of reports.
    pub const ALL: [FileFault; 14] = [
        FileFault::Loss,
        FileFault::Reorder,
        FileFault::Torn,
        FileFault::CutInSync,
        FileFault::SyncError,
        FileFault::NoSpaceSync,
        FileFault::NoSpaceWrite,
        FileFault::NoSpaceAllocate,
        FileFault::ReadError,
        FileFault::ShortRead,
        FileFault::ShortWrite,
        FileFault::BitRot,
        FileFault::SyncLie,
        FileFault::ByteTear,
    ];

    /// The name in scenarios and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FileFault::Loss => "loss",
            FileFault::Reorder => "reorder",
            FileFault::Torn => "torn",
            FileFault::ByteTear => "byte_tear",
            FileFault::CutInSync => "cut_in_sync",
            FileFault::SyncError => "sync_error",
            FileFault::NoSpaceSync => "no_space_sync",
            FileFault::NoSpaceWrite => "no_space_write",
            FileFault::NoSpaceAllocate => "no_space_allocate",
            FileFault::ReadError => "read_error",
            FileFault::ShortRead => "short_read",
            FileFault::ShortWrite => "short_write",
            FileFault::BitRot => "bit_rot",
            FileFault::SyncLie => "sync_lie",
        }
    }

    /// Whether it belongs to a power cut, and not to one call that a script could name.
    #[must_use]
    pub fn is_of_a_cut(self) -> bool {
        use FileFault::{ByteTear, CutInSync, Loss, Reorder, Torn};
        matches!(self, Loss | Reorder | Torn | ByteTear | CutInSync)
    }

    /// Whether the file system says one thing and does another, so that no engine on it can keep every promise.
    #[must_use]
    pub fn is_lie(self) -> bool {
        matches!(self, FileFault::BitRot | FileFault::SyncLie)
    }
}

/// How often one kind of fault was possible, and how often it fired.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFaultCount {
    /// Times the fault was asked for and the circumstances allowed it.
    pub possible: u64,
    /// Times it happened.
    pub fired: u64,
}

/// The counts of all kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileFaultCounts([FileFaultCount; FileFault::ALL.len()]);

impl FileFaultCounts {
    /// One kind's counts.
    #[must_use]
    pub fn get(&self, kind: FileFault) -> FileFaultCount {
        self.0[kind as usize]
    }

    /// All kinds and their counts, in the order of [`FileFault::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (FileFault, FileFaultCount)> + '_ {
        let all = FileFault::ALL.into_iter();
        all.map(|kind| (kind, self.get(kind)))
    }

    /// How many lies of any kind were told.
    #[must_use]
    pub fn lies(&self) -> u64 {
        let lies = self.iter().filter(|(kind, _)| kind.is_lie());
        lies.map(|(_, count)| count.fired).sum()
    }

    /// Adds another file system's counts.
    pub fn add(&mut self, other: &FileFaultCounts) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            mine.possible += theirs.possible;
            mine.fired += theirs.fired;
        }
    }

    pub(crate) fn possible(&mut self, kind: FileFault) {
        self.0[kind as usize].possible += 1;
    }

    pub(crate) fn fired(&mut self, kind: FileFault) {
        self.0[kind as usize].fired += 1;
    }

    pub(crate) fn count(&mut self, kind: FileFault, fired: bool) {
        let count = &mut self.0[kind as usize];
        count.possible += 1;
        count.fired += u64::from(fired);
    }
}

/// What was asked of a file system, and what of it failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStats {
    /// Calls of any kind.
    pub calls: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Syncs of files.
    pub file_syncs: u64,
    /// Syncs of directories.
    pub directory_syncs: u64,
    /// Reads that failed by a fault.
    pub failed_reads: u64,
    /// Writes and allocations that found no space.
    pub failed_writes: u64,
    /// Syncs that failed.
    pub failed_syncs: u64,
}
