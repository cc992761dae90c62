//! Steps: what operations are split into. A step is pending until something makes it durable.
//!
//! Invariant: a step is canonical. A later version of a page, of a size or of a name needs the earlier one, so that the order in which a crash
//! state names its steps does not matter and no state has two names.

use std::fmt;
use std::sync::Arc;

use kvsim_crash::{Excerpt, Fate, Nanos, Sectors};

use crate::tree::directory::Name;
use crate::tree::node::{ALL_SECTORS, Ino};

/// A name of a directory that begins or ceases to refer to something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryChange {
    /// The directory.
    pub directory: Ino,
    /// The name in it.
    pub name: Arc<[u8]>,
    /// What it referred to.
    pub from: Option<Ino>,
    /// What it refers to now.
    pub to: Option<Ino>,
}

impl EntryChange {
    pub(crate) fn is_same_name(&self, directory: Ino, name: &Name) -> bool {
        self.directory == directory && self.name == *name
    }
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepKind {
    /// Bytes of a page. A page whose block held no data yet is turned from unwritten to written with it.
    Data {
        /// Which page of the file.
        page: u64,
        /// The sectors that it brings, as bits.
        sectors: u8,
        /// Whether the page's block held no data before.
        first: bool,
        /// Whether it is the zeros that a truncation writes behind the new end.
        tail: bool,
    },
    /// A block is allocated for a page and shows what it held before, until its data are there.
    Mapped {
        /// Which page of the file.
        page: u64,
    },
    /// The file becomes longer.
    Size {
        /// The size before, in bytes.
        from: u64,
        /// The size after.
        to: u64,
    },
    /// The file becomes shorter, and its pages beyond the end are given up.
    Truncate {
        /// The size before, in bytes.
        from: u64,
        /// The size after.
        to: u64,
    },
    /// Pages get space and stay unwritten.
    Allocated {
        /// The first page.
        start: u64,
        /// The page after the last.
        end: u64,
    },
    /// A name is added, removed, or refers to something else. What a new name refers to exists with it, if only empty.
    Entry(EntryChange),
    /// A name is added and another one removed, in one.
    Renamed {
        /// The name that ends.
        old: EntryChange,
        /// The name that begins.
        new: EntryChange,
    },
    /// The times of an inode are set.
    Attributes {
        /// When it was last read.
        accessed_ns: Nanos,
        /// When it was last changed.
        modified_ns: Nanos,
    },
}

impl StepKind {
    /// The name in reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            StepKind::Data { tail: true, .. } => "tail zeroed",
            StepKind::Data { first: true, .. } => "data, first of its page",
            StepKind::Data { .. } => "data",
            StepKind::Mapped { .. } => "block allocated",
            StepKind::Size { .. } => "size",
            StepKind::Truncate { .. } => "truncation",
            StepKind::Allocated { .. } => "space allocated",
            StepKind::Entry(change) => match (change.from, change.to) {
                (None, _) => "entry added",
                (_, None) => "entry removed",
                _ => "entry replaced",
            },
            StepKind::Renamed { .. } => "entry renamed",
            StepKind::Attributes { .. } => "times set",
        }
    }

    /// The changes of names that it makes.
    pub fn entries(&self) -> impl Iterator<Item = &EntryChange> {
        let (one, two) = match self {
            StepKind::Entry(change) => (Some(change), None),
            StepKind::Renamed { old, new } => (Some(old), Some(new)),
            _ => (None, None),
        };
        one.into_iter().chain(two)
    }

    /// Whether it changes names.
    #[must_use]
    pub fn is_of_names(&self) -> bool {
        matches!(self, StepKind::Entry(_) | StepKind::Renamed { .. })
    }

    /// Whether it brings bytes of a page.
    #[must_use]
    pub fn is_data(&self) -> bool {
        matches!(self, StepKind::Data { .. })
    }
}

