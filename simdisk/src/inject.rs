//! Whether a fault affects an operation: by chance, by script, or not; counted and recorded.
//!
//! Invariants: what is drawn for a kind of fault at an operation depends on the seed, the kind and the operation's number
//! alone; every fault that fires is counted once and recorded in the form that makes it fire again by script.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::rng::{Purpose, draw, happens, scale};
use crate::{DeviceConfig, FaultConfig, FaultCounts, FaultKind, OpId, ScriptedFault};

/// The number of a draw: whether at all, and then the details.
const WHETHER: u64 = 0;

/// A fault that is to affect an operation, if the circumstances allow.
#[derive(Debug, Clone)]
pub(crate) struct Strike {
    pub(crate) op: OpId,
    pub(crate) kind: FaultKind,
    /// What the script says of it; nothing for one by chance.
    pub(crate) script: Option<ScriptedFault>,
    seed: u64,
}

impl Strike {
    /// A detail of it, drawn: `index` from 1 on.
    pub(crate) fn number(&self, index: u64) -> u64 {
        debug_assert_ne!(index, WHETHER);
        number(self.seed, self.kind, self.op, index)
    }

    /// A detail in `0..n`.
    pub(crate) fn below(&self, index: u64, n: u64) -> u64 {
        scale(self.number(index), n)
    }

    /// A detail that the script says, or else is drawn with this probability.
    pub(crate) fn says(
        &self,
        script: impl Fn(&ScriptedFault) -> Option<bool>,
        index: u64,
        probability: f64,
    ) -> bool {
        match &self.script {
            Some(fault) => script(fault).unwrap_or(false),
            None => happens(self.number(index), probability),
        }
    }

    /// Its record so far.
    pub(crate) fn record(&self) -> ScriptedFault {
        ScriptedFault::new(self.op, self.kind)
    }
}

fn number(seed: u64, kind: FaultKind, op: OpId, index: u64) -> u64 {
    let purpose = if kind == FaultKind::Stall {
        Purpose::Latency
    } else if kind.is_lie() {
        Purpose::Lies
    } else {
        Purpose::Faults
    };
    draw(seed, purpose, 1 + kind as u64, op, index)
}

/// Decides on faults.
#[derive(Debug, Clone)]
pub(crate) struct Injector {
    seed: u64,
    probabilities: [f64; FaultKind::ALL.len()],
    scripted_kinds: [bool; FaultKind::ALL.len()],
    read_errors_stay: bool,
    script: Arc<BTreeMap<(OpId, FaultKind), ScriptedFault>>,
    after_op: OpId,
    max_fired: u64,
    pub(crate) counts: FaultCounts,
    fired: Vec<ScriptedFault>,
    /// How many errors and lies fired; a stall is neither.
    spent: u64,
    /// One more, at an opportunity that is counted from when it was asked for.
    nth: Option<Nth>,
}

/// A fault at the n-th opportunity from now.
#[derive(Debug, Clone, Copy)]
struct Nth {
    kind: FaultKind,
    /// Opportunities that still pass by.
    left: u64,
    /// The operation that it affected.
    affected: Option<OpId>,
}

impl Injector {
    pub(crate) fn new(device: &DeviceConfig, faults: &FaultConfig, seed: u64) -> Self {
        let mut probabilities = FaultKind::ALL.map(|kind| faults.probability(kind));
        probabilities[FaultKind::Stall as usize] = device.timing.stall;
        let is_scripted = |kind| faults.script.iter().any(|fault| fault.kind == kind);
        let script = faults.script.iter();
        Injector {
            seed,
            probabilities,
            scripted_kinds: FaultKind::ALL.map(is_scripted),
            read_errors_stay: faults.read_errors_stay(),
            script: Arc::new(
                script
                    .map(|fault| ((fault.op, fault.kind), fault.clone()))
                    .collect(),
            ),
            after_op: faults.after_op,
            max_fired: faults.max_fired,
            counts: FaultCounts::default(),
            fired: Vec::new(),
            spent: 0,
            nth: None,
        }
    }

