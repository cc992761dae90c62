//! Blame: what is missing in a guest that fails, if flushes, write-throughs or later acknowledgements are missing.
//!
//! At each place of a failing case one thing is done for the guest ([`kvsim_sim::Mend`]), and it is seen whether the failure is gone: in the
//! very case, and in every state around its cuts. First all things of a kind are done at once: if that does not help, none of them does. Then single ones are
//! tried, and where none helps by itself, the set of all is made as small as it can be. A write that is written through is less than a flush; where neither helps, an answer may
//! come too early; and where that is not it either, a write may have to be held back until those before it are durable.
//!
//! The verdict ([`BlameVerdict`]) is one of three: an ordering bug, with the places; no ordering bug, since it fails with all that done; undecided, since the search was ended.
//! A failure that needs a device which fails or lies is none of order: the guest makes too little of what it is told.
//!
//! Invariants: what is done for the guest takes no time and moves nothing, so each attempt meets the same operations; what helps was not
//! luck, since the states that cuts nearby can leave were judged; the order of the search depends on the case alone.

use std::fmt;

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
    /// A write has to be held back until all that was submitted before it is durable, or else a recovery has to make something of it that
    /// it is there and they are not. Which of the two is the guest's to say.
    Barrier,
}

/// Something that makes the case pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cure {
    /// Of what kind.
    pub missing: Missing,
    /// In which life of the device, from 1.
    pub life: u64,
    /// Where, in words.
    pub sentence: String,
}

/// What is to blame.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blame {
    /// What makes the case pass, the least first; each by itself, unless they help only together.
    pub cures: Vec<Cure>,
    /// None of `cures` helps by itself: all of them are needed.
    #[serde(default)]
    pub together: bool,
    /// What a flush would save is missed only where it is torn, and not where it is lost.
    #[serde(default)]
    pub only_torn: bool,
    /// What else the failure takes, in words: a torn write, a recovery that is cut short.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<String>,
    /// What befalls the device, without which it passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Attempts.
    pub tried: u64,
    /// The budget ended before the ideas did.
    pub exhausted: bool,
}

/// More cures are counted and not listed.
const CURES_SAID: usize = 4;

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
        if self.cures.is_empty() {
            if self.exhausted {
                return f.write_str("undecided: the search ended before all was tried");
            }
            f.write_str(if self.only_torn {
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
        for (at, cure) in self.cures.iter().take(CURES_SAID).enumerate() {
            if at > 0 {
                f.write_str(between)?;
            }
            f.write_str(&cure.sentence)?;
        }
        if self.cures.len() > CURES_SAID {
            write!(f, "{between}{} other places", self.cures.len() - CURES_SAID)?;
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
        } else if self.exhausted && self.fault.is_none() && self.cures.is_empty() {
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
        let mut kinds = self.cures.iter().map(|cure| cure.missing);
        !self.cures.is_empty() && kinds.all(|missing| missing == Missing::Barrier)
    }

    /// Whether it says that something has to become durable, or be told, in another order.
    #[must_use]
    pub fn is_ordering(&self) -> bool {
        !self.cures.is_empty() && !self.is_of_recovery()
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
