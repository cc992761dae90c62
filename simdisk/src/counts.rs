//! What happened on a device: how often each fault could have fired and did, and the operations and bytes by kind.

use crate::DiskError;
use serde::{Deserialize, Serialize};

/// Every kind of fault the model knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A power cut lost a write that was not durable.
    Loss,
    /// A power cut kept a later write and lost an earlier one, or applied overlapping ones out of order.
    Reorder,
    /// A power cut kept some of a write's sectors.
    Torn,
    /// A sector being written at the cut holds garbage.
    Garbage,
    /// A sector being written at the cut is new up to some byte and old after it.
    ByteTear,
    /// The cut fell while a flush was in flight.
    CutInFlush,
    /// An operation took far longer than its distribution says.
    Stall,
    /// A read failed.
    ReadError,
    /// A write failed.
    WriteError,
    /// A flush failed.
    FlushError,
    /// After a failed flush the device dropped what it should have flushed.
    DirtyDropped,
    /// A write or growth found no space.
    NoSpace,
    /// A flush was acknowledged and did nothing.
    FlushLie,
    /// A write was acknowledged and never happened.
    LostWrite,
    /// A write landed elsewhere.
    MisdirectedWrite,
    /// A read returned another place's bytes.
    MisdirectedRead,
    /// A read returned what had been there before the last overwrite.
    StaleRead,
    /// A bit of the medium flipped.
    BitRot,
    /// A sector of the medium became unreadable.
    LatentSectorError,
    /// A sector being written at the cut is unreadable until it is rewritten.
    TornUnreadable,
}

impl FaultKind {
    /// Every kind, in the order of reports.
    pub const ALL: [FaultKind; 20] = [
        FaultKind::Loss,
        FaultKind::Reorder,
        FaultKind::Torn,
        FaultKind::Garbage,
        FaultKind::ByteTear,
        FaultKind::CutInFlush,
        FaultKind::Stall,
        FaultKind::ReadError,
        FaultKind::WriteError,
        FaultKind::FlushError,
        FaultKind::DirtyDropped,
        FaultKind::NoSpace,
        FaultKind::FlushLie,
        FaultKind::LostWrite,
        FaultKind::MisdirectedWrite,
        FaultKind::MisdirectedRead,
        FaultKind::StaleRead,
        FaultKind::BitRot,
        FaultKind::LatentSectorError,
        FaultKind::TornUnreadable,
    ];

    /// The name in scenarios and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Loss => "loss",
            FaultKind::Reorder => "reorder",
            FaultKind::Torn => "torn",
            FaultKind::Garbage => "garbage",
            FaultKind::ByteTear => "byte_tear",
            FaultKind::CutInFlush => "cut_in_flush",
            FaultKind::Stall => "stall",
            FaultKind::ReadError => "read_error",
            FaultKind::WriteError => "write_error",
            FaultKind::FlushError => "flush_error",
            FaultKind::DirtyDropped => "dirty_dropped",
            FaultKind::NoSpace => "no_space",
            FaultKind::FlushLie => "flush_lie",
            FaultKind::LostWrite => "lost_write",
            FaultKind::MisdirectedWrite => "misdirected_write",
            FaultKind::MisdirectedRead => "misdirected_read",
            FaultKind::StaleRead => "stale_read",
            FaultKind::BitRot => "bit_rot",
            FaultKind::LatentSectorError => "latent_sector_error",
            FaultKind::TornUnreadable => "torn_unreadable",
        }
    }

    /// Whether it belongs to a power cut, and not to one operation that a script could name.
    #[must_use]
    pub fn is_of_a_cut(self) -> bool {
        use FaultKind::{ByteTear, CutInFlush, Garbage, Loss, Reorder, Torn, TornUnreadable};
        matches!(
            self,
            Loss | Reorder | Torn | Garbage | ByteTear | TornUnreadable | CutInFlush
        )
    }

    /// Whether the device says one thing and does another, so that no engine on it can keep every promise.
    #[must_use]
    pub fn is_lie(self) -> bool {
        use FaultKind::{
            BitRot, FlushLie, LatentSectorError, LostWrite, MisdirectedRead, MisdirectedWrite,
            StaleRead,
        };
        matches!(
            self,
            FlushLie
                | LostWrite
                | MisdirectedWrite
                | MisdirectedRead
                | StaleRead
                | BitRot
                | LatentSectorError
        )
    }
}

/// How often one kind of fault was possible, and how often it fired.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultCount {
    /// Times the fault was asked for and the circumstances allowed it.
    pub possible: u64,
    /// Times it happened.
    pub fired: u64,
}

/// The counts of all kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounts([FaultCount; FaultKind::ALL.len()]);

impl FaultCounts {
    /// One kind's counts.
    #[must_use]
    pub fn get(&self, kind: FaultKind) -> FaultCount {
        self.0[kind as usize]
    }

    /// All kinds and their counts, in the order of [`FaultKind::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (FaultKind, FaultCount)> + '_ {
        FaultKind::ALL
            .into_iter()
            .map(|kind| (kind, self.get(kind)))
    }

    /// How many lies of any kind were told.
    #[must_use]
    pub fn lies(&self) -> u64 {
        self.iter()
            .filter(|(kind, _)| kind.is_lie())
            .map(|(_, count)| count.fired)
            .sum()
    }

    /// Adds another device's counts.
    pub fn add(&mut self, other: &FaultCounts) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            mine.possible += theirs.possible;
            mine.fired += theirs.fired;
        }
    }

    pub(crate) fn possible(&mut self, kind: FaultKind) {
        self.0[kind as usize].possible += 1;
    }

    pub(crate) fn fired(&mut self, kind: FaultKind) {
        self.0[kind as usize].fired += 1;
    }

    pub(crate) fn count(&mut self, kind: FaultKind, fired: bool) {
        let count = &mut self.0[kind as usize];
        count.possible += 1;
        count.fired += u64::from(fired);
    }
}

/// Operations that ended with an error of which the host was told, since the device was made. An error that stays on the medium counts each time
/// that it is met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Failures {
    /// Reads.
    pub reads: u64,
    /// Of these, reads that failed only because a power cut had torn a sector and made it unreadable.
    pub torn_reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
}

impl Failures {
    pub(crate) fn count(&mut self, error: DiskError) {
        match error {
            DiskError::Read => self.reads += 1,
            DiskError::Write => self.writes += 1,
            DiskError::Flush => self.flushes += 1,
            // Counted as a fault where it is one: a growth beyond the limit is none.
            DiskError::NoSpace => {}
        }
    }
}

/// Operations and bytes that reached the device, for write amplification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceStats {
    /// Reads submitted.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes submitted, write-through ones among them.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Write-through writes submitted.
    pub write_throughs: u64,
    /// Flushes submitted, barriers among them.
    pub flushes: u64,
    /// Discards submitted.
    pub discards: u64,
    /// Growths submitted.
    pub grows: u64,
}
