//! A fault placed anew: where a device fails once or lies once, a blank one is asked a few requests, and the same fault affects each of its operations
//! in turn. Few requests are enough then, since nothing has to lead up to the operation that it affected by chance.

use std::collections::{BTreeMap, BTreeSet};

use kvsim_sim::api::{Mutation, Request};
use kvsim_sim::{TraceEvent, TraceMode, split_script};
use kvsim_simdisk::{CrashKind, FaultKind, LatencyConfig, OpId, ScriptedFault};

use super::Shrinking;
use super::condense::{SHAPES, condensed_to, one_run};
use super::find::Quest;
use super::reshape::by_one_client;
use super::site::Site;
use crate::explore::cost::work;
use crate::explore::open::{Extent, FEW_REQUESTS, Reach};
use kvsim_drive::case::drive;
use kvsim_scenario::Scenario;
use kvsim_scenario::case::{Case, CaseCrash, CaseRequest, CaseRun};
use kvsim_workload::PRELOAD_WRITER;

/// Requests that are asked while the fault is moved, at most.
const REQUESTS_MAX: usize = 12;
/// Work of one search for a fault at one operation: there are many of these.
const QUOTA: u64 = 100_000_000;
/// A flush that takes no longer than a cached write.
const QUICK_FLUSH_NS: u64 = 10_000;
/// Work of all searches after batches at most.
const AFTER_BATCHES_WORK: u64 = 80_000_000_000;

