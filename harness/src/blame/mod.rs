//! Blame: what is missing in a guest that fails, if one flush, one write-through or one later acknowledgement is what is missing.
//!
//! At each place of a failing case one thing is done for the guest ([`kvsim_sim::Mend`]), and it is seen whether the failure is gone: in the
//! very case, and in every state around its cuts. A write that is written through is less than a flush, and a flush less than
//! holding something back until all before it is durable; the least that helps is named.
//!
//! Invariants: what is done for the guest takes no time and moves nothing, so each attempt meets the same operations; what helps was not
//! luck, since every state that a cut nearby can leave was judged; the result depends on case, guest and budget alone.

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

/// Lists of states that are explored at most.
const EXPLORATIONS_MAX: u64 = 400;

/// What kind of thing is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// A write that has to be written through.
    WriteThrough,
    /// A flush.
    Flush,
    /// Something has to be held back until all that was submitted before it is durable.
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
    /// Attempts.
    pub tried: u64,
    /// The budget ended before the ideas did.
    pub exhausted: bool,
}

/// More cures are counted and not listed.
const CURES_SAID: usize = 4;

impl fmt::Display for Blame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.cures.is_empty() {
            return f.write_str(if self.exhausted {
                "nothing that was tried makes it pass, and not all was tried"
            } else {
                "no ordering bug: no single flush, write-through or later acknowledgement makes it pass"
            });
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
    search::search(setting, case, EXPLORATIONS_MAX)
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
