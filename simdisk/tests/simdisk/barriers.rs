//! Barriers against brute force: short runs of writes and barriers that overlap in every way, and every state that a cut could leave.

use std::collections::BTreeSet;

use crate::common::{Rig, SECTOR, config, write};
use kvsim_simdisk::{
    CrashState, DeviceConfig, FaultConfig, FaultKind, FlushKind, Op, Persisted, ScriptedFault,
    Sectors, SubmitError,
};

/// What the host does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// Submits a write of two sectors of its own.
    Write {
        through: bool,
    },
    Barrier,
    /// Completes the operation that is at this place among those in flight.
    Complete(usize),
}

const STEPS: [Step; 5] = [
    Step::Write { through: false },
    Step::Write { through: true },
    Step::Barrier,
    Step::Complete(0),
    Step::Complete(1),
];

/// An operation, with the numbers of the steps at which it was submitted and completed.
#[derive(Debug, Clone, Copy)]
struct Done {
    id: u64,
    step: Step,
    submitted: usize,
    completed: Option<usize>,
}

#[derive(Debug, Clone, Default)]
struct Model {
    ops: Vec<Done>,
}

impl Model {
    fn writes(&self) -> impl Iterator<Item = &Done> {
        self.ops
            .iter()
            .filter(|op| matches!(op.step, Step::Write { .. }))
    }

    /// The rule itself: a barrier lies between the completion of one and the submission of the other.
    fn follows(&self, later: &Done, earlier: &Done) -> bool {
        self.ops.iter().any(|barrier| {
            let before = earlier.completed.is_some_and(|at| at < barrier.submitted);
            let after = barrier.completed.is_some_and(|at| at < later.submitted);
            barrier.step == Step::Barrier && before && after
        })
    }

    /// Those written through and complete, and all that they follow.
    fn durable(&self) -> BTreeSet<u64> {
        let through =
            |op: &&Done| op.step == Step::Write { through: true } && op.completed.is_some();
        let through: Vec<&Done> = self.writes().filter(through).collect();
        let is_durable = |op: &&Done| {
            through
                .iter()
                .any(|other| other.id == op.id || self.follows(other, op))
        };
        self.writes().filter(is_durable).map(|op| op.id).collect()
    }

    fn is_legal(&self, state: &CrashState) -> bool {
        let place = |id: u64| {
            state
                .persisted
                .iter()
                .position(|persisted_write| persisted_write.id == id)
        };
        let durable = self.durable();
        self.writes().all(|later| {
            let Some(at) = place(later.id) else {
                return true;
            };
            self.writes()
                .filter(|earlier| self.follows(later, earlier))
                .all(|earlier| {
                    let there = place(earlier.id).is_some_and(|before| {
                        before < at && state.persisted[before].sectors == Sectors::All
                    });
                    there || durable.contains(&earlier.id)
                })
        })
    }
}

fn run(steps: &[Step], faults: &FaultConfig) -> Option<(Rig, Model)> {
    let device = DeviceConfig {
        barrier: true,
        ..config()
    };
    let mut rig = Rig::new(&device, faults, 1);
    let mut model = Model::default();
    for (at, &step) in steps.iter().enumerate() {
        let op = match step {
            Step::Write { through } => {
                let number = model.ops.len() as u64;
                write(2 * number, 2, u8::try_from(number).unwrap() + 1, through)
            }
            Step::Barrier => Op::Barrier,
            Step::Complete(place) => {
                let mut flying = model.ops.iter_mut().filter(|op| op.completed.is_none());
                let op = flying.nth(place)?;
                op.completed = Some(at);
                rig.device.complete(rig.now, op.id).unwrap();
                continue;
            }
        };
        let id = rig.submit(op);
        model.ops.push(Done {
            id,
            step,
            submitted: at,
            completed: None,
        });
    }
    Some((rig, model))
}

