//! Mistakes that the host makes on an engine that uses files: the syncs of one place in the engine's code are left out, and it is seen whether a
//! crash shows that.
//!
//! A *place* is a stack of functions and where in each of them the call stands. The engine cannot tell, so the recording is the same event for
//! event, and only what a cut can leave differs. The points at which it differs, the *window*, are walked first, without the states that a cut can leave
//! of the recording as it is. If recoveries are cut too, all points are walked then: a recovery makes syncs as well.
//!
//! The recording is explored with all syncs in place first. If the engine fails then, under this profile, a violation without the syncs counts only if
//! the same case passes with them: what is cut at the same event, and what is kept as far as it is pending there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashSet;
use kvsim_fs::LeftOutSyncs;
use kvsim_sim::{Frame, Trace, TraceEvent, TraceMode};
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

use super::{Exploration, now};
use crate::explore::found::Found;
use crate::explore::level::{Ended, Walk};
use crate::explore::point::Point;
use crate::explore::record::Recording;
use kvsim_drive::case::{Course, Stop, drive_on};
use kvsim_drive::control::Control;
use kvsim_findings::error::CampaignError;
use kvsim_findings::summary::FailureReport;
use kvsim_scenario::Scenario;
use kvsim_scenario::case::Case;

/// What is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Synced {
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// A place in the engine's code that makes syncs.
#[derive(Debug, Clone)]
pub struct SyncPlace {
    /// Its number, in 16 hexadecimal digits.
    pub place: String,
    /// What it syncs; the first time, if that differs.
    pub synced: Synced,
    /// What it syncs first: the path of a file; of a directory these words and its path from the root, if it is another one.
    pub path: String,
    /// What the engine called: `fd_sync`.
    pub call: &'static str,
    /// How many syncs of the recording it makes.
    pub calls: u64,
    /// The functions that were running, innermost first.
    pub frames: Vec<Frame>,
}

/// What became of a recording without the syncs of a place.
#[derive(Debug, Clone)]
pub enum PlaceEnd {
    /// A property was violated that holds with them.
    Caught(Box<FailureReport>),
    /// All states within the bounds were judged, and none shows it. Of so many crash points only a sample was taken, as the scenario's
    /// `states_per_point` says; of none if the bounds hold nothing more.
    Unneeded {
        /// Crash points.
        sampled: u64,
    },
    /// The states that were judged do not show it, and they were not all; why.
    Undecided(String),
}

/// A place and its end.
#[derive(Debug, Clone)]
pub struct LeftOutPlace {
    /// Which of its syncs was left out, from 0; all if absent.
    pub nth: Option<u64>,
    /// How it ended.
    pub end: PlaceEnd,
    /// Crash points in its window.
    pub points: usize,
    /// States judged.
    pub states: u64,
    /// Violations that the engine has with the syncs in place as well.
    pub own: u64,
    /// Real time.
    pub elapsed: Duration,
}

/// A recording with all places that make syncs.
pub struct SyncPlaces {
    clean: Recording,
    places: Vec<SyncPlace>,
    /// What is violated with all syncs in place, and how many states were judged until then, or all.
    control: (Option<String>, u64),
    /// The states of the recording as it is.
    seen: HashSet<u128, Xxh3DefaultBuilder>,
}

impl SyncPlaces {
    /// The places, in the order of their first sync.
    #[must_use]
    pub fn list(&self) -> &[SyncPlace] {
        &self.places
    }

    /// What is violated with all syncs in place, under this profile; nothing if all states that were judged pass, and how many these are.
    #[must_use]
    pub fn control(&self) -> (Option<&str>, u64) {
        (self.control.0.as_deref(), self.control.1)
    }
}

/// A sync of the recording: the number of its call, and of what.
struct Sync {
    op: u64,
    name: String,
}