/// A step that a power cut may lose.
#[derive(Debug, Clone)]
pub struct PendingStep {
    /// Its number: rising, never used again.
    pub id: u64,
    /// The call that made it.
    pub op: u64,
    /// The file that it changes; for names, the directory.
    pub ino: Ino,
    /// The path of that file when the step was made, for people; for names, the path of the name.
    pub path: Arc<str>,
    /// What it does.
    pub kind: StepKind,
    /// Whether a failed sync has given it up: reads still see it, no sync will save it.
    pub dropped: bool,
    /// Whether a sync has brought it to the drive, whose cache a power cut loses.
    pub in_drive: bool,
    /// The bytes of the page after it.
    pub(crate) bytes: Option<Excerpt>,
    /// The version of the page before it that was pending when it was made.
    pub(crate) before: Option<u64>,
    /// Whether another version of the page became durable without all that were before that one. The page was never what it was after this step, so of it only its own
    /// sectors count.
    pub(crate) in_part: bool,
    /// Whether it can be torn.
    pub(crate) tearable: bool,
    /// Whether it is one of the steps that become durable in the order of calls.
    pub(crate) ordered: bool,
    /// Whether it enters the journal only when its page is written back: after all that was ordered before it, and before nothing.
    pub(crate) late: bool,
    /// The steps that it needs, ascending, beside the order of calls.
    pub(crate) needs: Vec<u64>,
    /// The number of the first barrier that covered it.
    pub(crate) covered_by: Option<u64>,
    /// How many barriers there were when it was made. It needs all that these covered.
    pub(crate) barriers: u64,
}

impl PendingStep {
    /// The sectors of its page that it brings if it persists in this form.
    pub(crate) fn kept(&self, sectors: &Sectors) -> u8 {
        let StepKind::Data { sectors: all, .. } = self.kind else {
            return 0;
        };
        if *sectors == Sectors::All {
            return all;
        }
        (0..)
            .zip(ones(all))
            .filter(|(at, _)| sectors.fate(*at) == Fate::New)
            .fold(0, |kept, (_, sector)| kept | 1 << sector)
    }

    /// The sector of its page that is torn in the middle if it persists in this form, and the first byte of it that is old.
    pub(crate) fn torn_at(&self, sectors: &Sectors) -> Option<(u64, u64)> {
        let StepKind::Data { sectors: all, .. } = self.kind else {
            return None;
        };
        let mut fates = ones(all)
            .zip(0..)
            .map(|(sector, at)| (sector, sectors.fate(at)));
        fates.find_map(|(sector, fate)| match fate {
            Fate::TornAt(byte) => Some((sector, byte)),
            _ => None,
        })
    }

    /// Whether a barrier between the two has put the other one before this one.
    pub(crate) fn is_behind(&self, other: &PendingStep) -> bool {
        !other.dropped && is_covered(other.covered_by, self.barriers)
    }

    /// How many sectors it brings.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        match self.kind {
            StepKind::Data { sectors, .. } => u64::from(sectors.count_ones()),
            _ => 0,
        }
    }

    /// Whether it is a later version of what `other`, made before it, changes, with both bringing all that they can.
    pub(crate) fn is_data_of(&self, ino: Ino, of: u64) -> bool {
        let page = match self.kind {
            StepKind::Data { page, .. } | StepKind::Mapped { page } => page,
            _ => return false,
        };
        self.ino == ino && page == of
    }
}

/// The sectors of a page that these bits say, ascending.
fn ones(bits: u8) -> impl Iterator<Item = u64> {
    (0..8).filter(move |sector| bits >> sector & 1 == 1)
}

/// Whether the barrier that covers a step is one of the first so many.
pub(crate) fn is_covered(covered_by: Option<u64>, barriers: u64) -> bool {
    covered_by.is_some_and(|number| number < barriers)
}

impl fmt::Display for PendingStep {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PendingStep { path, kind, .. } = self;
        let name = kind.name();
        match kind {
            StepKind::Data { page, sectors, .. } if *sectors == ALL_SECTORS => {
                write!(to, "{path}: {name}, page {page}")
            }
            StepKind::Data { page, sectors, .. } => {
                let (first, last) = (sectors.trailing_zeros(), 7 - sectors.leading_zeros());
                write!(to, "{path}: {name}, page {page}, sectors {first} to {last}")
            }
            StepKind::Mapped { page } => write!(to, "{path}: {name}, page {page}"),
            StepKind::Size { from, to: size } | StepKind::Truncate { from, to: size } => {
                write!(to, "{path}: {name}, {from} to {size} bytes")
            }
            StepKind::Allocated { start, end } => {
                write!(to, "{path}: {name}, pages {start} to {}", end - 1)
            }
            StepKind::Renamed { new, .. } => {
                write!(to, "{path}: {name} to `{}`", new.name.escape_ascii())
            }
            StepKind::Entry(_) | StepKind::Attributes { .. } => write!(to, "{path}: {name}"),
        }
    }
}
