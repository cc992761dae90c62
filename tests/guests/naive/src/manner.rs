//! Other correct ways to be an engine, each of which promises less: the option `manner=<name>` switches one on, and kvsim accuses it unless
//! a policy says so.

/// A way of working.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Writes that wait are committed in the reverse order. Needs `commit_order=any`.
    AnyOrder,
    /// A read overtakes the writes that wait. Needs `reads=committed`.
    CommittedReads,
    /// An opening flushes nothing; what it found is flushed before the next write. Needs `recovery_survives=power_cut`.
    LazyRecovery,
    /// A relaxed write is not flushed, and a delete of nothing is acknowledged at once. Needs `empty_commit_covers=false`.
    EmptyAtOnce,
    /// A relaxed write is written with the next durable one. Needs `relaxed_survives_kill=false`.
    RelaxedInMemory,
}

impl Manner {
    /// The names that the option `manner` takes.
    pub(crate) const ALL: [(&'static str, Manner); 5] = [
        ("any_order", Manner::AnyOrder),
        ("committed_reads", Manner::CommittedReads),
        ("lazy_recovery", Manner::LazyRecovery),
        ("empty_at_once", Manner::EmptyAtOnce),
        ("relaxed_in_memory", Manner::RelaxedInMemory),
    ];

    pub(crate) fn from_name(name: &str) -> Option<Manner> {
        let known = Manner::ALL.iter().find(|(known, _)| *known == name);
        known.map(|(_, manner)| *manner)
    }

    /// Whether several records may be written under one flush, so that a crash can leave a later one without an earlier one.
    pub(crate) fn leaves_holes(self) -> bool {
        matches!(self, Manner::EmptyAtOnce | Manner::RelaxedInMemory)
    }
}
