//! Other correct ways to be an engine, each of which promises less. The option `manner=<name>` switches one on, and
//! kvsim reports a violation unless a policy says so. `manner=<name>,<name>` switches on several.

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
}

/// The ways in which one engine works.
#[derive(Debug, Clone, Default)]
pub(crate) struct Manners(Vec<Manner>);

impl Manners {
    /// Those of a list of names.
    ///
    /// # Errors
    /// The first name that is none.
    pub(crate) fn from_names(names: &str) -> Result<Manners, String> {
        let manner = |name: &str| Manner::from_name(name).ok_or_else(|| name.to_owned());
        names
            .split(',')
            .map(manner)
            .collect::<Result<_, _>>()
            .map(Manners)
    }

    pub(crate) fn has(&self, manner: Manner) -> bool {
        self.0.contains(&manner)
    }

    /// Whether several records may be written under one flush, so that a crash can leave a later one without an earlier one.
    pub(crate) fn leave_holes(&self) -> bool {
        self.has(Manner::EmptyAtOnce) || self.has(Manner::RelaxedInMemory)
    }
}
