//! Walks the states of many crash points: lists them, passes over what was seen before, judges the rest, and goes deeper.
//!
//! Invariant: what is new and what was seen before is decided in the order of the points and of their states, by one thread; other
//! threads only build images and judge. So the counts, the first violation and the report are the same with any number of jobs.

use std::num::NonZeroUsize;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use kvsim_simdisk::{CrashKind, CrashState, PendingKind};
use xxhash_rust::xxh3::{Xxh3, Xxh3DefaultBuilder, xxh3_64, xxh3_128};

use super::judge::{Failed, Judged, Task, Then, judge_alike};
use super::parallel::map;
use super::point::{Lived, Point};
use super::report::{Found, LeftOutCounts, Level, PointCount};
use super::states::{States, states};
use crate::control::Control;
use crate::scenario::Scenario;

/// Crash points whose states are listed at once.
const POINTS_AT_ONCE: usize = 64;
/// States judged at once at the last depth, and above it, where each leaves a life behind with all its points.
const TASKS_AT_ONCE: [usize; 2] = [16_384, 256];

/// A walk through all levels.
pub(super) struct Walk<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) control: &'a Control,
    pub(super) jobs: NonZeroUsize,
    pub(super) seed: u64,
    /// Passing over what was seen before; off in a test that holds the results of both against each other.
    pub(super) skip_seen: bool,
    pub(super) seen: HashSet<u128, Xxh3DefaultBuilder>,
    /// By depth, from 1.
    pub(super) levels: Vec<Level>,
    pub(super) found: Vec<Found>,
}

/// Why a walk ended before its end.
pub(super) enum Ended {
    /// Somebody asked for it.
    Stopped,
    /// There are as many violations as are wanted.
    Enough,
    /// A state could not be judged.
    Failed(Failed),
}

/// States with what tells each apart from others, obligations aside.
#[derive(Default)]
struct Listed {
    states: States,
    keys: Vec<u128>,
}

/// What can be left of one point.
struct Choices {
    /// By a power cut: the same for all points between which the contents did not change.
    cuts: Arc<Listed>,
    /// By a killed process: it depends on what is under way.
    killed: Option<u128>,
}

/// A state that is new.
struct New<'a> {
    point: usize,
    /// Its bytes.
    image: u128,
    kind: CrashKind,
    state: &'a CrashState,
    then: Then,
}

/// A point and its life.
type Place<'a> = (&'a Arc<Lived>, &'a Point);

/// What a killed process leaves: everything that it submitted.
static KILLED: CrashState = CrashState {
    survivors: Vec::new(),
};

