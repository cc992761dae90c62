//! Walks the states of many crash points: lists them, passes over what was seen before, judges the rest, and goes deeper.
//!
//! Points between which the contents of the device did not change form a *group*: they share the states of their power cuts. Groups are
//! taken in *batches*, and a batch is what a shard has or has not: only within one are states of the same bytes recovered
//! together, and below the first depth what was seen is remembered for each point of the recording by itself. So no shard needs to
//! know what another does.
//!
//! Invariant: what is new and what was seen before is decided in the order of the points and of their states, by one thread; other
//! threads only build images and judge. So the counts, the first violation and the report are the same with any number of jobs.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::{HashMap, HashSet};
use kvsim_simdisk::{CrashKind, CrashState, CrashStates as _};
use xxhash_rust::xxh3::{Xxh3DefaultBuilder, xxh3_64, xxh3_128};

use super::alike::Alike;
use super::cost::{Cost, PER_POINT, PER_STATE};
use super::found::Found;
use super::judge::{Failed, Judged, Task, Then, judge_alike};
use super::known::Recoveries;
use super::point::{Point, SeenRun};
use super::states::{States, states};
use crate::parallel::{STRIDE, map};
use kvsim_api::coverage::CoverageCounts;
use kvsim_drive::control::Control;
use kvsim_findings::explore::{LeftOutCounts, Level, PointCount};
use kvsim_oracle::{Class, Likeness, Violation};
use kvsim_scenario::Scenario;

/// Crash points whose states are listed at once: as many or a few more, so that no group is taken apart.
const POINTS_AT_ONCE: [usize; 2] = [32, 1_024];
/// So many images one after the other are judged by one thread, and share recoveries.
const NEAR_AT_ONCE: usize = 64;
/// States judged at once above the last depth, where each leaves a process run behind with all its points.
const PROCESS_RUNS_AT_ONCE: usize = 256;
/// States judged at once where work is bounded.
const JUDGED_AT_ONCE: usize = 256;

/// A walk through all levels.
pub struct Walk<'a> {
    /// What is explored.
    pub scenario: &'a Scenario,
    /// Who may end the walk early.
    pub control: &'a Control,
    /// How many threads judge.
    pub jobs: NonZeroUsize,
    /// The seed of the recording, and of samples.
    pub seed: u64,
    /// Of the batches of the recording, those are judged whose number leaves `shard.0` when divided by `shard.1`.
    pub shard: (u64, u64),
    /// Passing over what was seen before; off in a test that holds the results of both against each other.
    pub skip_seen: bool,
    /// Which violations count.
    pub wanted: Wanted,
    /// Hashes of what was judged: bytes, and what must survive.
    pub seen: HashSet<u128, Xxh3DefaultBuilder>,
    /// By depth, from 1.
    pub levels: Vec<Level>,
    /// Violations that count, in the order of the walk.
    pub found: Vec<Found>,
    /// The guest's coverage points, of all states that were judged.
    pub coverage_points: CoverageCounts,
    /// Work so far.
    pub work: u64,
    /// It ends after so much work, or some states later.
    pub work_max: u64,
    /// States judged so far, of the first depth, and at most so many.
    pub judged: u64,
    /// The walk ends after so many of them.
    pub judged_max: u64,
    /// Whether a violation counts; all do if absent.
    pub counts: Option<&'a (dyn Fn(&Found) -> bool + Sync)>,
    /// Violations that did not count.
    pub passed_over: u64,
    /// How many violations were met of each kind.
    pub alike: Alike,
}

/// Why a walk ended before its end.
pub enum Ended {
    /// Somebody asked for it.
    Stopped,
    /// There are as many violations as are wanted, or it took as much work as was granted.
    Enough,
    /// A state could not be judged.
    Failed(Failed),
}

/// Which violations count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// All.
    All,
    /// Those that are alike.
    Only(Likeness),
    /// Those of any other class than these.
    AllBut(Vec<Class>),
}

