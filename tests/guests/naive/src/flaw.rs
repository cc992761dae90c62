//! The defects that `break=<name>` switches on, each made to violate the property that it is named after.

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
    /// Recovery moves the last record: it overwrites it first, and only then writes it anew.
    RecoveryIdempotent,
    /// Recovery leaves a torn record where it is and goes on behind it; the next recovery ends at it.
    WorkAfterRecovery,
    /// The checksum of a record's body is not looked at.
    DamageReported,
    /// Recovery panics when the last record is torn.
    SaneGuestPanic,
    /// Recovery reads a torn record over and over until it is whole.
    SaneGuestHang,
    /// Recovery makes room for a torn record until there is enough.
    SaneGuestMemory,
}

impl Flaw {
    /// The names that the option `break` takes.
    pub(crate) const ALL: [(&'static str, Flaw); 11] = [
        ("acknowledged_durable", Flaw::AcknowledgedDurable),
        ("atomic_writes", Flaw::AtomicWrites),
        ("prefix", Flaw::Prefix),
        ("no_resurrection", Flaw::NoResurrection),
        ("reads_agree", Flaw::ReadsAgree),
        ("recovery_idempotent", Flaw::RecoveryIdempotent),
        ("work_after_recovery", Flaw::WorkAfterRecovery),
        ("damage_reported", Flaw::DamageReported),
        ("sane_guest_panic", Flaw::SaneGuestPanic),
        ("sane_guest_hang", Flaw::SaneGuestHang),
        ("sane_guest_memory", Flaw::SaneGuestMemory),
    ];

    pub(crate) fn from_name(name: &str) -> Option<Flaw> {
        Flaw::ALL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, flaw)| *flaw)
    }

    /// What a guest out of its mind does with a torn record.
    pub(crate) fn lose_mind(self) {
        match self {
            Flaw::SaneGuestPanic => panic!("the last record of the log is torn"),
            Flaw::SaneGuestHang => loop {
                std::hint::black_box(());
            },
            Flaw::SaneGuestMemory => {
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
