//! The states around a cut, with something done for the guest: whether any of them still fails.

use kvsim_sim::Intervention;

use super::search::{Pending, Suspect};
use crate::explore::level::Wanted;
use crate::explore::open::{OpenRun, Plan, Reach, Setting};
use kvsim_oracle::Class;
use kvsim_scenario::case::{Case, CaseRun};

impl<'a> Suspect<'a> {
    /// Whether no state of this process run leads to the failure; of the last one that is cut, to no failure at all.
    ///
    /// Of an engine on files only states count that a cut leaves where what is done for the guest changes what a cut can lose. Elsewhere it neither
    /// helps nor hinders: a failure there is another one, such as that of a crash while the engine makes its files. Nor does a failure of another class
    /// count that the guest shows around there with nothing done for it.
    pub(super) fn is_well(&mut self, process_run: usize, interventions: &[Intervention]) -> bool {
        let mut wanted = Wanted::Only(self.class.into());
        if process_run == self.last {
            wanted = Wanted::All;
        }
        let cut = self.case.process_runs[process_run].crash.as_ref();
        let event = cut.map_or(u64::MAX, |crash| crash.after_event);
        let Some(around) = self.around(process_run, interventions) else {
            return false;
        };
        let points = around.neighbours(event);
        let before = interventions
            .iter()
            .any(|it| it.process_run <= process_run as u64);
        let points = match self.pending_at(process_run) {
            Some(pending) if !before => around.changed(points, pending),
            _ => points.collect(),
        };
        tracing::debug!(process_run, points = points.len(), "judged around");
        let mut others = Vec::new();
        loop {
            let first = around.first(points.iter().copied(), wanted, &mut self.budget);
            tracing::debug!(?first, "found around");
            let Some(first) = first else { return true };
            let class = first.class();
            if class == self.class || !self.fails_anyway(process_run, event, class) {
                return false;
            }
            others.push(class);
            wanted = Wanted::AllBut(others.clone());
        }
    }

    /// Whether an engine on files fails in this class around there with nothing done for it.
    fn fails_anyway(&mut self, process_run: usize, event: u64, class: Class) -> bool {
        if self.setting.scenario.files.is_none() {
            return false;
        }
        if let Some(known) = self.fails_anyway.get(&(process_run, class)) {
            return *known;
        }
        let plain = self.around(process_run, &[]);
        let fails = plain.is_some_and(|plain| {
            let points = plain.neighbours(event);
            let first = plain.first(points, Wanted::Only(class.into()), &mut self.budget);
            first.is_some()
        });
        self.fails_anyway.insert((process_run, class), fails);
        fails
    }

    /// What a cut may lose at each point of this process run of an engine on files, with nothing done for the guest.
    fn pending_at(&mut self, process_run: usize) -> Option<&Pending> {
        self.setting.scenario.files.as_ref()?;
        if !self.pending.contains_key(&process_run) {
            let plain = self.around(process_run, &[]);
            let pending = plain.map(|plain| plain.pending());
            self.pending.insert(process_run, pending);
        }
        self.pending.get(&process_run)?.as_ref()
    }

    pub(super) fn around(
        &mut self,
        process_run: usize,
        interventions: &[Intervention],
    ) -> Option<OpenRun<'a>> {
        let next = self.case.process_runs.get(process_run + 1);
        let works = next.is_some_and(|next: &CaseRun| !next.requests.is_empty());
        let reach = match works {
            true => Reach::Again,
            false if process_run < self.last && !self.case.faults.is_empty() => Reach::Errors,
            false if process_run < self.last => Reach::Deeper,
            false => Reach::Recovery,
        };
        let around = open_run(self.setting, self.case, process_run, reach, interventions)?;
        self.budget.charge(around.work);
        Some(around)
    }
}

/// A process run of a case once more, uncut, with this done for the guest.
fn open_run<'a>(
    setting: Setting<'a>,
    case: &Case,
    process_run: usize,
    reach: Reach,
    interventions: &[Intervention],
) -> Option<OpenRun<'a>> {
    let before = Case {
        process_runs: case.process_runs.get(..process_run)?.to_vec(),
        faults: case.faults.clone(),
    };
    let plan = Plan {
        before: &before,
        requests: &case.process_runs.get(process_run)?.requests,
        after: None,
        reach,
    };
    OpenRun::new(setting, plan, interventions)
}
