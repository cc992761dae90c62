//! The syncs of an engine that uses files, left out one place at a time: is each of them needed, is it noticed, and does blame name it? See
//! [`kvsim_search::exploration::sync_places`] for what is left out and explored.
//!
//! *Blame is right* if one of its fixes is a sync of the file or directory whose sync was left out, after a call of which the sync that was left
//! out would have made a step durable. So the sync that was left out lies between the call that blame names and the crash.
//!
//! Invariant: places, verdicts, states and blame depend on scenario and guest alone, as long as no limit of real time ends a search.

pub mod json;
pub mod text;

use std::time::Duration;

use kvsim_sim::TraceMode;

use kvsim_drive::case::drive;
use kvsim_drive::control::Control;
use kvsim_findings::blame::{Blame, BlameVerdict};
use kvsim_findings::error::CampaignError;
use kvsim_findings::summary::FailureReport;
use kvsim_scenario::Scenario;
use kvsim_search::blame::blame;
use kvsim_search::exploration::Exploration;
use kvsim_search::exploration::sync_places::{LeftOutPlace, PlaceEnd, SyncPlace};
use kvsim_search::minimise::minimise_and_blame;

/// How the syncs of a scenario are left out.
#[derive(Debug, Clone)]
pub struct LeaveOut {
    /// Each sync by itself, in place of all of a place.
    pub each_call: bool,
    /// Only the places whose numbers begin so; all if empty.
    pub only: Vec<String>,
    /// States that are judged of a place at most.
    pub states_max: u64,
    /// Real time that shrinking a failure and blaming it may take together.
    pub limit: Duration,
}

/// What blame says of a failure.
#[derive(Debug, Clone)]
pub struct Blamed {
    /// The failure, as it was saved.
    pub failure: FailureReport,
    /// Requests of its case.
    pub requests: usize,
    /// Whether the case was made small. If not, the small one fails with all syncs as well.
    pub is_small: bool,
    /// What blame says.
    pub blame: Blame,
    /// Whether it names the sync that was left out.
    pub is_right: bool,
}

/// A place, or one sync of it, and what became of it.
#[derive(Debug, Clone)]
pub struct Line {
    /// The place.
    pub place: SyncPlace,
    /// What became of it.
    pub left_out: LeftOutPlace,
    /// What blame says of what was caught, or why there is nothing to say.
    pub blamed: Option<Result<Blamed, String>>,
}

/// All of one scenario.
#[derive(Debug, Clone)]
pub struct Report {
    /// The scenario.
    pub scenario: String,
    /// The guest.
    pub guest: String,
    /// What is violated with all syncs in place, if anything is, and how many states were judged then.
    pub control: (Option<String>, u64),
    /// The places, in order.
    pub lines: Vec<Line>,
    /// It was interrupted before all of them were left out.
    pub interrupted: bool,
}

impl Report {
    /// Lines that were caught.
    pub fn caught(&self) -> impl Iterator<Item = &Line> {
        let caught = |line: &&Line| matches!(line.left_out.end, PlaceEnd::Caught(_));
        self.lines.iter().filter(caught)
    }

    /// Lines of which all states within the bounds pass.
    pub fn unneeded(&self) -> impl Iterator<Item = &Line> {
        let unneeded = |line: &&Line| matches!(line.left_out.end, PlaceEnd::Unneeded { .. });
        self.lines.iter().filter(unneeded)
    }

    /// Lines of which nothing is known.
    pub fn undecided(&self) -> impl Iterator<Item = &Line> {
        let undecided = |line: &&Line| matches!(line.left_out.end, PlaceEnd::Undecided(_));
        self.lines.iter().filter(undecided)
    }

    /// What was caught and blamed.
    pub fn blamed(&self) -> impl Iterator<Item = &Blamed> {
        let blamed = self.lines.iter().filter_map(|line| line.blamed.as_ref());
        blamed.filter_map(|blamed| blamed.as_ref().ok())
    }
}

