//! Mistakes on purpose and interventions: what blame tries.
//!
//! They take no time and tell nobody, so a case meets the same calls with them and without.

use std::sync::Arc;

use crate::config::FileConfig;
use crate::tree::node::Ino;

/// What an intervention makes durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The file or directory of this number.
    Inode(Ino),
    /// What this path leads to from the root at that moment; nothing if it leads to nothing.
    Path(Vec<u8>),
    /// All files and directories of which the call itself made a step that is still pending.
    Changed,
}

/// The steps of a file or a directory become durable at a call, as if it were synced there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intervention {
    /// The number of the call.
    pub op: u64,
    /// Before the call, or after it.
    pub before: bool,
    /// Of what.
    pub target: Target,
}

/// A sync that was left out by its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The number of its call.
    pub op: u64,
    /// The file or directory.
    pub ino: Ino,
    /// The calls of which it would have made steps durable, in order; only steps of this file or directory count.
    pub covers: Vec<u64>,
}

/// The state of what [`FileConfig::left_out`] asks for.
#[derive(Debug, Clone)]
pub(crate) struct Mistake {
    pub(crate) place: u64,
    pub(crate) nth: Option<u64>,
    /// Syncs from this place so far.
    pub(crate) seen: u64,
    /// The next sync is left out.
    pub(crate) next: bool,
    /// Those that were left out.
    pub(crate) done: Arc<Vec<LeftOut>>,
}

impl Mistake {
    pub(crate) fn of(config: &FileConfig) -> Option<Mistake> {
        let left_out = config.left_out.as_ref()?;
        Some(Mistake {
            place: left_out.number()?,
            nth: left_out.nth,
            seen: 0,
            next: false,
            done: Arc::default(),
        })
    }

    /// Whether what it does from now on depends on how many syncs there were.
    pub(crate) fn counts(&self) -> bool {
        self.nth.is_some_and(|nth| self.seen <= nth)
    }
}