impl Exploration {
    /// Records the run, and finds the places that make syncs.
    ///
    /// # Errors
    /// It cannot be recorded, or the guest uses no files.
    pub fn sync_places(
        &self,
        states_max: u64,
        control: &Control,
    ) -> Result<SyncPlaces, CampaignError> {
        if self.scenario.files.is_none() {
            return Err(CampaignError::InvalidRun {
                scenario: self.scenario.name.clone(),
                seed: self.seed,
                what: "the scenario has no [files]: places of syncs are known of engines that use files"
                    .to_owned(),
            });
        }
        let clean = self.recorded()?;
        let case = clean.process_run.case(clean.process_run.log.len(), None);
        let drive = |calls: Option<&BTreeSet<u64>>| {
            let course = Course {
                traced_calls: calls,
                ..Course::default()
            };
            let (program, seed) = (&self.program, self.seed);
            let driven = drive_on(
                &self.scenario,
                &case,
                program,
                seed,
                TraceMode::Full,
                course,
            );
            driven.map_err(|stop| CampaignError::InvalidRun {
                scenario: self.scenario.name.clone(),
                seed,
                what: format!("its recording cannot be run again: {stop:?}"),
            })
        };
        let syncs = syncs(drive(None)?.world.trace());
        let ops: BTreeSet<u64> = syncs.iter().map(|sync| sync.op).collect();
        let traced = drive(Some(&ops))?;
        let calls = traced.world.traced_calls();
        let mut places: Vec<SyncPlace> = Vec::new();
        let mut known: BTreeMap<u64, usize> = BTreeMap::new();
        for sync in syncs {
            let Some(call) = calls.get(&sync.op) else {
                return Err(CampaignError::Nondeterminism {
                    scenario: self.scenario.name.clone(),
                    seed: self.seed,
                    difference: format!("call {} was a sync the first time alone", sync.op),
                });
            };
            let at = *known.entry(call.place).or_insert_with(|| {
                places.push(SyncPlace {
                    place: format!("{:016x}", call.place),
                    synced: match sync.name.starts_with("the directory") {
                        true => Synced::Directory,
                        false => Synced::File,
                    },
                    path: sync.name.clone(),
                    call: call.name,
                    calls: 0,
                    frames: call.frames.clone(),
                });
                places.len() - 1
            });
            places[at].calls += 1;
        }
        let mut listing = Walk {
            // No batch leaves 1 when divided by 1, so all states are listed and none is judged.
            shard: (1, 1),
            ..Walk::new(&self.scenario, control, self.jobs, self.seed)
        };
        if let Err((_, Ended::Failed(failed))) = listing.points(&clean.process_run, &clean.points) {
            return Err(self.error(failed));
        }
        let mut judging = Walk {
            judged_max: states_max,
            ..Walk::new(&self.scenario, control, self.jobs, self.seed)
        };
        if let Err((_, Ended::Failed(failed))) = judging.points(&clean.process_run, &clean.points) {
            return Err(self.error(failed));
        }
        let own = judging
            .found
            .first()
            .map(|found| found.violation.to_string());
        Ok(SyncPlaces {
            control: (own, judging.judged),
            seen: listing.seen,
            clean,
            places,
        })
    }

    /// The same scenario without the syncs of a place, or without one of them.
    #[must_use]
    pub fn without_syncs(&self, place: &SyncPlace, nth: Option<u64>) -> Exploration {
        let mut scenario = (*self.scenario).clone();
        if let Some(files) = &mut scenario.files {
            files.left_out = Some(LeftOutSyncs {
                place: place.place.clone(),
                nth,
            });
        }
        scenario.explore.violations_max = 1;
        Exploration {
            scenario: Arc::new(scenario),
            ..self.clone()
        }
    }

