//! What the device really did, as far as it changes what may be asked of a guest.

use kvsim_sim::{Storage, World};
use kvsim_simdisk::{FaultKind, Nanos, Slowest};
use serde::{Deserialize, Serialize};

/// What has affected the device since the guest was started on it: what excuses a guest that fails in this process run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunFaults {
    /// Reads of which the guest was told that they failed. Those that failed only at sectors that a power cut has torn are none: nothing durable lies
    /// there, so every guest has to do without them.
    pub read_failures: u64,
    /// Reads that failed only at such sectors.
    pub torn_reads: u64,
    /// Reads that met a damaged sector, or that the device answered with a lie.
    pub damaged_reads: u64,
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
            read_failures: failures.reads - failures.torn_reads,
            torn_reads: failures.torn_reads,
            damaged_reads: storage.damaged_reads(),
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
            torn_reads: self.torn_reads - start.torn_reads,
            damaged_reads: self.damaged_reads - start.damaged_reads,
            write_failures: self.write_failures - start.write_failures,
            flush_failures: self.flush_failures - start.flush_failures,
            no_space: self.no_space - start.no_space,
            lies: self.lies - start.lies,
        }
    }
}

/// How often each fault has fired since the world began, which of the last writes lies have damaged, and the last moment that made anything durable.
///
/// The counts are cumulative: the oracle remembers what they were at the last recovery. What excuses an error is in `this_run`, `failing_sectors` and
/// `cut_short`.
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
    /// Sectors that do not hold what the device said that they hold, or cannot be read. Torn ones that cannot be read are none.
    pub damaged_sectors: u64,
    /// Sectors of which a read has failed in this process run, and that were not read since. Torn ones are none. Of files: reads that failed.
    pub failing_sectors: u64,
    /// The device is smaller than it said, since a growth that was durable is gone.
    pub cut_short: bool,
    /// The present size of the device; 0 where nobody knows.
    pub capacity_bytes: u64,
    /// How long operations took, queueing included: what is granted on top of a window of time.
    #[serde(skip)]
    pub slowest: Slowest,
    /// How long the guest computed in its calls, which is granted likewise.
    #[serde(skip)]
    pub slowest_calls: Slowest,
    /// When those of the last writes were submitted that damage has struck. For the ambiguity of the tail.
    pub damaged_ns: Vec<Nanos>,
}

impl DeviceTruth {
    /// The world's own word; `start` is what had happened to its storage when the guest was started.
    #[must_use]
    pub fn of(world: &World, start: RunFaults) -> DeviceTruth {
        let storage = world.storage();
        let fired = |kind| storage.fired(kind);
        let this_run = RunFaults::of(storage).since(start);
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
            this_run,
            damaged_sectors: storage.damaged_sectors(),
            failing_sectors: storage.failing_sectors().unwrap_or(this_run.read_failures),
            cut_short: storage.is_cut_short(),
            capacity_bytes: storage.capacity_bytes(),
            last_flush_completed_ns: storage.made_durable_at(),
            slowest: storage.slowest(),
            slowest_calls: world.slowest_calls().clone(),
            damaged_ns: storage.damaged().to_vec(),
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

    /// Whether the guest can know of damage, and so report it: what it has read in this process run was damaged, or it sees that the device is too small.
    #[must_use]
    pub fn has_shown_damage(&self) -> bool {
        self.this_run.damaged_reads > 0 || self.cut_short
    }

    /// Whether nothing has failed in this process run, and the guest knows of no damage.
    pub(crate) fn is_unharmed(&self) -> bool {
        self.this_run.failures() == 0 && !self.has_shown_damage()
    }

    /// Why the guest cannot know of damage.
    pub(crate) fn no_damage(&self) -> &'static str {
        if self.lies() + self.damaged_sectors == 0 {
            return "no fault has damaged what was durable";
        }
        "nothing that it has read since it was started is damaged"
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
