//! Crash states, judged on all cores: one thread replays and draws, the others recover and judge.
//!
//! Invariant: which states are judged depends on the recording, the seed and how many states are asked for at a point, not on the
//! threads. Two states with equal images and equal obligations are judged once.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kvsim_native::record::CallId;
use kvsim_simdisk::{CrashState, Device, FaultConfig, Image, Sectors};

use super::recover::{Opening, recover};
use super::replay::{Replay, Stuck};
use super::session::{Session, write_file};
use kvsim_oracle::{DeviceTruth, Oracle, Property, Violation};

/// One recovery of so many is done again on what it left.
const AGAIN_EVERY: u128 = 16;
/// Points that may wait for a worker, per worker.
const WAITING: usize = 4;

/// What was judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    /// Places in recordings at which the power was cut.
    pub points: u64,
    /// States that were drawn.
    pub drawn: u64,
    /// Of these, different ones: each was recovered from and judged.
    pub judged: u64,
    /// Of these, with pending writes lost.
    pub with_losses: u64,
    /// Of these, with torn writes.
    pub with_tears: u64,
    /// Recoveries that were done again on what they had left.
    pub recovered_twice: u64,
    /// Keys that were read back, each counted once for each state.
    pub keys_read: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Tally) {
        self.points += other.points;
        self.drawn += other.drawn;
        self.judged += other.judged;
        self.with_losses += other.with_losses;
        self.with_tears += other.with_tears;
        self.recovered_twice += other.recovered_twice;
        self.keys_read += other.keys_read;
    }
}

/// A violation, and where.
#[derive(Debug, Clone)]
pub struct Found {
    /// Which session, from 1.
    pub session: u64,
    /// How many events of the recording had happened.
    pub event: usize,
    /// What the cut kept.
    pub state: CrashState,
    /// What is wrong.
    pub violation: Box<Violation>,
    /// What the cut left on the disk; empty where there was no file, or where it took no cut.
    pub(crate) image: Image,
}

impl Found {
    /// Writes what the cut left into a file that a database can be opened from.
    ///
    /// # Errors
    /// The directory or the file cannot be written.
    pub fn save(&self, directory: &Path) -> std::io::Result<PathBuf> {
        std::fs::create_dir_all(directory)?;
        let name = format!(
            "crash-disk-{}-{}-{}.image",
            self.session, self.event, self.violation.property
        );
        let path = directory.join(name);
        write_file(&path, &self.image)?;
        Ok(path)
    }
}

/// How a recording is judged.
#[derive(Clone)]
pub(crate) struct Judging<'a> {
    pub(crate) faults: &'a FaultConfig,
    pub(crate) seed: u64,
    /// States drawn at each point.
    pub(crate) states: u32,
    pub(crate) workers: NonZeroUsize,
    /// A call that is left out.
    pub(crate) left_out: Option<CallId>,
    /// The first event at which there is anything to judge, and the first at which there is no more.
    pub(crate) within: (usize, usize),
    pub(crate) number: u64,
    pub(crate) stopped: &'a (dyn Fn() -> bool + Sync),
}

/// A point, for a worker.
struct Point {
    event: usize,
    oracle: Oracle,
    device: Device,
    states: Vec<CrashState>,
    /// There may be no file.
    nameless: bool,
}

/// What workers share.
struct Shared<'a> {
    judging: &'a Judging<'a>,
    opening: &'a Opening,
    points: Mutex<Receiver<Point>>,
    seen: &'a Mutex<BTreeSet<(u128, u64)>>,
    outcome: Mutex<(Tally, Option<Found>)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Judges a recording. Stops soon after the first violation; of several, the earliest is told.
pub(crate) fn judge(
    session: &Session,
    judging: &Judging<'_>,
    seen: &Mutex<BTreeSet<(u128, u64)>>,
) -> Result<(Tally, Option<Found>), String> {
    let mut replay = Replay::new(session, judging.faults, judging.seed, judging.left_out)?;
    let (send, receive) = sync_channel(judging.workers.get() * WAITING);
    let shared = Shared {
        judging,
        opening: &session.opening,
        points: Mutex::new(receive),
        seen,
        outcome: Mutex::default(),
    };
    let mut stuck = None;
    std::thread::scope(|scope| {
        for _ in 0..judging.workers.get() {
            scope.spawn(|| shared.work());
        }
        loop {
            match replay.next() {
                Ok(true) => {}
                Ok(false) => break,
                Err(why) => {
                    stuck = Some((replay.events(), why));
                    break;
                }
            }
            let event = replay.events();
            if event < judging.within.0 {
                continue;
            }
            let over = event >= judging.within.1 || (judging.stopped)();
            if over || lock(&shared.outcome).1.is_some() {
                break;
            }
            let (nameless, named) = replay.may_be_nameless();
            let states = if named { judging.states } else { 0 };
            let states = (0..states).map(|_| replay.device().draw_crash()).collect();
            let point = Point {
                event,
                oracle: replay.oracle_after_cut(),
                device: replay.device().clone(),
                states,
                nameless,
            };
            if send.send(point).is_err() {
                break;
            }
        }
        drop(send);
    });
    let (tally, mut found) = shared
        .outcome
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    match stuck {
        Some((_, Stuck::Unsound(what))) => return Err(what),
        Some((event, Stuck::Violation(violation))) if found.is_none() => {
            found = Some(Found {
                session: judging.number,
                event,
                state: CrashState::default(),
                violation,
                image: Image::default(),
            });
        }
        _ => {}
    }
    Ok((tally, found))
}

