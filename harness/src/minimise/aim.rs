//! A fault placed anew: where a device fails once or lies once, a blank one is asked a few requests, and the same fault befalls each of its operations
//! in turn. Few requests are enough then, since nothing has to lead up to the operation that it befell by chance.

use std::collections::BTreeMap;

use kvsim_sim::{TraceEvent, TraceMode};
use kvsim_simdisk::{FaultKind, OpId, ScriptedFault};

use super::Shrinking;
use crate::case::{Case, CaseLife, CaseRequest};
use crate::explore::Reach;
use crate::scenario::Scenario;

/// Requests that are asked while the fault is moved, at most.
const REQUESTS_MAX: usize = 12;

impl Shrinking<'_> {
    /// The same kind of failure of a blank device that is asked what clients asked last, with what befell one operation befalling another.
    pub(super) fn aimed(&mut self, case: &Case) -> Option<Case> {
        let lives = case.lives.iter();
        let all: Vec<&CaseRequest> = lives.flat_map(|life| &life.requests).collect();
        let shapes = self.shapes(case);
        let mut count = 1;
        while count <= REQUESTS_MAX.min(all.len()) {
            let last = &all[all.len() - count..];
            let asked: Vec<CaseRequest> = last.iter().copied().cloned().collect();
            for shape in &shapes {
                if let Some(found) = self.aimed_at_each(&asked, shape) {
                    return Some(found);
                }
            }
            count *= 2;
        }
        None
    }

    fn aimed_at_each(&mut self, asked: &[CaseRequest], shape: &[ScriptedFault]) -> Option<Case> {
        for op in self.operations(asked, shape[0].kind) {
            let script = shape.iter().map(|fault| ScriptedFault { op, ..*fault });
            let script: Vec<ScriptedFault> = script.collect();
            for reach in [Reach::Recovery, Reach::Again] {
                let change = |scenario: &mut Scenario| scenario.faults.script.clone_from(&script);
                let found = self.with(change, |this| this.find(asked, reach));
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// What befell each operation that anything befell. One alone may do: the others may have led up to it.
    fn shapes(&self, case: &Case) -> Vec<Vec<ScriptedFault>> {
        let mut by_op: BTreeMap<OpId, Vec<ScriptedFault>> = BTreeMap::new();
        for fault in self.scenario.faults.script.iter().chain(&case.faults) {
            by_op.entry(fault.op).or_default().push(*fault);
        }
        let mut shapes: Vec<Vec<ScriptedFault>> = Vec::new();
        for mut shape in by_op.into_values() {
            // What it dropped comes with the flush that failed.
            shape.sort_by_key(|fault| fault.kind == FaultKind::DirtyDropped);
            let alike = |other: &ScriptedFault, one: &ScriptedFault| {
                ScriptedFault {
                    op: one.op,
                    ..*other
                } == *one
            };
            let is_new = shapes.iter().all(|known| {
                known.len() != shape.len()
                    || !known
                        .iter()
                        .zip(&shape)
                        .all(|(known, one)| alike(known, one))
            });
            if is_new {
                shapes.push(shape);
            }
        }
        shapes
    }

    /// The operations of a run of these requests that such a fault can befall, once the guest is open.
    fn operations(&mut self, asked: &[CaseRequest], fault: FaultKind) -> Vec<OpId> {
        let case = Case {
            lives: vec![CaseLife {
                requests: asked.to_vec(),
                ..CaseLife::default()
            }],
            faults: Vec::new(),
        };
        let script = std::mem::take(&mut self.scenario.faults.script);
        let driven = self.drive(&case, TraceMode::Full);
        self.scenario.faults.script = script;
        let Some(driven) = driven else {
            return Vec::new();
        };
        let mut open = false;
        let mut operations = Vec::new();
        for record in driven.world.trace().events() {
            match record.event {
                TraceEvent::Request { .. } => open = true,
                TraceEvent::Submit { op, kind, .. } if open && befalls(fault, kind) => {
                    operations.push(op);
                }
                _ => {}
            }
        }
        operations
    }
}

/// Whether such a fault befalls operations of this kind.
fn befalls(fault: FaultKind, operation: &str) -> bool {
    match fault {
        FaultKind::FlushError | FaultKind::FlushLie => operation == "flush",
        FaultKind::ReadError | FaultKind::MisdirectedRead | FaultKind::StaleRead => {
            operation == "read"
        }
        FaultKind::WriteError | FaultKind::LostWrite | FaultKind::MisdirectedWrite => {
            operation != "flush" && operation != "read"
        }
        _ => true,
    }
}