    /// Leaves out the syncs of a place, or one of them, and judges at most so many states.
    ///
    /// # Errors
    /// Something of ours went wrong; nothing is said about the place.
    pub fn leave_out_syncs(
        &self,
        places: &SyncPlaces,
        place: &SyncPlace,
        nth: Option<u64>,
        states_max: u64,
        control: &Control,
    ) -> Result<LeftOutPlace, CampaignError> {
        let began = now();
        let mutated = self.without_syncs(place, nth);
        let scenario = &*mutated.scenario;
        let recording = mutated.recorded()?;
        let window = window(&places.clean.points, &recording.points);
        let counts = |found: &Found| -> bool { self.passes_with_syncs(scenario, &found.case) };
        let mut walk = Walk {
            seen: places.seen.clone(),
            judged_max: states_max,
            counts: places.control.0.as_ref().map(|_| &counts as &_),
            ..Walk::new(scenario, control, self.jobs, self.seed)
        };
        let mut walked = walk.points(&recording.process_run, &window);
        let explore = &scenario.explore;
        if walked.is_ok() && (explore.depth > 1 || explore.again_every > 0) {
            let clean = &places.seen;
            walk.seen.retain(|key| !clean.contains(key));
            walked = walk.points(&recording.process_run, &recording.points);
        }
        let sampled: u64 = walk.levels.iter().map(|it| it.left_out.sampled).sum();
        let found = walk.found.into_iter().next();
        let end = match (walked, found) {
            (Err((_, Ended::Failed(failed))), _) => return Err(self.error(failed)),
            (_, Some(found)) => {
                let kept = Exploration {
                    minimise: false,
                    ..mutated.clone()
                };
                PlaceEnd::Caught(Box::new(kept.confirm(&found, 0, control)?))
            }
            (Err((_, Ended::Stopped)), None) => PlaceEnd::Undecided("interrupted".to_owned()),
            (Err((_, Ended::Enough)), None) => {
                PlaceEnd::Undecided(format!("the limit of {states_max} states was reached"))
            }
            (Ok(_), None) => PlaceEnd::Unneeded { sampled },
        };
        Ok(LeftOutPlace {
            nth,
            end,
            points: window.len(),
            states: walk.levels.iter().map(|level| level.checked).sum(),
            own: walk.passed_over,
            elapsed: began.elapsed(),
        })
    }

    /// Whether a case of a scenario without some syncs passes with all of them. A case that cannot be run so says nothing and counts as one that passes.
    #[must_use]
    pub fn passes_with_syncs(&self, without: &Scenario, case: &Case) -> bool {
        let mut scenario = without.clone();
        if let Some(files) = &mut scenario.files {
            files.left_out = None;
        }
        let course = Course {
            lets_go: true,
            ..Course::default()
        };
        let (program, seed) = (&self.program, self.seed);
        let driven = drive_on(&scenario, case, program, seed, TraceMode::Off, course);
        !driven.is_ok_and(|driven| matches!(driven.end, Err(Stop::Violation(_))))
    }
}

/// The syncs of a trace, in order.
fn syncs(trace: &Trace) -> Vec<Sync> {
    let syncs = trace.events().filter_map(|record| match &record.event {
        TraceEvent::Step {
            op,
            kind: "sync",
            what,
            ..
        } => Some(Sync {
            op: *op,
            name: what
                .strip_prefix("sync of ")?
                .strip_suffix(" begins")?
                .to_owned(),
        }),
        _ => None,
    });
    syncs.collect()
}

/// The points at which a cut can leave something else without the syncs. Points are compared by the number of calls before them: a file that a sync
/// would have ended for good goes on having steps, so there may be more or fewer points than with the syncs.
fn window(clean: &[Point], mutated: &[Point]) -> Vec<Point> {
    let state = |point: &Point| {
        let files = point.moment.storage().files();
        files.map(|files| (files.ops(), files.pending_hash(), files.durable_hash()))
    };
    let known: BTreeSet<_> = clean.iter().filter_map(state).collect();
    let differs = |point: &&Point| state(point).is_none_or(|state| !known.contains(&state));
    mutated.iter().filter(differs).cloned().collect()
}
