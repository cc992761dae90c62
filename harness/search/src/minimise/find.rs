//! A candidate explored: the prefix is cut where it is most like it was, and the open process run is searched for the failure.

use kvsim_sim::TraceMode;

use super::site::{Site, busy_of, sites};
use super::{EXPLORATION_WORK, LONG_EXPLORATION_WORK, Shrinking};
use crate::explore::cost::work;
use crate::explore::meaning::Meaning;
use crate::explore::open::{Extent, FEW_REQUESTS, OpenRun, Plan, Reach, Setting, WorkBudget};
use crate::explore::relocate::{Relocated, meanings, relocated};
use kvsim_drive::case::{Stop, drive};
use kvsim_scenario::Scenario;
use kvsim_scenario::case::{Case, CaseRequest};

/// Where a case is searched for, and with how much work at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quest {
    pub(super) site: Site,
    pub(super) extent: Extent,
    pub(super) quota: u64,
}

impl Shrinking<'_> {
    pub(super) fn setting<'b>(&'b self) -> Setting<'b> {
        Setting {
            scenario: &self.scenario,
            program: self.program,
            jobs: self.jobs,
            control: self.control,
        }
    }

    /// The meanings of the cuts of a case.
    pub(super) fn like(&mut self, case: &Case) -> Vec<Option<Meaning>> {
        if let Some((of, like)) = &self.like
            && of == case
        {
            return like.clone();
        }
        let (like, work) = meanings(self.setting(), case);
        self.charge(work);
        self.like = Some((case.clone(), like.clone()));
        like
    }

    /// A case that fails in the same way, with the requests of `wanted`. Its cuts are like `like`; the one of the open process run may fall anywhere
    /// within the extent.
    pub(super) fn find(
        &mut self,
        wanted: &Case,
        site: Site,
        like: &[Option<Meaning>],
        extent: Extent,
    ) -> Option<Case> {
        let quota = if wanted.requests() > FEW_REQUESTS {
            LONG_EXPLORATION_WORK
        } else {
            EXPLORATION_WORK
        };
        let quest = Quest {
            site,
            extent,
            quota,
        };
        self.seek(wanted, quest, like)
    }

    /// The same, with so much work at most.
    pub(super) fn seek(
        &mut self,
        wanted: &Case,
        quest: Quest,
        like: &[Option<Meaning>],
    ) -> Option<Case> {
        let Quest {
            site,
            extent,
            quota,
        } = quest;
        // What is explored is read back first.
        let mut wanted = wanted.clone();
        for process_run in &mut wanted.process_runs {
            process_run.read_after_requests = None;
        }
        let wanted = &wanted;
        let asked: Vec<&[CaseRequest]> = wanted
            .process_runs
            .iter()
            .map(|it| &it.requests[..])
            .collect();
        let key = self.key(&(asked, site, extent, &wanted.faults));
        if self.is_over() || self.barren.get(&key).is_some_and(|spent| *spent >= quota) {
            return None;
        }
        self.spent.explorations += 1;
        self.show();
        let mut budget = WorkBudget {
            left: quota.min(self.left),
        };
        let granted = budget.left;
        let found = self.explore(self.setting(), wanted, site, like, extent, &mut budget);
        self.charge(granted - budget.left);
        let found = found.filter(|found| self.fails(found));
        tracing::trace!(
            requests = wanted.requests(),
            ?site,
            work = granted - budget.left,
            found = found.is_some(),
            "explored"
        );
        if found.is_none() && !self.is_over() {
            self.barren.insert(key, quota);
        }
        found
    }

    /// Cuts the prefix of a candidate and searches its open process run, in this setting.
    pub(super) fn explore(
        &self,
        setting: Setting<'_>,
        wanted: &Case,
        site: Site,
        like: &[Option<Meaning>],
        extent: Extent,
        budget: &mut WorkBudget,
    ) -> Option<Case> {
        let (prefix, spent) = relocated(setting, wanted, site.open, like);
        budget.charge(spent);
        let before = match prefix {
            Relocated::Cut(mut before) => {
                // Errors of a recovery are looked for anew.
                before.faults.retain(|_| site.reach != Reach::Errors);
                before
            }
            Relocated::Fails(violation, case) => return self.is_same(&violation).then_some(case),
            Relocated::Lost => return None,
        };
        let after = wanted.process_runs.get(site.open + 1);
        let plan = Plan {
            before: &before,
            requests: &wanted.process_runs[site.open].requests,
            after: after.filter(|_| site.asks_again).map(|it| &it.requests[..]),
            reach: site.reach,
        };
        let open = OpenRun::new(setting, plan, &[])?;
        budget.charge(open.work);
        let near = like.get(site.open).and_then(Option::as_ref);
        if let Some(near) = near
            && let Some(crash) = open.cut_like(near)
        {
            let mut case = before.clone();
            case.process_runs
                .extend_from_slice(&wanted.process_runs[site.open..]);
            case.process_runs[site.open].crash = Some(crash);
            if let Some(case) = self.fails_somewhere(&case, budget) {
                return Some(case);
            }
        }
        open.search(&self.likeness, near, extent, budget)
    }

    /// The case, up to where it fails in the same way.
    fn fails_somewhere(&self, case: &Case, budget: &mut WorkBudget) -> Option<Case> {
        let seed = self.scenario.run.seeds.start;
        let driven = drive(&self.scenario, case, self.program, seed, TraceMode::Off).ok()?;
        budget.charge(work(&driven.world));
        match &driven.end {
            Err(Stop::Violation(violation)) if self.is_same(violation) => {}
            _ => return None,
        }
        let mut case = case.clone();
        // What would have come after it is no part of it.
        case.process_runs.truncate(driven.landmarks.len() + 1);
        if let Some(last) = case.process_runs.last_mut() {
            (last.crash, last.close_after_event) = (None, None);
        }
        Some(case)
    }

    /// The same failure when other requests are asked in the busy process run of `best`.
    pub(super) fn find_busy(&mut self, best: &Case, requests: &[CaseRequest]) -> Option<Case> {
        let like = self.like(best);
        let busy = busy_of(best)?;
        let mut wanted = best.clone();
        wanted.process_runs[busy].requests = requests.to_vec();
        // With fewer requests more may be open.
        sites(&wanted).into_iter().find_map(|site| {
            let asked = wanted.process_runs[site.open].requests.len();
            self.find(&wanted, site, &like, extent(asked))
        })
    }

    /// Changes the scenario if a case is found then that fails in the same way; else it stays as it is.
    pub(super) fn with(
        &mut self,
        change: impl FnOnce(&mut Scenario),
        attempt: impl FnOnce(&mut Self) -> Option<Case>,
    ) -> Option<Case> {
        let before = self.scenario.clone();
        change(&mut self.scenario);
        (self.landmarks, self.like) = (None, None);
        let found = attempt(self);
        if found.is_none() {
            self.scenario = before;
        }
        (self.landmarks, self.like) = (None, None);
        found
    }
}

/// How far a search goes in so many requests.
pub(super) fn extent(requests: usize) -> Extent {
    if requests > FEW_REQUESTS {
        Extent::Near
    } else {
        Extent::All
    }
}