/// Leaves out the syncs of each place in turn. `done` is told of each.
///
/// # Errors
/// Something of ours went wrong, or the scenario cannot be recorded.
pub fn leave_out_each(
    exploration: &Exploration,
    how: &LeaveOut,
    control: &Control,
    mut done: impl FnMut(&Line),
) -> Result<Report, CampaignError> {
    let places = exploration.sync_places(how.states_max, control)?;
    let mut report = Report {
        scenario: exploration.scenario.name.clone(),
        guest: exploration.program.name().to_owned(),
        control: {
            let (own, judged) = places.control();
            (own.map(str::to_owned), judged)
        },
        lines: Vec::new(),
        interrupted: false,
    };
    let is_wanted = |place: &&SyncPlace| {
        how.only.is_empty()
            || how
                .only
                .iter()
                .any(|it| place.place.starts_with(it.as_str()))
    };
    for place in places.list().iter().filter(is_wanted) {
        let which: Vec<Option<u64>> = match how.each_call {
            true => (0..place.calls).map(Some).collect(),
            false => vec![None],
        };
        for nth in which {
            // Failures of all places may have the same name.
            let mut exploration = exploration.clone();
            exploration.failures = exploration.failures.map(|directory| match nth {
                Some(nth) => directory.join(format!("{}-{nth}", place.place)),
                None => directory.join(&place.place),
            });
            let exploration = &exploration;
            let left_out =
                exploration.leave_out_syncs(&places, place, nth, how.states_max, control)?;
            if control.stopped().is_some() {
                report.interrupted = true;
                return Ok(report);
            }
            let blamed = match &left_out.end {
                PlaceEnd::Caught(failure) => {
                    let is_clean = report.control.0.is_none();
                    Some(blame_it(exploration, failure, is_clean, how.limit, control))
                }
                _ => None,
            };
            let line = Line {
                place: place.clone(),
                left_out,
                blamed,
            };
            done(&line);
            report.lines.push(line);
        }
    }
    Ok(report)
}

/// Makes a failure small and finds what is to blame. Where the small case fails with all syncs as well, the failure as it was found is blamed.
fn blame_it(
    exploration: &Exploration,
    failure: &FailureReport,
    is_clean: bool,
    limit: Duration,
    control: &Control,
) -> Result<Blamed, String> {
    let Some(file) = &failure.file else {
        return Err("its case was not saved".to_owned());
    };
    let (program, jobs) = (&exploration.program, exploration.jobs);
    let found = kvsim_scenario::load(file, &[]).map_err(|error| error.to_string())?;
    if exploration.minimise {
        let both = minimise_and_blame(&found, program, None, jobs, control, Some(limit), &|_| {});
        if let Ok((small, blame)) = both
            && let Some(case) = &small.scenario.case
            && (is_clean || exploration.passes_with_syncs(&small.scenario, case))
        {
            let (requests, is_right) = (
                case.requests(),
                is_right(exploration, &small.scenario, &blame),
            );
            let directory = exploration.failures.as_deref();
            let failure = small.report(program.as_ref(), directory, Some(blame.clone()));
            return Ok(Blamed {
                failure,
                requests,
                is_small: true,
                blame,
                is_right,
            });
        }
    }
    control.end_after(limit);
    let blame = blame(&found, program, jobs, control);
    control.never_end();
    let blame = blame?;
    Ok(Blamed {
        failure: failure.clone(),
        requests: found.case.as_ref().map_or(0, |case| case.requests()),
        is_small: false,
        is_right: is_right(exploration, &found, &blame),
        blame,
    })
}

/// Whether one of the fixes is a sync that was left out.
fn is_right(exploration: &Exploration, scenario: &Scenario, blame: &Blame) -> bool {
    let Some(case) = &scenario.case else {
        return false;
    };
    if blame.verdict() != BlameVerdict::Ordering {
        return false;
    }
    let (program, seed) = (&exploration.program, scenario.run.seeds.start);
    let Ok(driven) = drive(scenario, case, program, seed, TraceMode::Off) else {
        return false;
    };
    let Some(files) = driven.world.storage().files() else {
        return false;
    };
    blame.fixes.iter().any(|fix| {
        let Some(call) = fix.after_call else {
            return false;
        };
        let mut left_out = files.left_out().iter();
        left_out.any(|sync| {
            fix.file.is_none_or(|file| file == sync.ino.0) && sync.covers.contains(&call)
        })
    })
}
