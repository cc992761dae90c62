//! Walks the states of many crash points: lists them, passes over what was seen before, judges the rest, and goes deeper.
//!
//! Invariant: what is new and what was seen before is decided in the order of the points and of their states, by one thread; other
//! threads only build images and judge. So the counts, the first violation and the report are the same with any number of jobs.

use std::num::NonZeroUsize;
use std::sync::Arc;

use hashbrown::HashSet;
use kvsim_simdisk::{CrashKind, CrashState, PendingKind};
use xxhash_rust::xxh3::{Xxh3, Xxh3DefaultBuilder, xxh3_64};

use super::judge::{Failed, Judged, Task, Then, judge};
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

/// States of one point, each with what tells it apart from others, obligations aside.
struct Listed {
    states: States,
    keys: Vec<u128>,
}

/// A state that is new.
struct New<'a> {
    point: usize,
    kind: CrashKind,
    state: &'a CrashState,
    then: Then,
}

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
            let batch: Vec<(&Arc<Lived>, &Point)> =
                batch.iter().map(|point| (life, point)).collect();
            match self.batch(&batch, depth, &mut counts) {
                Ok(()) => {}
                Err(ended) => return Err((counts, ended)),
            }
        }
        Ok(counts)
    }

    fn batch(
        &mut self,
        points: &[(&Arc<Lived>, &Point)],
        depth: u32,
        counts: &mut Vec<PointCount>,
    ) -> Result<(), Ended> {
        let listed = self.list(points)?;
        let mut new = Vec::new();
        let mut here = Vec::new();
        for (at, ((_, point), listed)) in points.iter().zip(&listed).enumerate() {
            let mut count = PointCount::new(point, &listed.states);
            for ((kind, state), key) in listed.states.taken.iter().zip(&listed.keys) {
                let key = self.with_obligations(*key, points[at], *kind, depth);
                if !self.seen.insert(key) && self.skip_seen {
                    count.skipped += 1;
                    continue;
                }
                count.distinct += 1;
                let then = self.then(key, depth);
                new.push(New {
                    point: at,
                    kind: *kind,
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

    /// Lists the states of each point. Points between which the contents did not change share them.
    fn list(&self, points: &[(&Arc<Lived>, &Point)]) -> Result<Vec<Arc<Listed>>, Ended> {
        let explore = &self.scenario.explore;
        let power = self.scenario.run.power_weight > 0;
        let same = |one: &(&Arc<Lived>, &Point), other: &(&Arc<Lived>, &Point)| {
            Arc::ptr_eq(one.0, other.0)
                && one.1.moment.device().contents() == other.1.moment.device().contents()
                && !explore.process_crash
        };
        let groups: Vec<&[(&Arc<Lived>, &Point)]> = points.chunk_by(same).collect();
        let lists = map(self.jobs, &groups, |group| {
            if self.control.stopped().is_some() {
                return None;
            }
            let point = group[0].1;
            let device = point.moment.device();
            let states = states(device, explore, power, self.seed ^ device.changes());
            let key = |(kind, state): &(CrashKind, CrashState)| image_key(point, *kind, state);
            let keys = states.taken.iter().map(key).collect();
            Some(Arc::new(Listed { states, keys }))
        });
        let mut listed = Vec::with_capacity(points.len());
        for (group, list) in groups.iter().zip(lists) {
            let list = list.ok_or(Ended::Stopped)?;
            for (_, point) in *group {
                let taken = explore.in_flush || !point.is_in_flush();
                let none = || {
                    Arc::new(Listed {
                        states: States::default(),
                        keys: Vec::new(),
                    })
                };
                listed.push(if taken { Arc::clone(&list) } else { none() });
            }
        }
        Ok(listed)
    }

    /// What tells a state apart from others: its bytes, what is owed, and how deep it is.
    fn with_obligations(
        &self,
        image: u128,
        (life, point): (&Arc<Lived>, &Point),
        kind: CrashKind,
        depth: u32,
    ) -> u128 {
        let shown = point
            .twin(life, kind)
            .map_or(0, |twin| twin.fingerprint().max(1));
        let mut hash = Xxh3::new();
        hash.update(&image.to_le_bytes());
        for number in [point.obligations, shown, u64::from(depth)] {
            hash.update(&number.to_le_bytes());
        }
        hash.digest128()
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
        points: &[(&Arc<Lived>, &Point)],
        new: &[New<'_>],
        depth: u32,
        counts: &mut [PointCount],
    ) -> Result<(), Ended> {
        let deeper = depth < self.scenario.explore.depth;
        for part in new.chunks(TASKS_AT_ONCE[usize::from(deeper)]) {
            let judged = map(self.jobs, part, |new| {
                if self.control.stopped().is_some() {
                    return None;
                }
                self.control.count_crash();
                let (life, point) = points[new.point];
                let task = Task {
                    life,
                    point,
                    kind: new.kind,
                    state: new.state,
                    then: new.then,
                };
                Some(judge(self.scenario, &task))
            });
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

    fn deeper(&mut self, lives: &[(Arc<Lived>, Vec<Point>)], depth: u32) -> Result<(), Ended> {
        let all: Vec<(&Arc<Lived>, &Point)> = lives
            .iter()
            .flat_map(|(life, points)| points.iter().map(move |point| (life, point)))
            .collect();
        for batch in all.chunks(POINTS_AT_ONCE * 16) {
            self.batch(batch, depth, &mut Vec::new())?;
        }
        Ok(())
    }
}

/// What tells apart what two cuts leave: what reads return, and what is still in the cache of a device that kept its power.
fn image_key(point: &Point, kind: CrashKind, state: &CrashState) -> u128 {
    let mut device = point.moment.device().clone();
    if device.crash(point.moment.now(), kind, state).is_err() {
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
    fn new(point: &Point, states: &States) -> PointCount {
        PointCount {
            event: point.event,
            at_ns: point.moment.now(),
            pending: point.moment.device().pending().len() as u64,
            in_flush: point.is_in_flush(),
            possible: states.possible,
            taken: states.taken.len() as u64,
            distinct: 0,
            checked: 0,
            skipped: 0,
            left_out: LeftOutCounts::of(states.left_out),
        }
    }
}