impl Shared<'_> {
    fn work(&self) {
        loop {
            let point = lock(&self.points).recv();
            let Ok(point) = point else {
                return;
            };
            let mut tally = Tally {
                points: 1,
                ..Tally::default()
            };
            let found = self.judge_point(&point, &mut tally);
            let mut outcome = lock(&self.outcome);
            outcome.0.add(&tally);
            if let Some(found) = found
                && outcome
                    .1
                    .as_ref()
                    .is_none_or(|other| found.event < other.event)
            {
                outcome.1 = Some(found);
            }
        }
    }

    fn judge_point(&self, point: &Point, tally: &mut Tally) -> Option<Found> {
        let obligations = point.oracle.fingerprint();
        let found = |state: &CrashState, violation, image: Image| Found {
            session: self.judging.number,
            event: point.event,
            state: state.clone(),
            violation,
            image,
        };
        if point.nameless {
            tally.drawn += 1;
            let state = CrashState::default();
            let image = Image::default();
            if let Err(violation) = self.judge_image(&image, &point.oracle, obligations, tally) {
                return Some(found(&state, violation, image));
            }
        }
        for state in &point.states {
            tally.drawn += 1;
            let image = point
                .device
                .image_after(state)
                .expect("it was drawn from this device");
            let before = tally.judged;
            if let Err(violation) = self.judge_image(&image, &point.oracle, obligations, tally) {
                return Some(found(state, violation, image));
            }
            if tally.judged > before {
                let torn = |persisted_write: &kvsim_simdisk::Persisted| {
                    persisted_write.sectors != Sectors::All
                };
                let lost = state.persisted.len() < point.device.pending().len();
                tally.with_losses += u64::from(lost);
                tally.with_tears += u64::from(state.persisted.iter().any(torn));
            }
        }
        None
    }

    fn judge_image(
        &self,
        image: &Image,
        oracle: &Oracle,
        obligations: u64,
        tally: &mut Tally,
    ) -> Result<(), Box<Violation>> {
        let hash = image.hash();
        if !lock(self.seen).insert((hash, obligations)) {
            return Ok(());
        }
        tally.judged += 1;
        let truth = DeviceTruth::default();
        let recovered = recover(image.clone(), self.opening, oracle)?;
        oracle.judge(&recovered.seen, &truth)?;
        tally.keys_read += recovered.seen.keys_read();
        if hash.is_multiple_of(AGAIN_EVERY) {
            tally.recovered_twice += 1;
            let again = recover(recovered.image, self.opening, oracle);
            let again = again.map_err(|mut violation| {
                violation.property = Property::RecoveryIdempotent;
                violation
                    .sentence
                    .push_str("; a recovery before it went well");
                violation
            })?;
            oracle.same_recovery(&recovered.seen, &again.seen, &truth)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvsim_oracle::{GuestFault, misbehaved};

    /// Goal: what a crash left can be looked at afterwards. Method: save it, compare the file.
    #[test]
    fn what_the_cut_left_is_saved() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut image = Image::new(1 << 20);
        image.write(70_000, b"something");
        let found = Found {
            session: 2,
            event: 17,
            state: CrashState::default(),
            violation: misbehaved(
                &GuestFault::OutOfFuel { stack: Vec::new() },
                1,
                "recovering",
            ),
            image: image.clone(),
        };
        let path = found
            .save(&directory.path().join("new"))
            .expect("it can be written");
        assert!(
            path.ends_with("new/crash-disk-2-17-guest_behaves.image"),
            "{path:?}"
        );
        let differs = super::super::session::first_difference(&path, &image);
        assert_eq!(differs.expect("it can be read"), None);
    }
}
