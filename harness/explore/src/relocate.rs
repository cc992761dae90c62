//! The process runs before the open one, when requests are left out of them: each is cut where it is most like it was.
//!
//! Invariant: a process run that is closed, or of whose cut no meaning is known, is cut as its case says.

use std::sync::Arc;

use kvsim_sim::{TraceMode, World};
use kvsim_simdisk::CrashKind;

use super::cost::work;
use super::meaning::Meaning;
use super::open::Setting;
use super::point::Recorder;
use kvsim_drive::case::{Phase, ProcessRun, Source, Stop};
use kvsim_oracle::{Ending, Oracle, Violation};
use kvsim_scenario::case::{Case, CaseCrash, CaseRun};
use kvsim_scenario::setup;

/// Where a case with other requests leads.
pub enum Relocated {
    /// Each of its process runs is cut.
    Cut(Case),
    /// One of them fails before it is cut, which is the end of the case.
    Fails(Box<Violation>, Case),
    /// It does not lead on.
    Lost,
}

/// The cuts of a case by their meaning, and the work that it took to know. Nothing stands for a process run that is closed, refused or never cut.
pub fn meanings(setting: Setting<'_>, case: &Case) -> (Vec<Option<Meaning>>, u64) {
    let mut all = Vec::new();
    let Some(mut course) = Course::new(setting, case) else {
        return (all, 0);
    };
    for process_run in &case.process_runs {
        let Some(crash) = &process_run.crash else {
            break;
        };
        match course.exactly(process_run, crash) {
            Ok(meaning) => all.push(meaning),
            Err(_) => break,
        }
    }
    (all, work(&course.world))
}

/// The first process runs of a case, up to number `until`, cut where they are most like `like`; and the work that it took.
pub fn relocated(
    setting: Setting<'_>,
    case: &Case,
    until: usize,
    like: &[Option<Meaning>],
) -> (Relocated, u64) {
    let mut found = Case {
        process_runs: Vec::new(),
        faults: case.faults.clone(),
    };
    let Some(mut course) = Course::new(setting, case) else {
        return (Relocated::Lost, 0);
    };
    for (at, process_run) in case.process_runs.iter().enumerate().take(until) {
        let Some(crash) = &process_run.crash else {
            return (Relocated::Lost, work(&course.world));
        };
        let meaning = like.get(at).and_then(Option::as_ref);
        let cut = match meaning.filter(|_| process_run.close_after_event.is_none()) {
            Some(meaning) => course.alike(process_run, meaning),
            None => course.exactly(process_run, crash).map(|_| crash.clone()),
        };
        match cut {
            Ok(crash) => found.process_runs.push(CaseRun {
                crash: Some(crash),
                ..process_run.clone()
            }),
            Err(Stop::Violation(violation)) => {
                found.process_runs.push(CaseRun {
                    crash: None,
                    ..process_run.clone()
                });
                return (Relocated::Fails(violation, found), work(&course.world));
            }
            Err(_) => return (Relocated::Lost, work(&course.world)),
        }
    }
    (Relocated::Cut(found), work(&course.world))
}

/// A case on its way.
struct Course<'a> {
    setting: Setting<'a>,
    world: World,
    oracle: Arc<Oracle>,
    crashes: u64,
}

