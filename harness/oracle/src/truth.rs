//! What the device really did, as far as it changes what may be asked of a guest.

use kvsim_sim::Storage;
use kvsim_simdisk::{FaultKind, Nanos};
use serde::{Deserialize, Serialize};

/// What has befallen the device since the guest was started on it: what excuses a guest that fails in this process run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunFaults {
    /// Reads of which the guest was told that they failed.
    pub read_failures: u64,
    /// Writes of which the guest was told that they failed.
    pub write_failures: u64,
    /// Flushes of which the guest was told that they failed.
    pub flush_failures: u64,
    /// Operations that a fault refused for want of space. A growth beyond the limit of the device is none.
    pub no_space: u64,
    /// Lies of any kind.
    pub lies: u64,
}

impl RunFaults {
    /// Since the storage was made.
    #[must_use]
    pub fn of(storage: &Storage) -> RunFaults {
        let failures = storage.failures();
        RunFaults {
            read_failures: failures.reads,
            write_failures: failures.writes,
            flush_failures: failures.flushes,
            no_space: storage.fired(FaultKind::NoSpace),
            lies: storage.lies(),
        }
    }

    /// Since a moment at which it was `start`.
    fn since(self, start: RunFaults) -> RunFaults {
        RunFaults {
            read_failures: self.read_failures - start.read_failures,
            write_failures: self.write_failures - start.write_failures,
            flush_failures: self.flush_failures - start.flush_failures,
            no_space: self.no_space - start.no_space,
            lies: self.lies - start.lies,
        }
    }
}

/// How often each fault has fired since the world began, which of the last writes lies have harmed, and the last moment that made anything durable.
///
/// The counts are cumulative: the oracle remembers what they were at the last recovery. What excuses an error is in `this_run` and `damaged_sectors`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeviceTruth {
    /// Flushes acknowledged that did nothing.
    pub flush_lies: u64,
    /// Writes acknowledged that never reached the medium.
    pub lost_writes: u64,
    /// Writes that landed elsewhere.
    pub misdirected_writes: u64,
    /// Reads that came from elsewhere.
    pub misdirected_reads: u64,
    /// Reads that gave older content.
    pub stale_reads: u64,
    /// Bits flipped at rest.
    pub bit_rot: u64,
    /// Sectors that went bad at rest and fail when read.
    pub latent_errors: u64,
    /// Reads that failed honestly.
    pub read_errors: u64,
    /// Writes that failed honestly.
    pub write_errors: u64,
    /// Flushes that failed honestly.
    pub flush_errors: u64,
    /// Operations refused for want of space.
    pub no_space: u64,
    /// How often the power was cut.
    pub power_cuts: u64,
    /// When the device last made something durable: the last completion of a flush or a write-through, and of any write if
    /// there is no volatile cache. Tells writes acknowledged without any flush.
    pub last_flush_completed_ns: Option<Nanos>,
    /// Operations of which a guest was told that they failed, or were refused for want of space.
    pub failures: u64,
    /// What has happened in this process run.
    pub this_run: RunFaults,
    /// Sectors that do not hold what the device said that they hold, or cannot be read.
    pub damaged_sectors: u64,
    /// The present size of the device; 0 where nobody knows.
    pub capacity_bytes: u64,
    /// The longest that an operation has taken, queueing included: what is granted on top of a window of time.
    pub slowest_ns: Nanos,
    /// When those of the last writes were submitted that damage has struck. For the ambiguity of the tail.
    pub harmed_ns: Vec<Nanos>,
}

impl DeviceTruth {
    /// The storage's own word; `start` is what had happened to it when the guest was started.
    #[must_use]
    pub fn of(storage: &Storage, start: RunFaults) -> DeviceTruth {
        let fired = |kind| storage.fired(kind);
        DeviceTruth {
            flush_lies: fired(FaultKind::FlushLie),
            lost_writes: fired(FaultKind::LostWrite),
            misdirected_writes: fired(FaultKind::MisdirectedWrite),
            misdirected_reads: fired(FaultKind::MisdirectedRead),
            stale_reads: fired(FaultKind::StaleRead),
            bit_rot: fired(FaultKind::BitRot),
            latent_errors: fired(FaultKind::LatentSectorError),
            read_errors: fired(FaultKind::ReadError),
            write_errors: fired(FaultKind::WriteError),
            flush_errors: fired(FaultKind::FlushError),
            no_space: fired(FaultKind::NoSpace),
            power_cuts: storage.power_cuts(),
            failures: RunFaults::of(storage).failures(),
            this_run: RunFaults::of(storage).since(start),
            damaged_sectors: storage.damaged_sectors(),
            capacity_bytes: storage.capacity_bytes(),
            last_flush_completed_ns: storage.made_durable_at(),
            slowest_ns: storage.slowest_ns(),
            harmed_ns: storage.harmed().to_vec(),
        }
    }

    /// Lies that leave or make wrong bytes: everything dishonest but a flush that does nothing.
    #[must_use]
    pub fn damage(&self) -> u64 {
        self.lost_writes
            + self.misdirected_writes
            + self.misdirected_reads
            + self.stale_reads
            + self.bit_rot
            + self.latent_errors
    }

    /// Whether damage may be reported: the device lied in this process run, or the medium is damaged still.
    #[must_use]
    pub fn may_be_damaged(&self) -> bool {
        self.this_run.lies > 0 || self.damaged_sectors > 0
    }

    /// Lies of any kind.
    #[must_use]
    pub fn lies(&self) -> u64 {
        self.damage() + self.flush_lies
    }

    /// Honest failures.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.read_errors + self.write_errors + self.flush_errors + self.no_space
    }

    /// Whether the device has ever done anything but what it was told.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.lies() + self.errors() == 0
    }
}

impl RunFaults {
    /// Operations of which the guest was told that they failed.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.read_failures + self.write_failures + self.flush_failures + self.no_space
    }
}