impl Shrinking<'_> {
    /// The same kind of failure of a blank device that is asked what clients asked last, with what affected one operation affecting another, found with so much work.
    pub(super) fn aimed(&mut self, case: &Case, work: u64) -> Option<Case> {
        let all: Vec<&CaseRequest> = case.all_requests().collect();
        let writes: Vec<&CaseRequest> = all
            .iter()
            .copied()
            .filter(|request| is_write(&request.request))
            .collect();
        let shapes = self.shapes(case);
        let until = self.spent.work.saturating_add(work);
        let mut count = 1;
        while count <= REQUESTS_MAX.min(all.len()) {
            let asked = last(&all, count);
            let lists = [
                // Of a few requests hardly two are of the same key by chance.
                on_one_key(&asked),
                asked,
                last(&writes, count),
                // What is short may never reach where it can be damaged.
                longest(&writes, count),
            ];
            for asked in lists.into_iter().filter(|asked| !asked.is_empty()) {
                for shape in &shapes {
                    if self.is_over() || self.spent.work > until {
                        return None;
                    }
                    if let Some(found) = self.aimed_at_each(&asked, shape) {
                        return Some(found);
                    }
                }
            }
            count *= 2;
        }
        None
    }

    /// The same on a device whose flushes cost nothing, where a flush failed: a guest that is asked little may write through the cache what it flushes when it is
    /// asked more or when that is cheaper.
    pub(super) fn aimed_at_quick_flushes(&mut self, case: &Case, work: u64) -> Option<Case> {
        let is_flush = |shape: &Vec<ScriptedFault>| affects(shape[0].kind, "flush");
        if !self.shapes(case).iter().any(is_flush) {
            return None;
        }
        self.with(
            |scenario| scenario.device.timing.flush = LatencyConfig::fixed(QUICK_FLUSH_NS),
            |this| this.aimed(case, work),
        )
    }

    /// The same after a few batches, where a failure needs a history that is not made of certain requests.
    pub(super) fn aimed_after_batches(&mut self, case: &Case) -> Option<Case> {
        let all: Vec<CaseRequest> = case.all_requests().cloned().collect();
        let shapes = self.shapes(case);
        let until = self.spent.work.saturating_add(AFTER_BATCHES_WORK);
        let sizes = self.sizes(&all);
        for (batches, last) in SHAPES {
            for &bytes in &sizes {
                let asked = condensed_to(&all, batches, bytes, last)?;
                for shape in &shapes {
                    if self.is_over() || self.spent.work > until {
                        return None;
                    }
                    if let Some(found) = self.aimed_at_each(&asked, shape) {
                        return Some(found);
                    }
                }
            }
        }
        None
    }

    fn aimed_at_each(&mut self, asked: &[CaseRequest], shape: &[ScriptedFault]) -> Option<Case> {
        let scenario = self.scenario.clone();
        let operations = self.operations_on(&scenario, asked);
        for script in Self::scripts(&operations, shape) {
            for reach in [Reach::Recovery, Reach::Again] {
                let change = |scenario: &mut Scenario| scenario.faults.script.clone_from(&script);
                let found = self.with(change, |this| this.find_aimed(asked, reach));
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// The same faults at each operation that they can affect.
    pub(super) fn scripts(
        operations: &[Operation],
        shape: &[ScriptedFault],
    ) -> Vec<Vec<ScriptedFault>> {
        let affected = operations
            .iter()
            .filter(|operation| affects(shape[0].kind, operation.kind))
            // What is not durable any more after an error is what clients wrote; what reads wrong may be what is read back.
            .filter(|operation| operation.kind == "read" || !operation.is_of_recovery);
        let mut scripts = Vec::new();
        for operation in affected {
            let op = operation.id;
            // What is misdirected may go to anywhere that was written before.
            let is_astray = matches!(
                shape[0].kind,
                FaultKind::MisdirectedRead | FaultKind::MisdirectedWrite
            );
            let places = operations.iter().filter(|other| {
                is_astray
                    && other.id < op
                    && other.offset != operation.offset
                    && affects(FaultKind::LostWrite, other.kind)
            });
            let places: BTreeSet<u64> = places.map(|other| other.offset).collect();
            let as_it_was = std::iter::once(shape[0].at_bytes);
            for at_bytes in as_it_was.chain(places.into_iter().map(Some)) {
                let moved = shape.iter().map(|fault| ScriptedFault {
                    op,
                    at_bytes,
                    // What was dropped where it came from has no numbers here.
                    dropped: None,
                    ..fault.clone()
                });
                scripts.push(moved.collect());
            }
        }
        scripts
    }

    /// A case of these requests on a blank device, with the fault where it is.
    fn find_aimed(&mut self, asked: &[CaseRequest], reach: Reach) -> Option<Case> {
        if asked.len() <= FEW_REQUESTS && asked[0].client != PRELOAD_WRITER {
            return self.find_blank(asked, reach);
        }
        let wanted = one_run(asked.to_vec());
        let quest = Quest {
            site: Site::new(0, reach),
            extent: Extent::Last,
            quota: QUOTA,
        };
        self.seek(&wanted, quest, &[])
    }

    /// What affected each operation that anything affected. One alone may do: the others may have led up to it.
    pub(super) fn shapes(&self, case: &Case) -> Vec<Vec<ScriptedFault>> {
        let mut by_op: BTreeMap<OpId, Vec<ScriptedFault>> = BTreeMap::new();
        // Of a file system there are no such shapes.
        let (affected, _) = split_script(&case.faults);
        for fault in self.scenario.faults.script.iter().chain(&affected) {
            by_op.entry(fault.op).or_default().push(fault.clone());
        }
        let mut shapes: Vec<Vec<ScriptedFault>> = Vec::new();
        // What affected it last is the likeliest.
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
    pub(super) fn operations_on(
        &mut self,
        scenario: &Scenario,
        asked: &[CaseRequest],
    ) -> Vec<Operation> {
        let case = Case {
            process_runs: vec![
                CaseRun {
                    requests: asked.to_vec(),
                    crash: Some(CaseCrash {
                        after_event: u64::MAX,
                        kind: CrashKind::Power,
                        persisted: Vec::new(),
                    }),
                    ..CaseRun::default()
                },
                CaseRun::default(),
            ],
            faults: Vec::new(),
        };
        let mut scenario = scenario.clone();
        scenario.faults.script.clear();
        let seed = scenario.run.seeds.start;
        let Ok(driven) = drive(&scenario, &case, self.program, seed, TraceMode::Full) else {
            return Vec::new();
        };
        self.charge(work(&driven.world));
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
pub(super) struct Operation {
    id: OpId,
    kind: &'static str,
    offset: u64,
    /// After the cut.
    is_of_recovery: bool,
}

/// The last of these.
fn last(requests: &[&CaseRequest], count: usize) -> Vec<CaseRequest> {
    let first = requests.len().saturating_sub(count);
    requests[first..].iter().copied().cloned().collect()
}

/// Those of these with the longest values, in their order.
fn longest(requests: &[&CaseRequest], count: usize) -> Vec<CaseRequest> {
    let length = |request: &CaseRequest| match &request.request {
        Request::Put { value, .. } => value.len(),
        Request::Batch { mutations, .. } => mutations.iter().map(value_len).sum(),
        _ => 0,
    };
    let mut ranked: Vec<usize> = (0..requests.len()).collect();
    ranked.sort_by_key(|at| std::cmp::Reverse(length(requests[*at])));
    ranked.truncate(count);
    ranked.sort_unstable();
    ranked.iter().map(|at| requests[*at].clone()).collect()
}

fn value_len(mutation: &Mutation) -> usize {
    match mutation {
        Mutation::Put { value, .. } => value.len(),
        Mutation::Delete { .. } => 0,
    }
}

fn is_write(request: &Request) -> bool {
    matches!(
        request,
        Request::Put { .. } | Request::Delete { .. } | Request::Batch { .. }
    )
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

/// Whether such a fault affects operations of this kind.
fn affects(fault: FaultKind, operation: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what is asked of a blank device is last, writes, or is longest, and stays in its order. Method: a list with each.
    #[test]
    fn a_few_requests_are_chosen_in_their_order() {
        let lines = [
            "0 put a 1:900",
            "1 put b 1:40",
            "0 batch put c 2:300, put d 2:200",
            "1 get a",
        ];
        let requests = lines.iter().map(|line| line.parse().expect("a request"));
        let requests: Vec<CaseRequest> = requests.collect();
        let all: Vec<&CaseRequest> = requests.iter().collect();
        let said = |asked: Vec<CaseRequest>| -> Vec<String> {
            asked.iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            said(last(&all, 2)),
            ["0 batch put c 2:300, put d 2:200", "1 get a"]
        );
        assert_eq!(
            said(longest(&all, 2)),
            ["0 put a 1:900", "0 batch put c 2:300, put d 2:200"]
        );
        assert_eq!(last(&all, 9).len(), 4);
        assert!(longest(&[], 2).is_empty());
        assert!(!is_write(&requests[3].request));
    }
}
