//! Blame: what is missing in a guest that fails, if one flush, one write-through or one later acknowledgement is what is missing.
//!
//! At each place of a failing case one thing is done for the guest ([`kvsim_sim::Mend`]), and it is seen whether the failure is gone: in the
//! very case, and in every state around its cuts. A write that is written through is less than a flush; where neither helps, an answer may
//! come too early; and where that is not it either, a write may have to be held back until those before it are durable. The least that helps is named.
//!
//! A failure that needs a device which fails or lies is none of order: the guest makes too little of what it is told.
//!
//! Invariants: what is done for the guest takes no time and moves nothing, so each attempt meets the same operations; what helps was not
//! luck, since every state that a cut nearby can leave was judged; the result depends on case, guest and budget alone.

mod faults;
mod search;
mod timeline;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use kvsim_sim::Program;
use serde::{Deserialize, Serialize};

use crate::control::Control;
use crate::explore::Setting;
use crate::failure;
use crate::run::{Tracing, run_seed};
use crate::scenario::Scenario;
use crate::summary::FailureReport;

/// Work at most, as a [`Budget`](crate::minimise::Budget) counts it.
const WORK_MAX: u64 = 20_000_000_000;

/// What kind of thing is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// A write that has to be written through.
    WriteThrough,
    /// A flush.
    Flush,
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
    /// What makes the case pass, the least first; each by itself. None: it is no ordering bug.
    pub cures: Vec<Cure>,
    /// The same is missing at other places of the case as well: a cure mends only the failure of this cut.
    pub elsewhere_too: bool,
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

impl fmt::Display for Blame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(fault) = &self.fault {
            return write!(f, "no ordering bug: it passes without {fault}");
        }
        if self.cures.is_empty() {
            return f.write_str(if self.exhausted {
                "nothing that was tried makes it pass, and not all was tried"
            } else {
                "no ordering bug: no single flush, write-through or later acknowledgement makes it pass"
            });
        }
        if self.is_of_recovery() {
            f.write_str(
                "no flush is missing: a recovery makes the wrong thing of what it finds, or else ",
            )?;
        }
        for (at, cure) in self.cures.iter().take(CURES_SAID).enumerate() {
            if at > 0 {
                f.write_str("; or ")?;
            }
            f.write_str(&cure.sentence)?;
        }
        if self.cures.len() > CURES_SAID {
            write!(f, "; or {} other places", self.cures.len() - CURES_SAID)?;
        }
        if self.elsewhere_too {
            f.write_str("; the same is missing elsewhere in this case")?;
        }
        Ok(())
    }
}

impl Blame {
    /// Whether nothing helps but to hold writes back.
    fn is_of_recovery(&self) -> bool {
        let mut kinds = self.cures.iter().map(|cure| cure.missing);
        kinds.all(|missing| missing == Missing::Barrier)
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

/// Finds what is to blame for the failure of a scenario's case.
///
/// # Errors
/// A sentence, if the scenario has no case or that does not fail.
pub fn blame(
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    jobs: NonZeroUsize,
    control: &Control,
) -> Result<Blame, String> {
    let Some(case) = &scenario.case else {
        return Err(
            "it was saved by `kvsim run` and has no [case] whose steps could be blamed; `--minimise` makes one, and blames it"
                .to_owned(),
        );
    };
    let setting = Setting {
        scenario,
        program,
        jobs,
        control,
    };
    search::search(setting, case, WORK_MAX)
}

/// Runs the case of a scenario and reports its failure with what is to blame.
///
/// # Errors
/// A sentence, if the scenario has no case or that does not fail.
pub fn replay(
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    jobs: NonZeroUsize,
    control: &Control,
) -> Result<FailureReport, String> {
    let blame = blame(scenario, program, jobs, control)?;
    let seed = scenario.run.seeds.start;
    let result = run_seed(scenario, program, seed, control, Tracing::Record);
    if !result.end.is_violation() {
        return Err("internal error: the case fails once and passes once".to_owned());
    }
    Ok(failure::report_blamed(scenario, program.as_ref(), &result, None, Some(blame)).0)
}
