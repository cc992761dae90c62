//! The defects that `break=<name>` switches on, each made to violate the property that it is named after; those about single reads
//! violate `reads_agree`.

use super::port::Status;

/// A deliberate defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// A commit is acknowledged when it is written, and never flushed.
    AcknowledgedDurable,
    /// A batch is as many commits as it has mutations.
    AtomicWrites,
    /// Commits that wait are written under one flush, and recovery goes on behind those that are missing.
    Prefix,
    /// Recovery takes any intact record for one of this log, also those of an older log that stood here.
    NoResurrection,
    /// A snapshot is the latest state.
    ReadsAgree,
    /// Of a write that failed, every second read shows it.
    Flicker,
    /// Of a batch that failed, reads show the first half.
    HalfBatch,
    /// A snapshot has a number again once the others are released.
    SnapshotReused,
    /// A scan takes no notice of the most bytes.
    ScanBytes,
    /// A scan ends at half of its limit.
    ScanShort,
    /// A scan always says that there is more.
    MoreAlways,
    /// A scan never says that there is more.
    MoreNever,
    /// A get misses one key of eight.
    GetMisses,
    /// A scan misses one key of eight.
    ScanMisses,
    /// Recovery moves the last record: it overwrites it first, and only then writes it anew.
    RecoveryIdempotent,
    /// Recovery leaves a torn record where it is and goes on behind it; the next recovery ends at it.
    WorkAfterRecovery,
    /// The checksum of a record's body is not looked at.
    DamageReported,
    /// Recovery panics when the last record is torn.
    GuestPanics,
    /// Recovery reads a torn record over and over until it is whole.
    GuestHangs,
    /// Recovery makes room for a torn record until there is enough.
    GuestOutgrowsMemory,
    /// Every write is refused as invalid.
    RefusesInvalid,
    /// Every write is refused for want of space.
    RefusesNoSpace,
    /// Every write is refused as if the device had failed before.
    RefusesReadOnly,
    /// Every write is answered as if the device failed.
    RefusesIoError,
    /// Every write is refused as if the database were closed.
    RefusesClosed,
    /// Gets are refused, and nothing else.
    RefusesReads,
    /// A database that is there is not opened: the configuration is said to be wrong.
    RefusesReopening,
    /// The first write after a recovery is answered as if the device failed, whether it has or not.
    IoErrorAfterRecovery,
    /// A write with an empty key is answered as if it had been done.
    TakesIllFormed,
    /// Of a batch with a bad member the good ones are written before it is refused.
    HalfABadBatch,
    /// What is overwritten counts as live.
    SpaceReturns,
}

impl Flaw {
    /// The names that the option `break` takes.
    pub(crate) const ALL: [(&'static str, Flaw); 31] = [
        ("acknowledged_durable", Flaw::AcknowledgedDurable),
        ("atomic_writes", Flaw::AtomicWrites),
        ("prefix", Flaw::Prefix),
        ("no_resurrection", Flaw::NoResurrection),
        ("reads_agree", Flaw::ReadsAgree),
        ("flicker", Flaw::Flicker),
        ("half_batch", Flaw::HalfBatch),
        ("snapshot_reused", Flaw::SnapshotReused),
        ("scan_bytes", Flaw::ScanBytes),
        ("scan_short", Flaw::ScanShort),
        ("more_always", Flaw::MoreAlways),
        ("more_never", Flaw::MoreNever),
        ("get_misses", Flaw::GetMisses),
        ("scan_misses", Flaw::ScanMisses),
        ("recovery_idempotent", Flaw::RecoveryIdempotent),
        ("work_after_recovery", Flaw::WorkAfterRecovery),
        ("damage_reported", Flaw::DamageReported),
        ("guest_panics", Flaw::GuestPanics),
        ("guest_hangs", Flaw::GuestHangs),
        ("guest_outgrows_memory", Flaw::GuestOutgrowsMemory),
        ("refuses_invalid", Flaw::RefusesInvalid),
        ("refuses_no_space", Flaw::RefusesNoSpace),
        ("refuses_read_only", Flaw::RefusesReadOnly),
        ("refuses_io_error", Flaw::RefusesIoError),
        ("refuses_closed", Flaw::RefusesClosed),
        ("refuses_reads", Flaw::RefusesReads),
        ("refuses_reopening", Flaw::RefusesReopening),
        ("io_error_after_recovery", Flaw::IoErrorAfterRecovery),
        ("takes_ill_formed", Flaw::TakesIllFormed),
        ("half_a_bad_batch", Flaw::HalfABadBatch),
        ("space_returns", Flaw::SpaceReturns),
    ];

    pub(crate) fn from_name(name: &str) -> Option<Flaw> {
        Flaw::ALL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, flaw)| *flaw)
    }

    /// How it answers every write, if it refuses all of them.
    pub(crate) fn refuses_writes(self) -> Option<Status> {
        Some(match self {
            Flaw::RefusesInvalid => Status::Invalid,
            Flaw::RefusesNoSpace => Status::NoSpace,
            Flaw::RefusesReadOnly => Status::ReadOnly,
            Flaw::RefusesIoError => Status::IoError,
            Flaw::RefusesClosed => Status::Closed,
            _ => return None,
        })
    }

    /// What a guest out of its mind does with a torn record.
    pub(crate) fn lose_mind(self) {
        match self {
            Flaw::GuestPanics => panic!("the last record of the log is torn"),
            Flaw::GuestHangs => loop {
                std::hint::black_box(());
            },
            Flaw::GuestOutgrowsMemory => {
                let mut room = Vec::new();
                loop {
                    room.push(vec![1_u8; 1 << 20]);
                    std::hint::black_box(&room);
                }
            }
            _ => {}
        }
    }
}
