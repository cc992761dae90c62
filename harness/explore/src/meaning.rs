//! A cut by its meaning: what a process run was doing, and what was pending, write by write.
//!
//! When requests are left out, the numbers of operations and events change. The role of each pending write stays: a superblock goes to the same offset,
//! a page is as long as before, a log frame comes after another, a file has the same name but for a number. So a cut is found again where the pending
//! writes look most alike.
//!
//! Nothing is known of the guest: a [`Role`] is the kind, the place and the length of an operation, and whether it had completed.

use kvsim_simdisk::{CrashKind, CrashState, CrashStates, Persisted, Role, Sectors};

use super::point::Point;
use kvsim_drive::case::Phase;

/// Pending writes that are compared at most, the latest ones.
const COMPARED_MAX: usize = 48;

/// A cut of a process run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meaning {
    kind: CrashKind,
    is_recovering: bool,
    is_flushing: bool,
    /// Requests of this process run that were not sent yet.
    unsent: usize,
    pending: Vec<Role>,
    /// What persists: places in `pending`, and the sectors.
    persisted: Vec<(usize, Sectors)>,
}

impl Meaning {
    /// The meaning of a cut of this storage that leaves `state`.
    pub fn of(
        storage: &impl CrashStates,
        phase: Phase,
        unsent: usize,
        kind: CrashKind,
        state: &CrashState,
    ) -> Meaning {
        let pending = storage.roles(COMPARED_MAX);
        let place = |persisted_write: &Persisted| {
            let at = pending
                .iter()
                .position(|(id, _)| *id == persisted_write.id)?;
            Some((at, persisted_write.sectors.clone()))
        };
        Meaning {
            kind,
            is_recovering: phase == Phase::Recovering,
            is_flushing: storage.is_syncing(),
            unsent,
            persisted: state.persisted.iter().filter_map(place).collect(),
            pending: pending.into_iter().map(|(_, role)| role).collect(),
        }
    }

    /// The kind of the cut.
    pub fn kind(&self) -> CrashKind {
        self.kind
    }

    /// How much a cut at this point is like this one.
    pub fn likeness(&self, point: &Point, unsent: usize) -> i64 {
        let storage = point.moment.storage();
        let others: Vec<Role> = roles(storage.roles(COMPARED_MAX));
        let (pairs, alike) = align(&self.pending, &others);
        let unmatched = self.pending.len() + others.len() - 2 * pairs.len();
        let same = |is_same: bool, points: i64| if is_same { points } else { 0 };
        let further = self.unsent.abs_diff(unsent).min(8);
        alike - 3 * count(unmatched)
            + same(self.is_recovering == (point.phase == Phase::Recovering), 12)
            + same(self.is_flushing == storage.is_syncing(), 3)
            - count(further)
    }

    /// The state of this storage that keeps what plays the same part, as far as a cut can leave it.
    pub fn state(&self, storage: &impl CrashStates) -> CrashState {
        let pending = storage.roles(COMPARED_MAX);
        let others: Vec<Role> = roles(pending.clone());
        let (pairs, _) = align(&self.pending, &others);
        let mut state = CrashState::default();
        if self.kind == CrashKind::Process {
            return state;
        }
        for (at, sectors) in &self.persisted {
            let Some((_, other)) = pairs.iter().find(|(own, _)| own == at) else {
                continue;
            };
            let id = pending[*other].0;
            let sectors = sectors.clone();
            storage.keep(&mut state, &Persisted { id, sectors });
        }
        if storage.check_crash(&state).is_err() {
            return super::states::least(storage);
        }
        state
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn roles(pending: Vec<(u64, Role)>) -> Vec<Role> {
    pending.into_iter().map(|(_, role)| role).collect()
}

/// Pairs of two lists that are most alike and keep the order of both, and how much.
fn align(one: &[Role], other: &[Role]) -> (Vec<(usize, usize)>, i64) {
    let width = other.len() + 1;
    let mut best = vec![0i64; (one.len() + 1) * width];
    for at in (0..one.len()).rev() {
        for to in (0..other.len()).rev() {
            let paired = one[at].likeness(&other[to]).unwrap_or(i64::MIN / 2);
            let paired = paired + best[(at + 1) * width + to + 1];
            let left_out = best[(at + 1) * width + to].max(best[at * width + to + 1]);
            best[at * width + to] = paired.max(left_out);
        }
    }
    let (mut at, mut to, mut pairs) = (0, 0, Vec::new());
    while at < one.len() && to < other.len() {
        let here = best[at * width + to];
        if here == best[(at + 1) * width + to] {
            at += 1;
        } else if here == best[at * width + to + 1] {
            to += 1;
        } else {
            pairs.push((at, to));
            (at, to) = (at + 1, to + 1);
        }
    }
    (pairs, best.first().copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvsim_simdisk::{Device, DeviceConfig, FaultConfig, Op};

    /// A device with a superblock write at 0 and log frames behind each other from `first` on, all pending.
    fn device(frames: u64, first: u64) -> Device {
        let config = DeviceConfig {
            sector_bytes: 512,
            capacity_bytes: 1 << 20,
            ..DeviceConfig::default()
        };
        let mut device = Device::new(&config, &FaultConfig::default(), 1).unwrap();
        let mut write = |offset: u64, bytes: usize| {
            let data = vec![1; bytes].into();
            let through = false;
            let op = Op::Write {
                offset,
                data,
                through,
            };
            device.submit(0, offset, op).unwrap();
        };
        for frame in 0..frames {
            write(first + frame * 1024, 1024);
        }
        write(0, 512);
        device
    }

    fn all_of(device: &Device, ids: &[u64]) -> CrashState {
        let persisted = ids.iter().map(|id| Persisted::whole(*id)).collect();
        let state = CrashState { persisted };
        device.check_crash(&state).unwrap();
        state
    }

    /// Goal: what persists is found again by its role when writes before it are left out. Method: the superblock and the last frame of three, on a
    /// device that has one frame less, elsewhere.
    #[test]
    fn a_cut_is_found_again_by_the_roles_of_its_writes() {
        let before = device(3, 8192);
        let state = all_of(&before, &[2, 3]);
        let meaning = Meaning::of(&before, Phase::Working, 0, CrashKind::Power, &state);
        assert_eq!(meaning.state(&before), state, "itself");
        let after = device(2, 4096);
        assert_eq!(meaning.state(&after), all_of(&after, &[1, 2]));
    }

    /// Goal: what has no counterpart is lost, and a killed process loses nothing by name. Method: a device without the superblock write.
    #[test]
    fn what_has_no_counterpart_is_left_out() {
        let before = device(1, 8192);
        let state = all_of(&before, &[0, 1]);
        let meaning = Meaning::of(&before, Phase::Working, 0, CrashKind::Power, &state);
        let after = device(0, 0);
        assert_eq!(meaning.state(&after), all_of(&after, &[0]));
        let killed = Meaning::of(&before, Phase::Working, 0, CrashKind::Process, &state);
        assert_eq!(killed.state(&before), CrashState::default());
    }
}
