//! The operations, acknowledgements and completions of a case, process run by process run, as places at which something may be missing.

use std::collections::BTreeMap;

use kvsim_sim::api::{Durability, Request, RequestId};
use kvsim_sim::{Place, Trace, TraceEvent};
use kvsim_simdisk::OpId;

use kvsim_api::units::thousands;
use kvsim_scenario::case::CaseRequest;

/// An operation of the device.
struct Operation {
    kind: &'static str,
    offset: u64,
    len_bytes: u64,
}

/// What happened in a case, in order.
#[derive(Default)]
pub(super) struct Timeline {
    /// By process run, in order; without what cannot matter: reads, and the answers to what is read back after a recovery.
    pub(super) process_runs: Vec<Vec<Place>>,
    /// By process run, in order: answers, and the completions of whatever is not a read.
    pub(super) ends: Vec<Vec<Place>>,
    /// How many places of its process run came before a request.
    arrivals: BTreeMap<RequestId, usize>,
    operations: BTreeMap<OpId, Operation>,
    requests: BTreeMap<RequestId, CaseRequest>,
}

impl Timeline {
    pub(super) fn new(trace: &Trace, sent: Vec<(RequestId, CaseRequest)>) -> Timeline {
        let mut timeline = Timeline {
            requests: sent.into_iter().collect(),
            ..Timeline::default()
        };
        for record in trace.events() {
            match record.event {
                TraceEvent::Open { .. } => {
                    timeline.process_runs.push(Vec::new());
                    timeline.ends.push(Vec::new());
                }
                TraceEvent::Request { id, .. } => {
                    let before = timeline.process_runs.last().map_or(0, Vec::len);
                    timeline.arrivals.insert(id, before);
                }
                TraceEvent::Submit {
                    op,
                    kind,
                    offset,
                    len_bytes,
                    ..
                } if kind != "read" => {
                    let operation = Operation {
                        kind,
                        offset,
                        len_bytes,
                    };
                    timeline.operations.insert(op, operation);
                    timeline.push(Place::Submitting(op));
                }
                TraceEvent::Complete {
                    op, error: None, ..
                } if timeline.operations.contains_key(&op) => {
                    if timeline.changes(op) {
                        timeline.push(Place::Completed(op));
                    }
                    timeline.end(Place::Completed(op));
                }
                TraceEvent::Reply { id, .. } if id == 0 || timeline.requests.contains_key(&id) => {
                    timeline.push(Place::Replying(id));
                    timeline.end(Place::Replying(id));
                }
                _ => {}
            }
        }
        timeline
    }

    fn push(&mut self, place: Place) {
        if let Some(process_run) = self.process_runs.last_mut() {
            process_run.push(place);
        }
    }

    fn end(&mut self, place: Place) {
        if let Some(process_run) = self.ends.last_mut() {
            process_run.push(place);
        }
    }

    /// Whether a client is told by this answer that something is written or durable, and nothing was written for it since it asked.
    pub(super) fn is_rash(&self, process_run: usize, id: RequestId) -> bool {
        use Request::{Get, Release, Scan, Snapshot};
        let Some(asked) = self.requests.get(&id) else {
            return false;
        };
        if matches!(
            asked.request,
            Get { .. } | Scan(_) | Snapshot | Release { .. }
        ) {
            return false;
        }
        let places = self
            .process_runs
            .get(process_run)
            .map_or(&[][..], Vec::as_slice);
        let from = self.arrivals.get(&id).copied().unwrap_or(0);
        let since = places.iter().skip(from);
        let mut until = since.take_while(|place| **place != Place::Replying(id));
        !until.any(|place| matches!(place, Place::Submitting(op) if self.changes(*op)))
    }

    /// Whether this answers a write that need not be durable yet.
    pub(super) fn is_relaxed(&self, id: RequestId) -> bool {
        use Request::{Batch, Delete, Put};
        let asked = self.requests.get(&id).map(|asked| &asked.request);
        asked.is_some_and(|asked| match asked {
            Put { durability, .. } | Delete { durability, .. } | Batch { durability, .. } => {
                *durability == Durability::Relaxed
            }
            _ => false,
        })
    }

    /// Whether an operation puts something into the cache.
    pub(super) fn changes(&self, op: OpId) -> bool {
        let operation = self.operations.get(&op);
        operation.is_some_and(|operation| operation.kind != "flush")
    }

    /// Whether it is a write that is not written through.
    pub(super) fn is_cached_write(&self, op: OpId) -> bool {
        let operation = self.operations.get(&op);
        operation.is_some_and(|operation| operation.kind == "write")
    }

    /// The bytes that an operation touches: offset and length.
    pub(super) fn range(&self, op: OpId) -> Option<(u64, u64)> {
        let operation = self.operations.get(&op)?;
        Some((operation.offset, operation.len_bytes))
    }

    /// An operation, in words.
    pub(super) fn operation(&self, op: OpId) -> String {
        let Some(Operation {
            kind,
            offset,
            len_bytes,
        }) = self.operations.get(&op)
        else {
            return format!("operation {op}");
        };
        let what = match *kind {
            "flush" => "the flush".to_owned(),
            "grow" => format!("the growth to {} bytes", thousands(*offset)),
            kind => format!(
                "the {} of {} bytes at offset {}",
                if kind == "discard" { kind } else { "write" },
                thousands(*len_bytes),
                thousands(*offset)
            ),
        };
        format!("operation {op} ({what})")
    }

    /// An answer, in words.
    pub(super) fn answer(&self, id: RequestId) -> String {
        match self.requests.get(&id) {
            Some(request) => format!("the acknowledgement of `{request}`"),
            None => "the answer that it is open".to_owned(),
        }
    }

    /// What happens at a place, in words.
    pub(super) fn what(&self, place: Place) -> String {
        match place {
            Place::Submitting(op) | Place::Submitted(op) | Place::Completed(op) => {
                self.operation(op)
            }
            Place::Replying(id) => self.answer(id),
            Place::Called(op) => format!("call {op}"),
        }
    }
}