/// All states of these operations: every order of every subset, each whole or with its first sector alone.
fn every_state(ids: &[u64]) -> Vec<CrashState> {
    let mut all = vec![CrashState::default()];
    let mut at = 0;
    while at < all.len() {
        for &id in ids {
            if all[at]
                .persisted
                .iter()
                .any(|persisted_write| persisted_write.id == id)
            {
                continue;
            }
            for fate in [Persisted::whole(id), Persisted::torn(id, vec![0])] {
                let mut longer = all[at].clone();
                longer.persisted.push(fate);
                all.push(longer);
            }
        }
        at += 1;
    }
    all
}

fn runs(len: usize) -> Vec<Vec<Step>> {
    let mut runs = vec![Vec::new()];
    for _ in 0..len {
        let longer = |run: &Vec<Step>| {
            let run = run.clone();
            STEPS
                .into_iter()
                .map(move |step| [run.clone(), vec![step]].concat())
        };
        runs = runs.iter().flat_map(longer).collect();
    }
    runs
}

/// Goal: a cut leaves only states that are closed under the order of barriers, and each of them can be left; what is written through takes along
/// what it follows. Method: all runs of seven steps with at most three writes, all states of each, against the rule said plainly.
#[test]
fn every_short_run_leaves_what_its_barriers_allow() {
    let (mut states, mut refused) = (0, 0);
    for steps in runs(7) {
        let writes = steps
            .iter()
            .filter(|step| matches!(step, Step::Write { .. }));
        if writes.count() > 3 || !steps.contains(&Step::Barrier) {
            continue;
        }
        let Some((rig, model)) = run(&steps, &FaultConfig::default()) else {
            continue;
        };
        let pending: Vec<u64> = rig.device.pending().iter().map(|write| write.id).collect();
        let durable = model.durable();
        let expected: Vec<u64> = model
            .writes()
            .map(|op| op.id)
            .filter(|id| !durable.contains(id))
            .collect();
        assert_eq!(pending, expected, "{steps:?}");
        for state in every_state(&pending) {
            let checked = rig.device.check_crash(&state);
            assert_eq!(
                checked.is_ok(),
                model.is_legal(&state),
                "{steps:?} {state:?} {checked:?}"
            );
            states += 1;
            refused += u32::from(checked.is_err());
        }
    }
    assert!(states > 100_000 && refused > 5_000, "{states} {refused}");
}

/// Goal: drawing comes to every set of persisted writes that barriers allow and to no other, torn ones too. Method: six writes in three epochs and one that
/// overlaps a barrier; for every way to choose persisted writes and order.
#[test]
fn drawn_states_respect_barriers_and_come_to_all() {
    use Step::{Barrier, Complete};
    let put = Step::Write { through: false };
    let steps = [
        put,
        put,
        Complete(0),
        Barrier,
        Complete(1),
        put,
        Complete(0),
        Complete(0),
        Barrier,
        Complete(0),
        put,
    ];
    for (loss, reorder) in [(true, true), (true, false), (false, true), (false, false)] {
        let faults = FaultConfig {
            loss,
            reorder,
            ..FaultConfig::default()
        };
        let (rig, model) = run(&steps, &faults).unwrap();
        let ids: Vec<u64> = model.writes().map(|op| op.id).collect();
        let kept = |state: &CrashState| -> BTreeSet<(u64, bool)> {
            let torn = |persisted_write: &Persisted| persisted_write.sectors != Sectors::All;
            state
                .persisted
                .iter()
                .map(|persisted_write| (persisted_write.id, torn(persisted_write)))
                .collect()
        };
        let legal = |state: &CrashState| rig.device.check_crash(state).is_ok();
        let reachable: BTreeSet<_> = every_state(&ids)
            .iter()
            .filter(|state| legal(state))
            .map(kept)
            .collect();
        let mut device = rig.device.clone();
        let mut drawn = BTreeSet::new();
        for _ in 0..40_000 {
            let state = device.draw_crash();
            device.check_crash(&state).expect("what is drawn is legal");
            assert!(model.is_legal(&state));
            drawn.insert(kept(&state));
        }
        assert_eq!(drawn, reachable, "loss {loss}, reorder {reorder}");
    }
}