impl Wanted {
    fn has(&self, violation: &Violation) -> bool {
        match self {
            Wanted::All => true,
            Wanted::Only(wanted) => wanted.has(violation),
            Wanted::AllBut(others) => !others.contains(&violation.class()),
        }
    }
}

/// States with what tells each apart from others, obligations aside.
#[derive(Default)]
struct Listed {
    states: States,
    keys: Vec<u128>,
}

/// What can be left of the points of a group.
struct Group {
    /// By a power cut: the same for all of them.
    cuts: Listed,
    /// By a killed process, of each: it depends on what is under way.
    killed: Vec<Killed>,
}

/// What a killed process leaves at a point.
#[derive(Clone, Copy)]
enum Killed {
    Image(u128),
    /// Processes are not killed.
    Never,
    /// Nothing is taken of this point.
    NotTaken,
}

impl Killed {
    fn image(self) -> Option<u128> {
        match self {
            Killed::Image(image) => Some(image),
            Killed::Never | Killed::NotTaken => None,
        }
    }
}

static NOTHING: Listed = Listed {
    states: States::NONE,
    keys: Vec::new(),
};

/// A state that is new.
struct New<'a> {
    point: usize,
    /// Its bytes.
    image: u128,
    kind: CrashKind,
    state: &'a CrashState,
    then: Then,
}

/// A point, its process run, and the number of the point of the recording that it comes from.
#[derive(Clone, Copy)]
struct Place<'a> {
    process_run: &'a Arc<SeenRun>,
    point: &'a Point,
    origin: u64,
}

impl Place<'_> {
    /// Whether power cuts leave the same here and there.
    fn is_alike(&self, other: &Place<'_>) -> bool {
        Arc::ptr_eq(self.process_run, other.process_run)
            && self.point.moment.storage().contents() == other.point.moment.storage().contents()
    }
}

/// What a killed process leaves: everything that it submitted.
static KILLED: CrashState = CrashState {
    persisted: Vec::new(),
};

