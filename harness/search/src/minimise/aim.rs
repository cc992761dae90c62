//! A fault placed anew: where a device fails once or lies once, a blank one is asked a few requests, and the same fault befalls each of its operations
//! in turn. Few requests are enough then, since nothing has to lead up to the operation that it befell by chance.

use std::collections::{BTreeMap, BTreeSet};

use kvsim_sim::api::Request;
use kvsim_sim::{TraceEvent, TraceMode};
use kvsim_simdisk::{CrashKind, FaultKind, OpId, ScriptedFault};

use super::Shrinking;
use super::reshape::by_one_client;
use crate::explore::open::Reach;
use kvsim_scenario::Scenario;
use kvsim_scenario::case::{Case, CaseCrash, CaseLife, CaseRequest};

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
            // Of a few requests hardly two are of the same key by chance.
            for asked in [on_one_key(&asked), asked] {
                for shape in &shapes {
                    if let Some(found) = self.aimed_at_each(&asked, shape) {
                        return Some(found);
                    }
                }
            }
            count *= 2;
        }
        None
    }

    fn aimed_at_each(&mut self, asked: &[CaseRequest], shape: &[ScriptedFault]) -> Option<Case> {
        let operations = self.operations(asked);
        let befallen = operations
            .iter()
            .filter(|operation| befalls(shape[0].kind, operation.kind))
            // What is not durable any more after an error is what clients wrote; what reads wrong may be what is read back.
            .filter(|operation| operation.kind == "read" || !operation.is_of_recovery);
        for operation in befallen {
            let op = operation.id;
            // What goes astray may go to anywhere that was written before.
            let is_astray = matches!(
                shape[0].kind,
                FaultKind::MisdirectedRead | FaultKind::MisdirectedWrite
            );
            let places = operations.iter().filter(|other| {
                is_astray
                    && other.id < op
                    && other.offset != operation.offset
                    && befalls(FaultKind::LostWrite, other.kind)
            });
            let places: BTreeSet<u64> = places.map(|other| other.offset).collect();
            let as_it_was = std::iter::once(shape[0].at_bytes);
            for at_bytes in as_it_was.chain(places.into_iter().map(Some)) {
                let script = shape.iter().map(|fault| ScriptedFault {
                    op,
                    at_bytes,
                    ..fault.clone()
                });
                let script: Vec<ScriptedFault> = script.collect();
                for reach in [Reach::Recovery, Reach::Again] {
                    let change =
                        |scenario: &mut Scenario| scenario.faults.script.clone_from(&script);
                    let found = self.with(change, |this| this.find_blank(asked, reach));
                    if found.is_some() {
                        return found;
                    }
                }
            }
        }
        None
    }

    /// What befell each operation that anything befell. One alone may do: the others may have led up to it.
    fn shapes(&self, case: &Case) -> Vec<Vec<ScriptedFault>> {
        let mut by_op: BTreeMap<OpId, Vec<ScriptedFault>> = BTreeMap::new();
        for fault in self.scenario.faults.script.iter().chain(&case.faults) {
            by_op.entry(fault.op).or_default().push(fault.clone());
        }
        let mut shapes: Vec<Vec<ScriptedFault>> = Vec::new();
        // What befell it last is the likeliest.
        for mut shape in by_op.into_values().rev() {
            // What it dropped comes with the flush that failed.
            shape.sort_by_key(|fault| fault.kind == FaultKind::DirtyDropped);
            let alike = |other: &ScriptedFault, one: &ScriptedFault| {
                ScriptedFault {
                    op: one.op,
                    ..other.clone()
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
        // A guest that is asked little may write through the cache what it flushes when it is asked more.
        let flush_errors: Vec<ScriptedFault> = shapes
            .iter()
            .filter(|shape| shape[0].kind == FaultKind::FlushError)
            .map(|shape| ScriptedFault {
                kind: FaultKind::WriteError,
                written: Some(true),
                ..shape[0].clone()
            })
            .collect();
        shapes.extend(flush_errors.into_iter().map(|fault| vec![fault]));
        shapes
    }

    /// The operations of a run of these requests once the guest is open, and those of reading back after a cut at its end.
    fn operations(&mut self, asked: &[CaseRequest]) -> Vec<Operation> {
        let case = Case {
            lives: vec![
                CaseLife {
                    requests: asked.to_vec(),
                    crash: Some(CaseCrash {
                        after_event: u64::MAX,
                        kind: CrashKind::Power,
                        survivors: Vec::new(),
                    }),
                    ..CaseLife::default()
                },
                CaseLife::default(),
            ],
            faults: Vec::new(),
        };
        let script = std::mem::take(&mut self.scenario.faults.script);
        let driven = self.drive(&case, TraceMode::Full);
        self.scenario.faults.script = script;
        let Some(driven) = driven else {
            return Vec::new();
        };
        let (mut open, mut cut) = (false, false);
        let mut operations = Vec::new();
        for record in driven.world.trace().events() {
            match record.event {
                TraceEvent::Request { .. } => open = true,
                TraceEvent::Submit {
                    op, kind, offset, ..
                } if open => operations.push(Operation {
                    id: op,
                    kind,
                    offset,
                    is_of_recovery: cut,
                }),
                TraceEvent::Crash(_) => cut = true,
                _ => {}
            }
        }
        operations
    }
}

/// An operation of the device.
struct Operation {
    id: OpId,
    kind: &'static str,
    offset: u64,
    /// After the cut.
    is_of_recovery: bool,
}

/// The same requests, all of the key that the last of them is of.
fn on_one_key(requests: &[CaseRequest]) -> Vec<CaseRequest> {
    let mut keys = requests
        .iter()
        .rev()
        .filter_map(|request| match &request.request {
            Request::Put { key, .. } | Request::Delete { key, .. } | Request::Get { key, .. } => {
                Some(key.clone())
            }
            _ => None,
        });
    let Some(one) = keys.next() else {
        return requests.to_vec();
    };
    let mut asked = requests.to_vec();
    for request in &mut asked {
        match &mut request.request {
            Request::Put { key, .. } | Request::Delete { key, .. } | Request::Get { key, .. } => {
                key.clone_from(&one);
            }
            _ => {}
        }
    }
    by_one_client(&asked)
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