impl<'a> Course<'a> {
    fn new(setting: Setting<'a>, case: &Case) -> Option<Course<'a>> {
        let scenario = setting.scenario;
        let seed = scenario.run.seeds.start;
        let mut config = setup::world_config(scenario, &**setting.program, seed, TraceMode::Off);
        setup::add_script(&mut config, &case.faults);
        let lies = setup::lies(scenario, &case.faults);
        Some(Course {
            setting,
            world: World::new(Arc::clone(setting.program), config).ok()?,
            oracle: Arc::new(Oracle::new(setup::oracle_config(
                scenario,
                &**setting.program,
                lies,
            ))),
            crashes: 0,
        })
    }

    /// A blank world takes the place of the one that goes on in a process run.
    fn take(&mut self) -> Option<(World, Arc<Oracle>)> {
        let Setting {
            scenario, program, ..
        } = self.setting;
        let config = setup::world_config(scenario, &**program, 0, TraceMode::Off);
        let blank = World::new(Arc::clone(program), config).ok()?;
        let world = std::mem::replace(&mut self.world, blank);
        Some((world, Arc::clone(&self.oracle)))
    }

    /// One process run, cut as the case says.
    fn exactly(
        &mut self,
        process_run: &CaseRun,
        crash: &CaseCrash,
    ) -> Result<Option<Meaning>, Stop> {
        let lost = || Stop::Invalid("the device is impossible".to_owned());
        let (world, oracle) = self.take().ok_or_else(lost)?;
        let (first, rest) = process_run.before_and_after_reading();
        let source = Source::listed(if first.is_empty() { rest } else { first });
        let scenario = self.setting.scenario;
        let mut run = ProcessRun::new(world, oracle, source, scenario, self.crashes, ());
        run.cut_after(process_run.close_after_event.unwrap_or(crash.after_event));
        let mut end = if first.is_empty() {
            let recovered = run.recover();
            let worked = recovered.and_then(|shown| run.adopt(&shown, None));
            worked.and_then(|()| run.work())
        } else {
            run.live_unread(rest)
        };
        let is_closed = process_run.close_after_event.is_some()
            && run.is_recovered()
            && matches!(end, Ok(()) | Err(Stop::Cut));
        if is_closed {
            end = run.close();
        }
        let phase = if run.is_recovered() {
            Phase::Working
        } else {
            Phase::Recovering
        };
        let unsent = process_run.requests.len().saturating_sub(run.log.len());
        (self.world, self.oracle, ()) = run.end();
        let is_refused = matches!(end, Err(Stop::DeviceError(_)));
        if !is_refused && !matches!(end, Ok(()) | Err(Stop::Cut)) {
            end?;
        }
        let state = crash.state();
        let storage = self.world.storage();
        let meaning = Meaning::of(storage, phase, unsent, crash.kind, &state);
        let now = self.world.now();
        let cut = self.world.crash_with(crash.kind, &state);
        cut.map_err(|error| Stop::Invalid(error.to_string()))?;
        let ending = if is_closed || is_refused {
            Ending::Close
        } else {
            self.crashes += 1;
            Ending::Crash
        };
        Arc::make_mut(&mut self.oracle).stopped(now, ending);
        Ok((ending == Ending::Crash).then_some(meaning))
    }

    /// One process run, cut where it is most like `meaning`.
    fn alike(&mut self, process_run: &CaseRun, meaning: &Meaning) -> Result<CaseCrash, Stop> {
        let lost = || Stop::Invalid("no cut is like it".to_owned());
        let (world, oracle) = self.take().ok_or_else(lost)?;
        let source = Source::listed(&process_run.requests);
        let scenario = self.setting.scenario;
        let recorder = Some(Recorder::default());
        let mut run = ProcessRun::new(world, oracle, source, scenario, self.crashes, recorder);
        let recovered = run.recover();
        let worked = recovered.and_then(|shown| run.adopt(&shown, None));
        worked.and_then(|()| run.work())?;
        let (world, _, recorder) = run.end();
        self.world = world;
        let points = recorder.unwrap_or_default().points;
        let all = process_run.requests.len();
        let best = (0..)
            .zip(&points)
            .map(|(at, point)| (meaning.likeness(point, all.saturating_sub(point.sent)), at))
            .max();
        let (_, at): (i64, usize) = best.ok_or_else(lost)?;
        let point = &points[at];
        let (kind, state) = (meaning.kind(), meaning.state(point.moment.storage()));
        let crashed = point.moment.crashed(kind, &state);
        self.world = crashed.map_err(|error| Stop::Invalid(error.to_string()))?;
        self.oracle = Arc::clone(&point.oracle);
        self.crashes += 1;
        Ok(CaseCrash {
            after_event: point.event,
            kind,
            persisted: if kind == CrashKind::Power {
                state.persisted
            } else {
                Vec::new()
            },
        })
    }
}