impl<'a> Walk<'a> {
    /// A walk through all states, each of them once, until its end.
    pub fn new(
        scenario: &'a Scenario,
        control: &'a Control,
        jobs: NonZeroUsize,
        seed: u64,
    ) -> Walk<'a> {
        Walk {
            scenario,
            control,
            jobs,
            seed,
            shard: (0, 1),
            skip_seen: true,
            wanted: Wanted::All,
            seen: HashSet::default(),
            levels: Vec::new(),
            found: Vec::new(),
            coverage_points: CoverageCounts::default(),
            work: 0,
            work_max: u64::MAX,
            judged: 0,
            judged_max: u64::MAX,
            counts: None,
            passed_over: 0,
            alike: Alike::default(),
        }
    }

    /// Walks the points of the recording. Gives the counts of each.
    pub fn points(
        &mut self,
        process_run: &Arc<SeenRun>,
        points: &[Point],
    ) -> Result<Vec<PointCount>, (Vec<PointCount>, Ended)> {
        self.points_from(0, process_run, points)
    }

    /// Walks points of which the first has this number.
    pub fn points_from(
        &mut self,
        first: u64,
        process_run: &Arc<SeenRun>,
        points: &[Point],
    ) -> Result<Vec<PointCount>, (Vec<PointCount>, Ended)> {
        let mut counts = Vec::new();
        let places: Vec<Place<'_>> = (first..)
            .zip(points)
            .map(|(origin, point)| Place {
                process_run,
                point,
                origin,
            })
            .collect();
        for (number, batch) in (0..).zip(batches(&places, POINTS_AT_ONCE[0])) {
            let is_ours = number % self.shard.1 == self.shard.0;
            if let Err(ended) = self.batch(batch, 1, is_ours, &mut counts) {
                return Err((counts, ended));
            }
        }
        Ok(counts)
    }

    /// Takes points at once, and judges what is new of them if they are ours.
    fn batch(
        &mut self,
        places: &[Place<'_>],
        depth: u32,
        is_ours: bool,
        counts: &mut Vec<PointCount>,
    ) -> Result<(), Ended> {
        if self.work >= self.work_max {
            return Err(Ended::Enough);
        }
        let groups = self.list(places)?;
        let listed = groups.iter().map(|group| group.cuts.keys.len() as u64);
        self.work += PER_STATE * listed.sum::<u64>() + PER_POINT * places.len() as u64;
        let mut new = Vec::new();
        let mut here = Vec::new();
        for group in &groups {
            for killed in &group.killed {
                let at = here.len();
                let place = places[at];
                let cuts: &Listed = match killed {
                    Killed::NotTaken => &NOTHING,
                    _ => &group.cuts,
                };
                let killed = killed.image();
                let mut count = nothing_judged(place.point, &cuts.states, killed.is_some());
                let all = cuts.states.taken.iter().zip(&cuts.keys);
                let all = all
                    .map(|(state, image)| (CrashKind::Power, state, *image))
                    .chain(killed.map(|image| (CrashKind::Process, &KILLED, image)));
                for (kind, state, image) in all {
                    let key = with_obligations(image, place, kind, depth);
                    if !self.seen.insert(key) && self.skip_seen {
                        count.skipped += 1;
                        continue;
                    }
                    count.distinct += 1;
                    if is_ours {
                        new.push(New {
                            point: at,
                            image,
                            kind,
                            state,
                            then: self.then(key, depth),
                        });
                    }
                }
                here.push(count);
            }
        }
        let end = self.judge_all(places, &new, depth, &mut here);
        for count in &here {
            self.level(depth).add(count);
        }
        counts.append(&mut here);
        end
    }

    fn level(&mut self, depth: u32) -> &mut Level {
        let at = depth as usize - 1;
        if self.levels.len() <= at {
            self.levels.resize_with(at + 1, Level::default);
        }
        &mut self.levels[at]
    }

    /// Lists the states of each group.
    fn list(&self, places: &[Place<'_>]) -> Result<Vec<Group>, Ended> {
        let explore = &self.scenario.explore;
        let power = self.scenario.run.power_weight > 0;
        let groups: Vec<&[Place<'_>]> = places.chunk_by(Place::is_alike).collect();
        let lists = map(self.jobs, STRIDE, &groups, |group| {
            if self.control.stopped().is_some() {
                return None;
            }
            let storage = group[0].point.moment.storage();
            let mut cuts = Listed::default();
            if power {
                cuts.states = states(storage, explore, self.seed ^ storage.changes());
                // Every state is legal; what is not would be judged, and would fail as such.
                let key = |state| storage.image_hash_after(state).unwrap_or(0);
                cuts.keys = cuts.states.taken.iter().map(key).collect();
            }
            let killed = |place: &Place<'_>| match place.point {
                point if point.is_in_flush() && !explore.in_flush => Killed::NotTaken,
                point if explore.process_crash => {
                    let moment = &point.moment;
                    Killed::Image(moment.storage().hash_if_killed(moment.now()))
                }
                _ => Killed::Never,
            };
            Some(Group {
                cuts,
                killed: group.iter().map(killed).collect(),
            })
        });
        lists
            .into_iter()
            .collect::<Option<_>>()
            .ok_or(Ended::Stopped)
    }

    /// What follows on the recovery of a state. Which states are looked at again is drawn by what they are.
    fn then(&self, key: u128, depth: u32) -> Then {
        let explore = &self.scenario.explore;
        let hash = xxh3_64(&key.to_le_bytes());
        if depth < explore.depth {
            let goes_deeper = hash.is_multiple_of(explore.deeper_every);
            return if goes_deeper {
                Then::Deeper
            } else {
                Then::Nothing
            };
        }
        if explore.again_every > 0 && hash.is_multiple_of(explore.again_every) {
            Then::Again
        } else {
            Then::Nothing
        }
    }

    fn judge_all(
        &mut self,
        places: &[Place<'_>],
        new: &[New<'_>],
        depth: u32,
        counts: &mut [PointCount],
    ) -> Result<(), Ended> {
        let goes_deeper = depth < self.scenario.explore.depth;
        let at_once = if goes_deeper {
            PROCESS_RUNS_AT_ONCE
        } else if self.work_max < u64::MAX || self.judged_max < u64::MAX {
            JUDGED_AT_ONCE
        } else {
            new.len().max(1)
        };
        for part in new.chunks(at_once) {
            if self.work >= self.work_max || self.judged >= self.judged_max {
                return Err(Ended::Enough);
            }
            let judged = self.judge_part(places, part);
            self.judged += if depth == 1 { part.len() as u64 } else { 0 };
            let mut process_runs = Vec::new();
            let mut stopped = false;
            for (new, judged) in part.iter().zip(judged) {
                let Some((judged, cost)) = judged else {
                    stopped = true;
                    continue;
                };
                self.coverage_points.add_all(&cost.coverage_points);
                self.work += cost.work;
                self.level(depth).undecided += cost.undecided;
                counts[new.point].checked += 1;
                match judged {
                    Judged::Legal {
                        deeper,
                        recoveries,
                        errors,
                    } => {
                        self.level(depth).recoveries += recoveries;
                        self.level(depth).errors.add(&errors);
                        let origin = places[new.point].origin;
                        process_runs.extend(
                            deeper.map(|(process_run, points)| (process_run, points, origin)),
                        );
                    }
                    Judged::Reported => self.level(depth).reported += 1,
                    Judged::Violation(violation, _) if !self.wants(&violation) => {}
                    Judged::Violation(violation, case) => {
                        let found = Found {
                            violation,
                            case,
                            depth,
                            origin: places[new.point].origin,
                        };
                        if self.counts.is_some_and(|counts| !counts(&found)) {
                            self.passed_over += 1;
                            continue;
                        }
                        if !self.alike.counts(&found, self.scenario.explore.alike_max) {
                            self.level(depth).alike += 1;
                            continue;
                        }
                        self.found.push(found);
                        if self.scenario.explore.violations_max == 1 {
                            return Err(Ended::Enough);
                        }
                    }
                    Judged::Failed(failed) => return Err(Ended::Failed(failed)),
                }
            }
            if self.found.len() as u64 >= self.scenario.explore.violations_max {
                let most = usize::try_from(self.scenario.explore.violations_max);
                self.found.truncate(most.unwrap_or(usize::MAX));
                return Err(Ended::Enough);
            }
            if stopped {
                return Err(Ended::Stopped);
            }
            self.deeper(&process_runs, depth + 1)?;
        }
        Ok(())
    }

    fn wants(&self, violation: &Violation) -> bool {
        self.wanted.has(violation)
    }

    /// Judges states, those of the same bytes together; nothing for those that were not come to.
    fn judge_part(&self, places: &[Place<'_>], part: &[New<'_>]) -> Vec<Option<(Judged, Cost)>> {
        let mut alike: Vec<Vec<usize>> = Vec::new();
        let mut by_image: HashMap<u128, usize, Xxh3DefaultBuilder> = HashMap::default();
        for (at, new) in part.iter().enumerate() {
            let group = if new.then == Then::Nothing {
                *by_image.entry(new.image).or_insert(alike.len())
            } else {
                alike.len()
            };
            match alike.get_mut(group) {
                Some(group) => group.push(at),
                None => alike.push(vec![at]),
            }
        }
        // If one violation is enough, what comes after the first need not be judged.
        let first_violation = AtomicUsize::new(usize::MAX);
        let one_is_enough = self.scenario.explore.violations_max == 1 && self.counts.is_none();
        let judge = |group: &Vec<usize>, known: &mut Recoveries| {
            let is_late = group[0] > first_violation.load(Ordering::Relaxed);
            if is_late || self.control.stopped().is_some() {
                return Vec::new();
            }
            let task = |&at: &usize| {
                self.control.count_crash();
                let Place {
                    process_run, point, ..
                } = places[part[at].point];
                Task {
                    process_run,
                    point,
                    kind: part[at].kind,
                    state: part[at].state,
                    then: part[at].then,
                }
            };
            let tasks: Vec<Task<'_>> = group.iter().map(task).collect();
            let judged = judge_alike(self.scenario, &tasks, known);
            for (at, (judged, _)) in group.iter().zip(&judged) {
                match judged {
                    Judged::Violation(violation, _) if one_is_enough && self.wants(violation) => {
                        first_violation.fetch_min(*at, Ordering::Relaxed);
                    }
                    _ => {}
                }
            }
            judged
        };
        // Which recovery does for which states is found among those of a stretch, so that no thread waits for another.
        let stretches: Vec<&[Vec<usize>]> = alike.chunks(NEAR_AT_ONCE).collect();
        let judged = map(self.jobs, 1, &stretches, |stretch| {
            let mut known = Recoveries::default();
            let judged = stretch.iter().map(|group| judge(group, &mut known));
            judged.collect::<Vec<_>>()
        });
        let mut in_order: Vec<Option<(Judged, Cost)>> = Vec::new();
        in_order.resize_with(part.len(), || None);
        for (group, judged) in alike.iter().zip(judged.into_iter().flatten()) {
            for (at, judged) in group.iter().zip(judged) {
                in_order[*at] = Some(judged);
            }
        }
        in_order
    }

    fn deeper(
        &mut self,
        process_runs: &[(Arc<SeenRun>, Vec<Point>, u64)],
        depth: u32,
    ) -> Result<(), Ended> {
        let all: Vec<Place<'_>> = process_runs
            .iter()
            .flat_map(|(process_run, points, origin)| {
                points.iter().map(move |point| Place {
                    process_run,
                    point,
                    origin: *origin,
                })
            })
            .collect();
        for batch in batches(&all, POINTS_AT_ONCE[1]) {
            self.batch(batch, depth, true, &mut Vec::new())?;
        }
        Ok(())
    }
}

/// Stretches of at least so many points that take no group apart.
fn batches<'p, 'a>(places: &'p [Place<'a>], least: usize) -> impl Iterator<Item = &'p [Place<'a>]> {
    let mut rest = places;
    std::iter::from_fn(move || {
        let mut end = 0;
        for group in rest.chunk_by(Place::is_alike) {
            end += group.len();
            if end >= least {
                break;
            }
        }
        let (batch, after) = rest.split_at(end);
        rest = after;
        (!batch.is_empty()).then_some(batch)
    })
}

/// What tells a state apart from others: its bytes, what must survive, how deep it is, and below the first depth where it comes from.
fn with_obligations(image: u128, place: Place<'_>, kind: CrashKind, depth: u32) -> u128 {
    let shown = place
        .point
        .reference(place.process_run, kind)
        .map_or(0, |reference| reference.fingerprint().max(1));
    let origin = if depth == 1 { 0 } else { place.origin };
    let mut bytes = [0; 48];
    bytes[..16].copy_from_slice(&image.to_le_bytes());
    for (slot, number) in bytes[16..].chunks_exact_mut(8).zip([
        place.point.obligations,
        shown,
        u64::from(depth),
        origin,
    ]) {
        slot.copy_from_slice(&number.to_le_bytes());
    }
    xxh3_128(&bytes)
}

/// What there is to do at a point, and nothing of it done.
fn nothing_judged(point: &Point, states: &States, killed: bool) -> PointCount {
    PointCount {
        event: point.event,
        at_ns: point.moment.now(),
        pending: point.moment.storage().pending_count() as u64,
        in_flush: point.is_in_flush(),
        possible: states.possible.saturating_add(killed.into()),
        taken: states.taken.len() as u64 + u64::from(killed),
        distinct: 0,
        checked: 0,
        skipped: 0,
        left_out: LeftOutCounts::from(states.left_out),
    }
}
