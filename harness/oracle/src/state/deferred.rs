//! Requests and answers that are kept until a recovery has been read back.

use crate::truth::DeviceTruth;
use kvsim_sim::api::{Mutation, Reply, Request, RequestId};
use kvsim_simdisk::Nanos;
use std::collections::BTreeSet;

/// What the oracle would have been told.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    HandedIn {
        now: Nanos,
        client: u32,
        id: RequestId,
        request: Request,
    },
    Replied {
        now: Nanos,
        reply: Reply,
        truth: Box<DeviceTruth>,
    },
}

/// Requests and answers that wait to be judged.
#[derive(Debug, Clone)]
pub(crate) struct Deferred {
    pub(crate) began_ns: Nanos,
    pub(crate) events: Vec<Event>,
    pub(crate) handed_in: u64,
    pub(crate) replied: u64,
}

impl Deferred {
    pub(crate) fn hand_in(&mut self, now: Nanos, client: u32, id: RequestId, request: &Request) {
        self.handed_in += 1;
        self.events.push(Event::HandedIn {
            now,
            client,
            id,
            request: request.clone(),
        });
    }

    pub(crate) fn reply(&mut self, now: Nanos, reply: &Reply, truth: &DeviceTruth) {
        self.replied += 1;
        self.events.push(Event::Replied {
            now,
            reply: reply.clone(),
            truth: Box::new(truth.clone()),
        });
    }

    /// The names of all keys that were to be written.
    pub(crate) fn named(&self) -> BTreeSet<&[u8]> {
        self.keys_of_requests(|_| true)
    }

    /// The names of the keys that may have been written: of a request that was refused nothing is.
    pub(crate) fn written(&self) -> BTreeSet<&[u8]> {
        let refused: BTreeSet<RequestId> = self
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Replied { reply, .. } => {
                    reply.status.is_definite_failure().then_some(reply.id)
                }
                Event::HandedIn { .. } => None,
            })
            .collect();
        self.keys_of_requests(|id| !refused.contains(&id))
    }

    fn keys_of_requests(&self, is_wanted: impl Fn(RequestId) -> bool) -> BTreeSet<&[u8]> {
        let requests = self.events.iter().filter_map(|event| match event {
            Event::HandedIn { id, request, .. } => is_wanted(*id).then_some(request),
            Event::Replied { .. } => None,
        });
        requests.flat_map(written).collect()
    }
}

/// The names of the keys that a request writes.
fn written(request: &Request) -> Vec<&[u8]> {
    match request {
        Request::Put { key, .. } | Request::Delete { key, .. } => vec![key],
        Request::Batch { mutations, .. } => {
            let names = mutations.iter().map(|mutation| {
                let (Mutation::Put { key, .. } | Mutation::Delete { key }) = mutation;
                &key[..]
            });
            names.collect()
        }
        _ => Vec::new(),
    }
}
