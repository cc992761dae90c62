//! Blame: what is missing in a guest that fails, if flushes, write-throughs or later acknowledgements are missing.
//!
//! At each place of a failing case one intervention ([`kvsim_sim::Intervention`]) is made for the guest. Then it is
//! checked whether the failure is gone, in the very case and in every state around its cuts. First all interventions of
//! a kind are made at once: if that does not help, none of them does. Then single ones are tried. Where none helps by
//! itself, the set of all is made as small as it can be. A write-through is less than a flush, so it is tried first.
//! Where neither helps, an answer may come too early. Where that is not it either, a write may have to be held back
//! until the writes before it are durable.
//!
//! The verdict ([`BlameVerdict`]) is one of three. An ordering bug, with the places; no ordering bug, since it fails
//! with all interventions; undecided, since the search was ended. A failure that needs a device which fails or lies is
//! no ordering bug: the guest handles an error or a lie wrongly.
//!
//! Invariants: an intervention takes no time and moves nothing, so each attempt meets the same operations. A fix is not
//! luck, since it is judged in the states that nearby cuts can leave. The order of the search depends on the case
//! alone.

use std::fmt;

use kvsim_api::units::counted;
use serde::{Deserialize, Serialize};

/// What kind of thing is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// A write that has to be written through.
    WriteThrough,
    /// A flush.
    Flush,
    /// A sync of a file or of a directory.
    Sync,
    /// An answer that is given too early: before what it promises is durable, or before anything of it is written.
    LaterAnswer,
    /// Space is used again too early: what a write overwrites is still needed.
    LaterReuse,
    /// A write has to be held back until all that was submitted before it is durable. Or else a recovery has to cope
    /// with a state that has the write and not those before. The guest's author decides which of the two.
    Barrier,
}

/// Something that makes the case pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fix {
    /// Of what kind.
    pub missing: Missing,
    /// In which process run, from 1.
    pub process_run: u64,
    /// Where, in words.
    pub sentence: String,
    /// Of a sync: the call of the file system that it has to follow, counted over all process runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_call: Option<u64>,
    /// Of a sync: the number of the file or directory in the simulated file system; all that the call changes if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<u32>,
}

/// What is to blame.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blame {
    /// What makes the case pass, the least first; each by itself, unless they help only together.
    pub fixes: Vec<Fix>,
    /// None of `fixes` helps by itself: all of them are needed.
    #[serde(default)]
    pub together: bool,
    /// What a flush would save is missed only where it is torn, and not where it is lost.
    #[serde(default)]
    pub only_torn: bool,
    /// What else the failure takes, in words: a torn write, a recovery that is cut short.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<String>,
    /// What affects the device, without which it passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// What the last cut left was read back well, and the running guest answers wrong after that.
    #[serde(default)]
    pub working: bool,
    /// On files: it still fails, or a state near it does, with all that each call changes synced after it. Calls in another order were not tried.
    #[serde(default)]
    pub no_sync_helps: bool,
    /// Attempts.
    pub tried: u64,
    /// Not all was tried: the budget ended before the ideas did, or no sync of a file helps and nothing else is tried on files.
    pub exhausted: bool,
}

/// More places, or more faults, are counted and not named.
pub const NAMED_MAX: usize = 4;

/// What blame comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlameVerdict {
    /// Something has to become durable, or be told, in another order.
    Ordering,
    /// With everything done for the guest that is of order, it still fails; or only writes held back help, which a recovery can do without.
    NotOrdering,
    /// The search ended before it was known.
    Undecided,
}

impl fmt::Display for Blame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(fault) = &self.fault {
            return write!(f, "no ordering bug: it passes without {fault}");
        }
        if self.fixes.is_empty() {
            if self.no_sync_helps {
                f.write_str("undecided: with everything synced after every call it still fails, or a state near it does; calls in another order are not tried")?;
                return self.fmt_conditions(f);
            }
            if self.exhausted {
                return f.write_str("undecided: the search ended before all was tried");
            }
            f.write_str(if self.working {
                "no ordering bug: what the last cut left was read back well, and the running guest answers wrong after that"
            } else if self.only_torn {
                "no ordering bug: it fails where a write is torn, and not where that write is lost"
            } else {
                "no ordering bug: it still fails with every write written through and every answer held back"
            })?;
            return self.fmt_conditions(f);
        }
        if self.is_of_recovery() {
            f.write_str(
                "no flush is missing: a recovery makes the wrong thing of what it finds, or else ",
            )?;
        }
        let between = if self.together { "; and " } else { "; or " };
        for (at, fix) in self.fixes.iter().take(NAMED_MAX).enumerate() {
            if at > 0 {
                f.write_str(between)?;
            }
            f.write_str(&fix.sentence)?;
        }
        if self.fixes.len() > NAMED_MAX {
            let others = (self.fixes.len() - NAMED_MAX) as u64;
            let others = counted(others, "other place", "other places");
            write!(f, "{between}{others}")?;
        }
        if self.is_of_recovery() {
            self.fmt_conditions(f)?;
        }
        Ok(())
    }
}

impl Blame {
    /// What it comes to.
    #[must_use]
    pub fn verdict(&self) -> BlameVerdict {
        if self.is_ordering() {
            BlameVerdict::Ordering
        } else if self.exhausted && self.fault.is_none() && self.fixes.is_empty() {
            BlameVerdict::Undecided
        } else {
            BlameVerdict::NotOrdering
        }
    }

    fn fmt_conditions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, condition) in self.conditions.iter().enumerate() {
            let before = if at == 0 {
                "; it passes if "
            } else {
                ", or if "
            };
            write!(f, "{before}{condition}")?;
        }
        Ok(())
    }

    /// Whether nothing helps but to hold writes back.
    #[must_use]
    pub fn is_of_recovery(&self) -> bool {
        let mut kinds = self.fixes.iter().map(|fix| fix.missing);
        !self.fixes.is_empty() && kinds.all(|missing| missing == Missing::Barrier)
    }

    /// Whether it says that something has to become durable, or be told, in another order.
    #[must_use]
    pub fn is_ordering(&self) -> bool {
        !self.fixes.is_empty() && !self.is_of_recovery()
    }
}

/// The same for a program, with its words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// All of it in words.
    pub sentence: String,
    /// What it says.
    #[serde(flatten)]
    pub blame: Blame,
}

impl From<&Blame> for Said {
    fn from(blame: &Blame) -> Said {
        Said {
            sentence: blame.to_string(),
            blame: blame.clone(),
        }
    }
}
