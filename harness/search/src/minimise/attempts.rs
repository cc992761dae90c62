//! Candidates side by side: each on a setup of its own, each by one thread. Small candidates are many and cheap, so this is faster than one after the other
//! with all threads.
//!
//! Invariant: they are taken in groups of a fixed size, and of a group the first that fails counts. So what is found and what it cost do not depend on the number
//! of threads.

use std::num::NonZeroUsize;

use kvsim_sim::TraceMode;

use super::Shrinking;
use super::site::Site;
use crate::explore::cost::work;
use crate::explore::meaning::Meaning;
use crate::explore::open::{Extent, Reach, Setting, WorkBudget};
use kvsim_drive::case::{Stop, drive};
use kvsim_explore::parallel::map;
use kvsim_scenario::Scenario;
use kvsim_scenario::case::Case;

/// So many candidates are one group.
const AT_ONCE: usize = 8;

/// A candidate.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    /// The setup, faults included.
    pub(super) scenario: Scenario,
    /// What is asked; its cuts are searched for.
    pub(super) wanted: Case,
    /// Where, and how far.
    pub(super) site: Site,
    pub(super) extent: Extent,
    /// Work at most.
    pub(super) quota: u64,
    /// Whether a failure without any cut counts.
    pub(super) may_be_uncut: bool,
    /// What the cuts are like, of the process runs that have them already.
    pub(super) like: Vec<Option<Meaning>>,
}

impl Shrinking<'_> {
    /// The case of the first of these that fails in the same way. Its setup is the setup from then on.
    pub(super) fn first_of(&mut self, attempts: &[Attempt]) -> Option<Case> {
        for group in attempts.chunks(AT_ONCE) {
            if self.is_over() {
                return None;
            }
            self.spent.explorations += group.len() as u64;
            self.show();
            let tried = map(self.jobs, 1, group, |attempt| self.attempt(attempt));
            self.charge(tried.iter().map(|(_, work)| work).sum());
            for (attempt, (found, _)) in group.iter().zip(tried) {
                let Some(found) = found else { continue };
                let set = |scenario: &mut Scenario| scenario.clone_from(&attempt.scenario);
                let confirmed = self.with(set, |this| this.fails(&found).then_some(found));
                if confirmed.is_some() {
                    return confirmed;
                }
            }
        }
        None
    }

    /// What comes of a candidate, and how much work that was.
    fn attempt(&self, attempt: &Attempt) -> (Option<Case>, u64) {
        let scenario = &attempt.scenario;
        if attempt.site.reach == Reach::Uncut {
            let seed = scenario.run.seeds.start;
            let (case, program) = (&attempt.wanted, self.program);
            let Ok(driven) = drive(scenario, case, program, seed, TraceMode::Off) else {
                return (None, 0);
            };
            let fails =
                matches!(&driven.end, Err(Stop::Violation(violation)) if self.is_same(violation));
            return (fails.then(|| case.clone()), work(&driven.world));
        }
        let setting = Setting {
            scenario,
            program: self.program,
            jobs: NonZeroUsize::MIN,
            control: self.control,
        };
        let mut budget = WorkBudget {
            left: attempt.quota,
        };
        let (wanted, site, extent) = (&attempt.wanted, attempt.site, attempt.extent);
        let found = self.explore(setting, wanted, site, &attempt.like, extent, &mut budget);
        let found = found.filter(|found| attempt.may_be_uncut || found.crashes() > 0);
        let work = attempt.quota - budget.left;
        tracing::trace!(
            requests = wanted.requests(),
            ?site,
            work,
            found = found.is_some(),
            "attempted"
        );
        (found, work)
    }
}
