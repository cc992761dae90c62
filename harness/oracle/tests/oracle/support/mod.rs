//! A laboratory for the oracle: a history made by hand, and a guest that shows whatever the test says.

use kvsim_api::value::{Stamp, generate, key_hash};
use kvsim_oracle::{
    CheckConfig, DeviceTruth, Ending, Observation, Opening, Oracle, OracleConfig, Recovery,
    Verification, Violation,
};
use kvsim_sim::GuestPolicies;
use kvsim_sim::api::{Body, Direction, Durability, Mutation, Reply, Request, RequestId, Status};
use std::collections::BTreeMap;

/// What a guest holds.
pub(crate) type State = BTreeMap<Vec<u8>, Vec<u8>>;
/// What a judgement comes to.
pub(crate) type Judged<T = ()> = Result<T, Box<Violation>>;

/// One value long enough to describe itself.
pub(crate) fn value(key: &str, number: u64) -> Vec<u8> {
    generate(
        Stamp {
            key_hash: key_hash(key.as_bytes()),
            writer: 1,
            number,
        },
        64,
        0,
    )
}

/// A state with these keys, each holding the value of this number.
pub(crate) fn state(entries: &[(&str, u64)]) -> State {
    entries
        .iter()
        .map(|(key, number)| (key.as_bytes().to_vec(), value(key, *number)))
        .collect()
}

pub(crate) fn put(key: &str, number: u64) -> Request {
    put_as(key, number, Durability::Durable)
}

pub(crate) fn relaxed(key: &str, number: u64) -> Request {
    put_as(key, number, Durability::Relaxed)
}

fn put_as(key: &str, number: u64, durability: Durability) -> Request {
    Request::Put {
        key: key.as_bytes().to_vec(),
        value: value(key, number),
        durability,
    }
}

pub(crate) fn delete(key: &str) -> Request {
    Request::Delete {
        key: key.as_bytes().to_vec(),
        durability: Durability::Durable,
    }
}

/// A batch of puts; number 0 deletes.
pub(crate) fn batch(mutations: &[(&str, u64)]) -> Request {
    let mutation = |&(key, number): &(&str, u64)| match number {
        0 => Mutation::Delete {
            key: key.as_bytes().to_vec(),
        },
        _ => Mutation::Put {
            key: key.as_bytes().to_vec(),
            value: value(key, number),
        },
    };
    Request::Batch {
        mutations: mutations.iter().map(mutation).collect(),
        durability: Durability::Durable,
    }
}

pub(crate) fn get(key: &str) -> Request {
    Request::Get {
        key: key.as_bytes().to_vec(),
        snapshot: 0,
    }
}

/// What an honest guest in this state answers to a read.
pub(crate) fn serve(state: &State, id: RequestId, request: &Request) -> Reply {
    match request {
        Request::Get { key, .. } => match state.get(key) {
            Some(value) => Reply {
                id,
                status: Status::Ok,
                body: Body::Value(value.clone()),
            },
            None => Reply {
                id,
                status: Status::NotFound,
                body: Body::Empty,
            },
        },
        Request::Scan(scan) => {
            let inside = state.iter().filter(|(key, _)| {
                scan.start.as_ref().is_none_or(|start| *key >= start)
                    && scan.end.as_ref().is_none_or(|end| *key < end)
            });
            let mut entries: Vec<_> = inside
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            if scan.direction == Direction::Reverse {
                entries.reverse();
            }
            let more = entries.len() > scan.limit as usize;
            entries.truncate(scan.limit as usize);
            Reply {
                id,
                status: Status::Ok,
                body: Body::Entries { entries, more },
            }
        }
        other => panic!("no read: {other:?}"),
    }
}

/// An oracle, its time and the device's truth.
#[derive(Clone)]
pub(crate) struct Lab {
    pub oracle: Oracle,
    pub truth: DeviceTruth,
    pub check: CheckConfig,
    pub now: u64,
    next_id: RequestId,
}

impl Lab {
    pub(crate) fn new() -> Lab {
        Lab::with(OracleConfig::default())
    }

    pub(crate) fn lying() -> Lab {
        Lab::with(OracleConfig {
            keep_history: true,
            ..OracleConfig::default()
        })
    }

    /// With a guest of these policies.
    pub(crate) fn of(policies: &str) -> Lab {
        Lab::with(OracleConfig {
            policies: GuestPolicies::parse(policies).unwrap(),
            ..OracleConfig::default()
        })
    }