    /// Lets a fault of this kind happen at the n-th opportunity from now, counted from 0; a flush that fails so drops what it covers.
    pub(crate) fn fail_nth(&mut self, kind: FaultKind, n: u64) {
        self.nth = Some(Nth {
            kind,
            left: n,
            affected: None,
        });
    }

    /// Whether this opportunity is the one that was asked for.
    fn is_nth(&mut self, kind: FaultKind, op: OpId) -> bool {
        let Some(nth) = &mut self.nth else {
            return false;
        };
        match (nth.affected, nth.left) {
            (Some(affected), _) => kind == FaultKind::DirtyDropped && affected == op,
            (None, _) if kind != nth.kind => false,
            (None, 0) => {
                nth.affected = Some(op);
                true
            }
            (None, _) => {
                nth.left -= 1;
                false
            }
        }
    }

    /// Whether this kind of fault is asked for at all.
    pub(crate) fn asked(&self, kind: FaultKind) -> bool {
        self.probabilities[kind as usize] > 0.0 || self.scripted_kinds[kind as usize]
    }

    /// Whether a lie, or an error that stays, may spoil what was written before.
    pub(crate) fn spoils(&self) -> bool {
        use FaultKind::{BitRot, LatentSectorError, MisdirectedWrite};
        let kinds = [BitRot, LatentSectorError, MisdirectedWrite];
        self.read_errors_stay || kinds.into_iter().any(|kind| self.asked(kind))
    }

    /// Whether no operation from this one on can be affected by anything but a stall. What a failed flush drops is a fault only where a
    /// flush can fail.
    pub(crate) fn is_idle(&self, next: OpId) -> bool {
        let harmless = |kind| matches!(kind, FaultKind::Stall | FaultKind::DirtyDropped);
        let never = |kind| self.probabilities[kind as usize] == 0.0;
        let mut kinds = FaultKind::ALL.into_iter();
        let mut scripted = self.script.range((next, FaultKind::Loss)..);
        self.nth.is_none()
            && kinds.all(|kind| harmless(kind) || never(kind))
            && scripted.all(|((_, kind), _)| harmless(*kind))
    }

    /// The faults that fired, as a script.
    pub(crate) fn fired(&self) -> &[ScriptedFault] {
        &self.fired
    }

    /// Counts an opportunity and decides. A strike that then turns out to change nothing is to be let go; one that does is
    /// to be handed to [`Injector::fired_as`].
    pub(crate) fn strikes(&mut self, kind: FaultKind, op: OpId) -> Option<Strike> {
        if self.is_nth(kind, op) {
            self.counts.possible(kind);
            return Some(Strike {
                op,
                kind,
                script: Some(ScriptedFault::new(op, kind)),
                seed: self.seed,
            });
        }
        if !self.asked(kind) {
            return None;
        }
        self.counts.possible(kind);
        let script = self.script.get(&(op, kind)).cloned();
        let spent = self.max_fired != 0 && self.spent >= self.max_fired;
        let may = kind == FaultKind::Stall || (op >= self.after_op && !spent);
        let probability = self.probabilities[kind as usize];
        let strike = Strike {
            op,
            kind,
            script,
            seed: self.seed,
        };
        let by_chance = may && happens(number(self.seed, kind, op, WHETHER), probability);
        (strike.script.is_some() || by_chance).then_some(strike)
    }

    /// A strike took effect, in this form.
    pub(crate) fn fired_as(&mut self, fault: ScriptedFault) {
        self.counts.fired(fault.kind);
        self.spent += u64::from(fault.kind != FaultKind::Stall);
        self.fired.push(fault);
    }

    /// For faults without details or circumstances: decides, counts and records.
    pub(crate) fn fires(&mut self, kind: FaultKind, op: OpId) -> bool {
        let strike = self.strikes(kind, op);
        let Some(strike) = strike else {
            return false;
        };
        self.fired_as(strike.record());
        true
    }
}