/// Goal: where a flush is a barrier it orders and makes nothing durable. Method: two writes with a flush between, on both kinds of devices.
#[test]
fn a_flush_that_is_a_barrier_makes_nothing_durable() {
    for flush in [FlushKind::Durable, FlushKind::Barrier] {
        let device = DeviceConfig { flush, ..config() };
        let mut rig = Rig::new(&device, &FaultConfig::default(), 1);
        rig.write(0, 1, 1);
        rig.flush();
        rig.write(1, 1, 2);
        let pending: Vec<u64> = rig.device.pending().iter().map(|write| write.id).collect();
        assert_eq!(
            pending,
            if flush == FlushKind::Durable {
                vec![2]
            } else {
                vec![0, 2]
            }
        );
        assert!(
            rig.device.made_durable_at().is_some(),
            "the host asked for it"
        );
        let only_second = CrashState {
            persisted: vec![Persisted::whole(2)],
        };
        assert_eq!(
            rig.device.check_crash(&only_second).is_ok(),
            flush == FlushKind::Durable
        );
        rig.cut_all();
        assert_eq!(rig.reads(), [u8::from(flush == FlushKind::Durable), 0]);
    }
}

/// Goal: a cache that is full makes the oldest durable, and what is durable is closed. Method: a cache of two sectors, eight writes with barriers between.
#[test]
fn a_full_cache_makes_the_oldest_durable() {
    let device = DeviceConfig {
        flush: FlushKind::Barrier,
        cache_bytes: 2 * SECTOR,
        ..config()
    };
    let mut rig = Rig::new(&device, &FaultConfig::default(), 1);
    for sector in 0..8 {
        rig.write(sector, 1, 1);
        rig.flush();
    }
    assert_eq!(rig.device.pending().len(), 2);
    rig.cut_all();
    assert_eq!(rig.reads(), [1, 1, 1, 1, 1, 1, 0, 0]);
}

/// Goal: what no correct host submits is refused, and a configuration without sense too.
#[test]
fn barriers_are_there_only_where_the_device_says_so() {
    let mut rig = Rig::with_faults(&FaultConfig::default());
    assert!(!rig.device.capabilities().barrier);
    assert_eq!(
        rig.device.submit(0, 0, Op::Barrier),
        Err(SubmitError::Unsupported("barriers"))
    );
    let field = |device: DeviceConfig| device.validate().unwrap_err().field;
    let through = DeviceConfig {
        cache: kvsim_simdisk::Cache::WriteThrough,
        ..config()
    };
    let with = |barrier, flush, cache_bytes| DeviceConfig {
        barrier,
        flush,
        cache_bytes,
        ..through.clone()
    };
    assert_eq!(field(with(true, FlushKind::Durable, 0)), "device.barrier");
    assert_eq!(field(with(false, FlushKind::Barrier, 0)), "device.flush");
    assert_eq!(
        field(with(false, FlushKind::Durable, 1)),
        "device.cache_bytes"
    );
}

/// Goal: a flush that fails drops nothing that an earlier barrier has ordered, since what follows may rely on it. Method: two writes with a barrier between, and a
/// flush that fails and drops all that it can.
#[test]
fn a_failed_flush_drops_nothing_that_is_ordered() {
    let device = DeviceConfig {
        flush: FlushKind::Barrier,
        ..config()
    };
    let script = [FaultKind::FlushError, FaultKind::DirtyDropped].map(|kind| ScriptedFault {
        dropped: (kind == FaultKind::DirtyDropped).then(|| vec![0, 2]),
        ..ScriptedFault::new(3, kind)
    });
    let faults = FaultConfig {
        script: script.to_vec(),
        ..FaultConfig::default()
    };
    let mut rig = Rig::new(&device, &faults, 1);
    rig.write(0, 1, 1);
    rig.flush();
    rig.write(1, 1, 2);
    rig.run(Op::Flush).unwrap_err();
    let dropped: Vec<bool> = rig
        .device
        .pending()
        .iter()
        .map(|write| write.dropped)
        .collect();
    assert_eq!(dropped, [false, true]);
}