impl Walk<'_> {
    /// Walks the points of a life that was cut `depth` − 1 times before. Gives the counts of each point.
    pub(super) fn points(
        &mut self,
        life: &Arc<Lived>,
        points: &[Point],
        depth: u32,
    ) -> Result<Vec<PointCount>, (Vec<PointCount>, Ended)> {
        let mut counts = Vec::new();
        for batch in points.chunks(POINTS_AT_ONCE) {
            let batch: Vec<Place<'_>> = batch.iter().map(|point| (life, point)).collect();
            match self.batch(&batch, depth, &mut counts) {
                Ok(()) => {}
                Err(ended) => return Err((counts, ended)),
            }
        }
        Ok(counts)
    }

    fn batch(
        &mut self,
        points: &[Place<'_>],
        depth: u32,
        counts: &mut Vec<PointCount>,
    ) -> Result<(), Ended> {
        let listed = self.list(points)?;
        let mut new = Vec::new();
        let mut here = Vec::new();
        for (at, (place, choices)) in points.iter().zip(&listed).enumerate() {
            let Choices { cuts, killed } = choices;
            let mut count = PointCount::new(place.1, &cuts.states, killed.is_some());
            let cuts = cuts.states.taken.iter().zip(&cuts.keys);
            let all = cuts
                .map(|(state, image)| (CrashKind::Power, state, *image))
                .chain(killed.map(|image| (CrashKind::Process, &KILLED, image)));
            for (kind, state, image) in all {
                let key = with_obligations(image, *place, kind, depth);
                if !self.seen.insert(key) && self.skip_seen {
                    count.skipped += 1;
                    continue;
                }
                count.distinct += 1;
                let then = self.then(key, depth);
                new.push(New {
                    point: at,
                    image,
                    kind,
                    state,
                    then,
                });
            }
            here.push(count);
        }
        let end = self.judge_all(points, &new, depth, &mut here);
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

    /// Lists the states of each point. Points between which the contents did not change share those of power cuts.
    fn list(&self, points: &[Place<'_>]) -> Result<Vec<Choices>, Ended> {
        let explore = &self.scenario.explore;
        let power = self.scenario.run.power_weight > 0;
        let same = |one: &Place<'_>, other: &Place<'_>| {
            Arc::ptr_eq(one.0, other.0)
                && one.1.moment.device().contents() == other.1.moment.device().contents()
        };
        let groups: Vec<&[Place<'_>]> = points.chunk_by(same).collect();
        let lists = map(self.jobs, &groups, |group| {
            if self.control.stopped().is_some() {
                return None;
            }
            let device = group[0].1.moment.device();
            let mut cuts = Listed::default();
            if power {
                cuts.states = states(device, explore, self.seed ^ device.changes());
                // Every state is legal; what is not would be judged, and would fail as such.
                let key = |state| device.image_hash_after(state).unwrap_or(0);
                cuts.keys = cuts.states.taken.iter().map(key).collect();
            }
            let killed = |(_, point): &Place<'_>| explore.process_crash.then(|| killed_key(point));
            Some((Arc::new(cuts), group.iter().map(killed).collect::<Vec<_>>()))
        });
        let mut listed = Vec::with_capacity(points.len());
        for (group, list) in groups.iter().zip(lists) {
            let (cuts, killed) = list.ok_or(Ended::Stopped)?;
            for ((_, point), killed) in group.iter().zip(killed) {
                listed.push(if explore.in_flush || !point.is_in_flush() {
                    let cuts = Arc::clone(&cuts);
                    Choices { cuts, killed }
                } else {
                    Choices {
                        cuts: Arc::default(),
                        killed: None,
                    }
                });
            }
        }
        Ok(listed)
    }

    /// What follows on the recovery of a state. Which states are looked at again is drawn by what they are.
    fn then(&self, key: u128, depth: u32) -> Then {
        let explore = &self.scenario.explore;
        if depth < explore.depth {
            return Then::Deeper;
        }
        let hash = xxh3_64(&key.to_le_bytes());
        if explore.again_every > 0 && hash.is_multiple_of(explore.again_every) {
            Then::Again
        } else {
            Then::Nothing
        }
    }

    fn judge_all(
        &mut self,
        points: &[Place<'_>],
        new: &[New<'_>],
        depth: u32,
        counts: &mut [PointCount],
    ) -> Result<(), Ended> {
        let deeper = depth < self.scenario.explore.depth;
        for part in new.chunks(TASKS_AT_ONCE[usize::from(deeper)]) {
            let judged = self.judge_part(points, part);
            let mut lives = Vec::new();
            let mut stopped = false;
            for (new, judged) in part.iter().zip(judged) {
                let Some(judged) = judged else {
                    stopped = true;
                    continue;
                };
                counts[new.point].checked += 1;
                match judged {
                    Judged::Legal { deeper, recoveries } => {
                        self.level(depth).recoveries += recoveries;
                        lives.extend(deeper);
                    }
                    Judged::Reported => self.level(depth).reported += 1,
                    Judged::Violation(violation, case) => {
                        self.found.push(Found {
                            violation,
                            case,
                            depth,
                        });
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
            self.deeper(&lives, depth + 1)?;
        }
        Ok(())
    }

    /// Judges states, those of the same bytes together; nothing for those that were not come to.
    fn judge_part(&self, points: &[Place<'_>], part: &[New<'_>]) -> Vec<Option<Judged>> {
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
        let judged = map(self.jobs, &alike, |group| {
            if self.control.stopped().is_some() {
                return Vec::new();
            }
            let task = |&at: &usize| {
                self.control.count_crash();
                let (life, point) = points[part[at].point];
                Task {
                    life,
                    point,
                    kind: part[at].kind,
                    state: part[at].state,
                    then: part[at].then,
                }
            };
            let tasks: Vec<Task<'_>> = group.iter().map(task).collect();
            judge_alike(self.scenario, &tasks)
        });
        let mut in_order: Vec<Option<Judged>> = Vec::new();
        in_order.resize_with(part.len(), || None);
        for (group, judged) in alike.iter().zip(judged) {
            for (at, judged) in group.iter().zip(judged) {
                in_order[*at] = Some(judged);
            }
        }
        in_order
    }

    fn deeper(&mut self, lives: &[(Arc<Lived>, Vec<Point>)], depth: u32) -> Result<(), Ended> {
        let all: Vec<Place<'_>> = lives
            .iter()
            .flat_map(|(life, points)| points.iter().map(move |point| (life, point)))
            .collect();
        for batch in all.chunks(POINTS_AT_ONCE * 16) {
            self.batch(batch, depth, &mut Vec::new())?;
        }
        Ok(())
    }
}

/// What tells a state apart from others: its bytes, what is owed, and how deep it is.
fn with_obligations(image: u128, (life, point): Place<'_>, kind: CrashKind, depth: u32) -> u128 {
    let shown = point
        .twin(life, kind)
        .map_or(0, |twin| twin.fingerprint().max(1));
    let mut bytes = [0; 40];
    bytes[..16].copy_from_slice(&image.to_le_bytes());
    for (slot, number) in
        bytes[16..]
            .chunks_exact_mut(8)
            .zip([point.obligations, shown, u64::from(depth)])
    {
        slot.copy_from_slice(&number.to_le_bytes());
    }
    xxh3_128(&bytes)
}

/// What tells apart what two killed processes leave: what reads return, and what is still in the cache of the device, which
/// kept its power.
fn killed_key(point: &Point) -> u128 {
    let mut device = point.moment.device().clone();
    if device
        .crash(point.moment.now(), CrashKind::Process, &KILLED)
        .is_err()
    {
        return 0;
    }
    let image = device.image_hash();
    if device.pending().is_empty() {
        return image;
    }
    let mut hash = Xxh3::new();
    hash.update(&image.to_le_bytes());
    hash.update(&device.durable().hash().to_le_bytes());
    for write in device.pending() {
        let (offset, len_bytes) = write.range();
        let content = match &write.kind {
            PendingKind::Write { data, .. } => xxh3_64(data),
            PendingKind::Discard { .. } => 1,
            PendingKind::Grow { new_bytes } => *new_bytes,
        };
        for number in [offset, len_bytes, content, u64::from(write.dropped)] {
            hash.update(&number.to_le_bytes());
        }
    }
    hash.digest128()
}

impl PointCount {
    fn new(point: &Point, states: &States, killed: bool) -> PointCount {
        PointCount {
            event: point.event,
            at_ns: point.moment.now(),
            pending: point.moment.device().pending().len() as u64,
            in_flush: point.is_in_flush(),
            possible: states.possible.saturating_add(killed.into()),
            taken: states.taken.len() as u64 + u64::from(killed),
            distinct: 0,
            checked: 0,
            skipped: 0,
            left_out: LeftOutCounts::of(states.left_out),
        }
    }
}