    /// On a device of 1 MiB.
    pub(crate) fn on_a_device() -> Lab {
        let mut lab = Lab::new();
        lab.truth.capacity_bytes = 1 << 20;
        lab
    }

    pub(crate) fn with(config: OracleConfig) -> Lab {
        let check = CheckConfig {
            reverse_scan_every: 1,
            ..CheckConfig::default()
        };
        Lab {
            oracle: Oracle::new(config),
            truth: DeviceTruth::default(),
            check,
            now: 0,
            next_id: 1,
        }
    }

    /// Hands a request in.
    pub(crate) fn ask(&mut self, request: Request) -> RequestId {
        self.now += 10;
        self.next_id += 1;
        self.oracle.handed_in(self.now, 1, self.next_id, &request);
        self.next_id
    }

    /// Answers a request.
    pub(crate) fn answer(&mut self, id: RequestId, status: Status, body: Body) -> Judged {
        self.now += 10;
        self.oracle
            .replied(self.now, &Reply { id, status, body }, &self.truth)
    }

    /// Acknowledges a request.
    pub(crate) fn ack(&mut self, id: RequestId) {
        self.answer(id, Status::Ok, Body::Empty).unwrap();
    }

    /// Hands a request in and acknowledges it.
    pub(crate) fn done(&mut self, request: Request) {
        let id = self.ask(request);
        self.ack(id);
    }

    /// Hands a request in and fails it.
    pub(crate) fn failed(&mut self, request: Request, status: Status) {
        let id = self.ask(request);
        self.answer(id, status, Body::Empty).unwrap();
    }

    /// Hands a read in and answers it from `state`.
    pub(crate) fn read(&mut self, request: Request, state: &State) -> Judged {
        let id = self.ask(request.clone());
        let reply = serve(state, id, &request);
        self.oracle.replied(self.now, &reply, &self.truth)
    }

    pub(crate) fn crash(&mut self) {
        self.now += 1_000;
        self.oracle.stopped(self.now, Ending::Crash);
        let reply = Reply {
            id: 0,
            status: Status::Ok,
            body: Body::Empty,
        };
        assert_eq!(
            self.oracle.opened(&reply, &self.truth).unwrap(),
            Opening::Ready
        );
    }

    /// Reads back with a guest that answers as `guest` says.
    pub(crate) fn observe_with(&self, mut guest: impl FnMut(&Request) -> Reply) -> Observation {
        let mut verification = Verification::new(&self.oracle, &self.check);
        while !verification.is_done() {
            let (token, request) = verification
                .next_request(&self.oracle)
                .expect("it waits for nothing");
            verification.reply(&self.oracle, token, &guest(&request));
        }
        verification.finish()
    }

    pub(crate) fn observe(&self, state: &State) -> Observation {
        self.observe_with(|request| serve(state, 7, request))
    }

    /// Judges a guest that shows `state`.
    pub(crate) fn judge(&self, state: &State) -> Judged<Recovery> {
        self.oracle.judge(&self.observe(state), &self.truth)
    }

    /// A crash, and a recovery that shows `state` and is right to.
    pub(crate) fn recover(&mut self, state: &State) -> Recovery {
        self.crash();
        let seen = self.observe(state);
        let recovery = self.oracle.judge(&seen, &self.truth).unwrap();
        self.now += 1_000;
        self.oracle.adopt(self.now, &recovery, &seen, &self.truth);
        recovery
    }

    /// What is thought of a guest that shows `state` after work that nobody has read back until now.
    pub(crate) fn judge_late(&mut self, state: &State) -> Judged {
        let reader = Lab {
            oracle: self.oracle.for_late_reading(),
            ..self.clone()
        };
        let seen = reader.observe(state);
        self.oracle.judge_late(&seen, &self.truth).map(|_| ())
    }

    /// A kill of the process, and whether a recovery that shows `state` is legal.
    pub(crate) fn kill_showing(&mut self, state: &State) -> bool {
        self.now += 1_000;
        self.oracle.stopped(self.now, Ending::Kill);
        self.judge(state).is_ok()
    }

    /// A crash, and what is thought of a recovery that shows `state`.
    pub(crate) fn crash_showing(&mut self, state: &State) -> Judged {
        self.crash();
        self.judge(state).map(|_| ())
    }
}
