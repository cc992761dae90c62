//! Whether a fault befalls a call: by chance, by script, or not; counted and recorded.
//!
//! Invariants: what is drawn for a kind of fault at a call depends on the seed, the kind and the call's number alone; every fault that fires is
//! counted once and recorded in the form that makes it fire again by script.

use std::sync::Arc;

use kvsim_crash::rng::{Purpose, draw, happens, scale};

use crate::{FileFault, FileFaultCounts, FileFaults, ScriptedFileFault};

/// A fault that befalls a call.
#[derive(Debug, Clone)]
pub(crate) struct Strike {
    /// What is known of it, and then recorded.
    pub(crate) fault: ScriptedFileFault,
    seed: u64,
}

impl Strike {
    /// The bytes that the script says, or a drawn number in `low..=high`.
    pub(crate) fn bytes(&mut self, low: u64, high: u64) -> u64 {
        let drawn = || {
            low + scale(
                number(self.seed, self.fault.kind, self.fault.op, 1),
                high - low + 1,
            )
        };
        let bytes = self.fault.bytes.unwrap_or_else(drawn).clamp(low, high);
        self.fault.bytes = Some(bytes);
        bytes
    }

    /// The bit that the script says, or a drawn one.
    pub(crate) fn bit(&mut self) -> u8 {
        let drawn = || {
            let bit = scale(number(self.seed, self.fault.kind, self.fault.op, 2), 8);
            u8::try_from(bit).expect("below 8")
        };
        let bit = self.fault.bit.unwrap_or_else(drawn);
        self.fault.bit = Some(bit);
        bit
    }
}

fn number(seed: u64, kind: FileFault, op: u64, index: u64) -> u64 {
    let purpose = if kind.is_lie() {
        Purpose::Lies
    } else {
        Purpose::Faults
    };
    // Labels of their own, so that a device and a file system of one seed draw apart.
    draw(seed, purpose, 64 + kind as u64, op, index)
}

/// Decides on faults.
#[derive(Debug, Clone)]
pub(crate) struct Injector {
    seed: u64,
    config: Arc<FileFaults>,
    pub(crate) counts: FileFaultCounts,
    fired: Arc<Vec<ScriptedFileFault>>,
    /// One more, at the n-th opportunity from when it was asked for.
    nth: Option<(FileFault, u64)>,
}

impl Injector {
    pub(crate) fn new(config: &FileFaults, seed: u64) -> Self {
        Injector {
            seed,
            config: Arc::new(config.clone()),
            counts: FileFaultCounts::default(),
            fired: Arc::default(),
            nth: None,
        }
    }

    /// Whether no fault can befall a call from this one on.
    pub(crate) fn is_idle(&self, op: u64) -> bool {
        let by_chance = FileFault::ALL
            .into_iter()
            .any(|kind| self.config.probability(kind) > 0.0);
        let spent = self.config.max_fired != 0 && self.fired.len() as u64 >= self.config.max_fired;
        let by_script = self.config.script.iter().any(|fault| fault.op >= op);
        self.nth.is_none() && (!by_chance || spent) && !by_script
    }

    pub(crate) fn fail_nth(&mut self, kind: FileFault, n: u64) {
        self.nth = Some((kind, n));
    }

    pub(crate) fn fired(&self) -> &[ScriptedFileFault] {
        &self.fired
    }

    /// Whether a fault of this kind may come.
    pub(crate) fn asks(&self, kind: FileFault) -> bool {
        let is_nth = self.nth.is_some_and(|(asked, _)| asked == kind);
        let mut script = self.config.script.iter();
        is_nth || self.config.probability(kind) > 0.0 || script.any(|fault| fault.kind == kind)
    }

    /// Counts an opportunity and decides. What then takes effect is handed to [`Injector::record`].
    pub(crate) fn strikes(&mut self, kind: FileFault, op: u64) -> Option<Strike> {
        let seed = self.seed;
        if let Some((asked, left)) = &mut self.nth
            && *asked == kind
        {
            if *left == 0 {
                self.nth = None;
                self.counts.possible(kind);
                let fault = ScriptedFileFault::new(op, kind);
                return Some(Strike { fault, seed });
            }
            *left -= 1;
        }
        if !self.asks(kind) {
            return None;
        }
        let probability = self.config.probability(kind);
        let script = &self.config.script;
        self.counts.possible(kind);
        let scripted = script
            .iter()
            .find(|fault| fault.op == op && fault.kind == kind);
        if let Some(fault) = scripted {
            let fault = fault.clone();
            return Some(Strike { fault, seed });
        }
        let spent = self.config.max_fired != 0 && self.fired.len() as u64 >= self.config.max_fired;
        let may = op >= self.config.after_op && !spent;
        (may && happens(number(seed, kind, op, 0), probability)).then(|| Strike {
            fault: ScriptedFileFault::new(op, kind),
            seed,
        })
    }

    /// A strike took effect.
    pub(crate) fn record(&mut self, strike: Strike) {
        self.counts.fired(strike.fault.kind);
        Arc::make_mut(&mut self.fired).push(strike.fault);
    }

    /// For faults without details: decides, counts and records.
    pub(crate) fn fires(&mut self, kind: FileFault, op: u64) -> bool {
        match self.strikes(kind, op) {
            Some(strike) => {
                self.record(strike);
                true
            }
            None => false,
        }
    }
}
