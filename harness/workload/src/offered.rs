//! A workload that asks a guest only for what it offers.

use kvsim_sim::Offers;
use kvsim_sim::api::{Direction, Durability, Mutation, Request};

use crate::config::WorkloadConfig;

/// The same workload without what is not offered. What remains is drawn as often as before, relative to each other.
pub(crate) fn offered(config: &WorkloadConfig, offers: &Offers) -> WorkloadConfig {
    let mut config = config.clone();
    let weights = &mut config.operations;
    // A snapshot of a workload is read by a get and by a scan.
    let snapshot = offers.snapshot && offers.scan;
    for (weight, is_offered) in [
        (&mut weights.batch, offers.batch),
        (&mut weights.scan, offers.scan),
        (&mut weights.snapshot, snapshot),
        (&mut weights.sync, offers.sync),
    ] {
        if !is_offered {
            *weight = 0;
        }
    }
    if !offers.reverse_scan {
        config.reverse_fraction = 0.0;
    }
    if !offers.relaxed {
        config.durable_fraction = 1.0;
    }
    config
}

/// What is left to ask instead of a request, or in place of one that came from elsewhere; nothing if none of it is offered.
pub(crate) fn only_offered(request: Request, offers: &Offers) -> Option<Request> {
    let is_offered = match &request {
        Request::Batch { .. } => offers.batch,
        Request::Scan(scan) => {
            let backwards = scan.direction == Direction::Reverse;
            offers.scan
                && (offers.reverse_scan || !backwards)
                && (offers.snapshot || scan.snapshot == 0)
        }
        Request::Get { snapshot, .. } => offers.snapshot || *snapshot == 0,
        Request::Snapshot | Request::Release { .. } => offers.snapshot,
        Request::Sync => offers.sync,
        Request::Put { .. } | Request::Delete { .. } | Request::Close => true,
    };
    is_offered.then(|| durable_if_needed(request, offers))
}

fn durable_if_needed(mut request: Request, offers: &Offers) -> Request {
    if let Request::Put { durability, .. }
    | Request::Delete { durability, .. }
    | Request::Batch { durability, .. } = &mut request
        && !offers.relaxed
    {
        *durability = Durability::Durable;
    }
    request
}

/// The requests that write these records: one batch, or one put for each where there are no batches. The last one comes first.
pub(crate) fn preload(mut mutations: Vec<Mutation>, offers: &Offers) -> Vec<Request> {
    let durability = Durability::Durable;
    let put = |mutation: Mutation| match mutation {
        Mutation::Put { key, value } => Request::Put {
            key,
            value,
            durability,
        },
        Mutation::Delete { key } => Request::Delete { key, durability },
    };
    if offers.batch && mutations.len() > 1 {
        return vec![Request::Batch {
            mutations,
            durability,
        }];
    }
    mutations.reverse();
    mutations.into_iter().map(put).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Workload, WorkloadKind};

    /// Goal: a guest that offers nothing but puts, deletes and gets is asked for nothing else, and still for those, edge cases and the preload among them.
    /// Method: ten thousand requests of the workload that has everything.
    #[test]
    fn nothing_is_asked_that_is_not_offered() {
        let offers = Offers {
            batch: false,
            scan: false,
            reverse_scan: false,
            snapshot: false,
            relaxed: false,
            sync: false,
            ..Offers::default()
        };
        let config = WorkloadConfig {
            edge_cases: 0.2,
            at_limits: 0.2,
            preload: 200,
            ..WorkloadConfig::of_kind(WorkloadKind::ScanMix)
        };
        let mut workload = Workload::new(&config, 3).unwrap().offered(offers).unwrap();
        let loaded: Vec<Request> = std::iter::from_fn(|| workload.preload()).collect();
        assert_eq!(loaded.len(), 200);
        let clients = workload.clients();
        let asked: Vec<Request> = (0..10_000)
            .map(|at| workload.next(at % clients).request)
            .collect();
        let mut kinds = [0; 3];
        for request in asked.iter().chain(&loaded) {
            match request {
                Request::Put { durability, .. } => {
                    assert_eq!(*durability, Durability::Durable);
                    kinds[0] += 1;
                }
                Request::Delete { durability, .. } => {
                    assert_eq!(*durability, Durability::Durable);
                    kinds[1] += 1;
                }
                Request::Get { snapshot: 0, .. } => kinds[2] += 1,
                other => panic!("not offered: {other:?}"),
            }
        }
        assert!(kinds.iter().all(|count| *count > 500), "{kinds:?}");
    }

    /// Goal: a workload of which nothing is left says so. Method: scans only, to a guest without scans.
    #[test]
    fn a_workload_of_which_nothing_is_left_is_refused() {
        let config = WorkloadConfig {
            operations: crate::OperationWeights {
                scan: 1,
                ..Default::default()
            },
            ..Default::default()
        };
        let offers = Offers {
            scan: false,
            ..Offers::default()
        };
        let error = Workload::new(&config, 3)
            .unwrap()
            .offered(offers)
            .unwrap_err();
        assert_eq!(error.field, "operations");
    }
}
