//! Where requests come from: clients that draw them, up to a number, or a list.

use std::collections::{BTreeMap, VecDeque};

use kvsim_sim::api::{Reply, Request};

use kvsim_scenario::case::CaseRequest;
use kvsim_workload::{ClientId, PRELOAD_WRITER, Workload};

/// The next request of each client.
#[derive(Debug, Clone)]
pub enum Source {
    /// Clients draw what they ask, so many requests in all.
    Drawn {
        /// The clients.
        workload: Box<Workload>,
        /// How many more.
        left: u64,
    },
    /// Each client asks what the list has for it, in order.
    Listed {
        /// Before the clients begin, one at a time.
        preload: VecDeque<Request>,
        /// Each client's.
        queues: BTreeMap<ClientId, VecDeque<(u64, Request)>>,
    },
}

impl Source {
    /// Clients that draw so many requests.
    pub fn drawn(workload: Workload, requests: u64) -> Source {
        Source::Drawn {
            workload: Box::new(workload),
            left: requests,
        }
    }

    /// These requests.
    pub fn listed(requests: &[CaseRequest]) -> Source {
        let mut preload = VecDeque::new();
        let mut queues: BTreeMap<ClientId, VecDeque<(u64, Request)>> = BTreeMap::new();
        for CaseRequest {
            client,
            think_ns,
            request,
        } in requests
        {
            if *client == PRELOAD_WRITER {
                preload.push_back(request.clone());
            } else {
                let queue = queues.entry(*client).or_default();
                queue.push_back((*think_ns, request.clone()));
            }
        }
        Source::Listed { preload, queues }
    }

    /// The next request of the preload.
    pub fn preload(&mut self) -> Option<Request> {
        match self {
            Source::Drawn { workload, .. } => workload.preload(),
            Source::Listed { preload, .. } => preload.pop_front(),
        }
    }

    /// The clients, in the order in which they begin.
    pub fn clients(&self) -> Vec<ClientId> {
        match self {
            Source::Drawn { workload, .. } => (0..workload.clients()).collect(),
            Source::Listed { queues, .. } => queues.keys().copied().collect(),
        }
    }

    /// A client's next request, and how long it thinks before it.
    pub fn next(&mut self, client: ClientId) -> Option<(u64, Request)> {
        match self {
            Source::Drawn { left: 0, .. } => None,
            Source::Drawn { workload, left } => {
                *left -= 1;
                let step = workload.next(client);
                Some((step.think_ns, step.request))
            }
            Source::Listed { queues, .. } => queues.get_mut(&client)?.pop_front(),
        }
    }

    /// A client has its answer.
    pub fn replied(&mut self, client: ClientId, reply: &Reply) {
        // The preload has no client that could be waiting.
        if let (Source::Drawn { workload, .. }, true) = (self, client != PRELOAD_WRITER) {
            workload.replied(client, reply);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvsim_sim::api::Status;
    use kvsim_workload::WorkloadConfig;

    /// Goal: an answer to the preload concerns no client. Method: clients that draw, with a preload, and the answer to it.
    #[test]
    fn the_preload_is_answered_to_no_client() {
        let config = WorkloadConfig {
            preload: 1,
            ..WorkloadConfig::default()
        };
        let workload = Workload::new(&config, 1).expect("it is possible");
        let mut source = Source::drawn(workload, 1);
        assert!(source.preload().is_some());
        let reply = Reply {
            id: 1,
            status: Status::Ok,
            body: kvsim_sim::api::Body::Empty,
        };
        source.replied(PRELOAD_WRITER, &reply);
        assert!(source.next(0).is_some());
    }
}
